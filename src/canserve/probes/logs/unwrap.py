"""One raw line of a log without what wraps it: container engine, collector, colours, process, time and level."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from canserve.checks.diagnosis.log import Line, Moment

MAX_LINE = 64 << 10
"""Bytes of a line that are looked at on either side of what was found in it."""
_ROUNDS = 8
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,24}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_JSON_KEYS = ("log", "message", "msg", "MESSAGE", "text", "line")
_CUT_JSON = re.compile(r'^\s*\{"(?:log|message|msg)":\s?"')
_JSON_TIME = ("time", "timestamp", "ts", "asctime")
_MILD = re.compile(r".*\b(?:DEBUG|INFO|WARNING|WARN)\b|.*\[[IWDV]\] $|\[?[IW]\d{3,4} ")
"""A wrapping that says so of its line."""
_MILD_TEXT = re.compile(
    r"(?:DEBUG|INFO|NOTE|WARN|WARNING)\b ?[:\]]|(?:\S{1,300}:\d{1,7}: )?[A-Z]\w{0,40}Warning: "
)
"""A line that says so itself."""
_BAR = re.compile(r"[^|%]{0,120}\d{1,3}%[^\]]{0,200}(?:\]|$)\s*$|[^|%]{0,120}\d{1,3}%[^|]{0,40}$")
"""One state of a progress bar, and nothing else."""
_CLOCK = r"(\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?"


class _Found:
    """What the wrappings told so far."""

    def __init__(self) -> None:
        self.process = ""
        self.pid = ""
        self.unit = ""
        """What its process runs in: a container, a pod, another machine. Numbers of processes repeat there."""
        self.rank: int | None = None
        self.clock: float | None = None
        self.since_start: float | None = None
        self.mild = False


Taker = Callable[[re.Match[str], _Found], None]


def _since(hit: re.Match[str], found: _Found) -> None:
    found.since_start = float(hit[1])


def _process(hit: re.Match[str], found: _Found) -> None:
    found.process, found.pid = hit[1], hit[2]
    found.unit = hit[3] or found.unit
    if (rank := re.search(r"(?:rank=|[_ ](?:TP|tp))(\d{1,5})\b", hit[1])) is not None:
        found.rank = int(rank[1])


def _unit(hit: re.Match[str], found: _Found) -> None:
    found.unit = hit[1]


def _rank(hit: re.Match[str], found: _Found) -> None:
    found.rank = int(hit[1])
    found.process = found.process or f"rank{hit[1]}"


def _bracket(hit: re.Match[str], found: _Found) -> None:
    """``[2026-11-30 04:44:11 DP0 TP1]``: ranks of several axes; the process is all of them."""
    found.clock = _instant(hit[1], hit[2])
    if hit[3].strip():
        found.process = hit[3].strip()
        if (rank := re.search(r"\bTP(\d{1,5})", hit[3])) is not None:
            found.rank = int(rank[1])


def _dated(hit: re.Match[str], found: _Found) -> None:
    found.clock = _instant(hit[1], hit[2])


def _american(hit: re.Match[str], found: _Found) -> None:
    found.clock = _instant(f"{hit[1]}-{hit[2]}", hit[3])
    if hit[4]:
        found.rank = int(hit[4])
        found.process = f"rank{hit[4]}"


def _nothing(hit: re.Match[str], found: _Found) -> None:
    del hit, found


_WRAPPINGS: tuple[tuple[re.Pattern[str], Taker], ...] = (
    (re.compile(rf"\d{{4}}-(\d\d-\d\d)T{_CLOCK}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"), _dated),
    (re.compile(r"\[pod/([^\]]{1,200})\] "), _unit),
    (re.compile(r"([\w.-]{1,80}) {0,60}\| ?"), _unit),
    (re.compile(rf"[A-Z][a-z]{{2}} [ \d]\d {_CLOCK} \S{{1,80}} [\w./@-]{{1,80}}(?:\[\d{{1,9}}\])?: "), _nothing),
    (re.compile(r" {0,8}(\d{1,8}\.\d\d) (?=\S|$)"), _since),
    (re.compile(r"\[\d{1,5},(\d{1,5})\]<std(?:out|err)>:? ?"), _rank),
    (re.compile(r"\[gpu_id=(\d{1,5})\] "), _rank),
    (re.compile(rf"time=\d{{4}}-(\d\d-\d\d)T{_CLOCK}(?:Z|[+-]\d\d:\d\d)? level=[A-Z]+ (?:source=\S{{1,120}} )?"), _dated),
    (re.compile(r"\[rank(\d{1,5})\]:? ?"), _rank),
    (re.compile(r"\(([\w.:<> =-]{1,80}?),? pid=(\d{1,9})(?:, ip=([\w.:]{1,45}))?\) ?"), _process),
    (re.compile(rf"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d) {_CLOCK} (?:\[?[^\]\s]{{1,120}}\] ?)?"), _dated),
    (re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \[[\w./]{1,80}\.py:\d{1,6}\] ?"), _nothing),
    (re.compile(rf"\[\d{{4}}-(\d\d-\d\d) {_CLOCK}((?: [A-Za-z]{{2,6}}\d{{1,4}}){{0,6}})\] ?"), _bracket),
    (re.compile(rf"\[(\d\d)/(\d\d)/\d{{4}}-{_CLOCK}\] \[[\w-]{{1,20}}\] (?:\[RANK (\d{{1,5}})\] )?\[[A-Z]\] ?"), _american),
    (re.compile(rf"\d{{4}}-(\d\d-\d\d)[ T]{_CLOCK}(?: -)?(?:[ \t]-?[\w.]{{1,60}}){{0,1}}[ \t](?:- )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: -|:)? ?"), _dated),
    (re.compile(r"[^|%]{0,120}\d{1,3}%[^\]]{1,160}(?:it/s|s/it|B/s)\](?=\S)"), _nothing),
    (re.compile(rf"\d{{4}}-(\d\d-\d\d) {_CLOCK} (?=\S|  )"), _dated),
    (re.compile(rf"\[?[IWEF](\d{{3,4}}) {_CLOCK}(?: +\d{{1,9}})? [\w./-]{{1,80}}:\d{{1,6}}\] ?"), _dated),
)  # fmt: skip


def _instant(day: str, clock: str) -> float | None:
    """Seconds since the year began; the logs do not name the year."""
    day = day if "-" in day else f"{day[:-2]}-{day[-2:]}"
    try:
        when = datetime.strptime(f"2024-{day} {clock}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return (when - datetime(2024, 1, 1)) / timedelta(seconds=1)


def unwrap(raw: bytes, number: int) -> Line:
    """The line as it was said, by whom and when."""
    text = _shown(raw.decode("utf-8", "replace").rstrip("\r\n"))
    found = _Found()
    text = _from_json(text, found)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    for _ in range(_ROUNDS):
        for pattern, take in _WRAPPINGS:
            if (hit := pattern.match(text)) is not None and hit.end():
                take(hit, found)
                found.mild = found.mild or _MILD.match(hit[0]) is not None
                text = text[hit.end() :]
                break
        else:
            break
    at = Moment(found.clock, found.since_start)
    mild = found.mild or _MILD_TEXT.match(text) is not None
    pid = f"{found.unit}/{found.pid}" if found.unit and found.pid else found.pid
    return Line(number, text, found.process or found.unit, pid, found.rank, at, mild)


def _shown(text: str) -> str:
    """Of a bar that is drawn over, what was drawn last, or what else was said between its states."""
    if "\r" not in text:
        return text
    drawn = [each for each in text.split("\r") if each.strip()]
    said = [each for each in drawn if _BAR.match(each) is None]
    return (said or drawn or [""])[-1]


def _from_json(text: str, found: _Found) -> str:
    if not text.startswith(("{", " {")):
        return text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        cut = _CUT_JSON.sub("", text)
        if cut == text:
            return text
        return cut.replace("\\n", "").replace('\\"', '"').replace("\\u001b", "\x1b").replace("\\t", "\t")
    if not isinstance(record, dict):
        return text
    said: str | None = next((record[key] for key in _JSON_KEYS if isinstance(record.get(key), str)), None)
    if said is None:
        return text
    when = next((record[key] for key in _JSON_TIME if isinstance(record.get(key), str)), "")
    if (hit := re.match(rf"\d{{4}}-(\d\d-\d\d)[T ]{_CLOCK}", when)) is not None:
        found.clock = _instant(hit[1], hit[2])
    return said.rstrip("\r\n")
