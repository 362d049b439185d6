"""All legal TP x PP x DP x EP placements of a model on machines, and why the others are not.

``layouts(Question(model, hosts(machines), engine, version))`` gives the legal ones lazily, each with what could
not be decided about it, and every degree that is forbidden with the rule that forbids it and what heals it.
"""

from __future__ import annotations

from canserve.layout.enumerate import Layout, Layouts, layouts
from canserve.layout.question import Fixed, Host, Question, hosts

__all__ = ["Fixed", "Host", "Layout", "Layouts", "Question", "hosts", "layouts"]
