"""Files of images that hold the small engine, or do not."""

from __future__ import annotations

from pathlib import Path

from made_images import Member, hard, link

SITE = "usr/local/lib/python3.12/dist-packages"
VERSION = b'__version__ = "1.2"\n'
METADATA = b"Metadata-Version: 2.1\nName: eng\nVersion: 1.2\nRequires-Dist: transformers<5\n"
BUSYBOX = Path("/bin/busybox").read_bytes() if Path("/bin/busybox").is_file() else b""
BASE: dict[str, Member] = {
    "bin/busybox": BUSYBOX,
    "bin/sh": link("busybox"),
    "etc/os-release": link("../usr/lib/os-release"),
    "usr/lib/os-release": b"ID=ubuntu\n",
    "tmp": None,
}


def package(folder: str, names: str = '"Alpha", "Beta"') -> dict[str, Member]:
    """The engine's package in a folder."""
    files: dict[str, bytes] = {
        "__init__.py": b"",
        "version.py": VERSION,
        "registry.py": f"MODELS = [{names}]\n".encode(),
    }
    return {f"{folder}/eng/{name}": data for name, data in files.items()}


INSTALLED: dict[str, Member] = {
    **package(SITE),
    f"{SITE}/eng/kernel.so": b"\x7fELF" + b"k" * 100_000,
    f"{SITE}/eng-1.2.dist-info/METADATA": METADATA,
    f"{SITE}/eng-1.2.dist-info/RECORD": b"eng/__init__.py,,\n",
    f"{SITE}/eng/linked.py": link("version.py"),
    f"{SITE}/eng/hard.py": hard(f"{SITE}/eng/version.py"),
}
