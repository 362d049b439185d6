"""Folders and files without permission: read by a process that has none, for root may read everything."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROBE = """
import json, os, sys
from pathlib import Path
from canserve.trees.folder import FolderTree
from canserve.trees.tree import TreeError
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = FolderTree(Path(sys.argv[1]), "tree")
listed = tree.listing()
def read(path):
    try:
        return tree.read(path).decode()
    except TreeError as error:
        return error.missing.cause
print(json.dumps({
    "entries": sorted(listed.entries),
    "holes": {hole.prefix: hole.missing.cause for hole in listed.holes},
    "open": read("open/a.py"), "shut": read("shut/a.py"), "file": read("open/secret.py"),
    "blind": read("blind/a.py"),
}))
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="canserve-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(folder)


def test_what_cannot_be_listed_or_read_is_a_hole_with_a_cause(shared_folder: Path) -> None:
    root = shared_folder / "tree"
    for name in ("open", "shut", "blind"):
        (root / name).mkdir(parents=True)
        (root / name / "a.py").write_text("a = 1")
    (root / "open" / "secret.py").write_text("b = 2")
    (root / "open" / "secret.py").chmod(0)
    (root / "shut").chmod(0o000)
    (root / "blind").chmod(0o444)  # its names can be read, but nothing in it
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(root)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "entries": ["open/a.py", "open/secret.py"],
        "holes": {"shut": "unavailable", "blind/a.py": "unavailable"},
        "open": "a = 1",
        "shut": "unavailable",
        "file": "unavailable",
        "blind": "unavailable",
    }
