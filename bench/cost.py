"""What a verdict costs, measured from outside on real wheels of the package index, in one run.

Bytes are counted by a proxy on this machine that every measured process is sent through, so nothing that is
printed here is the tool's own word, except the number of requests (inside TLS nobody else can count them).
Times of verdict and download are compared over one and the same link, for which the proxy lets 100 Mbit/s
through; the ratio on this machine's own link stands beside it.
Prints one line a bound, PASS or FAIL, and exits with 1 when any failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from meter import Meter

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "examples" / "founding" / "model"
CANSERVE = [str(Path(sys.executable).with_name("canserve"))]
BUILDS = ("vllm==0.14.0", "vllm==0.17.1", "vllm==0.33.0", "sglang==0.5.9")

SHARE_OF_WHEEL = 0.005
SHARE_WITH_ALL_CLASSES = 0.04
SMALL_WHEEL = 50e6
"""Below this size in bytes a wheel's own table of contents is more than the share: the bound is on bytes."""
BYTES_OF_SMALL_WHEEL = SHARE_OF_WHEEL * 300e6
REQUESTS = 15
TIME_OF_DOWNLOAD = 0.1
LINK = 100e6 / 8
"""Bytes a second of the link over which times are compared."""
WARM_SECONDS = 0.5
HELP_SECONDS = 0.25
PEAK_BYTES = 150e6
TRIES = 15
"""Of a short run; the best one is the one that the rest of the machine disturbed least."""


@dataclass(frozen=True)
class Run:
    """One process, seen from outside."""

    wall: float
    cpu: float
    peak: int
    moved: int
    stdout: str


def run(command: list[str], cache: Path, meter: Meter | None = None) -> Run:
    """Run a command and wait for it; its traffic goes through the meter where one is given."""
    environment = {**os.environ, "CANSERVE_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # pip compiles what it installs: measure that
    if meter:
        environment |= dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), meter.url)
    before, start = meter.moved if meter else 0, time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    stdout = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1, 3}:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Run(
        wall=time.monotonic() - start,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=usage.ru_maxrss * 1024,
        moved=meter.moved - before if meter else 0,
        stdout=stdout,
    )


def download(build: str, meter: Meter | None = None) -> tuple[int, float]:
    """Size of the wheel in bytes, and seconds in which pip downloads it."""
    with empty_folder() as folder:
        pip = [sys.executable, "-m", "pip", "--quiet", "--quiet", "download", "--no-deps", "--no-cache-dir"]
        done = run([*pip, "--dest", str(folder), build], folder, meter)
        (wheel,) = folder.glob("*.whl")
        return wheel.stat().st_size, done.wall


class Bounds:
    """Prints each bound with what was measured, and remembers whether all held."""

    def __init__(self) -> None:
        self.failed = 0

    def at_most(self, what: str, measured: float, bound: float, unit: str = "") -> None:
        """One line."""
        good = measured < bound
        self.failed += not good
        print(f"{'PASS' if good else 'FAIL'}  {what:<48} {measured:>9.4g} < {bound:g} {unit}", flush=True)


@contextmanager
def empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="canserve-bench-") as name:
        yield Path(name)


@dataclass(frozen=True)
class Measured:
    """Everything measured of one build."""

    wheel: int
    """Bytes."""
    cold: Run
    warm: list[Run]
    whole: Run
    """Every class's interfaces, cold."""
    own_link: tuple[float, float]
    """Seconds of a cold verdict and of the download, on this machine's own link."""
    slow_link: tuple[float, float]
    """The same at 100 Mbit/s."""


def measure(build: str) -> Measured:
    """Run everything for one build; each cold run starts with an empty cache."""
    check = [*CANSERVE, "check", str(MODEL), "--build", build, "--format", "json", "--quiet"]
    with Meter() as meter:
        with empty_folder() as cache:
            cold = run(check, cache, meter)
            warm = [run([*check, "--offline"], cache, meter) for _ in range(TRIES)]
        with empty_folder() as cache:
            whole = run([*CANSERVE, "build", build, "--format", "json", "--quiet"], cache, meter)
    size, own_download = download(build)
    with empty_folder() as cache:
        own = run(check, cache).wall
    with Meter(LINK) as link, empty_folder() as cache:
        slow, slow_download = run(check, cache, link).wall, download(build, link)[1]
    assert {json.loads(one.stdout)["verdict"] for one in (cold, *warm)} == {
        json.loads(cold.stdout)["verdict"]
    }
    return Measured(size, cold, warm, whole, (own, own_download), (slow, slow_download))


def judge(build: str, it: Measured, bounds: Bounds) -> None:
    """Print what was measured, and hold it against the bounds."""
    report = json.loads(it.cold.stdout)
    print(f"\n{build}: {report['verdict']}; a wheel of {it.wheel / 1e6:.1f} MB")
    print(f"      {it.cold.moved:,} bytes for the verdict, {it.whole.moved:,} with every class's interfaces")
    for link, (verdict, wheel) in (("own link", it.own_link), ("100 Mbit/s", it.slow_link)):
        print(f"      {link}: verdict in {verdict:.2f} s, download in {wheel:.2f} s")
    if it.wheel < SMALL_WHEEL:
        bounds.at_most(
            "cold verdict, MB (small wheel)", it.cold.moved / 1e6, BYTES_OF_SMALL_WHEEL / 1e6, "MB"
        )
    else:
        share, whole = 100 * it.cold.moved / it.wheel, 100 * it.whole.moved / it.wheel
        bounds.at_most("cold verdict, share of the wheel", share, 100 * SHARE_OF_WHEEL, "%")
        bounds.at_most(
            "every class's interfaces, share of the wheel", whole, 100 * SHARE_WITH_ALL_CLASSES, "%"
        )
        ratio = it.slow_link[0] / it.slow_link[1]
        bounds.at_most("cold verdict, time to that of the download", ratio, TIME_OF_DOWNLOAD)
    bounds.at_most("cold verdict, requests", report["cost"]["requests"], REQUESTS)
    bounds.at_most("warm verdict, process time", min(one.cpu for one in it.warm), WARM_SECONDS, "s")
    bounds.at_most("warm verdict, bytes over the network", max(one.moved for one in it.warm), 1, "bytes")
    peak = max(one.peak for one in (it.cold, *it.warm)) / 1e6
    bounds.at_most("verdict, peak memory", peak, PEAK_BYTES / 1e6, "MB")
    bounds.at_most("every class's interfaces, peak memory", it.whole.peak / 1e6, PEAK_BYTES / 1e6, "MB")


def main() -> int:
    """Measure and judge."""
    bounds = Bounds()
    print(f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; times are the best of {TRIES}")
    with empty_folder() as cache:
        seconds = [run([*CANSERVE, "--help"], cache).wall for _ in range(TRIES)]
        bounds.at_most("canserve --help", min(seconds), HELP_SECONDS, "s")
    for build in sys.argv[1:] or BUILDS:
        judge(build, measure(build), bounds)
    print(f"\n{bounds.failed} bounds failed" if bounds.failed else "\nall bounds hold")
    return bool(bounds.failed)


if __name__ == "__main__":
    sys.exit(main())
