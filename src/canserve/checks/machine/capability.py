"""quantization-capability-met: the GPU's compute capability is enough for the model's quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of
from canserve.checks.quantization.names import (
    Listing,
    effective_names,
    has_experts,
    listed,
    stored,
)
from canserve.checks.quantization.takers import taker_of
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Known
from canserve.rules import quantization as rules
from canserve.rules.table import Row
from canserve.subjects.model import Quantization, Scheme
from canserve.units import Capability
from canserve.verdict import No, Unknown, Verdict, Yes

OTHER = "use a GPU of that capability, or a checkpoint quantized another way"


def met(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``quantization-capability-met``."""
    quantization = stored(reader, case)
    names = effective_names(case, quantization)
    if not names:
        raise NotApplicable("the model is not quantized")
    vendor = reader.read(machine_of(case).vendor)
    if vendor != "nvidia":
        return _by_vendor(reader, case, names, vendor)
    capability = reader.read(machine_of(case).capability)
    if capability is None:
        raise NotApplicable("the accelerator has no compute capability")
    found = listed(reader, case, names)
    if not found:
        raise NotApplicable(f"the build does not list {names[0]}: see quantization-registered")
    verdict = _documented(reader, case, quantization, found, capability)
    if verdict is None:
        verdict = _declared(reader, found, capability)
    if not isinstance(verdict, Yes):
        return verdict
    worse = _limited(reader, case, quantization, names[0], capability)
    if worse is None:
        worse = _by_scheme(reader, quantization, found, capability)
    return verdict if worse is None else worse


def _by_vendor(reader: Reader, case: Case, names: Sequence[str], vendor: str) -> Verdict:
    """Accelerators without compute capabilities: what the build lets run on them."""
    allowed = reader.read(case.build.vendor_quantization).get(vendor)
    if allowed is None:
        return Unknown(
            f"compute capability means nothing on {vendor} accelerators, and the build has no list for them",
            f"judge a build made for {vendor}, or start it once",
        )
    if found := [name for name in names if name in allowed]:
        return Yes(f"the build lets {found[0]} run on {vendor} accelerators")
    return No(f"on {vendor} accelerators the build lets only {', '.join(allowed)} run, not {names[0]}", OTHER)


def _documented(
    reader: Reader,
    case: Case,
    quantization: Quantization | None,
    found: Sequence[Listing],
    capability: Capability,
) -> Verdict | None:
    """What is said of an engine whose own code sets no minimum; None: the code sets one, or nothing is said."""
    if any(isinstance(one.method.min_capability, Known) for one in found):
        return None
    engine, version = case.build.identity.engine, reader.read(case.build.identity.version)
    for one in found:
        for row in rules.documented(engine, one.method.name, version):
            minimum = Capability.parse(row.text("capability"))
            backend = row.values.get("backend")
            if backend is not None and taker_of(reader, case, one.method, quantization) != backend:
                continue
            said = (
                f"{engine} sets no minimum for {one.method.name}, and is said to serve it from {minimum} on"
            )
            reader.cite((row.evidence(said),))
            if capability >= minimum:
                return Yes(f"{said}; the GPU has {capability}")
            return Unknown(f"{said}; the GPU has {capability}", "start it once, or use a newer GPU")
    return None


def _declared(reader: Reader, found: Sequence[Listing], capability: Capability) -> Verdict:
    """The build's own minimum; of several names for a format the engine takes one that the GPU can run."""
    known = {
        one.method.name: reader.read(one.method.min_capability)
        for one in found
        if isinstance(one.method.min_capability, Known)
    }
    if not known:
        reader.read(found[0].method.min_capability)
    name = min(known, key=lambda each: known[each] or 0)
    minimum = Capability.of(known[name] or 0)
    if known[name] is None:
        return Yes(f"{name} sets no minimum compute capability; the GPU has {capability}")
    if capability >= minimum:
        return Yes(f"{name} needs compute capability {minimum}; the GPU has {capability}")
    if len(known) < len(found):
        unread = next(one.method.name for one in found if one.method.name not in known)
        return Unknown(
            f"{name} needs {minimum}, the GPU has {capability}; what {unread} needs was not read",
            "start it once",
        )
    return No(f"{name} needs compute capability {minimum}; the GPU has {capability}", OTHER)


