"""What canserve said, taken apart."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from lab.two_hosts import Lab

Facts = Mapping[str, Any]


def machines(lab: Lab, cluster: str) -> tuple[Facts, Facts]:
    """The facts of the first and the second host."""
    done = lab.canserve("machine", cluster, "--format", "json", "--quiet")
    first, second = told(done)["machines"]
    seen = all(reached(each["facts"]) for each in (first, second))
    assert done.returncode == (0 if seen else 3), done.stderr
    return first["facts"], second["facts"]


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that a command printed; it did not fail."""
    assert done.returncode in {0, 1, 3}, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def reached(facts: Facts) -> bool:
    """Whether the machine answered at all."""
    return not missing(facts, "clock_skew")


def missing(facts: Facts, name: str) -> tuple[str, str] | None:
    """Cause and reason of a fact that is missing; None: it is known."""
    fact = facts[name]
    return (fact["missing"], fact["why"]) if isinstance(fact, dict) and "missing" in fact else None


def why(facts: Facts, name: str = "clock_skew") -> str:
    """The reason of a fact that must be missing, its cause first."""
    found = missing(facts, name)
    assert found is not None, facts[name]
    return f"{found[0]}: {found[1]}"
