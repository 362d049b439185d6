"""Engines are had by name, one without the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from canserve.engines import NAMES, engine_named, engines

LOADED = (
    "import sys; from canserve.probes.build import _sought; print(*[one.name for one in _sought(sys.argv[1])]);"
    "print(*[name for name in ('vllm', 'lmdeploy', 'llamacpp') if f'canserve.engines.{name}' in sys.modules])"
)


def test_every_name_has_a_reader_of_that_name() -> None:
    assert tuple(engine.name for engine in engines()) == NAMES
    assert engine_named("another") is None


@pytest.mark.parametrize(
    ("target", "sought", "loaded"),
    [
        ("sglang==0.5.9", ["sglang"], []),
        ("vllm==0.17.1", ["vllm"], ["vllm"]),
        ("vllm", list(NAMES), ["vllm", "lmdeploy", "llamacpp"]),
        ("./vllm==0.17.1", list(NAMES), ["vllm", "lmdeploy", "llamacpp"]),
        ("unheard==1", list(NAMES), ["vllm", "lmdeploy", "llamacpp"]),
    ],
)
def test_a_release_loads_no_other_engines_reader(target: str, sought: list[str], loaded: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, target], capture_output=True, text=True, check=True)
    first, second = done.stdout.split("\n")[:2]
    assert first.split() == sought and second.split() == loaded
