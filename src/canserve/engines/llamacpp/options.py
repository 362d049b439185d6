"""Options that the programs declare: ``add_opt(common_arg({"-m", "--model"}, "FNAME", help, handler)...)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.engines.cpp.forms import Span, arguments, initializer, strings
from canserve.engines.cpp.text import Code

EXAMPLE, EVERYWHERE = "LLAMA_EXAMPLE_SERVER", "LLAMA_EXAMPLE_COMMON"
MAX_NAMES = 2_000
"""Characters that an option's names may take."""
MAX_LISTS = 50
"""Lists of programs that have a name."""
_OPTION = re.compile(r"\badd_opt\s*\(\s*\w+\s*(?=\()")
_CHAINED = re.compile(r"\s*\.\s*(\w+)\s*(?=\()")


@dataclass(frozen=True, slots=True)
class Option:
    """One of them."""

    names: tuple[str, ...]
    """Those that switch it off included."""
    kind: str | None
    """As ``Flag.kind``."""
    whole: Span
    """All that is given to it."""
    line: int
    for_server: bool


def options(code: Code) -> Iterator[Option]:
    """Every option that is declared in a file."""
    lists: dict[str, str] = {}
    for match in Span(code, 0, len(code.text)).find(_OPTION):
        whole = Span(code, match.end() + 1, code.closing(match.end()))
        given = arguments(whole)
        groups = [[text for text, _ in strings(one)] for one in given[:2] if _in_braces(one)]
        names = tuple(name for group in groups for name in group if name.startswith("-"))
        if names:
            kind = _kind(len(given), len(groups))
            yield Option(
                names, kind, whole, code.line(match.start()), _for_server(code, whole.end + 1, lists)
            )


def _in_braces(span: Span) -> bool:
    return span.end - span.start < MAX_NAMES and span.code.text.startswith("{", span.code.after(span.start))


def _kind(count: int, groups: int) -> str | None:
    """By how much is given: names (and those of its opposite), what stands for a value, help, handler."""
    if groups == 2 or count == 3:
        return "switch"
    return {4: "value", 5: "values"}.get(count)


def _for_server(code: Code, at: int, lists: dict[str, str]) -> bool:
    """What the calls that are chained to an option say of the programs that have it."""
    said: dict[str, str] = {}
    while (call := _CHAINED.match(code.text, at)) is not None:
        end = code.closing(call.end())
        said[call[1]] = _listed(
            code, code.text[call.end() + 1 : min(end, call.end() + MAX_NAMES)].strip(), lists
        )
        at = end + 1
    if re.search(rf"\b{EXAMPLE}\b", said.get("set_excludes", "")):
        return False
    named = said.get("set_examples", EVERYWHERE)
    return re.search(rf"\b(?:{EXAMPLE}|{EVERYWHERE})\b", named) is not None


def _listed(code: Code, given: str, lists: dict[str, str]) -> str:
    """A list of programs as it is written, also where it has a name (``mmproj_examples``)."""
    if not re.fullmatch(r"[A-Za-z_]\w*", given):
        return given
    if given not in lists and len(lists) < MAX_LISTS:
        span = initializer(code, given)
        lists[given] = EVERYWHERE if span is None else code.text[span.start : span.end]
    return lists.get(given, EVERYWHERE)
