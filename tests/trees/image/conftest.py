"""A registry that holds one image, and a user without any login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.trees.image.early import Sought
from image_registry import FILES, Shop
from web_server import running


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The registry; the user's home folder and docker's configuration are ``tmp_path / "home"``."""
    for name in ("HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("REGISTRY_AUTH_FILE", "CONTAINERS_REGISTRIES_CONF"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    with running() as site:
        shop = Shop(site, tmp_path / "cache", Sought(frozenset({"vllm"})))
        shop.put([FILES])
        yield shop
