"""What of deployments is on a machine: one read-only script, and what its answers say."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.commands import claims
from canserve.commands.serving import RUN_LABEL, VARIABLE
from canserve.plan.steps.describing import understood as understood_description
from canserve.probes.live import Way, asked
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Claim, Described, Running, Seen
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout

WIDTH = 32
RUN = re.compile(r"[a-z0-9]{1,32}")
"""The name of a run: part of names of containers and folders."""
_NONE = 3
"""Exit status of a section: there is no such container engine here."""

_CLAIMS = r"""for l in %(state)s/*.lock; do
  [ -L "$l" ] && { n=${l##*/}; printf '%%s %%s\n' "${n%%.lock}" "$(readlink -- "$l" | tr -d '\n')"; }
done; :"""
_DESCRIBED = r"""for f in %(state)s/%(run)s.json; do
  [ -f "$f" ] && [ ! -L "$f" ] && { head -c 1048576 "$f" | tr '\n' ' '; echo; }
done; :"""
# Alive is whose session has somebody with the run's name in the environment; of another user's only that it is there.
_PROCESSES = r"""for d in %(state)s/%(run)s/[0-9]*; do
  [ -d "$d" ] || continue
  r=${d%%/*}; r=${r##*/}; p=; x=; s=dead
  { read -r p <"$d/pid"; } 2>/dev/null; { read -r x <"$d/exit"; } 2>/dev/null
  case $p in
    ''|*[!0-9]*) s=unknown;;
    *) if [ -d "/proc/$p" ]; then
         if [ ! -r "/proc/$p/environ" ]; then s=unseen
         elif grep -qsF "%(variable)s=$r." "/proc/$p/environ"; then s=alive; fi
       fi;;
  esac
  # It may have ended between these two looks: how, it writes before it is gone.
  [ "$s" != dead ] || [ -n "$x" ] || { read -r x <"$d/exit"; } 2>/dev/null
  printf '%%s\t%%s\t%%s\t%%s\t%%s\t' "$r" "${d##*/}" "$s" "$x" "$d"
  tail -c 2000 "$d/log" 2>/dev/null | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | tr -d '\n'; echo
done; :"""
_CONTAINERS = r"""command -v %(program)s >/dev/null 2>&1 || exit 3
c=$(within 10 %(program)s ps -a -q --no-trunc --filter %(filter)s) || exit
[ -n "$c" ] || exit 0
within 20 %(program)s container inspect --format '{{json .Name}} {{json .Config.Labels}} {{json .State}}' $c || exit
for n in $c; do
  printf 'log %%s ' "$n"
  %(program)s logs --tail 3 "$n" 2>&1 | tail -c 2000 | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | tr -d '\n'; echo
