"""Small source trees of TensorRT-LLM's forms, written for these tests, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from canserve.engines.sources import Sources
from canserve.engines.tensorrt_llm import TensorRTLLM
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import Build, Identity, Transformers, Want

T = TypeVar("T")

NOWHERE = Missing(Cause.UNREACHED, "not looked for")
MODELS = "tensorrt_llm/_torch/models/"

LLAMA = '''
from transformers import LlamaConfig

from .modeling_utils import DecoderModelForCausalLM, register_auto_model
from .modeling_speculative import Drafter


@register_auto_model("LlamaForCausalLM")
class LlamaForCausalLM(DecoderModelForCausalLM):
    """@register_auto_model("NotInADocstring")"""


@register_vision_encoder(Encoder)
@register_auto_model("Llama4ForConditionalGeneration")
@register_input_processor(Processor, model_type="llama4")
class Llama4ForConditionalGeneration(DecoderModelForCausalLM):
    pass


# @register_auto_model("NotInAComment")
'''
QWEN = """
from transformers import Qwen3Config, Qwen3NextConfig
from .modeling_utils import register_auto_model

@register_auto_model("Qwen3ForCausalLM")
class Qwen3ForCausalLM:
    pass
"""
SPECULATIVE = """
from .modeling_utils import register_auto_model

class Drafter:
    pass

@register_auto_model("EAGLE3LlamaForCausalLM")
class Eagle3ForCausalLM:
    pass
"""
STRAY = """
from .modeling_utils import register_auto_model

@register_auto_model("StrayForCausalLM")
class StrayForCausalLM:
    pass
"""
UTILS = """
class DecoderModelForCausalLM:
    pass

def register_auto_model(name):
    return lambda cls: cls
"""
ZOO = """
import transformers
from .modeling_auto import AutoModelForCausalLM
from .modeling_llama import LlamaForCausalLM
if transformers.__version__ >= "4.45.1":
    from .modeling_qwen3 import Qwen3ForCausalLM
"""
INDEX = """
MODEL_ARCH_TO_MODULE = {
    "LlamaForCausalLM": "modeling_llama",
    "Qwen3ForCausalLM": "modeling_qwen3",
    "EAGLE3LlamaForCausalLM": "modeling_speculative",
}
"""
LEGACY = """
from .gemma.config import GEMMA_ARCHITECTURE
from .gpt.model import GPTForCausalLM
from .llama.model import LLaMAForCausalLM

MODEL_MAP = {
    'GPT2LMHeadModel': GPTForCausalLM,
    'LlamaForCausalLM': LLaMAForCausalLM,
    GEMMA_ARCHITECTURE: GPTForCausalLM,
}
"""
SERVE = '''
import click

class ChoiceWithAlias(click.Choice):
    pass

@click.command("serve")
@click.argument("model", type=str)
@click.option("--tokenizer", type=str, default=None, help="Path.")
@click.option("--backend", type=ChoiceWithAlias(["pytorch", "tensorrt", "_autodeploy"], {"trt": "tensorrt"}),
              default="pytorch", help="The backend.")
@click.option('--log_level', type=click.Choice(severity_map.keys()), default='info')
@click.option("--tensor_parallel_size", "--tp_size", type=int, default=1)
@click.option("--config", "--extra_llm_api_options", "extra_llm_api_options", type=str, default=None)
@click.option("--trust_remote_code", is_flag=True, default=False)
@click.option("--enable_x/--disable_x", default=True)
@click.option("--reasoning_parser", type=click.Choice(ReasoningParserFactory.parsers.keys()), default=None)
@click.option("--tool_parser", type=click.Choice(ToolParserFactory.parsers.keys()), default=None)
def serve(model, tokenizer, backend):
    """Runs a server."""

@click.command("mm_embedding_serve")
@click.option("--of_another_command", type=str)
def serve_encoder(model):
    pass
'''
CONFIGS = """
class LazyConfigDict(dict):
    pass

_CONFIG_REGISTRY: dict[str, type[transformers.PretrainedConfig]] = LazyConfigDict(
    deepseek_v32="DeepseekV3Config",
    kimi_k2=
    "DeepseekV3Config",  # the same
)

def load_pretrained_config(model_name_or_path, trust_remote_code=False):
    if checkpoint_format in ("mistral", "mistral_large_3"):
        model_config = 1
    elif (model_type == "qwen3_5_moe" and "text_config" in config_dict):
        model_config = 2
    elif model_type in _CONFIG_REGISTRY:
        model_config = 3
    elif model_type in ("qwen3_5", "qwen3_5_text") or (architectures and architectures[0] in ("Qwen3_5ForCausalLM",)):
        model_config = 4
    elif model_type == "glm_moe_dsa":
        model_config = 5
    else:
        model_config = transformers.AutoConfig.from_pretrained(model_name_or_path)
    return model_config
