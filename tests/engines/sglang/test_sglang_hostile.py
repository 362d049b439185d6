"""Files that were made, or damaged, to hurt the reader: every fact is known or missing, within bounds."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sglang_builds import COLLECTOR, MODEL, read

from canserve.facts import Known
from read_builds import every_fact_is_one

FILES = {
    "models/registry.py": COLLECTOR,
    "models/x.py": MODEL.format("A"),
    "configs/model_config.py": "archs = ['A']\ndef is_multimodal_model(architectures):\n    return 1\n",
    "configs/__init__.py": "from transformers import P\nclass X(P): model_type = 'x'\n",
    "utils/hf_transformers_utils.py": "_CONFIG_REGISTRY = {'x': X}\nAutoConfig.register('x', X)\nstr(e)\n",
    "layers/quantization/__init__.py": "QUANTIZATION_METHODS = {'fp8': Fp8Config}\n",
    "server_args.py": 'parser.add_argument("--kv-cache-dtype", choices=["auto"])\n',
    "arg_groups/fields/model.py": "class M:\n    load_format: A[str, Arg(choices=['auto'])] = 'auto'\n",
    "parser/reasoning_parser.py": "class P:\n    DetectorMap = {'a': A}\n",
    "speculative/spec_info.py": "class SpeculativeAlgorithm:\n    EAGLE = 1\n",
    "model_loader/utils.py": "import transformers\ndef resolve_transformers_arch(a): is_backend_compatible\n",
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    place=st.sampled_from(sorted(FILES)),
    at=st.integers(0, 80),
    junk=st.text(alphabet="()[]{}'\"#\\\n =,:.*@abcEntryClass_", max_size=40) | st.binary(max_size=20),
)
def test_damaged_files(place: str, at: int, junk: str | bytes) -> None:
    text = FILES[place].encode()
    raw = junk if isinstance(junk, bytes) else junk.encode()
    every_fact_is_one(read({**FILES, place: text[:at] + raw + text[at:]}))


BOMBS = {
    "nested brackets": "EntryClass = " + "[" * 50_000,
    "nested parentheses": "EntryClass = " + "(" * 90 + "A" + ")" * 90 + "\n",
    "long sum": "class A: ...\nEntryClass = [A]" + " + [A]" * 5_000 + "\n",
    "many classes": "".join(f"class C{i}: ...\n" for i in range(3_000))
    + f"EntryClass = [{', '.join(f'C{i}' for i in range(3_000))}]\n",
    "inherits from itself": "class A(A): ...\nEntryClass = A\n",
    "imports itself": "from sglang.srt.models.x import A\nEntryClass = A\n",
    "null bytes": "EntryClass = A\x00\n",
    "whitespace": "EntryClass" + " " * 200_000 + "\n",
    "doubling": "x = [1]\n" + "x = [x, x]\n" * 200 + "class A: ...\nEntryClass = A\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("place", ["models/x.py", "utils/hf_transformers_utils.py", "server_args.py"])
def test_bombs_end_soon(bomb: str, place: str) -> None:
    start = time.process_time()
    every_fact_is_one(read({**FILES, place: BOMBS[bomb]}))
    assert time.process_time() - start < 10


def test_undecodable_text_is_read_around() -> None:
    build = read({"models/x.py": b"# caf\xe9 \xff\n" + MODEL.format("A").encode()})
    assert isinstance(build.registry, Known)
    assert "A" in build.registry.value
