"""Sections that send signs of life, and looks that are ended from here."""

from __future__ import annotations

import threading

from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits, look_here


def test_only_a_live_section_has_the_scripts_own_output() -> None:
    sections = (
        Section("beats", "printf '\\0' >&9; echo told; printf '\\0' >&9", live=True),
        Section("plain", "{ printf x >&9; } 2>/dev/null || echo closed"),
    )
    look = look_here("here", sections)
    beats, plain = look.section("beats"), look.section("plain")
    assert (
        isinstance(beats, Answer) and beats.text.replace("\0", "") == "told\n" and beats.out.count(b"\0") == 2
    )
    assert isinstance(plain, Answer) and plain.text == "closed\n" and look.trouble is None


def test_a_look_ends_when_it_is_not_wanted_any_more() -> None:
    stop = threading.Event()
    stop.set()
    endless = Section("beats", "while printf '\\0' >&9; do sleep 0.1; done", live=True)
    look = look_here("here", (endless,), Limits(whole=60.0, stop=stop.is_set))
    assert look.trouble is not None and not isinstance(look.section("beats"), Answer)
