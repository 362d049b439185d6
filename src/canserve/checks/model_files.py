"""Checks of a model's files ask here first whether its files were there to be looked at."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.reader import NotApplicable, Reader
from canserve.facts import Known

RECORDED_HEADERS = "model.headers.json"
"""Stands in a folder in place of weights; such a folder describes a model, and may hold some of its files."""

REMOTE_ASK = "read that code, then judge again with -- --trust-remote-code"
"""What settles it where a model needs its own code; it is never read or run here."""


def needs_files(case: Case) -> None:
    """Raises NotApplicable where only a config was given."""
    if case.model.origin == "config":
        raise NotApplicable("only a config was given")


def not_described(reader: Reader, case: Case) -> None:
    """Raises NotApplicable where the files that are not there are elsewhere: a folder that describes a model."""
    if case.model.origin == "gguf":  # a file that was named itself is there
        return
    if RECORDED_HEADERS in reader.read(case.model.files):
        raise NotApplicable(f"{RECORDED_HEADERS} describes the model; its files are elsewhere")
    if case.model.origin == "folder" and _only_config(reader, case):
        raise NotApplicable("the folder holds a config, but neither weights nor a tokenizer")


def _only_config(reader: Reader, case: Case) -> bool:
    """Whether a folder was copied for its config alone: it says what a model is, and is not the model."""
    tokenizer = reader.try_read(case.model.tokenizer)
    unweighted = isinstance(case.model.weight_format, Known) and case.model.weight_format.value is None
    return unweighted and tokenizer is not None and not tokenizer.files
