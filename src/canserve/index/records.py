"""Records as JSON and back, by the types of their fields; places in files are left out.

A frozen dataclass becomes the list of its fields' values, without those that are not for the index. ``Site`` becomes true, and any given site on
the way back; a fact becomes its value alone. Mappings keep their order, for some mean something by it.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import UNINDEXED, Site

NOT_READ = Missing(
    Cause.UNREADABLE,
    "it could not be read when the release index was made",
    (),
    "judge the build itself, named with --build",
)
"""A fact inside a record that was missing."""


def written(value: Any, kind: Any) -> str:
    """A value of that type as compact JSON."""
    return json.dumps(_plain(value, kind), separators=(",", ":"))


def parsed(text: str, kind: Any, site: Site) -> Any:
    """The value again. Raises ValueError for what is no value of that type."""
    return _made(json.loads(text), kind, site)


@cache
def _fields(kind: type) -> Sequence[tuple[str, Any]]:
    hints = get_type_hints(kind)
    kept = (field for field in dataclasses.fields(kind) if not field.metadata.get(UNINDEXED))
    return [(field.name, hints[field.name]) for field in kept]


def _part(kind: Any) -> tuple[Any, Any]:
    """What a type is built of: ``(Mapping, X)``, ``(tuple, X)``, ``(Union, X)`` for ``X | None``, or itself."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if get_origin(arguments[0]) is Known:
            return Known, get_args(arguments[0])[0]
        others = [one for one in arguments if one is not type(None)]
        return (Union, others[0]) if len(others) == 1 and len(others) < len(arguments) else (None, None)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Mapping, arguments[1]
    if origin is tuple:
        return tuple, arguments[0]
    return (
        (Site, None)
        if kind is Site
        else (dataclasses, None)
        if dataclasses.is_dataclass(kind)
        else (None, None)
    )


def _plain(value: Any, kind: Any) -> Any:
    form, inner = _part(kind)
    if form is Site:
        return True
    if form is Known:
        return [_plain(value.value, inner)] if isinstance(value, Known) else None
    if form is Union:
        return None if value is None else _plain(value, inner)
    if form is Mapping:
        return {key: _plain(one, inner) for key, one in value.items()}
    if form is tuple:
        return [_plain(one, inner) for one in value]
    if form is dataclasses:
        return [_plain(getattr(value, name), of) for name, of in _fields(kind)]
    return value


def _made(value: Any, kind: Any, site: Site) -> Any:
    form, inner = _part(kind)
    if form is Site:
        return site
    if form is Known:
        return NOT_READ if value is None else Known(_made(value[0], inner, site))
    if form is Union:
        return None if value is None else _made(value, inner, site)
    if form is Mapping:
        return {key: _made(one, inner, site) for key, one in value.items()}
    if form is tuple:
        return tuple(_made(one, inner, site) for one in value)
    if form is dataclasses:
        fields = _fields(kind)
        return kind(*(_made(one, of, site) for one, (_, of) in zip(value, fields, strict=True)))
    return tuple(value) if isinstance(value, list) else value  # a plain value that may be several numbers
