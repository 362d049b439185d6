"""The journal of runs: SQLite. What was started, where, by which words, and how every step ended.

A line is written before a step begins and completed when it has ended: whatever kills the operator, the journal says
what may be there. Secrets cannot enter: steps carry names of variables and files, never what is in them.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canserve.plan.steps.step import Step
from canserve.trees.secret import HIDDEN

FILE = "journal.sqlite"
FOLDER = "CANSERVE_DATA"
"""The environment variable that names another folder."""
FORM = 1
"""Of the tables; raised with every change that older programs would not understand."""
EXCERPT = 2000
"""Characters of a step's output that are kept."""
_TOKEN = re.compile(r"\b(hf_|sk-|ghp_|nvapi-|glpat-)[A-Za-z0-9_-]{12,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
"""What looks like a credential in what a program printed."""
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY, began TEXT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL DEFAULT '', ended TEXT,
  told TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
  number INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(run), doing TEXT NOT NULL, name TEXT NOT NULL,
  machine TEXT NOT NULL, process INTEGER, argv TEXT NOT NULL, began TEXT NOT NULL, ended TEXT, status INTEGER,
  output TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY, story TEXT NOT NULL, run TEXT NOT NULL, at TEXT NOT NULL, what TEXT NOT NULL,
  said TEXT NOT NULL);
