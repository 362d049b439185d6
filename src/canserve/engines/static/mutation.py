"""Statements that change a table, list or set in place."""

from __future__ import annotations

import ast

from canserve.engines.static import builtin
from canserve.engines.static.bounds import Impossible, source_of
from canserve.engines.static.expressions import Expressions
from canserve.engines.static.operators import weigh
from canserve.engines.static.values import Opaque, Table, Value, brief, symbolic


class Guarded(Expressions):
    """An evaluation that stands under conditions."""

    guards: tuple[str, ...] = ()


def assign_item(owner: Value, key: Value, value: Value, line: int, guards: tuple[str, ...]) -> None:
    """``owner[key] = value``."""
    if not isinstance(owner, Table):
        return
    if builtin.hashable(key):
        weigh(value)
        owner.put(key, value, line, guards)
    else:
        owner.opaque.append(brief(key))


def delete_item(owner: Value, key: Value, guards: tuple[str, ...]) -> None:
    """``del owner[key]``."""
    if isinstance(owner, Table) and builtin.hashable(key):
        owner.drop(key, guards)
    elif isinstance(owner, list) and isinstance(key, int) and not guards and -len(owner) <= key < len(owner):
        del owner[key]


def mutate(run: Guarded, owner: Value, method: str, call: ast.Call) -> None:
    """``owner.method(...)`` as a statement."""
    args = [run.evaluate(arg) for arg in call.args if not isinstance(arg, ast.Starred)]
    if isinstance(owner, Table):
        _mutate_table(run, owner, method, args, call)
    elif isinstance(owner, list | set) and args:
        forced = list(map(run.force, args))
        weigh(forced[0])
        _mutate_items(run, owner, method, forced)


def _mutate_table(run: Guarded, table: Table, method: str, args: list[Value], call: ast.Call) -> None:
    line, guards = call.lineno, run.guards
    key = run.force(args[0]) if args else None
    if method == "update":
        for arg in args:
            builtin.spread_into(table, run.force(arg), run.budget, line, guards)
        for keyword in call.keywords:
            if keyword.arg is not None:
                table.put(keyword.arg, run.evaluate(keyword.value), line, guards)
            else:
                builtin.spread_into(table, run.use(keyword.value), run.budget, line, guards)
    elif method == "pop" and args and builtin.hashable(key):
        table.drop(key, guards)
    elif method == "setdefault" and len(args) == 2 and builtin.hashable(key):
        if key not in table:
            table.put(key, args[1], line, guards)
    elif method == "clear" and not guards:
        table.clear()
    elif method not in {"move_to_end", "get", "keys", "items", "values"}:
        table.opaque.append(source_of(call))


def _mutate_items(run: Guarded, items: list[Value] | set[Value], method: str, args: list[Value]) -> None:
    value = args[-1]
    if method in {"append", "add"} or (method == "insert" and isinstance(items, list)):
        added = [value]
    elif method in {"extend", "update"}:
        try:
            added = builtin.elements(value, run.budget)
        except Impossible:
            added = [Opaque(f"*{brief(value)}")]
    elif method in {"remove", "discard"} and not run.guards and not symbolic(value):
        if isinstance(value, str | int) and value in items:
            items.remove(value)
        return
    else:
        return
    run.budget.spend(len(added))
    if isinstance(items, list):
        items.extend(added)
    else:
        items.update(item for item in added if builtin.hashable(item) or isinstance(item, Opaque))
