"""A virtual environment with a real torch for processors, made once and kept between runs; `./dev test` makes it too."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

VERSION = "torch==2.13.0+cpu"
"""Named whole: without ``+cpu`` the index gives a build for CUDA, of several gigabytes."""
SECONDS = 900


class NoTorchError(Exception):
    """It could not be made; says why."""


def made(root: Path) -> str:
    """Its folder. 0.9 GB, a minute to make. Raises NoTorchError where the index has no such build."""
    folder = root / ".cache" / f"torch-{sys.version_info.major}.{sys.version_info.minor}"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "torch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", VERSION]
            try:
                done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise NoTorchError(f"no {VERSION} here: pip took longer than {SECONDS} s") from None
            if done.returncode != 0:
                raise NoTorchError(f"no {VERSION} here: {done.stderr.strip()[-200:]}")
            (folder / "made").touch()
    return str(folder)


def main() -> int:
    """Make it now. Without it the tests that need it skip, and fail in continuous integration."""
    try:
        made(Path(__file__).parent.parent.parent)
    except NoTorchError as error:
        print(f"dev: {error}: tests of the preflight are skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
