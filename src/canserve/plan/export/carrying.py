"""The plan that an exported file carries, read back; a file is judged like anything from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.plan.export.exported import MARK, VERSION, Exported, ExportError
from canserve.plan.export.forms import FORMS, written
from canserve.subjects.deployment import Folder, Given, Image, Mount, Site, Where
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Parallel, Placement, Rank

_PATH = re.compile(r"/[^\x00-\x1f\"]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_CHARACTERS = 4 << 20
"""Of a file that is searched, and of the plan in it."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a file carries."""

    exported: Exported
    form: str | None
    """The form, where the file is exactly what would be written of the plan; None: it was edited since."""


def read(text: str) -> Carried | None:
    """The plan in the text of a file; None: it carries none that is whole. Never raises for what it holds."""
    found = _line(text[:MAX_CHARACTERS])
    if found is None:
        return None
    try:
        told = json.loads(found)
        if not isinstance(told, dict) or told.get("version") != VERSION:
            return None
        exported = _consistent(_exported(told))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Carried(exported, _form(exported, text))


def _line(text: str) -> str | None:
    """After the mark, up to the end of the line."""
    at = text.find(MARK)
    return None if at < 0 else text[at + len(MARK) :].partition("\n")[0].strip()


def _form(exported: Exported, text: str) -> str | None:
    for form in FORMS:
        try:
            if text in written(exported, form).files.values():
                return form
        except (ExportError, ValueError, KeyError):
            continue  # another form, or edited to what no form can say
    return None


def _exported(told: Mapping[str, Any]) -> Exported:
    layout = {name: int(told["layout"][name]) for name in ("tp", "pp", "dp", "ep")}
    ranks = tuple(_rank(one) for one in told["ranks"])
    return Exported(
        model=_text(told["model"]),
        build=_text(told["build"]),
        engine=_text(told["engine"]),
        version=_text(told["engine_version"]),
        placement=Placement(Parallel(**layout), ranks, tuple(map(int, told["layers"]))),
        options=dict(told["options"]),
        start=Start(tuple(map(_process, told["processes"])), _texts(told["placeholders"])),
        where=_where(told["where"]),
        sites=tuple(map(_site, told["sites"])),
        addresses=_texts(told["addresses"]),
        given=_given(told["given"]),
        state=_text(told["state"]),
    )


def _consistent(it: Exported) -> Exported:
    """The same. Raises ValueError where its parts name other machines than it has, or have none."""
    names = [site.name for site in it.sites]
    hosts = {one.host for one in it.start.processes} | {rank.machine for rank in it.placement.ranks}
    if not it.start.processes or len(set(names)) < len(names) or not hosts <= set(names):
        raise ValueError("machines and processes do not fit together")
    if not all(one.argv for one in it.start.processes):
        raise ValueError("a process without words")
    given = it.given
    paths = [
        it.state,
        *given.secret_files,
        *(path for one in given.mounts for path in (one.source, one.target)),
    ]
    if not all(_PATH.fullmatch(path) for path in paths):
        raise ValueError("a path that is none")
    variables = [
        *given.secrets,
        *given.environment,
        *(name for one in it.start.processes for name in one.environment),
    ]
    if not all(_NAME.fullmatch(name) for name in variables):
        raise ValueError("a variable that is none")
    return it


def _rank(one: list[Any]) -> Rank:
    number, tp, pp, dp, machine, device = one
    return Rank(int(number), int(tp), int(pp), int(dp), _text(machine), int(device))


def _process(one: Mapping[str, Any]) -> Process:
    return Process(
        _text(one["host"]),
        tuple(map(int, one["ranks"])),
        tuple(map(_text, one["argv"])),
        _texts(one["environment"]),
    )


def _where(one: Mapping[str, Any]) -> Where:
    if one["kind"] == "image":
        return Image(_text(one["program"]), _text(one["name"]))
    return Folder(_text(one["path"]))


def _site(one: Mapping[str, Any]) -> Site:
    vendor = one["vendor"]
    devices = tuple(map(int, one["devices"]))
    return Site(_text(one["name"]), devices, None if vendor is None else _text(vendor), bool(one["rdma"]))


def _given(one: Mapping[str, Any]) -> Given:
    mounts = tuple(
        Mount(_text(each["source"]), _text(each["target"]), bool(each["readonly"])) for each in one["mounts"]
    )
    names, files = (tuple(map(_text, one[name])) for name in ("secrets", "secret_files"))
    return Given(mounts, _texts(one["environment"]), names, files)


def _texts(one: Mapping[str, Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in one.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
