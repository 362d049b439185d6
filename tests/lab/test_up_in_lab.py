"""``up``, ``status``, ``logs``, ``down`` over two hosts with a dockerd each; whatever happens, nothing is left on them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from canserve.store.journal import journal
from canserve.subjects.launch import Process
from canserve.verdict import Finding
from lab.conftest import COMMUNITY_TAG
from lab.hosts import Host
from lab.standin_image import TAG, load
from lab.two_hosts import Lab
from made_plans import environment, made, refused, saved, told, written

pytestmark = pytest.mark.slow

MODEL = str(Path(__file__).parent.parent.parent / "examples" / "founding" / "model")
STANDIN = ("--accelerators", "nvidia", "--no-first-token")
"""It listens, and answers nothing."""
HEAD, SECOND = "10.77.1.2", "10.77.1.3"


def launcher(*more: str) -> tuple[Process, ...]:
    """Two servers by a launcher of the engine's own."""
    words = ("vllm", "serve", "/lab", "--nnodes", "2", "--master-addr", HEAD, "--master-port", "29501", *more)
    return (
        Process("head", (0,), (*words, "--node-rank", "0", "--port", "8123")),
        Process("second", (1,), (*words, "--node-rank", "1", "--headless")),
    )


def over_ray() -> tuple[Process, ...]:
    start = ("ray", "start")
    count = ("--num-gpus", "1")
    return (
        Process("head", (), (*start, "--head", "--port", "6379", "--node-ip-address", HEAD, *count)),
        Process("second", (), (*start, "--address", f"{HEAD}:6379", "--node-ip-address", SECOND, *count)),
        Process("head", (0, 1), ("vllm", "serve", "/lab", "--port", "8123")),
    )


class Operator:
    """Somebody who deploys, with a journal of his own."""

    def __init__(self, lab: Lab, cluster: str, folder: Path, name: str = "ana") -> None:
        self.lab, self.cluster, self.folder, self.name = lab, cluster, folder, name

    def plan(self, processes: Sequence[Process], build: str = f"docker-daemon:{TAG}") -> str:
        return str(saved(self.folder / "plan.json", processes, build=build, model="/lab"))

    @property
    def env(self) -> dict[str, str]:
        return {"CANSERVE_DATA": str(self.folder / self.name), "LOGNAME": self.name}

    def ask(self, *words: str, on: bool = False) -> tuple[dict[str, Any], int]:
        where = ("--on", self.cluster) if on else ()
        done = self.lab.canserve(*words, *where, "--quiet", "--format", "json", env=self.env, timeout=200)
        assert done.stdout, done.stderr
        return dict(told(done.stdout)), done.returncode

    def up(self, processes: Sequence[Process], *words: str) -> tuple[dict[str, Any], int]:
        return self.ask("up", self.plan(processes), *STANDIN, "--wait", "60", *words, on=True)


def traces(host: Host) -> set[str]:
    """Containers, volumes, shared memory, claims, and processes of the stand-in."""
    found = {f"container {name}" for name in host.docker("ps", "-a", "--format", "{{.Names}}").split()}
    found |= {f"volume {name}" for name in host.docker("volume", "ls", "-q").split()}
    found |= {f"shm {name}" for name in host.run("ls", "/dev/shm").stdout.split()}
    kept = host.run("sh", "-c", "ls -d /var/tmp/canserve/* 2>/dev/null", check=False).stdout.split()
    found |= {f"kept {name}" for name in kept if "/audit-" not in name}
    return found | {
        f"process {number}" for number, name in host.processes().items() if name in ("vllm", "ray", "nc")
    }


@pytest.fixture
def clean(lab: Lab) -> Iterator[Lab]:
    """The lab with the stand-in on both hosts; what is on them is compared before and after."""
    for host in lab.hosts:
        load(host)
    before = [traces(host) for host in lab.hosts]
    yield lab
    lab.heal()
    after = [traces(host) for host in lab.hosts]
    try:
        assert after == before
    finally:
        for host in lab.hosts:
            host.run("sh", "-c", "docker rm -f $(docker ps -aq --filter label=canserve.run)", check=False)
            host.run("sh", "-c", "rm -rf /var/tmp/canserve", check=False)


