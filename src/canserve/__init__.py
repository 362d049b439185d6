"""canserve says whether an engine build will serve a model on your machines.

The public names are loaded on first use, so that ``import canserve`` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.api import BuildReport as BuildReport
    from canserve.api import Options as Options
    from canserve.api import Report as Report
    from canserve.api import SpecError as SpecError
    from canserve.api import check as check
    from canserve.api import machine_names as machine_names
    from canserve.api import read_build as read_build
    from canserve.api import read_machines as read_machines
    from canserve.api import read_model as read_model
    from canserve.api.candidates import CandidatesReport as CandidatesReport
    from canserve.api.candidates import Sought as Sought
    from canserve.api.candidates import candidates as candidates
    from canserve.api.diagnosing import diagnose as diagnose
    from canserve.api.planning import Asked as Asked
    from canserve.api.planning import PlanReport as PlanReport
    from canserve.api.planning import plan as plan
    from canserve.api.released import SinceReport as SinceReport
    from canserve.api.released import UnknownNameError as UnknownNameError
    from canserve.api.released import UnreadModelError as UnreadModelError
    from canserve.api.released import matrix as matrix
    from canserve.api.released import since as since
    from canserve.api.verifying import VerifyReport as VerifyReport
    from canserve.api.verifying import VerifyWishes as VerifyWishes
    from canserve.api.verifying import verify as verify
    from canserve.facts import Cause as Cause
    from canserve.facts import Evidence as Evidence
    from canserve.facts import Known as Known
    from canserve.facts import Missing as Missing
    from canserve.subjects.diagnosis import Diagnosis as Diagnosis
    from canserve.verdict import Finding as Finding
    from canserve.verdict import No as No
    from canserve.verdict import Skipped as Skipped
    from canserve.verdict import Unknown as Unknown
    from canserve.verdict import Yes as Yes

__version__ = "0.1.0"

_HOME = {
    "canserve.api": (
        "BuildReport", "Options", "Report", "SpecError", "check", "machine_names",
        "read_build", "read_machines", "read_model",
    ),
    "canserve.api.candidates": ("CandidatesReport", "Sought", "candidates"),
    "canserve.api.diagnosing": ("diagnose",),
    "canserve.api.planning": ("Asked", "PlanReport", "plan"),
    "canserve.api.released": ("SinceReport", "UnknownNameError", "UnreadModelError", "matrix", "since"),
    "canserve.api.verifying": ("VerifyReport", "VerifyWishes", "verify"),
    "canserve.facts": ("Cause", "Evidence", "Known", "Missing"),
    "canserve.subjects.diagnosis": ("Diagnosis",),
    "canserve.verdict": ("Finding", "No", "Skipped", "Unknown", "Yes"),
}  # fmt: skip

__all__ = [name for names in _HOME.values() for name in names]


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'canserve' has no attribute {name!r}")


class _Package(ModuleType):
    """The package, in which ``plan`` and ``verify`` are the public functions although subpackages are called so too.

    Importing the subpackage binds its name here; a property takes that and gives the function all the same.
    """

    @property
    def plan(self) -> object:
        """The public function."""
        return __getattr__("plan")

    @plan.setter
    def plan(self, module: object) -> None:
        del module

    @property
    def verify(self) -> object:
        """The public function."""
        return __getattr__("verify")

    @verify.setter
    def verify(self, module: object) -> None:
        del module


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
