"""Finding engines in a tree: which packages, of which version, under which Python, with what beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canserve.engines import LIBRARIES, Engine
from canserve.engines.sources import Sources
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.discover.candidates import Candidate, candidates
from canserve.probes.discover.environment import Environment, Located, Outside
from canserve.probes.discover.look import Look
from canserve.probes.discover.metadata import Metadata, literal_version, of_checkout, read_metadata
from canserve.probes.discover.started import prefix_of, started_first
from canserve.probes.discover.survey import Survey, survey
from canserve.trees.image.manifest import Config
from canserve.trees.names import below
from canserve.trees.tree import Hole, Tree
from canserve.trees.view import Part, joined

ON_INDEX = "on the package index"
"""In the origin of a tree that is a release there."""
WHOLLY = "every folder"
"""How it was seen that there is no engine: everything was looked at."""
ELSEWHERE = (
    "name an environment in which it is installed, its source tree, or a folder copied out of an image"
)
_MAX_PLUGINS = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """An engine in a tree."""

    engine: Engine
    candidate: Candidate
    metadata: Metadata
    environment: Environment | None
    notes: tuple[str, ...]
    """What else was found and not chosen, and other things the user should know."""

    @property
    def origin(self) -> str:
        """What it is and where in the tree."""
        return self.candidate.origin

    def sources(self, subject: str) -> Sources:
        """The engine's files, its metadata, and the entry points of everything installed beside it."""
        located = self.candidate.located
        if located.checkout:
            return joined(subject, [Part(located.package.look.tree, located.package.path, "")])
        parts = [_part(located, self.engine.package), *_info_parts(located)]
        look, root = located.package.look, located.package.path.rpartition("/")[0]
        if located.info is None:
            here = [(name, below(root, name)) for name in ("pyproject.toml", "setup.py", "PKG-INFO")]
            parts += [Part(look.tree, path, name, single=True) for name, path in here if look.is_file(path)]
        checkout = self.engine.checkout
        if checkout is not None and located.site is None:
            parts.append(Part(look.tree, below(root, checkout.carried), checkout.carried))
        if self.environment:
            parts += self.environment.entry_points(_MAX_PLUGINS)
        return joined(subject, parts)

    def platforms(self) -> Fact[tuple[str, ...]]:
        """Platform tags that its wheel had; ``("any",)`` for a source tree."""
        located = self.candidate.located
        if located.info is None:
            return Known(("any",), (located.package.look.seen(located.package.path, "a source tree"),))
        path = below(located.info.path, "WHEEL")
        wheel = located.info.look.file(path)
        if isinstance(wheel, Missing):
            return wheel
        lines = (wheel.value or b"").decode("utf-8", "replace").splitlines()[:200]
        tags = sorted({line.rpartition("-")[2].strip() for line in lines if line.startswith("Tag:")})
        if not tags:
            return Known(("any",), (located.info.look.seen(path, "no tags: not installed from a wheel"),))
        return Known(tuple(tags), (located.info.look.seen(path, f"tags {', '.join(tags)}"[:200]),))

    def installed(self, package: str) -> Fact[Located | None]:
        """Another package of the same environment."""
        if self.environment is None:
            look = self.candidate.located.package.look
            why = f"not an environment, so {package} is not beside it"
            return Missing(
                Cause.UNREACHED, why, (look.seen("", self.origin),), "name an environment that has it"
            )
        return self.environment.locate(package, package)

    def installed_version(self, package: str) -> Fact[str | None]:
        """Its version; the one its own code states where there is one, for it holds the local part."""
        located = self.installed(package)
        if isinstance(located, Missing):
            return located
        if located.value is None:
            return Known(None, located.evidence)
        return version_of(located.value)

    def installed_sources(self, package: str, subject: str) -> Sources | None:
        """Its files; None: it is not there, or not readable."""
        located = self.installed(package)
        if isinstance(located, Missing) or located.value is None:
            return None
        return joined(subject, [_part(located.value, package), *_info_parts(located.value)])