@pytest.fixture
def ana(clean: Lab, cluster: str, tmp_path: Path) -> Operator:
    return Operator(clean, cluster, tmp_path)


@pytest.fixture
def ben(clean: Lab, cluster: str, tmp_path: Path) -> Operator:
    return Operator(clean, cluster, tmp_path, "ben")


def test_two_hosts_by_the_engines_own_launcher(ana: Operator, ben: Operator, clean: Lab) -> None:
    up, code = ana.up(launcher())
    assert (up["state"], code) == ("up", 0), up["because"]
    run = up["run"]
    status, code = ana.ask("status", run)
    (one,) = status["runs"]
    assert (one["state"], one["listens"], code) == ("running", True, 0)
    assert [(each["machine"], each["ranks"], each["last_line"]) for each in one["processes"]] == [
        ("head", "0", "ready"), ("second", "1", "ready"),
    ]  # fmt: skip
    logs = clean.canserve("logs", run, "--quiet", env=ana.env).stdout.splitlines()
    assert any(line.startswith("head rank 0 | starting ") for line in logs)
    assert any(line.startswith("second rank 1 | starting ") and "--headless" in line for line in logs)
    # From somebody who has another journal, and knows but the machines.
    (seen,) = ben.ask("status", on=True)[0]["runs"]
    assert (seen["run"], seen["state"], seen["operator"].split("@")[0]) == (run, "running", "ana")
    second, code = ben.up(launcher())
    assert code == 1 and f"accelerator-0 is held: {run} docker ana@" in second["because"]
    assert "\n" not in second["because"]
    assert ana.ask("status", run)[1] == 0
    down, code = ben.ask("down", run, on=True)
    assert (down["state"], code, down["left"]) == ("down", 0, [])
    assert ana.ask("down", run)[0]["state"] == "nothing"
    for host in clean.hosts:
        assert f" up {run}: " in host.run("sh", "-c", "cat /var/tmp/canserve/audit-*.log").stdout


def test_over_ray(ana: Operator, clean: Lab) -> None:
    up, code = ana.up(over_ray())
    assert (up["state"], code) == ("up", 0), up["because"]
    assert (
        clean.a.docker("volume", "ls", "-q", "--filter", f"name=canserve-{up['run']}")
        == f"canserve-{up['run']}-0"
    )
    assert len(ana.ask("status", up["run"])[0]["runs"][0]["processes"]) == 3
    assert ana.ask("down", up["run"])[1] == 0


@pytest.mark.network
def test_from_a_model_to_the_steps_of_two_hosts(
    founding: Lab, clean: Lab, cluster: str, tmp_path: Path
) -> None:
    ana = Operator(clean, cluster, tmp_path)
    dry, code = ana.ask(
        "up", MODEL, "--build", f"docker-daemon:{COMMUNITY_TAG}@spark-a", "--tp", "2", "--dry-run", on=True
    )
    assert (dry["state"], code) == ("dry-run", 0)
    starts = [step for step in dry["steps"] if step["name"] == "start"]
    assert {step["machine"] for step in starts} == {"head", "second"}
    for step in starts:  # what the look at the machines said
        words = step["argv"]
        assert words[words.index("--gpus") + 1] == "device=0" and "/dev/infiniband" in words
        assert words[words.index("--entrypoint") + 2] == COMMUNITY_TAG
        assert f"type=bind,source={MODEL},target={MODEL},readonly" in words
    server = starts[-1]["argv"] if starts[-1]["machine"] == "head" else starts[0]["argv"]
    assert "--tensor-parallel-size" in server and f"VLLM_HOST_IP={HEAD}" in server
    second = next(step["line"] for step in dry["steps"] if step["machine"] == "second")
    assert second.startswith("ssh -- spark-b ")


