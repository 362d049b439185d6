"""quantization-registered: the build lists the method, under one of the names that load these files."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.gguf import quantization_convertible
from canserve.checks.quantization.names import Listing, listed, names_of, stored, wished
from canserve.checks.quantization.takers import through
from canserve.checks.reader import Check, Reader
from canserve.rules import quantization as rules
from canserve.rules.table import covers
from canserve.subjects.build import gguf_only
from canserve.subjects.model import Quantization
from canserve.verdict import No, Unknown, Verdict, Yes

WITHOUT = "leave --quantization out: the checkpoint says itself how it is quantized"


def registered(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``quantization-registered``."""
    quantization, wish = stored(reader, case), wished(case)
    if quantization is None:
        return (
            Yes("the model is not quantized, and none is asked for")
            if wish is None
            else _plain(reader, case, wish)
        )
    if gguf_only(case.build) and quantization.method != "gguf":
        return quantization_convertible(reader, case, quantization)
    names = names_of(case, quantization)
    if not names:
        return _unsaid(reader, case, quantization)
    if wish is not None and wish not in names:
        return _asked_otherwise(reader, case, quantization, wish)
    if wish is not None:
        names = (wish, *(name for name in names if name != wish))
        if not listed(reader, case, (wish,)):
            return _absent(reader, case, wish, f"--quantization {wish}", WITHOUT)
    return _stored(reader, case, quantization, names)


def _stored(reader: Reader, case: Case, quantization: Quantization, names: Sequence[str]) -> Verdict:
    found = listed(reader, case, names)
    usable = [one for one in found if _stands_in(reader, one, quantization)]
    if sure := next((one for one in usable if one.there), None):
        if (verdict := through(reader, case, sure.method, quantization)) is not None:
            return verdict
        return Yes(f"the build lists {sure.method.name}{_says(quantization, sure.method.name)}")
    if usable:
        return _conditional(usable)
    if found:
        only = found[0].method.name
        return No(
            f"the build serves {quantization.method} through {only} only, which does not take these weights",
            "use a checkpoint in 4 or 8 bits with symmetric scales, or one quantized another way",
        )
    return _absent(
        reader, case, quantization.method, f"{quantization.method}{_says(quantization, quantization.method)}"
    )


def _unsaid(reader: Reader, case: Case, quantization: Quantization) -> No:
    """The engine reads the method from config.json, which does not name it."""
    at = reader.read(case.build.literal_methods)
    reader.cite((look(case, str(at), "reads quant_method of config.json"),))
    return No(
        f"the checkpoint is quantized with {quantization.method} by its {quantization.source}, but the build "
        "goes by quant_method in config.json, which it has not",
        "use a checkpoint whose config.json names the method, or another engine",
    )


def _says(quantization: Quantization, name: str) -> str:
    return "" if quantization.declared.lower() == name else f" (the checkpoint says {quantization.declared})"


def _conditional(found: Sequence[Listing]) -> Unknown:
    method = found[0].method
    return Unknown(
        f"the build lists {method.name} only under a condition: {'; '.join(dict.fromkeys(method.guards))}",
        "start the build once, or name the machine with --on",
    )


def _stands_in(reader: Reader, one: Listing, quantization: Quantization) -> bool:
    """Whether a name that only serves part of a format serves these weights."""
    rule = rules.stand_in(one.method.name, quantization.method)
    if rule is None:
        return True
    reader.cite((rule.evidence(f"bits {rule.values['bits']}, symmetric: {rule.values['symmetric']}"),))
    return all(rules.stands_in(rule, scheme) for scheme in quantization.schemes)


def _plain(reader: Reader, case: Case, wish: str) -> Verdict:
    """A checkpoint that is not quantized, and the wish to quantize it while it is loaded."""
    found = listed(reader, case, (wish,))
    if not found:
        return _absent(
            reader,
            case,
            wish,
            f"--quantization {wish}",
            "leave --quantization out: the model is not quantized",
        )
    if not found[0].there:
        return _conditional(found)
    if rule := rules.online(wish):
        reader.cite((rule.evidence(f"{wish} quantizes while loading"),))
        return Yes(f"the build lists {wish}, which quantizes a plain checkpoint while it is loaded")
    if rule := rules.stored(wish):
        reader.cite((rule.evidence(f"{wish} loads quantized checkpoints only"),))
        return No(
            f"{wish} loads checkpoints that were quantized with it; this model is not quantized",
            f"leave --quantization out, or name a checkpoint quantized with {wish}",
        )
    return Unknown(
        f"the build lists {wish}; whether it can quantize a plain checkpoint while loading is not known",
        "start it once, or leave --quantization out",
    )


def _asked_otherwise(reader: Reader, case: Case, quantization: Quantization, wish: str) -> Verdict:
    """The user asks for a method that is not what the checkpoint says."""
    method = quantization.method
    found = listed(reader, case, (wish,))
    if not found:
        return _absent(reader, case, wish, f"--quantization {wish}", WITHOUT)
    if wish in rules.related(method):
        return _stored(reader, case, quantization, names_of(case, quantization))
    if rule := rules.serves(wish, method):
        reader.cite((rule.evidence(f"{wish} loads {method}"),))
        return (
            Yes(f"the build lists {wish}, which loads {method} checkpoints too")
            if found[0].there
            else _conditional(found)
        )
    if rule := rules.family(wish):
        reader.cite((rule.evidence(f"{wish} is a name for {rule.values['name']} checkpoints"),))
        return No(
            f"--quantization {wish} does not match the checkpoint, which says {quantization.declared}",
            WITHOUT,
        )
    return Unknown(
        f"whether {wish} loads a checkpoint that says {quantization.declared} is not known",
        f"start it once, or {WITHOUT}",
    )


def _absent(reader: Reader, case: Case, method: str, what: str, instead: str = "") -> Verdict:
    """The build does not list the method: what would help."""
    table = reader.read(case.build.quantization)
    because = f"the build lists {len(table)} quantization methods, and {what} is not among them"
    engine = case.build.identity.engine
    if plugin := _plugin(reader, case, method):
        return Unknown(
            f"{because}, but a plugin may add it: {plugin}", "start the build once and see whether it does"
        )
    fixes = [instead] if instead else []
    if rule := rules.left(engine, method):
        last = rule.text("last")
        reader.cite((rule.evidence(f"{method}: last in {engine} {last}"),))
        fixes.append(rule.values.get("instead") or f"use {engine}=={last}, the last release that has it")
    elif first := case.history.first_listing(engine, "quantization", method):
        reader.cite((case.history.evidence(engine),))
        later = covers(f">={first}", reader.read(case.build.identity.version))
        fixes.append(
            f"{engine} listed it from {first} on and no longer does: use an older release"
            if later
            else f"use {engine}>={first}, the first release that lists it"
        )
    near = get_close_matches(method, table, n=3, cutoff=0.7)
    if not fixes:
        fixes.append("use a build that lists it, or a checkpoint quantized another way")
    if near:
        fixes.append(f"nearest names it has: {', '.join(near)}")
    return No(because, "; ".join(fixes))


def _plugin(reader: Reader, case: Case, method: str) -> str | None:
    """An installed plugin whose name says that it adds the method."""
    plugins = reader.try_read(case.build.plugins) or ()
    found = next(
        (plugin for plugin in plugins if method.replace("-", "_") in plugin.lower().replace("-", "_")), None
    )
    if found:
        reader.cite((look(case, "entry points", found),))
    return found


REGISTERED = Check(
    "quantization-registered",
    "The build lists the method the checkpoint is quantized with, or the one asked for with --quantization.",
    registered,
)
