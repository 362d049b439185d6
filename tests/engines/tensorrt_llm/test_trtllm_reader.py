"""TensorRT-LLM's forms: classes that register themselves, tables, options of click, and what is not understood."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest
from trtllm_trees import INDEX, LEGACY, MODELS, REGISTERED_REASONING, SERVE, STRAY, TREE, known, read, without

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Build, Want


def kinds(build: Build) -> dict[str, str]:
    return {name: row.kind for name, row in known(build.registry).items()}


def test_classes_of_imported_modules_and_the_table_of_the_other_back_end() -> None:
    build = read(TREE)
    assert kinds(build) == {
        "LlamaForCausalLM": "pytorch and tensorrt",
        "Llama4ForConditionalGeneration": "pytorch",
        "Qwen3ForCausalLM": "pytorch",
        "EAGLE3LlamaForCausalLM": "pytorch",
        "GPT2LMHeadModel": "tensorrt",
        "GemmaForCausalLM": "tensorrt",
    }
    rows = known(build.registry)
    assert rows["LlamaForCausalLM"].module == "tensorrt_llm._torch.models.modeling_llama"
    assert rows["LlamaForCausalLM"].guards == ()
    assert rows["GPT2LMHeadModel"].guards == ("--backend tensorrt",)
    assert rows["GPT2LMHeadModel"].backends == ("tensorrt",)
    assert known(build.engine_flags) == {"pytorch": "--backend pytorch", "tensorrt": "--backend tensorrt"}


def test_a_table_of_modules_decides_where_there_is_one() -> None:
    build = read(without("tensorrt_llm/models/__init__.py") | {
        f"{MODELS}_arch_index.py": INDEX,
        f"{MODELS}__init__.py": "",
    })  # fmt: skip
    assert known(build.registry).keys() == {"LlamaForCausalLM", "Qwen3ForCausalLM", "EAGLE3LlamaForCausalLM"}


def test_a_name_in_the_table_that_no_class_registers_is_not_served() -> None:
    index = INDEX.replace('"Qwen3ForCausalLM": "modeling_qwen3"', '"Qwen3ForCausalLM": "modeling_llama"')
    build = read(TREE | {f"{MODELS}_arch_index.py": index})
    assert "Qwen3ForCausalLM" not in known(build.registry)


def test_the_default_back_end_of_older_releases() -> None:
    old = SERVE.replace('default="pytorch"', "default=None").replace(
        'ChoiceWithAlias(["pytorch", "tensorrt", "_autodeploy"], {"trt": "tensorrt"})',
        'click.Choice(["pytorch"])',
    )
    rows = known(read(TREE | {"tensorrt_llm/commands/serve.py": old}).registry)
    assert rows["GPT2LMHeadModel"].guards == ()
    assert rows["Qwen3ForCausalLM"].guards == ("--backend pytorch",)
    assert rows["LlamaForCausalLM"].backends == ("tensorrt", "pytorch")


def test_a_table_that_was_left_behind_is_not_served() -> None:
    newer = SERVE.replace(
        '["pytorch", "tensorrt", "_autodeploy"], {"trt": "tensorrt"}', '["pytorch", "_autodeploy"], {}'
    )
    assert known(read(TREE | {"tensorrt_llm/commands/serve.py": newer}).registry).keys() == {
        "LlamaForCausalLM", "Llama4ForConditionalGeneration", "Qwen3ForCausalLM", "EAGLE3LlamaForCausalLM",
    }  # fmt: skip


def test_the_oldest_releases_have_the_table_alone() -> None:
    files = {"tensorrt_llm/__init__.py": "", "tensorrt_llm/models/__init__.py": LEGACY,
             "tensorrt_llm/models/gemma/config.py": "GEMMA_ARCHITECTURE = 'GemmaForCausalLM'\n"}  # fmt: skip
    build = read(files)
    assert known(build.registry).keys() == {"GPT2LMHeadModel", "LlamaForCausalLM", "GemmaForCausalLM"}
    assert isinstance(build.flags, Missing)
    assert known(build.reasoning_parsers) == ()


def test_classes_and_what_they_need_of_transformers() -> None:
    """Where modules are imported by the table, each needs its own names alone; else each needs all of them."""
    want = Want(architectures=frozenset({"LlamaForCausalLM", "Qwen3ForCausalLM", "Unknown"}))
    build = read(TREE | {f"{MODELS}_arch_index.py": INDEX, f"{MODELS}__init__.py": ""}, want)
    assert set(build.classes) == {"LlamaForCausalLM", "Qwen3ForCausalLM"}
    found = known(build.classes["Qwen3ForCausalLM"])
    assert found is not None
    assert {(need.module, need.name) for need in found.imports} == {
        ("transformers", "Qwen3Config"), ("transformers", "Qwen3NextConfig"),
    }  # fmt: skip
    eager = known(read(TREE, want).classes["Qwen3ForCausalLM"])
    assert eager is not None
    assert ("transformers", "LlamaConfig") in {(need.module, need.name) for need in eager.imports}


def test_configs_of_its_own() -> None:
    build = read(TREE)
    assert {kind: shim.name for kind, shim in known(build.config_shims).items()} == {
        "deepseek_v32": "DeepseekV3Config",
        "kimi_k2": "DeepseekV3Config",
    }
    assert known(build.config_fixups).keys() == {"qwen3_5", "qwen3_5_text", "glm_moe_dsa"}
    assert known(read(without("tensorrt_llm/_torch/pyexecutor/config_utils.py")).config_shims) == {}


def test_quantization_by_method_and_by_algorithm() -> None:
    methods = known(read(TREE).quantization)
    assert set(methods) == {"modelopt", "modelopt_fp4", "modelopt_mixed", "fp8", "mxfp4"}
    assert known(methods["modelopt"].schemes) == ("W4A16_AWQ", "FP8", "NVFP4", "MIXED_PRECISION")
    assert isinstance(methods["fp8"].schemes, Missing)
    assert isinstance(read(without("tensorrt_llm/quantization/mode.py")).quantization, Missing)


def test_what_a_server_can_be_told() -> None:
    build = read(TREE)
    assert known(build.kv_cache_dtypes) == ("auto", "fp8", "int8", "nvfp4")
    assert known(build.reasoning_parsers) == ("deepseek-r1", "qwen3")
    assert known(build.tool_parsers) == ("qwen3", "deepseekv3.1")
    assert known(build.load_formats) == ("auto", "safetensors", "pt")
    assert known(build.launchers) == ("mpi",)
    assert known(build.gguf_architectures) == {}
    registered = read(TREE | {"tensorrt_llm/llmapi/reasoning_parser.py": REGISTERED_REASONING})
    assert known(registered.reasoning_parsers) == ("deepseek-r1", "qwen3", "poolside_v1", "laguna")


def test_options_of_the_command_that_serves() -> None:
    build = read(TREE)
    flags = known(build.flags)
    assert {name: (flag.kind, flag.choices) for name, flag in flags.items()} == {
        "--tokenizer": ("value", None),
        "--backend": ("value", ("pytorch", "tensorrt", "_autodeploy", "trt")),
        "--log_level": ("value", None),
        "--tensor_parallel_size": ("value", None),
        "--config": ("value", None),
        "--trust_remote_code": ("switch", None),
        "--enable_x": ("switch", None),
        "--reasoning_parser": ("value", ("deepseek-r1", "qwen3")),
        "--tool_parser": ("value", ("qwen3", "deepseekv3.1")),
    }
    assert flags["--tensor_parallel_size"].aliases == ("--tp_size",)
    assert flags["--enable_x"].aliases == ("--disable_x",)
    assert known(build.flag_syntax).abbreviations is False


def test_options_declared_by_wrappers_and_choices_that_have_names() -> None:
    newer = """
