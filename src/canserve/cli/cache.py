"""``canserve cache``: what was kept of earlier reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from canserve.cli.output import emit
from canserve.units import Bytes


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove all of it; it is fetched again when needed.")
def command(clear: bool) -> int:
    """Where earlier reads are kept, and how large.

    The folder is your cache folder, or what CANSERVE_CACHE names.
    """
    from canserve.render.escape import visible
    from canserve.trees.cache import Cache

    folder = Cache().folder
    files, size = usage(folder)
    if clear:
        shutil.rmtree(folder, ignore_errors=True)
        emit(f"removed {files - usage(folder)[0]} files, {Bytes(size)}\n")
    else:
        emit(f"{visible(str(folder))}\n{files} files, {Bytes(size)}\n")
    return 0


def usage(folder: Path) -> tuple[int, int]:
    """Number and total size of the files below a folder."""
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)
