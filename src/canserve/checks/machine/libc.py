"""libc-new-enough: the machine's GNU libc has every symbol that the build's extensions need."""

from __future__ import annotations

import re

from canserve.checks.case import Case
from canserve.checks.machine.driver import CONTAINERS
from canserve.checks.machine.stated import machine_of, read_compiled, read_stated
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Cause, Known, Missing
from canserve.rules import gpu_code
from canserve.rules.cuda import Numbers, numbers
from canserve.verdict import No, Unknown, Verdict, Yes

OLDER = "use a newer system, or an image: that brings its own"


def tagged(tag: str) -> Numbers | None:
    """The oldest libc on which pip installs a wheel with this platform tag; None: the tag does not say.

    >>> tagged("manylinux_2_28_aarch64"), tagged("manylinux2014_x86_64"), tagged("linux_x86_64")
    ((2, 28), None, None)
    """
    found = re.match(r"manylinux_(\d{1,3})_(\d{1,3})_", tag)
    return (int(found[1]), int(found[2])) if found else None


def new_enough(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``libc-new-enough``."""
    identity = case.build.identity
    if any(word in identity.origin for word in CONTAINERS):
        raise NotApplicable("an image brings its own libc")
    fact, machine = case.build.libc_needed, machine_of(case)
    if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED and not isinstance(machine.libc, Known):
        read_compiled(reader, fact)
    told = read_stated(reader, machine.libc, "which libc the build needs is judged where one is")
    have = numbers(told)
    if have is None:
        return Unknown(f"{told!r} is not a version of libc", "state it as ldd --version prints it: 2.39")
    if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED:
        return _by_tags(reader, case, have)
    if (worst := _too_new(reader, case, have)) is not None:
        return worst
    needed = reader.read(fact)
    if needed is None:
        raise NotApplicable("no extension of the build needs GNU libc")
    return Yes(f"its extensions need libc {needed}; the machine has {told}")


def _too_new(reader: Reader, case: Case, have: Numbers) -> Verdict | None:
    """An extension that the machine's libc cannot load; of packages beside the engine it may be one not used."""
    extensions = case.build.gpu_code
    doubt: Unknown | None = None
    optional = {name for name, package in gpu_code.packages().items() if not package.essential}
    for name, fact in extensions.value.items() if isinstance(extensions, Known) else ():
        if isinstance(fact, Missing):
            continue
        need = numbers(fact.value.libc or "")
        if need is None or need <= have:
            continue
        because = f"{name} needs libc {fact.value.libc}; the machine has {'.'.join(map(str, have))}"
        reader.cite(fact.evidence)
        if fact.value.package not in optional:
            return No(because, OLDER)
        if doubt is None:
            doubt = Unknown(because, "start it once, or use a newer system")
    return doubt


def _by_tags(reader: Reader, case: Case, have: Numbers) -> Verdict:
    """Nothing was read of its files: its tags say where pip refuses it, not that it loads elsewhere."""
    tags = reader.read(case.build.identity.platforms)
    least = [found for tag in tags if (found := tagged(tag)) is not None]
    if not least or len(least) < len(tags) or min(least) <= have:
        read_compiled(reader, case.build.libc_needed)
    words = ".".join(map(str, min(least)))
    return No(
        f"pip installs it from libc {words} on ({', '.join(tags)}); the machine has {'.'.join(map(str, have))}",
        OLDER,
    )


LIBC = Check(
    "libc-new-enough",
    "The machine's GNU libc has every symbol that the build's compiled files need.",
    new_enough,
    needs_machine=True,
)
