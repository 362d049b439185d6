"""How far a model reader may go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from canserve.trees.tree import Cost


@dataclass(frozen=True, slots=True)
class Options:
    """Where the Hub is and how long it may take. None: as ``huggingface_hub`` is configured."""

    offline: bool = False
    """No network attempt at all; the Hub's cache on this disk is read."""
    endpoint: str | None = None
    cache: Path | None = None
    """The Hub's cache folder (``HF_HUB_CACHE``)."""
    timeout: float = 10.0
    """Seconds without an answer after which a request has failed."""
    deadline: float = 120.0
    """Seconds for all requests of one model together."""
    pause: float = 0.5
    """Seconds before a failed request is tried again; twice that before the last try."""
    progress: Callable[[str], None] | None = None
    """Told what is being asked for, in a few words, before each request."""
    spent: Callable[[Cost], None] | None = None
    """Told what each request has taken, from whichever thread made it; the sum is the model's cost."""
