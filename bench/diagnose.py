"""What `canserve diagnose` makes of the recorded failures and stalls in ../shared/cases.

    python bench/diagnose.py                 recognised, wrong, unknown per kind; then with each kind's rows left out
    python bench/diagnose.py --each          the same, and every case that is not recognised
    python bench/diagnose.py --stalls        every recorded start, whole and cut after each of its lines
    python bench/diagnose.py --throughput GIGABYTES
                                             a generated log: seconds, megabytes a second, peak memory

Exit code 1: fewer than 90 of 100 `log` signatures lead to the right kind, or more than 2 to a wrong one; or a
healthy start is called failed or stalled.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from canserve.api.diagnosing import judged
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.rules.failures import KINDS, Knowledge, knowledge
from canserve.subjects.diagnosis import Diagnosis

ROOT = Path(__file__).parent.parent
CASES = ROOT.parent / "shared" / "cases"
LOG_FORMS = ("log",)
RIGHT, WRONG, UNKNOWN = "recognised", "wrong", "unknown"
ENOUGH, TOO_MANY = 0.90, 0.02

Case = Mapping[str, str]


def cases() -> list[Case]:
    """The recorded failures."""
    with (CASES / "failures.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def asked(texts: Mapping[str, bytes], matcher: Matcher) -> Diagnosis:
    """The diagnosis of some files of one deployment."""
    readings = [read_log(name, io.BytesIO(data), matcher) for name, data in texts.items()]
    return judged(readings, matcher.knowledge)


def outcome(case: Case, matcher: Matcher) -> tuple[str, Diagnosis]:
    """Whether a case's signature leads to its kind."""
    found = asked({"log": case["signature"].encode()}, matcher)
    if found.kind is None:
        return UNKNOWN, found
    return (RIGHT if found.kind == case["kind_name"] else WRONG), found


def table(found: Iterable[tuple[Case, str]]) -> None:
    """Counts per kind, `log` signatures and all."""
    rows: dict[str, Counter[str]] = {kind: Counter() for kind in (*KINDS, "all")}
    for case, result in found:
        for kind in (case["kind_name"], "all"):
            rows[kind][result] += 1
            rows[kind][f"{result} log"] += case["signature_form"] in LOG_FORMS
    print(f"{'kind':<32}{'log: right  wrong  unknown':>28}{'all: right  wrong  unknown':>30}")
    for kind, row in rows.items():
        log = [row[f"{name} log"] for name in (RIGHT, WRONG, UNKNOWN)]
        every = [row[name] for name in (RIGHT, WRONG, UNKNOWN)]
        print(f"{kind:<32}{log[0]:>12}{log[1]:>7}{log[2]:>9}{every[0]:>14}{every[1]:>7}{every[2]:>9}")


def recognition(each: bool) -> bool:
    """The table of all cases; whether it is good enough."""
    matcher = Matcher(knowledge())
    found = [(case, *outcome(case, matcher)) for case in cases()]
    table((case, result) for case, result, _ in found)
    if each:
        for case, result, told in found:
            if result != RIGHT:
                print(f"{result:<8} {case['id']} {case['signature_form']:<10} {case['kind_name']}: "
                      f"{case['signature'][:90]} -> {told.kind} {told.name}")  # fmt: skip
    logs = [result for case, result, _ in found if case["signature_form"] in LOG_FORMS]
    right, wrong = logs.count(RIGHT) / len(logs), logs.count(WRONG) / len(logs)
    print(f"log signatures: {right:.1%} right, {wrong:.1%} wrong, {1 - right - wrong:.1%} unknown")
    return right >= ENOUGH and wrong <= TOO_MANY


def left_out() -> None:
    """The cases of a kind, judged as if nobody had ever seen that kind: each claim is a wrong one."""
    rows: Knowledge = knowledge()
    print("\nrows of the kind left out: its cases that are called another kind")
    every = claimed = 0
    for kind in KINDS:
        matcher = Matcher(rows.without(kind))
        of_kind = [case for case in cases() if case["kind_name"] == kind]
        wrong = [(case, told) for case in of_kind if (told := outcome(case, matcher)[1]).kind is not None]
        every, claimed = every + len(of_kind), claimed + len(wrong)
        names = ", ".join(f"{case['id']} as {told.kind}" for case, told in wrong)
        print(f"{kind:<32}{len(wrong):>4} of {len(of_kind):<4}{names}")
    print(f"{'all':<32}{claimed:>4} of {every}")


