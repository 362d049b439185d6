"""A build's files as readers see them: nothing is lost by how they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines.sources import HELD, Sources
from canserve.facts import Cause, Known, Missing

FILES = {f"a/{n}.py": bytes([65 + n]) * (HELD // 3) for n in range(8)}
GONE = Missing(Cause.UNREADABLE, "checksum")


def sources(asked: list[Sequence[str]]) -> Sources:
    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        asked.append(paths)
        return {path: FILES.get(path, GONE) for path in paths}

    return Sources("build", [*FILES, "a/bad.py"], fetch)


def test_many_large_files_come_back_as_they_were_and_are_fetched_once() -> None:
    asked: list[Sequence[str]] = []
    view = sources(asked)
    view.prefetch([*FILES, "a/bad.py"])
    for path, data in FILES.items():
        fact = view.raw(path)
        assert isinstance(fact, Known)
        assert fact.value == data
    assert view.raw("a/bad.py") == GONE
    assert len(asked) == 1


def test_a_file_that_is_not_there_is_known_to_be_absent() -> None:
    fact = sources([]).raw("a/none.py")
    assert isinstance(fact, Known)
    assert fact.value is None


def test_a_form_is_not_called_unknown_where_a_file_could_not_be_had() -> None:
    view = sources([])
    assert view.unknown_form("a/0.py", "odd").why == "a/0.py: unknown form: odd"
    view.raw("a/bad.py")
    assert view.unknown_form("a/0.py", "odd") == GONE
