"""Which files a reading needs, so that they come in together.

A hint only: whatever is not fetched up front is fetched when it is read. It saves round trips, which cost
more than bytes: a remote wheel is read in two or three rounds instead of one a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from canserve.engines.static.modules import file_of
from canserve.engines.vllm import attention, configs, drafts, fallback, flags, parsers, quantization, serving
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.registry import FILES, MODELS, read_registry
from canserve.facts import Known
from canserve.subjects.build import Registered, Want

ALWAYS = (
    *FILES,
    configs.FILE,
    "vllm/transformers_utils/configs/__init__.py",
    "vllm/transformers_utils/processors/__init__.py",
    "vllm/model_executor/models/interfaces.py",
    "vllm/model_executor/models/interfaces_base.py",
    "vllm/model_executor/models/utils.py",
    "vllm/model_executor/models/module_mapping.py",
    "vllm/model_executor/models/vision.py",
    "vllm/model_executor/models/adapters.py",
    "vllm/model_executor/models/config.py",
    "vllm/utils/func_utils.py",
    "vllm/compilation/decorators.py",
    *quantization.FILES,
    *serving.ARGUMENTS,
    *serving.CACHE,
    *serving.PARALLEL,
    *serving.SPECULATIVE,
    *serving.LOADER,
    serving.PLUGINS,
    serving.SERVE,
    *fallback.CONFIGS,
    fallback.LOADER,
    *flags.PARSERS,
    *drafts.FILES,
)
CONFIGS = ("vllm/transformers_utils/configs", "vllm/transformers_utils/processors")
"""Packages whose files serve one model family each, once their ``__init__`` is lazy."""
_ELSEWHERE = re.compile(r"/(?:amd|rocm|cpu|xpu|intel|tpu)/")
MAX_FAMILY = 40
"""Files of a model family that are fetched on the guess that its members import each other."""


def first_round(reading: Reading, want: Want) -> list[str]:
    """Files needed for every answer."""
    paths: list[str] = [*ALWAYS, *flags.flag_files(reading)]
    for kind in (parsers.REASONING, parsers.TOOLS):
        paths += parsers.parser_files(reading, kind)
    paths += reading.sources.under("", "/entry_points.txt")
    paths += _quantization(reading, want)
    if want.attention:
        paths += attention.FILES
    return [path for path in dict.fromkeys(paths) if reading.sources.has(path)]


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
    if want.quantization != frozenset():
        yield from (f"vllm/platforms/{platform}.py" for platform in quantization.VENDORS)


def second_round(reading: Reading, want: Want) -> list[str]:
    """Files of the wanted classes, as the registry names them, and of parsers without a table."""
    paths = dict.fromkeys(_self_registering(reading))
    registry = read_registry(reading)
    rows = registry.value if isinstance(registry, Known) else {}
    if want.architectures is None:
        paths.update(dict.fromkeys(path for row in rows.values() for path in _model_files(reading, row)))
    wanted = [rows[name] for name in sorted(want.architectures or ()) if name in rows]
    for row in wanted:
        paths.update(dict.fromkeys(_family(reading, row)))
    if wanted or (want.architectures is None and rows):
        paths.update(dict.fromkeys(_shared(reading)))
    return list(paths)


def _self_registering(reading: Reading) -> Iterator[str]:
    """Parsers that a decorator registers, where no table names them."""
    for kind in (parsers.REASONING, parsers.TOOLS):
        for path in parsers.parser_files(reading, kind):
            text = reading.excerpts.text(path)
            if isinstance(text, str) and kind.table not in text:
                yield from reading.sources.under(path.removesuffix("__init__.py"))


def _model_files(reading: Reading, row: Registered) -> Iterator[str]:
    path = file_of(reading.sources, row.module)
    if path is not None:
        yield path


def _family(reading: Reading, row: Registered) -> Iterable[str]:
    """The module and those whose names start with the same letters: ``qwen3_5`` pulls in ``qwen2_vl``."""
    found = list(_model_files(reading, row))
    stem = row.module.replace(".", "/")
    folder, _, name = stem.rpartition("/")
    if row.module == MODELS:  # the oldest form: importing any model imports the package, which imports all
        return reading.sources.under(f"{stem}/")
    if f"{stem}/__init__.py" in found:
        inside = (path for path in reading.sources.under(f"{stem}/") if not _ELSEWHERE.search(path))
        shared = reading.sources.under(f"{folder}/common/")
        return [*found, f"{folder}/__init__.py", *inside, *shared][: 2 * MAX_FAMILY]
    word = re.match(r"[A-Za-z]*", name)
    if word is None or len(word[0]) < 3:
        return found
    beside = [path for place in (folder, *CONFIGS) for path in reading.sources.under(f"{place}/{word[0]}")]
    return [*found, *beside[:MAX_FAMILY]]


def _shared(reading: Reading) -> Iterator[str]:
    yield from reading.sources.under("vllm/multimodal/")
    classes = reading.excerpts.text(f"{CONFIGS[0]}/__init__.py")
    lazy = not isinstance(classes, str) or "_CLASS_TO_MODULE" in classes
    for path in reading.sources.under("vllm/transformers_utils/"):
        if not any(path.startswith(f"{folder}/") for folder in CONFIGS) or not lazy:
            yield path
