"""A build that went into the index comes back with every fact that is kept, and says where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from packaging.version import Version

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.index import indexed_build
from canserve.index.class_tables import INTERFACES
from canserve.index.engine_rows import row_of
from canserve.index.rebuild import build_at
from canserve.index.records import NOT_READ
from canserve.index.rows import Release, Row, shelve
from canserve.index.shelf import Shelf, pack, unpack
from canserve.index.tables import KEPT, NOT_FACTS, kept_lines, names_of
from canserve.subjects.build import (
    NOT_ASKED,
    AttentionBackend,
    AutoMapRule,
    Build,
    ConfigShim,
    Converted,
    Converter,
    Demand,
    Fallback,
    Flag,
    FlagSyntax,
    GgufVocabularies,
    Identity,
    Import,
    ModelClass,
    QuantMethod,
    Registered,
    Site,
    Taker,
    Transformers,
)

WHERE = Site("release index of 2026-11-30: eng-1.0-py3-none-any.whl", 0)
LOST = Missing(Cause.UNREADABLE, "eng/odd.py: unknown form: odd", (), None)
SEEN = (Evidence("eng==1.0", "eng/a.py", "seen"),)
TABLE = Missing(Cause.UNREACHED, "none here")


def facts(at: Site) -> Mapping[str, Any]:
    """A value for every fact of a build that is kept, everything at one place."""
    needs = (Import("transformers", "AConfig", at), Import("transformers.models.a", None, at))
    interfaces: dict[str, bool | str | None] = {INTERFACES[0]: None, INTERFACES[1]: True}
    rows = {
        "A": Registered("A", "eng.a", "A", "text", at, ("on cuda", "x == 1"), ("turbo", "torch")),
        "B": Registered("B", "eng.b", "BClass", "multi", at),
        "C": Registered("C", "eng.c", "C", "text", at),
        "D": Registered("D", "eng.d", "D", "text", at),
    }
    classes: dict[str, Fact[ModelClass | None]] = {
        "A": Known(ModelClass("eng.a", "A", at, interfaces, needs)),
        "B": Known(ModelClass("eng.b.inner", "BClass", at, dict.fromkeys(INTERFACES, False), needs[:1], ("x (a.py:1)",))),
        "C": Known(None),
        "D": NOT_READ,
    }  # fmt: skip
    methods = {
        "awq": QuantMethod("awq", "AWQ", Known(75), at, ("not hip",), Known(("W 8", "W4")), Known({"W 8": None, "W4": 80})),
        "none": QuantMethod("none", None, Known(None), at, (), Known(()), Known({})),
        "odd": QuantMethod("odd", None, NOT_READ, at, (), NOT_READ, NOT_READ, (Taker("turbo", (Demand("bits", (4, "x", None), None),), "--x", ("g",)),)),
    }  # fmt: skip
    back_ends = {
        "FLASH": AttentionBackend("FLASH", Known((80, 90)), Known(("auto", "fp8")), at),
        "ODD": AttentionBackend("ODD", NOT_READ, Known(()), at),
    }
    converted = {"A": Converted("A", "AModel", "text", "a", at)}
    return {
        "registry": rows,
        "classes": classes,
        "dropped": {"Old": "0.9"},
        "elsewhere": {"Far": "https://example.org/plug in"},
        "plugins": ("group: a = b:c",),
        "fallback": Fallback(
            ("T",), ("exists",), True, False, {"Model": "", "Head": "X"}, True, at, ("Z", "Y")
        ),
        "config_shims": {
            "a": ConfigShim("a", "AConfig", at, True, needs[:1]),
            "b": ConfigShim("b", "BConfig", at),
        },
        "config_fixups": {"a": at},
        "architecture_types": {"A": "a"},
        "architecture_rewrites": {"a": "B"},
        "plain_config": at,
        "trusts_code": None,
        "auto_map_rule": AutoMapRule("AutoModel", ("turbo",), at),
        "quantization": methods,
        "literal_methods": at,
        "vendor_quantization": {"amd": ("awq", "aaa")},
        "kv_cache_dtypes": ("auto", "fp8"),
        "kv_cache_engines": {"fp8": ("turbo",)},
        "engine_flags": {"turbo": "--engine turbo"},
        "reasoning_parsers": (),
        "tool_parsers": ("hermes",),
        "speculative": {"eagle": at},
        "draft_classes": {"A": ("Z", "B")},
        "flags": {
            "--a": Flag("--a", ("x", "y z"), at, ("-a", "--aa"), "values"),
            "--b": Flag("--b", None, at),
            "--c": Flag("--c", (), at, (), "switch"),
        },
        "flag_syntax": FlagSyntax(True, False, at, True, False),
        "attention_backends": back_ends,
        "launchers": ("mp", "ray"),
        "load_formats": ("gguf",),
        "gguf_architectures": {"llama": at},
        "gguf_types": {"Q4_K": 12},
        "gguf_vocabularies": GgufVocabularies({"llama": at}, None, ("gpt2",)),
        "gguf_projectors": {"mlp": at},
        "converter": Converter(converted, {}, (at, at), None, {"fp8": at}),
    }


def build(at: Site, **changed: Any) -> Build:
    values = {**facts(at), **changed}
    classes = values.pop("classes")
    known: dict[str, Any] = {
        key: value if isinstance(value, Missing) else Known(value, SEEN) for key, value in values.items()
    }
    identity = Identity(
        "eng==1.0", "eng", Known("1.0"), "wheel", Known("sha256:00"), Known(("any",)), Known(">=3.9"), Known(("torch==2",))
    )  # fmt: skip
    return Build(identity, Transformers(TABLE, Known(">=4.50"), TABLE), classes=classes, **known)


def shelf(*rows: tuple[str, Row]) -> Shelf:
    releases = []
    for version, row in rows:
        file = f"eng-{version}-py3-none-any.whl"
        listed = {
            "version": version,
            "date": "2026-01-01",
            "file": file,
            "sha256": version,
            "platforms": ["any"],
        }
        releases.append((Release(Version(version), listed, None), replace(row, sha256=version)))
    return unpack(pack(replace(shelve("eng", releases), built="2026-11-30")))


def back(one: Build) -> Build:
    found = build_at(shelf(("1.0", row_of(one, ""))), 0)
    assert isinstance(found, Known)
    return found.value


def test_every_fact_is_kept() -> None:
    kept = {one.field for one in KEPT}
    assert kept | set(NOT_FACTS) == {field.name for field in fields(Build)}
    assert kept >= set(facts(WHERE))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Registered, "architecture module name kind at guards backends"),
        (ModelClass, "module name at interfaces imports broken outside"),
        (ConfigShim, "model_type name at overrides imports"),
        (QuantMethod, "name class_name min_capability at guards schemes scheme_capabilities takers"),
        (Flag, "name choices at aliases kind"),
    ],
)
def test_these_records_have_no_field_that_their_tables_do_not_know(kind: type, names: str) -> None:
    assert [field.name for field in fields(kind)] == names.split()


@pytest.mark.parametrize("field", facts(WHERE))
def test_a_fact_comes_back(field: str) -> None:
    found = getattr(back(build(Site("eng/a.py", 3))), field)
    wanted = facts(WHERE)[field]
    if field == "classes":
        assert {name: _sorted(fact) for name, fact in found.items()} == {
            n: _sorted(f) for n, f in wanted.items()
        }
        return
    assert isinstance(found, Known)
    assert found.value == wanted
    assert found.evidence == (Evidence("eng==1.0", WHERE.file, "sha256:1.0...", when="2026-11-30"),)


def _sorted(fact: Fact[ModelClass | None]) -> object:
    """The order of imports means nothing."""
    if isinstance(fact, Missing) or fact.value is None:
        return fact
    key = sorted((one.module, one.name or "") for one in fact.value.imports)
    return replace(fact.value, imports=()), key


@pytest.mark.parametrize("field", [name for name in facts(WHERE) if name not in {"classes", "registry"}])
@pytest.mark.parametrize("missing", [LOST, NOT_ASKED])
def test_a_fact_that_was_not_read_stays_missing(field: str, missing: Missing) -> None:
    one = build(WHERE, **{field: missing})
    rows = ("1.0", row_of(one, "")), ("1.1", row_of(build(WHERE), ""))
    both = shelf(*rows)
    found, other = (build_at(both, at) for at in (0, 1))
    assert isinstance(found, Known)
    assert isinstance(other, Known)
    fact = getattr(found.value, field)
    assert isinstance(fact, Missing)
    assert fact.ask == "judge it with --build eng==1.0"
    if missing is LOST:
        assert fact.why == "eng==1.0: eng/odd.py: unknown form: odd"
        assert fact.cause is Cause.UNREADABLE
    assert isinstance(getattr(other.value, field), Known)


@pytest.mark.parametrize(
    "field", ["fallback", "gguf_architectures", "converter", "plain_config", "auto_map_rule"]
)
def test_nothing_there_is_known(field: str) -> None:
    fact = getattr(back(build(WHERE, **{field: None})), field)
    assert isinstance(fact, Known)
    assert fact.value is None


@pytest.mark.parametrize("field", ["dropped", "config_fixups", "flags", "gguf_architectures", "quantization"])
def test_known_to_be_empty_is_known(field: str) -> None:
    fact = getattr(back(build(WHERE, **{field: {}})), field)
    assert isinstance(fact, Known)
    assert dict(fact.value) == {}


def test_identity_and_requirement() -> None:
    found = back(build(WHERE))
    identity = found.identity
    assert (identity.subject, identity.engine, identity.version) == (
        "eng==1.0",
        "eng",
        Known("1.0", found.registry.evidence),
    )
    assert isinstance(identity.requires, Known)
    assert identity.requires.value == ("torch==2",)
    assert isinstance(found.transformers.requirement, Known)
    assert found.transformers.requirement.value == ">=4.50"
    assert isinstance(found.transformers.installed, Missing)
    assert isinstance(found.torch, Missing)
    assert identity.origin == "wheel on the package index, as the release index has it"


def test_lines_of_extras_are_kept_where_they_lead_somewhere() -> None:
    wanted = {
        "numpy",
        "torch==2.9 ; extra == 'cuda'",
        "Transformers>=4 ; extra == 'all'",
        "eng[cuda] ; extra == 'all'",
        "numba ; python_version < '3.12'",
    }
    others = {"pytest ; extra == 'test'", "torchaudio ; extra == 'audio'", "engine-x ; extra == 'x'"}
    assert kept_lines("eng", wanted | others) == wanted


def test_names_survive_a_second_time() -> None:
    one = build(WHERE)
    assert names_of(back(one))[0] == names_of(one)[0]


def test_odd_names_survive() -> None:
    odd = {"a b": "", "%": "%20", "": "x", "line\nend": "é\ud800"}
    found = back(build(WHERE, dropped=odd)).dropped
    assert isinstance(found, Known)
    assert found.value == {**odd, "line\nend": "é\\ud800"}


def test_a_release_that_was_not_understood_is_missing() -> None:
    odd = shelf(("1.0", row_of(build(WHERE), "")), ("1.1", Row("", {"unreadable": "a form of its own"}, {})))
    found = build_at(odd, 1)
    assert isinstance(found, Missing)
    assert found.why == "eng==1.1: a form of its own"
    assert found.ask == "judge it with --build eng==1.1"


def test_a_registry_that_shrank_proves_nothing() -> None:
    rows = {f"A{n}": Registered(f"A{n}", "eng.a", "A", "text", WHERE) for n in range(30)}
    whole = row_of(build(WHERE, registry=rows, classes={}), "")
    cut = row_of(build(WHERE, registry=dict(list(rows.items())[:10]), classes={}), "")
    found = build_at(shelf(("1.0", whole), ("1.1", cut)), 1)
    assert isinstance(found, Known)
    assert isinstance(found.value.registry, Missing)
    assert "only 10 architectures were read where 1.0 has 30" in found.value.registry.why


def test_of_what_is_not_in_the_index_the_release_to_read_is_named() -> None:
    nowhere = indexed_build("eng", "1.0")
    assert isinstance(nowhere, Missing)
    assert nowhere.cause is Cause.UNREACHED
    newer = indexed_build("vllm", "99.0")
    assert isinstance(newer, Missing)
    assert newer.ask == "judge it with --build vllm==99.0, or run `canserve index update`"
    assert isinstance(indexed_build("vllm", "0.14.00"), Known)
    assert isinstance(indexed_build("vllm", "no version"), Missing)
