"""The index as a whole: several places as one, a short memory, and offline without a single attempt."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from archives import tarred, wheel_files, zipped
from canserve.facts import Cause, Fact, Known, Missing
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import FRESH, Found, Index
from canserve.trees.index.metadata import WithMetadata
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pages import JSON_KIND
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from web_server import Site, page, ranged, status, whole

QUICK = Settings(timeout=1.0, patience=2.0, retries=0)
WHEEL = zipped(wheel_files("eng", "1.0", {"eng/__init__.py": "", "eng/a.py": "a = 1\n"}, ("dep>=1",)))
SHA = hashlib.sha256(WHEEL).hexdigest()
NAME = "eng-1.0-py3-none-any.whl"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Web(QUICK, pause=lambda seconds: None), Cache(tmp_path / "cache"))


def json_page(*names: str, **more: object) -> bytes:
    files = [{"filename": n, "url": f"/files/{n}", "hashes": {"sha256": SHA}, **more} for n in names]
    return json.dumps({"meta": {"api-version": "1.0"}, "files": files}).encode()


def ask(place: Place, requirement: str, *indexes: str, links: tuple[str, ...] = ()) -> Fact[Found]:
    config = PipConfig(indexes, links, QUICK)
    return Index(config, place).find(Requirement(requirement), None, requirement)


def found(fact: Fact[Found]) -> Found:
    assert isinstance(fact, Known), fact
    return fact.value


def test_a_release_is_found_and_the_look_is_recorded(site: Site, place: Place) -> None:
    site.put("/simple/eng/", page(json_page(NAME), JSON_KIND))
    got = found(ask(place, "Eng==1.0", f"{site.url}/simple"))
    assert (got.file.url, got.file.sha256) == (f"{site.url}/files/{NAME}", SHA)
    (evidence,) = got.evidence
    assert (evidence.how, evidence.saw) == (f"{site.url}/simple/eng/", "1 files")
    assert evidence.when
    assert "application/vnd.pypi.simple.v1+json" in site.requests[0].headers["accept"]


def test_several_indexes_are_one(site: Site, place: Place) -> None:
    site.put("/a/eng/", page(json_page("eng-1.0.tar.gz"), JSON_KIND))
    site.put("/b/eng/", page(f'<a href="/files/{NAME}">x</a>'.encode()))
    got = found(ask(place, "eng", f"{site.url}/none", f"{site.url}/a", f"{site.url}/b/"))
    assert got.file.name == NAME
    assert [evidence.saw for evidence in got.evidence] == ["no such project there", "1 files", "1 files"]


def test_the_first_index_wins_for_the_same_file(site: Site, place: Place) -> None:
    site.put("/a/eng/", page(f'<a href="{site.url}/a/{NAME}">x</a>'.encode()))
    site.put("/b/eng/", page(f'<a href="{site.url}/b/{NAME}">x</a>'.encode()))
    assert found(ask(place, "eng", f"{site.url}/a", f"{site.url}/b")).file.url == f"{site.url}/a/{NAME}"


def test_an_index_that_fails_is_not_an_index_without_it(site: Site, place: Place) -> None:
    site.put("/a/eng/", page(json_page(NAME), JSON_KIND))
    site.put("/b/eng/", status(503))
    got = found(ask(place, "eng", f"{site.url}/a", f"{site.url}/b"))
    assert "not asked in full" in got.notes[0]
    missing = ask(place, "eng==2.0", f"{site.url}/a", f"{site.url}/b")
    assert isinstance(missing, Missing)
    assert "503" in missing.why
    absent = ask(place, "eng==2.0", f"{site.url}/a")
    assert isinstance(absent, Missing)
    assert absent.cause is Cause.UNAVAILABLE
    assert "nearest: 1.0" in absent.why


def test_a_page_is_remembered_for_a_while(site: Site, place: Place) -> None:
    site.put("/simple/eng/", page(json_page(NAME), JSON_KIND, ETag='"1"'))
    now = [1000.0]
    index = Index(PipConfig((f"{site.url}/simple",), (), QUICK), place, clock=lambda: now[0])
    for advance, requests in ((0, 1), (FRESH - 1, 1), (FRESH, 2), (1, 2), (-5000, 3)):
        now[0] += advance
        found(index.find(Requirement("eng"), None, "eng"))
        assert len(site.requests) == requests
    assert site.requests[1].headers["if-none-match"] == '"1"'


def test_a_page_that_has_not_changed_stays(site: Site, place: Place) -> None:
    site.put("/simple/eng/", page(json_page(NAME), JSON_KIND, ETag='"1"'))
    now = [1000.0]
    index = Index(PipConfig((f"{site.url}/simple",), (), QUICK), place, clock=lambda: now[0])
    found(index.find(Requirement("eng"), None, "eng"))
    site.put("/simple/eng/", status(304))
    now[0] += 2 * FRESH
    assert found(index.find(Requirement("eng"), None, "eng")).file.name == NAME


def test_folders_laid_out_as_indexes_and_folders_of_files(tmp_path: Path, place: Place) -> None:
    (tmp_path / "simple" / "eng").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / NAME).write_bytes(WHEEL)
    (tmp_path / "simple" / "eng" / "index.html").write_text(
        f'<a href="../../files/{NAME}#sha256={SHA}">x</a>'
    )
    for fact in (
        ask(place, "eng==1.0", (tmp_path / "simple").as_uri()),
        ask(place, "eng==1.0", links=(str(tmp_path / "files"),)),
        ask(place, "eng==1.0", links=((tmp_path / "files").as_uri(),)),
        ask(place, "eng==1.0", links=(str(tmp_path / "simple" / "eng" / "index.html"),)),
        ask(place, "eng==1.0", links=(str(tmp_path / "files" / NAME),)),
    ):
        file = found(fact).file
        tree = open_remote(Remote(file.url, file.name, file.sha256), place, "eng==1.0")
        assert tree.read("eng/a.py") == b"a = 1\n"
    assert isinstance(ask(place, "eng==1.0", links=(str(tmp_path / "none"),)), Missing)


def test_no_index_at_all_asks_for_one(place: Place) -> None:
    got = ask(place, "eng")
    assert isinstance(got, Missing)
    assert "PIP_INDEX_URL" in (got.ask or "")
    broken = Index(Missing(Cause.UNREADABLE, "pip.conf"), place).find(Requirement("eng"), None, "eng")
    assert broken == Missing(Cause.UNREADABLE, "pip.conf")


@pytest.mark.parametrize("body", [b"<" * 1000, b"{", b"\xff\xfe"])
def test_a_page_of_unknown_form_is_missing(site: Site, place: Place, body: bytes) -> None:
    site.put("/simple/eng/", page(body, JSON_KIND))
    got = ask(place, "eng", f"{site.url}/simple")
    assert isinstance(got, Missing)
    assert got.cause is Cause.UNREADABLE


def test_a_source_distribution_comes_whole_and_is_verified(site: Site, place: Place) -> None:
    data = tarred({"eng-1.0/PKG-INFO": "Name: eng\nVersion: 1.0\n", "eng-1.0/eng/__init__.py": ""})
    remote = Remote(
        site.put("/files/eng-1.0.tar.gz", whole(data)),
        "eng-1.0.tar.gz",
        hashlib.sha256(data).hexdigest(),
        len(data),
    )
    tree = open_remote(remote, place, "eng==1.0")
    assert tree.read("eng-1.0/PKG-INFO").startswith(b"Name")
    assert (tree.cost.whole_downloads, tree.cost.bytes) == (1, len(data))
    site.routes.clear()
    assert open_remote(remote, place, "eng==1.0").listing().entries


def test_metadata_beside_the_wheel_are_used_where_they_are_right(site: Site, place: Place) -> None:
    good = b"Name: eng\nVersion: 1.0\n"
    digest = hashlib.sha256(good).hexdigest()
    body = json_page(NAME, **{"core-metadata": {"sha256": digest}})
    site.put("/simple/eng/", page(body, JSON_KIND))
    site.put(f"/files/{NAME}", ranged(WHEEL))
    file = found(ask(place, "eng", f"{site.url}/simple")).file
    tree = WithMetadata(open_remote(Remote(file.url, file.name, file.sha256), place, "eng"), file, place)
    path = "eng-1.0.dist-info/METADATA"
    inside = tree.read(path)
    assert b"Requires-Dist: dep>=1" in inside
    site.put(f"/files/{NAME}.metadata", page(b"evil"))
    assert tree.read(path) == inside
    site.put(f"/files/{NAME}.metadata", page(good))
    assert tree.read(path) == good
    site.routes.clear()
    assert tree.read(path) == good
    assert tree.read("eng/a.py") == b"a = 1\n"


OFFLINE = """
import sys
touched = []
def watch(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__" or event in ("subprocess.Popen", "os.exec"):
        touched.append(event)
    if event == "socket.__new__":
        touched.append(event)
sys.addaudithook(watch)
from pathlib import Path
from packaging.requirements import Requirement
from canserve.facts import Known
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
place = Place(Web(offline=True), Cache(Path(sys.argv[1])))
index = Index(PipConfig((sys.argv[2],)), place)
known = index.find(Requirement("eng"), None, "eng")
assert isinstance(known, Known), known
file = known.value.file
tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, "eng")
assert tree.read("eng/a.py") == b"a = 1\\n"
unknown = index.find(Requirement("other"), None, "other")
assert not isinstance(unknown, Known) and unknown.cause == "unreached" and "offline" in unknown.why, unknown
try:
    open_remote(Remote(file.url + "x", "x.whl", "0" * 64, 100), place, "x")
    raise SystemExit("read what was never fetched")
