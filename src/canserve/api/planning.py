"""``plan``: candidates of builds and layouts on machines, each with memory, speed, commands and findings."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.plan.plan import Plans
from canserve.subjects.model import Model
from canserve.trees.tree import Cost
from canserve.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Plans for one model on these machines."""

    model: Model
    on: str
    """The machines, as the user named them."""
    plans: Plans
    cost: Cost

    @property
    def verdict(self) -> Verdict:
        """That of the best plan."""
        return self.plans.verdict
