"""What a verdict costs, measured from outside on real wheels of the package index, in one run.

Bytes are counted by a proxy on this machine that every measured process is sent through, so nothing that is
printed here is the tool's own word, except the number of requests (inside TLS nobody else can count them).
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


def run(command: list[str], meter: Meter, cache: Path) -> Run:
    """Run a command through the meter and wait for it."""
    environment = {
        **os.environ,
        "CANSERVE_CACHE": str(cache),
        "HTTPS_PROXY": meter.url,
        "HTTP_PROXY": meter.url,
    }
    before, start = meter.moved, time.monotonic()
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
        moved=meter.moved - before,
        stdout=stdout,
    )


def download(build: str, meter: Meter, folder: Path) -> tuple[int, float]:
    """Size of the wheel in bytes and seconds to download it, by pip."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--dest",
        str(folder),
    ]
    done = run([*command, build], meter, folder)
    (wheel,) = folder.glob("*.whl")
    size = wheel.stat().st_size
    wheel.unlink()
    return size, done.wall


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


def measure(build: str, meter: Meter, bounds: Bounds) -> list[int]:
    """All bounds of one build. Returns the peaks of its processes, in bytes."""
    check = [*CANSERVE, "check", str(MODEL), "--build", build, "--format", "json", "--quiet"]
    everything = [*CANSERVE, "build", build, "--format", "json", "--quiet"]
    with empty_folder() as folder:
        size, seconds = download(build, meter, folder)
    with empty_folder() as cache:
        cold = run(check, meter, cache)
        warm = run([*check, "--offline"], meter, cache)
    with empty_folder() as cache:
        whole = run(everything, meter, cache)
    report = json.loads(cold.stdout)
    assert json.loads(warm.stdout)["verdict"] == report["verdict"]
    print(f"\n{build}: {report['verdict']}; wheel of {size / 1e6:.1f} MB, downloaded in {seconds:.2f} s")
    print(
        f"      cold {cold.moved:,} bytes, {cold.wall:.2f} s; every class {whole.moved:,} bytes, {whole.wall:.2f} s"
    )
    if size < SMALL_WHEEL:
        bounds.at_most("cold verdict, MB (small wheel)", cold.moved / 1e6, BYTES_OF_SMALL_WHEEL / 1e6, "MB")
    else:
        bounds.at_most("cold verdict, share of the wheel", 100 * cold.moved / size, 100 * SHARE_OF_WHEEL, "%")
        bounds.at_most(
            "every class's interfaces, share of the wheel",
            100 * whole.moved / size,
            100 * SHARE_WITH_ALL_CLASSES,
            "%",
        )
    bounds.at_most("cold verdict, requests", report["cost"]["requests"], REQUESTS)
    bounds.at_most("cold verdict, time to that of the download", cold.wall / seconds, TIME_OF_DOWNLOAD)
    bounds.at_most("warm verdict, process time", warm.cpu, WARM_SECONDS, "s")
    bounds.at_most("warm verdict, bytes over the network", warm.moved, 1, "bytes")
    return [cold.peak, warm.peak, whole.peak]


def main() -> int:
    """Measure and judge."""
    bounds = Bounds()
    peaks = []
    with Meter() as meter, empty_folder() as cache:
        run([*CANSERVE, "--help"], meter, cache)
        bounds.at_most("canserve --help", min(run([*CANSERVE, "--help"], meter, cache).wall for _ in range(3)),
                       HELP_SECONDS, "s")  # fmt: skip
        for build in sys.argv[1:] or BUILDS:
            peaks += measure(build, meter, bounds)
    print()
    bounds.at_most("peak memory of any process", max(peaks) / 1e6, PEAK_BYTES / 1e6, "MB")
    print(f"\n{bounds.failed} bounds failed" if bounds.failed else "\nall bounds hold")
    return bool(bounds.failed)


if __name__ == "__main__":
    sys.exit(main())
