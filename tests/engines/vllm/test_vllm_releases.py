"""Every release of vLLM in the shipped index, and a spread of them read again through the package index."""

from __future__ import annotations

import pytest

from canserve.facts import Known
from canserve.index import release_history
from canserve.index.places import shipped
from canserve.index.shelf import holds
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want

COUNTS = {
    "0.1.0": 4, "0.2.7": 25, "0.4.0": 40, "0.5.5": 64, "0.6.6": 106, "0.7.3": 120, "0.8.5": 146, "0.9.2": 169,
    "0.10.2": 210, "0.11.2": 238, "0.13.0": 247, "0.14.1": 262, "0.15.1": 272, "0.16.0": 284, "0.17.1": 305,
    "0.18.1": 317, "0.19.1": 323, "0.20.2": 344, "0.21.0": 356, "0.22.1": 362, "0.23.0": 365, "0.24.0": 359,
    "0.25.1": 356, "0.26.0": 362, "0.28.0": 378, "0.29.0": 376, "0.31.0": 387, "0.32.0": 391, "0.33.0": 415,
}  # fmt: skip
"""Architectures registered natively, counted in the releases themselves."""


def test_the_index_counts_what_the_releases_hold() -> None:
    shelf = shipped("vllm")
    at = {str(row["version"]): position for position, row in enumerate(shelf.releases)}
    tables = shelf.tables["architectures"].values()
    assert {v: sum(holds(text, at[v]) for text in tables) for v in COUNTS} == COUNTS
    assert len(shelf.releases) >= 101
    assert len(tables) >= 483


def test_support_is_not_monotonic() -> None:
    history = release_history()
    gone = history.releases_with("vllm", "ChatGLMForConditionalGeneration")
    every = history.releases("vllm")
    first, last = every.index(gone[0]), every.index(gone[-1])
    assert len(gone) < last - first + 1, "it left and came back"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    "version", ["0.1.0", "0.2.7", "0.5.5", "0.8.5", "0.11.2", "0.17.1", "0.24.0", "0.33.0"]
)
def test_a_release_read_live(version: str) -> None:
    build = read_build(f"vllm=={version}", Want(flags=True), BuildOptions()).build
    assert isinstance(build, Build)
    assert isinstance(build.registry, Known)
    assert len(build.registry.value) == COUNTS[version]
    for name in ("config_shims", "quantization", "kv_cache_dtypes", "flags", "launchers", "fallback"):
        assert isinstance(getattr(build, name), Known), name
