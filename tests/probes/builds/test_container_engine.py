"""What a real docker holds, read as trees: never run, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from held_images import BASE, INSTALLED, SITE, package
from small_engine import ENGINES

from canserve.commands.ssh import Route
from canserve.facts import Cause, Known, Missing
from canserve.probes.build import BuildOptions, Reading, read_build
from canserve.probes.container.naming import held
from canserve.probes.container.reading import MOUNT, Sought, open_held
from canserve.probes.container.way import Way
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from docker_engine import Docker, dockerd
from docker_engine import problem as no_docker
from loopback import Loopback, problem, sshd
from made_images import Member, layer, link

CI = os.environ.get("CI", "").lower() in {"1", "true"}
OPAQUE = ".wh..wh..opq"


@pytest.fixture(scope="session")
def engine() -> Iterator[Docker]:
    if (why := no_docker()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="csd-"))
    with dockerd(folder) as docker:
        docker.load("me/eng:1", [BASE, INSTALLED])
        docker.load("me/bare:1", [BASE])
        yield docker
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def docker(engine: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """The engine, as the one that this user's ``docker`` talks to; what earlier tests read of it is forgotten."""
    monkeypatch.setenv("CANSERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    yield engine
    for name in engine.left():
        engine("rm", "-f", name, check=False)


def read(target: str, routes: Mapping[str, Route] | None = None) -> Reading:
    return read_build(target, Want(), BuildOptions(engines=ENGINES, routes=routes or {}))


def build(target: str) -> Build:
    got = read(target).build
    assert isinstance(got, Build), got
    return got


def names(got: Build) -> set[str]:
    assert isinstance(got.registry, Known), got.registry
    return set(got.registry.value)


def refused(target: str) -> Missing:
    got = read(target).build
    assert isinstance(got, Missing), got
    return got


def test_an_image_that_the_engine_holds(docker: Docker) -> None:
    got = build("docker-daemon:me/eng:1")
    identity = got.identity
    assert names(got) == {"Alpha", "Beta"}
    assert identity.version == Known("1.2", identity.version.evidence)
    assert isinstance(identity.content, Known)
    assert identity.content.value == docker("image", "inspect", "--format", "{{.Id}}", "me/eng:1")
    assert isinstance(identity.platforms, Known) and identity.platforms.value == ("linux_aarch64",)
    assert identity.origin == f"image in docker on local: Python environment, installed in {SITE}"
    assert docker.left() == []
    assert names(build("docker://me/eng:1@local")) == {"Alpha", "Beta"}


def test_volumes_that_an_image_declares_go_with_its_container(docker: Docker, tmp_path: Path) -> None:
    (tmp_path / "files.tar").write_bytes(layer({**BASE, **INSTALLED}))
    docker("import", "-c", "VOLUME /data", str(tmp_path / "files.tar"), "me/volume:1")
    assert names(build("docker-daemon:me/volume:1")) == {"Alpha", "Beta"}
    assert docker("volume", "ls", "-q") == "" and docker.left() == []


def test_an_image_is_read_once_and_a_container_that_changed_anew_for_each_question(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "kept")
    docker("create", "--name", "idle", "me/eng:1")
    begun = slowed(tmp_path, monkeypatch, 0)

    def asked(target: str, options: BuildOptions) -> tuple[object, bool]:
        begun.unlink(missing_ok=True)
        return read_build(target, Want(), options).build, begun.exists()

    def question() -> BuildOptions:
        return BuildOptions(engines=ENGINES, cache=cache)

    image, container = "docker-daemon:me/eng:1", "container://idle"
    first, travelled = asked(image, question())
    assert isinstance(first, Build) and travelled
    assert asked(image, question()) == (first, False)
    held, travelled = asked(container, question())
    assert isinstance(held, Build) and names(held) == {"Alpha", "Beta"} and not travelled
    (tmp_path / "registry.py").write_text('MODELS = ["Gamma"]\n')
    docker("cp", str(tmp_path / "registry.py"), f"idle:/{SITE}/eng/registry.py")
    one = question()
    held, travelled = asked(container, one)
    assert isinstance(held, Build) and names(held) == {"Gamma"} and travelled
    assert asked(container, one) == (held, False)
    assert asked(container, question()) == (held, True)


def test_a_container_that_changed_nothing_is_read_for_its_image_too(docker: Docker, tmp_path: Path) -> None:
    docker("run", "-d", "--name", "serving", "--network", "none", "--entrypoint", "/bin/busybox", "me/eng:1", "sleep", "600")  # fmt: skip
    docker("exec", "serving", "/bin/busybox", "mkdir", "-p", f"/{SITE}/eng/__pycache__", "/var/log/eng")
    docker("exec", "serving", "/bin/busybox", "touch", f"/{SITE}/eng/__pycache__/registry.pyc")
    options = BuildOptions(engines=ENGINES, cache=Cache(tmp_path / "kept"))
    alone = [read_build("container://serving", Want(), options).build for _ in range(2)]
    image = read_build("docker-daemon:me/eng:1", Want(), options).build
    assert isinstance(image, Build) and names(image) == {"Alpha", "Beta"} and alone[0] == alone[1]
    assert docker.left() == ["serving"]
    docker("exec", "serving", "/bin/busybox", "rm", f"/{SITE}/eng/registry.py")
    options = BuildOptions(engines=ENGINES, cache=Cache(tmp_path / "kept"))
    changed = read_build("container://serving", Want(), options).build
    assert isinstance(changed, Build) and names(changed) == set()
    image = read_build("docker-daemon:me/eng:1", Want(), options).build
    assert isinstance(image, Build) and names(image) == {"Alpha", "Beta"}


def test_of_a_library_beside_an_engine_the_rest_is_read_together_when_it_is_asked_for(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, Member] = {f"{SITE}/lib/m{number}.py": b"x = %d\n" % number for number in range(40)}
    told = b"of this release"
    library = {f"{SITE}/lib/__init__.py": b"", f"{SITE}/lib/told.py": told, f"{SITE}/lib/data.bin": b"d"}
    docker.load("me/beside:1", [BASE, INSTALLED, {**files, **library}])
    begun = slowed(tmp_path, monkeypatch, 0)
    sought = Sought(frozenset({"eng", "lib"}), frozenset({"eng"}), first={"lib": ("told.py",)})
    it = held("docker-daemon:me/beside:1")
    assert it is not None
    way = Way(cache=Cache(tmp_path / "kept"))
    opened = open_held(it, sought, way)
    assert not isinstance(opened, Missing), opened
    begun.unlink(missing_ok=True)
    assert opened.tree.read(f"{SITE}/lib/told.py") == told and not begun.exists()
    assert f"{SITE}/lib/m7.py" in opened.tree.listing(SITE).entries
    assert opened.tree.read(f"{SITE}/lib/m7.py") == b"x = 7\n" and begun.exists()
    begun.unlink()
    again = open_held(it, sought, Way(cache=Cache(tmp_path / "kept")))
    assert not isinstance(again, Missing), again
    for tree in (opened.tree, again.tree):
        got = tree.read_many(sorted(files))
        assert got == files and not begun.exists()
    assert opened.tree.read(f"{SITE}/lib/data.bin") == b"d" and begun.exists()


def test_changed_files_of_a_running_container_win(docker: Docker) -> None:
    docker("run", "-d", "--name", "serving", "--network", "none", "--entrypoint", "/bin/busybox", "me/eng:1", "sleep", "600")  # fmt: skip
    change = f"echo 'MODELS = [\"Gamma\"]' > /{SITE}/eng/registry.py; rm -r /{SITE}/eng-1.2.dist-info"
    docker("exec", "serving", "/bin/busybox", "sh", "-c", change)
    got = build("container://serving")
    assert names(got) == {"Gamma"} and "(running)" in got.identity.origin
    assert isinstance(got.identity.content, Missing) and "may differ" in got.identity.content.why
    assert docker("inspect", "--format", "{{.State.Status}}", "serving") == "running"
    assert docker.left() == ["serving"]


def test_a_container_that_never_ran(docker: Docker) -> None:
    docker("create", "--name", "idle", "me/eng:1")
    got = build("container://idle@local")
    assert names(got) == {"Alpha", "Beta"} and "(created)" in got.identity.origin


def test_whiteouts_and_later_layers(docker: Docker) -> None:
    above = {
        f"{SITE}/eng/{OPAQUE}": b"",
        **package(SITE, '"Delta"'),
        f"{SITE}/eng-1.2.dist-info/.wh.RECORD": b"",
    }
    docker.load("me/eng:2", [BASE, INSTALLED, above])
    assert names(build("docker-daemon:me/eng:2")) == {"Delta"}


@pytest.mark.parametrize(
    "lead",
    [
        {"eng.pth": b"/opt/eng\n"},
        {
            "__editable__.eng-1.2.pth": b"import __editable___eng_finder\n",
            "__editable___eng_finder.py": b"MAPPING: dict[str, str] = {'eng': '/opt/eng/eng'}\n",
        },
        {"eng": link("/opt/eng/eng")},
    ],
    ids=["pth", "finder", "link"],
)
def test_a_source_tree_outside_of_site_packages(docker: Docker, lead: dict[str, Member]) -> None:
    info = {f"{SITE}/eng-1.2.dist-info/METADATA": INSTALLED[f"{SITE}/eng-1.2.dist-info/METADATA"]}
    there: dict[str, Member] = {f"{SITE}/{name}": data for name, data in lead.items()}
    docker.load("me/source:1", [BASE, package("opt/eng", '"Here"'), there | info])
    told: list[str] = []
    options = BuildOptions(engines=ENGINES, tell=told.append)
    got = read_build("docker-daemon:me/source:1", Want(), options).build
    assert isinstance(got, Build) and names(got) == {"Here"}
    assert not any("passing over all its files" in line for line in told)
    docker("rmi", "me/source:1")


def test_a_source_tree_that_nothing_names(docker: Docker) -> None:
    beside: dict[str, Member] = {f"{SITE}/transformers/__init__.py": b""}  # a library is no engine
    docker.load("me/tree:1", [BASE, package("opt/eng", '"Found"'), beside])
    assert names(build("docker-daemon:me/tree:1")) == {"Found"}


def test_an_image_without_an_engine(docker: Docker) -> None:
    why = refused("docker-daemon:me/bare:1")
    assert why.cause is Cause.UNAVAILABLE and "no eng or second in it" in why.why
    assert docker.left() == []


def test_a_mounted_source_tree(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("work")
    for path, data in package("", '"Mounted"').items():
        assert isinstance(data, bytes)
        (folder / path.strip("/")).parent.mkdir(exist_ok=True)
        (folder / path.strip("/")).write_bytes(data)
    docker("create", "--name", "mounted", "-v", f"{folder}:/workspace", "me/bare:1")
    assert names(build("container://mounted")) == {"Mounted"}


def test_several_pythons(docker: Docker) -> None:
    other = "opt/venv/lib/python3.11/site-packages"
    docker.load(
        "me/two:1", [BASE, INSTALLED, {"opt/venv/pyvenv.cfg": b"home = /usr/bin\n", **package(other)}]
    )
    got = read("docker-daemon:me/two:1")
    assert isinstance(got.build, Build)
    assert any("also found" in note for note in got.notes)


def test_names_that_are_not_there_are_met_with_near_ones(docker: Docker) -> None:
    docker("create", "--name", "vllm-head", "me/eng:1")
    why = refused("container://vllm-heat")
    assert why.cause is Cause.UNAVAILABLE and why.why == "no such container in docker on local: vllm-heat"
    assert why.ask == "did you mean vllm-head?"
    why = refused("docker-daemon:eng:1")
    assert why.ask is not None and "did you mean me/eng:1" in why.ask
    why = refused("docker-daemon:quite/another:9")
    assert why.ask is not None and "me/eng:1" in why.ask


def test_variables_that_look_like_secrets_stay_there(docker: Docker) -> None:
    docker("create", "--name", "told", "-e", "HF_TOKEN=hf_abcdef", "-e", "NCCL_DEBUG=INFO", "me/eng:1")
    got = read("container://told")
    assert "hf_abcdef" not in repr(got)


def test_an_engine_that_is_not_running(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    why = refused("container://any")
    assert why.cause is Cause.UNAVAILABLE and why.why.startswith("docker on local is not running")


@pytest.fixture(scope="module")
def box(engine: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """A machine reached over ssh, whose docker is the test's."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    with sshd(tmp_path_factory.mktemp("sshd"), f"SetEnv DOCKER_HOST={engine.host}\n") as running:
        yield running


def test_over_ssh(docker: Docker, box: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    routes = {"head": Route("box", (), box.configure())}
    docker("create", "--name", "there", "me/eng:1")
    for target in ("container://there@head", "docker-daemon:me/eng:1@head", "docker://me/eng:1@head"):
        got = read(target, routes).build
        assert isinstance(got, Build) and names(got) == {"Alpha", "Beta"}
        assert " on head" in got.identity.origin
    assert docker.left() == ["there"]
    nowhere = read("container://there@head", {"head": Route("box", (), box.configure(port=9))}).build
    assert isinstance(nowhere, Missing) and nowhere.cause is Cause.UNREACHED


def test_one_ssh_session_reads_a_container(
    docker: Docker, box: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = box.log().count("Accepted publickey")
    options = box.configure()
    box.config.write_text(box.config.read_text().replace("  ControlPath none\n", ""))
    docker("create", "--name", "there", "me/eng:1")
    with tempfile.TemporaryDirectory(prefix="cs-") as short:  # sockets have short paths
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        got = read("container://there@head", {"head": Route("box", (), options)}).build
        assert isinstance(got, Build)
        assert box.log().count("Accepted publickey") == before + 1


def slowed(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: int = 20) -> Path:
    """A ``docker`` that reads archives late, and notes when it begins to."""
    real = shutil.which("docker")
    program = folder / "docker"
    program.write_text(
        f'#!/bin/sh\ncase $1 in cp|export) : > {folder}/begun; sleep {seconds};; esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "begun"


def test_nothing_is_left_behind_when_the_user_gives_up(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = slowed(tmp_path, monkeypatch)
    command = [
        sys.executable,
        "-c",
        "from canserve.cli import main; main()",
        "build",
        "docker-daemon:me/eng:1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert len(docker.left()) == 1
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert docker.left() == []


def test_a_container_that_goes_away_meanwhile(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker("create", "--name", "leaving", "me/eng:1")
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = cp ] && {shutil.which("docker")} rm -f leaving >/dev/null 2>&1\nexec {shutil.which("docker")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    why = refused("container://leaving")
    assert why.cause is Cause.UNAVAILABLE and why.why == "leaving was removed while it was read"


@pytest.mark.slow
def test_an_engine_that_hangs(docker: Docker) -> None:
    docker.process.send_signal(signal.SIGSTOP)
    try:
        why = refused("container://any")
    finally:
        docker.process.send_signal(signal.SIGCONT)
    assert why.cause is Cause.UNAVAILABLE and why.why == "docker on local did not answer within 10 s"


def test_links_and_large_files_are_read_where_they_lie(docker: Docker) -> None:
    it = held("docker-daemon:me/eng:1")
    assert it is not None
    opened = open_held(it, Sought(frozenset({"eng"}), frozenset({"eng"})), Way())
    assert not isinstance(opened, Missing)
    tree = opened.tree
    for name in ("version.py", "linked.py", "hard.py"):
        assert tree.read(f"{SITE}/eng/{name}") == b'__version__ = "1.2"\n'
    sizes: dict[str, int] = {}
    large = f"{SITE}/eng/kernel.so"
    failed = tree.visit([large, f"{SITE}/eng/none.so"], lambda path, file: sizes.update({path: file.size}))
    assert sizes == {large: 100_004} and list(failed) == [f"{SITE}/eng/none.so"]
    assert tree.read(large, 0, 4) == b"\x7fELF"
    assert docker.left() == []


def test_a_mounted_folder_too_large_to_pass_over_is_no_proof_of_absence(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / "weights").open("wb") as file:
        file.truncate(MOUNT + (64 << 20))
    docker("create", "--name", "weights", "-v", f"{tmp_path}/models:/models", "me/bare:1")
    why = refused("container://weights")
    assert "not every folder could be looked into" in why.why
    assert docker.left() == ["weights"]


@pytest.mark.parametrize("deep", [False, True])
def test_everything_with_deep(docker: Docker, deep: bool) -> None:
    docker.load("me/odd:1", [BASE, package("srv/odd/place", '"Odd"'), INSTALLED])
    it = held("docker-daemon:me/odd:1")
    assert it is not None
    opened = open_held(it, Sought(frozenset({"eng"}), frozenset({"eng"}), everything=deep), Way())
    assert not isinstance(opened, Missing)
    found = opened.tree.children("srv/odd")
    assert found is not None and (found.folders == ("place",)) is deep and bool(found.holes) is not deep


def running(docker: Docker, name: str, image: str, *words: str) -> None:
    docker("run", "-d", "--name", name, "--network", "none", *words, "--entrypoint", "/bin/busybox", image, "sleep", "600")  # fmt: skip


def test_files_of_a_running_container_are_listed_where_they_lie_for_who_may(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(docker, "serving", "me/eng:1")
    begun = slowed(tmp_path, monkeypatch, 0)
    assert names(build("container://serving")) == {"Alpha", "Beta"}
    assert not begun.exists(), "no archive was needed"


def test_links_in_a_container_never_lead_into_its_machine(docker: Docker, tmp_path: Path) -> None:
    site = tmp_path / "host/lib/python3.12/site-packages"
    for path, data in package("", '"Host"').items():
        assert isinstance(data, bytes)
        (site / path.strip("/")).parent.mkdir(parents=True, exist_ok=True)
        (site / path.strip("/")).write_bytes(data)
    links: dict[str, Member] = {"opt/env": link(f"{tmp_path}/host"), "srv": link(f"{tmp_path}/host/lib")}
    docker.load("me/links:1", [BASE, links])
    running(
        docker,
        "leading",
        "me/links:1",
        "-e",
        "PATH=/opt/env/bin",
        "-e",
        f"PYTHONPATH=/srv:/opt/env{tmp_path}",
    )
    assert refused("container://leading").why == "no eng or second in it"


def test_mounts_of_a_running_container_are_read_as_it_sees_them(docker: Docker, tmp_path: Path) -> None:
    for path, data in package("", '"Mounted"').items():
        assert isinstance(data, bytes)
        (tmp_path / path.strip("/")).parent.mkdir(exist_ok=True)
        (tmp_path / path.strip("/")).write_bytes(data)
    running(docker, "over", "me/eng:1", "-v", f"{tmp_path}/eng:/{SITE}/eng")
    assert names(build("container://over")) == {"Mounted"}
