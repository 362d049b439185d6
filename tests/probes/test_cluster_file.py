"""Machines as users name them: profiles, cluster files, hosts that are not looked at; and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.facts import Cause, Known, Missing
from canserve.probes.live import Way, jumps
from canserve.probes.machine import (
    MachineError,
    parse_cluster,
    read_cluster,
    read_machine,
    read_machines,
    read_nodes,
)
from canserve.probes.toml_file import MAX_BYTES
from canserve.subjects.cluster import Cluster


def parse(text: str) -> Cluster:
    return parse_cluster(text.encode(), "c.toml")


def test_the_founding_cluster(root: Path) -> None:
    cluster = read_cluster(root / "examples" / "founding" / "cluster.toml")
    head, second = cluster.nodes
    assert (head.name, head.internet, head.through) == ("head", True, None)
    assert (second.name, second.internet, second.through) == ("second", False, "head")
    for node in cluster.nodes:
        assert isinstance(node.machine.capability, Known) and str(node.machine.capability.value) == "12.1"
        assert isinstance(node.machine.driver, Known) and node.machine.driver.value == "580.95.05"
        assert node.machine.subject.startswith(node.name)


def test_a_stated_fact_wins_over_the_profile_and_cites_its_line() -> None:
    text = '[nodes.a]\nprofile = "h200"\n\nmemory = "80 GB"\nsource = "the invoice"\nbandwidth = "3.3 TB/s"\n'
    machine = parse(text).nodes[0].machine
    assert isinstance(machine.memory, Known) and str(machine.memory.value) == "80 GB"
    assert machine.memory.evidence[0].how == "c.toml:4" and "the invoice" in machine.memory.evidence[0].saw
    assert isinstance(machine.gpus, Known) and machine.gpus.value == 8
    assert isinstance(machine.bandwidth, Known) and str(machine.bandwidth.value) == "3.3 TB/s"


def test_a_node_without_a_profile_knows_what_is_stated() -> None:
    machine = parse('[nodes.a]\nvendor = "amd"\ncapability = "none"\ngpus = 4\nfp8 = true\n').nodes[0].machine
    assert isinstance(machine.capability, Known) and machine.capability.value is None
    assert isinstance(machine.driver, Missing) and machine.driver.cause is Cause.UNAVAILABLE


def test_targets_of_on(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text('[nodes.a]\nprofile = "h200"\n[nodes.b]\nprofile = "profile:h100"\n')
    assert [machine.subject.split()[0] for machine in read_machines(str(file))] == ["a", "b"]
    (spark,) = read_machines("profile:GB10")
    assert spark.subject == "profile:dgx-spark"


@pytest.mark.parametrize("target", ["user@host", "spark-1"])
def test_offline_nothing_is_looked_at(target: str) -> None:
    machine = read_machine(target, Way(offline=True))
    assert isinstance(machine.capability, Missing) and machine.capability.cause is Cause.UNREACHED
    assert "was not looked at: offline" in machine.capability.why


@pytest.mark.parametrize("target", ["-oProxyCommand=x", "a b", "x/y", "$(x)", ""])
def test_what_is_no_ssh_destination(target: str) -> None:
    with pytest.raises(MachineError, match="no ssh destination"):
        read_machine(target)


def test_a_profile_without_its_prefix() -> None:
    fact = read_machine(
        "dgx-spark", Way(options=("-F", "/dev/null", "-o", "HostName=no-such-machine.invalid"))
    ).gpu
    assert isinstance(fact, Missing) and fact.ask == "if the profile was meant: profile:dgx-spark"


def test_a_profile_without_its_prefix_offline_or_several_times() -> None:
    fact = read_machine("h200", Way(offline=True)).gpu
    assert isinstance(fact, Missing) and fact.ask == "if the profile was meant: profile:h200"
    with pytest.raises(MachineError, match="8xb200 is no host; of a profile: 8xprofile:b200"):
        read_nodes(["8xb200"], Way(offline=True))
    assert read_nodes(["8xhost"], Way(offline=True))[0].name == "8xhost"


def test_an_unknown_profile_names_near_ones() -> None:
    with pytest.raises(MachineError, match=r"profile:h2000.*h200"):
        read_machine("profile:h2000")
    with pytest.raises(MachineError, match="known: h100"):
        read_machine("profile:zzzzzz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x =", "not TOML"),
        ("", "names no machines"),
        ("nodes = 3", "names no machines"),
        ("[nodes]\na = 1", "c.toml:2: a is not a table"),
        ("x = 1\n[nodes.a]", "c.toml:1: unknown key x"),
        ('[nodes.a]\nprofil = "h200"', "c.toml:2: a has the unknown key profil; did you mean profile?"),
        ('[nodes.a]\nprofile = "h2000"', "c.toml:2: no profile h2000; near ones: h200"),
        ("[nodes.a]\n\ninternet = 1", "c.toml:3: a: internet is true or false"),
        ('[nodes.a]\naddress = "-oProxyCommand=x"', "c.toml:2: a: -oProxyCommand=x is no ssh destination"),
        ('[nodes.a]\naddress = "a b"', "is no ssh destination"),
        ("[nodes.a]\naddress = 7", "address is not a short text"),
        ('[nodes.a]\nthrough = "b"', "c.toml:2: a: through names no node of this file: b"),
        ('[nodes.a]\nthrough = "b"\n[nodes.b]\nthrough = "a"', "a is reached only through itself"),
        ('[nodes.a]\nthrough = "a"', "a is reached only through itself"),
        ("[nodes.a]\ndriver = 580", "c.toml:2: a: driver: not a version: 580"),
        ('[nodes.a]\ndriver = "latest"', "not a version"),
        ("[nodes.a]\ngpus = -1", "not a number of accelerators"),
        ("[nodes.a]\ngpus = true", "not a number of accelerators"),
        ('[nodes.a]\nmemory = "lots"', "not a number of bytes"),
        ("[nodes.a]\nmemory = inf", "memory"),
        ('[nodes.a]\ncapability = "nine"', "not a compute capability"),
        ("[nodes.a]\ncapability = [9]", "capability"),
        ('[nodes.a]\ncpu_arch = "arm"', "none of x86_64, aarch64"),
        ('[nodes.a]\nfp8 = "yes"', "not true or false"),
        ('[nodes.a]\ngpu = ""', "not a short text"),
        ("[nodes.a]\nbandwidth = 3", "bandwidth: not a short text: 3"),
        ("[nodes.a]\nvisible_memory = 1", "visible_memory: not a short text: 1"),
        ("[nodes.a]\ncompute = [1]", "compute: not a short text"),
        ('[nodes.a]\nbandwidth = "0 GB/s"', "bandwidth: nothing at all"),
        ('[nodes.a]\nmemory = "0.1 B"', "memory: nothing at all"),
        ('[nodes.a]\ncompute = "BF16 0 TFLOP/s"', "compute: nothing at all"),
        ('[nodes."a b"]\n', "is no name for a node"),
        ('[nodes.a]\nsource = "x\\u001b[2J"', "source is not a short text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(MachineError) as caught:
        parse(text)
    said = str(caught.value)
    assert message in said
    assert said.isprintable() and len(said) < 1000


def test_other_ways_of_writing_tables_are_read_too() -> None:
    assert parse('nodes.a.profile = "h200"').nodes[0].name == "a"
    with pytest.raises(MachineError, match=r"c\.toml: no profile zz"):
        parse('nodes.a.profile = "zz"')
    with pytest.raises(MachineError, match="no profile zz"):
        parse('nodes = { a = { profile = "zz" } }')


def test_unreadable_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="No such file"):
        read_cluster(tmp_path / "none.toml")
    with pytest.raises(MachineError, match="directory"):
        read_cluster(tmp_path)
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(MachineError, match="larger than"):
        read_cluster(large)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe",
        b"a = " + b"[" * 50_000,
        b"x = " + b"9" * 100_000,
        b"[nodes.a]\nmemory = '" + b"9" * 400 + b" GB'",
        b"".join(b"[nodes.n%d]\n" % number for number in range(2000)),
        "[nodes.a]\nprofile = '\u202eh200'".encode(),
    ],
    ids=["bytes", "depth", "digits", "bytes count", "nodes", "direction"],
)
def test_hostile_files_are_one_line(data: bytes) -> None:
    with pytest.raises(MachineError) as caught:
        parse_cluster(data, "c.toml")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_give_a_cluster_or_one_line(data: bytes) -> None:
    try:
        parse_cluster(data, "c.toml")
    except MachineError as error:
        assert str(error).isprintable()


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(alphabet="ab9. -/=", max_size=6).map(repr)),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(map(str, items))}]"),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        "profile",
        "address",
        "through",
        "internet",
        "driver",
        "gpus",
        "memory",
        "bandwidth",
        "compute",
        "capability",
        "disk",
        "fp8",
        "source",
        "z",
    ]
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_values_give_a_cluster_or_one_line(values: dict[str, object]) -> None:
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()
    ]
    try:
        parse("[nodes.a]\n" + "\n".join(lines))
    except MachineError as error:
        assert str(error).startswith("c.toml") and str(error).isprintable()


def test_the_network_that_joins_the_machines() -> None:
    node = parse('[nodes.a]\nprofile = "h200"\nip = "10.0.0.1"\ninterface = "eth0"\n').nodes[0]
    assert (node.ip, node.interface) == ("10.0.0.1", "eth0")
    for line in ('ip = "a-host"', 'ip = "10.0.0.1; rm"', 'interface = "-x"', 'interface = "eth0 lo"'):
        with pytest.raises(MachineError, match=r"c\.toml:2: a: "):
            parse(f"[nodes.a]\n{line}\n")


def test_several_machines_have_names_of_their_own(root: Path) -> None:
    names = [node.name for node in read_nodes(("2xprofile:dgx-spark", "profile:h200", "profile:dgx-spark"))]
    assert names == ["profile:dgx-spark", "profile:dgx-spark#2", "profile:h200", "profile:dgx-spark#3"]
    cluster = str(root / "examples" / "founding" / "cluster.toml")
    assert [node.name for node in read_nodes((cluster, "a-host"), Way(offline=True))] == [
        "head",
        "second",
        "a-host",
    ]
    assert read_nodes(("a-host",), Way(offline=True))[0].address == "a-host"
    for target in ("0xprofile:h200", "1001xprofile:h200", "2xprofile:none"):
        with pytest.raises(MachineError):
            read_nodes((target,))
    with pytest.raises(MachineError, match="2000 machines; at most 1000"):
        read_nodes(("1000xprofile:h200",) * 2)


def test_jump_hosts_on_the_way_to_a_node() -> None:
    text = (
        '[nodes.gate]\naddress = "g"\n[nodes.head]\naddress = "h"\nthrough = "gate"\n'
        '[nodes.far]\naddress = "f"\nthrough = "head"\n[nodes.here]\naddress = "local"\n'
        '[nodes.near]\naddress = "n"\nthrough = "here"\n[nodes.unnamed]\n[nodes.behind]\nthrough = "unnamed"\n'
    )
    nodes = {node.name: node for node in parse(text).nodes}
    ways = {name: jumps(node, nodes) for name, node in nodes.items()}
    assert ways == {
        "gate": (), "head": ("g",), "far": ("g", "h"), "here": (), "near": (), "unnamed": (), "behind": ("unnamed",)
    }  # fmt: skip