done"""
_ALIVE = {
    "running": True,
    "paused": True,
    "restarting": True,
    "exited": False,
    "dead": False,
    "stopped": False,
}
"""By a container engine's own word. One that is created is about to start, or never will: nobody knows."""
_STATES = {"alive": True, "dead": False, "unseen": None, "unknown": None}


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for on every machine."""

    state: str
    """The folder of claims and logs."""
    run: str | None = None
    """None: all runs."""
    programs: tuple[str, ...] = ("docker",)
    """Container engines that are asked. podman makes folders when it is asked for the first time, so only who
    started something with it asks it."""
    ports: tuple[int, ...] = ()


def look_for(
    nodes: Sequence[Node], question: Question, only: Sequence[str] | None = None
) -> tuple[Seen, ...]:
    """One look at every machine, at the same time. Never raises for what a machine does.

    ``only``: names of those that are looked at; the others may lie on the way to them.
    """
    named = {node.name: node for node in nodes}
    sections = tuple(sections_of(question))

    def look(node: Node) -> Seen:
        return understood(node.name, asked(node, named, sections, Way(), Limits(whole=40)), question)

    return tuple(fanout(look, [node for node in nodes if only is None or node.name in only], WIDTH))


def sections_of(it: Question) -> Iterator[Section]:
    """What is asked of a machine."""
    told = {"state": shlex.quote(it.state), "variable": VARIABLE, "run": it.run or "*"}
    yield Section("claims", _CLAIMS % told, 64_000)
    yield Section("described", _DESCRIBED % told, 2 << 20)
    yield Section("processes", _PROCESSES % told, 256_000)
    label = f"label={RUN_LABEL}" + (f"={it.run}" if it.run else "")
    for program in it.programs:
        yield Section(program, _CONTAINERS % {"program": program, "filter": label}, 512_000)
    if it.ports:
        tests = (f"{shlex.join(claims.listening(port))} && echo {port}" for port in it.ports)
        yield Section("ports", "\n".join((*tests, ":")))


def understood(machine: str, look: Look, question: Question) -> Seen:
    """What a look says."""
    troubles: dict[str, str] = {}
    hint = look.trouble.ask or "" if look.trouble is not None else ""

    def answer(name: str) -> Answer | None:
        found = look.section(name)
        if not isinstance(found, Answer):
            troubles[name] = found.why
            return None
        if found.status not in (0, _NONE):
            troubles[name] = f"{name}: {found.complaint}"
        return found if found.status == 0 else None

    told, processes = answer("claims"), answer("processes")
    described = look.answers.get("described")  # it decides nothing: where there is none, less is known
    running = [] if processes is None else list(_processes(machine, processes.text))
    for program in question.programs:
        held = answer(program)
        running += [] if held is None else _containers(machine, held.text)
    ports = answer("ports") if question.ports else None
    open_ports = frozenset() if ports is None else frozenset(ports.text.split())
    return Seen(
        machine,
        () if told is None else tuple(_claims(told.text, question.run)),
        tuple(sorted(running, key=lambda one: (one.run, one.process))),
        {} if ports is None else {port: str(port) in open_ports for port in question.ports},
        next((why for name, why in troubles.items() if name not in question.programs), None),
        next((why for name, why in troubles.items() if name in question.programs), None),
        hint,
        () if described is None else tuple(_described(described.text, question.run)),
    )


def _described(text: str, run: str | None) -> Iterator[Described]:
    for line in text.splitlines():
        found = understood_description(line)
        if found is not None and RUN.fullmatch(found.run) and run in (None, found.run):
            yield found


def _claims(text: str, run: str | None) -> Iterator[Claim]:
    for line in text.splitlines():
        words = line.split(" ", 3)
        if len(words) == 4 and RUN.fullmatch(words[1]) and run in (None, words[1]):
            yield Claim(*words)


def _processes(machine: str, text: str) -> Iterator[Running]:
    for line in text.splitlines():
        words = line.split("\t", 5)
        if (
            len(words) < 6
            or not RUN.fullmatch(words[0])
            or not words[1].isdecimal()
            or words[2] not in _STATES
        ):
            continue
        run, number, state, status, folder, last = words
        code = int(status) if status.isdecimal() and len(status) <= 3 else None
        alive = False if code is not None else _STATES[state]
        said = (
            f"exited with {code}"
            if code is not None
            else {"alive": "running", "dead": "killed"}.get(state, state)
        )
        yield Running(run, int(number), "", machine, "process", folder, alive, code, said, last)


def _containers(machine: str, text: str) -> Iterator[Running]:
    found: list[Mapping[str, Any]] = []
    last: list[str] = []
    for line in text.splitlines():
        if line.startswith("log "):
            last.append(line.split(" ", 2)[2] if line.count(" ") > 1 else "")
        elif (read := _inspected(line)) is not None:
            found.append(read)
    for one, said in zip(found, [*last, *[""] * len(found)], strict=False):
        labels, state = one["labels"], one["state"]
        run, number = str(labels.get(RUN_LABEL, "")), str(labels.get("canserve.process", ""))
        if not RUN.fullmatch(run) or not number.isdecimal():
            continue
        word = str(state.get("Status", "unknown"))
        ended = _ALIVE.get(word) is False
        code = state.get("ExitCode") if ended else None
        words = f"exited with {code}" if ended else word
        if ended and state.get("OOMKilled") is True:
            words += ", out of memory"
        yield Running(
            run, int(number), str(labels.get("canserve.ranks", "")), machine, "container",
            str(one["name"]).lstrip("/"), _ALIVE.get(word),
            code if isinstance(code, int) else None, words, said,
        )  # fmt: skip


def _inspected(line: str) -> Mapping[str, Any] | None:
    """Three JSON values on a line."""
    decoder, values, at = json.JSONDecoder(), list[Any](), 0
    try:
        for _ in range(3):
            value, at = decoder.raw_decode(line, at)
            values.append(value)
            at += 1
    except (ValueError, RecursionError):
        return None
    name, labels, state = values
    if not isinstance(name, str) or not isinstance(labels, dict) or not isinstance(state, dict):
        return None
    return {"name": name, "labels": labels, "state": state}