def test_a_worker_that_is_killed_is_named(ana: Operator, clean: Lab) -> None:
    up, code = ana.up(launcher())
    assert (up["state"], code) == ("up", 0), up["because"]
    clean.b.docker("kill", f"canserve-{up['run']}-1")
    status, code = ana.ask("status", up["run"])
    (one,) = status["runs"]
    assert (one["state"], code) == ("partly", 1)
    assert [(each["alive"], each["exit"]) for each in one["processes"]] == [(True, None), (False, 137)]
    assert ana.ask("down", up["run"])[1] == 0


def test_an_engine_that_ends_says_its_own_last_words(ana: Operator) -> None:
    head, second = launcher()
    failing = Process(second.host, second.ranks, (*second.argv, "--fail"))
    up, code = ana.up((head, failing))
    assert (up["state"], code, up["undone"], up["left"]) == ("failed", 1, True, [])
    assert up["because"] == "second: process 1 exited with 7: ValueError: no such model"


def test_an_image_that_one_host_lacks(ana: Operator, clean: Lab) -> None:
    clean.b.docker("rmi", TAG)
    up, code = ana.up(launcher(), "--no-distribute")
    assert (up["state"], code) == ("failed", 1)
    assert up["because"].startswith(f"second: docker gives no image {TAG}") and "docker load" in up["hint"]
    dry, _ = ana.up(launcher(), "--dry-run")
    (carry,) = (step for step in dry["steps"] if step["name"] == "carry")
    assert carry["line"] == f"canserve distribute --image {TAG} --to {ana.cluster}"
    names = [step["name"] for step in dry["steps"]]
    assert names.index("port-free") < names.index("carry") < names.index("image-held")
    assert TAG not in clean.b.docker("images", "--format", "{{.Repository}}:{{.Tag}}")
    up, code = ana.up(launcher())
    assert (up["state"], code) == ("up", 0), up
    with journal(ana.folder / ana.name) as kept:
        (step,) = (one for one in kept.steps(up["run"]) if one.name == "carry")
    assert step.status == 0 and "straight over the network" in step.output
    assert ana.ask("down", up["run"])[1] == 0


def test_a_port_that_is_taken_on_the_head(ana: Operator, clean: Lab) -> None:
    listening = "busybox nc -ll -p 8123 -e /bin/true >/dev/null 2>&1 & echo $!"
    number = clean.a.run("sh", "-c", listening).stdout.strip()
    time.sleep(0.5)
    up, code = ana.up(launcher())
    clean.a.run("kill", number)
    assert code == 1 and up["because"] == "head: port 8123 is taken: something listens there"


@pytest.mark.parametrize("seconds", ["1", "3", "6"])
@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_an_operator_that_ends_at_any_moment(
    ana: Operator, ben: Operator, clean: Lab, signal: str, seconds: str
) -> None:
    program = str(Path(sys.executable).with_name("canserve"))
    words = ("up", ana.plan(over_ray()), *STANDIN, "--on", ana.cluster, "--wait", "60")
    ended = clean.operator.run(
        "timeout", "-s", signal, seconds, program, *words, check=False, timeout=120,
        env={**ana.env, "XDG_RUNTIME_DIR": "/run/operator"},
    )  # fmt: skip
    assert ended.returncode in (0, 124, -9), (
        ended.stderr
    )  # up before its time was over, or ended by the signal
    if signal == "INT" and ended.returncode == 124 and ended.stdout[:3] not in ("", "up "):
        # Else it had not begun, or was just printing that it is up.
        assert "taken away again\n" in ended.stdout, (ended.stdout, ended.stderr)
    time.sleep(1)  # what the machine had begun when its operator died comes to its end
    for one in ben.ask("status", on=True)[0]["runs"]:
        assert ben.ask("adopt", one["run"], on=True)[1] == 0
        assert ben.ask("down", one["run"])[1] == 0


def test_a_host_that_is_cut_off_is_said_to_be_left(ana: Operator, clean: Lab) -> None:
    up, code = ana.up(launcher())
    assert (up["state"], code) == ("up", 0), up["because"]
    clean.disconnect()
    clean.wires.cut("fabric")
    down, code = ana.ask("down", up["run"])
    assert (down["state"], code) == ("left", 3)
    assert {one["machine"] for one in down["left"]} == {"second"}
    clean.heal()
    status, _ = ana.ask("status", up["run"])
    assert [one["machine"] for one in status["runs"][0]["processes"]] == ["second"], status["runs"]
    assert ana.ask("down", up["run"])[1] == 0


