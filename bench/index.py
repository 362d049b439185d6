"""What the release index costs: made from nothing, brought up to date with nothing new, and asked.

``python bench/index.py [--without-build] [--into=FOLDER] [PROJECT ...]``. Bytes are counted by a proxy on this machine; the
number of requests is the tool's own word, for inside TLS nobody else can count them.
Prints one line a bound, PASS or FAIL, and exits with 1 when any failed.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from cost import CANSERVE, TRIES, Bounds, Run, empty_folder, run
from meter import Meter

SHIPPED_BYTES = 200_000
UPDATE_SECONDS = 2.0
SINCE_SECONDS = 0.4
ASKED = (
    "Qwen3_5MoeForConditionalGeneration",
    "DeepseekV3ForCausalLM",
    "glm4_moe_lite",
    "LlamaForCausalLM",
)


def requests_of(done: Run) -> int:
    """Requests in all, as the command's lines say."""
    return sum(int(count) for count in re.findall(r" in (\d+) requests$", done.stdout, re.MULTILINE))


def from_nothing(projects: list[str], folder: Path) -> None:
    """Every release of every project, with an empty cache."""
    with Meter() as meter, empty_folder() as cache:
        done = run([*CANSERVE, "index", "build", *projects, "--into", str(folder), "--quiet"], cache, meter)
    print(done.stdout, end="")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(
        f"from nothing: {done.moved:,} bytes in {requests_of(done):,} requests, {done.wall:.0f} s "
        f"({done.cpu:.0f} s of process time), peak memory {done.peak / 1e6:.0f} MB, {size:,} bytes of index"
    )


def up_to_date(projects: list[str], bounds: Bounds) -> None:
    """With an empty cache: nothing is known but what is shipped, and no page was asked for before."""
    with Meter() as meter, empty_folder() as cache:
        first = run([*CANSERVE, "index", "update", *projects, "--quiet"], cache, meter)
        print(first.stdout, end="")
        runs = []
        for _ in range(TRIES):
            for page in (cache / "1").glob("pages/*"):  # they are believed for a while: ask again
                page.unlink()
            runs.append(run([*CANSERVE, "index", "update", *projects, "--quiet"], cache, meter))
    best = min(runs, key=lambda one: one.wall)
    print(
        f"nothing new: {best.moved:,} bytes in {requests_of(best)} requests, peak memory {best.peak / 1e6:.0f} MB"
    )
    if any("nothing new" not in line for line in best.stdout.splitlines()):
        bounds.failed += 1
        print(f"FAIL  there was something new each time: {best.stdout}")
    bounds.at_most("update with nothing new", best.wall, UPDATE_SECONDS, "s")


def asked(bounds: Bounds) -> None:
    """Answers of the shipped index."""
    with empty_folder() as cache:
        for name in ASKED:
            taken = [run([*CANSERVE, "since", name], cache).cpu for _ in range(TRIES)]
            bounds.at_most(f"since {name}", min(taken), SINCE_SECONDS, "s of process time")


def main() -> int:
    """Measure and judge."""
    projects = [word for word in sys.argv[1:] if not word.startswith("--")]
    bounds = Bounds()
    data = files("canserve.index").joinpath("data")
    sizes = {entry.name: len(entry.read_bytes()) for entry in data.iterdir()}
    print(", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items())))
    bounds.at_most("shipped index data", sum(sizes.values()), SHIPPED_BYTES, "bytes")
    asked(bounds)
    up_to_date(projects, bounds)
    if "--without-build" not in sys.argv:
        kept = next((Path(word.partition("=")[2]) for word in sys.argv if word.startswith("--into=")), None)
        with empty_folder() as folder:
            from_nothing(projects, folder if kept is None else kept)
    print(f"\n{bounds.failed} bounds failed" if bounds.failed else "\nall bounds hold")
    return bool(bounds.failed)


if __name__ == "__main__":
    sys.exit(main())
