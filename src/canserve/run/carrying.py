"""What a deployment needs on its machines and is not on all of them: found by a look, brought by ``distribute``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from canserve.plan.roads import WORDS
from canserve.probes.container.naming import REGISTRY, NamingError, held
from canserve.probes.live import LOCAL, Way, asked
from canserve.run import transfer
from canserve.run.executing import Stop
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Deployment, Folder, Image, Mount
from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look, look_here
from canserve.trees.fanout import fanout
from canserve.trees.unwanted import until

WIDTH = 32
HERE = "this machine"
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_CACHED = re.compile(r".*/models--[^/]+", re.DOTALL)
_LOADED = ("*.safetensors", "*.gguf", "*.bin", "*.pt", "*.pth")
"""Files of weights; a folder without one is no model."""
_BESIDE = ("*.json", "*.model", "*.tiktoken", "*.txt", "*.jinja", "*.py")
_WEIGHTS = r"""p=%(path)s; printf '%%s\n' "$p"; [ -d "$p" ] || exit 0
find -L "$p" -maxdepth 4 -type f \( %(names)s \) -printf '%%s %%P\n' 2>/dev/null | head -n 5000"""


@dataclass(frozen=True, slots=True)
class Carry:
    """One thing that some machines of a deployment lack."""

    wanted: transfer.Wanted
    to: tuple[str, ...]
    said: str
    """For a person: what is where, and what is not."""

    def argv(self, targets: Sequence[str]) -> tuple[str, ...]:
        """The command that does the same. ``targets``: the machines as the user names them."""
        it = self.wanted
        what = ("--image", it.image) if it.image is not None else ("--weights", it.weights or "")
        into = ("--into", it.into) if it.into is not None else ()
        return ("canserve", "distribute", *what, *into, *(w for one in targets for w in ("--to", one)))


def lacking(
    it: Deployment, nodes: Sequence[Node], hub_cache: str | None, tell: Callable[[str], None] = lambda _: None
) -> tuple[Carry, ...]:
    """What is to be brought before it can start, as far as it can be brought. Machines are only looked at."""
    tell("looking for image and weights on the machines")
    return (*_image(it, nodes), *_weights(it, nodes, hub_cache))


def _image(it: Deployment, nodes: Sequence[Node]) -> tuple[Carry, ...]:
    """An image that a machine holds and another does not, or that is in a registry."""
    if not isinstance(it.where, Image):
        return ()
    names = [site.name for site in it.sites]
    named, argv = _by_name(nodes), ("image", "inspect", "--format", "{{.Id}}", it.where.name)
    section = Section("image", f"within 30 {shlex.join((it.where.program, *argv))}")

    def look(name: str) -> str | None:
        answer = asked(named[name], named, (section,), Way(), Limits(whole=40)).answers.get("image")
        return None if answer is None else answer.text.strip() if answer.status == 0 else ""

    ids = dict(zip(names, fanout(look, names, WIDTH), strict=True))
    target = _target(it)
    different = len(set(ids.values())) > 1 and "@" in target
    if None in ids.values() or ("" not in ids.values() and not different):
        return ()  # a machine that is not reached is the next step's to name
    wanted = transfer.Wanted(image=target)
    how = transfer.Manner(dry=True, targets=names)
    found = transfer.distribute(wanted, nodes, how)
    to = tuple(one.machine for one in found if one.problem is None and one.road != "there")
    if not to:
        return ()
    roads = ", ".join(
        f"{one.machine} {WORDS[one.road]}{f' ({one.source})' if one.source else ''}"
        for one in found
        if one.machine in to
    )
    return (Carry(wanted, to, f"{it.where.name} to {roads}"),)


def _target(it: Deployment) -> str:
    """The image, as ``distribute`` takes it: on whichever machine it is, where none is named."""
    assert isinstance(it.where, Image)
    if it.build.startswith(REGISTRY):
        return it.build
    try:
        found = held(it.build)
    except NamingError:
        found = None
    if found is None or found.machine == LOCAL:
        return it.where.name
    return f"{it.where.name}@{found.machine}"


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder on a machine: sizes of the files that a model is made of."""

    path: str
    files: Mapping[str, int]

    @property
    def weights(self) -> int:
        """Bytes of weights; 0: it is no model."""
        return sum(size for name, size in self.files.items() if any(fnmatch(name, each) for each in _LOADED))

    def lacks(self, other: _Folder) -> bool:
        """Whether files of the other are not here. Where one of them is another here it is left as it is: somebody's."""
        mine = self.files
        return not other.files.keys() <= mine.keys() and all(
            mine[name] == size for name, size in other.files.items() if name in mine
        )


