"""The real program with a real torch: two ranks over loopback, and over a cable between two network namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from canserve.probes.preflight import program
from namespaces import Cable, cable, problem

CI = os.environ.get("CI", "").lower() in {"1", "true"}
COMMAND = str(Path(sys.executable).with_name("canserve"))
pytestmark = pytest.mark.slow


def run(*words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run([COMMAND, "machine", *words], capture_output=True, text=True, timeout=280, env=environment, stdin=subprocess.DEVNULL, check=False)  # fmt: skip


def flown(*words: str, path: str | None = None, seconds: int = 4) -> tuple[dict[str, Any], dict[str, Any]]:
    done = run(*words, "--preflight", "--step-seconds", str(seconds), "-q", "--format", "json", path=path)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    return said["preflight"], {each["check"]: each for each in said["findings"]}


def left(needle: str) -> list[str]:
    """Processes whose words hold it."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if needle in words and str(os.getpid()) != folder.name:
            found.append(words[:200])
    return found


def gone(needle: str, seconds: float = 25.0) -> bool:
    end = time.monotonic() + seconds
    while left(needle) and time.monotonic() < end:
        time.sleep(0.3)
    return not left(needle)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cable]:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    with cable(tmp_path / "two") as found:
        yield found


@pytest.fixture
def own(torch: str, tmp_path: Path) -> str:
    """The environment under a name of this test alone, so that its processes can be told from others."""
    (tmp_path / "env").symlink_to(torch)
    return str(tmp_path / "env")


def test_two_ranks_over_loopback(own: str) -> None:
    flight, findings = flown("local", "--in", own, "--backend", "gloo", seconds=20)
    assert flight["backend"] == "gloo" and [rank["state"] for rank in flight["ranks"]] == ["done", "done"]
    sizes = [each["size"] for each in flight["measures"] if each["op"] == "all_reduce"]
    assert sizes[0] == 8 and sizes[-1] == 1 << 28
    (pair,) = [each for each in flight["measures"] if each["op"] == "pair"]
    assert pair["pair"] == [0, 1] and 0 < pair["latency"] < 1 and pair["right"] is True
    for check in ("ranks-start", "ranks-meet", "ranks-connect", "collectives-right", "product-in-bfloat16"):
        assert findings[check]["verdict"] == "yes" and findings[check]["evidence"], check
    assert not flight["trials"] and gone(own) and not list(Path("/tmp").glob("canserve-preflight-*"))


def alike(two: Cable) -> str:
    """Both machines call their end alike, so that one setting fits both; the cluster file then."""
    subprocess.run(["ip", "-n", two.b, "link", "set", "to-a", "down"], check=True)
    subprocess.run(["ip", "-n", two.b, "link", "set", "to-a", "name", "to-b", "up"], check=True)
    return str(two.cluster(interface="to-b"))


def test_two_machines_on_a_whole_cable(own: str, two: Cable) -> None:
    words = (alike(two), "--in", own, "--env", "GLOO_SOCKET_IFNAME=to-b")
    flight, findings = flown(*words, path=two.path, seconds=10)
    assert flight["master"].startswith("10.77.0.1:") and flight["trials"] == []
    assert [(rank["node"], rank["address"]) for rank in flight["ranks"]] == [
        ("head", "10.77.0.1"),
        ("second", "10.77.0.2"),
    ]
    for check in ("ranks-start", "ranks-meet", "ranks-connect", "collectives-right", "product-in-bfloat16"):
        assert findings[check]["verdict"] == "yes", findings[check]
    assert gone(own)


def test_gloo_on_loopback_of_two_machines(own: str, two: Cable) -> None:
    flight, findings = flown(str(two.cluster()), "--in", own, "--env", "GLOO_SOCKET_IFNAME=lo", path=two.path)
    verdict = findings["ranks-connect"]
    assert verdict["verdict"] == "no" and "127.0.0.1, chosen by lo" in verdict["because"], verdict
    assert [trial["healed"] for trial in flight["trials"]] == [False, True]
    assert "GLOO_SOCKET_IFNAME=to-b/to-a" in verdict["fix"]
    assert gone(own)


def test_ports_that_are_swallowed(own: str, two: Cable) -> None:
    """The second reaches nothing of the first: it stands at the store, and is named."""
    two.run("a", "ip", "route", "add", "blackhole", "10.77.0.2/32")
    flight, findings = flown(str(two.cluster()), "--in", own, path=two.path)
    verdict = findings["ranks-meet"]
    assert verdict["verdict"] == "no", verdict
    assert "rank 1 (second) cannot reach the store at 10.77.0.1" in verdict["because"]
    assert not any(trial["healed"] for trial in flight["trials"]) and "let TCP" in verdict["fix"]
    assert flight["ranks"][0]["absent"] == [1] and "ranks-connect" not in findings
    assert gone(own)


