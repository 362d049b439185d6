"""How config.json is parsed, whose code is run for it, and what ``auto_map`` decides."""

from __future__ import annotations

import pytest
from lmdeploy_builds import LAYERS, MODERN, read

from canserve.facts import Known, Missing
from canserve.subjects.build import Site

HF_CONFIGS = """
    from transformers import AutoConfig

    def register_config(model_type):
        if model_type == 'new_type':
            from .configuration_new import NewConfig
            AutoConfig.register(NewConfig.model_type, NewConfig)

    def config_from_pretrained(path, **kwargs):
        try:
            return AutoConfig.from_pretrained(path, **kwargs)
        except Exception:
            register_config('x')
            return PretrainedConfig.from_pretrained(path, **kwargs)
"""
NEW = "from transformers import DeepseekV3Config\nclass NewConfig(DeepseekV3Config):\n    model_type = 'new_type'\n"
SHIMS = {"hf_configs/__init__.py": HF_CONFIGS, "hf_configs/configuration_new.py": NEW}


def test_config_classes_that_it_registers_are_shims() -> None:
    shims = read({**MODERN, **SHIMS}).config_shims
    assert isinstance(shims, Known)
    assert list(shims.value) == ["new_type"]
    assert shims.value["new_type"].name == "NewConfig"
    assert [need.name for need in shims.value["new_type"].imports] == ["DeepseekV3Config"]


def test_the_older_place_is_read_too() -> None:
    moved = {path.replace("hf_configs/", "pytorch/transformers/"): text for path, text in SHIMS.items()}
    shims = read({**MODERN, **moved}).config_shims
    assert isinstance(shims, Known)
    assert list(shims.value) == ["new_type"]


def test_a_config_class_without_a_readable_type_is_an_unknown_form() -> None:
    shims = read({**MODERN, **SHIMS, "hf_configs/configuration_new.py": "NewConfig = make()\n"}).config_shims
    assert isinstance(shims, Missing)


def test_without_such_a_place_there_are_none() -> None:
    shims = read(MODERN).config_shims
    assert isinstance(shims, Known)
    assert shims.value == {}


def test_the_plain_config_class_is_a_last_resort_where_the_code_says_so() -> None:
    with_it, without = read({**MODERN, **SHIMS}).plain_config, read(MODERN).plain_config
    assert isinstance(with_it, Known)
    assert with_it.value == Site("lmdeploy/hf_configs/__init__.py", 14)
    assert isinstance(without, Known)
    assert without.value is None


@pytest.mark.parametrize(
    "files, trusted",
    [
        (MODERN, False),
        ({**MODERN, "archs.py": "def get_model_arch(p):\n    open(p, trust_remote_code=True)\n"}, True),
        (LAYERS, True),  # in the list of architectures
    ],
)
def test_whether_code_of_the_repository_is_run_unasked(files: dict[str, str], trusted: bool) -> None:
    at = read(files).trusts_code
    assert isinstance(at, Known)
    assert (at.value is not None) is trusted


def test_that_nothing_is_said_about_trust_is_an_unknown_form() -> None:
    assert isinstance(read({**MODERN, "archs.py": "def get_model_arch(p): ...\n"}).trusts_code, Missing)


def test_auto_map_decides_for_pytorch_alone() -> None:
    rule = read(MODERN).auto_map_rule
    assert isinstance(rule, Known)
    assert rule.value is not None
    assert (rule.value.key, rule.value.backends) == ("AutoModelForCausalLM", ("pytorch",))
    older = read(LAYERS).auto_map_rule
    assert isinstance(older, Known)
    assert older.value is None
