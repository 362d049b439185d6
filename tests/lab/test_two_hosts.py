"""The lab itself: what it promises to the tests that use it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.leftovers import PREFIX, Record, end_spaces, sweep, traces
from lab.spaces import born, network_of
from lab.two_hosts import Lab, two_hosts

TESTS = Path(__file__).parent.parent


def ssh(lab: Lab, host: str, command: str) -> subprocess.CompletedProcess[str]:
    return lab.operator.run(
        "ssh", "-o", "ConnectTimeout=3", "-o", "BatchMode=yes", host, command, check=False, timeout=200
    )  # the jump host may try to reach a dead one for two minutes, and ssh's own child waits for that


def test_two_machines_with_engines_of_their_own(lab: Lab) -> None:
    for host in lab.hosts:
        assert host.docker("info", "--format", "{{.Name}}") == host.name
        assert ssh(lab, host.name, "hostname; id -un").stdout.split() == [host.name, "spark"]
    kernels = {host.read("/proc/sys/kernel/random/boot_id") for host in lab.hosts}
    assert len(kernels) == 2


def test_the_second_is_reached_only_through_the_first(lab: Lab) -> None:
    direct = ("-o", "ProxyJump=none", "-o", "ConnectTimeout=2", "-o", "BatchMode=yes")
    refused = lab.operator.run("ssh", *direct, "spark-b", "true", check=False)
    assert refused.returncode == 255 and "unreachable" in refused.stderr
    heard = [host.heard() for host in lab.hosts]
    assert ssh(lab, "spark-b", "true").returncode == 0
    assert [host.logins(since) for host, since in zip(lab.hosts, heard, strict=True)] == [1, 1]


def test_nothing_leads_out_of_the_lab(lab: Lab) -> None:
    for host in lab.hosts:
        assert "default" not in host.run("ip", "route").stdout
        assert (host.root / "etc/resolv.conf").read_text() == ""


def test_recorded_hardware_says_that_it_is(lab: Lab) -> None:
    for host in lab.hosts:
        assert "recorded" in host.read("/etc/canserve-lab/SIMULATED")
        assert "GB10" in host.run("nvidia-smi", "-L").stdout
        assert (
            host.run("uname", "-m").stdout == "aarch64\n"
            and host.run("uname", "-n").stdout == f"{host.name}\n"
        )
        refused = host.run("nvidia-smi", "--gpu-reset", check=False)
        assert refused.returncode == 78 and "nothing was recorded" in refused.stderr


def test_a_pulled_cable_is_seen_and_can_be_put_back(lab: Lab) -> None:
    carrier = "/sys/class/net/enp1s0f0np0/carrier"
    lab.wires.unplug("fabric", "spark-b")
    assert lab.b.read(carrier) == "0\n"
    assert ssh(lab, "spark-b", "true").returncode == 255
    lab.heal()
    assert lab.b.read(carrier) == "1\n" and ssh(lab, "spark-b", "true").returncode == 0


def test_a_silent_link_keeps_its_carrier(lab: Lab) -> None:
    lab.wires.drop("mgmt")
    assert lab.a.read("/sys/class/net/enP7s7/carrier") == "1\n"
    assert "timed out" in ssh(lab, "spark-a", "true").stderr
    lab.heal()
    assert ssh(lab, "spark-a", "true").returncode == 0


def test_a_slow_link_is_slow_and_whole(lab: Lab) -> None:
    lab.delay("mgmt", 40)
    done = ssh(lab, "spark-a", "head -c 300000 /dev/zero | tr '\\0' x; ss -tin state established >&2")
    assert len(done.stdout) == 300_000
    (fastest,) = set(re.findall(r"minrtt:(\d+)", done.stderr))
    assert int(fastest) >= 80, "the kernel's own measure: 40 ms there, 40 ms back"
    lab.heal()
    lab.wires.rate("mgmt", "2mbit")
    assert ssh(lab, "spark-a", "head -c 300000 /dev/zero | tr '\\0' x").stdout == "x" * 300_000
    told = lab.wires.shown("mgmt")
    assert "rate 2Mbit" in told and "Sent" in told
    lab.heal()
    assert "tbf" not in lab.wires.shown("mgmt")


def test_power_off_and_on_keeps_the_disk_alone(lab: Lab) -> None:
    lab.b.write("/var/kept", "kept")
    lab.b.write("/tmp/lost", "lost")
    boot = lab.b.read("/proc/sys/kernel/random/boot_id")
    lab.b.power_off()
    assert not lab.b.on and ssh(lab, "spark-b", "true").returncode == 255
    lab.b.boot()
    assert lab.b.read("/var/kept") == "kept" and not (lab.b.root / "tmp/lost").exists()
    assert lab.b.read("/proc/sys/kernel/random/boot_id") != boot
    assert ssh(lab, "spark-b", "true").returncode == 0


def test_files_are_copied_and_changed_for_a_while(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("one")
    lab.a.copy(tmp_path / "folder", "/srv/folder")
    assert lab.a.read("/srv/folder/file") == "one"
    with lab.a.changed("/srv/folder/file", "two"), lab.a.changed("/srv/new", "new"):
        assert lab.a.read("/srv/folder/file") == "two" and lab.a.read("/srv/new") == "new"
    assert lab.a.read("/srv/folder/file") == "one" and not (lab.a.root / "srv/new").exists()


def test_a_registry_that_only_the_first_reaches(lab: Lab) -> None:
    address = lab.registry()
    ask = "exec 3<>/dev/tcp/10.77.0.1/5000 && printf 'GET /v2/ HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"
    assert address == "10.77.0.1:5000"
    assert "200" in lab.a.run("bash", "-c", ask).stdout
    assert lab.b.run("bash", "-c", ask, check=False).returncode != 0


def test_nothing_stays(sparks: Lab) -> None:
    with two_hosts() as other:
        assert other.folder != sparks.folder
        assert len([each for each in traces(other.record) if each.startswith("process")]) > 6
    assert traces(other.record) == []
    assert sparks.a.on, "and nobody else's lab was touched"


@pytest.fixture
def killed(sparks: Lab) -> Record:
    """What is known of a lab whose test process was killed while it was up."""
    script = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r}); from lab.two_hosts import two_hosts; import time\n"
        "with two_hosts() as lab: print(lab.folder, flush=True); time.sleep(600)"
    )
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    folder = Path(running.stdout.readline().strip())
    assert folder.name.startswith(PREFIX)
    record = Record.read(folder)
    assert record is not None and not record.orphaned and len(record.spaces) == 4
    running.send_signal(signal.SIGKILL)
    running.wait()
    running.stdout.close()
    return record


def test_a_killed_test_process_takes_its_lab_with_it(killed: Record) -> None:
    for _ in range(200):
        left = [each for each in traces(killed) if each.startswith(("process", "mount", "link"))]
        if not left:
            break
        time.sleep(0.05)
    assert left == [] and killed.orphaned
    assert killed.folder in sweep()
    assert traces(killed) == []


def test_only_what_was_written_down_is_ended(sparks: Lab, tmp_path: Path) -> None:
    """A number that a stranger has by now, or a space that is this process's own, is left alone."""
    stranger = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    meant = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        own = network_of(os.getpid())
        while network_of(stranger.pid) == own or network_of(meant.pid) == own:
            time.sleep(0.01)
        network = network_of(meant.pid)
        assert network is not None and own is not None
        end_spaces(
            Record(tmp_path, spaces=[(stranger.pid, network), (os.getpid(), own), (meant.pid, network)])
        )
        assert meant.wait(10) == -signal.SIGKILL
        assert born(stranger.pid) is not None and stranger.poll() is None
    finally:
        for process in (stranger, meant):
            process.kill()
            process.wait()
