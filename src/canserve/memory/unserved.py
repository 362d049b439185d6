"""Where an estimate of memory ends because of the release, not of the model's numbers."""

from __future__ import annotations

from canserve.facts import Cause, Missing
from canserve.rules.memory import Rules


class Unserved(Exception):  # noqa: N818 - not a fault of the program: the estimate ends here as unknown
    """The release cannot serve such layers, or what they need is not known here."""

    def missing(self, rules: Rules) -> Missing:
        """As the value of a fact."""
        return Missing(Cause.UNAVAILABLE, f"{rules.engine} {rules.version}: {self}")
