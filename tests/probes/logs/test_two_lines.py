"""C++ tells of an exception in two lines: the second is what it says."""

from __future__ import annotations

import io

from canserve.api.diagnosing import judged, shipped_matcher
from canserve.probes.logs.reading import read_log
from canserve.subjects.diagnosis import Diagnosis

ANNOUNCED = "terminate called after throwing an instance of 'std::runtime_error'\n"


def told(text: str) -> Diagnosis:
    matcher = shipped_matcher()
    return judged([read_log("log", io.BytesIO(text.encode()), matcher)], matcher.knowledge)


def test_what_it_says_is_the_cause() -> None:
    found = told(
        f"main: loading\n{ANNOUNCED}  what():  Unknown (built-in) filter 'sparkle' for type String\nAborted (core dumped)\n"
    )
    assert found.cause is not None and "filter 'sparkle'" in found.cause.text
    assert (found.state, found.kind) == ("failed", "tokenizer-template-parser"), (
        "llama.cpp's templates raise it"
    )
    assert "common/jinja/runtime.cpp" in found.next_look[0]


def test_without_a_second_line_the_first_is_kept() -> None:
    found = told(f"main: loading\n{ANNOUNCED}Aborted (core dumped)\n")
    assert found.state == "failed" and found.cause is not None