def _weights(it: Deployment, nodes: Sequence[Node], hub_cache: str | None) -> tuple[Carry, ...]:
    """A folder of weights, or a model of the Hub cache, that one machine holds and another does not, or not whole."""
    path = weights_place(it, hub_cache)
    if path is None:
        return ()
    sites = [site.name for site in it.sites]
    names = list(dict.fromkeys((*sites, *(node.name for node in nodes if node.address is not None))))
    found = dict(zip(names, _folders(path, names, nodes), strict=True))
    there = {name: one for name, one in found.items() if one is not None and one.weights}
    if any(found[name] is None for name in sites):
        return ()
    named = path.startswith(("/", "'"))  # else it is in each machine's own cache
    if there:
        # The machine that has most of it: a copy that was cut is no source.
        source = max(there, key=lambda name: (there[name].weights, name in sites))
        most, weights = there[source], f"{source}:{there[source].path}"
    elif (
        here := _understood(look_here(HERE, (_section(path),), Limits(whole=60)))
    ) is not None and here.weights:
        # Nobody else has it. What may fetch a model of the Hub itself is left to do so.
        source, most, weights = HERE, here, here.path
        offline = {node.name for node in nodes if node.internet is False}
        sites = [name for name in sites if named or name in offline]
    else:
        return ()
    to = tuple(name for name in sites if (one := found[name]) is not None and one.lacks(most))
    if not to:
        return ()
    into = most.path if named else None
    if into is not None and (cached := _CACHED.match(into)) is not None:
        into = cached[0]  # a model of a cache goes whole
    wanted = transfer.Wanted(weights=weights, into=into)
    return (Carry(wanted, to, f"{most.path} from {source} to {', '.join(to)}"),)


def _folders(path: str, names: Sequence[str], nodes: Sequence[Node]) -> list[_Folder | None]:
    """The folder on each machine; None: it could not be looked at."""
    named, section = _by_name(nodes), _section(path)

    def look(name: str) -> _Folder | None:
        return _understood(asked(named[name], named, (section,), Way(), Limits(whole=60)))

    return fanout(look, names, WIDTH)


def _section(path: str) -> Section:
    patterns = " -o ".join(f"-name {shlex.quote(each)}" for each in (*_LOADED, *_BESIDE))
    return Section("weights", _WEIGHTS % {"path": path, "names": patterns}, 1 << 20)


def _understood(look: Look) -> _Folder | None:
    answer = look.answers.get("weights")
    if answer is None or answer.status != 0 or not answer.whole:
        return None
    place, *lines = answer.text.splitlines() or [""]
    split = (line.partition(" ") for line in lines)
    return _Folder(place, {file: int(size) for size, _, file in split if size.isdecimal() and len(size) < 18})


def weights_place(it: Deployment, hub_cache: str | None) -> str | None:
    """Where the weights are on the machines, as a word of a shell; None: they are fetched, or are one file."""
    if it.model.startswith("/"):
        inside = it.model.rstrip("/")
        return shlex.quote(_outside(inside, it.given.mounts))
    if not _HUB_ID.fullmatch(it.model) or (isinstance(it.where, Image) and hub_cache is None):
        return None
    name = f"models--{it.model.replace('/', '--')}"
    if hub_cache is not None:
        return shlex.quote(f"{hub_cache.rstrip('/')}/hub/{name}")
    assert isinstance(it.where, Folder)
    return f'"${{HF_HUB_CACHE:-${{HF_HOME:-$HOME/.cache/huggingface}}/hub}}"/{name}'


def mounted(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount in which a path of a container lies."""
    targets = ((mount, mount.target.rstrip("/")) for mount in mounts)
    return next((it for it, target in targets if path == target or path.startswith(f"{target}/")), None)


def _outside(path: str, mounts: Sequence[Mount]) -> str:
    """The path on the machine of one in a container."""
    mount = mounted(path, mounts)
    return path if mount is None else mount.source.rstrip("/") + path[len(mount.target.rstrip("/")) :]


def _by_name(nodes: Sequence[Node]) -> Mapping[str, Node]:
    return {node.name: node for node in nodes}


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of it."""

    problem: str | None
    """Of the first machine where it is not; None: it is everywhere."""
    machine: str
    said: str
    """A line for each machine."""


def bring(it: Carry, nodes: Sequence[Node], stop: Stop, tell: Callable[[str], None]) -> Brought:
    """Copy it. Disk room is checked before anything is sent; what was copied stays for another attempt."""
    how = transfer.Manner(tell, targets=it.to, stopped=stop.event)
    with until(stop.event):
        found = transfer.distribute(it.wanted, nodes, how)
    lines = []
    for one in found:
        came = f"{one.moved} in {one.seconds:.0f} s, {WORDS[one.road]}"
        lines.append(f"{one.machine}: {one.problem or '; '.join(filter(None, (came, one.digest, one.note)))}")
    bad = next((one for one in found if one.problem is not None), None)
    said = "\n".join(lines)
    return Brought(None, "", said) if bad is None else Brought(bad.problem, bad.machine, said)
