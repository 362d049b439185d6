"""What `canserve export` prints with --format json; the rules of ``shapes`` hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class ExportedFileShape:
    """One file."""

    path: Annotated[str, "Below --out, or where it would be."]
    text: str


@dataclass(frozen=True, slots=True)
class ExportShape:
    """A plan in another form."""

    version: int
    model: str
    build: str
    form: str
    run: Annotated[str, "The name of what the files start: canserve status and down find it under this."]
    files: tuple[ExportedFileShape, ...]
    written: Annotated[tuple[str, ...], "Paths; empty: nothing was written."]
    notes: Annotated[tuple[str, ...], "What the form does not say, or whoever uses it has to do."]