"""


class JournalError(OSError):
    """The journal cannot be used; says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in the journal."""

    run: str
    began: str
    state: str
    """``starting``, ``up``, ``failed``, ``kept``: it failed and was left standing, ``stopping``, ``down``,
    ``left``: not everything could be taken away."""
    why: str
    ended: str | None
    told: Mapping[str, Any]
    """What ``begin`` was given."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A step in the journal."""

    doing: str
    """``up`` or ``down``."""
    name: str
    machine: str
    process: int | None
    argv: tuple[str, ...]
    began: str
    ended: str | None
    """None: nobody knows whether it ended."""
    status: int | None
    """Exit status; None with an end: the machine gave none."""
    output: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something between the steps of a story: a candidate that was refused, evidence that was kept."""

    story: str
    """Of all attempts of one ``up``; named like its first run."""
    run: str
    """Empty: it is about none."""
    at: str
    what: str
    """``refused``, ``skipped``, ``failed``, ``evidence``, ``not-free``, ``adopted`` ..."""
    said: str


def redacted(text: str) -> str:
    """The same without what looks like a credential."""
    return _TOKEN.sub(HIDDEN, text)


@dataclass
class _Line:
    """Something to be written, and what has become of it."""

    sql: str
    values: tuple[object, ...]
    row: int = 0
    error: sqlite3.Error | None = None
    done: bool = False


class Journal:
    """The journal in one folder. Safe to be used by several threads, and by several processes at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or default_folder()) / FILE
        self._lock = threading.Lock()
        self._waiting: deque[_Line] = deque()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(self.path, timeout=10, check_same_thread=False, isolation_level=None)
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, FORM):
                raise JournalError(f"{self.path} is of form {found}; this canserve knows {FORM}")
            self._db.executescript(f"PRAGMA user_version = {FORM}; {_TABLES}")
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """End the connection."""
        self._db.close()

    def begin(self, run: str, when: str, told: Mapping[str, Any]) -> None:
        """A run begins. Raises JournalError where one of that name is there."""
        try:
            self._do(
                "INSERT INTO runs (run, began, state, told) VALUES (?, ?, 'starting', ?)",
                (run, when, json.dumps(told)),
            )
        except sqlite3.IntegrityError as error:
            raise JournalError(f"there is a run {run} already") from error

    def settle(self, run: str, state: str, why: str = "", ended: str | None = None) -> None:
        """What has become of a run."""
        self._do(
            "UPDATE runs SET state = ?, why = ?, ended = ? WHERE run = ?", (state, why[:EXCERPT], ended, run)
        )

    def step(self, run: str, doing: str, step: Step, when: str) -> int:
        """A step begins; its number."""
        row = (run, doing, step.name, step.machine, step.process, json.dumps(step.argv), when)
        sql = (
            "INSERT INTO steps (run, doing, name, machine, process, argv, began) VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        return self._do(sql, row)

    def stepped(self, number: int, when: str, status: int | None, output: str) -> None:
        """It has ended."""
        kept = redacted(output)[:EXCERPT]
        self._do(
            "UPDATE steps SET ended = ?, status = ?, output = ? WHERE number = ?",
            (when, status, kept, number),
        )

    def tell(self, *events: Event) -> None:
        """Something has happened, or several things at once."""
        sql = "INSERT INTO events (story, run, at, what, said) VALUES (?, ?, ?, ?, ?)"
        rows = [(one.story, one.run, one.at, one.what, redacted(one.said)[:EXCERPT]) for one in events]
        self._all_of([_Line(sql, row) for row in rows])

    def events(self, story: str) -> tuple[Event, ...]:
        """What happened in a story, in order."""
        sql = "SELECT story, run, at, what, said FROM events WHERE story = ? ORDER BY number"
        return tuple(Event(*row) for row in self._all(sql, (story,)))

    def retell(self, run: str, told: Mapping[str, Any]) -> None:
        """More is known of a run than when it began."""
        self._do("UPDATE runs SET told = ? WHERE run = ?", (json.dumps(told), run))

    def runs(self) -> tuple[Entry, ...]:
        """All of them, the latest first."""
        rows = self._all(
            "SELECT run, began, state, why, ended, told FROM runs ORDER BY began DESC, rowid DESC"
        )
        return tuple(
            Entry(run, began, state, why, ended, json.loads(told))
            for run, began, state, why, ended, told in rows
        )

    def run(self, name: str) -> Entry | None:
        """The run of that name."""
        return next((entry for entry in self.runs() if entry.run == name), None)

    def steps(self, run: str) -> tuple[Kept, ...]:
        """Its steps, in the order in which they began."""
        rows = self._all(
            "SELECT doing, name, machine, process, argv, began, ended, status, output FROM steps "
            "WHERE run = ? ORDER BY number",
            (run,),
        )
        return tuple(
            Kept(doing, name, machine, process, tuple(json.loads(argv)), began, ended, status, output)
            for doing, name, machine, process, argv, began, ended, status, output in rows
        )

    def _do(self, sql: str, values: Sequence[object]) -> int:
        """Written, and on the disk, when it returns: together with what others wait to have written meanwhile.

        A disk takes tens of milliseconds for that, however much there is; a thousand machines have thousands of steps.
        """
        mine = _Line(sql, tuple(values))
        self._all_of([mine])
        return mine.row

    def _all_of(self, mine: Sequence[_Line]) -> None:
        self._waiting.extend(mine)
        with self._lock:
            if not all(line.done for line in mine):
                self._write([self._waiting.popleft() for _ in range(len(self._waiting))])
        for line in mine:
            if line.error is not None:
                raise line.error

    def _write(self, lines: Sequence[_Line]) -> None:
        """All in one transaction; of one that is refused nothing is written."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for line in lines:
                try:
                    line.row = self._db.execute(line.sql, line.values).lastrowid or 0
                except sqlite3.IntegrityError as error:
                    line.error = error
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            for line in lines:
                line.error = error
        for line in lines:
            line.done = True

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, tuple(values)).fetchall()


@contextmanager
def journal(folder: Path | None = None) -> Iterator[Journal]:
    """The user's journal, open. Raises JournalError."""
    found = Journal(folder)
    try:
        yield found
    finally:
        found.close()


def default_folder() -> Path:
    """The user's data folder."""
    import platformdirs

    if named := os.environ.get(FOLDER):
        return Path(named)
    return platformdirs.user_data_path("canserve")
