"""Where a deployment answers that no journal here knows: from the words with which its processes were started."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from canserve.engines.listening import api_port
from canserve.probes.live import Way, asked
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Running
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits

_MOST = 256_000
# The words of every process of the session: one a line, each word behind a tab.
_WORDS = r"""p=; { read -r p <%(folder)s/pid; } 2>/dev/null
case $p in ''|*[!0-9]*) exit 0;; esac
for d in /proc/[0-9]*; do
  l=; { read -r l <"$d/stat"; } 2>/dev/null || continue
  set -- ${l##*) }
  [ "${4-}" = "$p" ] || continue
  { tr '\n\0' ' \t' <"$d/cmdline"; } 2>/dev/null && echo
done; :"""
_INSPECT = "within 20 {program} container inspect --format '{{{{json .Path}}}} {{{{json .Args}}}}' {name}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests are answered."""

    machine: str
    port: int


def found_at(running: Sequence[Running], nodes: Sequence[Node], program: str | None) -> Place | None:
    """The first process that answers requests, by its own words; None: none says so. One read-only look each."""
    named = {node.name: node for node in nodes}
    for one in running:
        if one.machine not in named:
            continue
        section = _section(one, program or "docker")
        look = asked(named[one.machine], named, (section,), Way(), Limits(whole=30))
        answer = look.section(section.name)
        if not isinstance(answer, Answer):
            continue
        words = _inspected(answer.text) if one.kind == "container" else _listed(answer.text)
        port = next((port for argv in words if (port := api_port(argv)) is not None), None)
        if port is not None:
            return Place(one.machine, port)
    return None


def _section(one: Running, program: str) -> Section:
    if one.kind == "container":
        return Section("words", _INSPECT.format(program=program, name=shlex.quote(one.name)), _MOST)
    return Section("words", _WORDS % {"folder": shlex.quote(one.name)}, _MOST)


def _listed(text: str) -> Iterator[tuple[str, ...]]:
    for line in text.splitlines():
        if line:
            yield tuple(line.rstrip("\t").split("\t"))


def _inspected(text: str) -> Iterator[tuple[str, ...]]:
    """Two JSON values on a line: the program, and its arguments."""
    decoder = json.JSONDecoder()
    try:
        path, at = decoder.raw_decode(text.strip())
        arguments, _ = decoder.raw_decode(text.strip(), at + 1)
    except (ValueError, RecursionError):
        return
    if isinstance(path, str) and isinstance(arguments, list):
        yield (path, *map(str, arguments))
