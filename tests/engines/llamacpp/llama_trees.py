"""Small source trees of llama.cpp's forms, written for these tests, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from canserve.engines.llamacpp import LlamaCpp
from canserve.engines.sources import Sources
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import Build, Identity, Transformers, Want

T = TypeVar("T")

NOWHERE = Missing(Cause.UNREACHED, "not looked for")
CARRIED = "vendor/llama.cpp/"

NAMES = """
static const std::map<llm_arch, const char *> LLM_ARCH_NAMES = {
    { LLM_ARCH_CLIP,    "clip"      }, // dummy { LLM_ARCH_FALSE, "false" },
    { LLM_ARCH_LLAMA,   "llama"     },
    /* { LLM_ARCH_OLD, "old" }, */
    { LLM_ARCH_QWEN3,   "qwen"  "3" },
    { LLM_ARCH_GPTJ,    "gptj"      },
    { LLM_ARCH_UNKNOWN, "(unknown)" },
};
"""
MAPPING = """
static llama_model * llama_model_mapping(llm_arch arch, const llama_model_params & params) {
    switch (arch) {
        case LLM_ARCH_CLIP:  return new llama_model_clip(params);
        case LLM_ARCH_LLAMA: return new llama_model_llama(params);
        case LLM_ARCH_QWEN3:
            return new llama_model_qwen3(params);
        default: throw std::runtime_error("unsupported model architecture: '");
    }
}
"""
REFUSAL = """
void load() {
    if (model->arch == LLM_ARCH_CLIP) {
        throw std::runtime_error("CLIP cannot be used as main model");
    }
}
"""
TYPES = """
enum ggml_type {
    GGML_TYPE_F32  = 0,
    GGML_TYPE_F16  = 1,
    // GGML_TYPE_Q4_2 = 4, support has been removed
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_Q8_1,
    GGML_TYPE_COUNT = 40,
};
"""
VOCABULARY = """
void load_vocabulary() {
    if (tokenizer_model == "llama") { type = SPM; }
    else if (tokenizer_model == "gpt2" || tokenizer_model == "other") {
        if (tokenizer_pre == "default") {} else if (
            tokenizer_pre == "llama3" ||
            tokenizer_pre == "llama-bpe") {}
        // tokenizer_pre == "not-yet"
    }
}
"""
PROJECTORS = """
static std::map<projector_type, std::string> PROJECTOR_TYPE_NAMES = {
    { PROJECTOR_TYPE_MLP, "mlp" }, { PROJECTOR_TYPE_QWEN2VL, "qwen2vl_merger" },
};
"""
OPTIONS = """
const std::vector<ggml_type> kv_cache_types = { GGML_TYPE_F16, GGML_TYPE_Q8_0, };
static std::set<enum llama_example> eyes = {LLAMA_EXAMPLE_MTMD, LLAMA_EXAMPLE_SERVER};
void parse() {
    std::replace(arg.begin(), arg.end(), '_', '-');
    add_opt(common_arg(
        {"-m", "--model"}, "FNAME", string_format("path, \\"{--none}\\" (%d)", f(1, 2)),
        [](common_params & params, const std::string & value) { params.model = value; }
    ).set_examples({LLAMA_EXAMPLE_COMMON, LLAMA_EXAMPLE_EXPORT_LORA}).set_env("LLAMA_ARG_MODEL"));
    add_opt(common_arg({"--port"}, "PORT", "port", [](common_params & p, int value) { p.port = value; })
        .set_examples({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg({"--mmap"}, {"--no-mmap"}, "map", [](common_params & p, bool value) { p.m = value; }));
    add_opt(common_arg({"--verbose-prompt"}, "print", [](common_params & p) { p.v = true; }
        ).set_examples({LLAMA_EXAMPLE_MAIN}));
    add_opt(common_arg({"-sys"}, "PROMPT", "system", [](common_params & p, const std::string & v) {}
        ).set_excludes({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg({"--range"}, "START", "END", "layers",
        [](common_params & p, const std::string & a, const std::string & b) {}));
    add_opt(common_arg({"-mm", "--mmproj"}, "FILE", "projector", [](common_params & p, const std::string & v) {}
        ).set_examples(eyes));
    add_opt(common_arg({"-ctk", "--cache-type-k"}, "TYPE", "type",
        [](common_params & p, const std::string & v) {}));
    add_opt(common_arg({"--reasoning-format"}, "FORMAT", "format",
        [](common_params & p, const std::string & value) {
            if (value == "deepseek") { p.r = 1; } else if (value == "none") { p.r = 0; }
        }).set_examples({LLAMA_EXAMPLE_SERVER}));
}
"""
CONVERTER = '''
class ModelBase:
    def dequant_model(self):
        if quant_method == "fp8":
            pass
        elif quant_method == "gptq":
            pass

class TextModel(ModelBase):
    pass

class MmprojModel(ModelBase):
    model_arch = gguf.MODEL_ARCH.MMPROJ

@ModelBase.register("LlamaForCausalLM", "MistralForCausalLM")
class LlamaModel(TextModel):
    model_arch = gguf.MODEL_ARCH.LLAMA

@ModelBase.register("Qwen3ForCausalLM")
class Qwen3Model(LlamaModel):
    model_arch: int = gguf.MODEL_ARCH.QWEN3

@ModelBase.register("Qwen3VLForConditionalGeneration")
class Qwen3VLTextModel(Qwen3Model):
    """Inherits what it writes."""

@ModelBase.register("Qwen3VLForConditionalGeneration")
class Qwen3VLVisionModel(MmprojModel):
    pass
'''
CONSTANTS = """
MODEL_ARCH_NAMES: dict[MODEL_ARCH, str] = {
    MODEL_ARCH.MMPROJ: "clip",
    MODEL_ARCH.LLAMA: "llama",
    MODEL_ARCH.QWEN3: "qwen3",
}
"""
TREE: dict[str, str] = {
    "src/llama-arch.cpp": NAMES,
    "src/llama-model.cpp": MAPPING,
    "src/llama.cpp": REFUSAL,
    "src/llama-vocab.cpp": VOCABULARY,
    "ggml/include/ggml.h": TYPES,
    "ggml/include/ggml-rpc.h": "",
    "ggml/src/ggml-cuda/common.cuh": "",
    "tools/mtmd/clip-impl.h": PROJECTORS,
    "tools/server/server.cpp": "int main() { return 0; }",
    "common/arg.cpp": OPTIONS,
    "common/common.cpp": "",
    "convert_hf_to_gguf.py": CONVERTER,
    "gguf-py/gguf/constants.py": CONSTANTS,
}
"""Of the newest form, but for the converter, which stands in one file."""


def sources(files: Mapping[str, str | bytes], prefix: str = CARRIED) -> Sources:
    """A tree as the source distribution of the Python package has it; ``prefix`` empty: a checkout."""
    shown = {prefix + name: text for name, text in files.items()}

    def fetch(paths: object) -> Mapping[str, bytes | Missing]:
        assert isinstance(paths, list)
        return {p: t if isinstance(t := shown[p], bytes) else t.encode() for p in paths}

    return Sources("llama", shown, fetch)


def read(files: Mapping[str, str | bytes], prefix: str = CARRIED) -> Build:
    """Everything of a tree."""
    identity = Identity("llama", "llama.cpp", Known("1"), "sdist", NOWHERE, NOWHERE, NOWHERE, Known(()))
    transformers = Transformers(NOWHERE, NOWHERE, NOWHERE)
    return LlamaCpp().read(sources(files, prefix), identity, transformers, Want.everything())


def without(*names: str) -> dict[str, str]:
    """The tree without some of its files."""
    return {name: text for name, text in TREE.items() if name not in names}


def known(fact: Fact[T]) -> T:
    """The value of a fact that must be known."""
    assert isinstance(fact, Known), fact
    return fact.value
