"""A script of sections, each framed by a random marker, and what its output says, however it was cut.

Every section is a shell function in a subshell of its own, with no input, with bounds on stdout and stderr that
hold on the machine already, and with its exit status. Banners before, and text from anywhere in between, are not
mistaken for answers: nobody knows the marker before the script runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

MAX_ERROR = 2000
"""Bytes of a section's stderr that are kept."""
_MARKS = 400
"""Bytes of the marks around a section, and more."""
_NOWHERE = "</dev/null >/dev/null 2>&1 6>&1"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")

_FRAME = r"""
within() {
  seconds=$1; shift
  case $LATE in *" $1 "*) echo "$1 did not answer before" >&2; return 124;; esac
  rc=$( { { ended "$@" 7>&- 8>&-; echo "$?" >&7; } | head -c "$((BOUND + 1000000))" >&8; } 7>&1 )
  case $rc in
    124|137|143) printf '%s late %s ' "$MARK" "$1" >&6; return 124;;  # by whose timeout it is, GNU's or busybox's
  esac
  return "$rc"
} 8>&1
ended() {
  if command -v timeout >/dev/null 2>&1; then timeout -k 1 "$seconds" "$@" 6>&-; else "$@" 6>&-; fi
}
value() {
  v=; { IFS= read -r v <"$1"; } 2>/dev/null || :
}
quick() {
  total=$1; shift
  for n in "$@"; do
    printf '\n%s begin %s\n' "$MARK" "$n"
    err=$( "s_$n" 2>&1 >&5 3>&- 5>&- </dev/null ); rc=$?
    printf '\n%s exit %s %s\n%s\n%s end %s\n' "$MARK" "$n" "$rc" "$err" "$MARK" "$n"
  done 5>&1 | head -c "$total" >&3
} 3>&1
section() {
  BOUND=$2
  printf '\n%s begin %s\n' "$MARK" "$1"
  err=$( { rc=$( { { "s_$1" 6>&2 3>&- 4>&-; echo "$?" >&4; } </dev/null | head -c "$2" >&3; } 4>&1 )
           printf '\n%s exit %s %s\n' "$MARK" "$1" "$rc" >&3; } 2>&1 | head -c LIMIT )
  while case $err in *"$MARK late "*);; *) false;; esac; do
    late=${err#*"$MARK late "}; LATE="$LATE ${late%% *} "; err=${err%%"$MARK late "*}${late#* }
  done
  printf '%s\n%s end %s\n' "$err" "$MARK" "$1"
} 3>&1
"""


@dataclass(frozen=True, slots=True)
class Section:
    """One question to a machine."""

    name: str
    """Lower-case letters, digits and underscores; unique in its script."""
    script: str
    """Commands for a POSIX shell that change nothing.

    ``within SECONDS COMMAND`` ends one that takes longer, with status 124, and cuts what it prints where the
    section could not hold it anyway. Later sections do not ask that program again: one that hangs costs its time
    once, not once a question.
    """
    limit: int = 64_000
    """Bytes of stdout that are kept."""
    quick: bool = False
    """Whether it only asks the kernel and reads small files, and never runs ``within``. Neighbours of this kind share
    one bound, the sum of theirs, and with it most of what a section costs the machine: processes."""
    live: bool = False
    """Whether it finds the script's own output at descriptor 9 too, unbounded: signs of life (bytes of zero) that are
    written there fail as soon as nobody listens any more, so that what the section started can end."""
    before: str = ""
    """Commands that set variables of the script's own shell before the first section: what several sections would
    ask again is asked once. ``within`` holds there too; what they print goes nowhere."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one section gave."""

    status: int | None
    """Exit status; None: the shell could not say."""
    out: bytes
    error: str
    """The beginning of stderr."""
    whole: bool
    """False: stdout reached its bound and was cut there."""

    @property
    def text(self) -> str:
        """What it printed, as text; bytes that are no UTF-8 become replacement characters."""
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last line of stderr that says anything, or else the exit status."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"exit status {self.status}"


