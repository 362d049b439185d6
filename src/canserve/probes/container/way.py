"""How the machine of a container engine is asked: here, or over ssh by the route that a cluster gives it."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from canserve.commands import containers
from canserve.commands.ssh import Route
from canserve.probes.container.naming import LOCAL, Held
from canserve.transport.frames import Section
from canserve.transport.pouring import Poured, poured
from canserve.transport.reach import Limits, Look, look_here, look_there
from canserve.trees.cache import Cache
from canserve.trees.names import printable

_LOCK = type(threading.Lock())


def _quiet(message: str) -> None:
    del message


@dataclass(frozen=True, slots=True)
class Way:
    """How machines are reached."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    """By the name that follows the @; any other name is one of ssh itself."""
    offline: bool = False
    tell: Callable[[str], None] = field(default=_quiet)
    cache: Cache | None = None
    """Where what was read of an image is kept; None: nowhere."""
    recent: MutableMapping[str, object] = field(default_factory=dict)
    """What was read while this question is answered: builds are opened more than once for some."""

    @contextmanager
    def one_by_one(self, what: str) -> Iterator[None]:
        """Whoever reads the same meanwhile waits, and finds it among what was read."""
        lock = self.recent.setdefault(f"reading {what}", threading.Lock())
        assert isinstance(lock, _LOCK)
        with lock:
            yield

    def route(self, it: Held) -> Route | None:
        """To the machine that holds it; None: it is this one."""
        return None if it.machine == LOCAL else self.routes.get(it.machine) or Route(it.machine)

    def look(self, it: Held, asked: Sequence[Section], limits: Limits) -> Look:
        """Run a script where it is held."""
        route, subject = self.route(it), printable(it.subject)
        return (
            look_here(subject, asked, limits) if route is None else look_there(subject, route, asked, limits)
        )

    @contextmanager
    def stream(self, it: Held, argv: Sequence[str], seconds: float) -> Iterator[Poured]:
        """A command's output while it comes. Raises PourError."""
        with poured(self.route(it), argv, seconds) as stream:
            yield stream

    def remove(self, it: Held, program: str, name: str) -> None:
        """Take a container away that was created to read an image."""
        gone = shlex.join(containers.remove(program, name))
        self.look(it, [Section("remove", f"within 20 {gone}")], Limits(whole=30.0))
