"""Config shims and the fallback in every form they have had."""

from __future__ import annotations

from textwrap import dedent

import pytest
from vllm_builds import BUILD, DENIED, REGISTRY, built, reading

from canserve.engines.sources import Hole
from canserve.engines.vllm.configs import read_architecture_types, read_shims
from canserve.engines.vllm.fallback import read_fallback
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import ConfigShim, Fallback, Want

CONFIG = "vllm/transformers_utils/config.py"
CLASSES = "vllm/transformers_utils/configs/__init__.py"
PARSE = """
    def get_config(model):
        if model_type in _CONFIG_REGISTRY:
            return _CONFIG_REGISTRY[model_type].from_pretrained(model)
        return AutoConfig.from_pretrained(model)
"""
ONE_EACH = {
    CLASSES: "from vllm.transformers_utils.configs.a import AConfig",
    "vllm/transformers_utils/configs/a.py": "from transformers import PretrainedConfig\nclass AConfig: ...",
}


def shims(files: dict[str, str], want: Want | None = None) -> dict[str, ConfigShim]:
    fact = read_shims(reading(files), want or Want.everything())
    assert isinstance(fact, Known), fact
    return dict(fact.value)


def test_a_dict_of_classes_that_is_asked_first() -> None:
    table = (
        "from vllm.transformers_utils.configs import AConfig\n_CONFIG_REGISTRY = {\n    'a': AConfig,\n}\n"
    )
    found = shims({CONFIG: table + PARSE.replace("\n    ", "\n"), **ONE_EACH})["a"]
    assert (found.name, str(found.at), found.overrides) == ("AConfig", f"{CONFIG}:3", True)
    assert [(need.module, need.name) for need in found.imports] == [("transformers", "PretrainedConfig")]


def test_one_that_is_asked_only_after_transformers_has_parsed_counts_for_nothing() -> None:
    late = """
        from vllm.transformers_utils.configs import AConfig
        _CONFIG_REGISTRY = {"a": AConfig}
        def get_config(model):
            config = AutoConfig.from_pretrained(model)
            if config.model_type in _CONFIG_REGISTRY:
                config = _CONFIG_REGISTRY[config.model_type].from_pretrained(model)
            return config
    """
    assert shims({CONFIG: late, **ONE_EACH}) == {}
    registered = (
        late + "\n        for n, c in _CONFIG_REGISTRY.items():\n            AutoConfig.register(n, c)\n"
    )
    assert list(shims({CONFIG: registered, **ONE_EACH})) == ["a"]


def test_a_lazy_table_of_names_with_odd_keys_and_overrides() -> None:
    files = {
        CONFIG: dedent("""
            _CONFIG_REGISTRY_OVERRIDE_HF = {"a": "AConfig"}
            _CONFIG_REGISTRY: dict[str, type] = LazyConfigDict(
                b="BConfig",
                **{"c-d": "AConfig"},
                gone="GoneConfig",
                **_CONFIG_REGISTRY_OVERRIDE_HF,
            )
            """)
        + dedent(PARSE),
        CLASSES: """
            import importlib
            _CLASS_TO_MODULE = {"AConfig": "vllm.transformers_utils.configs.a", "BConfig": "transformers"}
            def __getattr__(name):
                if name in _CLASS_TO_MODULE:
                    return getattr(importlib.import_module(_CLASS_TO_MODULE[name]), name)
                raise AttributeError(name)
            """,
        "vllm/transformers_utils/configs/a.py": "class AConfig: ...",
    }
    found = shims(files)
    assert sorted(found) == ["a", "b", "c-d"], "a name without class is no shim"
    assert found["a"].at.line == 2 and found["c-d"].at.line == 5
    assert [(need.module, need.name) for need in found["b"].imports] == [("transformers", "BConfig")]
    unread = shims(files, Want(model_types=frozenset({"a"})))
    assert sorted(unread) == ["a", "b", "c-d", "gone"] and unread["b"].imports == ()


def test_unknown_forms_and_holes_are_missing() -> None:
    for text in ("_CONFIG_REGISTRY = make()[0]", "_CONFIG_REGISTRY = {**made()}", "def ("):
        fact = read_shims(reading({CONFIG: text}), Want.everything())
        assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE, text
    hidden = read_shims(reading({REGISTRY: ""}, [Hole("vllm/transformers_utils", DENIED)]), Want.everything())
    assert hidden == DENIED
    assert shims({REGISTRY: ""}) == {}


def test_configs_repaired_by_architecture() -> None:
    fact = read_architecture_types(reading({CONFIG: "_ARCHITECTURE_TO_MODEL_TYPE = {'AForCausalLM': 'a'}"}))
    assert isinstance(fact, Known) and fact.value == {"AForCausalLM": "a"}
    none = read_architecture_types(reading({CONFIG: "x = 1"}))
    assert isinstance(none, Known) and none.value == {}