def _limited(
    reader: Reader, case: Case, quantization: Quantization | None, name: str, capability: Capability
) -> Verdict | None:
    """What releases need although their own minimum is lower."""
    engine = case.build.identity.engine
    rows = rules.limits(engine, name, quantization, has_experts(reader, case))
    doubt: Unknown | None = None
    for row in rows:
        minimum = Capability.parse(row.text("capability"))
        if capability >= minimum:
            continue
        limited = rules.limited(row, reader.read(case.build.identity.version))
        because = (
            f"{name} here needs compute capability {minimum}, the GPU has {capability}: {row.text('because')}"
        )
        if limited is not False:
            reader.cite((row.evidence(because),))
        if limited:
            return No(because, f"use {row.text('instead')}")
        if limited is None:
            doubt = Unknown(f"releases near this one are limited so: {because}", "start it once")
    return doubt


def _by_scheme(
    reader: Reader, quantization: Quantization | None, found: Sequence[Listing], capability: Capability
) -> Verdict | None:
    """The minimum that the class for each way of storing weights sets itself; None: nothing to add."""
    if quantization is None:
        return None
    minima: dict[str, int | None] = {}
    for one in found:
        if read := reader.try_read(one.method.scheme_capabilities):
            minima.update(read)
    added: Verdict | None = None
    for scheme in quantization.schemes:
        verdict = _one_scheme(reader, quantization.method, scheme, minima, capability)
        if isinstance(verdict, No | Unknown):
            return verdict
        added = verdict if added is None else added
    return added


def _one_scheme(
    reader: Reader, method: str, scheme: Scheme, minima: Mapping[str, int | None], capability: Capability
) -> Verdict | None:
    rows = [row for row in rules.scheme_rows(method, scheme) if _sets_minima(row)]
    if not rows:
        return None
    label = rows[0].text("label")
    full = _least(minima, [name for row in rows for name in row.texts("names")])
    if full is not None and capability >= full:
        return Yes(f"its class for {label} needs compute capability {full}; the GPU has {capability}")
    weights = [name for row in rows for key in ("names", "weight_only") for name in row.texts(key)]
    least = _least(minima, weights)
    if least is None:
        return _by_hardware(reader, label, scheme, capability)
    if capability < least:
        return No(f"its class for {label} needs compute capability {least}; the GPU has {capability}", OTHER)
    if scheme.strategy == "block":
        return Unknown(
            f"{label} runs from {full} on; whether weights alone in blocks run on {capability} was not read",
            "start it once",
        )
    return Yes(
        f"{label} runs with 16-bit activations on {capability}: only weights stay quantized (from {least} on)"
    )


def _sets_minima(row: Row) -> bool:
    """Whether classes of this row set a minimum of their own: those of families with scheme classes do."""
    return row.values["method"] in {"compressed-tensors", "quark"}


def _least(minima: Mapping[str, int | None], names: Sequence[str]) -> Capability | None:
    found = [value for name in names if (value := minima.get(name)) is not None]
    return Capability.of(min(found)) if found else None


def _by_hardware(reader: Reader, label: str, scheme: Scheme, capability: Capability) -> Verdict | None:
    """The class's own minimum was not read: hardware that multiplies the type itself is enough."""
    if scheme.weight_type != "float" or scheme.weight_bits not in {4, 8}:
        return None
    minimum, row = rules.native(f"fp{scheme.weight_bits}")
    reader.cite((row.evidence(f"from compute capability {minimum} on"),))
    if capability >= minimum:
        return None
    return Unknown(
        f"GPUs multiply {label} themselves from {minimum} on; this one has {capability}, and what the "
        "build's class needs was not read",
        "start it once, or use a GPU of that capability",
    )


CAPABILITY = Check(
    "quantization-capability-met",
    "The GPU has the compute capability that the build asks for the model's quantization.",
    met,
    needs_machine=True,
)
