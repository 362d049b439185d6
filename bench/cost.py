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


def measure(build: str, meter: Meter, bounds: Bounds) -> None:
    """All bounds of one build."""
    check = [*CANSERVE, "check", str(MODEL), "--build", build, "--format", "json", "--quiet"]
    everything = [*CANSERVE, "build", build, "--format", "json", "--quiet"]
    size, direct_download = download(build)
    with empty_folder() as cache:
        cold = run(check, cache, meter)
        warm = sorted((run([*check, "--offline"], cache, meter) for _ in range(3)), key=lambda one: one.cpu)
    with empty_folder() as cache:
        direct = run(check, cache)
    with empty_folder() as cache:
        whole = run(everything, cache, meter)
    with Meter(LINK) as link, empty_folder() as cache:
        _, slow_download = download(build, link)
        slow = run(check, cache, link)
    report = json.loads(cold.stdout)
    assert {json.loads(one.stdout)["verdict"] for one in warm} == {report["verdict"]}
    print(
        f"\n{build}: {report['verdict']}; wheel of {size / 1e6:.1f} MB; "
        f"moved {cold.moved:,} bytes for the verdict,"
    )
    print(
        f"      {whole.moved:,} with every class. "
        f"Verdict and download: {direct.wall:.2f} and {direct_download:.2f} s"
    )
    print(f"      on this machine's link, {slow.wall:.2f} and {slow_download:.2f} s at 100 Mbit/s")
    if size < SMALL_WHEEL:
        bounds.at_most("cold verdict, MB (small wheel)", cold.moved / 1e6, BYTES_OF_SMALL_WHEEL / 1e6, "MB")
    else:
        bounds.at_most("cold verdict, share of the wheel", 100 * cold.moved / size, 100 * SHARE_OF_WHEEL, "%")
        share = 100 * whole.moved / size
        bounds.at_most(
            "every class's interfaces, share of the wheel", share, 100 * SHARE_WITH_ALL_CLASSES, "%"
        )
        bounds.at_most(
            "cold verdict, time to that of the download", slow.wall / slow_download, TIME_OF_DOWNLOAD
        )
    bounds.at_most("cold verdict, requests", report["cost"]["requests"], REQUESTS)
    bounds.at_most("warm verdict, process time (median of 3)", warm[1].cpu, WARM_SECONDS, "s")
    bounds.at_most("warm verdict, bytes over the network", warm[-1].moved, 1, "bytes")
    verdict, everything_peak = max(direct.peak, cold.peak, slow.peak, *(one.peak for one in warm)), whole.peak
    bounds.at_most("verdict, peak memory", verdict / 1e6, PEAK_BYTES / 1e6, "MB")
    bounds.at_most("every class's interfaces, peak memory", everything_peak / 1e6, PEAK_BYTES / 1e6, "MB")


def main() -> int:
    """Measure and judge."""
    bounds = Bounds()
    with Meter() as meter, empty_folder() as cache:
        seconds = [run([*CANSERVE, "--help"], cache).wall for _ in range(4)][1:]  # the first one may compile
        bounds.at_most("canserve --help, slowest of 3", max(seconds), HELP_SECONDS, "s")
        for build in sys.argv[1:] or BUILDS:
            measure(build, meter, bounds)
    print(f"\n{bounds.failed} bounds failed" if bounds.failed else "\nall bounds hold")
    return bool(bounds.failed)


if __name__ == "__main__":
    sys.exit(main())
