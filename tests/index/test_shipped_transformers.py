"""The shipped table of transformers releases: it says what reading the same files says, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import dedent

import pytest
from packaging.version import Version

from canserve.engines.sources import Sources
from canserve.engines.transformers import read_table
from canserve.engines.transformers.reading import Library
from canserve.facts import Known, Missing
from canserve.index.rows import Release, Row, shelve
from canserve.index.shelf import pack, unpack
from canserve.index.transformers_releases import ShippedTable
from canserve.index.transformers_rows import tables_of
from canserve.subjects.build import TransformersTable

OLD = {
    "__init__.py": """
        _import_structure = {"models.moth": ["MothConfig", "MothModel"], "activations": ["ACT2FN"]}
        import sys
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
        """,
    "activations.py": "ACT2FN = {}\n",
    "models/auto/configuration_auto.py": 'CONFIG_MAPPING_NAMES = {"moth": "MothConfig"}\n',
    "models/auto/modeling_auto.py": 'MODEL_MAPPING_NAMES = {"moth": "MothModel"}\n',
    "models/moth/__init__.py": """
        _import_structure = {"configuration_moth": ["MothConfig"], "modeling_moth": ["MothModel"]}
        import sys
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
        """,
    "models/moth/configuration_moth.py": "class MothConfig: ...\n",
    "models/moth/modeling_moth.py": "class MothModel: ...\nclass MothHidden: ...\n",
}
NEW = OLD | {
    "__init__.py": """
        from pathlib import Path
        _import_structure = {"activations": ["ACT2FN"]}
        import sys
        import_structure = define_import_structure(Path(__file__).parent / "models", prefix="models")
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], import_structure)
        """,
    "models/auto/configuration_auto.py": """
        CONFIG_MAPPING_NAMES = {"moth": "MothConfig", "night-owl": "OwlConfig"}
        """,
    "models/auto/modeling_auto.py": """
        MODEL_MAPPING_NAMES = {"moth": "MothModel", "night-owl": ("OwlModel",)}
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {"night-owl": "OwlForCausalLM"}
        MODEL_FOR_MASKED_LM_MAPPING_NAMES = {"night-owl": "AnOwlForMaskedLM"}
        """,
    "modeling_utils.py": "class PreTrainedModel:\n    _supports_attention_backend = False\n",
    "modeling_gguf_pytorch_utils.py": 'GGUF_SUPPORTED_ARCHITECTURES = ["moth"]\n',
    "models/moth/__init__.py": """
        import sys
        _file = globals()["__file__"]
        sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
        """,
    "models/moth/configuration_moth.py": '__all__ = ["MothConfig"]\nclass MothConfig: ...\n',
    "models/moth/modeling_moth.py": '__all__ = ["MothModel"]\nclass MothModel: ...\n',
    "models/owl/__init__.py": """
        import sys
        _file = globals()["__file__"]
        sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
        """,
    "models/owl/modeling_owl.py": """
        from ...modeling_utils import PreTrainedModel
        __all__ = ["OwlModel", "OwlForCausalLM", "AnOwlForMaskedLM", "OwlTokenizer"]
        class OwlModel(PreTrainedModel):
            _supports_attention_backend = True
        class OwlForCausalLM(OwlModel): ...
        class AnOwlForMaskedLM(PreTrainedModel): ...
        class OwlTokenizer: ...
        """,
}
PAIRS = [("activations", "ACT2CLS"), ("activations", "ACT2FN")]
"""What engines import: absence is recorded too."""
RELEASES = {"4.30.0": OLD, "5.1.0rc1": NEW, "5.1.0": NEW}


def sources(files: Mapping[str, str]) -> Sources:
    data = {f"transformers/{path}": dedent(text).encode() for path, text in files.items()}

    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return {path: data[path] for path in paths}

    return Sources("transformers", data, fetch)


@pytest.fixture(scope="module")
def shipped() -> ShippedTable:
    rows = []
    for version, files in RELEASES.items():
        tables = tables_of(Library(sources(files)), PAIRS)
        assert not isinstance(tables, Missing)
        names, unread = tables
        listed: dict[str, object] = {
            "version": version, "date": "2026-01-01", "file": f"transformers-{version}.whl",
            "sha256": version.encode().hex(),
        }  # fmt: skip
        if version == "4.30.0":
            listed["yanked"] = True
        said = {"unread": dict.fromkeys(unread, "odd")} if unread else {}
        rows.append((Release(Version(version), listed, None), Row(version, said, names)))
    return ShippedTable(unpack(pack(replace(shelve("transformers-library", rows), built="2026-11-30"))))


def live(version: str) -> TransformersTable:
    table = read_table(sources(RELEASES[version]), version)
    assert isinstance(table, Known)
    return table.value


def test_releases_in_order(shipped: ShippedTable) -> None:
    assert list(shipped.versions) == ["4.30.0", "5.1.0rc1", "5.1.0"]
    assert [shipped.yanked(version) for version in shipped.versions] == [True, False, False]


@pytest.mark.parametrize("version", RELEASES)
def test_both_ways_say_the_same(shipped: ShippedTable, version: str) -> None:
    read = live(version)
    assert shipped.config_types(version) == read.config_types(version)
    assert shipped.gguf_architectures(version) == read.gguf_architectures(version)
    assert shipped.tokenizer_classes(version) == read.tokenizer_classes(version)
    for model_type in ("moth", "night-owl", "none"):
        assert shipped.architectures_of(version, model_type) == read.architectures_of(version, model_type)
    for name in ("MothModel", "OwlModel", "OwlForCausalLM", "AnOwlForMaskedLM", "NoSuchModel"):
        assert shipped.backend_tests(version, name) == read.backend_tests(version, name), name
    for name in ("MothConfig", "OwlModel", "ACT2FN", "models", "activations", "NoSuch", "__version__"):
        assert shipped.has_name(version, "transformers", name) is read.has_name(version, "transformers", name)


@pytest.mark.parametrize("version", RELEASES)
def test_of_deep_modules_it_says_the_same_or_nothing(shipped: ShippedTable, version: str) -> None:
    read = live(version)
    modules = ["activations", "models", "models.moth", "models.owl", "models.owl.modeling_owl", "no.such",
               "models.moth.modeling_moth", "models.moth.configuration_moth"]  # fmt: skip
    names = [
        "ACT2FN",
        "ACT2CLS",
        "MothModel",
        "MothHidden",
        "MothConfig",
        "OwlModel",
        "modeling_moth",
        "NoSuch",
    ]
    for module in (f"transformers.{inside}" for inside in modules):
        assert shipped.has_name(version, module, None) is read.has_name(version, module, None)
        for name in names:
            answer = shipped.has_name(version, module, name)
            assert answer in {None, read.has_name(version, module, name)}, (module, name)


def test_what_is_recorded_of_deep_modules(shipped: ShippedTable) -> None:
    assert shipped.has_name("5.1.0", "transformers.models.owl.modeling_owl", "OwlForCausalLM") is True
    assert shipped.has_name("5.1.0", "transformers.models.owl", "OwlForCausalLM") is True
    assert shipped.has_name("5.1.0", "transformers.models.moth.modeling_moth", "MothHidden") is None
    assert shipped.has_name("4.30.0", "transformers.models.owl.modeling_owl", "OwlForCausalLM") is False
    assert shipped.has_name("5.1.0", "transformers.activations", "ACT2CLS") is False


def test_other_packages_are_not_its_business(shipped: ShippedTable) -> None:
    tables: tuple[TransformersTable, ...] = (shipped, live("5.1.0"))
    for table in tables:
        assert table.has_name("5.1.0", "torch", "Tensor") is None
        assert table.has_name("5.1.0", "torch", None) is None
        assert table.has_name("5.1.0", "transformers.models.moth", "*") is True
        assert table.has_name("5.1.0", "transformers.models.hawk", "*") is False


def test_of_a_version_that_is_not_indexed_it_says_nothing(shipped: ShippedTable) -> None:
    assert shipped.has_name("6.0", "transformers", "MothConfig") is None
    assert shipped.config_types("6.0") == frozenset()
    assert shipped.tokenizer_classes("6.0") is None
    assert shipped.backend_tests("6.0", "OwlModel") is None


def test_evidence_names_the_file_and_the_date(shipped: ShippedTable) -> None:
    evidence = shipped.evidence("5.1.0")
    assert evidence.subject == "transformers==5.1.0"
    assert "transformers-5.1.0.whl" in evidence.saw
    assert evidence.when == "2026-11-30"
