"""``canserve index``, for a library of which no index is shipped."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from small_index import LIBRARY

from canserve.cli import say_what_was_passed_over
from canserve.cli.edge import Edge
from canserve.cli.index import run, show
from canserve.index.sources import Project, projects


def project() -> Project:
    return replace(projects()[-1], name=LIBRARY)


def main() -> None:
    verb, *rest = sys.argv[1:]
    into = Path(rest[1]) if rest[:1] == ["--into"] else None
    with Edge() as edge:
        if verb == "status":
            edge.code = show([project()])
            say_what_was_passed_over()
        else:
            edge.code = run([project()], into, False, fresh=verb == "build")


if __name__ == "__main__":
    main()
