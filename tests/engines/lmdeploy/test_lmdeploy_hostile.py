"""Files that were made, or damaged, to hurt the reader: every fact is known or missing, within bounds."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lmdeploy_builds import MODERN, read
from test_lmdeploy_configs import SHIMS
from test_lmdeploy_quantization import FILES as QUANTIZED
from test_lmdeploy_serving import FILES as SERVING
from test_lmdeploy_serving import PARSERS

from canserve.facts import Known, Missing
from read_builds import every_fact_is_one

FILES = {**MODERN, **SHIMS, **QUANTIZED, **SERVING, **PARSERS}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    place=st.sampled_from(sorted(FILES)),
    at=st.integers(0, 400),
    junk=st.text(alphabet="()[]{}'\"#\\\n =,:.*@abcquant_method", max_size=40) | st.binary(max_size=20),
)
def test_damaged_files(place: str, at: int, junk: str | bytes) -> None:
    text = FILES[place].encode()
    raw = junk if isinstance(junk, bytes) else junk.encode()
    every_fact_is_one(read({**FILES, place: text[:at] + raw + text[at:]}))


BOMBS = {
    "nested brackets": "MODULE_MAP = " + "[" * 50_000,
    "long sum": "SUPPORTED_ARCHS = dict()" + " | dict(A='a')" * 5_000 + "\n",
    "many rows": "MODULE_MAP = dict()\n" + "MODULE_MAP.update({'A': 'lmdeploy.a.A'})\n" * 20_000,
    "many branches": "def get_tm_config():\n    if quant_method == 'a':\n        pass\n"
    + "    elif quant_method == 'b':\n        pass\n" * 300,
    "doubling": "MODULE_MAP = {'A': 'lmdeploy.a.A'}\n" + "MODULE_MAP = {**MODULE_MAP, **MODULE_MAP}\n" * 500,
    "null bytes": "MODULE_MAP = {}\x00\n",
    "imports itself": "from . import *\nfrom .module_map import MODULE_MAP\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize(
    "place",
    [
        "pytorch/models/module_map.py",
        "turbomind/supported_models.py",
        "turbomind/converter.py",
        "cli/serve.py",
    ],
)
def test_bombs_end_soon(bomb: str, place: str) -> None:
    start = time.process_time()
    every_fact_is_one(read({**FILES, place: BOMBS[bomb]}))
    assert time.process_time() - start < 10


def test_undecodable_text_is_read_around() -> None:
    text = MODERN["turbomind/supported_models.py"]
    build = read(
        {**FILES, "turbomind/supported_models.py": b"# caf\xe9 \xff\n" + text.replace("    ", "", 1).encode()}
    )
    assert isinstance(build.registry, Known | Missing)
