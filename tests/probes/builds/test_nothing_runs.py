"""Reading runs nothing of what it reads: an audit hook watches a whole reading of a tree full of traps."""

from __future__ import annotations

import compileall
import posixpath
import subprocess
import sys
from pathlib import Path

import pytest
from small_engine import installed, lay, library, package

from archives import tarred, zipped

SITE = "lib/python3.12/site-packages"
TRAP = "import os\nopen(os.path.join(os.environ['TRAP_FOLDER'], 'sprung'), 'w').close()\n"
ENGINE_FILES = {
    "eng": ("__init__.py", "registry.py", "version.py", "plugins/__init__.py"),
    "vllm": (
        "__init__.py", "version.py", "_version.py", "config.py", "model_executor/models/registry.py",
        "model_executor/models/__init__.py", "model_executor/models/alpha.py", "transformers_utils/config.py",
        "transformers_utils/configs/__init__.py", "model_executor/layers/quantization/__init__.py",
        "engine/arg_utils.py", "reasoning/__init__.py", "plugins/__init__.py", "platforms/cuda.py",
    ),
    "sglang": (
        "__init__.py", "version.py", "srt/models/registry.py", "srt/models/alpha.py", "srt/server_args.py",
        "srt/configs/model_config.py", "srt/utils/hf_transformers_utils.py", "srt/layers/quantization/__init__.py",
    ),
    "transformers": ("__init__.py", "models/auto/configuration_auto.py", "models/auto/modeling_auto.py"),
    "tensorrt-llm": (
        "__init__.py", "version.py", "_torch/models/__init__.py", "_torch/models/modeling_alpha.py",
        "_torch/models/_arch_index.py", "models/__init__.py", "commands/serve.py", "quantization/mode.py",
        "llmapi/llm_utils.py", "llmapi/reasoning_parser.py", "_torch/pyexecutor/config_utils.py",
    ),
    "llama.cpp": (
        "__init__.py", "llama_cpp.py", "../vendor/llama.cpp/convert_hf_to_gguf.py",
        "../vendor/llama.cpp/conversion/__init__.py", "../vendor/llama.cpp/conversion/alpha.py",
        "../vendor/llama.cpp/gguf-py/gguf/constants.py", "../vendor/llama.cpp/src/llama-arch.cpp",
    ),
}  # fmt: skip
PACKAGES = {"llama.cpp": "llama_cpp", "tensorrt-llm": "tensorrt_llm"}
"""Where the import package has another name than the engine."""
PROJECTS = {"llama.cpp": "llama_cpp_python", "tensorrt-llm": "tensorrt_llm"}
"""The same for the distribution, as file names spell it."""

WATCH = """
import sys
import encodings.cp437, encodings.idna
root, target, name = sys.argv[1:4]
armed = False
wrong = []
def watch(event, arguments):
    if not armed:
        return
    if event == "exec" and root in arguments[0].co_filename:
        wrong.append(("exec", arguments[0].co_filename))
    elif event == "compile" and arguments[1] != "<unknown>":  # that is what ast.parse calls a text
        if root in str(arguments[1]) or "sprung" in str(arguments[0]):
            wrong.append(("compile", arguments[1]))
    elif event == "import" and str(arguments[0]).split(".")[0] in (
        "eng", "vllm", "sglang", "transformers", "torch", "llama_cpp", "tensorrt_llm", "conversion", "gguf"
    ):
        wrong.append(("import", arguments[0]))
    elif event == "open" and isinstance(arguments[0], str) and root in arguments[0]:
        if isinstance(arguments[2], int) and arguments[2] & 3 and "/cache/" not in arguments[0]:
            wrong.append(("write", arguments[0]))
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "ctypes.dlopen",
                   "socket.connect", "socket.getaddrinfo", "pickle.find_class", "marshal.loads", "code.__new__"):
        if event != "marshal.loads" or root in repr(arguments):
            wrong.append((event, repr(arguments)[:100]))
sys.addaudithook(watch)
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[4])
from pathlib import Path
from small_engine import SmallEngine
from canserve.engines import engines
from canserve.facts import Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from canserve.trees.index.pip_config import PipConfig
def read_table(sources, version):
    for path in sources.under("transformers"):
        sources.tree(path)
    from canserve.probes.build import NO_TABLE
    return NO_TABLE
options = BuildOptions(
    offline=True, cache=Cache(Path(root) / "cache"), engines=(SmallEngine(), *engines()), read_table=read_table,
    config=PipConfig(),
)
armed = True
reading = read_build(f"{name} @ {target}", Want.everything(), options)
armed = False
assert isinstance(reading.build, Build), reading
assert reading.build.identity.engine == name
assert wrong == [], wrong
"""


