"""Checks of a preflight's records: whether a small program of several ranks came to its end, and how fast it was."""

from __future__ import annotations

from canserve.checks.preflight.kernels import KERNELS
from canserve.checks.preflight.question import PreflightCheck
from canserve.checks.preflight.ranks import CONNECT, MEET, RIGHT, START
from canserve.checks.preflight.transport import RATE, TRANSPORT
from canserve.subjects.cluster import Cluster
from canserve.verdict import Finding, Skipped

CHECKS: tuple[PreflightCheck, ...] = (START, MEET, CONNECT, RIGHT, TRANSPORT, RATE, *KERNELS)
"""In the order in which a rank comes to them."""


def judge(cluster: Cluster) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What each of them says, and which do not apply."""
    found = [each.judge(cluster) for each in CHECKS]
    return (
        tuple(each for each in found if isinstance(each, Finding)),
        tuple(each for each in found if isinstance(each, Skipped)),
    )