@dataclass(frozen=True, slots=True)
class Output:
    """What could be made of a script's output."""

    begun: bool
    """The script ran: its first marker came."""
    ended: bool
    """Its last marker came, so that nothing is missing."""
    answers: dict[str, Answer]
    """By section, complete ones only."""
    cut: str | None
    """The section that had begun when the output ended."""


def compose(sections: Sequence[Section], marker: str) -> bytes:
    """The script. It runs only as a whole: a shell that got half of it runs nothing."""
    if not all(_NAME.fullmatch(section.name) for section in sections):
        raise ValueError("a section's name is lower-case letters, digits and underscores")
    functions = "".join(_function(section) for section in sections)
    calls = "".join(
        _call(list(group), quick) for quick, group in groupby(sections, lambda section: section.quick)
    )
    before = "".join(
        f"  {{\n{each}\n  }} {_NOWHERE}\n" for each in dict.fromkeys(s.before for s in sections) if each
    )
    return (
        f"MARK={marker}; LATE=; BOUND=0\n{_FRAME.replace('LIMIT', str(MAX_ERROR))}{functions}"
        "main() {\n"
        "  LC_ALL=C; LANG=C; export LC_ALL LANG; unset LANGUAGE CDPATH ENV\n"
        "  PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/usr/lib/wsl/lib; export PATH\n"
        "  cd /\n"
        f"  printf '\\n%s hello\\n' \"$MARK\"\n{before}{calls}"
        "  printf '\\n%s bye\\n' \"$MARK\"\n"
        "}\nmain\nexit 0\n"
    ).encode()


def _function(section: Section) -> str:
    """In a subshell of its own; what is quick has one already, and leaves that with ``exit``."""
    begin, end = "{}" if section.quick else "()"
    return f"s_{section.name}() {begin}\n{section.script}\n{end}\n"


def _call(sections: Sequence[Section], quick: bool) -> str:
    if not quick:
        return "".join(
            f"  section {section.name} {section.limit}{' 9>&1' if section.live else ''}\n"
            for section in sections
        )
    total = sum(section.limit + MAX_ERROR + _MARKS for section in sections)
    return f"  quick {total} {' '.join(section.name for section in sections)}\n"


def understand(output: bytes, sections: Sequence[Section], marker: str) -> Output:
    """The answers in a script's output."""
    limits = {section.name: section.limit for section in sections}
    _banners, *frames = output.split(b"\n" + marker.encode() + b" ")
    reading = _Reading(limits)
    for frame in frames:
        line, newline, body = frame.partition(b"\n")
        if newline:  # else it was cut inside the marker's own line
            reading.frame(line.decode("ascii", "replace").split(), body)
    return Output(reading.begun, reading.ended, reading.answers, reading.name)


class _Reading:
    """The frames of an output, one after the other."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.begun = self.ended = False
        self.answers: dict[str, Answer] = {}
        self.name: str | None = None
        self._out = self._error = b""
        self._status: int | None = None

    def frame(self, words: Sequence[str], body: bytes) -> None:
        """One marker's line, and what follows it up to the next."""
        match words:
            case ["hello"]:
                self.begun = True
            case ["begin", name] if name in self.limits:
                self.name, self._out, self._error, self._status = name, body, b"", None
            case ["exit", name, *status] if name == self.name:
                self._status, self._error = _number(status), body
            case ["end", name] if name == self.name:
                whole = len(self._out) < self.limits[name]
                error = self._error[:MAX_ERROR].decode("utf-8", "replace")
                self.answers[name] = Answer(self._status, self._out, error, whole)
                self.name = None
            case ["bye"]:
                self.ended = True
            case _:
                pass  # a line of a hostile machine


def _number(words: Sequence[str]) -> int | None:
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) <= 3 else None
