"""Checks of a model's files ask here first whether its files were there to be looked at."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.reader import NotApplicable, Reader

RECORDED_HEADERS = "model.headers.json"
"""Stands in a folder in place of weights; such a folder describes a model and does not hold it."""

REMOTE_ASK = "read that code, then judge again with -- --trust-remote-code"
"""What settles it where a model needs its own code; it is never read or run here."""


def model_files(reader: Reader, case: Case) -> tuple[str, ...]:
    """Names of all files. Raises NotApplicable where only a description of the model was given."""
    if case.model.origin == "config":
        raise NotApplicable("only a config was given")
    files = reader.read(case.model.files)
    if RECORDED_HEADERS in files:
        raise NotApplicable(f"{RECORDED_HEADERS} describes the model; its files are elsewhere")
    return files
