"""Every form that a plan is exported to."""

from __future__ import annotations

from canserve.plan.export import compose, kuberay, leaderworkerset, shell, sparkrun, systemd
from canserve.plan.export.exported import Exported, Files

_WRITERS = {
    "compose": compose.write,
    "shell": shell.write,
    "systemd": systemd.write,
    "sparkrun": sparkrun.write,
    "leaderworkerset": leaderworkerset.write,
    "kuberay": kuberay.write,
}
FORMS = tuple(_WRITERS)
"""Their names, as ``--to`` takes them."""
CLUSTERED = ("sparkrun", "leaderworkerset", "kuberay")
"""Those in which somebody else chooses the machines, and knows their addresses."""


def written(it: Exported, form: str) -> Files:
    """The files of a form. Raises ExportError for what it cannot say, KeyError for a form that there is not."""
    return _WRITERS[form](it)
