"""Config classes of the engine's own, and edits of configs in code."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_builds import MODEL, read

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Import, Site, Want

CONFIGS = {
    "configs/__init__.py": "from sglang.srt.configs.next import NextConfig, ChildConfig\n",
    "configs/next.py": """
        from transformers import PretrainedConfig
        class NextConfig(PretrainedConfig):
            model_type = "next"
        class ChildConfig(NextConfig):
            model_type: str = "child"
    """,
}
IMPORT = "from transformers import AutoConfig\nfrom sglang.srt.configs import NextConfig, ChildConfig\n"
LOOP = """
for name, cls in _CONFIG_REGISTRY.items():
    with contextlib.suppress(ValueError):
        AutoConfig.register(name, cls)
"""
FORMS = {
    "dict": "_CONFIG_REGISTRY = {NextConfig.model_type: NextConfig, ChildConfig.model_type: ChildConfig}\n",
    "comprehension": "_CONFIG_REGISTRY: Dict = {cls.model_type: cls for cls in [NextConfig, ChildConfig]}\n",
    "list": (
        "_CONFIG_REGISTRY: List = [NextConfig, ChildConfig]\n"
        "_CONFIG_REGISTRY = {cls.model_type: cls for cls in _CONFIG_REGISTRY}\n"
    ),
    "update": "_CONFIG_REGISTRY = {'next': NextConfig}\n_CONFIG_REGISTRY.update({'child': ChildConfig})\n",
    "element": "_CONFIG_REGISTRY = {'next': NextConfig}\n_CONFIG_REGISTRY['child'] = ChildConfig\n",
}
PLACES = (
    "hf_transformers_utils.py",
    "utils/hf_transformers_utils.py",
    "utils/hf_transformers/common.py",
)


def shims(files: dict[str, str]) -> dict[str, Any]:
    fact = read({**CONFIGS, **files}).config_shims
    assert isinstance(fact, Known), fact
    return dict(fact.value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_every_form_of_the_table_at_every_place(form: str, place: str) -> None:
    found = shims({place: IMPORT + FORMS[form] + LOOP})
    assert sorted(found) == ["child", "next"]
    assert found["child"].name == "ChildConfig"
    assert found["child"].at == Site("sglang/srt/configs/next.py", 5)
    assert found["child"].overrides
    assert found["child"].imports == (
        Import("transformers", "PretrainedConfig", Site("sglang/srt/configs/next.py", 2)),
    )


def test_a_table_that_is_not_registered_makes_nothing_parsable() -> None:
    """Until 0.2.13 the table only exchanged configs that transformers had parsed already."""
    assert shims({PLACES[0]: IMPORT + FORMS["dict"]}) == {}


def test_classes_borrowed_from_vllm_have_the_type_of_their_name() -> None:
    text = """
        try:
            from vllm.transformers_utils.configs import ChatGLMConfig, DbrxConfig
            _CONFIG_REGISTRY = {ChatGLMConfig.model_type: ChatGLMConfig, DbrxConfig.model_type: DbrxConfig}
        except ImportError:
            _CONFIG_REGISTRY = {}
        for name, cls in _CONFIG_REGISTRY.items():
            AutoConfig.register(name, cls)
    """
    assert sorted(shims({PLACES[0]: text})) == ["chatglm", "dbrx"]


@pytest.mark.parametrize(
    ("registration", "wins"),
    [
        ("AutoConfig.register(NextConfig.model_type, NextConfig)", False),
        ('AutoConfig.register("next", NextConfig)', False),
        ('AutoConfig.register("next", NextConfig, exist_ok=True)', True),
        ('CONFIG_MAPPING.register("next", NextConfig)', False),
        ('CONFIG_MAPPING._extra_content["next"] = NextConfig', True),
        ("def _register():\n    AutoConfig.register('next', NextConfig)\n_register()", False),
        ("for cls in (NextConfig,):\n    AutoConfig.register(cls.model_type, cls)", False),
        ("for k, c in {'next': NextConfig}.items():\n    AutoConfig.register(k, c)", False),
        ("for k, c in [('next', NextConfig)]:\n    AutoConfig.register(k, c, exist_ok=True)", True),
    ],
)
def test_registrations_outside_of_the_table(registration: str, wins: bool) -> None:
    found = shims({"configs/other.py": IMPORT + registration + "\n", PLACES[1]: ""})
    assert list(found) == ["next"]
    assert found["next"].overrides is wins


def test_what_stands_under_try_needs_what_that_imports() -> None:
    text = """
        from transformers import AutoConfig
        _CONFIG_REGISTRY = {}
        try:
            from transformers import DeepseekV3Config as _Base
            class _Alias(_Base):
                model_type = "deepseek_v32"
            _CONFIG_REGISTRY["deepseek_v32"] = _Alias
        except ImportError:
            pass
    """
    found = shims({PLACES[2]: text + LOOP.replace("\n", "\n        ")})
    place = "sglang/srt/utils/hf_transformers/common.py"
    assert found["deepseek_v32"].imports == (Import("transformers", "DeepseekV3Config", Site(place, 5)),)
    assert found["deepseek_v32"].at.file == place


@pytest.mark.parametrize(
    "text",
    [
        "_CONFIG_REGISTRY = build_registry()\n" + LOOP,
        "_CONFIG_REGISTRY = {**plugins()}\n" + LOOP,
        "_CONFIG_REGISTRY = {make_key(): NextConfig}\n" + LOOP,
        "for cls in discover():\n    AutoConfig.register(cls.model_type, cls)\n",
        "AutoConfig.register(compute(), NextConfig)\n",
    ],
)
def test_an_unknown_form_is_missing_never_empty(text: str) -> None:
    fact = read({**CONFIGS, PLACES[1]: IMPORT + text}).config_shims
    assert isinstance(fact, Missing), fact
    assert fact.cause is Cause.UNREADABLE


def test_a_build_without_config_files_has_no_shims() -> None:
    assert read().config_shims == Known({}, read().config_shims.evidence)


# -- edits in code


def test_a_failing_parse_that_is_repaired_by_its_error_text() -> None:
    text = """
        def get_config(model):
            try:
                config = AutoConfig.from_pretrained(model)
            except ValueError as e:
                if not "deepseek_v32" in str(e):
                    raise e
                config = _load_deepseek_v32_model(model)

        def get_tokenizer(name):
            try:
                return AutoTokenizer.from_pretrained(name)
            except ValueError as e:
                if "does not exist" in str(e):
                    raise RuntimeError
    """
    fixups = read({PLACES[1]: text}).config_fixups
    assert isinstance(fixups, Known)
    assert fixups.value == {"deepseek_v32": Site("sglang/srt/utils/hf_transformers_utils.py", 5)}


def test_architectures_that_choose_a_config_class() -> None:
    text = """
        _ARCHS = {"LongcatCausalLM", "LongcatFlashForCausalLM"}

        def _try_load_longcat_config(model):
            config_dict, _ = PretrainedConfig.get_config_dict(model)
            if not any(arch in _ARCHS for arch in config_dict.get("architectures")):
                return None
            if config_dict["architectures"] == ["Other"] or config_dict["x"] in _ARCHS:
                return None
            return _CONFIG_REGISTRY["longcat_flash"].from_pretrained(model)
    """
    fact = read({"utils/hf_transformers/config.py": text, PLACES[2]: ""}).architecture_types
    assert isinstance(fact, Known)
    assert fact.value["LongcatCausalLM"] == "longcat_flash"


def test_architectures_that_are_written_over_by_model_type() -> None:
    text = """
        def get_config(config):
            if config.model_type == "multi_modality":
                config.update({"architectures": ["MultiModalityCausalLM"]})
            if config.model_type in ("a", "b"):
                _set_architectures(config, "ForBoth")
            if config.model_type == "c":
                config.architectures = ["C"]
                if is_ocr(config):
                    config.architectures = ["OcrOnly"]
            elif config.model_type in _CONFIG_REGISTRY:
                config.update({"architectures": ["NotByLiteral"]})
            if is_ocr(config):
                _set_architectures(config, "NotByType")
    """
    fact = read({PLACES[1]: text}).architecture_rewrites
    assert isinstance(fact, Known)
    assert fact.value == {
        "multi_modality": "MultiModalityCausalLM",
        "a": "ForBoth",
        "b": "ForBoth",
        "c": "C",
    }


def test_the_class_that_is_put_in_by_model_type_is_read_as_if_it_had_been_named() -> None:
    files = {
        PLACES[
            1
        ]: "def get_config(config):\n    if config.model_type == 'c':\n        config.architectures = ['LlamaForCausalLM']\n",
        "models/named.py": MODEL.format("Named"),
        "models/other.py": MODEL.format("Other"),
    }
    want = Want(architectures=frozenset({"Named"}), model_types=frozenset({"c"}))
    assert set(read(files, want).classes) == {"LlamaForCausalLM", "Named"}


def test_draft_classes_by_the_architecture_they_are_made_from() -> None:
    text = """
        MIMO = ["MiMoA", "MiMoB"]

        class ModelConfig:
            def _config_draft_model(self):
                is_draft_model = self.is_draft_model
                if is_draft_model and self.hf_config.architectures[0] == "QwenForCausalLM":
                    self.hf_config.architectures[0] = "QwenForCausalLMMTP"
                if is_draft_model and self.hf_config.architectures[0] in ["A", "B"]:
                    self.hf_config.architectures = ["ABNextN"]
                if is_draft_model and self.hf_config.architectures[0] in MIMO:
                    self.hf_config.architectures[0] = "MiMoMTP"
                if is_draft_model:
                    if self.hf_config.architectures[0] == "Nested":
                        self.hf_config.architectures[0] = "NestedMTP"
                if is_draft_model and self.hf_config.architectures[0] == "Two":
                    if self.algorithm == "DSPARK":
                        self.hf_config.architectures[0] = "TwoDSpark"
                    else:
                        self.hf_config.architectures[0] = "TwoNextN"
                if self.hf_config.architectures[0] == "NoDraft":
                    self.hf_config.architectures[0] = "Other"
    """
    fact = read({"configs/model_config.py": text}).draft_classes
    assert isinstance(fact, Known)
    assert fact.value == {
        "QwenForCausalLM": ("QwenForCausalLMMTP",),
        "A": ("ABNextN",),
        "B": ("ABNextN",),
        "MiMoA": ("MiMoMTP",),
        "MiMoB": ("MiMoMTP",),
        "Nested": ("NestedMTP",),
        "Two": ("TwoDSpark", "TwoNextN"),
    }
