"""What models ask of attention beside the numbers of their configs: ``attention.toml``."""

from __future__ import annotations

from canserve.rules.table import Row, load

FILE = "attention.toml"


def sinks(model_type: str) -> Row | None:
    """The row that says that this type's layers have learned attention sinks; None: there is none."""
    rows = load(FILE).rows("sinks")
    return next((row for row in rows if model_type in row.texts("model_types")), None)
