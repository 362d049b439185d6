"""Registered classes, resolved: which class serves an architecture, and whether its module can be imported."""

from __future__ import annotations

from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import within
from canserve.engines.static.sites import Absent, ClassSite, Unseen
from canserve.engines.tensorrt_llm.reading import TOP, Reading
from canserve.facts import Fact, Known
from canserve.subjects.build import ModelClass, Registered, Site

FOLLOWED = (f"{TOP}._torch.models", f"{TOP}._torch.configs", f"{TOP}.models")
"""Packages whose imports count for a class; all others are imported with the engine, whatever the model."""


class ClassReader:
    """Resolves registered architectures; what all of them share is read once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._imports = Imports(reading.graph, lambda name: any(within(name, top) for top in FOLLOWED))

    def read(self, row: Registered) -> Fact[ModelClass | None]:
        """One registered architecture; ``Known(None)``: its module or class does not exist."""
        found = self._reading.graph.resolve(row.module, row.name)[0]
        match found:
            case ClassSite():
                pass
            case Unseen(missing=missing):
                return missing
            case Absent():
                return Known(None, (self._reading.seen(row.at, f"no {row.module}.{row.name}"),))
            case _:
                raise self._reading.unknown(row.at.file, f"{row.name} is not a class of the engine")
        needs = self._imports.closure([found.module])
        if needs.unread:
            return needs.unread[0]
        at = Site(found.path, found.node.lineno)
        resolved = ModelClass(
            module=found.module,
            name=row.name,
            at=at,
            interfaces={},
            imports=needs.taken("transformers"),
            broken=tuple(dict.fromkeys(map(str, needs.broken))),
        )
        return Known(
            resolved, (self._reading.seen(row.at, row.name), self._reading.seen(at, f"class {row.name}"))
        )