def discover(
    tree: Tree,
    engines: Sequence[Engine],
    outside: Outside | None = None,
    wanted: str | None = None,
    config: Config | None = None,
) -> Found | Missing:
    """The engine that this tree would run; Missing when there is none, or none that is certain.

    ``outside`` opens folders of this machine that an environment names; None where the tree is a copy of
    another machine's files. ``wanted``: only the engine of this name. ``config``: of an image, which says what of
    several environments is started. An engine that is others' library is
    looked for only where there certainly is none of those others.
    """
    sought = [engine for engine in engines if wanted in {None, engine.name}]
    for libraries in (False, True):
        group = [engine for engine in sought if (engine.name in LIBRARIES) is libraries]
        found = _look_for(group, tree, outside, config) if group else None
        if found is not None:
            return found
    return _nowhere(tree, sought, wanted)


def _look_for(
    sought: Sequence[Engine], tree: Tree, outside: Outside | None, config: Config | None
) -> Found | Missing | None:
    """The first of these engines; Missing where that is not certain, None where there certainly is none."""
    look = Look(tree)
    walked = survey(tree, {engine.package for engine in sought}, _marks(sought))
    found, troubles = candidates(look, walked, sought, None if walked.root_file_system else outside)
    if not found:
        return _nothing(walked, troubles, sought)
    if len(found) > 1:
        found = started_first(found, prefix_of(tree, config, {engine.package for engine in sought}), config)
    best, *others = found
    if best.stray and (blocked := troubles.get(best.engine.name)):
        why = f"{blocked.why}; the source tree in {best.located.package} may be another one"
        return Missing(blocked.cause, why, blocked.evidence, blocked.ask)
    metadata = (
        of_checkout(best.located.package, best.engine.name)
        if best.located.checkout
        else read_metadata(best.located.package, best.located.info)
    )
    notes = tuple(f"also found, and not read: {other.label}" for other in others[:10])
    return Found(best.engine, best, metadata, best.environment, notes + best.notes)


def _marks(engines: Sequence[Engine]) -> dict[str, str]:
    """Files that tell a source tree, with the package that stands for its engine."""
    return {mark: one.package for one in engines if one.checkout for mark in one.checkout.marks}


def _nothing(walked: Survey, troubles: dict[str, Missing], sought: Sequence[Engine]) -> Missing | None:
    """Why no engine was seen although one may be there: a place that could not be looked into; None: it is not."""
    for trouble in troubles.values():
        return trouble
    order = {Cause.UNAVAILABLE: 0, Cause.UNREADABLE: 1, Cause.UNREACHED: 2}
    holes: list[Hole] = sorted(walked.holes, key=lambda hole: order[hole.missing.cause])
    names = " or ".join(engine.package for engine in sought)
    if holes:
        first = holes[0].missing
        more = f" (and {len(holes) - 1} more places)" if len(holes) > 1 else ""
        why = f"no {names} was seen, but not every folder could be looked into: {first.why}{more}"
        return Missing(
            first.cause, why, first.evidence, first.ask or "make it readable, or name the engine's folder"
        )
    return None


def _nowhere(tree: Tree, sought: Sequence[Engine], wanted: str | None) -> Missing:
    """There is no engine; of a release on the package index: it is a stub."""
    names = " or ".join(engine.package for engine in sought)
    evidence = Evidence(tree.subject, WHOLLY, f"no {names}")
    if wanted is not None and ON_INDEX in tree.origin:
        why = (
            f"the package index holds only a stub, without {names}: installing it fetches that from elsewhere"
        )
        return Missing(Cause.UNAVAILABLE, why, (evidence,), ELSEWHERE)
    ask = "name an environment, a wheel or a source tree that has one"
    return Missing(Cause.UNAVAILABLE, f"no {names} in it", (evidence,), ask)


def version_of(located: Located) -> Fact[str | None]:
    """The version of an installed package; the one its own code states where there is one."""
    place = located.package
    stated: Fact[str] | None = literal_version(place.look, below(place.path, "version.py"))
    if stated is None:
        stated = read_metadata(place, located.info).version
    return stated if isinstance(stated, Missing) else Known(stated.value, stated.evidence)


def _part(located: Located, package: str) -> Part:
    return Part(located.package.look.tree, located.package.path, package)


def _info_parts(located: Located) -> list[Part]:
    if located.info is None:
        return []
    name = located.info.path.rpartition("/")[2]
    return [Part(located.info.look.tree, located.info.path, name)]