def test_a_cable_that_is_pulled_while_they_talk(own: str, two: Cable) -> None:
    words = (alike(two), "--in", own, "--env", "GLOO_SOCKET_IFNAME=to-b")
    subprocess.run(["ip", "netns", "exec", two.b, "tc", "qdisc", "add", "dev", "to-b", "root", "tbf", "rate", "400mbit", "burst", "64kb", "latency", "50ms"], check=True)  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(lambda: flown(*words, path=two.path, seconds=8))
        assert wait_for(lambda: bool(traffic(two.b) > 40_000_000))
        subprocess.run(["ip", "-n", two.a, "link", "set", "to-b", "down"], check=True)
        flight, findings = doing.result()
    verdict = findings["collectives-right"]
    # On a busy machine the cable is pulled later: after the collectives two ranks send to each other.
    stalled = ("stalled in all_reduce", "stalled in pair 0 1")
    assert verdict["verdict"] == "no" and any(words in verdict["because"] for words in stalled), verdict
    assert findings["ranks-connect"]["verdict"] == "yes"
    assert flight["trials"] and not any(trial["healed"] for trial in flight["trials"])
    assert gone(own)


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


def traffic(space: str) -> int:
    named = subprocess.run(["ip", "-n", space, "-s", "-j", "link", "show", "to-b"], capture_output=True, text=True, check=True)  # fmt: skip
    return int(json.loads(named.stdout)[0]["stats64"]["tx"]["bytes"])


@contextmanager
def waiting(own: str, two: Cable) -> Iterator[subprocess.Popen[bytes]]:
    """A preflight whose ranks wait for each other in vain, both of them running."""
    two.run("a", "ip", "route", "add", "blackhole", "10.77.0.2/32")
    words = ["machine", str(two.cluster()), "--preflight", "--in", own, "--step-seconds", "60", "-q"]
    started = subprocess.Popen([COMMAND, *words], env={**os.environ, "PATH": two.path}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        assert wait_for(lambda: len([x for x in left(own) if "canserve_preflight.py rank" in x]) == 2)
        yield started
    finally:
        started.kill()
        started.wait()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whoever_ends_the_command_ends_everything(own: str, two: Cable, how: signal.Signals) -> None:
    """While one rank waits for a second that never comes; nothing but the deadline would end it."""
    with waiting(own, two) as started:
        started.send_signal(how)
        assert gone(f"{own}/bin/python3")
        started.wait(10)


def test_a_connection_that_is_cut_ends_everything(own: str, two: Cable) -> None:
    with waiting(own, two):
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"-F\0{two.folder}/config" in words and folder.name.isdigit():
                os.kill(int(folder.name), signal.SIGKILL)
        assert gone(f"{own}/bin/python3")


def test_dry_run_prints_it_and_starts_nothing(tmp_path: Path) -> None:
    done = run("local", "--preflight", "--in", str(tmp_path), "--backend", "gloo", "--dry-run", "-q")
    assert done.returncode == 0 and done.stdout.startswith(
        "# local: /bin/sh, with this as its input:\nPROGRAM="
    )
    assert f"{tmp_path}/bin/python3 -u -c" in done.stdout and "def supervise" in done.stdout
    subprocess.run(["sh", "-n"], input=done.stdout, text=True, check=True)


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    flight, findings = flown("local", "--in", f"{tmp_path}/none; touch {tmp_path}/made", "--backend", "gloo")
    verdict = findings["ranks-start"]
    assert verdict["verdict"] == "no" and "not found" in verdict["because"], verdict
    assert not (tmp_path / "made").exists() and flight["trials"] == []


def kernel_steps(torch: str, folder: Path, *names: str, device: str) -> list[tuple[str, str]]:
    """The steps of the kernels' own process, and how it said they ended."""
    path = folder / "program.py"
    path.write_text(program())
    task = json.dumps({"first": 0, "kernels": names, "device": device})
    words = [f"{torch}/bin/python3", str(path), "kernels", task, "0"]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    records = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]
    return [(each["step"], each["state"]) for each in records if each["state"] != "begin"]


def test_kernels_for_a_gpu_are_never_tried_on_the_processor(torch: str, tmp_path: Path) -> None:
    here = kernel_steps(torch, tmp_path, "bfloat16", "int8", "triton", "fp4", device="cpu")
    assert here == [
        ("kernel bfloat16", "done"), ("kernel int8", "done"), ("kernel triton", "absent"), ("kernel fp4", "absent"),
        ("end", "done"),
    ]  # fmt: skip
    for name in ("bfloat16", "int8", "triton", "fp8-scaled", "fp4", "int4"):
        assert kernel_steps(torch, tmp_path, name, device="cuda") == [], f"{name} has failed: there is no GPU"
