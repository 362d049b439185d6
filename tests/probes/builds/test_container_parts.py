"""Names, folders to read, refusals of engines, and what comes over: the parts of reading containers."""

from __future__ import annotations

import io
import json
import os
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_engine import ENGINES

from canserve.facts import Cause, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.probes.container.areas import Area, first_areas, further_areas, holds, outermost, within
from canserve.probes.container.changes import understood
from canserve.probes.container.naming import Held, NamingError, held
from canserve.subjects.build import Want
from canserve.trees.container import records, skim
from canserve.trees.container.state import Kept
from canserve.trees.image.layer import FILE, FOLDER, LINK, Layer, Node
from canserve.trees.image.manifest import Config
from made_images import hard, layer, link

DIGEST = "sha256:" + "a" * 64
SITE = "usr/local/lib/python3.12/dist-packages"


@pytest.mark.parametrize(
    ("target", "kind", "name", "programs", "machine"),
    [
        ("container://vllm", "container", "vllm", ("docker", "podman"), "local"),
        ("container://vllm@spark-1", "container", "vllm", ("docker", "podman"), "spark-1"),
        ("container://vllm@me@10.0.0.2", "container", "vllm", ("docker", "podman"), "me@10.0.0.2"),
        ("docker-daemon:vllm/vllm-openai:v0.17", "image", "vllm/vllm-openai:v0.17", ("docker",), "local"),
        ("docker-daemon:host:5000/a/b:1@me@box", "image", "host:5000/a/b:1", ("docker",), "me@box"),
        (f"docker-daemon:a/b@{DIGEST}@box", "image", f"a/b@{DIGEST}", ("docker",), "box"),
        (f"docker-daemon:a/b@{DIGEST}", "image", f"a/b@{DIGEST}", ("docker",), "local"),
        ("docker://a/b:1@local", "image", "a/b:1", ("docker",), "local"),
        ("podman:a:1@box", "image", "a:1", ("podman",), "box"),
        ("containers-storage:localhost/a:1", "image", "localhost/a:1", ("podman",), "local"),
    ],
)
def test_names(target: str, kind: str, name: str, programs: tuple[str, ...], machine: str) -> None:
    assert held(target) == Held(target, kind, name, programs, machine)


@pytest.mark.parametrize(
    "target", ["docker://a/b:1", f"docker://a/b@{DIGEST}", "vllm==0.17.1", "oci-archive:f"]
)
def test_names_of_other_things(target: str) -> None:
    assert held(target) is None


@pytest.mark.parametrize(
    "target", ["container://", "container://-x", "container://a b", "container://a@-oProxyCommand=x",
               "docker:a/b:1", "container:a", "docker-daemon:", "docker-daemon:$(x)", "podman:a@b c", "docker://a@;reboot"],
)  # fmt: skip
def test_what_is_no_name_reaches_no_shell(target: str) -> None:
    with pytest.raises(NamingError):
        held(target)


def config(**environment: str) -> Config:
    return Config("linux/arm64", "aarch64", environment, (), (), {})


def paths(areas: list[Area]) -> list[str]:
    return [area.path for area in areas]


def test_variables_say_where_python_is() -> None:
    got = paths(
        first_areas(config(PATH="/opt/env/bin:/usr/local/cuda/bin:/usr/bin:/bin", PYTHONPATH="/src/vllm::x"))
    )
    assert {
        "opt/env/lib",
        "opt/env/pyvenv.cfg",
        "usr/lib/python3/dist-packages",
        "usr/local/lib",
        "src/vllm",
    } <= {*got}
    assert not any("cuda/lib" in path for path in got) and "x" not in got and "" not in got
    assert "root/.local/lib" in got


def test_variables_that_lie() -> None:
    got = paths(
        first_areas(
            config(PATH="/../../etc/bin:/a\nb/bin:/bin", PYTHONPATH="/:/..:/usr/local/lib/x", HOME="/")
        )
    )
    assert all(path and ".." not in path and path.isprintable() for path in got)
    assert "usr/local/lib/x" not in got  # it lies in another one


def test_outermost_and_within() -> None:
    assert outermost(["a/b", "a", "c/d", "c/d/e", "ab"]) == ["a", "c/d", "ab"]
    assert within("a/b/c", {"a/b"}) and not within("a/bc", {"a/b"}) and within("x", {""})


