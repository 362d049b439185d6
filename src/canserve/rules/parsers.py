"""Which parser fits a chat template: ``parsers.toml``."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.rules.table import Row, load

FILE = "parsers.toml"


def suggested(kind: str, template: str, model_type: str | None, known: Iterable[str]) -> str | None:
    """The ``reasoning`` or ``tool`` parser that the template's marks ask for, of those the build knows."""
    offered = frozenset(known)
    for row in load(FILE).rows(kind):
        if _applies(row, template, model_type):
            for name in row.texts("names"):
                if name in offered:
                    return name
    return None


def _applies(row: Row, template: str, model_type: str | None) -> bool:
    types = row.texts("types")
    return (
        (not types or model_type in types)
        and all(mark in template for mark in row.texts("marks"))
        and not any(mark in template for mark in row.texts("without"))
    )
