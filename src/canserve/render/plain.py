"""One mechanism from typed values to JSON values, and from their types to a JSON Schema.

``plain`` and ``schema`` walk the same types, so that what is printed and what is promised cannot part.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Site
from canserve.units import Bytes, Capability, Rate

S = TypeVar("S")
Plain = None | bool | int | float | str | list[Any] | dict[str, Any]

_UNITS: dict[type, tuple[Callable[[Any], Plain], str, str]] = {
    Site: (str, "string", "file:line"),
    Capability: (str, "string", "CUDA compute capability, major.minor"),
    Bytes: (lambda value: value.count, "integer", "bytes"),
    Rate: (lambda value: value.per_second, "integer", "bytes per second"),
}
"""Types that print as one JSON value: how, of which JSON type, and what it says."""


def filled(shape: type[S], *records: object, **others: Any) -> S:
    """A shape whose fields hold what ``others`` says, else what the first record with such a field has."""
    taken = {
        f.name: next(getattr(record, f.name) for record in records if hasattr(record, f.name))
        for f in fields(shape)  # type: ignore[arg-type]
        if f.name not in others
    }
    return shape(**taken, **others)


def plain(value: object) -> Plain:
    """The value in terms of JSON. Raises TypeError for a type that has no place in the output."""
    if type(value) in _UNITS:
        return _UNITS[type(value)][0](value)
    match value:
        case Enum():
            return str(value.value)
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case Known():
            return plain(value.value)
        case Missing():
            return {"missing": str(value.cause), "why": value.why, "ask": value.ask}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Set() | tuple() | list():
            return [plain(item) for item in (sorted(value, key=str) if isinstance(value, Set) else value)]
        case _ if is_dataclass(value):
            return {_key(f.name): plain(getattr(value, f.name)) for f in fields(value)}
        case _:
            raise TypeError(f"{type(value).__name__} has no place in JSON output")


def _key(name: str) -> str:
    return name.removesuffix("_")


Definitions = dict[str, tuple[type, dict[str, Any]]]
"""By name in the schema: the type, and its schema."""


def schema(root: type) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what ``plain`` makes of a ``root`` value."""
    definitions: Definitions = {}
    body = _record(root, definitions)
    bodies = {name: found for name, (_, found) in definitions.items()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **body, "$defs": bodies}


def _record(record: type, definitions: Definitions) -> dict[str, Any]:
    hints = get_type_hints(record, localns=_late(), include_extras=True)
    names = [f.name for f in fields(record)]
    first_line = (record.__doc__ or "").split("\n")[0]
    return {
        "title": record.__name__.removesuffix("Shape"),
        "description": first_line,
        "type": "object",
        "properties": {_key(name): _type(hints[name], definitions) for name in names},
        "required": [_key(name) for name in names],
    }


def _late() -> dict[str, type]:
    """Types that shapes name and do not load, as printing needs none of them."""
    from canserve.subjects.recipe import Recipe

    return {"Recipe": Recipe}


def _type(hint: Any, definitions: Definitions) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**_type(arguments[0], definitions), "description": arguments[1]}
    if origin is Known:
        return _type(arguments[0], definitions)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(argument, definitions) for argument in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if origin is tuple and len(arguments) == 2 and arguments[1] is not Ellipsis:
        return {"type": "array", "items": _type(arguments[0], definitions), "minItems": 2, "maxItems": 2}
    if isinstance(origin, type) and issubclass(origin, tuple | list | Set):
        return {"type": "array", "items": _type(arguments[0], definitions)}
    return _simple(hint, definitions)


def _simple(hint: Any, definitions: Definitions) -> dict[str, Any]:
    if hint is Any or isinstance(hint, TypeVar):
        return {}
    if hint is types.NoneType:
        return {"type": "null"}
    if hint in _UNITS:
        _, kind, said = _UNITS[hint]
        return {"type": kind, "description": said}
    if hint is Missing:
        definitions["Missing"] = (Missing, _MISSING)
        return {"$ref": "#/$defs/Missing"}
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if hint in names:
        return {"type": names[hint]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [str(one.value) for one in hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        name = hint.__name__.removesuffix("Shape")
        if name not in definitions:
            definitions[name] = (hint, {})  # holds the place while the record itself is walked
            definitions[name] = (hint, _record(hint, definitions))
        if definitions[name][0] is not hint:
            raise TypeError(f"two types would be called {name} in the schema")
        return {"$ref": f"#/$defs/{name}"}
    raise TypeError(f"{hint!r} has no place in a schema")


_MISSING: dict[str, Any] = {
    "title": "Missing",
    "description": "A fact that could not be read. What was looked for and is not there is null or empty.",
    "type": "object",
    "properties": {
        "missing": {"enum": [str(cause) for cause in Cause], "description": "The cause."},
        "why": {"type": "string"},
        "ask": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "What would settle it."},
    },
    "required": ["missing", "why", "ask"],
}
