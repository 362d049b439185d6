"""The message catalogue: from a line of a log to the place that raised it."""

from __future__ import annotations

import pytest

from canserve.index.messages import Message, origin, packed, read_release, shipped, unpacked
from canserve.rules.failures import knowledge

FILE = "vllm/model_executor/layers/quantization/fives.py"
RAISED = Message("vllm", FILE, 7, "0.9.0", "0.12.0", "Weights of {} cannot be packed in groups of {} letters")


def test_a_line_leads_to_the_file_and_releases_that_raise_it() -> None:
    other = Message("vllm", FILE, 9, "0.9.0", "0.9.0", "cannot be packed in groups of")
    found = origin("ValueError: Weights of layer 3 cannot be packed in groups of 5 letters", [other, RAISED])
    assert found is not None
    assert found.message is RAISED
    assert found.area.kind == "quantisation-vs-gpu"
    assert found.place == f"{FILE}:7 (vllm 0.9.0 to 0.12.0)"
    assert origin("letters cannot be packed in groups of Weights", [RAISED]) is None


def test_what_is_packed_comes_back() -> None:
    assert unpacked(packed([RAISED])) == (RAISED,)
    for damaged in (b"", b"nothing", packed([RAISED])[:-9], packed([RAISED])[::-1]):
        with pytest.raises(ValueError, match="catalogue"):
            unpacked(damaged)


def test_only_areas_and_telling_messages_are_read() -> None:
    text = 'def f(a):\n    raise ValueError(f"a message of this file that says enough: {a}")\n    raise ValueError("short")\n'
    areas = [area for area in knowledge().areas if area.engine == "vllm"]
    assert [line for _, line, _ in read_release({FILE: text, "vllm/other.py": text}, areas)] == [2]


def test_the_shipped_one_knows_messages_of_every_area() -> None:
    found = shipped()
    assert {message.engine for message in found} >= {"vllm", "sglang"}
    assert all(message.first and message.last and message.line for message in found)
