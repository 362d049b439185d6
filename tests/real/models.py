"""Models for real engines, made or fetched once and kept beside the environments."""

from __future__ import annotations

import subprocess
from pathlib import Path

from real.environments import InstallError, digest, home, made_once

MAKER = Path(__file__).with_name("tiny_models.py")


def tiny(kind: str, engine: Path) -> Path:
    """The folder of a model that knows 24 answers. ``engine``: an environment with torch and transformers."""
    folder = home() / f"tiny-{kind}-{digest(MAKER.read_bytes(), engine.name.encode())}"
    with made_once(folder) as wanted:
        if wanted:
            words = [str(engine / "bin/python3"), str(MAKER), kind, str(folder)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
            if done.returncode != 0:
                raise InstallError(f"{kind} could not be made: {done.stderr.strip()[-1500:]}")
            for file in folder.iterdir():
                file.chmod(0o644)  # weights are written for their maker alone, and somebody else serves them
    return folder
