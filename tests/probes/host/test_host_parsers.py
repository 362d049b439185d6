"""Parsers of machines' answers: nothing that a machine says can upset them, and no nonsense becomes a fact."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replayed import RECORDED, answer, look, recorded

from canserve.facts import Cause, Known, Missing
from canserve.probes.host.amd import gfx
from canserve.probes.host.probe import Probe, Seen
from canserve.probes.host.reading import PROBES, SECTIONS, machine_facts
from canserve.transport.frames import Answer, compose
from canserve.transport.reach import Look, look_here

BY_NAME = {probe.name: probe for probe in PROBES}
WORDS = st.sampled_from(
    ["\t", "\n", "0", "-1", "9" * 40, "port", "gid", "repo", "want", "end", "N/A", "{", "[]", ","]
)
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=30).map("".join)


def seen(probe: Probe, out: bytes, status: int | None = 0, error: str = "") -> Seen:
    return Seen("box", probe.how, None, Answer(status, out, error, whole=True))


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
@settings(max_examples=60)
@given(
    st.one_of(TEXT.map(str.encode), st.binary(max_size=200)), st.sampled_from([0, 1, 2, 3, 4, 124, 127, None])
)
def test_no_answer_upsets_a_parser(probe: Probe, out: bytes, status: int | None) -> None:
    fact = probe.parse(seen(probe, out, status))
    assert fact.evidence and all(look.how for look in fact.evidence)


@given(st.data())
def test_no_mixture_of_answers_upsets_a_machine(data: st.DataObject) -> None:
    machines = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
    answers = {probe.name: answer(data.draw(st.sampled_from(machines)), probe.name) for probe in PROBES}
    assert machine_facts(Look("box", "ssh box", "2026-11-30T10:00:00+00:00", answers, None, 1.0, 2.0))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpus", "0, NVIDIA H100, GPU-1, [Unknown Error], [Unknown Error], Disabled, 9.0\n"),
        ("gpus", "0, NVIDIA H100, GPU-1, [GPU is lost], [GPU is lost], Disabled, 9.0\n"),
        ("gpus", "index, name\n"),
        ("gpus", ""),
        ("gpu_processes", "one, two\n"),
        ("amd", "2\tgfx942\t1\t2\n"),
        ("amd_names", "no JSON"),
        ("rocm", "unknown"),
        ("driver", "NVRM version: none"),
        ("cuda", "NVIDIA-SMI 580"),
        ("host_memory", "MemTotal: lots"),
        ("disks", "hub\t/\tnot a line of df\n"),
        ("rdma", "port\tmlx5_0\n"),
        ("interfaces", "eth0 up\n"),
        ("listening", "tcp LISTEN 0.0.0.0:22\n"),
        ("containers", "not JSON\n"),
        ("containers", "[1]\n"),
        ("podman_containers", "[1]"),
    ],
)
def test_an_unknown_form_is_never_an_empty_answer(name: str, text: str) -> None:
    fact = BY_NAME[name].parse(seen(BY_NAME[name], text.encode()))
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE, fact


@pytest.mark.parametrize("name", [probe.name for probe in PROBES])
def test_a_cut_look_leaves_every_fact_missing(name: str) -> None:
    """Whatever section was not answered, nothing that depends on it alone is taken for absent."""
    trouble = Missing(Cause.UNREACHED, "box: the connection was cut")
    whole = look("gb10")
    answers = {key: value for key, value in whole.answers.items() if key != name}
    facts = machine_facts(Look("gb10", whole.how, whole.when, answers, trouble, whole.begun, whole.ended))
    one = {"docker": "container_engines", "podman": "container_engines", "podman_containers": "containers",
           "gpus": "accelerators", "clock": "clock_skew"}.get(name, name)  # fmt: skip
    if one in facts:
        assert facts[one] == trouble


@pytest.mark.parametrize("name", ["environments", "interfaces", "rdma_nodes", "cluster_files"])
def test_a_list_that_reached_its_bound_is_no_list(name: str) -> None:
    facts = machine_facts(look("gb10", **{name: replace(answer("gb10", name), whole=False)}))
    found = facts[name]
    assert isinstance(found, Missing) and "longer than" in found.why


def test_a_cut_list_of_the_hub_cache_is_no_list() -> None:
    text = answer("gb10", "cached_models").out
    for cut in (text[:40], text.removesuffix(b"end\n")):
        fact = recorded("gb10", cached_models=Answer(0, cut, "", whole=True)).cached_models
        assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE
    unreadable = Answer(2, b"", "ls: cannot open directory: Permission denied", whole=True)
    fact = recorded("gb10", cached_models=unreadable).cached_models
    assert isinstance(fact, Missing) and "Permission denied" in fact.why


@pytest.mark.parametrize(
    ("target", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110001, "gfx1101"), (120001, "gfx1201"), (90500, "gfx950")],
)
def test_names_of_amds_architectures(target: int, name: str) -> None:
    assert gfx(target) == name


def test_settings_that_nobody_may_read_are_not_none() -> None:
    fact = recorded("gb10", nccl_conf=Answer(4, b"NCCL_DEBUG=INFO\n", "", whole=True)).nccl_conf
    assert isinstance(fact, Missing) and "may not read" in fact.why
    fact = recorded("gb10", nccl_conf=Answer(1, b"", "", whole=True)).nccl_conf
    assert isinstance(fact, Known) and fact.value is None


def test_a_clock_that_is_off() -> None:
    for ahead, said in ((0, 0), (1, 0), (90, 89), (-90, -89)):
        clock = Answer(0, f"{1796032800 + ahead}\n".encode(), "", whole=True)
        fact = recorded("gb10", clock=clock).clock_skew
        assert isinstance(fact, Known) and fact.value == said


def test_names_of_amd_smi() -> None:
    out = b'[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI325X"}}]'
    fact = BY_NAME["amd_names"].parse(seen(BY_NAME["amd_names"], out))
    assert isinstance(fact, Known) and fact.value == ("AMD Instinct MI325X",)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_the_script_is_understood_by_shells(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    command = [program, "sh", "-n"] if shell == "busybox" else [program, "-n"]
    done = subprocess.run(command, input=compose(SECTIONS, "0" * 32), capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_hub_cache_read_by_the_script(tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    for name, files in (("whole", ("a-1.safetensors", "a-2.safetensors")), ("part", ("a-1.safetensors",))):
        snapshot = cache / f"models--org--{name}" / "snapshots" / "feed"
        snapshot.mkdir(parents=True)
        (cache / f"models--org--{name}" / "blobs").mkdir()
        index = {"weight_map": {"x": "a-1.safetensors", "y": "a-2.safetensors"}}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
        for file in files:
            (snapshot / file).write_bytes(b"x")
    gone = cache / "models--org--gone" / "snapshots" / "beef"
    gone.mkdir(parents=True)
    (gone / "model.safetensors").symlink_to("../../blobs/none")
    (tmp_path / "own").mkdir()
    for file in ("config.json", "model.safetensors"):
        (tmp_path / "own" / file).write_bytes(b"x")
    section = next(each for each in SECTIONS if each.name == "cached_models")
    script = f"HOME={tmp_path}; HF_HUB_CACHE={cache}\n{section.script}"
    here = look_here("local", (replace(section, script=script),))
    found = here.section("cached_models")
    assert isinstance(found, Answer), found
    fact = BY_NAME["cached_models"].parse(Seen("local", "", None, found))
    assert isinstance(fact, Known), (fact, found)
    assert {model.name: model.why for model in fact.value} == {
        "org/gone": "1 files missing: model.safetensors",
        "org/part": "1 files missing: a-2.safetensors",
        "org/whole": "",
        f"{tmp_path}/own": "",
    }


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        # Weights in two forms, of which one was fetched.
        ("have a-1.safetensors|index s|want a-1.safetensors|index p|want a-1.bin", ""),
        ("have model.safetensors|index pytorch_model.bin.index.json|want a-1.bin", ""),
        ("have consolidated.safetensors|index s|want a-1.safetensors", ""),
        ("have q4.gguf|index s|want a-1.safetensors", ""),
        ("have training_args.bin|index s|want a-1.safetensors", "1 files missing: a-1.safetensors"),
        # Parts whose index is not there yet say by their names how many there are.
        ("have m-00001-of-00003.safetensors", "2 files missing: m-00002-of-00003.safetensors"),
        ("have m-00001-of-00002.gguf|have m-00002-of-00002.gguf", ""),
        ("have m-00001-of-99999.gguf", ""),
        ("have model.safetensors|gone tokenizer.json", "1 files missing: tokenizer.json"),
        ("have a-1.safetensors|index s|want a-1.safetensors|part", ""),
        ("have model.safetensors|part", "1 downloads unfinished"),
        ("have config.json|index s", "no weights"),
    ],
)
def test_weights_are_whole_in_one_form_or_another(rows: str, why: str) -> None:
    lines = ["repo\torg--m", "snapshot\tfeed", *(row.replace(" ", "\t") for row in rows.split("|")), "end"]
    fact = BY_NAME["cached_models"].parse(seen(BY_NAME["cached_models"], "\n".join(lines).encode()))
    assert isinstance(fact, Known) and fact.value[0].why == why
    assert fact.value[0].complete is (why == "")


FAKE_DOCKER = """#!/bin/sh
case $1 in
  context) echo "$FAR";;
  *) echo '{"ServerVersion":"28.1","ClientInfo":{"Context":"'"$CONTEXT"'"}}';;
