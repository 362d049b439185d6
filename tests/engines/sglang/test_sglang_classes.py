"""What a registered class can do, what its import needs, and the fallback for all others."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_builds import COLLECTOR, MODEL, read

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Import, Site
from read_builds import model

PREDICATES = {
    "configs/model_config.py": """
        PURE_SSM_ARCHITECTURES = ("Mamba2ForCausalLM",) + ("MambaForCausalLM",)

        def is_generation_model(model_architectures, is_embedding: bool = False):
            if "BertModel" in model_architectures or "QwenForRewardModel" in model_architectures:
                return False
            else:
                return not is_embedding

        multimodal_model_archs = ["LlavaForCausalLM", "QwenVLForConditionalGeneration"]

        if external := envs.EXTERNAL.get():
            multimodal_model_archs.append(external)

        def is_multimodal_model(model_architectures):
            if any(multi in model_architectures for multi in multimodal_model_archs):
                return True
            else:
                return False
    """
}


def interfaces(files: dict[str, str], name: str) -> dict[str, Any]:
    return dict(model(read({**PREDICATES, **files}), name).interfaces)


# -- lists of architectures


@pytest.mark.parametrize(
    ("name", "multimodal", "generates"),
    [("LlavaForCausalLM", True, True), ("BertModel", False, False), ("LlamaForCausalLM", False, True)],
)
def test_lists_of_architectures_decide(name: str, multimodal: bool, generates: bool) -> None:
    found = interfaces({"models/x.py": MODEL.format(name)}, name)
    assert found["supports_multimodal"] is multimodal
    assert found["is_text_generation_model"] is generates
    assert found["is_pooling_model"] is not generates


def test_where_the_model_path_decides_the_architecture_says_nothing() -> None:
    files = {"utils.py": "def is_multimodal_model(model):\n    return 'llava' in model.path.lower()\n"}
    found = model(read(files), "LlamaForCausalLM").interfaces
    assert found["supports_multimodal"] is None
    assert found["is_text_generation_model"] is True


# -- pipeline parallelism


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def forward(self, input_ids, pp_proxy_tensors=None): ...", True),
        ("def forward(self, input_ids, *, pp_proxy_tensors=None): ...", True),
        ("@torch.no_grad()\n    def forward(self, input_ids, pp_proxy_tensors=None): ...", True),
        ("def forward(self, input_ids, **kwargs): ...", False),
        ("pp_proxy_tensors = None", False),
    ],
)
def test_pipeline_support_is_a_parameter_of_forward(body: str, expected: bool) -> None:
    text = f"from torch import nn\n\nclass A(nn.Module):\n    {body}\n\nEntryClass = A\n"
    assert interfaces({"models/x.py": text}, "A")["supports_pp"] is expected


def test_forward_is_inherited_across_modules() -> None:
    files = {
        "models/base.py": "class Base:\n    def forward(self, pp_proxy_tensors): ...\n",
        "models/x.py": "from sglang.srt.models.base import Base\nclass A(Base): ...\nEntryClass = A\n",
    }
    assert interfaces(files, "A")["supports_pp"] is True


def test_a_forward_that_may_come_from_outside_is_undecided() -> None:
    text = "from transformers import PreTrainedModel\nclass A(PreTrainedModel): ...\nEntryClass = A\n"
    assert interfaces({"models/x.py": text}, "A")["supports_pp"] is None


# -- recurrent state

HYBRID = {
    "configs/hybrid_arch.py": """
        def hybrid_gdn_config(model_config):
            if isinstance(model_config.hf_config, NextConfig | OtherConfig):
                return model_config.hf_config

        def lightning_config(model_config):
            config = model_config.hf_config
            if isinstance(config, MixedConfig) and config.has_lightning_layers:
                return config

        def glm_next_config(model_config):
            if model_config.hf_config.model_type == "glm_next":
                return model_config.hf_config
    """,
    "configs/__init__.py": "from sglang.srt.configs.next import NextConfig, ChildConfig, PlainConfig\n",
    "configs/next.py": """
        class NextConfig: model_type = "next"
        class ChildConfig(NextConfig): ...
        class MixedConfig: ...
        class PlainConfig: ...
        class GlmConfig: model_type = "glm_next"
    """,
}


def of_config(config: str, annotation: str | None) -> Any:
    text = f"""
        from sglang.srt.configs.next import {config}
        from transformers import PretrainedConfig

        class A:
            def __init__(self, config{f": {annotation}" if annotation else ""}): ...

        EntryClass = A
    """
    return interfaces({**HYBRID, "models/x.py": text}, "A")["is_hybrid"]


@pytest.mark.parametrize(
    ("config", "annotation", "expected"),
    [
        ("NextConfig", "NextConfig", True),
        ("ChildConfig", "ChildConfig", True),  # a subclass is an instance as well
        ("GlmConfig", "GlmConfig", True),  # decided by its model type
        ("NextConfig", None, True),
        ("NextConfig", "PretrainedConfig", None),  # written for more than one kind of config
        ("MixedConfig", "MixedConfig", None),  # some of its configs only
        ("PlainConfig", "PlainConfig", False),
        ("PlainConfig", None, False),
    ],
)
def test_the_config_class_decides_on_recurrent_layers(
    config: str, annotation: str | None, expected: bool | None
) -> None:
    assert of_config(config, annotation) is expected


def test_part_of_a_config_may_be_hybrid() -> None:
    text = """
        from sglang.srt.configs.next import NextConfig, PlainConfig
        class A:
            def __init__(self, config: PlainConfig): ...
        EntryClass = A
    """
    assert interfaces({**HYBRID, "models/x.py": text}, "A")["is_hybrid"] is None


def test_a_list_of_architectures_decides_in_the_first_release() -> None:
    runner = """
        class ModelRunner:
            @property
            def is_hybrid_gdn(self):
                return self.model_config.hf_config.architectures[0] in ["A", "B"]
    """
    files = {"model_executor/model_runner.py": runner, "models/x.py": MODEL.format("A")}
    assert interfaces(files, "A")["is_hybrid"] is True
    assert interfaces(files, "LlamaForCausalLM")["has_inner_state"] is False


def test_state_space_models_have_state_but_are_not_hybrid() -> None:
    found = interfaces({**HYBRID, "models/x.py": MODEL.format("MambaForCausalLM")}, "MambaForCausalLM")
    assert (found["is_attention_free"], found["has_inner_state"], found["is_hybrid"]) == (True, True, False)


# -- processors


def processor(models: str) -> Any:
    files = {
        "models/x.py": MODEL.format("LlavaForCausalLM"),
        "multimodal/processors/llava.py": f"""
            from sglang.srt.models.x import LlavaForCausalLM
            class LlavaProcessor:
                models = {models}
        """,
    }
    return interfaces(files, "LlavaForCausalLM").get("has_processor")


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ("[LlavaForCausalLM]", True),
        ("[m for m in [LlavaForCausalLM] if m is not None]", True),
        ("[]", False),
        ("registered_somewhere()", None),
    ],
)
def test_processors_list_their_classes(models: str, expected: bool | None) -> None:
    assert processor(models) is expected


def test_a_text_model_needs_no_processor() -> None:
    assert "has_processor" not in interfaces({}, "LlamaForCausalLM")


# -- imports


def test_imports_of_a_module_and_of_the_models_it_pulls_in() -> None:
    files = {
        "models/x.py": """
            import torchaudio
            from transformers import LlamaConfig
            from sglang.srt.models.base import Base
            from sglang.srt.layers.linear import Linear
            try:
                from transformers import MaybeConfig
            except ImportError:
                MaybeConfig = None
            if TYPE_CHECKING:
                from transformers import OnlyForTypes
            class A(Base): ...
            EntryClass = A
        """,
        "models/base.py": "from transformers.activations import ACT2FN\nclass Base: ...\n",
        "layers/linear.py": "from transformers import NotTheModelsBusiness\nclass Linear: ...\n",
    }
    found = model(read(files), "A")
    assert found.imports == (
        Import("transformers", "LlamaConfig", Site("sglang/srt/models/x.py", 3)),
        Import("transformers.activations", "ACT2FN", Site("sglang/srt/models/base.py", 1)),
    )
    assert [need.module for need in found.outside] == ["torchaudio"]
    assert found.broken == ()


@pytest.mark.parametrize(
    "line", ["from sglang.srt.layers.gone import X", "from sglang.srt.models.llama import Missing"]
)
def test_imports_that_cannot_succeed(line: str) -> None:
    found = model(read({"models/x.py": f"{line}\nclass A: ...\nEntryClass = A\n"}), "A")
    assert len(found.broken) == 1
    assert "sglang/srt/models/x.py:1" in found.broken[0]


def test_a_class_whose_imports_could_not_all_be_read_is_missing() -> None:
    gone = Missing(Cause.UNAVAILABLE, "permission denied")
    files: dict[str, str | Missing] = {
        "models/x.py": "from sglang.srt.models.parts.y import B\n" + MODEL.format("A"),
        "models/parts/__init__.py": "",
        "models/parts/y.py": gone,
    }
    assert read(files).classes["A"] == gone


def test_a_build_that_forgives_no_failed_import_needs_what_every_model_needs() -> None:
    files = {"models/other.py": "from transformers import OtherConfig\n" + MODEL.format("Other")}
    assert model(read(files), "LlamaForCausalLM").imports == ()
    strict = "\n".join(line for line in COLLECTOR.splitlines() if "continue" not in line)
    strict = strict.replace("except Exception as e:", "finally:\n                    pass")
    build = read({**files, "models/registry.py": strict})
    assert [need.name for need in model(build, "LlamaForCausalLM").imports] == ["OtherConfig"]


# -- fallback

RESOLVER = """
    import transformers

    def resolve_transformers_arch(model_config, architectures):
        for arch in architectures:
            auto_map = getattr(model_config.hf_config, "auto_map", None) or dict()
            model_module = getattr(transformers, arch, None)
            if model_module is None:
                model_module = auto_modules["AutoModel"]
            if not model_module.is_backend_compatible():
                raise ValueError(arch)
