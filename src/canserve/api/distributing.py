"""An image and weights brought to machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canserve.api import Options, SpecError, read_nodes
from canserve.run import transfer
from canserve.run.transfer import Carried, Wanted

__all__ = ["Carried", "Wanted", "distribute"]


def distribute(
    wanted: Wanted, targets: Sequence[str], options: Options | None = None, *, dry: bool = False
) -> tuple[Carried, ...]:
    """What is wanted on every machine of the targets, as ``run.transfer.distribute``. Raises SpecError.

    ``dry``: machines are looked at, and nothing is copied.
    """
    options = options or Options()
    unlooked = replace(options, offline=True, progress=None)
    nodes = [node for target in targets for node in read_nodes(target, unlooked)]
    try:
        return transfer.distribute(wanted, nodes, transfer.Manner(options.progress or (lambda _: None), dry))
    except transfer.WantedError as error:
        raise SpecError(str(error)) from None
