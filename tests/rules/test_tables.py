"""The tables of rules: their form, their invariants, and facts in them that were looked up once more."""

from __future__ import annotations

import pytest

from canserve.facts import Known, Missing
from canserve.rules import broken, cuda, machines, quantization
from canserve.rules.table import Row, RuleError, Table, covers, load, parse
from canserve.subjects.machine import Machine
from canserve.subjects.model import Scheme

TABLES = {
    "machines.toml": ("machine",),
    "cuda_drivers.toml": ("family", "toolkit", "ptx", "torch"),
    "quantization.toml": (
        "native", "family", "serves", "online", "stored", "left", "stand_in", "scheme", "limit",
        "documented",
    ),
    "broken.toml": ("broken",),
    "speed.toml": ("constant", "link"),
    "stack.toml": ("assembler", "triton", "compiles", "variable", "kernels", "cache", "passes", "starts"),
    "parallel.toml": ("tensor", "experts", "stages", "vocabulary", "data", "shares", "blocks", "encoder", "vision", "attention"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_dated_and_has_the_sections_the_code_reads(name: str) -> None:
    table = load(name)
    assert table.updated >= "2026-11-30"
    assert set(TABLES[name]) <= set(table.data)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "machines.toml"])
def test_every_row_has_a_source(name: str) -> None:
    table = load(name)
    for section in TABLES[name]:
        assert table.rows(section)
        assert all(row.source for row in table.rows(section))


def rule(text: str) -> Table:
    return parse("x.toml", f"updated = 2026-01-02\n[sources]\na = 'A book'\n{text}")


def test_a_table_without_a_date_or_source_is_refused() -> None:
    with pytest.raises(RuleError, match="not a date"):
        parse("x.toml", "updated = 'soon'")
    with pytest.raises(RuleError, match=r"x\.toml"):
        parse("x.toml", "updated =")
    with pytest.raises(RuleError, match="says nothing"):
        parse("x.toml", "updated = 2026-01-02\n[sources]\na = ' '")
    with pytest.raises(RuleError, match="no row uses: a"):
        rule("")
    with pytest.raises(RuleError, match="names no source"):
        rule("[[row]]\nx = 'a'").rows("row")


def test_a_row_is_evidence_with_its_source_and_date() -> None:
    row = rule("[[row]]\nname = 'n'\nsource = 'a'").rows("row")[0]
    look = row.evidence("it says so")
    assert (look.subject, look.how, look.saw, look.when) == (
        "rules/x.toml", "row: n", "it says so [A book]", "2026-01-02",
    )  # fmt: skip
    with pytest.raises(RuleError, match="x is missing"):
        row.text("x")


@pytest.mark.parametrize(
    ("releases", "version", "expected"),
    [
        (">=0.6.6,<0.9.0", "0.6.6", True),
        (">=0.6.6,<0.9.0", "0.9.0", False),
        (">=0.6.6,<0.9.0", "0.8.5.post1", True),
        ("<0.9.0", "0.9.0rc1", None),
        ("<0.9.0", "0.8.6.dev7+g12ab", None),
        (">=0.24.0", "0.23.1rc1.dev1001+ge5588e49b", None),
        (">=0.11.1,<0.24.0", "0.17.1rc1.dev25", True),
        ("<0.9.0", "0.14.0rc2.dev262", False),
        ("<0.9.0", "0.8.5+cu121", True),
        ("<0.9.0", "main", None),
        ("nonsense", "1.0", None),
    ],
)
def test_ranges_do_not_decide_about_development_builds_at_their_edges(
    releases: str, version: str, expected: bool | None
) -> None:
    assert covers(releases, version) is expected


# machines --------------------------------------------------------------------------------------------


def known(machine: Machine | None, field: str) -> object:
    assert machine is not None
    fact = getattr(machine, field)
    return fact.value if isinstance(fact, Known) else fact.cause


def test_the_machines_of_the_collected_cases_are_there() -> None:
    assert len(machines.names()) >= 49
    for name in ("dgx-spark", "h200", "rtx-4090", "mi300x", "gb10", "H200"):
        assert machines.profile(name) is not None, name
    assert machines.profile("h2000") is None


@pytest.mark.parametrize("name", machines.names())
def test_every_value_of_a_profile_cites_its_source(name: str) -> None:
    machine = machines.profile(name)
    assert machine is not None and machine.subject == f"profile:{name}"
    for field in machines.FIELDS:
        fact = getattr(machine, field)
        if isinstance(fact, Known):
            assert fact.evidence and "[" in fact.evidence[0].saw, field
        else:
            assert isinstance(fact, Missing) and fact.ask, field
    assert isinstance(machine.vendor, Known)


def test_no_profile_states_a_driver() -> None:
    stated = {name for name in machines.names() if isinstance(machines.profile(name).driver, Known)}  # type: ignore[union-attr]
    assert not stated


@pytest.mark.parametrize("name", machines.names())
def test_profiles_agree_with_themselves(name: str) -> None:
    machine = machines.profile(name)
    assert machine is not None
    if known(machine, "vendor") == "nvidia":
        capability = machine.capability
        assert isinstance(capability, Known) and capability.value is not None
        tenfold = capability.value.tenfold
        assert known(machine, "arch_name") == f"sm_{tenfold}"
        assert known(machine, "fp8") is (tenfold >= 89) and known(machine, "fp4") is (tenfold >= 100)
    else:
        assert known(machine, "capability") is None


