"""Releases whose entry on the package index holds no code: said so, unknown, and never a no."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from small_engine import SmallEngine

from archives import tarred
from canserve.facts import Cause, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Want
from canserve.trees.cache import Cache
from canserve.trees.index.pages import JSON_KIND
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from web_server import page, running, whole

SETTINGS = Settings(timeout=1.0, patience=2.0, retries=0)
SDIST = tarred({"eng-1.0/PKG-INFO": "Name: eng\nVersion: 1.0\n", "eng-1.0/pyproject.toml": ""})


def test_a_release_without_code(tmp_path: Path) -> None:
    with running() as site:
        url = site.put("/files/eng-1.0.tar.gz", whole(SDIST))
        digest = hashlib.sha256(SDIST).hexdigest()
        entry = {"filename": "eng-1.0.tar.gz", "url": url, "hashes": {"sha256": digest}}
        body = json.dumps({"meta": {"api-version": "1.0"}, "files": [entry]}).encode()
        site.put("/simple/eng/", page(body, JSON_KIND))
        config = PipConfig((f"{site.url}/simple",), (), SETTINGS)
        options = BuildOptions(
            cache=Cache(tmp_path), web=Web(SETTINGS), config=config, engines=(SmallEngine("eng"),)
        )
        found = read_build("eng==1.0", Want(), options).build
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNAVAILABLE
    assert "only a stub" in found.why
    assert "environment" in (found.ask or "")


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.5.0", "0.8.0", "0.21.0", "1.0.0", "1.2.1", "1.4.0rc1"])
def test_real_releases_that_are_stubs(version: str) -> None:
    found = read_build(f"tensorrt-llm=={version}", Want()).build
    assert isinstance(found, Missing)
    assert "only a stub" in found.why