def test_leads_to_other_folders() -> None:
    texts = {
        f"{SITE}/x.pth": b"/opt/one\nimport os\n../../beside\n",
        f"{SITE}/__editable___eng_finder.py": b"MAPPING = {'eng': '/opt/two/eng', 'other': '/opt/never/other'}\n",
        f"{SITE}/eng.egg-link": b"/opt/three\n.\n",
        f"{SITE}/eng-1.dist-info/direct_url.json": b'{"url": "file:///opt/four", "dir_info": {"editable": true}}',
        f"{SITE}/other-1.dist-info/direct_url.json": b'{"url": "file:///opt/no", "dir_info": {"editable": true}}',
        "elsewhere/y.pth": b"/opt/five\n",
    }
    nodes = {path: Node(FILE, len(data)) for path, data in texts.items()}
    nodes |= {
        f"{SITE}/eng": Node(LINK, target="../../../../../opt/six/eng"),
        "lib": Node(LINK, target="usr/lib"),
    }
    made = Layer(nodes, packed={path: zlib.compress(data) for path, data in texts.items()})
    got = {area.path for area in further_areas(made, {"usr/local/lib"}, {"eng"})}
    assert got == {"opt/one", "opt/two", "opt/three", "opt/four", "opt/six/eng"}
    assert not holds(made, {"eng"})
    assert holds(Layer({f"{SITE}/eng/__init__.py": Node(FILE)}), {"eng"})
    assert not holds(Layer({f"{SITE}/x/eng.py": Node(FILE), "xeng/__init__.py": Node(FILE)}), {"eng"})


def skimmed(folder: Path, archives: dict[str, bytes], **changed: object) -> records.Skimmed:
    """What ``skim`` makes of archives that a command writes."""
    areas = []
    for name, data in archives.items():
        (folder / name.replace("/", "_")).write_bytes(data)
        areas.append({"argv": ["cat", str(folder / name.replace("/", "_"))], "below": name, "most": 1 << 30})
    plan = {
        "areas": areas,
        "keep": r"\.py$",
        "largest": 100,
        "room": 1000,
        "seconds": 30,
        "width": 2,
        **changed,
    }
    out = io.BytesIO()
    skim.main(json.loads(json.dumps(plan)), out)
    return records.read(out.getvalue())


TAR = layer({
    "d": None, "d/a.py": b"x = 1\n", "d/big.py": b"y" * 101, "d/lib.so": b"z" * 5000, "d/l": link("a.py"),
    "d/h": hard("d/a.py"), "./d/\u00e9.py": b"e",
})  # fmt: skip


def test_an_archive_is_thinned_out(tmp_path: Path) -> None:
    got = skimmed(tmp_path, {"usr": TAR})
    assert got.trouble is None and got.areas[0].whole
    nodes = got.layer.nodes
    assert nodes["usr/d/lib.so"] == Node(FILE, 5000) and got.layer.content("usr/d/lib.so") is None
    assert got.layer.content("usr/d/a.py") == b"x = 1\n" and got.layer.content("usr/d/big.py") is None
    assert nodes["usr/d/l"].target == "a.py" and nodes["usr/d/h"].target == "usr/d/a.py"
    assert got.layer.content("usr/d/\u00e9.py") == b"e"


def test_what_is_kept_has_room_for_so_much(tmp_path: Path) -> None:
    got = skimmed(tmp_path, {"usr": TAR}, room=6)
    assert got.layer.content("usr/d/a.py") is not None and got.layer.content("usr/d/\u00e9.py") is None
    assert "usr/d/\u00e9.py" in got.layer.nodes


def test_a_damaged_archive_is_not_whole(tmp_path: Path) -> None:
    got = skimmed(tmp_path, {"cut": TAR[:1400], "no": b"not a tar" * 200, "usr": TAR})
    assert not got.areas[0].whole and not got.areas[1].whole and got.areas[2].whole
    assert got.areas[1].cut is not None


