"""What a deployment writes of itself on its machines, so that whoever has no journal of it can say what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from canserve.engines.listening import listens
from canserve.subjects.deployment import Deployment, Described

FORM = 1
MAX_BYTES = 1 << 20
_WORDS = ("machine", "model", "build", "engine", "program", "operator")
_PROCESS = ("number", "host", "ranks", "api")


def description(it: Deployment, machine: str) -> str:
    """For one machine, on one line. The head's names every process, the others' their own: there may be thousands."""
    head = bool(it.sites) and machine == it.sites[0].name
    processes = tuple(
        (number, one.host, one.ranks, listens(it.engine, one.argv).api)
        for number, one in enumerate(it.processes)
        if head or one.host == machine
    )
    held = tuple(site.name for site in it.sites) if head else (machine,)
    told = Described(
        it.run, machine, it.model, it.build, it.engine, it.program, it.operator, processes, held,
        it.promise if head else None,
    )  # fmt: skip
    return written(told)


def written(it: Described) -> str:
    """The line that ``understood`` reads."""
    told = {
        "form": FORM, **{name: getattr(it, name) for name in ("run", *_WORDS)}, "held": it.held,
        "processes": [dict(zip(_PROCESS, one, strict=True)) for one in it.processes],
    }  # fmt: skip
    return json.dumps(told if it.promise is None else {**told, "promise": it.promise}, separators=(",", ":"))


def understood(text: str) -> Described | None:
    """What a machine's file says; None: it is of another form. It may hold anything: everybody may write there."""
    if len(text) > MAX_BYTES:
        return None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("form") != FORM or not isinstance(told.get("run"), str):
        return None
    words = [told.get(name) for name in _WORDS]
    processes, held = told.get("processes"), told.get("held")
    if not all(isinstance(word, str) for word in words) or not isinstance(processes, list):
        return None
    if not isinstance(held, list) or not all(isinstance(name, str) for name in held):
        return None
    found = [_process(one) for one in processes]
    if None in found:
        return None
    return Described(
        told["run"], told["machine"], told["model"], told["build"], told["engine"], told["program"],
        told["operator"], tuple(one for one in found if one is not None), tuple(held),
        promise if isinstance(promise := told.get("promise"), dict) else None,
    )  # fmt: skip


def _process(one: Any) -> tuple[int, str, tuple[int, ...], int | None] | None:
    if not isinstance(one, Mapping):
        return None
    number, host, ranks, api = (one.get(name) for name in _PROCESS)
    if type(number) is not int or not isinstance(host, str) or not isinstance(ranks, list):
        return None
    if not all(type(rank) is int for rank in ranks) or not (
        api is None or (type(api) is int and 0 < api < 65536)
    ):
        return None
    return number, host, tuple(ranks), api
