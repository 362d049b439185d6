"""``canserve machine`` on real machines: this one, and one behind a real sshd that answers as recorded."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import run

from loopback import Loopback, problem, sshd, user
from terminal import on_terminal

RECORDED = Path(__file__).parent.parent / "probes" / "host" / "recorded"
CI = os.environ.get("CI", "").lower() in {"1", "true"}
SMI = """#!/bin/sh
case "$*" in
*driver_version*) echo 580.95.05;;
*--query-gpu=*) cat {0}/gpus.txt;;
*--query-compute-apps=*) cat {0}/gpu_processes.txt;;
-L) cat {0}/gpu_instances.txt;;
'') cat {0}/cuda.txt;;
*) exit 2;;
esac
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """A machine whose nvidia-smi answers like a GB10's; ``ssh`` on the PATH reaches it under any name."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("spark")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI.format(RECORDED / "gb10"))
    (tools / "uname").write_text('#!/bin/sh\n[ "$1" = -m ] && echo aarch64 || echo 6.11.0-1016-nvidia\n')
    with sshd(folder / "sshd", settings=f"SetEnv PATH={tools}:/usr/local/bin:/usr/bin:/bin") as running:
        running.configure()
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {running.config} "$@"\n')
        for tool in (*tools.iterdir(), ssh):
            tool.chmod(0o755)
        yield running


def path(spark: Loopback) -> dict[str, str]:
    return {"PATH": f"{spark.folder.parent}/bin:{os.environ['PATH']}"}


def facts(stdout: str, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout)["machines"][number]["facts"]
    return found


def test_this_machine(tmp_path: Path) -> None:
    saved = tmp_path / "here.toml"
    done = run("machine", "local", "--format", "json", "--save", str(saved))
    assert done.returncode == 0, done.stderr
    here = facts(done.stdout)
    assert here["kernel"] == os.uname().release and here["host_memory"]["total"] > 1 << 28
    again = facts(run("machine", str(saved), "--format", "json").stdout)
    for field in ("cpu_arch", "disk", "gpus"):  # none is a number of accelerators
        assert again[field] == here[field], field


def test_a_machine_over_ssh(spark: Loopback, tmp_path: Path) -> None:
    saved = tmp_path / "spark.toml"
    done = run("machine", f"{user()}@spark-1", "--format", "json", "--save", str(saved), **path(spark))
    assert done.returncode == 0, done.stderr
    seen = facts(done.stdout)
    assert (seen["gpu"], seen["capability"], seen["cpu_arch"]) == ("NVIDIA GB10", "12.1", "aarch64")
    assert seen["unified_memory"] is True and seen["visible_memory"] == seen["host_memory"]["total"]
    again = facts(run("machine", str(saved), "--format", "json").stdout)
    for field in ("gpu", "capability", "driver", "visible_memory", "bandwidth", "gpus"):
        assert again[field] == seen[field], field


def test_its_text_is_for_eighty_columns(spark: Loopback) -> None:
    program = str(Path(sys.executable).with_name("canserve"))
    code, out, err = on_terminal(
        [program, "machine", "spark-1"], environment={"NO_COLOR": "1", **path(spark)}
    )
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80 and "VLLM::EngineCore" in out


def test_a_cluster_file_whose_machines_are_looked_at(spark: Loopback, tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        '[nodes.head]\naddress = "spark-1"\n[nodes.second]\naddress = "spark-2"\nthrough = "head"\n'
        'profile = "dgx-spark"\ninter_node = "RoCE, 25 GB/s each way"\n'
    )
    done = run("machine", str(file), "--format", "json", **path(spark))
    assert done.returncode == 0, done.stderr
    assert facts(done.stdout)["capability"] == "12.1" and facts(done.stdout, 1)["driver"] == "580.95.05"
    assert facts(done.stdout, 1)["inter_node"] == "RoCE, 25 GB/s each way"
    looks = json.loads(done.stdout)["machines"][1]["evidence"]
    assert looks["driver"][0]["when"] is not None and looks["inter_node"][0]["how"].startswith(str(file))


def test_check_and_plan_on_a_machine_that_is_looked_at(spark: Loopback, root: Path) -> None:
    model = str(root / "examples" / "founding" / "model")
    planned = run("plan", model, "--on", "spark-1", "--format", "json", "--offline", **path(spark))
    assert planned.returncode in {1, 3}, planned.stderr  # offline: nothing is known of it
    live = run("plan", model, "--on", "spark-1", "--format", "json", **path(spark))
    assert live.returncode in {0, 1, 3} and "canserve failed" not in live.stderr, live.stderr
    assert json.loads(live.stdout)


def test_what_is_said_of_a_machine_that_was_not_looked_at_is_marked(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "away.toml"
    file.write_text('[nodes.a]\naddress = "no-such-machine.invalid"\nprofile = "dgx-spark"\n')
    model = str(root / "examples" / "founding" / "model")
    done = run("plan", model, "--on", str(file), "--offline", "--format", "json")
    assert "was not looked at: offline; what was said of it before is taken" in done.stdout, done.stderr
    build = str(tmp_path / "no-build")
    done = run("check", model, "--build", build, "--on", str(file), "--offline", "--format", "json")
    (report,) = json.loads(done.stdout)["builds"]
    assert any("was not looked at" in note for note in report["notes"])


def test_a_machine_that_cannot_be_reached_is_unknown(spark: Loopback, tmp_path: Path) -> None:
    refused = run("machine", "nobody-of-that-name@spark-1", **path(spark))
    assert refused.returncode == 3 and "the login was refused" in refused.stdout
    done = run("machine", "no-such-machine.invalid")
    assert done.returncode == 3 and "stands for no address" in done.stdout
    assert run("machine", "a b").returncode == 2
    assert run("machine", "local", "--save", str(tmp_path / "x.json")).returncode == 2
    nowhere = run("machine", "local", "--save", str(tmp_path / "no" / "x.toml"))
    assert nowhere.returncode == 2 and "no folder" in nowhere.stderr and not nowhere.stdout
    (tmp_path / "wrong.toml").write_text("[nodes.a]\nadress = 'x'\n")
    wrong = run("machine", str(tmp_path / "wrong.toml"))
    assert wrong.returncode == 2 and "unknown key adress" in wrong.stderr and "--list" not in wrong.stderr
    saved = tmp_path / "gone.toml"
    assert run("machine", "no-such-machine.invalid", "--save", str(saved)).returncode == 3
    assert "look" not in saved.read_text().split("[nodes.", 1)[1]  # it is looked at when the file is used
    assert run("machine", str(saved), "--save", str(saved)).returncode == 2


def test_plans_over_machines_that_were_looked_at_say_whether_they_go_together(
    spark: Loopback, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "two.toml"
    file.write_text('[nodes.head]\naddress = "spark-1"\n[nodes.second]\naddress = "spark-2"\n')
    model = str(root / "examples" / "founding" / "model")
    done = run("plan", model, "--on", str(file), "--format", "json", **path(spark))
    plans = json.loads(done.stdout)["plans"]
    over_two = [plan for plan in plans if len({rank["machine"] for rank in plan["ranks"]}) == 2]
    assert over_two, done.stderr
    judged = {finding["check"]: finding for finding in over_two[0]["findings"]}
    # One sshd under two names: both machines have the same address, which joins nothing.
    assert judged["reachable"]["verdict"] == "yes" and judged["interfaces-agree"]["verdict"] == "unknown"
    assert "gpu-free" not in judged and judged["reachable"]["about"] == "head, second"
    profiles = run("plan", model, "--on", "2xprofile:dgx-spark", "--format", "json")
    best = json.loads(profiles.stdout)["plans"][0]
    assert not {"reachable", "interfaces-agree"} & {finding["check"] for finding in best["findings"]}
    assert any(each["check"] == "interfaces-agree" for each in best["skipped"])
