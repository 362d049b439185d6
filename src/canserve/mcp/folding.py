"""JSON of any length as a view that fits a context window: what does not fit stands there as a reference to itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from canserve.render.escape import visible

BUDGET = 12_000
"""Characters of JSON that one view takes: three to four thousand tokens."""
LONGEST_TEXT = 700
"""Characters of one text within a view; a view of that text alone shows ``BUDGET`` of it."""
WORTHWHILE = 280
"""Characters that an item of a list needs to say something; where there is room for less, fewer are shown."""
MANY = 40
"""A mapping of more names than that, whose values are of one kind, is a table, and cut like a list."""
MOST_FIELDS = 150
"""No record has more fields than that."""
_REFERENCE = 160
"""About what a reference takes."""
ASIDE = frozenset({"evidence", "skipped"})
"""Fields that are shown only to who asks for them: they are the proof, or what does not apply, not the answer."""
_ORDER = {"no": 0, "unknown": 1, "yes": 2}


def worst_first(value: Any) -> Any:
    """The same with findings in the order in which they matter: whoever reads only the beginning must not miss a no."""
    match value:
        case dict():
            return {key: worst_first(item) for key, item in value.items()}
        case list():
            items = [worst_first(item) for item in value]
            if items and all(
                isinstance(item, dict) and {"check", "verdict"} <= item.keys() for item in items
            ):
                items.sort(key=lambda item: (_ORDER.get(item["verdict"], 1), not item.get("needs")))
            return items
        case _:
            return value


def view(value: Any, address: str, start: int = 0, budget: int = BUDGET) -> Any:
    """What is at ``address``, from item or character ``start`` on, in at most about ``budget`` characters of JSON."""
    match value:
        case str():
            shown = value[start : start + budget]
            rest = len(value) - start - len(shown)
            more = {"more": f"{address}?from={start + len(shown)}", "characters": rest} if rest > 0 else {}
            return {"text": visible(shown, budget), **more} if more or start else visible(shown, budget)
        case list() if start:
            return _items(value, address, budget, start)
        case dict() if start:
            return _names(value, address, budget, start)
        case _:
            room = budget
            while True:  # references take room as well: less is shown until all of it fits
                shown_value = _fit(value, address, room, top=True)
                if _size(shown_value) <= budget or room < budget // 16:
                    return shown_value
                room = room * 3 // 4


def at(value: Any, pointer: Sequence[str]) -> Any:
    """The part that a path of names and positions leads to. Raises LookupError."""
    for step in pointer:
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            case _:
                raise LookupError(step)
    return value


def parts(path: str) -> tuple[str, ...]:
    """Names and positions of a path as it stands in an address."""
    return tuple(unquote(part, errors="surrogatepass") for part in path.split("/")[1:])


def _fit(value: Any, address: str, budget: int, top: bool = False) -> Any:
    match value:
        case str():
            if len(value) <= LONGEST_TEXT:
                return visible(value)
            rest = len(value) - LONGEST_TEXT
            return f"{visible(value[:LONGEST_TEXT])} ... ({rest} more characters: {address})"
        case dict() | list() if not value:
            return value
        case dict() | list() if not top and budget < _REFERENCE and _size(value) > budget:
            return _reference(value, address)
        case list():
            return _items(value, address, budget)
        case dict() if _is_table(value, budget):
            return _names(value, address, budget)
        case dict():
            return dict(_shared(value, address, budget))
        case _:
            return value


def _is_table(value: Mapping[str, Any], budget: int) -> bool:
    """Names that come from outside, rather than the fields of a record: some will do, to say what it is."""
    inside = [isinstance(item, dict | list) and bool(item) for item in value.values()]
    crowded = len(value) * _REFERENCE > budget
    return len(value) > (2 if all(inside) and crowded else MANY if len(set(inside)) < 2 else MOST_FIELDS)


def _shared(value: Mapping[str, Any], address: str, budget: int) -> Sequence[tuple[str, Any]]:
    """Small things whole; the room that they leave is shared by the large ones."""
    sizes = {key: _reckoned(key, item) for key, item in value.items()}
    left, waiting, share = budget, len(value), 0
    shares = {}
    for key, size in sorted(sizes.items(), key=lambda one: one[1]):
        share = max(left // max(waiting, 1), 0)
        shares[key] = min(size, share) if size > share else size
        left -= shares[key] + len(key) + 6
        waiting -= 1
    out = []
    for key, item in value.items():
        where = f"{address}/{_quoted(key)}"
        if _aside(key, item):
            out.append((visible(key), _reference(item, where)))
        else:
            out.append((visible(key), _fit(item, where, shares[key])))
    return out


def _reckoned(key: str, item: Any) -> int:
    return _REFERENCE if _aside(key, item) else _size(item)


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


def _aside(key: str, item: Any) -> bool:
    return key in ASIDE and isinstance(item, dict | list) and bool(item)


def _items(value: Sequence[Any], address: str, budget: int, start: int = 0) -> list[Any]:
    left = value[start:]
    count = _count([_size(item) for item in left], budget)
    share = budget // max(count, 1)
    shown = [_fit(item, f"{address}/{start + at}", share) for at, item in enumerate(left[:count])]
    if count < len(left):
        shown.append({"more": f"{address}?from={start + count}", "items": len(left) - count})
    return shown


def _names(value: Mapping[str, Any], address: str, budget: int, start: int = 0) -> dict[str, Any]:
    left = list(value.items())[start:]
    count = _count([_size(item) + len(key) + 6 for key, item in left], budget)
    share = budget // max(count, 1)
    shown = {visible(key): _fit(item, f"{address}/{_quoted(key)}", share) for key, item in left[:count]}
    if count < len(left):
        shown["more"] = {"more": f"{address}?from={start + count}", "items": len(left) - count}
    return shown


def _count(sizes: Sequence[int], budget: int) -> int:
    """How many of the first are shown: all that fit whole, else as many as can say something; never none."""
    spent = 0
    for count, size in enumerate(sizes):
        spent += min(size, max(WORTHWHILE, budget // len(sizes))) + 2
        if spent > budget:
            return max(count, 1)
    return len(sizes)


def _reference(value: Any, address: str) -> dict[str, Any]:
    figure = {"value": value["value"]} if isinstance(value, dict) and _is_figure(value.get("value")) else {}
    return {**figure, "folded": address, "items": len(value)}


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=True))