LOADER = "vllm/model_executor/model_loader/utils.py"
NEWEST = """
    _TRANSFORMERS_BACKEND_MODELS = {
        "TransformersModel": ("transformers", "TransformersModel"),
        "TransformersForCausalLM": ("transformers", "TransformersForCausalLM"),
        "TransformersMultiModalForCausalLM": ("transformers", "TransformersMultiModalForCausalLM"),
    }
    class _ModelRegistry:
        def _raise_for_unsupported(self, names):
            if names[0] in _PREVIOUSLY_SUPPORTED_MODELS: raise ValueError
        def _try_resolve_transformers(self, architecture, config):
            auto_map = config.auto_map
            cls = getattr(transformers, architecture, None) or dynamic(auto_map["AutoModel"])
            if not (cls.is_backend_compatible() or cls._can_set_attn_implementation()):
                return None
        def _normalize_arch(self, architecture):
            for suffix, _ in iter_architecture_defaults(): ...
        def resolve(self, names):
            return self._try_resolve_transformers(names[0], config) or self._raise_for_unsupported(names)
"""
SUFFIXES = """
    _SUFFIX_TO_DEFAULTS: list[tuple[str, tuple[Runner, Convert]]] = [
        ("ForCausalLM", ("generate", "none")),
        ("ForConditionalGeneration", ("generate", "none")),
        ("ForSequenceClassification", ("pooling", "classify")),
        ("Model", ("pooling", "embed")),
    ]
"""
REFUSING = """
    def resolve_transformers_arch(config, architectures):
        auto_map = config.auto_map
        if not model_module.is_backend_compatible(): raise ValueError
    def get_model_architecture(config):
        for arch in architectures:
            causal = arch.replace("ForSequenceClassification", "ForCausalLM")
        if any(arch in _PREVIOUSLY_SUPPORTED_MODELS for arch in architectures):
            raise ValueError
        return resolve_transformers_arch(config, architectures)
"""
OLDEST = """
    def is_transformers_impl_compatible(arch, module=None):
        mod = module or getattr(transformers, arch, None)
        return mod.is_backend_compatible() if hasattr(mod, "supports_backend") else mod._supports_flex_attn
    def resolve_transformers_fallback(config, architectures):
        auto_map = config.auto_map
        if not is_transformers_impl_compatible(arch): raise ValueError
"""
WRAPPER = "_{} = {{'{}': ('transformers', 'X')}}"


def fallback(files: dict[str, str]) -> Fallback | None:
    fact = read_fallback(reading(files))
    assert isinstance(fact, Known), fact
    return fact.value


def test_no_fallback() -> None:
    assert fallback({REGISTRY: "_VLLM_MODELS = {}"}) is None


def test_the_newest_fallback_converts_suffixes_and_is_tried_before_dropped_names_are_refused() -> None:
    found = fallback({REGISTRY: NEWEST, "vllm/config/model.py": SUFFIXES})
    assert found is not None
    assert found.classes[:2] == ("TransformersForCausalLM", "TransformersMultiModalForCausalLM")
    assert found.accepts == ("supports_attention_backend", "can_set_attn_implementation")
    assert (found.remote_code, found.multimodal, found.refuses_dropped) == (True, True, False)
    assert found.suffixes == {"ForSequenceClassification": "ForCausalLM", "Model": "ForCausalLM"}
    assert found.bases == ("ForCausalLM", "ForConditionalGeneration")
    assert str(found.at) == f"{REGISTRY}:10"


def test_one_that_refuses_dropped_names_first() -> None:
    found = fallback(
        {REGISTRY: WRAPPER.format("TRANSFORMERS_MODELS", "TransformersForCausalLM"), LOADER: REFUSING}
    )
    assert found is not None
    assert (found.refuses_dropped, found.multimodal) == (True, False)
    assert found.accepts == ("supports_attention_backend",)
    assert found.suffixes == {"ForSequenceClassification": "ForCausalLM"}


def test_the_oldest_accepts_flexible_attention() -> None:
    found = fallback({REGISTRY: WRAPPER.format("FALLBACK_MODEL", "TransformersModel"), LOADER: OLDEST})
    assert found is not None
    assert found.accepts == ("supports_attention_backend", "supports_flex_attn")
    assert (found.classes, found.suffixes, found.refuses_dropped) == (("TransformersModel",), {}, False)


@pytest.mark.parametrize(
    "files",
    [
        {REGISTRY: "_VLLM_MODELS = {}", LOADER: REFUSING},
        {
            REGISTRY: WRAPPER.format("FALLBACK_MODEL", "T"),
            LOADER: "def resolve_transformers_arch(c, a):\n    return new_test(a)",
        },
        {REGISTRY: NEWEST, "vllm/config/model.py": "_SUFFIX_TO_DEFAULTS = made()"},
        {REGISTRY: "", LOADER: "def ("},
    ],
)
def test_unknown_forms_of_a_fallback(files: dict[str, str]) -> None:
    fact = read_fallback(reading(files))
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE


def test_an_unlisted_folder_leaves_the_fallback_open() -> None:
    assert read_fallback(reading(BUILD, [Hole("vllm/model_executor/model_loader", DENIED)])) == DENIED


def test_a_build_rewrites_nothing_in_code() -> None:
    build = built()
    assert isinstance(build.config_fixups, Known) and build.config_fixups.value == {}
    assert build.config_fixups.evidence != ()
