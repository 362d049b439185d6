"""model-readable: who reads decides what a permission means; what could not be seen is never a no."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from canserve.checks.deployment import CHECKS
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.deployment import Mount
from canserve.subjects.placed import ModelRead, Placed, Who
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes, word

LOOK = (Evidence("head", "the way to /srv/m", "seen"),)
THERE = Placed("/srv/m", "there", 1000, system="ext2/ext3", files=3, shy=(), lent=())
BARRED = Placed("/srv/m", "barred", 1000, "/srv", "drwx------ root root")
CLOSED = replace(THERE, barred=("a.safetensors", "b.safetensors"), shy=("/srv/m/a.safetensors",))
SHY = replace(THERE, shy=("/srv/m",))
MOUNT = (Mount("/srv/m", "/srv/m"),)
NOT_SEEN = Missing(Cause.UNREACHED, "head: not reached", LOOK)


def judged(
    placed: Placed | Missing, who: Who | Missing = "login", program: str = "process", **more: Any
) -> Finding | Skipped:
    fact: Fact[Placed] = placed if isinstance(placed, Missing) else Known(placed, LOOK)
    reader: Fact[Who] = who if isinstance(who, Missing) else Known(who, LOOK)
    mounts = () if program == "process" else MOUNT
    it = ModelRead("/srv/m", {"head": fact}, {"head": reader}, program, **({"mounts": mounts} | more))
    (check,) = CHECKS
    return check.judge(it, "head")


def verdict(*words: Any, **more: Any) -> Verdict:
    found = judged(*words, **more)
    assert isinstance(found, Finding), found
    assert found.evidence
    return found.verdict


@pytest.mark.parametrize(
    ("placed", "who", "program", "expected"),
    [
        (THERE, "login", "process", "yes"),
        (SHY, "login", "process", "yes"),
        (THERE, "other", "docker", "yes"),
        (SHY, "other", "docker", "unknown"),
        (SHY, "root", "docker", "yes"),
        (replace(SHY, system="nfs"), "root", "docker", "unknown"),
        (replace(THERE, shy=None), "other", "docker", "unknown"),
        (SHY, "lone", "podman", "yes"),
        (replace(SHY, lent=("/srv/m",)), "lone", "podman", "no"),
        (replace(SHY, lent=("/srv/m",)), "login", "process", "yes"),
        (replace(SHY, shy=None, lent=None), "lone", "podman", "unknown"),
        (THERE, "confined", "podman", "unknown"),
        (CLOSED, "confined", "docker", "unknown"),
        (CLOSED, "login", "process", "no"),
        (CLOSED, "lone", "podman", "no"),
        (CLOSED, "root", "docker", "yes"),
        (replace(CLOSED, system="nfs"), "root", "docker", "unknown"),
        (replace(CLOSED, system=""), "root", "docker", "unknown"),
        (CLOSED, "other", "docker", "unknown"),
        (BARRED, "login", "process", "no"),
        (BARRED, "lone", "podman", "no"),
        (BARRED, "root", "docker", "unknown"),
        (BARRED, "other", "docker", "unknown"),
        (replace(THERE, dangling=("x",)), "root", "docker", "no"),
        (Placed("/srv/m", "absent", 0, "/srv"), "root", "docker", "no"),
        (Placed("/srv/m", "dangling", 0, "/srv"), "root", "docker", "no"),
        (NOT_SEEN, "login", "process", "unknown"),
        (CLOSED, NOT_SEEN, "docker", "unknown"),
        (THERE, NOT_SEEN, "docker", "unknown"),
    ],
)  # fmt: skip
def test_who_reads_decides(placed: Placed | Missing, who: Who | Missing, program: str, expected: str) -> None:
    assert word(verdict(placed, who, program)) == expected


def test_it_says_what_and_what_would_heal_it() -> None:
    no = verdict(BARRED)
    assert isinstance(no, No)
    assert no.because == "the login there may not read /srv (drwx------ root root)"
    assert no.fix == "let it read that, as the owner: chmod -R a+rX /srv"
    no = verdict(CLOSED)
    assert isinstance(no, No) and "a.safetensors and 1 more" in no.because
    unknown = verdict(SHY, "other", "docker")
    assert isinstance(unknown, Unknown) and unknown.ask.endswith("chmod -R a+rX /srv/m")


def test_what_comes_or_is_fetched_is_not_missed() -> None:
    absent = Placed("/srv/m", "absent", 0, "/srv/m")
    assert isinstance(judged(absent, coming=frozenset({"head"})), Skipped)
    assert isinstance(judged(absent, fetched=True), Skipped)
    assert isinstance(judged(absent, coming=frozenset({"second"})), Finding)
    assert word(verdict(BARRED, fetched=True)) == "no"
    partly = replace(THERE, dangling=("x",))
    assert word(verdict(partly, coming=frozenset({"head"}))) == "yes"
    assert isinstance(judged(replace(THERE, files=0)), Skipped)


def test_a_link_out_of_what_a_container_is_given() -> None:
    """The Hub's snapshots are links into its blobs: a mount of a snapshot alone holds no weights."""
    snapshot, text = "/hub/models--m/snapshots/a", "../../blobs/1"
    placed = replace(THERE, path=snapshot, links=((f"{snapshot}/model.safetensors", text),))
    alone = (Mount(snapshot, snapshot),)
    no = verdict(placed, "root", "docker", mounts=alone)
    assert isinstance(no, No) and "which its container is not given" in no.because
    assert "/hub/models--m/blobs" in no.fix
    for mounts in (
        (Mount("/hub/models--m", "/m"),),
        (Mount("/hub", "/hub"),),
        (*alone, Mount("/hub", "/hub")),
    ):
        assert isinstance(verdict(placed, "root", "docker", mounts=mounts), Yes)
    assert isinstance(verdict(placed, "login", "process", mounts=()), Yes)
    absolute = replace(THERE, links=(("/srv/m/model.safetensors", "/store/1"),))
    assert isinstance(verdict(absolute, "root", "docker"), No)
    assert isinstance(verdict(absolute, "root", "docker", mounts=(*MOUNT, Mount("/store", "/store"))), Yes)