"""
MODES = """
from enum import IntFlag, auto

class QuantAlgo(StrEnum, metaclass=BaseEnumMeta):
    W4A16_AWQ = auto()
    FP8 = auto()
    NVFP4 = auto()
    MIXED_PRECISION = auto()

KV_CACHE_QUANT_ALGO_LIST = [QuantAlgo.FP8, QuantAlgo.INT8, QuantAlgo.NVFP4]

class QuantMode(IntFlag):
    NONE = 0
"""
GATE = """
class ModelLoader:
    def _update_from_hf_quant_config(self):
        if hf_quant_config.get("quant_method") == "fp8" and hf_quant_config.get("weight_block_size"):
            pass
        elif hf_quant_config.get(
                "quant_method") == "mxfp4":
            pass
        else:
            raise NotImplementedError(hf_quant_config)
"""
REASONING = """
class ReasoningParserFactory:
    parsers: dict[str, type] = {"deepseek-r1": DeepSeekR1Parser, "qwen3": DeepSeekR1Parser}
"""
REGISTERED_REASONING = '''
class ReasoningParserFactory:
    _parsers: dict[str, tuple] = {}

@register_reasoning_parser("deepseek-r1", reasoning_at_start=True)
@register_reasoning_parser("qwen3")
class DeepSeekR1Parser(BaseReasoningParser):
    r"""@register_reasoning_parser("not-this")"""

@register_reasoning_parser("poolside_v1", "laguna")
class Poolside:
    pass
'''
TOOLS = """
class ToolParserFactory:
    parsers: dict[str, Type[BaseToolParser]] = {"qwen3": Qwen3ToolParser, "deepseekv3.1": DeepSeekV31Parser}
"""
LOADER = """
def load(checkpoint_dir):
    files = glob.glob(f"{checkpoint_dir}/*.safetensors") or glob.glob(f"{checkpoint_dir}/*.bin")
"""
TREE: dict[str, str] = {
    "tensorrt_llm/__init__.py": "",
    "tensorrt_llm/_torch/__init__.py": "",
    f"{MODELS}__init__.py": ZOO,
    f"{MODELS}modeling_auto.py": "class AutoModelForCausalLM:\n    pass\n",
    f"{MODELS}modeling_llama.py": LLAMA,
    f"{MODELS}modeling_qwen3.py": QWEN,
    f"{MODELS}modeling_speculative.py": SPECULATIVE,
    f"{MODELS}modeling_stray.py": STRAY,
    f"{MODELS}modeling_utils.py": UTILS,
    f"{MODELS}checkpoints/hf/weight_loader.py": LOADER,
    "tensorrt_llm/_torch/pyexecutor/config_utils.py": CONFIGS,
    "tensorrt_llm/models/__init__.py": LEGACY,
    "tensorrt_llm/models/gemma/config.py": "GEMMA_ARCHITECTURE = 'GemmaForCausalLM'\n",
    "tensorrt_llm/commands/serve.py": SERVE,
    "tensorrt_llm/quantization/mode.py": MODES,
    "tensorrt_llm/llmapi/llm_utils.py": GATE,
    "tensorrt_llm/llmapi/reasoning_parser.py": REASONING,
    "tensorrt_llm/llmapi/mpi_session.py": "",
    "tensorrt_llm/serve/tool_parser/tool_parser_factory.py": TOOLS,
}


def read(files: Mapping[str, str | bytes], want: Want | None = None) -> Build:
    """A tree."""

    def fetch(paths: object) -> Mapping[str, bytes | Missing]:
        assert isinstance(paths, list)
        return {p: t if isinstance(t := files[p], bytes) else t.encode() for p in paths}

    sources = Sources("trtllm", files, fetch)
    identity = Identity(
        "trtllm", "tensorrt-llm", Known("1"), "source tree", NOWHERE, NOWHERE, NOWHERE, Known(())
    )
    engine = TensorRTLLM()
    wanted = want or Want.everything()
    sources.prefetch(engine.first_files(sources, wanted))
    return engine.read(sources, identity, Transformers(NOWHERE, NOWHERE, NOWHERE), wanted)


def without(*names: str) -> dict[str, str]:
    """The tree without some of its files."""
    return {name: text for name, text in TREE.items() if name not in names}


def known(fact: Fact[T]) -> T:
    """The value of a fact that must be known."""
    assert isinstance(fact, Known), fact
    return fact.value
