"""Source distributions: their sources stay in the cache, the archive does not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from archives import tarred
from canserve.trees.archive.kept import Kept, load
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.opening import open_remote
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from web_server import Site, whole

DATA = tarred({
    "eng-1.0/PKG-INFO": "Name: eng\nVersion: 1.0\n",
    "eng-1.0/src/a.cpp": "int a;\n",
    "eng-1.0/src/weights.bin": b"\0\1\2",
})  # fmt: skip
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    settings = Settings(timeout=1.0, patience=2.0, retries=0)
    return Place(Web(settings, pause=lambda seconds: None), Cache(tmp_path / "cache"))


def remote_at(site: Site) -> Remote:
    url = site.put("/files/eng-1.0.tar.gz", whole(DATA))
    return Remote(url, "eng-1.0.tar.gz", SHA, len(DATA))


def test_the_second_time_nothing_is_downloaded_and_sources_are_there(site: Site, place: Place) -> None:
    remote = remote_at(site)
    first = open_remote(remote, place, "eng")
    assert first.read("eng-1.0/src/a.cpp") == b"int a;\n"
    assert place.cache.keys("files") == []
    site.routes.clear()
    again = open_remote(remote, place, "eng")
    assert again.listing() == first.listing()
    assert again.read("eng-1.0/src/a.cpp", 4, 5) == b"a"
    assert again.cost == first.cost
    with pytest.raises(TreeError):
        again.read("eng-1.0/src/weights.bin")


def test_what_is_not_kept_is_fetched_again(site: Site, place: Place) -> None:
    remote = remote_at(site)
    open_remote(remote, place, "eng")
    again = open_remote(remote, place, "eng")
    assert again.read("eng-1.0/src/weights.bin") == b"\0\1\2"
    assert again.cost.whole_downloads == 2


def test_without_a_digest_nothing_is_kept(site: Site, place: Place) -> None:
    remote = remote_at(site)
    open_remote(Remote(remote.url, remote.name), place, "eng")
    assert place.cache.keys("sources") == []


def test_names_that_cannot_be_listed_are_remembered_as_holes() -> None:
    kept = Kept({"a.py": 3}, (("../b\udc80", "its name leads out of the tree"),), {"a.py": b"x"})
    assert load(kept.dump()) == kept


@pytest.mark.parametrize("head", [b"", b"[]", b"{}", b"null", json.dumps({"form": 0}).encode()])
def test_another_form_is_not_read(head: bytes) -> None:
    assert load(head + b"\nrest") is None
    assert load(None) is None
