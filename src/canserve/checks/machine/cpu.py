"""cpu-arch-matches: the build's files are for the machine's CPU."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_stated
from canserve.checks.reader import Check, Reader
from canserve.verdict import No, Unknown, Verdict, Yes

ARCHITECTURES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "armv7l", "i686", "amd64", "arm64")
"""CPU architectures that platform tags end in."""
ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
ANY = "any"
SOURCES = ("source", "sdist")
"""Words in an origin that say its extensions are compiled where it is installed."""


def architecture(tag: str) -> str | None:
    """The CPU a platform tag is for; ``any``: every one; None: it does not say.

    >>> architecture("manylinux_2_28_aarch64"), architecture("macosx_11_0_arm64"), architecture("any")
    ('aarch64', 'aarch64', 'any')
    """
    if tag == ANY:
        return ANY
    found = next((name for name in ARCHITECTURES if tag.endswith(f"_{name}")), None)
    return ALIASES.get(found, found) if found else None


def matches(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``cpu-arch-matches``."""
    identity = case.build.identity
    tags = reader.read(identity.platforms)
    built_for = sorted({arch for tag in tags if (arch := architecture(tag))})
    if not built_for:
        return Unknown(
            f"the build's platform tags name no CPU: {', '.join(tags) or 'none'}",
            "name a wheel, or an environment on the machine",
        )
    if ANY in built_for:
        from_source = any(word in identity.origin for word in SOURCES)
        needs = ("its extensions compiled for the machine's CPU",) if from_source else ()
        return Yes("the build's files are for any CPU", needs)
    cpu = read_stated(reader, machine_of(case).cpu_arch, f"the build is for {' or '.join(built_for)}")
    if cpu in built_for:
        return Yes(f"the build and the machine are both {cpu}")
    return No(
        f"the build is for {' or '.join(built_for)}, the machine's CPU is {cpu}",
        f"take this release's wheel or image for {cpu}, or build it from source there",
    )


CPU_ARCH = Check(
    "cpu-arch-matches", "The build is made for the machine's CPU architecture.", matches, needs_machine=True
)
