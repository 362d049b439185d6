"""Builtin functions and methods of plain data that may be carried out: pure, bounded in what they build."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import cast

from canserve.engines.static.bounds import TEXT, Budget, Impossible
from canserve.engines.static.values import CallValue, Choices, Opaque, Table, Value, brief, symbolic

_MAPPINGS = {"dict", "OrderedDict", "defaultdict", "MappingProxyType", "Dict", "frozendict"}
_SEQUENCES: dict[str, Callable[[list[Value]], Value]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": set,
    "sorted": lambda items: ordered(set(items)) if len(set(map(type, items))) > 1 else sorted(items),  # type: ignore[type-var]
    "reversed": lambda items: items[::-1],
}
_PLAIN_FORMAT = re.compile(r"(?:[^{}]|\{\w*\}|\{\{|\}\})*")
_PLAIN_PERCENT = re.compile(r"(?:[^%]|%[sd%])*")
_STRING_METHODS = {
    "capitalize", "count", "endswith", "find", "isdigit", "isupper", "islower", "isidentifier", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "title", "upper", "casefold",
}  # fmt: skip


def ordered(value: Value) -> list[Value] | None:
    """The elements that a loop over the value sees, sets in a fixed order; None: it cannot be looped over."""
    if isinstance(value, list | tuple | dict):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda item: (type(item).__name__, brief(item)))
    if isinstance(value, str) and len(value) <= TEXT:
        return list(value)
    return None


def elements(value: Value, budget: Budget) -> list[Value]:
    """Like ``ordered``, paid for. Raises Impossible."""
    if isinstance(value, Choices):
        value = value.values
    if isinstance(value, list | tuple | dict | set | frozenset | str):
        budget.spend(len(value))
    items = ordered(value)
    if items is None:
        raise Impossible
    return items


def call_builtin(
    name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget, line: int = 0
) -> Value:
    """Carry out ``name(*args, **kwargs)``. Raises Impossible for everything but a few pure builtins."""
    if name in _MAPPINGS:
        return make_table(args[1:] if name == "defaultdict" else args, kwargs, budget, line)
    if name in _SEQUENCES and not kwargs and len(args) <= 1:
        return _SEQUENCES[name](elements(args[0], budget) if args else [])
    if any(symbolic(arg) for arg in args) or kwargs:
        raise Impossible
    if name == "range":
        numbers = range(*(cast(int, arg) for arg in args))
        budget.spend(len(numbers))
        return list(numbers)
    if len(args) == 1:
        return _call_unary(name, args[0], budget)
    if name == "cast" and len(args) == 2:
        return args[1]
    if name == "zip":
        return list(zip(*(elements(arg, budget) for arg in args), strict=False))
    raise Impossible


def _call_unary(name: str, arg: Value, budget: Budget) -> Value:
    if name == "get_args" and isinstance(arg, Choices):
        return arg.values
    if name == "len" and isinstance(arg, str | list | tuple | dict | set):
        return len(arg)
    if name == "bool" and not isinstance(arg, Choices):
        return bool(arg)
    if name in {"int", "float"} and isinstance(arg, str | int | float) and len(str(arg)) < 400:
        return int(arg) if name == "int" else float(arg)
    if name == "str" and isinstance(arg, str | int | float | bool):
        return str(arg)
    items = None if isinstance(arg, str) else elements(arg, budget)
    if items is not None and name in {"any", "all"} and not any(symbolic(item) for item in items):
        return any(items) if name == "any" else all(items)
    if items and name in {"min", "max"} and all(isinstance(item, int | float) for item in items):
        numbers = cast(list[float], items)
        return min(numbers) if name == "min" else max(numbers)
    if items is not None and name == "enumerate":
        return list(enumerate(items))
    raise Impossible


def make_table(args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget, line: int) -> Table:
    """``dict(*args, **kwargs)``; parts that cannot be evaluated are remembered as opaque."""
    table = Table()
    for arg in args:
        spread_into(table, arg, budget, line)
    for key, value in kwargs.items():
        table.put(key, value, line)
    return table


def spread_into(table: Table, value: Value, budget: Budget, line: int, guards: tuple[str, ...] = ()) -> None:
    """``table.update(value)``: other tables keep the lines and conditions of their keys."""
    if isinstance(value, dict):
        budget.spend(len(value))
        for key, item in value.items():
            inner = value.guards.get(key, ()) if isinstance(value, Table) else ()
            where = value.lines.get(key, line) if isinstance(value, Table) else line
            table.put(key, item, where, guards + inner)
        if isinstance(value, Table):
            table.removed.update(value.removed)
            table.opaque.extend(value.opaque)
        return
    pairs = ordered(value) if isinstance(value, list | tuple | set) else None
    if pairs is None:
        table.opaque.append(value.source if isinstance(value, Opaque) else brief(value))
        return
    budget.spend(len(pairs))
    for pair in pairs:
        if isinstance(pair, tuple | list) and len(pair) == 2 and hashable(pair[0]):
            table.put(cast(Hashable, pair[0]), pair[1], line, guards)
        else:
            table.opaque.append(brief(pair))


def hashable(value: Value) -> bool:
    """Whether the value may be a key; an expression that was not evaluated may not."""
    if isinstance(value, tuple):
        return all(hashable(item) for item in value)
    return not isinstance(value, list | dict | set | Opaque | CallValue)


def call_method(owner: Value, name: str, args: Sequence[Value], budget: Budget) -> Value:
    """Carry out a reading method of plain data. Raises Impossible for all others."""
    match owner:
        case str():
            return _string_method(owner, name, args, budget)
        case dict():
            return _mapping_method(owner, name, args, budget)
        case list() | tuple() | set() | frozenset() if name in {"copy", "union"}:
            merged = elements(owner, budget)
            for arg in args:
                merged += elements(arg, budget)
            return set(merged) if isinstance(owner, set | frozenset) else merged
        case list() | tuple() if name in {"index", "count"} and len(args) == 1 and not symbolic(args[0]):
            if not isinstance(args[0], str | int):
                raise Impossible
            return owner.index(args[0]) if name == "index" else owner.count(args[0])
    raise Impossible


def _mapping_method(owner: dict[Hashable, Value], name: str, args: Sequence[Value], budget: Budget) -> Value:
    budget.spend(len(owner))
    match name, args:
        case "items", ():
            return list(owner.items())
        case "keys", ():
            return list(owner)
        case "values", ():
            return list(owner.values())
        case "copy", ():
            return Table(owner)
        case "get", (key, *default) if hashable(key) and not symbolic(key):
            if isinstance(owner, Table) and owner.opaque and key not in owner:
                raise Impossible
            return owner.get(key, default[0] if default else None)
        case _:
            raise Impossible


def _string_method(owner: str, name: str, args: Sequence[Value], budget: Budget) -> Value:
    budget.spend(1 + len(owner) // 64)
    if name == "join" and len(args) == 1:
        parts = elements(args[0], budget)
        if not all(isinstance(part, str) for part in parts):
            raise Impossible
        words = cast(list[str], parts)
        within(sum(map(len, words)) + len(owner) * len(words))
        return owner.join(words)
    if any(symbolic(arg) for arg in args):
        raise Impossible
    if name == "replace" and len(args) == 2:
        old, new = args
        if not isinstance(old, str) or not isinstance(new, str):
            raise Impossible
        within(len(owner) + owner.count(old) * len(new))
        return owner.replace(old, new)
    if name == "format" and _PLAIN_FORMAT.fullmatch(owner) and all(isinstance(a, str | int) for a in args):
        within(len(owner) * (1 + sum(len(str(arg)) for arg in args)))
        return owner.format(*args)
    if name in _STRING_METHODS:
        return getattr(owner, name)(*args)
    raise Impossible


def percent(template: str, value: Value) -> str:
    """``template % value`` for plain ``%s`` and ``%d`` only: widths could ask for gigabytes."""
    parts = value if isinstance(value, tuple) else (value,)
    if not _PLAIN_PERCENT.fullmatch(template) or not all(isinstance(part, str | int) for part in parts):
        raise Impossible
    within(len(template) + sum(len(str(part)) for part in parts))
    return template % parts


def within(length: int) -> None:
    """Refuse to build text longer than ``TEXT``."""
    if length > TEXT:
        raise Impossible
