"""What a build demands of another package, from its ``Requires-Dist`` lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

PYTHON = "3.12"
"""Python for which markers are evaluated where the caller does not know better."""
MAX_LINES = 1000
"""``Requires-Dist`` lines that are looked at; the longest list measured had 310."""


def requirement(
    requires: Sequence[str],
    name: str,
    extras: Iterable[str] = (),
    project: str = "",
    python: str = PYTHON,
) -> str | None:
    """The specifier under which ``name`` is required on Linux with CPython, several lines merged.

    ``""``: required in any version; ``None``: no line that applies names it. ``extras`` are those with
    which ``project`` gets installed; extras that these pull in (``project[runtime]; extra == "all"``)
    count as well. A line that names the package but cannot be parsed counts as "any version".

    >>> requirement(['transformers>=4.51', 'transformers<5; python_version >= "3.9"'], "transformers")
    '<5,>=4.51'
    """
    wanted = canonicalize_name(name)
    parsed = [line for text in requires[:MAX_LINES] if (line := _parse(text, wanted)) is not None]
    own = [line for line in parsed if project and canonicalize_name(line.name) == canonicalize_name(project)]
    active = _with_pulled_in(own, extras, python)
    merged: SpecifierSet | None = None
    for line in parsed:
        if canonicalize_name(line.name) == wanted and any(_applies(line, extra, python) for extra in active):
            merged = line.specifier if merged is None else merged & line.specifier
    return None if merged is None else str(merged)


def _parse(text: str, wanted: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text[:200])
        return Requirement(wanted) if match and canonicalize_name(match[1]) == wanted else None


def _with_pulled_in(own: Sequence[Requirement], extras: Iterable[str], python: str) -> list[str]:
    """No extra (``""``), the extras, and all that these pull in through the project's own lines."""
    active = ["", *(canonicalize_name(extra) for extra in extras)]
    for extra in active:  # grows while it is walked
        for line in own:
            if not {canonicalize_name(pulled) for pulled in line.extras} <= set(active) and _applies(
                line, extra, python
            ):
                active.extend(sorted({canonicalize_name(pulled) for pulled in line.extras} - set(active)))
    return active


def _applies(line: Requirement, extra: str, python: str) -> bool:
    try:
        return line.marker is None or _holds(line.marker, extra, python)
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True  # a marker that makes no sense does not take a demand away


def _holds(marker: Marker, extra: str, python: str) -> bool:
    """Whether a marker holds on Linux; every variable is given, so nothing of this machine counts."""
    return marker.evaluate(
        {
            "extra": extra,
            "implementation_name": "cpython",
            "implementation_version": f"{python}.0",
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{python}.0",
            "python_version": python,
            "sys_platform": "linux",
        }
    )