KV_CHOICES = ("auto", "fp8", "nvfp4")
@click.command("serve")
@click.argument("model", type=str)
@stability_option("--port", type=int, default=8000, status="beta", help="x")
@stability_option("--kv_cache_dtype", type=click.Choice(KV_CHOICES), default="auto", status="beta", help="x")
@click.option("--tool_parser", type=click.Choice(["auto"] + list(ToolParserFactory.parsers.keys())), default=None)
@stability_option("--backend", type=click.Choice(["pytorch", "_autodeploy"]), default="pytorch", status="beta")
def serve(model):
    pass
"""
    build = read(TREE | {"tensorrt_llm/commands/serve.py": newer})
    flags = known(build.flags)
    assert flags["--tool_parser"].choices == ("auto", "qwen3", "deepseekv3.1")
    assert flags["--port"].kind == "value"
    assert known(build.kv_cache_dtypes) == ("auto", "fp8", "nvfp4")
    assert "GPT2LMHeadModel" not in known(build.registry)
    for more in ("@shared_options", "@add_options(required=True)"):
        changed = newer.replace("def serve", f"{more}\ndef serve")
        assert isinstance(read(TREE | {"tensorrt_llm/commands/serve.py": changed}).flags, Missing)


def test_configs_that_are_added_to_transformers_table() -> None:
    added = """
