"""Machines that are broken, cut off or hostile: a cause in every case, and the other machine untouched by it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.hosts import USER, Host, ssh_key
from lab.reports import Facts, machines, missing, reached, why
from lab.two_hosts import Lab

PROGRAM = "755"
HARDWARE = ("gpu", "capability", "gpus", "accelerators", "host_memory", "driver", "cpu_arch", "libc")


@pytest.fixture(scope="module")
def usual(sparks: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facts, Facts]]:
    from lab.conftest import CLUSTER

    path = tmp_path_factory.mktemp("usual") / "cluster.toml"
    path.write_text(CLUSTER)
    sparks.disconnect()
    yield machines(sparks, str(path))


def same(facts: Facts, before: Facts, names: tuple[str, ...] = HARDWARE) -> bool:
    changed = {name: (facts[name], before[name]) for name in names if facts[name] != before[name]}
    assert not changed
    return True


def wholly(facts: Facts, before: Facts) -> bool:
    """All that was known before is known again."""
    return not {name for name in facts if missing(facts, name)} - {
        name for name in before if missing(before, name)
    }


@contextmanager
def full(host: Host, *folders: str) -> Iterator[None]:
    """File systems without a byte left."""
    for folder in folders:
        host.run("mount", "-t", "tmpfs", "-o", "size=8k,mode=1777", "tmpfs", folder)
        host.run(
            "sh",
            "-c",
            'dd if=/dev/zero of="$1/fill" bs=4096 2>/dev/null; ! echo more >"$1/more"',
            "sh",
            folder,
        )
    try:
        yield
    finally:
        for folder in folders:
            host.run("umount", folder)


def test_both_machines_are_known(usual: tuple[Facts, Facts]) -> None:
    for facts in usual:
        assert facts["gpu"] == "NVIDIA GB10" and facts["capability"] == "12.1"
        assert facts["container_engines"][0]["state"] == "usable"
    assert [facts["own_name"]["name"] for facts in usual] == ["spark-a", "spark-b"]


def test_a_changed_host_key(lab: Lab, cluster: str, usual: tuple[Facts, Facts], tmp_path: Path) -> None:
    ssh_key(tmp_path / "other", "another machine")
    with lab.b.changed("/etc/ssh/lab_host_key", (tmp_path / "other").read_text(), "600"):
        lab.b.reload_sshd()
        head, second = machines(lab, cluster)
    lab.b.reload_sshd()
    assert why(second).startswith("unavailable") and "host key has changed" in why(second)
    assert wholly(head, usual[0])


def test_a_jump_host_whose_key_has_changed_is_named(lab: Lab, cluster: str, tmp_path: Path) -> None:
    ssh_key(tmp_path / "other", "another machine")
    with lab.a.changed("/etc/ssh/lab_host_key", (tmp_path / "other").read_text(), "600"):
        lab.a.reload_sshd()
        head, second = machines(lab, cluster)
    lab.a.reload_sshd()
    assert "host key has changed" in why(head)
    assert "host key has changed" in why(second) and "on the way through spark-a" in why(second)


def test_a_refused_login(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    with lab.b.changed("/etc/ssh/lab_authorized_keys", ""):
        head, second = machines(lab, cluster)
    assert why(second).startswith("unavailable") and "login was refused" in why(second)
    assert wholly(head, usual[0])


def test_a_jump_host_that_is_off(lab: Lab, cluster: str) -> None:
    lab.a.power_off()
    head, second = machines(lab, cluster)
    assert why(head).startswith("unreached") and "does not answer" in why(head)
    assert why(second).startswith("unreached") and "spark-a" in why(second)


def test_a_jump_host_that_does_not_pass_on(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    with lab.a.changed("/etc/ssh/lab_further.conf", "AllowTcpForwarding no\n"):
        lab.a.reload_sshd()
        head, second = machines(lab, cluster)
    lab.a.reload_sshd()
    assert why(second).startswith("un") and "on the way through spark-a" in why(second)
    assert wholly(head, usual[0])


def test_a_dead_machine_costs_the_others_nothing(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    lab.wires.drop("fabric", "spark-b")
    head, second = machines(lab, cluster)
    assert why(second).startswith("unreached") and wholly(head, usual[0])


@pytest.mark.slow  # ssh takes ten seconds to notice
@pytest.mark.parametrize("how", ["pulled", "silent", "power"])
def test_a_connection_lost_in_the_middle(
    lab: Lab, cluster: str, usual: tuple[Facts, Facts], how: str
) -> None:
    """What was said before is kept; of the rest nothing is claimed."""
    waiting = "#!/bin/sh\n: >/lab/asked\nexec sleep 600\n"
    asked = lab.b.share / "asked"
    asked.unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool, lab.b.changed("/usr/local/bin/hostname", waiting, PROGRAM):
        look = pool.submit(machines, lab, cluster)
        while not asked.exists():
            assert not look.done(), look.result()
            time.sleep(0.05)
        time.sleep(0.5)  # what was said has time to arrive
        match how:
            case "pulled":
                lab.wires.cut("fabric")
            case "silent":
                lab.wires.drop("fabric")
            case _:
                lab.b.power_off()
        try:
            head, second = look.result()
        finally:
            lab.heal()
    assert reached(second) and same(second, usual[1], ("host_memory", "cpu_arch", "interfaces", "driver"))
    for name in ("own_name", "containers", "images", "disks", "accelerators"):
        assert why(second, name).startswith("unreached") and "while asking for own_name" in why(second, name)
    assert wholly(head, usual[0])


def test_logins_that_print(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    noise = "printf 'Welcome to \\377\\376 \\033[31mred\\033[0m\\n\\nhello\\nbye\\n'; echo more >&2; printf '\\nGPU 0: H100\\n'\n"
    banner = "Banner /etc/ssh/lab_banner\n"
    home = f"{lab.b.run('sh', '-c', f'echo ~{USER}').stdout.strip()}/.bashrc"
    with (
        lab.b.changed(home, noise),
        lab.b.changed("/etc/ssh/lab_banner", "No entry. Permission denied. Connection refused.\n"),
        lab.b.changed("/etc/ssh/lab_further.conf", banner),
    ):
        lab.b.reload_sshd()
        _, second = machines(lab, cluster)
    lab.b.reload_sshd()
    assert wholly(second, usual[1]) and same(second, usual[1])


def test_a_full_disk(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    """A script that must write somewhere, if only a here-document, fails there or, worse, reads nothing."""
    with full(lab.b, "/tmp", "/var/tmp", "/home", "/dev/shm"):
        _, second = machines(lab, cluster)
    assert wholly(second, usual[1]) and same(second, usual[1])
    assert second["shared_memory"]["free"] == 0
    assert next(disk for disk in second["disks"] if disk["use"] == "hub")["free"] == 0


def test_the_operators_own_disk_is_full(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    folder = f"{lab.folder}/full"
    Path(folder).mkdir()
    script = 'mount -t tmpfs -o size=8k tmpfs "$1"; dd if=/dev/zero of="$1/fill" bs=4096 2>/dev/null; chmod 700 "$1"'
    lab.operator.run("sh", "-c", script, "sh", folder)
    places = {"XDG_RUNTIME_DIR": folder, "CANSERVE_CACHE": folder, "TMPDIR": folder}
    done = lab.canserve("machine", cluster, env=places)
    lab.operator.run("umount", "-l", folder)  # ssh keeps a socket there, for as long as its connection
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("NVIDIA GB10") >= 2


def test_docker_that_this_user_may_not_use(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    lab.b.run("gpasswd", "-d", USER, "docker")
    try:
        _, second = machines(lab, cluster)
    finally:
        lab.b.run("usermod", "-aG", "docker", USER)
    assert second["container_engines"][0]["state"] == "permission denied"
    for name in ("containers", "images"):
        assert why(second, name).startswith("unavailable") and "permission denied" in why(second, name)
    assert same(second, usual[1])


@pytest.mark.slow
def test_a_docker_daemon_that_hangs(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    lab.b.engine(signal.SIGSTOP)
    head, second = machines(lab, cluster)
    assert second["container_engines"][0]["state"] == "not answering"
    for name in ("containers", "images"):
        assert why(second, name).startswith("unavailable")
    assert same(second, usual[1]) and wholly(head, usual[0])


def test_a_docker_daemon_that_is_down(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    lab.b.engine(signal.SIGKILL)
    _, second = machines(lab, cluster)
    lab.b.power_off()  # its disk has what a killed daemon leaves
    lab.b.boot()
    assert second["container_engines"][0]["state"] == "down"
    assert why(second, "containers").startswith("unavailable") and same(second, usual[1])


@pytest.mark.parametrize(
    "program",
    [
        "yes 'NVIDIA GB10, 12.1' | head -c 1000000000",
        "head -c 1000000000 /dev/zero",
        "printf '0, NVIDIA \\377\\376, GPU-1, [N/A], [N/A], [N/A], 12.1\\n\\300\\200'; head -c 70000 /dev/urandom",
        pytest.param("trap '' TERM HUP INT; sleep 600", marks=pytest.mark.slow),
        "kill -SEGV $$",
        "exit 0",
    ],
    ids=["text", "zeros", "noise", "hangs", "dies", "silent"],
)
def test_a_tool_gone_mad(lab: Lab, cluster: str, usual: tuple[Facts, Facts], program: str) -> None:
    """Of the accelerators nothing is claimed, least of all that there is none; all else is as it was."""
    with lab.b.changed("/usr/bin/nvidia-smi", f"#!/bin/sh\n{program}\n", PROGRAM):
        head, second = machines(lab, cluster)
    assert missing(second, "accelerators") and missing(second, "cuda")
    assert second["gpus"] != 0 and same(second, usual[1], ("host_memory", "driver", "cpu_arch", "containers"))
    assert wholly(head, usual[0])


def test_a_docker_that_prints_for_ever(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    script = "#!/bin/sh\nexec head -c 1000000000 /dev/zero\n"
    with lab.b.changed("/usr/local/bin/docker", script, PROGRAM):
        head, second = machines(lab, cluster)
    for name in ("container_engines", "containers"):
        assert missing(second, name) or second[name][0]["state"] != "usable"
    assert missing(second, "containers") and missing(second, "images")
    assert same(second, usual[1]) and wholly(head, usual[0])


def test_a_long_and_lossy_way(lab: Lab, cluster: str, usual: tuple[Facts, Facts]) -> None:
    lab.delay("mgmt", 100, loss=0.02)
    head, second = machines(lab, cluster)
    assert wholly(head, usual[0]) and wholly(second, usual[1])
