"""The message catalogue: from a line of a log to the place that raised it, and how it is kept up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_index import SmallIndex

from canserve.index.messages import Catalogue, Message, named_in, origin, packed, read_file, shipped, unpacked
from canserve.rules.failures import Area, knowledge

FILE = "vllm/model_executor/layers/quantization/fives.py"
RAISED = Message("vllm", FILE, 7, "0.9.0", "0.12.0", "Weights of {} cannot be packed in groups of {} letters")
DAY = "2026-11-30"


def test_a_line_leads_to_the_file_and_releases_that_raise_it() -> None:
    other = Message("vllm", FILE, 9, "0.9.0", "0.9.0", "cannot be packed in groups of")
    found = origin("ValueError: Weights of layer 3 cannot be packed in groups of 5 letters", [other, RAISED])
    assert found is not None
    assert found.message is RAISED
    assert found.area.kind == "quantisation-vs-gpu"
    assert found.place == f"{FILE}:7 (vllm 0.9.0 to 0.12.0)"
    assert origin("letters cannot be packed in groups of Weights", [RAISED]) is None


def test_what_is_packed_comes_back() -> None:
    found = unpacked(packed([RAISED], DAY))
    assert (found.messages, found.built) == ((RAISED,), DAY)
    for damaged in (b"", b"nothing", packed([RAISED], DAY)[:-9], packed([RAISED], DAY)[::-1]):
        with pytest.raises(ValueError, match="catalogue"):
            unpacked(damaged)


def test_only_telling_messages_are_read() -> None:
    text = 'def f(a):\n    raise ValueError(f"a message of this file that says enough: {a}")\n    raise ValueError("short")\n'
    assert read_file(FILE, text) == ((2, "a message of this file that says enough: {}"),)
    assert read_file("src/a.cpp", 'void f() { throw E("a message that says enough: " + x); }') == (
        (1, "a message that says enough: {}"),
    )


def test_a_file_is_named_without_the_folders_around() -> None:
    area = Area("llama.cpp", ("src/llama-vocab.cpp", "common/jinja/*"), "weights", "", "", "")
    assert (
        named_in(area, "llama_cpp_python-0.3.36/vendor/llama.cpp/src/llama-vocab.cpp")
        == "src/llama-vocab.cpp"
    )
    assert named_in(area, "a/common/jinja/x.cpp") == "common/jinja/x.cpp"
    assert named_in(area, "src/llama-vocab.cpp") == "src/llama-vocab.cpp"
    assert named_in(area, "src/llama-vocab.h") is None


def test_releases_are_added_oldest_first() -> None:
    found = Catalogue([RAISED])
    found.add(
        "vllm", "0.13.0", [(FILE, 12, RAISED.template), (FILE, 30, "something that nobody said before")]
    )
    moved, new = sorted(found.messages, key=lambda each: each.line)
    assert (moved.line, moved.first, moved.last) == (12, "0.9.0", "0.13.0")
    assert (new.first, new.last) == ("0.13.0", "0.13.0")


def test_the_shipped_one_knows_messages_of_every_engine_that_has_areas() -> None:
    found = shipped()
    assert {message.engine for message in found.messages} == {area.engine for area in knowledge().areas}
    assert all(message.first and message.last and message.line for message in found.messages)
    assert found.built.startswith("20")


def test_an_update_reads_what_is_new_and_the_user_has_it(tmp_path: Path) -> None:
    small = SmallIndex(tmp_path)
    raised = '{}\ndef f(a):\n    raise ValueError(f"moths of type {a} are not served here at all")\n'
    small.wheel("4.50.0", raised)  # known already, by what is shipped
    assert _updated(small) == "transformers 0 0 {}\n"
    small.wheel("99.0.0", raised)
    assert _updated(small) == "transformers 1 1 {}\n"
    found = unpacked((small.mine / "messages.zlib").read_bytes())
    (mine,) = (each for each in found.messages if "moths of type" in each.template)
    assert (mine.file, mine.line, mine.first) == (
        "transformers/models/auto/configuration_auto.py",
        3,
        "99.0.0",
    )
    assert len(found.messages) == len(shipped().messages) + 1
    assert _updated(small) == "transformers 0 0 {}\n"
    log = tmp_path / "log"
    log.write_text("ValueError: moths of type owl are not served here at all\n")
    done = subprocess.run(
        [sys.executable, "-m", "canserve", "diagnose", str(log)],
        capture_output=True, text=True, check=False, env=dict(small.environment),
    )  # fmt: skip
    assert "configuration_auto.py:3 (transformers 99.0.0 to 99.0.0)" in done.stdout, done.stdout + done.stderr
    small.wheel("99.1.0", raised, broken=True)
    small.wheel("99.2.0", raised)
    assert "99.1.0" in _updated(small), "it says why not"


def _updated(small: SmallIndex) -> str:
    program = (
        "from dataclasses import replace\n"
        "from canserve.index.building import Order\n"
        "from canserve.index.message_building import update\n"
        "from canserve.index.places import user_folder\n"
        "from canserve.index.sources import projects\n"
        "from canserve.probes.build import BuildOptions\n"
        "project = next(p for p in projects() if p.name == 'transformers')\n"
        "order = Order(user_folder(), tell=lambda _: None)\n"
        "for each in update([project], BuildOptions(), order):\n"
        "    print(each.project, each.read, each.new, dict(each.troubles))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=dict(small.environment),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
