"""A file of candidates: its form, and each way of getting it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.probes.offers.candidates_file import (
    CandidatesFileError,
    parse_candidates,
    read_candidates_file,
)
from canserve.probes.toml_file import MAX_BYTES
from canserve.rules.hubs import Hub

GOOD = b"""
[[candidate]]
build = "docker://registry.example/team/engine:2026-03"
note = "what the other cluster runs"

[[candidate]]
build = "./venv"

[[candidate]]
tags = "docker://registry.example/team/engine:2026-*"

[[hub]]
kind = "docker-hub"
address = "https://hub.example/"
registry = "registry.example"
"""


def test_what_it_names() -> None:
    found = parse_candidates(GOOD, "c.toml")
    first, second = found.offers
    assert first.target == "docker://registry.example/team/engine:2026-03" and first.source == "file"
    assert first.note == "what the other cluster runs" and second.target == "./venv"
    assert found.tags == ("docker://registry.example/team/engine:2026-*",)
    assert found.hubs == (Hub("docker-hub", "https://hub.example", "registry.example"),)
    assert parse_candidates(b"", "c.toml").offers == ()


HUB = '[[hub]]\nkind = "quay"\naddress = "{}"\nregistry = "r"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[candidates]]", "no table is called 'candidates'; did you mean candidate?"),
        ("[candidate]\nbuild = 'x'", "with two brackets"),
        ("candidate = [1]", "candidate 1: it is no table"),
        ("[[candidate]]\nbuid = 'x'", "no key is called 'buid'; did you mean build?"),
        ("[[candidate]]\nnote = 'x'", "either build or tags"),
        ("[[candidate]]\nbuild = 'x'\ntags = 'y'", "either build or tags"),
        ("[[candidate]]\nbuild = 5", "build is no text"),
        ("[[candidate]]\nbuild = ' '", "build is no text"),
        ("[[hub]]\nkind = 'quay'", "address is missing"),
        ("[[hub]]\nkind = 'dockerhub'\naddress = 'https://x'\nregistry = 'r'", "did you mean docker-hub?"),
        (HUB.format("ftp://x"), "no address of a web server"),
        (HUB.format("https://[x"), "no address of a web server"),
        ("[[candidate", "c.toml: "),
        ("a = " + "[" * 5000, "c.toml: "),
        ("[[candidate]]\nbuild = 'x'\n" * 1001, "at most 1000"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(CandidatesFileError, match=r"^c\.toml: ") as error:
        parse_candidates(text.encode(), "c.toml")
    assert said in str(error.value) and str(error.value).isprintable()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "absent.toml", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(CandidatesFileError, match=said):
            read_candidates_file(path)
    (tmp_path / "large.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(CandidatesFileError, match="larger than"):
        read_candidates_file(tmp_path / "large.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(CandidatesFileError, match="utf-8"):
        read_candidates_file(tmp_path / "latin.toml")
