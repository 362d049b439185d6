"""The names that can be had without loading any reader are those of the readers."""

from __future__ import annotations

import subprocess
import sys

from canserve.engines import NAMES, engines


def test_the_names_are_those_of_the_readers() -> None:
    assert tuple(engine.name for engine in engines()) == NAMES


def test_index_questions_load_no_reader() -> None:
    code = "import sys, canserve.index as i; i.projects(); print([m for m in sys.modules if 'engines.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    readers = ("vllm", "sglang", "lmdeploy", "llamacpp", "hf")
    assert not [name for name in readers if f"canserve.engines.{name}" in done.stdout], done.stdout
