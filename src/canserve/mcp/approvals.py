"""What was shown and may be carried out: once, within minutes, and exactly that."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

VALID = 900.0
"""Seconds for which what was shown may be approved: machines change."""
MOST = 16


class Approvals:
    """What waits for approval. Safe to be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[str, Any, float]] = {}
        self._lock = threading.Lock()

    def ask(self, tool: str, prepared: Any) -> str:
        """Keep what a tool has shown; the word that approves it."""
        word = secrets.token_hex(8)
        with self._lock:
            while len(self._waiting) >= MOST:
                self._waiting.pop(next(iter(self._waiting)))
            self._waiting[word] = tool, prepared, self._clock() + VALID
        return word

    def take(self, tool: str, word: str) -> Any:
        """What was approved; it cannot be approved again. Raises LookupError."""
        with self._lock:
            found = self._waiting.get(word)
            if found is None or found[0] != tool or found[2] < self._clock():
                raise LookupError(word)
            del self._waiting[word]
        return found[1]
