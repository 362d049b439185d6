"""Wheels on a server: every way in which a server can misbehave ends in the right bytes or in a reason."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from archives import zipped
from canserve.facts import Cause, Missing
from canserve.trees.archive.remote import Place, Remote, RemoteBlob
from canserve.trees.archive.zip import ZipTree
from canserve.trees.cache import Cache
from canserve.trees.index.opening import open_remote
from canserve.trees.tree import Cost, TreeError
from canserve.trees.web.client import SLOWEST, Web
from canserve.trees.web.settings import Settings
from web_server import (
    Behaviour,
    Site,
    cut_short,
    dripping,
    first,
    moved,
    no_suffix,
    ranged,
    status,
    too_much,
    whole,
    wrong_range,
)

NOISE = random.Random(7).randbytes(600_000)
FILES: dict[str, str | bytes] = {
    "pkg/a.py": "a = 1\n" * 50,
    "pkg/lib.so": NOISE,
    "pkg/b.py": "b = 2\n" * 50,
    "pkg-1.0.dist-info/METADATA": "Name: pkg\nVersion: 1.0\n",
}
WHEEL = zipped(FILES)
SHA256 = hashlib.sha256(WHEEL).hexdigest()
NAME = "pkg-1.0-py3-none-any.whl"
Served = Callable[[bytes], Behaviour]
QUICK = Settings(timeout=1.0, patience=2.0, retries=2)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Web(QUICK, pause=lambda seconds: None), Cache(tmp_path / "cache"))


def remote(
    site: Site, behaviour: Behaviour, sha256: str | None = SHA256, size: int | None = len(WHEEL)
) -> Remote:
    return Remote(site.put(f"/files/{NAME}", behaviour), NAME, sha256, size)


def fresh(place: Place) -> Place:
    """The same cache, seen by another run."""
    return Place(Web(QUICK, pause=lambda seconds: None), Cache(place.cache.folder.parent))


@pytest.mark.parametrize("size", [len(WHEEL), None])
@pytest.mark.parametrize("behaviour", [ranged, no_suffix])
def test_only_what_is_needed_travels(
    site: Site, place: Place, behaviour: Behaviour, size: int | None
) -> None:
    tree = open_remote(remote(site, behaviour(WHEEL), size=size), place, "pkg==1.0")  # type: ignore[arg-type,func-returns-value]
    assert set(tree.listing().entries) == set(FILES)
    assert tree.read("pkg/a.py") == b"a = 1\n" * 50
    assert tree.origin == "wheel on the package index, read by byte ranges"
    assert tree.cost.bytes < 70_000
    assert tree.cost.requests == len(site.requests) <= 4
    assert tree.cost.whole_downloads == 0


def test_a_second_run_asks_for_nothing(site: Site, place: Place) -> None:
    wheel = remote(site, ranged(WHEEL))
    open_remote(wheel, place, "pkg==1.0").read_many(["pkg/a.py", "pkg/b.py"])
    site.requests.clear()
    again = fresh(place)
    got = open_remote(wheel, again, "pkg==1.0").read_many(["pkg/a.py", "pkg/b.py"])
    assert got == {"pkg/a.py": b"a = 1\n" * 50, "pkg/b.py": b"b = 2\n" * 50}
    assert site.requests == []
    assert again.web.cost == Cost()


def test_without_a_digest_nothing_is_kept(site: Site, place: Place) -> None:
    wheel = remote(site, ranged(WHEEL), sha256=None)
    open_remote(wheel, place, "pkg==1.0").read("pkg/a.py")
    site.requests.clear()
    open_remote(wheel, fresh(place), "pkg==1.0").read("pkg/a.py")
    assert site.requests


@pytest.mark.parametrize("served", [whole, wrong_range, too_much])
def test_where_ranges_are_refused_the_whole_file_comes_and_that_is_said(
    site: Site, place: Place, served: Served
) -> None:
    told: list[str] = []
    tree = open_remote(
        remote(site, served(WHEEL)),
        replace(place, tell=told.append),
        "pkg==1.0",
    )
    assert tree.read("pkg/lib.so") == NOISE
    assert tree.origin.startswith("wheel on the package index, downloaded whole: ")
    assert tree.cost.whole_downloads == 1
    assert tree.cost.bytes >= len(WHEEL)
    assert told == [f"downloading {NAME} (1 MB) whole"]
    site.requests.clear()
    again = open_remote(remote(site, status(404)), fresh(place), "pkg==1.0")
    assert again.read("pkg/a.py") == b"a = 1\n" * 50
    assert site.requests == []


def test_a_whole_file_with_the_wrong_digest_is_refused(site: Site, place: Place) -> None:
    other = zipped({**FILES, "pkg/a.py": "evil"})
    for size in (None, len(WHEEL)):
        with pytest.raises(TreeError, match=r"SHA-256|in the index|sends more") as error:
            open_remote(remote(site, whole(other), size=size), place, "pkg==1.0")
        assert error.value.missing.cause is Cause.UNREADABLE
    assert place.cache.keys("files") == []


def test_a_file_of_another_size_than_the_index_says_is_refused(site: Site, place: Place) -> None:
    with pytest.raises(TreeError, match=r"answered with|bytes on the server|in the index"):
        open_remote(remote(site, ranged(WHEEL + b"more")), place, "pkg==1.0")


@pytest.mark.parametrize(
    ("code", "cause"), [(404, Cause.UNAVAILABLE), (403, Cause.UNAVAILABLE), (401, Cause.UNAVAILABLE)]
)
def test_a_refusal_is_final(site: Site, place: Place, code: int, cause: Cause) -> None:
    with pytest.raises(TreeError, match=f"HTTP {code}") as error:
        open_remote(remote(site, status(code)), place, "pkg==1.0")
    assert error.value.missing.cause is cause
    assert len(site.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_trouble_that_may_pass_is_waited_for_and_counted(site: Site, tmp_path: Path, code: int) -> None:
    pauses: list[float] = []
    place = Place(Web(QUICK, pause=pauses.append), Cache(tmp_path))
    tree = open_remote(remote(site, first(2, status(code), ranged(WHEEL))), place, "pkg==1.0")
    assert tree.read("pkg/a.py")
    assert pauses == [0.5, 1.0]
    assert tree.cost.requests == len(site.requests)


def test_trouble_that_does_not_pass_ends(site: Site, place: Place) -> None:
    with pytest.raises(TreeError, match="HTTP 503") as error:
        open_remote(remote(site, status(503)), place, "pkg==1.0")
    assert error.value.missing.cause is Cause.UNAVAILABLE
    assert len(site.requests) == QUICK.retries + 1


def test_the_server_says_how_long_to_wait(site: Site, tmp_path: Path) -> None:
    pauses: list[float] = []
    place = Place(Web(replace(QUICK, patience=30.0), pause=pauses.append), Cache(tmp_path))
    open_remote(remote(site, first(1, status(429, Retry_After="7"), ranged(WHEEL))), place, "pkg==1.0")
    assert pauses == [7.0]
    impatient = Place(Web(QUICK, pause=pauses.append), Cache(tmp_path / "other"))
    with pytest.raises(TreeError, match="HTTP 429"):
        open_remote(remote(site, status(429, Retry_After="9999")), impatient, "pkg==1.0")
    assert pauses == [7.0]


def test_an_answer_that_ends_early_is_asked_for_again(site: Site, place: Place) -> None:
    tree = open_remote(remote(site, cut_short(WHEEL, times=1)), place, "pkg==1.0")
    assert tree.read("pkg/a.py") == b"a = 1\n" * 50
    with pytest.raises(TreeError) as error:
        open_remote(remote(site, cut_short(WHEEL), sha256="0" * 64), place, "pkg==1.0")
    assert error.value.missing.cause is Cause.UNREACHED


def test_a_server_that_drips_is_left(site: Site, place: Place) -> None:
    start = time.monotonic()
    with pytest.raises(TreeError) as error:
        open_remote(remote(site, dripping(), size=90_000), place, "pkg==1.0")
    assert error.value.missing.cause is Cause.UNREACHED
    assert time.monotonic() - start < 2 * QUICK.patience + 2 * 90_000 / SLOWEST


def test_nobody_there(site: Site, place: Place) -> None:
    with pytest.raises(TreeError) as error:
        open_remote(Remote("http://127.0.0.1:9/x.whl", "x.whl", None, 10), place, "pkg==1.0")
    assert error.value.missing.cause is Cause.UNREACHED
    assert error.value.missing.ask


def test_an_address_that_has_expired_is_asked_for_anew(site: Site, place: Place) -> None:
    """Indexes redirect to signed addresses that hold for minutes."""
    signed = site.put("/signed/1", first(1, ranged(WHEEL), status(403)))
    again = site.put("/signed/2", ranged(WHEEL))
    blob = RemoteBlob(remote(site, first(1, moved(signed), moved(again))), place, "pkg==1.0")
    tree = ZipTree(blob, "pkg==1.0", "wheel")
    assert tree.read("pkg/a.py") == b"a = 1\n" * 50
    assert [request.path for request in site.requests] == [
        f"/files/{NAME}", "/signed/1", "/signed/1", f"/files/{NAME}", "/signed/2",
    ]  # fmt: skip


def test_what_went_bad_in_the_cache_is_fetched_again(site: Site, place: Place) -> None:
    wheel = remote(site, ranged(WHEEL))
    open_remote(wheel, place, "pkg==1.0").read_many(["pkg/a.py", "pkg/b.py"])
    spans = list((place.cache.folder / f"spans-{SHA256}").iterdir())
    assert len(spans) >= 2
    for path in spans:
        data = bytearray(path.read_bytes())
        data[-1] ^= 0xFF
        path.write_bytes(data)
    site.requests.clear()
    again = open_remote(wheel, fresh(place), "pkg==1.0")
    assert again.read_many(["pkg/a.py", "pkg/b.py"])["pkg/b.py"] == b"b = 2\n" * 50
    assert site.requests


def test_a_whole_file_that_went_bad_in_the_cache_is_fetched_again(site: Site, place: Place) -> None:
    wheel = remote(site, whole(WHEEL))
    open_remote(wheel, place, "pkg==1.0")
    path = place.cache.file("files", SHA256)
    assert path is not None
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(data)
    again = open_remote(wheel, fresh(place), "pkg==1.0")
    assert again.read("pkg/a.py") == b"a = 1\n" * 50


def test_offline_the_cache_answers_or_nothing_does(site: Site, place: Place) -> None:
    wheel = remote(site, ranged(WHEEL))
    open_remote(wheel, place, "pkg==1.0").read("pkg/a.py")
    site.requests.clear()
    offline = Place(Web(QUICK, offline=True), place.cache)
    tree = open_remote(wheel, offline, "pkg==1.0")
    assert tree.read("pkg/a.py") == b"a = 1\n" * 50
    got = tree.read_many(["pkg/a.py", "pkg/lib.so"])
    assert got["pkg/a.py"] == b"a = 1\n" * 50
    absent = got["pkg/lib.so"]
    assert isinstance(absent, Missing)
    assert absent.cause is Cause.UNREACHED
    assert "offline" in absent.why
    assert site.requests == []


def test_a_cache_that_cannot_be_written_only_makes_it_slower(site: Site, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    place = Place(Web(QUICK), Cache(blocked))
    assert open_remote(remote(site, ranged(WHEEL)), place, "pkg==1.0").read("pkg/a.py")
    with pytest.raises(TreeError, match="cannot be kept") as error:
        open_remote(remote(site, whole(WHEEL)), place, "pkg==1.0")
    assert "CANSERVE_CACHE" in (error.value.missing.ask or "")


def test_a_small_file_that_is_sent_whole_is_welcome(site: Site, place: Place) -> None:
    small = zipped({"pkg/a.py": "a = 1\n"})
    digest = hashlib.sha256(small).hexdigest()
    tree = open_remote(remote(site, whole(small), digest, len(small)), place, "pkg==1.0")
    assert tree.read("pkg/a.py") == b"a = 1\n"
    assert tree.cost == Cost(bytes=len(small), requests=1)


def test_a_large_file_that_is_passed_over_is_not_kept(site: Site, place: Place, tmp_path: Path) -> None:
    from canserve.trees.positions import Positions, visit

    tree = ZipTree(RemoteBlob(remote(site, ranged(WHEEL)), place, "pkg"), "pkg", "wheel")
    before = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    got: list[bytes] = []

    def use(path: str, file: Positions) -> None:
        got.append(file.read(0, file.size))

    assert visit(tree, {"pkg/lib.so": len(NOISE)}, use) == {}
    assert got == [NOISE]
    after = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert after - before < 1000


def test_a_server_without_ranges_is_asked_for_the_whole_once(site: Site, place: Place) -> None:
    from canserve.trees.positions import visit

    tree = ZipTree(RemoteBlob(remote(site, whole(WHEEL)), place, "pkg"), "pkg", "wheel")
    assert visit(tree, {"pkg/lib.so": 1, "pkg/a.py": 1}, lambda path, file: None) == {}
    assert tree.cost.whole_downloads == 1