except TreeError as error:
    assert error.missing.cause == "unreached"
assert "httpx" not in sys.modules
assert touched == [], touched
"""


def test_offline_makes_no_attempt_at_all(site: Site, place: Place) -> None:
    """Not even a socket is made, and the library that could make one is not loaded."""
    site.put("/simple/eng/", page(json_page(NAME), JSON_KIND))
    site.put(f"/files/{NAME}", ranged(WHEEL))
    file = found(ask(place, "eng", f"{site.url}/simple")).file
    open_remote(Remote(file.url, file.name, file.sha256, file.size), place, "eng").read("eng/a.py")
    command = [sys.executable, "-c", OFFLINE, str(place.cache.folder.parent), f"{site.url}/simple"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_secrets_do_not_reach_the_cache_or_the_evidence(site: Site, place: Place) -> None:
    from canserve.trees.index.pip_config import pip_config

    host = site.url.removeprefix("http://")
    site.put("/simple/eng/", page(json_page(NAME), JSON_KIND))
    config = pip_config({"PIP_INDEX_URL": f"http://me:hunter2@{host}/simple"}, [])
    assert isinstance(config, PipConfig)
    private = Place(Web(config.settings), place.cache)
    got = Index(config, private).find(Requirement("eng"), None, "eng")
    assert "authorization" in site.requests[0].headers
    assert "hunter2" not in repr(got)
    missing = Index(config, private).find(Requirement("other"), None, "other")
    assert "hunter2" not in repr(missing)
    for path in place.cache.folder.rglob("*"):
        assert "hunter2" not in str(path)
        assert not path.is_file() or b"hunter2" not in path.read_bytes()


def test_a_wheel_that_went_away_is_said(site: Site, place: Place) -> None:
    with pytest.raises(TreeError, match="404"):
        open_remote(Remote(f"{site.url}/gone.whl", "gone.whl", SHA, 10), place, "eng")
