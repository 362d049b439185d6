"""Where things lie in SGLang's source tree.

Files move between releases, but what stands in them is seldom renamed: a place is a list of the paths that
a thing has had, newest first, and the first one that exists is it.
"""

from __future__ import annotations

from collections.abc import Sequence

from canserve.engines.sources import Sources
from canserve.subjects.build import Want

TOP = "sglang"
SRT = "sglang/srt"
MODELS = f"{SRT}/models/"
COLLECTORS = (
    f"{SRT}/models/registry.py",
    f"{SRT}/model_executor/model_runner.py",
    f"{SRT}/managers/controller/model_runner.py",
    f"{SRT}/managers/router/model_runner.py",
)
"""Where the model registry has been put together."""
MODEL_CONFIG = (f"{SRT}/configs/model_config.py", f"{SRT}/model_config.py")
PREDICATES = (*MODEL_CONFIG, f"{SRT}/utils.py")
"""Where ``is_multimodal_model`` and ``is_generation_model`` have stood."""
HYBRID = (
    f"{SRT}/configs/hybrid_arch.py",
    f"{SRT}/model_executor/model_runner.py",
)
"""Where it is decided which configs have recurrent layers."""
CONFIG_TABLE = (
    f"{SRT}/utils/hf_transformers/common.py",
    f"{SRT}/utils/hf_transformers_utils.py",
    f"{SRT}/hf_transformers_utils.py",
)
CONFIG_LOADER = (f"{SRT}/utils/hf_transformers/config.py", *CONFIG_TABLE[1:])
CONFIGS = f"{SRT}/configs/"
LOADER_UTILS = f"{SRT}/model_loader/utils.py"
SERVER_ARGS = f"{SRT}/server_args.py"
ARG_FIELDS = f"{SRT}/arg_groups/fields/"
ARG_CHOICES = f"{SRT}/arg_groups/choices.py"
QUANTIZATION = (
    f"{SRT}/layers/quantization/__init__.py",
    f"{SRT}/managers/controller/model_runner.py",
    f"{SRT}/managers/router/model_runner.py",
)
PROCESSORS = (f"{SRT}/multimodal/processors/", f"{SRT}/managers/multimodal_processors/")
REASONING = (f"{SRT}/parser/reasoning_parser.py", f"{SRT}/reasoning_parser.py")
TOOLS = (f"{SRT}/function_call/function_call_parser.py", f"{SRT}/function_call_parser.py")
SPECULATIVE = f"{SRT}/speculative/spec_info.py"
SPECULATIVE_ALIASES = f"{SRT}/speculative/spec_registry.py"
LOAD_CONFIG = f"{SRT}/configs/load_config.py"
ATTENTION = f"{SRT}/layers/attention/attention_registry.py"
ENVIRON = f"{SRT}/environ.py"
PLUGINS = f"{SRT}/plugins/__init__.py"
GGUF = f"{SRT}/utils/hf_transformers/gguf_native.py"
OTHER_TABLES = (
    f"{SRT}/multimodal/customized_mm_processor_utils.py",
    f"{SRT}/sampling/custom_logit_processor.py",
    f"{SRT}/utils/__init__.py",
)
"""What the tables of processors and flags take their names from; fetched with the rest, not one by one."""
LARGE_TABLE = f"{SRT}/utils/common.py"
"""Another one, since the config tables are a package of their own."""


def first_files(sources: Sources, want: Want) -> Sequence[str]:
    """The files that a reading with this want needs, one version of each."""
    firsts: list[tuple[str, ...]] = [COLLECTORS, MODEL_CONFIG, CONFIG_TABLE, CONFIG_LOADER, QUANTIZATION]
    firsts += [REASONING, TOOLS] if want.flags else []
    paths = [next(filter(sources.has, place), "") for place in firsts]
    paths += [LOADER_UTILS, SERVER_ARGS, ARG_CHOICES, PLUGINS, GGUF, ENVIRON, *OTHER_TABLES]
    paths += [LARGE_TABLE] if sources.has(CONFIG_TABLE[0]) else []
    paths += [SPECULATIVE, SPECULATIVE_ALIASES] if want.flags else []
    paths += sources.under(MODELS)  # packages included: some modules take their classes from there
    paths += [path for folder in (CONFIGS, ARG_FIELDS) for path in directly(sources, folder)]
    paths += sources.under("", ".dist-info/entry_points.txt")
    if want.architectures is None or want.architectures:
        paths += [*PREDICATES, *HYBRID]
        paths += [path for folder in PROCESSORS for path in sources.under(folder)]
    folder = QUANTIZATION[0].rsplit("/", 1)[0]
    if want.quantization is None:
        paths += sources.under(f"{folder}/")
    else:  # most methods have a module of their own name
        modules = [name.replace("-", "_") for name in want.quantization]
        paths += [f"{folder}/{module}.py" for module in (*modules, "base_config")]
    if want.attention:
        paths.append(ATTENTION)
    return [path for path in dict.fromkeys(paths) if sources.has(path)]


def directly(sources: Sources, folder: str) -> list[str]:
    """The Python files directly in a folder, ``__init__`` included."""
    return [path for path in sources.under(folder) if "/" not in path[len(folder) :]]
