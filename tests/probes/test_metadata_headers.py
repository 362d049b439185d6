"""Core metadata headers: folded values, and where they end."""

from __future__ import annotations

from canserve.probes.discover.metadata import core_headers


def test_a_folded_header_may_hold_lines_of_blanks() -> None:
    licence = b"License:  Apache\n          \n          Version 2\n"
    text = b"Name: x\n" + licence + b"Requires-Dist: torch==2.9.1\n\nRequires-Dist: no\n"
    headers = core_headers(text)
    assert headers["requires-dist"] == ["torch==2.9.1"]
    assert headers["license"][0].startswith("Apache")