def test_from_an_environment_over_ssh(ana: Operator, clean: Lab, tmp_path: Path) -> None:
    venv = environment(tmp_path, "vllm")
    clean.a.copy(Path(venv), "/srv/engine")
    process = Process("head", (0,), ("vllm", "serve", "/lab", "--port", "8123"))
    up, code = ana.ask("up", ana.plan((process,), build="/srv/engine"), "--wait", "60", on=True)
    assert (up["state"], code) == ("up", 0), up["because"]
    clean.disconnect()  # it does not hang on the connection
    assert ana.ask("status", up["run"])[0]["runs"][0]["state"] == "running"
    assert ana.ask("down", up["run"])[1] == 0
    clean.a.run("rm", "-rf", "/srv/engine")


def another_image(host: Host, tag: str) -> None:
    """An engine that no other host has: the stand-in, under another name and with another description."""
    made = host.docker("create", TAG, "/bin/vllm").strip()
    host.docker("commit", "--change", f"LABEL of={tag}", made, tag)
    host.docker("rm", made)


@pytest.fixture
def other(clean: Lab) -> Iterator[str]:
    """An image that only the head holds, while the second has none of its layers."""
    tag = "standin/other:1"
    another_image(clean.a, tag)
    yield tag
    for host in clean.hosts:
        host.run("docker", "rmi", "-f", tag, check=False)


def candidates(ana: Operator, *builds: tuple[str, Sequence[Process], tuple[Finding, ...]]) -> str:
    plans = [
        made(processes, build=build, model="/lab", findings=findings) for build, processes, findings in builds
    ]
    return str(written(ana.folder / "plans.json", plans))


def failing() -> tuple[Process, ...]:
    head, second = launcher()
    return head, Process(second.host, second.ranks, (*second.argv, "--fail"))


def test_what_fails_is_gone_before_what_only_the_head_holds_is_carried_and_serves(
    ana: Operator, ben: Operator, clean: Lab, other: str
) -> None:
    plans = candidates(
        ana,
        ("docker-daemon:old:1", launcher(), refused("no such class")),
        (f"docker-daemon:{TAG}", failing(), ()),
        (f"docker-daemon:{other}@spark-a", launcher(), ()),
    )
    up, code = ana.ask("up", plans, *STANDIN, "--wait", "120", on=True)
    assert (up["state"], code) == ("up", 0), up
    old, failed, serves = up["candidates"]
    assert (old["state"], failed["state"], serves["state"]) == ("refused", "failed", "up")
    assert failed["because"] == "second: process 1 exited with 7: ValueError: no such model"
    evidence = Path(failed["evidence"])
    assert {path.name for path in evidence.glob("logs/*.log")} == {"head-rank-0.log", "second-rank-1.log"}
    assert "ValueError: no such model" in (evidence / "logs" / "second-rank-1.log").read_text()
    assert '"ExitCode":7' in (evidence / "counters" / "second.txt").read_text()
    assert failed["not_free"] == []
    with journal(ana.folder / ana.name) as kept:
        told = [one.what for one in kept.events(failed["run"]) if one.what not in ("phase", "cause")]
        carried = [step for step in kept.steps(up["run"]) if step.name == "carry"]
    assert told == ["refused", "failed", "evidence", "up"]
    assert [step.status for step in carried] == [0]
    ids = {host.docker("image", "inspect", "--format", "{{.Id}}", other) for host in clean.hosts}
    assert len(ids) == 1
    adopted, code = ben.ask("adopt", up["run"], on=True)
    (one,) = adopted["runs"]
    assert (code, one["state"], one["endpoint"], one["listens"]) == (0, "running", "head:8123", True)
    assert [each["ranks"] for each in one["processes"]] == ["0", "1"]
    for host in clean.hosts:  # every machine names him now
        whose = host.run("readlink", "/var/tmp/canserve/accelerator-0.lock").stdout
        assert whose.startswith(f"{up['run']} docker ben@"), whose
    assert ben.ask("down", up["run"])[1] == 0


