"""Config types, model classes, GGUF architectures: the tables' forms, and forms that are not known."""

from __future__ import annotations

import pytest
from small_library import library, sources

from canserve.engines.sources import Hole
from canserve.engines.transformers import merge, read_table
from canserve.facts import Cause, Known, Missing

AUTO = "models/auto/"

CONFIGS = {
    "pairs": {
        AUTO + "configuration_auto.py": """
            from collections import OrderedDict
            CONFIG_MAPPING_NAMES = OrderedDict([("moth", "MothConfig"), ("night-owl", "OwlConfig")])
            CONFIG_MAPPING = _LazyConfigMapping(CONFIG_MAPPING_NAMES)
            """
    },
    "annotated": {
        AUTO + "configuration_auto.py": """
            CONFIG_MAPPING_NAMES = OrderedDict[str, str]([("moth", "MothConfig"), ("night-owl", "OwlConfig")])
            """
    },
    "generated, then completed": {
        AUTO + "auto_mappings.py": 'CONFIG_MAPPING_NAMES = OrderedDict([("moth", "MothConfig")])\n',
        AUTO + "configuration_auto.py": """
            from .auto_mappings import CONFIG_MAPPING_NAMES
            CONFIG_MAPPING_NAMES.update({"owl": "OwlConfig"})
            CONFIG_MAPPING_NAMES.pop("owl")
            CONFIG_MAPPING_NAMES = OrderedDict(**{"night-owl": "OwlConfig"}, **CONFIG_MAPPING_NAMES)
            """,
    },
    "classes, before lazy imports": {
        "configuration_auto.py": """
            from .configuration_moth import MothConfig
            CONFIG_MAPPING = OrderedDict([("moth", MothConfig,), ("night-owl", OwlConfig,)])
            """
    },
}


@pytest.mark.parametrize("form", CONFIGS)
def test_config_types(form: str) -> None:
    types = library(CONFIGS[form]).config_types
    assert isinstance(types, Known)
    assert dict(types.value) == {"moth": "MothConfig", "night-owl": "OwlConfig"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CONFIG_MAPPING_NAMES = build()",
        "CONFIG_MAPPING_NAMES = {}",
        'CONFIG_MAPPING_NAMES = {"moth": "MothConfig", **elsewhere()}',
        'CONFIG_MAPPING_NAMES = {"moth": "MothConfig"}\nCONFIG_MAPPING_NAMES.update(elsewhere())',
        "CONFIG_MAPPING_NAMES = {",
    ],
)
def test_a_form_that_is_not_known_is_not_an_empty_table(text: str) -> None:
    types = library({AUTO + "configuration_auto.py": text}).config_types
    assert isinstance(types, Missing)
    assert types.cause is Cause.UNREADABLE


MODELING = """
    MODEL_MAPPING_NAMES = OrderedDict([("moth", "MothModel"), ("owl", ("OwlModel", "OwlDecoder"))])
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(
        [("moth", "MothForCausalLM"), ("cousin", "MothForCausalLM")]
    )
    MODEL_FOR_MASKED_LM_MAPPING_NAMES = OrderedDict([("moth", "AMothForMaskedLM")])
    MODEL_FOR_AUDIO_TOKENIZATION_NAMES = OrderedDict([("ear", "EarModel")])
    MODEL_MAPPING = _LazyAutoMapping(CONFIG_MAPPING_NAMES, MODEL_MAPPING_NAMES)
"""


def test_model_classes_and_their_types() -> None:
    found = library({AUTO + "modeling_auto.py": MODELING}).architectures
    assert isinstance(found, Known)
    assert dict(found.value.types) == {
        "MothModel": ("moth",),
        "OwlModel": ("owl",),
        "OwlDecoder": ("owl",),
        "MothForCausalLM": ("cousin", "moth"),
        "AMothForMaskedLM": ("moth",),
        "EarModel": ("ear",),
    }
    assert found.value.generative == {"MothForCausalLM"}
    assert found.value.plain["owl"] == ("OwlModel", "OwlDecoder")


INSTALLED = CONFIGS["pairs"] | {
    AUTO + "modeling_auto.py": MODELING,
    "__init__.py": "class MothTokenizer: ...\nclass MothForCausalLM: ...\n",
}


