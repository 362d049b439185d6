"""Images and weights carried to a host that only another host reaches, through every fault on the way."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from canserve.units import Bytes
from lab.hosts import Host
from lab.two_hosts import RUNTIME, Lab
from made_images import docker_archive, layer

pytestmark = pytest.mark.slow
MB = 1_000_000
W = "/srv/weights"
CARD = "/sys/class/net/enp1s0f0np0/statistics/rx_bytes"
DOOR = "/sys/class/net/enP7s7/statistics/tx_bytes"


def layers(count: int, size: int = 3 * MB) -> list[bytes]:
    """Of contents that nobody has yet."""
    return [layer({f"opt/part-{number}": os.urandom(size)}) for number in range(count)]


def hold(host: Host, parts: list[bytes], tag: str) -> str:
    """Load an image into a host's docker; its identifier."""
    archive = docker_archive(host.share / "image.tar", parts, tag)
    host.docker("load", "-q", "-i", "/lab/image.tar")
    archive.unlink()
    return host.docker("image", "inspect", "-f", "{{.Id}}", tag)


def identifier(host: Host, tag: str) -> str | None:
    """Of an image; None: it is not there."""
    found = host.run("docker", "image", "inspect", "-f", "{{.Id}}", tag, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def distribute(lab: Lab, *words: str) -> str:
    """The command, which succeeds; what it says."""
    done = lab.canserve("distribute", "--quiet", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def received(lab: Lab) -> int:
    """Bytes that came to the second host."""
    return int(lab.b.read(CARD))


def left(host: Host) -> list[str]:
    """What copies left behind: programs, and files that are not what was copied."""
    script = "ls -A ~spark/.cache/canserve/incoming/* 2>/dev/null; find ~spark /srv /var/lib/docker/tmp -name '*.part' -o -name .canserve-incoming; "
    script += "ps -eo args | grep -c '[d]ef take_image' | grep -v '^0$'"
    return host.run("sh", "-c", script, check=False).stdout.split()


@contextmanager
def going_on(lab: Lab, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in the background, as the operator's process."""
    program = str(Path(sys.executable).with_name("canserve"))
    env = ["env", f"XDG_RUNTIME_DIR={RUNTIME}", program, "distribute", *words]
    log = lab.folder / "distribute.log"
    with log.open("wb") as file:
        process = lab.operator.start(*env, log=file)
        yield process


def kill(operator: subprocess.Popen[bytes]) -> None:
    """The command itself, with SIGKILL: what was started is its way into the operator's machine."""
    for child in Path(f"/proc/{operator.pid}/task/{operator.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    operator.kill()
    operator.wait()


def wait_until_bytes(lab: Lab, count: int, before: int) -> None:
    for _ in range(600):
        if received(lab) - before > count:
            return
        time.sleep(0.05)
    pytest.fail("nothing came")


@pytest.fixture
def fresh(lab: Lab) -> Iterator[Lab]:
    """Two hosts without images and weights of a test before."""
    for host in lab.hosts:
        host.run("sh", "-c", f"docker image prune -af >/dev/null; rm -rf {W} ~spark/.cache/canserve")
        host.run("sh", "-c", f"mkdir -p {W} && chown spark {W}")
    yield lab
    lab.b.run("sh", "-c", f"umount {W} /var/lib/docker/tmp 2>/dev/null; true")


def test_an_image_goes_straight_to_the_host_that_only_the_head_reaches(fresh: Lab, cluster: str) -> None:
    sent = hold(fresh.a, layers(4), "engine:new")
    through_the_operator = int(fresh.a.read(DOOR))
    said = distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent
    assert f"verified: {sent}" in said
    assert "straight over the network between them" in said
    assert int(fresh.a.read(DOOR)) - through_the_operator < MB, "it went over the management link"
    assert left(fresh.b) == []
    again = received(fresh)
    assert "it is there" in distribute(fresh, "--image", "engine:new", "--to", cluster)
    assert received(fresh) - again < MB


def test_only_layers_that_are_not_there_travel(fresh: Lab, cluster: str) -> None:
    parts = layers(5)
    hold(fresh.b, parts[:4], "engine:old")
    sent = hold(fresh.a, parts, "engine:new")
    before = received(fresh)
    said = distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent
    assert "4 of 5 layers are there" in said
    assert received(fresh) - before < 3.7 * MB


def test_layers_in_another_order_are_no_layers_that_are_there(fresh: Lab, cluster: str) -> None:
    parts = layers(3)
    hold(fresh.b, parts[::-1], "engine:old")
    sent = hold(fresh.a, parts, "engine:new")
    distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent


def test_an_image_that_is_there_under_another_name_is_named(fresh: Lab, cluster: str) -> None:
    parts = layers(2)
    sent = hold(fresh.a, parts, "engine:new")
    hold(fresh.b, parts, "other:name")
    before = received(fresh)
    distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent
    assert received(fresh) - before < MB


def test_without_a_network_between_them_it_goes_through_the_operator(fresh: Lab, cluster: str) -> None:
    Path(cluster).write_text(
        "".join(
            x for x in Path(cluster).read_text().splitlines(True) if not x.startswith("i") or "internet" in x
        )
    )
    sent = hold(fresh.a, layers(2), "engine:new")
    said = distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert "through this machine" in said
    assert identifier(fresh.b, "engine:new") == sent


def test_an_address_that_is_not_reached_is_said_and_gone_around(fresh: Lab, cluster: str) -> None:
    Path(cluster).write_text(Path(cluster).read_text().replace("10.77.1.3", "10.99.0.3"))
    sent = hold(fresh.a, layers(2), "engine:new")
    said = distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert "spark-b" not in said or "not straight" in said
    assert "through this machine" in said
    assert identifier(fresh.b, "engine:new") == sent


def test_one_host_fetches_it_from_the_registry_and_the_other_gets_it_from_there(
    fresh: Lab, cluster: str
) -> None:
    name = f"{fresh.registry()}/engine:new"
    sent = hold(fresh.a, layers(2), name)
    fresh.a.docker("push", "-q", name)
    fresh.a.docker("image", "rm", name)
    said = distribute(fresh, "--image", f"docker://{name}", "--to", cluster)
    assert "from its registry" in said
    assert identifier(fresh.a, name) == identifier(fresh.b, name) == sent


def test_an_operator_that_is_killed_leaves_nothing_half_and_the_next_goes_on(
    fresh: Lab, cluster: str
) -> None:
    sent = hold(fresh.a, layers(6), "engine:new")
    fresh.wires.rate("fabric", "40mbit")
    before = received(fresh)
    with going_on(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster) as operator:
        wait_until_bytes(fresh, 11 * MB, before)
        kill(operator)
    fresh.wires.heal(fresh.spaces())
    assert identifier(fresh.b, "engine:new") is None
    before = received(fresh)
    said = distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent, said
    assert received(fresh) - before < 9.5 * MB, "what had come was sent again"
    assert left(fresh.b) == []


def test_an_interrupted_copy_ends_at_once_and_leaves_no_program(fresh: Lab, cluster: str) -> None:
    hold(fresh.a, layers(6), "engine:new")
    fresh.wires.rate("fabric", "20mbit")
    before = received(fresh)
    with going_on(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster) as operator:
        wait_until_bytes(fresh, 3 * MB, before)
        (child,) = Path(f"/proc/{operator.pid}/task/{operator.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGINT)
        assert operator.wait(5) == 130
    fresh.wires.heal(fresh.spaces())
    assert identifier(fresh.b, "engine:new") is None
    for host in fresh.hosts:
        for _ in range(100):
            running = host.run(
                "sh", "-c", "ps -eo args | grep '[d]ef take_image' | cut -c1-40", check=False
            ).stdout
            if not running:
                break
            time.sleep(0.2)
        assert running == ""


def test_a_cable_that_is_pulled_for_a_while_is_waited_for(fresh: Lab, cluster: str) -> None:
    sent = hold(fresh.a, layers(6), "engine:new")
    fresh.wires.rate("fabric", "40mbit")
    before = received(fresh)
    with going_on(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster) as operator:
        wait_until_bytes(fresh, 8 * MB, before)
        fresh.wires.cut("fabric")
        time.sleep(18)
        fresh.wires.heal(fresh.spaces())
        operator.wait(150)
    said = (fresh.folder / "distribute.log").read_text()
    assert identifier(fresh.b, "engine:new") == sent, said
    assert "going on from there" in said
    assert received(fresh) - before < 25 * MB
    shown = re.findall(r"([\d.]+ \w?B) of ([\d.]+ \w?B)", said)
    assert shown and all(Bytes.parse(got).count <= Bytes.parse(whole).count for got, whole in shown), said


def test_what_was_kept_of_a_cut_copy_and_is_spoilt_is_sent_anew(fresh: Lab, cluster: str) -> None:
    sent = hold(fresh.a, layers(6), "engine:new")
    fresh.wires.rate("fabric", "40mbit")
    before = received(fresh)
    with going_on(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster) as operator:
        wait_until_bytes(fresh, 8 * MB, before)
        kill(operator)
    fresh.wires.heal(fresh.spaces())
    spoil = 'for f in ~spark/.cache/canserve/incoming/*/*.part; do printf spoilt | dd of="$f" bs=1 seek=5000 conv=notrunc; done'
    fresh.b.run("sh", "-c", f"sleep 2; {spoil}")
    distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent
    assert left(fresh.b) == []


def test_a_disk_that_is_full_while_the_engine_unpacks_is_the_cause_and_no_image_is_there(
    fresh: Lab, cluster: str
) -> None:
    sent = hold(fresh.a, layers(4), "engine:new")
    fresh.b.run("mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", "/var/lib/docker/tmp")
    done = fresh.canserve(
        "distribute", "--quiet", "--image", "docker-daemon:engine:new@spark-a", "--to", cluster
    )
    assert done.returncode == 1
    assert "no space left on device" in done.stdout
    assert identifier(fresh.b, "engine:new") is None
    fresh.b.run("umount", "/var/lib/docker/tmp")
    distribute(fresh, "--image", "docker-daemon:engine:new@spark-a", "--to", cluster)
    assert identifier(fresh.b, "engine:new") == sent


def weigh(host: Host, files: dict[str, bytes]) -> None:
    """Weights on a host."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", errors="surrogateescape") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    (host.share / "w.tar").write_bytes(out.getvalue())
    host.run("sh", "-c", f"tar -xf /lab/w.tar -C {W} && chown -R spark {W} && rm /lab/w.tar")


def digests(host: Host, folder: str = W) -> str:
    """Of every file, in whatever order the names have."""
    script = (
        f"cd {folder} && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum -z | tr '\\0' '\\n'"
    )
    return host.run("sh", "-c", script).stdout


def test_weights_go_over_whatever_their_names_are_and_only_what_differs_goes_again(
    fresh: Lab, cluster: str
) -> None:
    odd = {
        "a name\nof two lines": b"1",
        "\udcff\udcfe no text": b"2",
        "-rf": b"3",
        "deep/er/$(reboot)'\"": b"4",
    }
    files = {f"model-{n}.safetensors": os.urandom(2 * MB) for n in range(4)}
    weigh(fresh.a, {**files, **odd, "empty": b""})
    said = distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)
    assert digests(fresh.a) == digests(fresh.b)
    assert "files copied: 9" in said
    weigh(fresh.a, {"model-2.safetensors": os.urandom(2 * MB)})
    before = received(fresh)
    said = distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)
    assert digests(fresh.a) == digests(fresh.b)
    assert "files copied: 1, the same already: 8" in said
    assert received(fresh) - before < 2.7 * MB
    assert left(fresh.b) == []


def test_a_file_that_was_changed_over_there_without_a_trace_in_size_and_time_is_found(
    fresh: Lab, cluster: str
) -> None:
    weigh(fresh.a, {"model.safetensors": os.urandom(2 * MB)})
    distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)
    time.sleep(2.5)
    distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)  # its digest is noted now
    name = f"{W}/model.safetensors"
    spoil = f"touch -r {name} /tmp/then; printf spoilt | dd of={name} bs=1 seek=9 conv=notrunc; touch -r /tmp/then {name}"
    fresh.b.run("sh", "-c", spoil)
    said = distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)
    assert "files copied: 1" in said
    assert digests(fresh.a) == digests(fresh.b)


def test_a_model_of_a_hub_cache_arrives_in_the_other_cache_with_its_links(fresh: Lab, cluster: str) -> None:
    root = ".cache/huggingface/hub/models--me--tiny"
    home = fresh.a.run("sh", "-c", "echo ~spark").stdout.strip()
    script = f"""cd ~ && rm -rf .cache/huggingface && mkdir -p {root}/blobs {root}/snapshots/abc {root}/refs && cd {root}
        head -c 2000000 /dev/urandom >blobs/w1; echo '{{}}' >blobs/c1; printf abc >refs/main; echo half >blobs/w2.incomplete
        ln -s ../../blobs/w1 snapshots/abc/model.safetensors; ln -s ../../blobs/c1 snapshots/abc/config.json"""
    fresh.a.run("bash", "-c", script, user="spark")
    fresh.b.run("sh", "-c", "rm -rf ~spark/.cache/huggingface")
    distribute(fresh, "--weights", f"spark-a:{home}/{root}/snapshots/abc", "--to", cluster)
    there = fresh.b.run(
        "sh", "-c", f"cd {home}/{root} && find . -type f -o -type l | sort; readlink snapshots/abc/*"
    ).stdout
    assert there.split() == [
        "./blobs/c1", "./blobs/w1", "./refs/main", "./snapshots/abc/config.json", "./snapshots/abc/model.safetensors",
        "../../blobs/c1", "../../blobs/w1",
    ]  # fmt: skip
    assert digests(fresh.a, f"{home}/{root}/snapshots") == digests(fresh.b, f"{home}/{root}/snapshots")


def test_weights_are_never_half_under_their_name_and_gone_on_with(fresh: Lab, cluster: str) -> None:
    weigh(fresh.a, {"model-1.safetensors": os.urandom(12 * MB), "config.json": b"{}"})
    fresh.wires.rate("fabric", "40mbit")
    before = received(fresh)
    with going_on(fresh, "--weights", f"spark-a:{W}", "--to", cluster) as operator:
        wait_until_bytes(fresh, 6 * MB, before)
        kill(operator)
    fresh.wires.heal(fresh.spaces())
    assert "model-1.safetensors" not in fresh.b.run("ls", W).stdout.split()
    before = received(fresh)
    distribute(fresh, "--weights", f"spark-a:{W}", "--to", cluster)
    assert digests(fresh.a) == digests(fresh.b)
    assert received(fresh) - before < 8 * MB
    assert left(fresh.b) == []


def test_a_disk_that_is_too_small_is_refused_with_numbers_before_anything_moves(
    fresh: Lab, cluster: str
) -> None:
    weigh(fresh.a, {"model.safetensors": os.urandom(12 * MB)})
    fresh.b.run("mount", "-t", "tmpfs", "-o", "size=8m,mode=777", "tmpfs", W)
    before = received(fresh)
    done = fresh.canserve("distribute", "--quiet", "--weights", f"spark-a:{W}", "--to", cluster)
    assert done.returncode == 1
    assert "the disk is too small: 12 MB are needed" in done.stdout
    assert "8.39 MB are free" in done.stdout
    assert received(fresh) - before < MB
    fresh.b.run("umount", W)


def test_a_disk_that_fills_up_meanwhile_keeps_nothing_half(fresh: Lab, cluster: str) -> None:
    weigh(fresh.a, {"model.safetensors": os.urandom(12 * MB)})
    fresh.b.run("mount", "-t", "tmpfs", "-o", "size=14m,mode=777", "tmpfs", W)
    fresh.wires.rate("fabric", "40mbit")
    before = received(fresh)
    with going_on(fresh, "--weights", f"spark-a:{W}", "--to", cluster) as operator:
        wait_until_bytes(fresh, 4 * MB, before)
        fresh.b.run("sh", "-c", f"head -c 8000000 /dev/zero >{W}/other 2>/dev/null; true")
        assert operator.wait(60) == 1
    assert "No space left on device" in (fresh.folder / "distribute.log").read_text()
    assert fresh.b.run("find", W, "-type", "f", "-size", "+1k").stdout.split() == [f"{W}/other"]
    fresh.b.run("umount", W)


def test_two_operators_at_once_do_not_mix_up_their_files(fresh: Lab, cluster: str) -> None:
    weigh(fresh.a, {f"model-{n}.safetensors": os.urandom(3 * MB) for n in range(3)})
    done: list[subprocess.CompletedProcess[str]] = []

    def go() -> None:
        done.append(fresh.canserve("distribute", "--quiet", "--weights", f"spark-a:{W}", "--to", cluster))

    both = [threading.Thread(target=go) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.returncode for each in done] == [0, 0], [each.stdout for each in done]
    assert digests(fresh.a) == digests(fresh.b)
    assert left(fresh.b) == []


def test_a_dry_run_says_what_would_be_run_and_moves_nothing(fresh: Lab, cluster: str) -> None:
    hold(fresh.a, layers(2), "engine:new")
    said = distribute(fresh, "--image", "engine:new", "--to", cluster, "--dry-run")
    assert "head$ docker save engine:new" in said
    assert "second$ docker load -q" in said
    assert identifier(fresh.b, "engine:new") is None


def test_what_no_machine_holds_is_a_problem_of_every_machine(fresh: Lab, cluster: str) -> None:
    done = fresh.canserve("distribute", "--quiet", "--image", "nobody/has:this", "--to", cluster)
    assert done.returncode == 1
    assert done.stdout.count("no machine holds nobody/has:this") == 2
