"""What a deployment that failed leaves to look at, kept here before it is taken away: logs, stacks, counters."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from canserve.commands import evidence, reading
from canserve.commands.serving import RUN_LABEL
from canserve.commands.ssh import Route
from canserve.probes.live import Way, asked, routes
from canserve.run.awaiting import look_at
from canserve.run.looking import RUN
from canserve.store.journal import redacted
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import PROCESS, Deployment, Folder, Running
from canserve.transport.frames import Section
from canserve.transport.pouring import PourError, poured
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

FOLDER = "evidence"
KEPT = 20
"""Runs whose evidence is kept; the oldest goes first."""
FIRST, LAST = 1 << 20, 4 << 20
"""Bytes of a log from its beginning and from its end."""
ALL = 256 << 20
"""Bytes of all logs of a run together."""
LEAST = 64 << 10
_SECONDS = 60.0
_PIECE = 1 << 16
_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Collected:
    """What was kept, and where."""

    folder: Path
    """Below it ``logs`` (with stacks: what ``diagnose`` reads) and ``counters``, a file a process or machine."""
    files: int
    problems: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def logs(self) -> Path:
        """What ``diagnose`` reads."""
        return self.folder / "logs"


def collect(
    it: Deployment, nodes: Sequence[Node], data: Path, tell: Callable[[str], None] = lambda _: None
) -> Collected | None:
    """Keep what the machines of a deployment still show of it; None: nothing of it is there.

    Never raises for what a machine does; bounded in bytes and time.
    """
    seen = look_at(it, nodes)
    running = [one for each in seen for one in each.running if one.run == it.run]
    if not running or not RUN.fullmatch(it.run):
        return None
    tell(f"keeping what {len(running)} processes wrote, and how they stand")
    folder = data / FOLDER / it.run
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for place in (folder, folder / "logs", folder / "counters"):
        place.mkdir(exist_ok=True, mode=0o700)
    ways = routes(nodes)
    share = max(LEAST, min(FIRST + LAST, ALL // len(running)))
    keeping = _Keeping(it, folder, share)
    problems = fanout(lambda one: keeping.log(one, ways.get(one.machine)), running, _WIDTH)
    named = {node.name: node for node in nodes}
    names = list(dict.fromkeys(one.machine for one in running))
    problems += fanout(lambda name: keeping.machine(named[name], named), names, _WIDTH)
    _forget(data / FOLDER)
    files = sum(1 for path in folder.rglob("*") if path.is_file())
    return Collected(folder, files, tuple(why for why in problems if why))


@dataclass(frozen=True, slots=True)
class _Keeping:
    """The folder of one run, as it is filled."""

    it: Deployment
    folder: Path
    share: int

    def log(self, one: Running, route: Route | None) -> str:
        """What one process wrote; why not, where it could not be read."""
        last = self.share * LAST // (FIRST + LAST)
        program = self.it.program
        if one.kind == "container":
            argv = reading.whole_container_log(program, one.name, self.share - last, last)
        else:
            argv = reading.whole_process_log(one.name, self.share - last, last)
        data, why = b"", ""
        try:
            with poured(route, argv, _SECONDS) as stream:
                while len(data) < self.share and (piece := stream.read(_PIECE)):
                    data += piece
        except PourError as error:
            why = f"{one.machine} process {one.process}: {error}"
        if one.exit:
            killed = ": OOMKilled" if "out of memory" in one.state else ""
            data += f"\nprocess {one.process} exited with code {one.exit}{killed}\n".encode()
        told = self.it.processes[one.process].ranks if one.process < len(self.it.processes) else ()
        ranks = one.ranks or ",".join(map(str, told))
        who = f"rank-{ranks}" if ranks else f"process-{one.process}"
        self.write("logs", f"{one.machine}-{who}.log", data.decode("utf-8", "replace"))
        return why

    def machine(self, node: Node, nodes: dict[str, Node]) -> str:
        """Stacks and counters of one machine."""
        it, label = self.it, f"{RUN_LABEL}={self.it.run}"
        if it.program == PROCESS:
            beside = f"{it.where.path}/bin" if isinstance(it.where, Folder) else ""
            stacks = evidence.stacks_of_processes(it.run, beside)
            states = evidence.processes(it.run)
        else:
            stacks = evidence.stacks_of_containers(it.program, label)
            states = evidence.states(it.program, label)
        sections = (
            Section("states", states, 1 << 20),
            Section("counters", evidence.COUNTERS, 1 << 20),
            Section("stacks", stacks, 4 << 20),
        )
        look = asked(node, nodes, sections, Way(), Limits(whole=90.0))
        texts = {name: answer.text for name, answer in look.answers.items()}
        if texts.get("stacks", "").strip():
            self.write("logs", f"{node.name}-stacks.txt", texts["stacks"])
        counted = "\n".join(texts[name] for name in ("states", "counters") if name in texts)
        if counted.strip():
            self.write("counters", f"{node.name}.txt", counted)
        return "" if look.trouble is None else look.trouble.why

    def write(self, kind: str, name: str, text: str) -> None:
        """A file that only its user reads, without what looks like a credential."""
        path = self.folder / kind / re.sub(r"[^A-Za-z0-9._,-]", "_", name)[:200]
        path.touch(mode=0o600)
        path.write_text(redacted(text), encoding="utf-8", errors="replace")


def _forget(place: Path) -> None:
    """The oldest, beyond those that are kept."""
    found = sorted((path for path in place.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in found[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
