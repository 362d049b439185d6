"""Quantization methods as names of tables: their classes, minimum capabilities and schemes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from canserve.facts import Fact, Known, Missing
from canserve.index.at import At, Lazy
from canserve.index.records import NOT_READ, parsed, written
from canserve.index.words import join, word
from canserve.subjects.build import QuantMethod, Taker

OTHERS = ("method_classes", "method_capabilities", "schemes", "scheme_capabilities", "method_takers")
Takers = tuple[Taker, ...]
UNREAD = "?"


def write(methods: Mapping[str, QuantMethod]) -> Mapping[str, Iterable[str]]:
    """All methods of a release, by table."""
    out: dict[str, list[str]] = {table: [] for table in ("quantization", *OTHERS)}
    for name, method in methods.items():
        out["quantization"].append(word(name))
        if method.class_name is not None or method.guards:
            out["method_classes"].append(join(name, method.class_name or "", *method.guards))
        if method.takers:
            out["method_takers"].append(join(name, written(method.takers, Takers)))
        out["method_capabilities"].append(join(name, _number(method.min_capability)))
        if isinstance(method.schemes, Missing):
            out["schemes"].append(join(name, UNREAD))
        else:
            out["schemes"] += [join(name, scheme) for scheme in method.schemes.value]
        if isinstance(method.scheme_capabilities, Missing):
            out["scheme_capabilities"].append(join(name, UNREAD))
        else:
            limits = method.scheme_capabilities.value.items()
            out["scheme_capabilities"] += [join(name, scheme, _number(Known(at))) for scheme, at in limits]
    return out


def read(at: At) -> Mapping[str, QuantMethod]:
    """The methods again."""
    return Lazy(at, "quantization", _method)


def _method(at: At, name: str) -> QuantMethod:
    class_name, *guards = next(iter(at.of("method_classes", name)), ("",))
    ((capability,),) = at.of("method_capabilities", name)
    return QuantMethod(
        name,
        class_name or None,
        NOT_READ if capability == UNREAD else Known(int(capability) if capability else None),
        at.site,
        tuple(guards),
        _schemes(at.of("schemes", name)),
        _limits(at.of("scheme_capabilities", name)),
        next((parsed(text, Takers, at.site) for (text,) in at.of("method_takers", name)), ()),
    )


def _number(fact: Fact[int | None]) -> str:
    return UNREAD if isinstance(fact, Missing) else "" if fact.value is None else str(fact.value)


def _schemes(words: list[list[str]]) -> Fact[tuple[str, ...]]:
    return NOT_READ if words == [[UNREAD]] else Known(tuple(one[0] for one in words))


def _limits(words: list[list[str]]) -> Fact[Mapping[str, int | None]]:
    if words == [[UNREAD]]:
        return NOT_READ
    return Known({scheme: int(limit) if limit else None for scheme, limit in words})