def _register():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    custom = {"deepseek_v4": DeepseekV4Config, "laguna": LagunaConfig}
    CONFIG_MAPPING.register("one", OneConfig, exist_ok=True)
    for model_type in ("deepseek_v32", "glm5"):
        if model_type in CONFIG_MAPPING:
            continue
        CONFIG_MAPPING.register(model_type, DeepseekV3Config, exist_ok=True)

def _another():
    return {"not_this": Config}
"""
    shims = known(read(TREE | {"tensorrt_llm/_torch/configs/__init__.py": added}).config_shims)
    assert {kind: (shim.name, shim.overrides) for kind, shim in shims.items()} == {
        "deepseek_v4": ("DeepseekV4Config", False),
        "laguna": ("LagunaConfig", False),
        "one": ("OneConfig", False),
        "glm5": ("DeepseekV3Config", False),
        "deepseek_v32": ("DeepseekV3Config", True),
        "kimi_k2": ("DeepseekV3Config", True),
    }


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({f"{MODELS}__init__.py": "", "tensorrt_llm/models/__init__.py": ""}, "registry"),
        ({f"{MODELS}modeling_llama.py": "def ("}, "registry"),
        ({f"{MODELS}_arch_index.py": "MODEL_ARCH_TO_MODULE = make()"}, "registry"),
        ({f"{MODELS}_arch_index.py": "MODEL_ARCH_TO_MODULE = {'a': b}"}, "registry"),
        ({"tensorrt_llm/_torch/pyexecutor/config_utils.py": "_CONFIG_REGISTRY = make()"}, "config_shims"),
        ({"tensorrt_llm/quantization/mode.py": "class QuantAlgo2: pass"}, "quantization"),
        ({"tensorrt_llm/quantization/mode.py": ""}, "kv_cache_dtypes"),
        ({"tensorrt_llm/llmapi/reasoning_parser.py": "class Another: pass"}, "reasoning_parsers"),
        ({"tensorrt_llm/commands/serve.py": "def serve(): pass"}, "flags"),
        ({f"{MODELS}checkpoints/hf/weight_loader.py": "pass"}, "load_formats"),
    ],
)
def test_another_form_is_unknown(changed: dict[str, str], fact: str) -> None:
    found = getattr(read(TREE | changed), fact)
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNREADABLE


@pytest.mark.parametrize(
    "bomb", [b"(" * 100_000, b"x = [" * 50_000, bytes(range(256)) * 100, b" " * (9 << 20), b""]
)
def test_hostile_files_end_in_facts(bomb: bytes) -> None:
    begun = time.process_time()
    build = read(dict.fromkeys(TREE, bomb))
    assert time.process_time() - begun < 30
    for one in fields(build):
        if one.name not in {"identity", "transformers", "classes", "stack"}:
            assert isinstance(getattr(build, one.name), Known | Missing), one.name
    assert isinstance(build.registry, Missing)


def test_modules_that_import_each_other_end() -> None:
    circle = "from .modeling_llama import LlamaForCausalLM\nfrom . import modeling_stray\n"
    build = read(TREE | {f"{MODELS}modeling_qwen3.py": circle, f"{MODELS}modeling_stray.py": STRAY})
    assert "StrayForCausalLM" in known(build.registry)