def starts() -> dict[str, list[Path]]:
    """The files of every recorded start, by its name."""
    found: dict[str, list[Path]] = {}
    for path in sorted((CASES / "stalls").iterdir()):
        found.setdefault(path.name.split(".")[0], []).append(path)
    return found


def stalls() -> bool:
    """Every start whole, then each log cut after every line, alone and beside the other files."""
    matcher, good = Matcher(knowledge()), True
    for name, paths in starts().items():
        texts = {path.name: path.read_bytes() for path in paths}
        told = asked(texts, matcher)
        print(f"{name:<20}{told.state:<10}{told.kind or '-'} {told.name or ''}: {told.because}")
        fails = name.startswith("fail-")
        good = good and fails == (told.state in ("failed", "stalled") and told.kind is not None)
        seen = Counter((cut.state, cut.kind, cut.name) for cut in _prefixes(texts, matcher))
        for (state, kind, fine), count in seen.most_common():
            print(f"{'':<20}{count:>6} cuts: {state} {kind or ''} {fine or ''}")
            healthy = not fails and not name.startswith("ray-stock")
            good = good and not (healthy and (kind is not None or state in ("failed", "stalled")))
    return good


def _prefixes(texts: Mapping[str, bytes], matcher: Matcher) -> Iterator[Diagnosis]:
    for name, data in texts.items():
        if not name.endswith(".log") or "raystatus" in name:
            continue
        beside = {other: text for other, text in texts.items() if other != name}
        lines = data.splitlines(keepends=True)
        for count in range(len(lines) + 1):
            cut = b"".join(lines[:count])
            yield asked({name: cut}, matcher)
            yield asked({name: cut, **beside}, matcher)


def generated(path: Path, size: int) -> None:
    """A log of a served model, with the failure at its very end."""
    tail = (
        b"(Worker_TP1 pid=11) ERROR 11-30 09:00:00 [multiproc_executor.py:953] Traceback (most recent call last):\n"
        b'(Worker_TP1 pid=11) ERROR 11-30 09:00:00 [x.py:9]   File "/v/site-packages/torch/x.py", line 3, in f\n'
        b"(Worker_TP1 pid=11) ERROR 11-30 09:00:00 [x.py:9] torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    with path.open("wb") as out:
        number = 0
        while out.tell() < size:
            out.write(b"".join(_served(number + step) for step in range(20000)))
            number += 20000
        out.write(tail)


def _served(number: int) -> bytes:
    clock = b"%02d:%02d:%02d" % (number // 3600 % 24, number // 60 % 60, number % 60)
    match number % 3:
        case 0:
            return (
                b"(APIServer pid=7) INFO 11-30 %s [loggers.py:248] Engine 000: Avg prompt throughput: %d.5 tokens/s,"
                b" Avg generation throughput: 31.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs\n"
                % (clock, number)
            )
        case 1:
            return b'(APIServer pid=7) INFO:  10.0.0.1:%d - "POST /v1/completions HTTP/1.1" 200 OK\n' % number
        case _:
            return b"(EngineCore pid=9) DEBUG 11-30 %s [core.py:42] step %d of request %x\n" % (
                clock,
                number,
                number,
            )


def throughput(gigabytes: float) -> None:
    """One run of the command over a generated file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.log"
        generated(path, int(gigabytes * 1e9))
        size = path.stat().st_size
        start = time.monotonic()
        command = [sys.executable, "-m", "canserve", "diagnose", str(path), "--format", "json", "--quiet"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        told = json.load(child.stdout)
        _, _, usage = os.wait4(child.pid, 0)
        seconds, busy = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    print(
        f"{size / 1e9:.2f} GB in {seconds:.1f} s ({busy:.1f} s of one processor): {size / 1e6 / seconds:.0f} MB/s"
    )
    print(
        f"peak memory {usage.ru_maxrss / 1024:.0f} MiB; {told['state']}: {told['kind']} in line {told['cause']['line']}"
    )


def main(arguments: Sequence[str]) -> int:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", action="store_true", help="every case that is not recognised")
    parser.add_argument("--stalls", action="store_true", help="recorded starts, whole and cut")
    parser.add_argument("--throughput", type=float, metavar="GIGABYTES", help="a generated log of that size")
    chosen = parser.parse_args(arguments)
    if chosen.throughput:
        throughput(chosen.throughput)
        return 0
    if chosen.stalls:
        return 0 if stalls() else 1
    good = recognition(chosen.each)
    left_out()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