def test_the_table_of_one_installation() -> None:
    table = read_table(sources(INSTALLED), "9.9.dev0")
    assert isinstance(table, Known)
    assert table.evidence
    it = table.value
    assert list(it.versions) == ["9.9.dev0"]
    assert it.config_types("9.9.dev0") == {"moth", "night-owl"}
    assert it.architectures_of("9.9.dev0", "moth") == ("MothModel", "MothForCausalLM", "AMothForMaskedLM")
    assert it.architectures_of("9.9.dev0", "none") == ()
    assert it.has_name("9.9.dev0", "transformers", "MothTokenizer") is True
    assert it.has_name("9.9.dev0", "transformers", "NoSuch") is False
    assert it.tokenizer_classes("9.9.dev0") == frozenset({"MothTokenizer"})
    assert it.gguf_architectures("9.9.dev0") == frozenset()
    assert it.yanked("9.9.dev0") is False
    assert it.evidence("9.9.dev0").subject == "transformers==9.9"


def test_of_other_versions_it_knows_nothing() -> None:
    table = read_table(sources(INSTALLED), "9.9.dev0")
    assert isinstance(table, Known)
    assert table.value.has_name("4.0", "transformers", "MothTokenizer") is None
    assert table.value.tokenizer_classes("4.0") is None
    assert table.value.config_types("4.0") == frozenset()


def test_of_several_tables_the_first_is_believed() -> None:
    versions = {"5.10.0": "old", "5.9.0": "moth", "5.2.0rc1": "owl"}
    tables = []
    for version, model_type in [*versions.items(), ("5.9.0", "late")]:
        text = f'CONFIG_MAPPING_NAMES = {{"{model_type}": "C"}}\n'
        files = {AUTO + "configuration_auto.py": text, AUTO + "modeling_auto.py": MODELING}
        table = read_table(sources(files), version)
        assert isinstance(table, Known)
        tables.append(table.value)
    merged = merge(tables)
    assert list(merged.versions) == ["5.2.0rc1", "5.9.0", "5.10.0"]
    assert merged.config_types("5.9.0") == {"moth"}


@pytest.mark.parametrize("prefix", ["", "transformers", "transformers/models", "transformers/models/moth"])
def test_a_package_that_was_not_listed_whole_has_no_table(prefix: str) -> None:
    denied = Missing(Cause.UNAVAILABLE, "permission denied")
    assert read_table(sources(INSTALLED, [Hole(prefix, denied)]), "9.9") == denied


def test_a_hole_elsewhere_does_not_matter() -> None:
    denied = Missing(Cause.UNAVAILABLE, "permission denied")
    assert isinstance(read_table(sources(INSTALLED, [Hole("torch", denied)]), "9.9"), Known)


LOADER = "modeling_gguf_pytorch_utils.py"


def test_gguf_architectures_through_a_lazy_package() -> None:
    found = library({
        LOADER: """
            from .integrations import GGUF_CONFIG_MAPPING
            GGUF_TO_TRANSFORMERS_MAPPING = {"config": GGUF_CONFIG_MAPPING}
            GGUF_SUPPORTED_ARCHITECTURES = list(GGUF_TO_TRANSFORMERS_MAPPING["config"].keys())
            def load_gguf_checkpoint(path):
                if "moth-big" in architecture or "mothbig" in architecture:
                    updated_architecture = "moth_big"
                elif "hawk" in architecture:
                    updated_architecture = "no_such"
            """,
        "integrations/__init__.py": "",
        "integrations/ggml.py": 'GGUF_CONFIG_MAPPING = {"general": {}, "moth": {}, "moth_big": {}}\n',
        "integrations/gguf/gguf_config.py": 'GGUF_CONFIG_ARCHS = {"owl": read_owl}\n',
    }).gguf_architectures  # fmt: skip
    assert isinstance(found, Known)
    assert found.value == {"moth", "moth_big", "moth-big", "mothbig", "owl"}


def test_without_a_gguf_loader_there_are_none() -> None:
    assert library({}).gguf_architectures == Known(frozenset(), library({}).gguf_architectures.evidence)


def test_a_gguf_loader_of_unknown_form() -> None:
    assert isinstance(
        library({LOADER: "GGUF_SUPPORTED_ARCHITECTURES = find()\n"}).gguf_architectures, Missing
    )
