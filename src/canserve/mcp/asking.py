"""What a tool is: its name, what it takes, what it does, and what it is given to do it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from canserve.mcp.answers import Answers
from canserve.mcp.approvals import Approvals
from canserve.run.executing import Stop


class Question(BaseModel):
    """Arguments of a tool; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Asking:
    """What a tool is given for one call."""

    answers: Answers
    approvals: Approvals
    allow_changes: bool = False
    stop: Stop = field(default_factory=Stop)
    """Set when the client does not want it any more."""
    tell: Callable[[str], None] = lambda _: None
    """Told in a few words what is being done."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a tool has found."""

    value: Any
    """In terms of JSON, as ``--format json`` prints it."""
    verdict: str | None = None
    """``yes``, ``no`` or ``unknown``; None: nothing was judged."""
    because: str = ""
    next: str = ""
    """What can be done now."""
    approve: str | None = None
    """What carries out the steps that are shown."""
    viewed: bool = False
    """Whether the value is a part of an earlier answer already, cut to fit."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    name: str
    about: str
    takes: type[Question]
    does: Callable[[Any, Asking], Done]
    output: str | None
    """Whose JSON Schema its result has; None: it has none."""
    changes: bool = False
    """Whether it changes machines."""
