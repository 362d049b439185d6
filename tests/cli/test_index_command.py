"""`canserve index`: what there is, and names that are not."""

from __future__ import annotations

import re

from command import run

from canserve.engines import NAMES


def test_status_names_every_project() -> None:
    done = run("index", "status")
    assert done.returncode == 0
    assert done.stderr == ""
    named = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    assert set(NAMES) < set(named)
    assert all(
        re.search(r": \d+ releases, to \S+, of \d{4}-\d\d-\d\d$", line) for line in done.stdout.splitlines()
    )


def test_an_unknown_project_gets_the_nearest_name() -> None:
    done = run("index", "update", "transformers-libary")
    assert done.returncode == 2
    assert "There is no index of 'transformers-libary'. Did you mean transformers-library" in done.stderr
    assert done.stdout == ""