def test_an_archive_that_is_too_large_is_cut(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(TAR)
    area = {"argv": ["cat", str(tmp_path / "t")], "below": "", "most": 2000}
    got = skimmed(tmp_path, {}, areas=[area])
    assert got.areas[0].cut == "size" and not got.areas[0].whole


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    got = skimmed(tmp_path, {}, areas=[{"argv": ["sleep", "60"], "below": "", "most": 1}], seconds=0.3)
    assert got.areas[0].cut == "time"


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    got = skimmed(tmp_path, {}, areas=[{"argv": ["no-such-program"], "below": "", "most": 1}])
    assert got.areas[0].status == 127 and not got.areas[0].whole


KEPT = Kept(
    frozenset({"usr/local/lib", "opt/venv/lib"}),
    Layer({
        "usr/local/lib": Node(FOLDER), "usr/local/lib/eng": Node(FOLDER), "usr/local/lib/eng/a.py": Node(FILE, 1),
        "usr/local/lib/eng/__pycache__": Node(FOLDER),
    }),
)  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "spares"),
    [
        ("", True),
        ("C /var\nA /var/log/x\n", True),
        ("C /usr\nC /usr/local\nA /usr/local/bin\n", True),
        ("C /usr\nC /usr/local\nC /usr/local/lib\nC /usr/local/lib/eng\n", True),
        ("C /usr/local/lib/eng/__pycache__\nA /usr/local/lib/eng/__pycache__/a.pyc\n", True),
        ("A /usr/local/lib/new\n", False),
        ("C /usr/local/lib/eng/a.py\n", False),
        ("D /usr/local/lib/eng\n", False),
        ("A /usr/local/lib/eng\n", False),
        ("C /usr/local/lib/unknown\n", False),
        ("A /opt/venv\n", False),
        ("D /usr\n", False),
    ],
)
def test_what_of_a_container_stands_for_its_image(listed: str, spares: bool) -> None:
    told = understood(listed, ())
    assert told is not None and told.spare(KEPT) is spares


def test_changes_that_are_not_understood_and_mounts() -> None:
    assert understood("nonsense\n", ()) is None and understood("X /usr\n", ()) is None
    for mount, spares in (("usr/local/lib/eng", False), ("usr/local", False), ("root/.cache", True)):
        told = understood("", (mount,))
        assert told is not None and told.spare(KEPT) is spares


def framed(lines: bytes, content: bytes = b"", end: bool = True) -> bytes:
    """One frame as ``skim`` writes it, and the frame that says that nothing is missing."""
    packed = zlib.compress(lines)
    last = framed(b'["end"]\n', end=False) if end else b""
    return records.HEAD.pack(len(packed), len(content)) + packed + content + last


@given(st.binary(max_size=300), st.integers(0, 200))
def test_nothing_that_comes_over_is_believed(noise: bytes, at: int) -> None:
    content = zlib.compress(b"abc")
    lines = b'["d","c"]\n["area",0,0,null,""]\n["f","a/b.py",3,%d]\n' % len(content)
    whole = framed(lines, content)
    good = records.read(whole)
    assert good.trouble is None and good.layer.content("a/b.py") == b"abc"
    records.read(noise)
    records.read(framed(noise))
    records.read(framed(lines, noise))
    if at < len(whole):
        assert records.read(whole[:at]).trouble is not None
    records.read(framed(lines[: at % len(lines)] + noise, content))


@pytest.mark.parametrize("claimed", [0, 2, 4, 1 << 30])
def test_a_content_that_is_not_what_it_should_be_is_not_kept(claimed: int) -> None:
    content = zlib.compress(b"abc")
    line = b'["f","x",%d,%d]\n' % (claimed, len(content))
    assert records.read(framed(line, content)).layer.content("x") is None
    noise = b'["f","x",3,5]\n'
    assert records.read(framed(noise, b"noise")).layer.content("x") is None


def test_contents_have_room_together() -> None:
    content = zlib.compress(b"abc")
    line = b'["f","x",%d,%d]\n' % (records.MAX_UNPACKED + 1, len(content))
    assert "holds more than" in (records.read(framed(line, content)).trouble or "")
    bomb = framed(b" " * (1 << 20), end=False) * (records.MAX_UNPACKED >> 20)
    assert records.read(bomb).trouble is not None


@pytest.mark.parametrize(
    "line",
    ['["f","../x",1,-1]', '["f","/x",1,-1]', '["l","x","a\\u001b[0m"]', '["f","a\\u0007",1,-1]'],
)
def test_names_that_cannot_be_one_are_holes(line: str) -> None:
    got = records.read(framed(line.encode() + b"\n"))
    assert not got.layer.nodes and len(got.layer.holes) == 1


@pytest.mark.parametrize(
    "line",
    [
        '["f",1,1,-1]',
        '["f","x",1,5]',
        "{}",
        "[]",
        '["q","x"]',
        '["area","0",0,null,""]',
        '["f","x"]',
        "nonsense",
    ],
)
def test_lines_of_another_form_are_damage(line: str) -> None:
    assert records.read(framed(line.encode() + b"\n")).trouble is not None


DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get "
    '"http://%2Fvar%2Frun%2Fdocker.sock/v1.24/containers/x/json": dial unix /var/run/docker.sock: connect: permission denied'
)
DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
DESCRIBED = json.dumps([{
    "Id": "sha256:" + "b" * 64, "Os": "linux", "Architecture": "arm64", "RepoDigests": [],
    "Config": {"Env": ["PATH=/usr/bin"]},
}])  # fmt: skip
FULL = "Error response from daemon: mkdir /var/lib/docker/overlay2/0d1e-init: no space left on device"


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A ``docker`` that answers as a real one was recorded to, and the ordinary programs."""
    (folder / "docker").write_text(f'#!/bin/sh\n[ "$1" != --version ] || exit 0\n{script}\n')
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("CANSERVE_CACHE", str(folder / "cache"))


def refused(target: str) -> Missing:
    got = read_build(target, Want(), BuildOptions(engines=ENGINES)).build
    assert isinstance(got, Missing), got
    return got


@pytest.mark.parametrize(
    ("script", "target", "why", "ask"),
    [
        (f"echo '{DENIED}' >&2; exit 1", "docker-daemon:a", "docker on local does not let this user in", "group docker"),
        (f"echo '{DOWN}' >&2; exit 1", "docker-daemon:a", "docker on local is not running", "systemctl start docker"),
        ("echo '[{}]'", "docker-daemon:a", "described it in a form that is not known", None),
        ("echo nonsense", "docker-daemon:a", "described it in a form that is not known", None),
        (f"case $1 in image) echo '{DESCRIBED}';; create) echo '{FULL}' >&2; exit 1;; esac", "docker-daemon:a",
         "no space left on device", "make room"),
        (f"case $1 in image) echo '{DESCRIBED}';; create) ;; *) echo '{DOWN}' >&2; exit 1;; esac", "docker-daemon:a",
         "gave nothing of a: Cannot connect", "look again"),
    ],
    ids=["denied", "down", "unknown", "nonsense", "full", "died"],
)  # fmt: skip
def test_refusals_have_a_cause(
    script: str, target: str, why: str, ask: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, script)
    got = refused(target)
    assert why in got.why
    assert ask is None or (got.ask is not None and ask in got.ask)
    assert got.cause in {Cause.UNAVAILABLE, Cause.UNREADABLE}


def test_no_engine_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "docker").write_text("#!/bin/sh\necho podman version 4.3.1\n")  # podman-docker's
    got = refused("docker-daemon:a")
    assert got.why == "local has no docker" and got.cause is Cause.UNAVAILABLE


def test_an_engine_that_was_never_used_is_not_said_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "docker").rename(tmp_path / "podman")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    asks = (
        tmp_path / "id"
    )  # root's storage lies in one place, which another may have used before: another user's
    asks.write_text("#!/bin/sh\necho 1000\n")
    asks.chmod(0o755)
    got = refused("podman:a")
    assert got.cause is Cause.UNREACHED and "never used it" in got.why
    assert not (tmp_path / "data").exists()


def test_skim_needs_nothing_but_pythons_own_library() -> None:
    import ast

    tree = ast.parse(Path(skim.__file__).read_text(), feature_version=(3, 7))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert all(name.partition(".")[0] in {*sys.stdlib_module_names, "__future__"} for name in names)


def test_no_link_is_followed_on_the_way_into_a_container(tmp_path: Path) -> None:
    (tmp_path / "top/real/inner").mkdir(parents=True)
    (tmp_path / "top/link").symlink_to(tmp_path)
    os.close(skim.entered(str(tmp_path / "top"), "real/inner"))
    with pytest.raises(FileNotFoundError):
        skim.entered(str(tmp_path / "top"), "real/other")
    with pytest.raises(NotADirectoryError):
        skim.entered(str(tmp_path / "top"), "link/top/real")
    # A folder that nothing is mounted on says nothing of a container's files.
    plan = {
        "areas": [{"argv": ["false"], "below": "", "most": 1, "root": str(tmp_path / "top"), "path": "none"}]
    }
    got = skimmed(tmp_path, {}, **plan)
    assert got.areas[0].error == "" and not got.areas[0].whole
