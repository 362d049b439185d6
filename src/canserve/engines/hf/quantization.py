"""Quantization methods: ``AUTO_QUANTIZER_MAPPING``, and what each quantizer's class asks of the GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from canserve.engines.hf.capability import accepted
from canserve.engines.hf.reading import Reading, ReadingError
from canserve.engines.static.modules import file_of
from canserve.engines.static.values import Ref, Table, Value
from canserve.engines.transformers.gguf import LOADER
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import CAPABILITIES, NOT_ASKED, QuantMethod, Site

AUTO = "transformers/quantizers/auto.py"
CONFIGS = "transformers/utils/quantization_config.py"
QUANTIZERS, CONFIG_CLASSES = "AUTO_QUANTIZER_MAPPING", "AUTO_QUANTIZATION_CONFIG_MAPPING"
OLDER = (CONFIGS, "transformers/utils/bitsandbytes.py")
"""What releases have that quantize, before there was a table of quantizers."""
METHOD = "validate_environment"
SPLIT = "bitsandbytes"
"""Checkpoints name this method; the table has one quantizer for 4 bits and one for 8."""
ON_THE_FLY = "the weights are quantized while they are loaded"
SERVERS = ("transformers/cli/serving/model_manager.py", "transformers/cli/serve.py",
           "transformers/commands/serving.py")  # fmt: skip
LAYERS = {"fp8": "transformers/integrations/finegrained_fp8.py"}
"""The layers of methods that store weights in several ways."""
WORDS = re.compile(r"\bis_fp4\b|block_size is None")
"""What tells there which ways are meant."""
_ASKED = re.compile(r"""\bself\.(?:args\.)?quantization == ["']([\w-]+)["']""")


def read_quantization(reading: Reading) -> Fact[Mapping[str, QuantMethod]]:
    """Every method by the name that a checkpoint or ``--quantization`` says."""
    if not reading.has(AUTO):
        if (path := reading.first(OLDER)) is not None:
            raise reading.unavailable(
                "quantization methods stand in the loader's code", "start it once", path
            )
        return Known({}, (reading.sources.seen(AUTO, "no quantization yet"),))
    names = reading.constants(AUTO)
    table = names.get(QUANTIZERS)
    if not isinstance(table, Table) or not table or table.opaque:
        raise reading.unknown(AUTO, f"{QUANTIZERS} is not a table")
    configs = names.get(CONFIG_CLASSES)
    reader = Quantizers(reading, configs if isinstance(configs, dict) else {})
    found = {}
    for name, value in table.items():
        if not isinstance(name, str) or not isinstance(value, Ref):
            raise reading.unknown(AUTO, f"a row of {QUANTIZERS} is not a name and a class")
        found[name] = reader.method(name, value, Site(AUTO, table.lines.get(name, 0)))
    for alias, name in (*_split(found), *_asked(reading, found)):
        found[alias] = reader.alias(alias, found[name])
    found.update((name, one) for name, one in _gguf(reading) if name not in found)
    return Known(found, (reading.sources.seen(AUTO, f"{QUANTIZERS}: {len(table)} methods"),))


def _split(found: Mapping[str, QuantMethod]) -> Iterator[tuple[str, str]]:
    name = next((name for name in found if name.startswith(f"{SPLIT}_")), None)
    if name is not None and SPLIT not in found:
        yield SPLIT, name


def _asked(reading: Reading, found: Mapping[str, QuantMethod]) -> Iterator[tuple[str, str]]:
    """Values of the server's ``--quantization`` that are no method's name: ``bnb-4bit``."""
    for path in SERVERS:
        for name in _ASKED.findall(reading.text(path)) if reading.has(path) else ():
            bits = name.rpartition("-")[2]
            target = f"{SPLIT}_{bits}"
            if name not in found and target in found:
                yield name, target


def _gguf(reading: Reading) -> Iterator[tuple[str, QuantMethod]]:
    """Releases load GGUF files without a quantizer: their weights are made plain while they are read."""
    if reading.has(LOADER):
        look = (reading.sources.seen(LOADER, "loads GGUF files"),)
        at = Site(LOADER, 1)
        yield "gguf", QuantMethod("gguf", None, Known(None, look), at, (), Known((), look), Known({}, look))


class Quantizers:
    """Reads the quantizer classes that are wanted."""

    def __init__(self, reading: Reading, configs: Mapping[object, Value]) -> None:
        self._reading = reading
        self._configs = configs

    def method(self, name: str, value: Ref, at: Site) -> QuantMethod:
        """One row of the table."""
        if not self._wanted(name):
            return QuantMethod(name, value.name, NOT_ASKED, at)
        look = (self._reading.seen(at, f"{name} -> {value.name}"),)
        minimum, guards = self._minimum(value)
        return QuantMethod(
            name, value.name, minimum, at, guards, Known(self._words(name), look), Known({}, look)
        )

    def alias(self, alias: str, of: QuantMethod) -> QuantMethod:
        """The same quantizer under another name."""
        if isinstance(of.min_capability, Missing) and self._wanted(alias) and of.class_name is not None:
            names = self._reading.constants(AUTO).get(QUANTIZERS)
            value = names.get(of.name) if isinstance(names, dict) else None
            if isinstance(value, Ref):
                of = self._forced(of.name, value, of.at)
        return QuantMethod(
            alias, of.class_name, of.min_capability, of.at, of.guards, of.schemes, of.scheme_capabilities
        )

    def _forced(self, name: str, value: Ref, at: Site) -> QuantMethod:
        look = (self._reading.seen(at, f"{name} -> {value.name}"),)
        minimum, guards = self._minimum(value)
        return QuantMethod(
            name, value.name, minimum, at, guards, Known(self._words(name), look), Known({}, look)
        )

    def _wanted(self, name: str) -> bool:
        wanted = self._reading.want.quantization
        return wanted is None or name in wanted

    def _minimum(self, value: Ref) -> tuple[Fact[int | None], tuple[str, ...]]:
        try:
            return self._asks(value)
        except ReadingError as error:
            return error.missing, ()

    def _asks(self, value: Ref) -> tuple[Fact[int | None], tuple[str, ...]]:
        """The minimum capability, and a condition where it refuses checkpoints that are quantized already."""
        path = file_of(self._reading.sources, value.module or "")
        if path is None:
            raise self._reading.unknown(AUTO, f"the module of {value.name}")
        node = _class(self._reading.tree(path), value.name)
        method = None if node is None else _method(node, METHOD)
        if node is None:
            raise self._reading.unknown(path, f"no class {value.name}")
        if method is None:
            seen = self._reading.seen(Site(path, node.lineno), f"{value.name} asks nothing of the GPU")
            return Known(None, (seen,)), ()
        at = Site(path, method.lineno)
        runs = accepted(method)
        if not runs:
            return Known(None, (self._reading.seen(at, "refuses checkpoints quantized before"),)), (
                ON_THE_FLY,
            )
        if runs == CAPABILITIES:
            return Known(None, (self._reading.seen(at, f"{METHOD} sets no minimum"),)), ()
        if runs != CAPABILITIES[-len(runs) :]:
            raise self._reading.unknown(path, f"{METHOD} accepts {runs}")
        return Known(runs[0], (self._reading.seen(at, f"{METHOD} raises below {runs[0] / 10}"),)), ()

    def _words(self, name: str) -> tuple[str, ...]:
        """The config class, its parameters and words of its layers, by which ways of storing weights are told apart."""
        value, layers = self._configs.get(name), LAYERS.get(name)
        if not isinstance(value, Ref):
            return ()
        words = WORDS.findall(self._reading.text(layers)) if layers and self._reading.has(layers) else []
        node = self._config_classes.get(value.name)
        init = None if node is None else _method(node, "__init__")
        names = [] if init is None else [arg.arg for arg in (*init.args.args, *init.args.kwonlyargs)]
        return tuple(sorted({value.name, *names, *words} - {"self"}))

    @cached_property
    def _config_classes(self) -> dict[str, ast.ClassDef]:
        tree = self._reading.tree(CONFIGS)
        return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    found = (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name)
    return next(found, None)