"""
WRAPPERS = "class TransformersForCausalLM: ...\nEntryClass = [TransformersForCausalLM]\n"


def test_no_fallback_in_older_releases() -> None:
    fallback = read().fallback
    assert isinstance(fallback, Known)
    assert fallback.value is None


def test_the_transformers_back_end() -> None:
    fallback = read({"model_loader/utils.py": RESOLVER, "models/transformers.py": WRAPPERS}).fallback
    assert isinstance(fallback, Known)
    assert fallback.value is not None
    assert fallback.value.classes == ("TransformersForCausalLM",)
    assert fallback.value.accepts == ("supports_attention_backend",)
    assert fallback.value.remote_code
    assert not fallback.value.multimodal
    assert not fallback.value.suffixes


def test_multimodal_wrappers() -> None:
    wrappers = WRAPPERS.replace("[", "[TransformersMultiModalForCausalLM, ")
    wrappers = "class TransformersMultiModalForCausalLM: ...\n" + wrappers
    fallback = read({"model_loader/utils.py": RESOLVER, "models/transformers.py": wrappers}).fallback
    assert isinstance(fallback, Known)
    assert fallback.value is not None
    assert fallback.value.multimodal


@pytest.mark.parametrize(
    "text",
    [
        RESOLVER.replace("is_backend_compatible", "passes_some_new_test"),
        "import transformers\n\ndef new_way(): ...\n",
    ],
)
def test_an_unknown_test_of_classes_is_missing(text: str) -> None:
    fallback = read({"model_loader/utils.py": text, "models/transformers.py": WRAPPERS}).fallback
    assert isinstance(fallback, Missing)
    assert fallback.cause is Cause.UNREADABLE


def test_a_wrapper_that_is_not_registered_serves_nothing() -> None:
    fallback = read({"model_loader/utils.py": RESOLVER}).fallback
    assert isinstance(fallback, Known)
    assert fallback.value is None


def test_without_registry_the_fallback_is_missing_too() -> None:
    build = read(
        {"model_loader/utils.py": RESOLVER, "models/registry.py": COLLECTOR.replace("iter_modules", "x")}
    )
    assert isinstance(build.fallback, Missing)
