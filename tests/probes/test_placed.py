"""Where a model lies on a machine: asked over a real sshd as a login without root, whose session may not read all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.commands.ssh import Route
from canserve.facts import Cause, Known, Missing
from canserve.probes.host.probe import Seen
from canserve.probes.placed import parsed, reads, script
from canserve.subjects.placed import Placed
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import look_there
from loopback import Loopback, problem, sshd

CI = os.environ.get("CI", "").lower() in {"1", "true"}
NOBODY = 65534


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """An sshd whose sessions are those of a user without root."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    drop = f"{shutil.which('setpriv')} --reuid {NOBODY} --regid {NOBODY} --clear-groups"
    forced = f'ForceCommand {drop} sh -c "$SSH_ORIGINAL_COMMAND"' if os.getuid() == 0 else ""
    with sshd(tmp_path_factory.mktemp("sshd"), forced) as running:
        yield running


@pytest.fixture(autouse=True)
def private_sockets(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder to which everybody can go: pytest's own are only for their user."""
    folder = Path(tempfile.mkdtemp(prefix="canserve-shelf-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def model(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names or ("config.json", "model.safetensors", "notes.txt"):
        (folder / name).write_text("x")
        (folder / name).chmod(0o644)
    folder.chmod(0o755)
    return folder


def looked(box: Loopback, path: str, top: Path | None = None) -> Placed:
    section = Section("placed", script(path, None if top is None else str(top)), 1 << 18)
    look = look_there("box", Route("box", (), box.configure()), (section,))
    found = parsed(Seen("box", "the way", look.when, look.answers["placed"]))
    assert isinstance(found, Known), found
    return found.value


def test_what_everybody_may_read(box: Loopback, shelf: Path) -> None:
    placed = looked(box, str(model(shelf / "a model's")).replace("'", "'\\''").join("''"))
    assert (placed.state, placed.files, placed.barred, placed.shy) == ("there", 2, (), ())
    assert placed.user == (NOBODY if os.getuid() == 0 else os.getuid())
    assert placed.path == str(shelf / "a model's") and placed.system
    if os.getuid() == 0:
        os.chown(shelf, NOBODY, NOBODY)
    shelf.chmod(0o700)
    assert looked(box, f"{model(shelf / 'm')}//").shy == (), "what lies above is nothing to a container"


def test_a_folder_that_the_login_may_not_read(box: Loopback, shelf: Path) -> None:
    """Closed itself, or on the way; listed but not gone through; and each behind a link."""
    one = model(shelf / "deep" / "models" / "m")
    (shelf / "link").symlink_to("deep/models")
    for closed, at, mode in (
        ("deep", shelf / "deep", 0o600),
        ("deep/models/m", one, 0o311),
        ("deep/models/m", one, 0o644),
    ):
        (shelf / closed).chmod(mode)
        if os.getuid() == 0:
            os.chown(shelf / closed, 0, 0)
        for path in (one, shelf / "link" / "m"):
            placed = looked(box, f"{path}/")
            if mode == 0o644 and os.getuid() != 0:
                continue
            assert placed.state == "barred", (closed, oct(mode), placed)
            assert Path(placed.at).name == at.name and placed.mode.startswith("d"), placed
        (shelf / closed).chmod(0o755)


def test_files_that_the_login_may_not_read(box: Loopback, shelf: Path) -> None:
    one = model(shelf / "m", "config.json", "a.safetensors", "b.safetensors")
    (one / "b.safetensors").chmod(0o000)
    placed = looked(box, str(one))
    assert (placed.files, placed.barred) == (3, ("b.safetensors",))
    assert placed.shy == (str(one / "b.safetensors"),)
    (one / "b.safetensors").chmod(0o644)
    (one / "pytorch_model.bin").write_text("x")
    (one / "pytorch_model.bin").chmod(0o000)
    assert looked(box, str(one)).barred == (), "beside safetensors nobody reads it"
    (one / "c.gguf").write_text("x")
    (one / "c.gguf").chmod(0o600)
    assert looked(box, str(one / "c.gguf")).barred == (("c.gguf",) if os.getuid() == 0 else ())
    assert looked(box, str(one / "config.json")).files == 1


def test_what_is_not_there(box: Loopback, shelf: Path) -> None:
    model(shelf / "m")
    for path, at in (
        (shelf / "n" / "m", shelf / "n"),
        (shelf / "m" / "config.json" / "x", shelf / "m/config.json/x"),
    ):
        placed = looked(box, str(path))
        assert (placed.state, placed.at) == ("absent", str(at))


def test_links_that_lead_nowhere(box: Loopback, shelf: Path) -> None:
    one = model(shelf / "m")
    (shelf / "old").symlink_to("gone")
    (shelf / "round").symlink_to("round")
    for name in ("old", "round"):
        placed = looked(box, f"{shelf}/{name}/m")
        assert (placed.state, placed.at) == ("dangling", str(shelf / name))
    (one / "model-2.safetensors").symlink_to("../blobs/abc")
    placed = looked(box, str(one))
    assert (placed.state, placed.dangling, placed.files) == ("there", ("model-2.safetensors",), 3)


def test_a_model_of_the_hub_cache(box: Loopback, shelf: Path) -> None:
    repository = shelf / "models--org--m"
    snapshot = model(repository / "snapshots" / "abc", "config.json")
    model(repository / "snapshots" / "old", "config.json")
    model(repository / "blobs", "123")
    model(repository / "refs", "main")
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "model.safetensors").symlink_to("../../blobs/123")
    (repository / "snapshots" / "old" / "a.safetensors").symlink_to("../../blobs/gone")
    placed = looked(box, str(repository), top=shelf)
    assert (placed.state, placed.files, placed.dangling, placed.shy) == ("there", 2, (), ())
    assert placed.links == ((str(snapshot / "model.safetensors"), "../../blobs/123"),)
    (repository / "blobs" / "123").chmod(0o600)
    if os.getuid() == 0:
        assert looked(box, str(repository), top=shelf).barred == ("model.safetensors",)
    shelf.chmod(0o750)
    if os.getuid() == 0:
        assert looked(box, str(repository), top=shelf).state == "barred"


def test_what_is_lent_by_a_group(box: Loopback, shelf: Path) -> None:
    """As a login that reads by its own group, or as the owner; a further group is not to be had without root."""
    one = model(shelf / "m")
    for name in ("config.json", "model.safetensors"):
        (one / name).chmod(0o640)
        if os.getuid() == 0:
            os.chown(one / name, 0 if name == "config.json" else NOBODY, NOBODY)
    placed = looked(box, str(one))
    assert len(placed.shy or ()) == 2 and placed.lent == () and placed.barred == ()
    if os.getuid() == 0:
        os.chown(one / "config.json", 0, 0)
        assert looked(box, str(one)).lent == (str(one / "config.json"),)


def test_links_on_the_way_below_a_mount(box: Loopback, shelf: Path) -> None:
    model(shelf / "data" / "v3")
    (shelf / "models").mkdir()
    (shelf / "models").chmod(0o755)
    link = shelf / "models" / "current"
    link.symlink_to("../data/v3")
    assert looked(box, str(link), top=shelf / "models").links == ((str(link), "../data/v3"),)
    assert looked(box, str(link), top=link).links == ()


def test_names_say_nothing_but_themselves(box: Loopback, shelf: Path) -> None:
    one = model(shelf / "m", "config.json", "a\nbarred\tetc.json", "b\tgone.json", "-rf.json", "$(id).json")
    placed = looked(box, str(one))
    assert (placed.state, placed.files, placed.dangling) == ("there", 3, ())


def test_what_is_not_said_to_the_end_is_not_known() -> None:
    def found(text: str, status: int | None = 0, whole: bool = True) -> object:
        answer = Answer(status, text.encode(), "", whole)
        return parsed(Seen("box", "the way", None, answer))

    said = "user\t7\npath\t/m\nabsent\t/m\nend\n"
    assert isinstance(found(said), Known)
    for cut in (found(said[:-4]), found(""), found(said, 3), found(said, None), found(said, whole=False)):
        assert isinstance(cut, Missing) and cut.cause is Cause.UNREADABLE
    odd = found("user\t7\npath\t/m\nodd\tls: /m: Stale file handle\nend\n")
    assert isinstance(odd, Missing) and odd.cause is Cause.UNAVAILABLE and "Stale" in odd.why
    assert isinstance(found("user\tx\npath\t/m\nend\n"), Missing)


@pytest.mark.parametrize(
    ("program", "user", "said", "expected"),
    [
        ("docker", "", '["name=seccomp,profile=builtin","name=cgroupns"]', "root"),
        ("docker", "0:0", "[]", "root"),
        ("docker", "", "null", None),
        ("docker", "vllm", '["name=seccomp"]', "other"),
        ("docker", "", '["name=rootless","name=cgroupns"]', "lone"),
        ("docker", "", '["name=seccomp","name=selinux"]', "confined"),
        ("docker", "", '["name=userns"]', "other"),
        ("docker", "", "template parsing error", None),
        ("podman", "root", "true false", "lone"),
        ("podman", "", "false false", "root"),
        ("podman", "1000", "true false", "other"),
        ("podman", "", "true true", "confined"),
        ("podman", "", "true", None),
        ("podman", "", "", None),
    ],
)
def test_who_reads_in_a_container(program: str, user: str, said: str, expected: str | None) -> None:
    assert reads(program, user, said) == expected
