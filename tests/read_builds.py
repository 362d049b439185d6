"""What was read of a build, as tests of readers ask for it."""

from __future__ import annotations

import dataclasses
from textwrap import dedent

from canserve.facts import Known, Missing
from canserve.subjects.build import Build, ModelClass, Registered


def as_bytes(text: str | bytes | Missing) -> bytes | Missing:
    """A file's content as tests write it."""
    return dedent(text).encode() if isinstance(text, str) else text


def row(build: Build, name: str) -> Registered:
    """A row of the registry."""
    assert isinstance(build.registry, Known), build.registry
    return build.registry.value[name]


def model(build: Build, name: str) -> ModelClass:
    """A resolved class."""
    found = build.classes[name]
    assert isinstance(found, Known), found
    assert found.value is not None, found.evidence
    return found.value


def every_fact_is_one(build: Build) -> None:
    """Whatever was read, each field is known or missing."""
    for field in dataclasses.fields(build):
        if field.name not in {"identity", "transformers", "classes", "stack"}:
            assert isinstance(getattr(build, field.name), Known | Missing), field.name
    assert all(isinstance(fact, Known | Missing) for fact in build.classes.values())
