"""``up`` while it waits: how a start is watched, with what is shipped to read it by."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.api.diagnosing import judged, shipped_matcher
from canserve.checks.diagnosis.log import Reading
from canserve.run.awaiting import Awaited
from canserve.run.watching import watch
from canserve.subjects.diagnosis import Diagnosis
from canserve.subjects.outcome import Outcome


def awaited(it: Awaited) -> Outcome:
    """Watch until it answers, stands still, has failed, is stopped, or the time is over."""
    matcher = shipped_matcher()

    def judge(readings: Sequence[Reading]) -> Diagnosis:
        return judged(readings, matcher.knowledge)

    return watch(it, matcher, judge)
