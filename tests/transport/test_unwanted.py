"""Looks that nobody waits for any more: they end at once, in whichever thread they are, and are told from those that were late."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look, look_here
from canserve.trees.fanout import fanout
from canserve.trees.unwanted import until, unwanted

SILENT = (Section("silent", "sleep 1000"),)
LONG = Limits(whole=90)


def looked(name: str) -> Look:
    return look_here(name, SILENT, LONG)


def test_a_look_that_says_nothing_ends_when_it_is_not_wanted_any_more() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with until(stop):
        looks = fanout(looked, ("a", "b", "c"))
        assert unwanted()
    assert not unwanted()
    assert [look.answers for look in looks] == [{}, {}, {}]
    assert all(look.trouble is not None and "nobody waits for it" in look.trouble.why for look in looks)


def test_others_are_not_ended_with_it() -> None:
    stop = threading.Event()
    stop.set()
    with until(stop):
        pass
    assert look_here("a", (Section("said", "sleep 1; echo yes"),), LONG).answers["said"].text == "yes\n"


def test_whoever_is_asked_to_stop_is_asked_while_nothing_comes() -> None:
    began = time.monotonic()
    look = look_here("a", SILENT, Limits(whole=90, stop=lambda: time.monotonic() > began + 0.3))
    assert look.answers == {} and look.trouble is not None and "no end within" not in look.trouble.why


def test_who_interrupts_many_looks_waits_for_none_of_them() -> None:
    begun = threading.Barrier(3)

    def look(name: str) -> Look:
        if begun.wait(60) == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return looked(name)

    with pytest.raises(KeyboardInterrupt):
        fanout(look, ("a", "b", "c"))
