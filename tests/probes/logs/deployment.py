"""Small deployments for the tests: texts in, a diagnosis out."""

from __future__ import annotations

import io

from canserve.api.diagnosing import judged
from canserve.checks.diagnosis.log import Reading
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.rules.failures import knowledge
from canserve.subjects.diagnosis import Diagnosis

MATCHER = Matcher(knowledge())


def reading(text: str | bytes, name: str = "log") -> Reading:
    """One file, read."""
    data = text.encode() if isinstance(text, str) else text
    return read_log(name, io.BytesIO(data), MATCHER)


def diagnosed(**texts: str | bytes) -> Diagnosis:
    """The diagnosis of files, each named by its keyword."""
    return judged([reading(text, name) for name, text in texts.items()], MATCHER.knowledge)
