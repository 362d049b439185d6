"""Bring the shipped message catalogue up to date: bench/messages.py [PROJECT ...]

As `canserve index update` does with the user's own: releases after the last one that the catalogue knows of each
project are read from the package index; of a project that it does not know, all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from canserve import index
from canserve.index.building import Order
from canserve.index.message_building import update
from canserve.index.messages import DATA, shipped
from canserve.index.sources import projects
from canserve.probes.build import BuildOptions


def main(names: list[str]) -> int:
    """Read what is new, write the file, and say what is in it."""
    wanted = [project for project in projects() if not names or project.name in names]
    path = Path(index.__file__).parent / DATA
    order = Order(path.parent, tell=lambda said: print(said, file=sys.stderr))
    for gained in update(wanted, BuildOptions(), order):
        print(f"{gained.project}: {gained.read} releases read, {gained.new} messages more")
        for name, why in gained.troubles.items():
            print(f"  {name}: {why}")
    shipped.cache_clear()
    for engine in sorted({message.engine for message in shipped().messages}):
        print(f"{engine}: {sum(m.engine == engine for m in shipped().messages)} messages")
    print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
