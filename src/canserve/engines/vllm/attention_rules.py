"""What an attention back end's own predicates say of models, and which back ends the build considers by itself.

Since ``validate_configuration`` the base class sums up what a back end refuses; a predicate counts only where that
method asks it. ``supports_combination`` is left out: it weighs several things against each other, mostly at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from canserve.engines.static.bounds import Impossible
from canserve.engines.static.sites import ClassSite, FunctionSite
from canserve.engines.static.values import Opaque, Record, Value
from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import CAPABILITIES, HEAD_SIZES, Site

CAPABILITY = ("vllm.platforms.interface", "DeviceCapability")
PLATFORM = "vllm.platforms.cuda"
PLATFORM_FILE = "vllm/platforms/cuda.py"
PRIORITIES = "_get_backend_priorities"
VALIDATE = "validate_configuration"
PREDICATES: Mapping[str, str] = {
    "mla": "is_mla",
    "sparse": "is_sparse",
    "sinks": "supports_sink",
    "sliding": "supports_sliding_window",
}
_HEAD_SIZE = "supports_head_size"


def of_capability(reading: Reading, tenfold: int) -> Record:
    """A compute capability as the build's own functions take it."""
    shape = reading.graph.class_named(*CAPABILITY)
    return Record(("major", "minor"), divmod(tenfold, 10), shape)


@dataclass(frozen=True)
class Rules:
    """The predicates of one build's back ends."""

    reading: Reading

    def traits(self, site: ClassSite) -> dict[str, bool | None]:
        """Trait -> what the back end says of itself; empty where the build compares nothing."""
        validate = self._method(site, VALIDATE)
        if validate is None:
            return {}
        asked = self._names(validate)
        return {trait: self._truth(site, name) for trait, name in PREDICATES.items() if name in asked}

    def head_sizes(self, site: ClassSite) -> Fact[Mapping[int, bool | None]]:
        """What it says of each size of heads."""
        method = self._method(site, _HEAD_SIZE)
        if method is None or self._method(site, VALIDATE) is None:
            return self.reading.unknown_form(site.path, f"{site.name} has no {_HEAD_SIZE}")
        call = self.reading.graph.interpreter.call
        answers = {
            size: answer if isinstance(answer := call(method, [size]), bool) else None for size in HEAD_SIZES
        }
        at = Site(method.path, method.node.lineno)
        return self.reading.known(answers, f"{site.name}.{_HEAD_SIZE}", at)

    def offered(self, name: str, target: str) -> Fact[Mapping[int, bool | None]]:
        """Where the build considers the back end when none is asked for."""
        found = self._priorities
        if isinstance(found, Missing):
            return found
        function, lists = found
        named = self._names(function)
        maybe = None if name in named else False  # other arguments than the usual ones may bring it in
        answer = {tenfold: True if target in listed else maybe for tenfold, listed in lists.items()}
        at = Site(function.path, function.node.lineno)
        return self.reading.known(answer, f"{PRIORITIES} of {len(lists)} compute capabilities", at)

    @cached_property
    def _priorities(self) -> tuple[FunctionSite, Mapping[int, frozenset[Value]]] | Missing:
        sites = self.reading.graph.resolve(PLATFORM, PRIORITIES)
        if not sites or not isinstance(sites[0], FunctionSite):
            return self.reading.unknown_form(PLATFORM_FILE, f"no {PRIORITIES}")
        lists: dict[int, frozenset[Value]] = {}
        for tenfold in CAPABILITIES:
            both: list[Value] = []
            for latent in (False, True):
                got = self.reading.graph.interpreter.call(
                    sites[0], [latent, of_capability(self.reading, tenfold)]
                )
                if not isinstance(got, list) or any(isinstance(one, Opaque) for one in got):
                    return self.reading.unknown_form(PLATFORM_FILE, f"{PRIORITIES} cannot be followed")
                both += got
            lists[tenfold] = frozenset(one for one in both if isinstance(one, str))
        return sites[0], lists

    def _method(self, site: ClassSite, name: str) -> FunctionSite | None:
        try:
            method = self.reading.graph.interpreter.attribute(site, name)
        except Impossible:
            return None
        return method if isinstance(method, FunctionSite) else None

    def _names(self, function: FunctionSite) -> set[str]:
        """Every attribute that a function mentions."""
        if isinstance(function.node, ast.Lambda):
            return set()
        node = self.reading.graph.whole(function.path, function.node)
        return set() if node is None else {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}

    def _truth(self, site: ClassSite, name: str) -> bool | None:
        method = self._method(site, name)
        answer = None if method is None else self.reading.graph.interpreter.call(method, [])
        return answer if isinstance(answer, bool) else None
