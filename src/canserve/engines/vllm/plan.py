"""Which files a reading needs, so that they come in together.

A hint only: whatever is not fetched up front is fetched when it is read. It saves round trips, which cost
more than bytes: a remote wheel is read in two or three rounds instead of one a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from canserve.engines.static.modules import file_of
from canserve.engines.vllm import (
    attention,
    configs,
    drafts,
    fallback,
    flag_syntax,
    flags,
    moe,
    parsers,
    quantization,
    serving,
)
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.registry import FILES, MODELS, read_registry
from canserve.facts import Known
from canserve.subjects.build import Registered, Want

ALWAYS = (
    FILES[0],
    configs.FILE,
    "vllm/transformers_utils/configs/__init__.py",
    "vllm/transformers_utils/processors/__init__.py",
    "vllm/model_executor/models/interfaces.py",
    "vllm/model_executor/models/interfaces_base.py",
    "vllm/model_executor/models/utils.py",
    *quantization.FILES,
    *serving.CACHE,
    *serving.LOADER,
    *fallback.CONFIGS,
)
"""What every answer needs."""
FLAGS = (
    *serving.ARGUMENTS,
    *serving.PARALLEL,
    *serving.SPECULATIVE,
    serving.SERVE,
    *flag_syntax.FILES,
    *drafts.FILES,
)
"""What the command line is read from."""
CONFIGS = ("vllm/transformers_utils/configs", "vllm/transformers_utils/processors")
"""Packages whose files serve one model family each, once their ``__init__`` is lazy."""
CORE = (
    "vllm/__init__",
    "vllm/compilation/decorators",
    "vllm/compilation/wrapper",
    "vllm/config/",
    "vllm/entrypoints/chat_utils",
    "vllm/envs",
    "vllm/logger",
    "vllm/model_executor/layers/attention",
    "vllm/platforms/__init__",
    "vllm/platforms/interface",
    "vllm/sequence",
    "vllm/transformers_utils/tokenizers",
    "vllm/utils/__init__",
    "vllm/utils/import_utils",
    "vllm/v1/attention/",
    "vllm/v1/kv_cache_interface",
    "vllm/vllm_flash_attn/",
)
"""What some of all model classes are traced to."""
DEEP = 4
"""Folders above a file of ``CORE``, at most."""
SEEING = ("module_mapping", "vision")
TALKING = ("adapters", "config")
"""Helpers that most multimodal and most text models pull in."""
_ELSEWHERE = re.compile(r"/(?:amd|rocm|cpu|xpu|intel|tpu)/")
MAX_FAMILY = 40
"""Files of a model family that are fetched on the guess that its members import each other."""


def first_round(reading: Reading, want: Want) -> list[str]:
    """Files that are known to be needed before any was read."""
    sources = reading.sources
    paths: list[str] = [*ALWAYS, *serving.entry_points(reading), *_quantization(reading, want)]
    if not sources.has(FILES[0]):
        paths += FILES
    if not sources.has(serving.CACHE[0]):
        paths += serving.ARGUMENTS  # older releases: cache types and weight formats are choices of flags
    if want.architectures != frozenset():
        paths += sources.under("vllm/multimodal/")
        paths += (p for p in sources.under("vllm/transformers_utils/") if p.count("/") == 2)
    models = sources.under("vllm/model_executor/models/")
    if want.architectures is None or len(models) <= MAX_FAMILY:
        paths += models  # the oldest registries name classes that are star-imported from all of them
    if want.flags:
        paths += [*FLAGS, *flags.flag_files(reading)]
        for kind in (parsers.REASONING, parsers.TOOLS):
            paths += parsers.parser_files(reading, kind)
    if want.architectures is None:
        paths += [path for folder in CORE for path in sources.under(folder) if path.count("/") <= DEEP]
    if want.vendors:
        paths += [f"vllm/platforms/{platform}.py" for platform in quantization.VENDORS]
    if want.moe:
        paths += moe.moe_files(reading)
    if want.attention:
        paths += [
            *attention.FILES,
            *attention.ALSO,
            *(p for p in sources.under("vllm/v1/attention/") if want.flags),
        ]
    return [path for path in dict.fromkeys(paths) if sources.has(path)]


def _quantization(reading: Reading, want: Want) -> Iterator[str]:
    """Files of the wanted methods, guessed by name: ``auto_awq.py`` for ``awq_marlin``."""
    folder = quantization.FOLDER
    if want.quantization is None:
        yield from reading.sources.under(f"{folder}/")
    elif want.quantization:
        yield from (f"{folder}/base_config.py", "vllm/config/quantization.py")
        words = {re.split(r"[-_]", name)[0] for name in want.quantization}
        for path in reading.sources.under(f"{folder}/"):
            if any(word and word in path.removeprefix(folder).split("/")[1] for word in words):
                yield path


def second_round(reading: Reading, want: Want) -> list[str]:
    """Files of the wanted classes, as the registry names them, and of parsers without a table."""
    paths = dict.fromkeys(_self_registering(reading) if want.flags else ())
    registry = read_registry(reading)
    rows = registry.value if isinstance(registry, Known) else {}
    if want.architectures is None:
        paths.update(
            dict.fromkeys(p for p in reading.sources.under("vllm/models/") if not _ELSEWHERE.search(p))
        )
    wanted = [rows[name] for name in sorted(want.architectures or ()) if name in rows]
    for row in wanted:
        paths.update(dict.fromkeys(_family(reading, row)))
        helpers = SEEING if row.kind == "multimodal" else TALKING
        paths.update(dict.fromkeys(f"vllm/model_executor/models/{name}.py" for name in helpers))
    if wanted or want.architectures is None or want.model_types is None:
        everything = want.architectures is None or want.model_types is None
        paths.update(dict.fromkeys(_configs(reading, everything)))
    text = reading.excerpts.text(FILES[0])
    if isinstance(text, str) and fallback.DECIDERS[0] not in text:
        paths[fallback.LOADER] = None  # where the fallback was decided before
    return list(paths)


def _self_registering(reading: Reading) -> Iterator[str]:
    """Parsers that a decorator registers, where no table names them."""
    for kind in (parsers.REASONING, parsers.TOOLS):
        for path in parsers.parser_files(reading, kind):
            text = reading.excerpts.text(path)
            if isinstance(text, str) and kind.table not in text:
                yield from reading.sources.under(path.removesuffix("__init__.py"))


def _family(reading: Reading, row: Registered) -> Iterable[str]:
    """The module and those whose names start with the same letters: ``qwen3_5`` pulls in ``qwen2_vl``."""
    own = file_of(reading.sources, row.module)
    found = [own] if own else []
    stem = row.module.replace(".", "/")
    folder, _, name = stem.rpartition("/")
    if row.module == MODELS:  # the oldest form: importing any model imports the package, which imports all
        return reading.sources.under(f"{stem}/")
    word = re.match(r"[A-Za-z]*", name)
    kin = word[0] if word and len(word[0]) > 2 else name
    if f"{stem}/__init__.py" in found:
        inside = [path for path in reading.sources.under(f"{stem}/") if not _ELSEWHERE.search(path)]
        shared = reading.sources.under(f"{folder}/common/")
        older = reading.sources.under(f"vllm/model_executor/models/{kin}")
        return [*found, f"{folder}/__init__.py", *inside[: 2 * MAX_FAMILY], *shared, *older]
    beside = [path for place in (folder, *CONFIGS) for path in reading.sources.under(f"{place}/{kin}")]
    return [*found, *beside[:MAX_FAMILY]]


def _configs(reading: Reading, everything: bool) -> Iterator[str]:
    """All config and processor classes, where importing one imports them all or all are wanted."""
    names = reading.excerpts.text(f"{CONFIGS[0]}/__init__.py")
    if everything or (isinstance(names, str) and "_CLASS_TO_MODULE" not in names):
        for folder in CONFIGS:
            yield from reading.sources.under(f"{folder}/")
