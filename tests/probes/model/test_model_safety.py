"""Nothing of a model runs, nothing is written, nothing leaves its folder, and memory stays small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from model_making import folder, safetensors, small_gguf

REMOTE_CODE = "import os\nos.system('touch ran')\nopen('ran', 'w')\nraise SystemExit('ran')\n"
PICKLE = b"cos\nsystem\n(S'touch ran'\ntR."

WATCH = """
import sys
import canserve.probes.model.reading  # everything of ours is imported before the watch begins
import encodings.unicode_escape, encodings.utf_8, encodings.ascii
FORBIDDEN = set('''exec compile import subprocess.Popen os.system os.exec os.fork os.mkdir os.remove os.rename
    pickle.find_class socket.connect socket.getaddrinfo ctypes.dlopen'''.split())
seen = []
def watch(event, args):
    if event in FORBIDDEN:
        seen.append((event, str(args)[:200]))
    if event == "open":
        path, mode, flags = args
        if (isinstance(flags, int) and flags & 3) or (isinstance(path, str) and not path.startswith(ROOT)):
            seen.append((event, str(args)[:200]))
ROOT = sys.argv[1]
sys.addaudithook(watch)
for spec in sys.argv[2:]:
    canserve.probes.model.reading.read_model(spec)
print(seen)
"""


def test_an_audit_hook_sees_only_reads_inside_the_models_folder(tmp_path: Path) -> None:
    config = {
        "auto_map": {"AutoConfig": "configuration_evil.C", "AutoModel": "modeling_evil.M"},
        "model_type": "e",
    }
    path = folder(
        tmp_path / "model",
        {
            "config.json": config,
            "configuration_evil.py": REMOTE_CODE,
            "modeling_evil.py": REMOTE_CODE,
            "tokenization_evil.py": REMOTE_CODE,
            "processing_evil.py": REMOTE_CODE,
            "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["tokenization_evil.T", None]}},
            "chat_template.jinja": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
            "pytorch_model.bin": PICKLE,
            "model.safetensors": safetensors({"w": ("F32", (3,))}),
            "x.gguf": small_gguf(),
        },
    )
    arguments = [
        str(tmp_path),
        str(path),
        str(path / "config.json"),
        str(path / "x.gguf"),
        str(path / "pytorch_model.bin"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


MEASURE = r"""
import re, sys, time
from canserve.probes.model import read_model
begin = time.process_time()
model = read_model(sys.argv[1])
status = open("/proc/self/status").read()  # not ru_maxrss: Linux hands that of the parent on to its children
print(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024, time.process_time() - begin)
"""


def peak(path: Path) -> tuple[int, float]:
    """Bytes of resident memory at its highest, seconds of processor time."""
    command = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory, seconds = done.stdout.split()
    return int(memory), float(seconds)


def hostile_folders() -> dict[str, dict[str, bytes]]:
    """Files at the limits of what is read, and just beyond."""
    limit = b'{"a": [' + b"{}," * 190_000 + b"1" + b",1" * 800_000 + b"]}"
    tensors = {f"model.layers.{n}.mlp.experts.7.down_proj.weight": ("U8", (1,)) for n in range(250_000)}
    promised = (b'"t%d": "model.safetensors"' % n for n in range(1_200_000))
    names = b"".join(b"\3\0\0\0\0\0\0\0abc" for _ in range(5_000_000))
    vocabulary = b"\4\0\0\0\0\0\0\0list\x09\0\0\0\x08\0\0\0" + (5_000_000).to_bytes(8, "little") + names
    return {
        "bulk": {"config.json": b"[" + b"[]," * 5_000_000 + b"1]"},
        "limit": {"config.json": limit, "tokenizer_config.json": limit, "generation_config.json": limit},
        "large": {"config.json": b"{}" + b" " * 100_000_000},
        "header": {"config.json": b"{}", "model.safetensors": safetensors(tensors)},
        "index": {"config.json": b"{}", "model.safetensors": b"",
                  "model.safetensors.index.json": b'{"weight_map": {' + b",".join(promised) + b"}}"},
        "gguf": {"m.gguf": b"GGUF\3" + bytes(11) + b"\1" + bytes(7) + vocabulary},
    }  # fmt: skip


@pytest.mark.slow
def test_an_index_cannot_make_many_large_reads(tmp_path: Path) -> None:
    """Sixteen sparse files, each promised so many tensors that a header of theirs would take 17 MB."""
    names = [f"{n}.safetensors" for n in range(16)]
    for name in names:
        with (folder(tmp_path, {"config.json": b"{}"}) / name).open("wb") as file:
            file.write((30 << 20).to_bytes(8, "little"))
            file.truncate(200 << 20)
    promised = b",".join(f'"{n}":"{names[n % 16]}"'.encode() for n in range(1_500_000))
    folder(tmp_path, {"model.safetensors.index.json": b'{"weight_map": {' + promised + b"}}"})
    memory, seconds = peak(tmp_path)
    assert memory < 150e6, f"{memory / 1e6:.0f} MB"
    assert seconds < 20


@pytest.mark.slow
def test_a_process_stays_below_150_megabytes_whatever_the_files_hold(tmp_path: Path) -> None:
    for name, files in hostile_folders().items():
        memory, seconds = peak(folder(tmp_path / name, files))
        print(f"{name}: {memory / 1e6:.0f} MB, {seconds:.2f} s")
        assert memory < 150e6, f"{name}: {memory / 1e6:.0f} MB"
        assert seconds < 20, f"{name}: {seconds:.1f} s"


def test_the_reader_starts_fast_and_light() -> None:
    """Reading a folder loads no HTTP client."""
    script = (
        "import sys, canserve.probes.model as m; m.read_model('.'); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import json; " + script], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"huggingface_hub", "httpx", "httpx2", "requests", "jinja2", "torch", "transformers"}
