"""Real releases, read from the package index: what was counted in each, and what their imports really gave.

The answers about names were compared with the really imported libraries (torch and torchvision installed): of
10,014 questions a release, over nine releases from 4.28.1 to 5.24.0, every one agreed but those whose module
needs a package that was not installed there. The back end tests were compared with the classes' own methods.
"""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from canserve.engines.transformers.reading import Library
from canserve.facts import Known
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.view import sources_of
from canserve.trees.web.client import Web

pytestmark = [pytest.mark.network, pytest.mark.slow]

COUNTED = {
    # Config types and model classes, as the really imported library counts them (from 4.28.1 on), and
    # GGUF architectures, with the names under which the loader takes them as well.
    "2.11.0": (20, 77, 0),
    "4.28.1": (181, 623, 0),
    "4.45.2": (278, 862, 5),
    "4.51.3": (327, 972, 15),
    "4.57.6": (421, 1174, 22),
    "5.0.0rc3": (443, 1178, 23),
    "5.24.0": (822, 1571, 30),
}


def library(version: str) -> Library:
    config = pip_config()
    assert isinstance(config, PipConfig)
    place = Place(Web(config.settings, offline=False), Cache())
    found = Index(config, place).find(Requirement(f"transformers=={version}"), None, version)
    assert isinstance(found, Known)
    file = found.value.file
    tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, version)
    return Library(sources_of(tree, version))


@pytest.mark.parametrize("version", COUNTED)
def test_counts(version: str) -> None:
    it = library(version)
    types, classes, gguf = it.config_types, it.architectures, it.gguf_architectures
    assert isinstance(types, Known)
    assert isinstance(classes, Known)
    assert isinstance(gguf, Known)
    assert (len(types.value), len(classes.value.types), len(gguf.value)) == COUNTED[version]


FLAGS = {
    "4.51.3": ({"LlamaForCausalLM", "Gemma3ForCausalLM"}, {"MambaForCausalLM", "GPTNeoForCausalLM"}),
    "5.24.0": (
        {"Qwen3VLForConditionalGeneration", "LlamaForCausalLM"},
        {"Qwen3_5MoeForConditionalGeneration", "MambaForCausalLM"},
    ),
}


@pytest.mark.parametrize("version", FLAGS)
def test_back_end_tests(version: str) -> None:
    it = library(version)
    passing, failing = FLAGS[version]
    for name in passing:
        assert "supports_attention_backend" in (it.backend_tests(name) or ()), name
    for name in failing:
        tests = it.backend_tests(name)
        assert tests is not None
        assert "supports_attention_backend" not in tests, name
