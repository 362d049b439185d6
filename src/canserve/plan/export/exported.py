"""What an export says: a plan's processes and where they run, without what was reckoned of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from canserve.facts import Cause, Known, Missing
from canserve.plan.plan import Plan
from canserve.subjects.deployment import STATE, Deployment, Given, Image, Site, Where
from canserve.subjects.launch import Start, filled
from canserve.subjects.parallel import Placement

VERSION = 1
"""Of the form in which a file carries its plan."""
OPERATOR = "export"
"""Who holds what an export started: whoever runs the file."""


class ExportError(ValueError):
    """A plan that a form cannot say: one line, and what can be done."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Exported:
    """A plan on machines. Equal ones have equal files."""

    model: str
    build: str
    engine: str
    version: str
    placement: Placement
    options: Mapping[str, object]
    start: Start
    """As the plan has it; addresses that it does not know are named in it."""
    where: Where
    sites: tuple[Site, ...]
    """The head first."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """``HEAD_IP`` -> ``10.0.0.1``."""
    given: Given = field(default_factory=Given)
    state: str = STATE

    @property
    def run(self) -> str:
        """A name of its own, the same for equal exports: containers, claims and units are found by it."""
        return hashlib.sha256(carried(self).encode()).hexdigest()[:8]

    @property
    def deployment(self) -> Deployment:
        """What ``up`` would start."""
        return Deployment(
            run=self.run,
            model=self.model,
            build=self.build,
            engine=self.engine,
            where=self.where,
            sites=self.sites,
            processes=filled(self.start.processes, self.addresses),
            operator=OPERATOR,
            given=self.given,
            state=self.state,
        )

    @property
    def plan(self) -> Plan:
        """The plan, as far as it decides what is started: nothing of it is judged or reckoned."""
        unknown = Missing(
            Cause.UNREACHED, "an export holds no figures", ask="plan again for the same machines"
        )
        return Plan(
            model=self.model,
            build=self.build,
            engine=self.engine,
            version=self.version,
            placement=self.placement,
            options=self.options,
            serving=unknown,
            speed=unknown,
            start=Known(self.start),
            findings=(),
        )


@dataclass(frozen=True, slots=True)
class Files:
    """What a writer wrote."""

    files: Mapping[str, str]
    """Text by relative path."""
    notes: tuple[str, ...] = ()
    """What the form does not say, or whoever uses it has to do."""


MARK = "canserve-plan:"
"""Before the plan in a comment."""


def carried(it: Exported) -> str:
    """The plan as one line of printable ASCII, for a comment or an annotation; ``carrying.read`` is the inverse.

    Secrets are in it by name alone: nothing else of them is known here.
    """
    ranks = [[one.number, one.tp, one.pp, one.dp, one.machine, one.device] for one in it.placement.ranks]
    told: dict[str, Any] = {
        "version": VERSION,
        "model": it.model,
        "build": it.build,
        "engine": it.engine,
        "engine_version": it.version,
        "layout": asdict(it.placement.parallel),
        "ranks": ranks,
        "layers": it.placement.layers,
        "options": dict(it.options),
        "processes": [asdict(one) for one in it.start.processes],
        "placeholders": dict(it.start.placeholders),
        "addresses": dict(it.addresses),
        "where": asdict(it.where) | {"kind": "image" if isinstance(it.where, Image) else "folder"},
        "sites": [asdict(one) for one in it.sites],
        "given": asdict(it.given),
        "state": it.state,
    }
    return json.dumps(told, separators=(",", ":"), ensure_ascii=True).replace("\x7f", "\\u007f")


def folders(it: Exported) -> dict[str, str]:
    """A folder of its own for every machine, by its name."""
    found: dict[str, str] = {}
    for site in it.sites:
        plain = re.sub(r"[^A-Za-z0-9._@-]", "_", site.name).lstrip(".-") or "machine"
        while plain.lower() in {name.lower() for name in found.values()}:
            plain += "_"
        found[site.name] = plain
    return found


def slug(it: Exported) -> str:
    """A name for the whole, of lower-case letters, digits and hyphens: ``qwen3-8b-1a2b3c4d``; 49 characters at most.

    Kubernetes names pods after it and puts names with a hash into labels of 63; KubeRay takes no more than 53.
    """
    last = it.model.rstrip("/").rpartition("/")[2].lower()
    plain = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
    named = plain if plain[:1].isalpha() else f"m-{plain}"
    return f"{named[:40].rstrip('-')}-{it.run}"


def heading(it: Exported, form: str, notes: tuple[str, ...]) -> Iterator[str]:
    """The first lines of a file, without the mark of a comment."""
    ranks: dict[str, list[int]] = {site.name: [] for site in it.sites}
    for rank in it.placement.ranks:
        ranks.setdefault(rank.machine, []).append(rank.number)
    yield plain(f"canserve export --to {form}: {it.model} with {it.build}")
    yield plain(
        "; ".join(f"{name}: ranks {', '.join(map(str, held))}" for name, held in ranks.items() if held)
    )
    yield from map(plain, notes)
    yield f"{MARK} {carried(it)}"


def plain(text: str) -> str:
    """One line: nothing from outside ends a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
