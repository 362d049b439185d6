"""Under which names a build may list the model's quantization, and which of them it does list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.reader import NotApplicable, Reader
from canserve.engines.static.guards import guard_truth
from canserve.facts import Cause, Known, Missing
from canserve.rules import quantization as rules
from canserve.subjects.build import QuantMethod
from canserve.subjects.model import Quantization

AS_STORED = frozenset({"none", "auto", "unquant", "hf"})
"""Values of ``--quantization`` that ask for nothing."""

IN_THE_FILE = "gguf"
"""The method of files that have no config.json."""
SWITCHES = ("load_in_4bit", "load_in_8bit")

PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "google": "tpu", "huawei": "npu"}
"""Which of an engine's platforms runs on a vendor's accelerators."""

EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_moe_experts")
"""Config keys that hold the number of experts of a mixture."""
MAX_DEPTH = 3
"""How deep nested configs are looked into."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A method the build lists under one of the names looked for."""

    method: QuantMethod
    there: bool | None
    """Whether it is there on the platform; None: the source text alone does not say."""


def stored(reader: Reader, case: Case) -> Quantization | None:
    """How the checkpoint is quantized; None: it is not.

    A bare config that names none leaves it open (another file may), as it leaves all files of the model open:
    the check is skipped then, neither passed nor failed.
    """
    fact = case.model.quantization
    if case.model.origin == "config" and isinstance(fact, Missing) and fact.cause is Cause.UNREACHED:
        if wished(case) is None:
            raise NotApplicable("only a config was given, and it names no quantization")
        return reader.try_read(fact)
    return reader.read(case.model.quantization)


def wished(case: Case) -> str | None:
    """The method the user asks for, if it asks for one."""
    wish = case.wish.quantization
    return None if wish is None or wish.lower() in AS_STORED else wish.lower()


def names_of(case: Case, quantization: Quantization) -> tuple[str, ...]:
    """The method's name and the others that load the same files, the most usual one first.

    Of an engine that looks the name up as config.json has it, that name alone; empty where it has none.
    """
    literal = case.build.literal_methods
    if isinstance(literal, Known) and literal.value is not None and quantization.method != IN_THE_FILE:
        said = _in_config(quantization)
        return () if said is None else (said,)
    return tuple(dict.fromkeys((quantization.method, *quantization.aliases, quantization.declared.lower())))


def _in_config(quantization: Quantization) -> str | None:
    """The method that config.json names; bitsandbytes is told by its switches as well."""
    if not quantization.source.startswith("config.json"):
        return None
    said = quantization.raw.get("quant_method")
    if isinstance(said, str):
        return said.lower()
    return quantization.method if any(quantization.raw.get(switch) for switch in SWITCHES) else None


def effective_names(case: Case, quantization: Quantization | None) -> tuple[str, ...]:
    """The names that matter once the user's wish is taken into account; empty: nothing is quantized."""
    wish = wished(case)
    if quantization is None:
        return () if wish is None else (wish,)
    names = names_of(case, quantization)
    return (wish,) if wish and wish not in rules.related(quantization.method) | set(names) else names


def listed(reader: Reader, case: Case, names: Sequence[str]) -> list[Listing]:
    """Those of the names that the build lists, each with the line it stands on."""
    table = reader.read(case.build.quantization)
    found = [Listing(table[name], _there(reader, case, table[name])) for name in names if name in table]
    for one in found:
        method = one.method
        saw = f"{method.name} -> {method.class_name}" if method.class_name else method.name
        reader.cite((look(case, str(method.at), saw),))
    return [one for one in found if one.there is not False]


def _there(reader: Reader, case: Case, method: QuantMethod) -> bool | None:
    platform = platform_of(reader, case) if method.guards else "cuda"
    truths = [guard_truth(text, platform) for text in method.guards]
    return False if False in truths else None if None in truths else True


def platform_of(reader: Reader, case: Case) -> str:
    """The engine's platform on the machine; CUDA where none is named or nothing is known of it."""
    vendor = reader.try_read(case.machine.vendor) if case.machine else None
    return PLATFORMS.get(vendor or "nvidia", "cuda")


def has_experts(reader: Reader, case: Case) -> bool:
    """Whether the model is a mixture of experts, as far as its config says."""
    return _experts(reader.try_read(case.model.config) or {}, MAX_DEPTH)


def _experts(config: Mapping[str, Any], depth: int) -> bool:
    if any(isinstance(count := config.get(key), int) and count > 1 for key in EXPERTS):
        return True
    nested = [value for value in config.values() if isinstance(value, Mapping)] if depth else []
    return any(_experts(value, depth - 1) for value in nested)