def test_the_founding_machine() -> None:
    spark = machines.profile("dgx-spark")
    assert str(known(spark, "capability")) == "12.1"
    assert known(spark, "cpu_arch") == "aarch64" and known(spark, "unified_memory") is True
    assert str(known(spark, "memory")) == "128 GB" and str(known(spark, "bandwidth")) == "273 GB/s"


def test_a_profile_with_a_wrong_value_is_refused() -> None:
    bad = rule("[[machine]]\nname = 'm'\ngpus = ['eight', 'a']")
    with pytest.raises(RuleError, match="gpus"):
        machines._machine(bad, bad.data["machine"][0])
    unsourced = rule("[[machine]]\nname = 'm'\ngpus = [8, 'b']\ngpu = ['x', 'a']")
    with pytest.raises(RuleError, match="gpus"):
        machines._machine(unsourced, unsourced.data["machine"][0])
    strange = rule("[[machine]]\nname = 'm'\ncolour = ['red', 'a']")
    with pytest.raises(RuleError, match="colour"):
        machines._machine(strange, strange.data["machine"][0])


# CUDA ------------------------------------------------------------------------------------------------


def text(row: Row | None, key: str) -> str:
    assert row is not None
    return row.text(key)


def test_drivers_of_cuda_families_and_toolkits() -> None:
    assert text(cuda.family("12.8"), "driver") == "525.60.13"
    assert text(cuda.family("13.0"), "driver") == text(cuda.toolkit("13.0"), "driver") == "580.65.06"
    assert cuda.family("9.2") is None and cuda.toolkit("12.7") is None
    assert text(cuda.ptx("8.8"), "cuda") == "12.9" and text(cuda.ptx("9.0"), "cuda") == "13.0"


@pytest.mark.parametrize(
    ("asked", "release", "x86", "arm"),
    [
        ("==2.9.1", "2.9.1", "12.8", "none"),
        ("==2.10.0", "2.10.0", "12.8", "none"),
        ("==2.11.0", "2.11.0", "13.0", "13.0"),
        ("==2.1.2", "2.1.2", "12.1", "none"),
    ],
)
def test_the_cuda_of_torch_releases_on_the_index(asked: str, release: str, x86: str, arm: str) -> None:
    (row,) = cuda.torch(asked)
    assert (row.text("version"), row.text("x86_64"), row.text("aarch64")) == (release, x86, arm)
    assert cuda.torch("==1.0") == () and cuda.torch("not a range") == ()


def test_versions_out_of_order_are_refused() -> None:
    rows = rule(
        "[[toolkit]]\ncuda='12.1'\ndriver='530.1'\nsource='a'\n[[toolkit]]\ncuda='12.2'\ndriver='520.1'\nsource='a'"
    )
    with pytest.raises(RuleError, match="out of order"):
        cuda.ordered(rows.rows("toolkit"), ("cuda", "driver"))
    with pytest.raises(RuleError, match="not a version"):
        odd = rule("[[toolkit]]\ncuda='x'\nsource='a'\n[[toolkit]]\ncuda='12.2'\nsource='a'")
        cuda.ordered(odd.rows("toolkit"), ("cuda",))


def test_local_versions_name_their_cuda() -> None:
    assert cuda.local_cuda("2.9.1+cu130") == "13.0" and cuda.local_cuda("0.14.0+cu129") == "12.9"
    assert cuda.local_cuda("2.9.1+cpu") == "none"
    assert cuda.local_cuda("0.4.3+rocm614") is None and cuda.local_cuda("1.0") is None


# quantization ----------------------------------------------------------------------------------------


def test_no_method_belongs_to_two_formats() -> None:
    names = [name for row in load("quantization.toml").rows("family") for name in row.texts("methods")]
    assert len(names) == len(set(names))


def test_no_method_both_needs_and_makes_quantized_weights() -> None:
    table = load("quantization.toml")
    online = {name for row in table.rows("online") for name in row.texts("methods")}
    stored = {name for row in table.rows("stored") for name in row.texts("methods")}
    assert not online & stored


def test_rules_find_the_row_for_a_way_of_storing() -> None:
    blocks = Scheme(8, "float", "block", None, (128, 128), 8, "float", True)
    assert [row.text("label") for row in quantization.scheme_rows("fp8", blocks)] == ["FP8 in blocks"]
    assert quantization.scheme_rows("sparseml", blocks)[0].text("label") == "FP8 W8A8 in blocks"
    assert quantization.scheme_rows("awq", blocks) == () and not quantization.dispatches("awq")


def test_what_is_related_and_what_left() -> None:
    assert "awq_marlin" in quantization.related("awq") and quantization.related("odd") == {"odd"}
    left = quantization.left("vllm", "gguf")
    assert text(left, "last") == "0.23.0" and quantization.left("sglang", "gguf") is None
    assert str(quantization.native("fp8")[0]) == "8.9"


def test_broken_rows_name_conditions_that_can_hold() -> None:
    for row in load("broken.toml").rows("broken"):
        assert (
            bool(broken.capabilities(row)) != bool(row.texts("transformers"))
            and row.text("because")
            and row.text("fix")
        )
        assert covers(row.text("releases"), "0.17.1") is not None
