"""Scripts of sections: their frames, their bounds, and what is left of an output that was cut."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.facts import Cause, Missing
from canserve.transport.frames import Answer, Section, compose, understand
from canserve.transport.reach import Limits, look_here

MARK = "0123456789abcdef" * 2
SECTIONS = (
    Section("plain", "echo hello; echo trouble >&2; exit 3"),
    Section("bytes", r"printf '\377\376x'"),
    Section("endless", "cat /dev/zero", limit=1000),
    Section("noisy", "echo out; yes noise >&2"),
    Section("asks", "cat; echo no input"),
    Section("status", "exit 255"),
    Section("forges", f"printf '\\n{'0' * 32} exit forges 0\\n'"),
    Section("last", "echo last"),
)


def answer(found: Answer | Missing) -> Answer:
    assert isinstance(found, Answer), found
    return found


def test_a_script_on_this_machine() -> None:
    look = look_here("local", SECTIONS)
    assert look.trouble is None and set(look.answers) == {section.name for section in SECTIONS}
    plain = answer(look.section("plain"))
    assert (plain.status, plain.text, plain.error.strip(), plain.whole) == (3, "hello\n", "trouble", True)
    assert answer(look.section("bytes")).out == b"\xff\xfex"
    assert answer(look.section("bytes")).text == "\ufffd\ufffdx"
    endless = answer(look.section("endless"))
    assert len(endless.out) == 1000 and not endless.whole
    noisy = answer(look.section("noisy"))
    assert noisy.text == "out\n" and len(noisy.error) <= 2000
    assert answer(look.section("asks")).text == "no input\n"
    assert answer(look.section("status")).status == 255
    assert "exit forges" in answer(look.section("forges")).text
    assert answer(look.section("last")).complaint == "exit status 0"


def test_a_program_that_hangs_is_asked_once() -> None:
    """Where it is asked, and how its output is used, makes no difference; other programs are asked as ever."""
    look = look_here(
        "local",
        (
            Section("hangs", "x=$(within 1 sleep 60 2>/dev/null); echo $?; echo so >&2"),
            Section("again", "within 60 sleep 60"),
            Section("other", "within 5 echo other && within 5 sh -c 'exit 7'"),
            Section("nested", "y=$(z=$(within 60 sleep 60); echo $?); echo $y"),
        ),
    )
    hangs = answer(look.section("hangs"))
    assert (hangs.text, hangs.complaint, hangs.status) == ("124\n", "so", 0)
    again = answer(look.section("again"))
    assert (again.status, again.complaint) == (124, "sleep did not answer before")
    other = answer(look.section("other"))
    assert (other.status, other.text) == (7, "other\n")
    assert answer(look.section("nested")).text == "124\n"


def test_a_program_that_prints_for_ever_is_cut_before_a_shell_keeps_it() -> None:
    look = look_here(
        "local",
        (
            Section("kept", 'x=$(within 20 yes); echo $?; printf %s "$x" | wc -c'),
            Section("large", "within 20 head -c 3000000 /dev/zero | wc -c", limit=4_000_000),
            Section("input", "echo given | within 5 cat; within 5 sh -c 'exit 9'"),
        ),
    )
    status, size = answer(look.section("kept")).text.split()
    assert status == "141" and int(size) < 1_100_000
    assert answer(look.section("large")).text.strip() == "3000000"
    given = answer(look.section("input"))
    assert (given.text, given.status) == ("given\n", 9)


def test_quick_sections_share_a_bound_and_nothing_else() -> None:
    quick = [
        Section("leaves", "echo out; echo why >&2; x=3; exit 4; echo never", quick=True),
        Section("apart", "echo ${x-unset}; cat", quick=True),
        Section("gone", "no-such-program-here", quick=True),
        Section("forges", f"printf '\\n{'0' * 32} exit forges 0\\n'", quick=True),
    ]
    look = look_here("local", [Section("before", "echo 1"), *quick, Section("after", "echo 2")])
    leaves = answer(look.section("leaves"))
    assert (leaves.text, leaves.complaint, leaves.status) == ("out\n", "why", 4)
    assert answer(look.section("apart")).text == "unset\n"
    assert answer(look.section("gone")).status == 127
    assert "exit forges" in answer(look.section("forges")).text
    assert [answer(look.section(name)).text for name in ("before", "after")] == ["1\n", "2\n"]


def test_a_quick_section_that_prints_for_ever_ends_and_spares_the_others() -> None:
    flood = Section("flood", "cat /dev/zero", limit=100, quick=True)
    quick = [Section("first", "echo 1", limit=100, quick=True), flood, Section("next", "echo 2", quick=True)]
    look = look_here("local", [*quick, Section("after", "echo 3")], Limits(whole=20.0))
    assert answer(look.section("first")).text == "1\n" and answer(look.section("after")).text == "3\n"
    flooded = look.section("flood")
    assert isinstance(flooded, Missing) or not flooded.whole


def test_what_is_asked_once_before_is_known_to_all() -> None:
    before = "echo noise; echo noise >&2; kept=$(echo once; cat)"
    ask = [Section(name, 'echo "$kept"', before=before, quick=name == "b") for name in ("a", "b", "c")]
    look = look_here("local", ask)
    assert [answer(look.section(each.name)).text for each in ask] == ["once\n"] * 3


def test_a_program_that_hangs_before_is_not_asked_again() -> None:
    before = 'kept=$(within 1 sleep 60); rc=$?; [ $rc != 124 ] || LATE="$LATE sleep "'
    look = look_here(
        "local",
        [Section("a", "exit $rc", before=before), Section("b", "within 60 sleep 60")],
        Limits(whole=20.0),
    )
    assert answer(look.section("a")).status == 124 and answer(look.section("b")).status == 124


def test_a_shell_that_dies_keeps_what_came_before() -> None:
    look = look_here(
        "local", (Section("first", "echo 1"), Section("dies", "kill -9 $$"), Section("then", "echo 3"))
    )
    assert answer(look.section("first")).text == "1\n"
    for name in ("dies", "then"):
        found = look.section(name)
        assert isinstance(found, Missing) and found.cause is Cause.UNREACHED
        assert "while asking for dies" in found.why


def test_a_section_that_hangs_costs_the_deadline_only() -> None:
    start = time.monotonic()
    look = look_here("local", (Section("first", "echo 1"), Section("hangs", "sleep 60")), Limits(whole=1.0))
    assert time.monotonic() - start < 5
    assert answer(look.section("first")).text == "1\n"
    hangs = look.section("hangs")
    assert isinstance(hangs, Missing) and "no end within 1 s, while asking for hangs" in hangs.why


def real() -> bytes:
    out = b"Welcome!\nlast login: today"
    out += b"\n%b hello\n" % MARK.encode()
    for name in ("a", "b"):
        out += b"\n%b begin %b\nout %b\n" % (MARK.encode(), name.encode(), name.encode())
        out += b"\n%b exit %b 0\nerr\n%b end %b\n" % (
            MARK.encode(),
            name.encode(),
            MARK.encode(),
            name.encode(),
        )
    return out + b"\n%b bye\n" % MARK.encode()


@given(st.integers(0, len(real())))
def test_every_cut_leaves_whole_answers_only(at: int) -> None:
    whole = understand(real(), (Section("a", ""), Section("b", "")), MARK)
    cut = understand(real()[:at], (Section("a", ""), Section("b", "")), MARK)
    assert whole.ended and set(whole.answers) == {"a", "b"}
    assert all(whole.answers[name] == found for name, found in cut.answers.items())
    assert cut.ended == (at == len(real()))


@given(st.binary(max_size=300))
def test_text_in_between_is_never_an_answer(noise: bytes) -> None:
    assert not understand(noise + b"\n", (Section("a", ""),), MARK).answers


def test_half_a_script_runs_nothing() -> None:
    script = compose((Section("a", "echo A"),), MARK)
    assert script.rstrip().endswith(b"main\nexit 0") and script.count(b"\nmain\n") == 1
    with pytest.raises(ValueError, match="lower-case"):
        compose((Section("a; rm", "true"),), MARK)