def test_a_disk_that_is_full_while_it_is_copied_is_named_and_the_next_is_tried(
    ana: Operator, clean: Lab, other: str
) -> None:
    plans = candidates(
        ana, (f"docker-daemon:{other}@spark-a", launcher(), ()), (f"docker-daemon:{TAG}", launcher(), ())
    )
    clean.b.run("mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", "/var/lib/docker/tmp")
    try:
        up, code = ana.ask("up", plans, *STANDIN, "--wait", "120", on=True)
    finally:
        clean.b.run("umount", "/var/lib/docker/tmp")
    full, serves = up["candidates"]
    assert (code, full["state"], serves["state"]) == (0, "failed", "up"), up
    assert full["because"].startswith("second: ") and "no space left" in full["because"].lower()
    assert other not in clean.b.docker("images", "--format", "{{.Repository}}:{{.Tag}}")
    assert ana.ask("down", up["run"])[1] == 0


def test_whoever_names_one_host_is_told_of_the_other(ana: Operator, ben: Operator) -> None:
    up, code = ana.up(launcher())
    assert (up["state"], code) == ("up", 0), up
    status, code = ben.ask("status", up["run"], "--on", "spark-a")
    (one,) = status["runs"]
    assert (one["state"], code) == ("unknown", 3)
    assert [(each["machine"], each["why"]) for each in one["troubles"]] == [
        ("second", "it holds something of it, and was not named")
    ]
    down, code = ben.ask("down", up["run"], "--on", "spark-a")
    assert (down["state"], code, [each["machine"] for each in down["left"]]) == ("left", 3, ["second"])
    assert ben.ask("down", up["run"], on=True)[1] == 0


def test_a_restart_policy_begins_once_it_serves(ana: Operator, clean: Lab) -> None:
    up, code = ana.up(launcher(), "--restart", "on-failure:2")
    assert (up["state"], code) == ("up", 0), up
    asked = ("container", "inspect", "--format", "{{.HostConfig.RestartPolicy}}", f"canserve-{up['run']}-1")
    assert clean.b.docker(*asked).strip() == "{on-failure 2}"
    assert ana.ask("down", up["run"])[1] == 0


@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_an_operator_that_ends_while_it_copies(
    ana: Operator, ben: Operator, clean: Lab, other: str, signal: str
) -> None:
    plans = candidates(ana, (f"docker-daemon:{other}@spark-a", launcher(), ()))
    clean.b.docker("rmi", "-f", TAG)  # else it has every layer
    clean.wires.rate("fabric", "200kbit")
    program = str(Path(sys.executable).with_name("canserve"))
    words = ("up", plans, *STANDIN, "--on", ana.cluster, "--wait", "60")
    ended = clean.operator.run(
        "timeout", "-s", signal, "25", program, *words, check=False, timeout=120,
        env={**ana.env, "XDG_RUNTIME_DIR": "/run/operator"},
    )  # fmt: skip
    clean.wires.heal(clean.spaces())
    with journal(ana.folder / ana.name) as kept:
        (entry,) = kept.runs()
        assert [step.name for step in kept.steps(entry.run)].count("carry") == 1, ended
    if signal == "INT":
        assert "taken away again\n" in ended.stdout, (ended.stdout, ended.stderr)
    for one in ben.ask("status", on=True)[0]["runs"]:
        assert signal == "KILL"
        assert ben.ask("down", one["run"], on=True)[1] == 0
    assert other not in clean.b.docker("images", "--format", "{{.Repository}}:{{.Tag}}")
    script = "ps -eo args | grep '[d]ef take_image' | cut -c1-40"
    for host in clean.hosts:
        for _ in range(100):
            running = host.run("sh", "-c", script, check=False).stdout
            if not running:
                break
            time.sleep(0.2)
        assert running == ""