def traps(folder: str, name: str) -> dict[str, str]:
    """The engine's package with a trap in each file."""
    inside = PACKAGES.get(name, name)
    files = {posixpath.normpath(f"{inside}/{path}"): TRAP for path in ENGINE_FILES[name]}
    if name == "eng":
        files = {path: TRAP + text for path, text in package("").items()}
    return {f"{folder}/{path}".lstrip("/"): text for path, text in files.items()}


def environment(root: Path, name: str) -> Path:
    """A virtual environment in which everything that Python would run on its own is a trap."""
    project = PROJECTS.get(name, name)
    lay(root, {
        "pyvenv.cfg": "", **traps(SITE, name), **traps(SITE, "transformers"), **installed(SITE, project, "1.2"),
        **installed(SITE, "transformers", "5.0.0.dev0"), **library(SITE, "torch", "2.9.1"),
        f"{SITE}/torch/__init__.py": TRAP, f"{SITE}/sitecustomize.py": TRAP, f"{SITE}/usercustomize.py": TRAP,
        f"{SITE}/zz.pth": f"import os; {TRAP.splitlines()[1]}\nimport trap_finder\n", f"{SITE}/trap_finder.py": TRAP,
        f"{SITE}/{project}-1.2.dist-info/entry_points.txt": f"[{name}.general_plugins]\nx = trap_finder:run\n",
        "conftest.py": TRAP, "setup.py": TRAP, f"{SITE}/numpy.py": TRAP, f"{SITE}/json.py": TRAP, "ast.py": TRAP,
    })  # fmt: skip
    compileall.compile_dir(root, quiet=2)
    return root


@pytest.mark.parametrize("name", ["eng", "vllm", "sglang", "tensorrt-llm", "llama.cpp"])
@pytest.mark.parametrize("kind", ["environment", "checkout", "wheel", "sdist"])
def test_no_trap_is_sprung(tmp_path: Path, name: str, kind: str) -> None:
    target = tmp_path / "target"
    project = PROJECTS.get(name, name)
    match kind:
        case "environment":
            environment(target, name)
        case "checkout":
            lay(target, {**traps("", name), "setup.py": TRAP, "conftest.py": TRAP, "pyproject.toml": ""})
        case "wheel":
            target = tmp_path / f"{project}-1.2-py3-none-any.whl"
            target.write_bytes(
                zipped({**traps("", name), **installed("", project, "1.2"), "x.pth": "import os"})
            )
        case _:
            target = tmp_path / f"{project}-1.2.tar.gz"
            target.write_bytes(tarred({**traps(f"{project}-1.2", name), f"{project}-1.2/setup.py": TRAP}))
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(tmp_path), str(target), name, str(Path(__file__).parent)],
        capture_output=True, text=True, timeout=120, check=False,
        cwd=target if target.is_dir() else tmp_path,
        env={"TRAP_FOLDER": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "sprung").exists()


def test_the_traps_work(tmp_path: Path) -> None:
    """One that is imported is sprung: the other tests can fail."""
    lay(tmp_path, traps("", "vllm"))
    env = {"TRAP_FOLDER": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import vllm"], check=True, timeout=60, env=env)
    assert (tmp_path / "sprung").exists()
