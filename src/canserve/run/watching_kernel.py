"""What the kernel of a machine counts of a deployment's processes, and what its accelerators hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from canserve.commands import watching
from canserve.engines import ray
from canserve.subjects.progress import Counters
from canserve.transport.frames import Answer
from canserve.transport.reach import Look

_BUILDERS = frozenset((
    "nvcc", "cicc", "ptxas", "fatbinary", "nvlink", "cudafe++", "ninja", "cc1plus", "cc1", "g++", "gcc", "c++", "clang",
    "clang++", "hipcc", "lld", "ld", "collect2", "as",
))  # fmt: skip
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Counted:
    """One process of the kernel."""

    pid: int
    parent: int
    read: int | None
    written: int | None
    state: str
    cpu: float
    memory: int
    faults: int
    name: str


@dataclass(frozen=True, slots=True)
class Below:
    """A process of the deployment, as its kernel counts it: itself and all below it."""

    lines: tuple[Counted, ...] = ()
    group: tuple[int, int] | None = None
    """Bytes that its control group read and wrote; None: it has none of its own, or none that may be read."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(line.pid for line in self.lines)


def trees(look: Look) -> Mapping[int, Below]:
    """By process of the deployment."""
    found = look.section("tree")
    if not isinstance(found, Answer):
        return {}
    reading = _Reading()
    for line in found.text.splitlines():
        reading.line(line.split())
    numbers = {*reading.lines, *reading.groups}
    return {
        number: Below(tuple(reading.lines.get(number, ())), reading.groups.get(number)) for number in numbers
    }


@dataclass
class _Reading:
    clock: int = 100
    page: int = 4096
    lines: dict[int, list[Counted]] = field(default_factory=dict)
    groups: dict[int, tuple[int, int]] = field(default_factory=dict)

    def line(self, words: list[str]) -> None:
        match words:
            case ["clock", value] if value.isdecimal():
                self.clock = max(int(value), 1)
            case ["page", value] if value.isdecimal():
                self.page = int(value)
            case ["group", number, read, written] if all(word.isdecimal() for word in words[1:]):
                self.groups[int(number)] = (int(read), int(written))
            case [number, pid, chars, blocks, out, stored, parent, state, *counts, name] if len(
                counts
            ) == 3 and all(word.isdecimal() for word in (number, pid, parent, *counts)):
                ticks, resident, faults = map(int, counts)
                one = Counted(
                    int(pid), int(parent), _most(chars, blocks), _most(out, stored), state, ticks / self.clock,
                    resident * self.page, faults, name,
                )  # fmt: skip
                self.lines.setdefault(int(number), []).append(one)
            case _:
                pass


def _most(*words: str) -> int | None:
    return max((int(word) for word in words if word.isdecimal()), default=None)


def whole(look: Look) -> bool:
    """Whether every process was listed."""
    found = look.section("tree")
    return isinstance(found, Answer) and found.whole and found.out.count(b"\n") < watching.MOST_PROCESSES


def lasting(below: Below, lasts: Callable[[str], bool]) -> Mapping[int, str]:
    """Those whose titles say that they are to last, without what these start: a child has its parent's title at first."""
    titles = {line.pid: line.name for line in below.lines}
    return {
        line.pid: line.name
        for line in below.lines
        if line.state != "Z" and lasts(line.name) and titles.get(line.parent) != line.name
    }


def counters(below: Below, cluster: bool, accelerator: int | None) -> Counters | None:
    """Of a process; of one that joins its machine to a cluster: of the workers there, and not of the cluster's own."""
    mine = [line for line in below.lines if not cluster or ray.works(line.name)]
    if not mine and not cluster:
        return None
    read, written = _sum(line.read for line in mine), _sum(line.written for line in mine)
    if below.group is not None and not cluster:
        read, written = max(below.group[0], read or 0), max(below.group[1], written or 0)
    return Counters(
        sum(line.cpu for line in mine),
        sum(line.memory for line in mine),
        read,
        written,
        sum(line.faults for line in mine),
        sum(line.name in _BUILDERS for line in mine),
        accelerator,
        len(mine),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def accelerators(look: Look) -> int | None:
    """Bytes in use on all accelerators of a machine; None: nobody says."""
    found = look.answers.get("gpu")
    if found is None:
        return None
    used = list(_used(found.text.splitlines()))
    return sum(used) if used else None


def _used(lines: Iterable[str]) -> Iterator[int]:
    for line in lines:
        first, _, value = line.partition(" ")
        if first == "bytes" and value.isdecimal():
            yield int(value)
        elif (mib := line.split(",")[0].strip()).isdecimal():
            yield int(mib) * _MIB