esac
"""


@pytest.mark.parametrize(
    ("host", "context", "far", "state"),
    [
        ("", "default", "", "usable"),
        ("unix:///run/user/1000/docker.sock", "default", "", "usable"),
        ("tcp://me:word@elsewhere:2375", "default", "", "unknown"),
        ("", "spark", "ssh://me@elsewhere", "unknown"),
        ("", "rootless", "unix:///run/user/1000/docker.sock", "usable"),
    ],
)
def test_a_docker_elsewhere_is_not_this_machines(
    host: str, context: str, far: str, state: str, tmp_path: Path
) -> None:
    (tmp_path / "docker").write_text(FAKE_DOCKER)
    (tmp_path / "docker").chmod(0o755)
    said = f"PATH={tmp_path}:$PATH; DOCKER_HOST={host}; CONTEXT={context}; FAR={far}; export CONTEXT FAR DOCKER_HOST\n"
    section = next(each for each in SECTIONS if each.name == "docker")
    found = look_here("local", (replace(section, before=said + section.before),)).section("docker")
    assert isinstance(found, Answer), found
    fact = BY_NAME["docker"].parse(Seen("local", "", None, found))
    assert isinstance(fact, Known) and fact.value.state == state, (fact, found)
    if state == "unknown":
        assert "talks to elsewhere" in (fact.value.why or "") and "word" not in repr(fact)


def test_a_port_that_is_taken() -> None:
    section = next(each for each in SECTIONS if each.name == "listening")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = look_here("local", (section,)).section("listening")
        assert isinstance(found, Answer)
        fact = BY_NAME["listening"].parse(Seen("local", "", None, found))
        assert isinstance(fact, Known)
        assert (taken.getsockname()[1], "127.0.0.1") in {(each.port, each.address) for each in fact.value}


def test_environments_found_by_the_script(tmp_path: Path) -> None:
    site = tmp_path / "project" / "venv" / "lib" / "python3.12" / "site-packages"
    for name in ("vllm-0.17.1", "torch-2.10.0", "numpy-2.0.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    section = next(each for each in SECTIONS if each.name == "environments")
    found = look_here("local", (replace(section, script=f"HOME={tmp_path}\n{section.script}"),)).section(
        section.name
    )
    assert isinstance(found, Answer), found
    fact = BY_NAME["environments"].parse(Seen("local", "", None, found))
    assert isinstance(fact, Known)
    assert (str(site), (("torch", "2.10.0"), ("vllm", "0.17.1"))) in {
        (e.path, e.packages) for e in fact.value
    }


def test_the_script_writes_nothing() -> None:
    script = compose(SECTIONS, "0" * 32).decode()
    for word in (" rm ", "mkdir", "touch ", " tee ", "sudo", "mktemp", ">>", "install "):
        assert word not in script, word
    targets = {
        part.split()[0].rstrip(';)"') for part in script.replace("2>&1", "").split(">")[1:] if part.split()
    }
    assert {t for t in targets if t.startswith("/") and t != "/dev/null"} == set(), targets
