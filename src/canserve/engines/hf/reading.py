"""One reading of one transformers release or source tree as an engine of its own."""

from __future__ import annotations

from canserve.engines.reading import BuildReading, ReadingError, attempt
from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants
from canserve.subjects.build import Want

__all__ = ["Reading", "ReadingError", "attempt"]


class Reading(BuildReading):
    """What every reader of this engine works with."""

    def __init__(self, sources: Sources, want: Want) -> None:
        super().__init__(sources, want, Constants(sources, "transformers"))
