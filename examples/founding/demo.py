"""The founding case, from nothing, on real releases: what `./dev demo` runs.

Needs the package index that pip is configured for. Nothing is installed, no GPU is used, nothing of the
engines or the model is executed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from community_image import build as lay_out_image

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent.relative_to(ROOT)
CANSERVE = str(Path(sys.executable).with_name("canserve"))
MODEL = str(HERE / "model")
ON = ("--on", str(HERE / "cluster.toml"))


def say(text: str) -> None:
    """What is about to be shown, and why."""
    print(f"\n# {text}", flush=True)


def show(*arguments: str, plainly: bool = False) -> int:
    """Print a command and run it. ``plainly``: as a user for whom file permissions hold, even when root."""
    print(f"$ canserve {' '.join(arguments)}", flush=True)
    drop: Sequence[str] = ()
    if plainly and os.geteuid() == 0 and shutil.which("setpriv"):
        drop = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    code = subprocess.run([*drop, CANSERVE, *arguments], cwd=ROOT, check=False).returncode
    print(f"[exit code {code}]", flush=True)
    return code


def main() -> int:
    """Run every step; 0 when each one ended as it should."""
    say("Two DGX Spark machines are to serve Qwen3.5-122B-A10B-FP8. Which of these builds can?")
    builds = [
        word for name in ("vllm==0.14.0", "vllm==0.17.1", "sglang==0.5.9") for word in ("--build", name)
    ]
    codes = [show("check", MODEL, *builds, *ON)]
    say("Why not the first one? Down to file and line:")
    codes.append(show("check", MODEL, "--build", "vllm==0.14.0", "--explain", "architecture-registered"))
    with tempfile.TemporaryDirectory(prefix="canserve-demo-") as name:
        image = Path(name) / "image"
        say("The community image that was nearly discarded: its engine lies under /opt/vllm.")
        lay_out_image(image)
        codes.append(show("check", MODEL, "--build", str(image)))
        say("The same image with a folder that cannot be read: that is unknown, not no.")
        folder = image / "opt" / "vllm" / "vllm" / "model_executor" / "models"
        folder.chmod(0)
        codes.append(show("check", MODEL, "--build", str(image), plainly=True))
        folder.chmod(0o755)
    say("What fits on the two machines, how fast, and how is it started?")
    codes.append(show("plan", MODEL, "--build", "vllm==0.17.1", *ON))
    print()
    return 0 if codes == [1, 1, 0, 3, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
