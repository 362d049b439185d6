"""Which index pip uses when none is configured. No address is written here: the installed pip is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import cache

from canserve.facts import Cause, Evidence, Missing

ASK = "set PIP_INDEX_URL to a package index"
_SUBJECT = "pip's default index"


@cache
def default_index() -> str | Missing:
    """Its address, from the pip beside this Python or else the first one on the path."""
    try:
        from pip._internal.models.index import PyPI

        return str(PyPI.simple_url)
    except (ImportError, AttributeError):
        pass
    tried = []
    for python in (sys.executable, shutil.which("python3"), shutil.which("python")):
        if not python or python in tried:
            continue
        tried.append(python)
        if (url := _from_help(python)) is not None:
            return url
    how = " or ".join(f"{python} -m pip download --help" for python in tried)
    return Missing(
        Cause.UNAVAILABLE,
        "no package index is configured, and there is no pip here whose default could be used",
        (Evidence(_SUBJECT, how or "python3 -m pip", "no pip", whole=False),),
        ASK,
    )


def _from_help(python: str) -> str | None:
    """The default that pip's own help text states for ``--index-url``."""
    command = [python, "-I", "-m", "pip", "download", "--help"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - fixed words
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = re.search(r"\(default\s+(https?://[^\s)]+)\)", re.sub(r"\s+", " ", done.stdout))
    return match[1] if match else None
