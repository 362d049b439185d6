"""A place in a build's files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a build: ``vllm/model_executor/models/registry.py``, line 212."""

    file: str
    line: int
    """Counted from 1; 0: the file as a whole."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file
