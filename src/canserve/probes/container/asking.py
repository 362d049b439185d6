"""What container engines say of one container or image: which of them holds it, and what it is configured to run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from canserve.commands import containers
from canserve.facts import Cause, Evidence, Missing
from canserve.probes.container.naming import Held
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Look
from canserve.trees.image.manifest import ARCHITECTURES, Config, config
from canserve.trees.names import printable
from canserve.trees.secret import HIDDEN

ABSENT, UNUSED = 3, 4
LATE = {124, 137}
MAX_ANSWER = 2 << 20
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL|ACCESS_?KEY|PRIVATE", re.IGNORECASE)
_GUARD = {
    # What podman-docker installs as docker is podman, and is asked as podman.
    "docker": "command -v docker >/dev/null 2>&1 || exit 3\n"
    'case $(head -c 500 "$(command -v docker)" | tr -d "\\000") in "#!"*podman*) exit 3;; esac\n',
    # podman writes its storage into the home folder when it is first asked anything.
    "podman": "command -v podman >/dev/null 2>&1 || exit 3\n"
    's=${XDG_DATA_HOME:-$HOME/.local/share}/containers/storage; [ "$(id -u)" != 0 ] || s=/var/lib/containers/storage\n'
    '[ -d "$s" ] || exit 4\n',
}


@dataclass(frozen=True, slots=True)
class Described:
    """A container or image, as its engine describes it."""

    program: str
    image: str
    """Identity of the image: ``sha256:...``."""
    config: Config
    """Values of variables that look like secrets are not in it."""
    folder: str
    """Where the command starts; empty: not said."""
    state: str
    """Of a container: ``running``, ``exited`` ...; empty for an image."""
    digests: tuple[str, ...]
    """``REPOSITORY@sha256:...``, as registries know the image."""
    mounts: tuple[str, ...]
    """Places in a container where folders or files of the machine, or volumes, are shown."""
    root: str | None = None
    """Where the files of a running container lie on its machine, those of mounts left out; only root may look."""


def sections(it: Held) -> list[Section]:
    """The questions about it."""
    asked = [Section(program, _script(it, program), MAX_ANSWER) for program in it.programs]
    return [*asked, Section("arch", "uname -m")]


def _script(it: Held, program: str) -> str:
    if it.kind == "image":
        ask = f"within 10 {shlex.join(containers.inspect_image(program, it.name))}"
        names = containers.image_names(program)
    else:
        image = shlex.join(containers.inspect_image(program, "")[:-1])
        # The first "Image" of the description is the identity; one of the config's own names it.
        find = (
            """id=$(printf '%s' "$told" | sed -n 's/^ *"Image": "\\([0-9a-z:]*\\)",*$/\\1/p' | head -n 1)"""
        )
        ask = (
            f"told=$(within 10 {shlex.join(containers.inspect_container(program, it.name))})"
            f' && {{ printf \'%s\\n\' "$told"; {find}; [ -z "$id" ] || within 10 {image} "$id" 2>/dev/null; true; }}'
        )
        names = containers.container_names(program)
    # Only where it is not there is asked what is; an engine that hangs is not asked twice.
    other = f"case $asked in 124|137) ;; *) within 5 {shlex.join(names)} 2>/dev/null;; esac"
    return f"{_GUARD[program]}{ask}; asked=$?\n[ $asked = 0 ] || {{ {other}; }}\nexit $asked"


def described(it: Held, look: Look) -> Described | Missing:
    """From the answers, what it is; or why nobody knows it."""
    troubles: list[Missing] = []
    unused: list[str] = []
    arch = look.section("arch")
    machine = arch.text.strip()[:40] if isinstance(arch, Answer) and arch.status == 0 else ""
    for program in it.programs:
        answer = look.section(program)
        if isinstance(answer, Missing):
            return answer
        if answer.status == ABSENT:
            continue
        if answer.status == UNUSED:
            unused.append(program)
            continue
        if answer.status != 0:
            troubles.append(_refused(it, program, answer, look))
            continue
        found = _parsed(program, answer, machine)
        if found is None:
            why = f"{it.subject}: {program} described it in a form that is not known"
            return Missing(Cause.UNREADABLE, why, (_seen(it, look, why),))
        return found
    # That one engine does not know it proves nothing as long as another one could not be asked.
    troubles.sort(key=lambda each: each.why.startswith(_NONE))
    if troubles:
        return troubles[0]
    if unused:
        why = f"{unused[0]} on {it.machine} was not asked: this user never used it, and asking would create its storage"
        ask = f"name another engine or machine, or let it make its storage there: {unused[0]} info"
        return Missing(Cause.UNREACHED, why, (_seen(it, look, why, whole=False),), ask)
    names = " or ".join(it.programs)
    why = f"{it.machine} has no {names}"
    return Missing(Cause.UNAVAILABLE, why, (_seen(it, look, why),), f"install {it.programs[0]}, or name another machine")  # fmt: skip


_NONE = "no such"


def _seen(it: Held, look: Look, saw: str, whole: bool = True) -> Evidence:
    return Evidence(printable(it.subject), look.how, printable(saw), whole=whole, when=look.when)


def _refused(it: Held, program: str, answer: Answer, look: Look) -> Missing:
    said = " ".join(answer.error.split())[:300] or answer.complaint
    lower = said.lower()
    if answer.status in LATE:
        why, cause = f"{program} on {it.machine} did not answer within 10 s", Cause.UNAVAILABLE
        ask = f"see whether {program} ps answers there, and restart the engine where it does not"
    elif re.search(r"no such (?:container|image|object)|image not known|not found|no container with", lower):
        return _nothing(it, program, answer, look)
    elif "permission denied" in lower:
        why, cause = f"{program} on {it.machine} does not let this user in: {said}", Cause.UNAVAILABLE
        ask = f"add the user to the group {program} there, or log in as one who may use it"
    elif re.search(r"cannot connect|daemon running|connection refused|no such file", lower):
        why, cause = f"{program} on {it.machine} is not running: {said}", Cause.UNAVAILABLE
        ask = f"start it: systemctl start {program}"
    else:
        why, cause = f"{program} on {it.machine}: {said}", Cause.UNAVAILABLE
        ask = f"see what {program} {it.kind} inspect {it.name} says there"
    return Missing(cause, printable(why, 400), (_seen(it, look, said, whole=False),), printable(ask))


def _nothing(it: Held, program: str, answer: Answer, look: Look) -> Missing:
    names = [name for name in answer.text.split() if name != "[]" and "<none>" not in name]
    own = {name.rpartition("/")[2]: name for name in names}
    near = [own.get(n, n) for n in get_close_matches(it.name, [*names, *own], n=3, cutoff=0.5)]
    shown = ", ".join(dict.fromkeys(near or names[:8])) or "none"
    if not near and len(names) > 8:
        shown += f" and {len(names) - 8} more"
    why = f"{_NONE} {it.kind} in {program} on {it.machine}: {it.name}"
    ask = f"there {'are' if names else 'is'}: {shown}" if not near else f"did you mean {shown}?"
    saw = f"no {it.name} among {len(names)}"
    return Missing(Cause.UNAVAILABLE, printable(why, 400), (_seen(it, look, saw),), printable(ask))


def _parsed(program: str, answer: Answer, machine: str) -> Described | None:
    """One or two JSON arrays: the container's where it is one, and the image's where that still is there."""
    objects = list(_objects(answer.text)) if answer.whole else []
    if not objects:
        return None
    first = objects[0]
    image = objects[1] if len(objects) > 1 else first
    own = first.get("Config")
    if not isinstance(own, dict):
        return None
    is_container = "State" in first
    told = config({
        "os": image.get("Os") or "linux",
        "architecture": image.get("Architecture") or "",
        "config": own,
    })  # fmt: skip
    if not told.architecture and is_container:
        told = replace(told, architecture=ARCHITECTURES.get(machine, machine), platform=f"linux/{machine}")
    hidden = {n: HIDDEN if _SECRET.search(n) else value for n, value in told.environment.items()}
    state = first.get("State")
    identity = str(first.get("Image") if is_container else first.get("Id") or "")
    return Described(
        program,
        identity if identity.startswith("sha256:") else f"sha256:{identity}",
        replace(told, environment=hidden),
        str(own.get("WorkingDir") or ""),
        str(state.get("Status") or "") if isinstance(state, dict) else "",
        tuple(str(each) for each in image.get("RepoDigests") or () if isinstance(each, str))[:20],
        tuple(_mounts(first)),
        _root(first),
    )


def _root(found: Mapping[str, Any]) -> str | None:
    """Of a container that runs: its layers laid over one another, as it sees them itself."""
    match found:
        case {"State": {"Status": "running"}, "GraphDriver": {"Data": {"MergedDir": str(folder)}}}:
            return folder if folder.startswith("/") else None
        case _:
            return None


def _mounts(found: Mapping[str, Any]) -> Iterator[str]:
    for each in found.get("Mounts") or ():
        if isinstance(each, dict) and isinstance(each.get("Destination"), str):
            yield each["Destination"].strip("/")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects in JSON arrays that follow one another."""
    decoder = json.JSONDecoder()
    at = 0
    while (start := text.find("[", at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        if isinstance(found, list):
            yield from (each for each in found if isinstance(each, dict))
