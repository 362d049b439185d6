"""Write the message catalogue from releases on disk: bench/messages.py ENGINE=FOLDER ...

FOLDER holds one zip of each release (1.2.3.zip, its Python files), as a download of its wheels or sdists gives.
Messages of engines that are not named stay as they are.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from packaging.version import InvalidVersion, Version

from canserve import index
from canserve.index.messages import DATA, Message, area_holds, packed, read_release, unpacked
from canserve.rules.failures import knowledge

OUT = Path(index.__file__).parent / DATA


def releases(folder: Path) -> list[tuple[Version, Path]]:
    """The releases of a folder, oldest first."""
    found = []
    for path in folder.glob("*.zip"):
        try:
            found.append((Version(path.stem), path))
        except InvalidVersion:
            print(f"passed over {path.name}: no version", file=sys.stderr)
    return sorted(found)


def read(engine: str, folder: Path) -> Iterable[Message]:
    """Every message of an engine, with the releases that have it."""
    areas = [area for area in knowledge().areas if area.engine == engine]
    known: dict[bytes, list[tuple[str, int, str]]] = {}
    seen: dict[tuple[str, str], Message] = {}
    for version, path in releases(folder):
        with zipfile.ZipFile(path) as archive:
            names = [
                n for n in archive.namelist() if n.endswith(".py") and any(area_holds(a, n) for a in areas)
            ]
            for name in names:
                data = archive.read(name)
                key = sha256(name.encode() + b"\0" + data).digest()
                if key not in known:
                    known[key] = list(read_release({name: data.decode("utf-8", "replace")}, areas))
                for file, line, template in known[key]:
                    first = seen[file, template].first if (file, template) in seen else str(version)
                    seen[file, template] = Message(engine, file, line, first, str(version), template)
    return seen.values()


def main(arguments: list[str]) -> int:
    """Read what is named, keep the rest, write the file."""
    if not arguments or not all("=" in argument for argument in arguments):
        print(__doc__)
        return 2
    named = {name: Path(folder) for name, _, folder in (each.partition("=") for each in arguments)}
    kept = [m for m in (unpacked(OUT.read_bytes()) if OUT.exists() else ()) if m.engine not in named]
    found = [message for engine, folder in named.items() for message in read(engine, folder)]
    OUT.write_bytes(packed([*kept, *found]))
    for engine in named:
        print(f"{engine}: {sum(m.engine == engine for m in found)} messages")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
