"""How fast images and weights get to a second host, against ``docker save | ssh docker load`` and rsync on the same link.

In the lab of two hosts (tests/lab): the plain ways run on the first host over the network between both, with a key
that is put there for that; canserve runs on the operator's machine, and its whole run counts, with its looks and checks.
rsync is asked to wait for the disk as canserve does: what a power cut takes back was not brought there.
The ways take turns. Best times are compared, and medians, and the better of both counts: other load of this machine
only ever adds, and what is really slower is so in both. Bytes are those that
the second host's network card counted. Run as ``python bench/transfer.py [MEGABYTES] [ROUNDS]``; exit code 1: a bound
is broken.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from lab.conftest import CLUSTER
from lab.hosts import Host
from lab.two_hosts import Lab, problem, two_hosts

SLOWER, MOVED = 0.9, 0.15
"""Bounds: the rate against the plain way, and the share of an image that moves when nine of ten layers are there."""
LAYERS = 10
CARD = "/sys/class/net/enp1s0f0np0/statistics/rx_bytes"
KEY = "/srv/key"
SSH = f"ssh -i {KEY} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if (why := problem()) is not None:
        print(f"bench: {why}", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory() as folder, two_hosts() as lab:
        cluster = Path(folder) / "cluster.toml"
        cluster.write_text(CLUSTER)
        key = (lab.folder / "home" / ".ssh" / "key").read_text()
        lab.a.write(KEY, key, "600")
        lab.a.run("chown", "spark", KEY)
        lab.a.run("sh", "-c", f"{SSH} spark@10.77.1.3 true", user="spark")
        results = []
        if "weights" not in sys.argv:
            results += [
                image(lab, str(cluster), megabytes, rounds),
                most_is_there(lab, str(cluster), megabytes),
            ]
        results += [weights(lab, str(cluster), megabytes, files, rounds) for files in (1, 8, 2000)]
        results.append(one_changed(lab, str(cluster), megabytes))
    return 0 if all(results) else 1


def image(lab: Lab, cluster: str, megabytes: int, rounds: int) -> bool:
    layers = made_layers(megabytes)
    load(lab.a, layers, "bench:all")

    def gone() -> None:
        lab.b.docker("image", "rm", "-f", "bench:all", check=False)

    def plain() -> None:
        shell(lab, f"docker save bench:all | {SSH} spark@10.77.1.3 docker load -q")

    def ours() -> None:
        canserve(lab, "--image", "docker-daemon:bench:all@spark-a", "--to", cluster)

    return faster(
        f"image, {megabytes} MB in {LAYERS} layers",
        "docker save | ssh docker load",
        plain,
        ours,
        (gone, megabytes, rounds),
    )


def most_is_there(lab: Lab, cluster: str, megabytes: int) -> bool:
    lab.b.docker("image", "rm", "-f", "bench:all", check=False)
    layers = made_layers(megabytes)
    load(lab.b, layers[:-1], "bench:old")
    load(lab.a, layers, "bench:new")
    before = received(lab)
    seconds = timed(lambda: canserve(lab, "--image", "docker-daemon:bench:new@spark-a", "--to", cluster))
    share = (received(lab) - before) / (megabytes * 1e6)
    good = share < MOVED
    print(
        f"{word(good)} image, 9 of 10 layers are there: {share:.1%} of it moved in {seconds:.1f} s (bound: {MOVED:.0%})"
    )
    return good


def weights(lab: Lab, cluster: str, megabytes: int, files: int, rounds: int) -> bool:
    for host in (lab.a, lab.b):
        host.run("rm", "-rf", "/srv/w")
        host.run("sh", "-c", "mkdir /srv/w && chown spark /srv/w")
    share = lab.a.share / "w"
    share.mkdir(exist_ok=True)
    size = megabytes * 1_000_000 // files
    for number in range(files):
        (share / f"model-{number:05d}.safetensors").write_bytes(os.urandom(size))
    lab.a.run("sh", "-c", "mv /lab/w/* /srv/w/ && chown -R spark /srv/w && sync")

    def gone() -> None:
        lab.b.run("sh", "-c", "rm -rf /srv/w/* && sync")

    def plain() -> None:
        shell(lab, f"rsync -a --whole-file --fsync -e {SSH!r} /srv/w/ spark@10.77.1.3:/srv/w/")

    def ours() -> None:
        canserve(lab, "--weights", "spark-a:/srv/w", "--to", cluster)

    return faster(
        f"weights, {megabytes} MB in {files} files", "rsync", plain, ours, (gone, megabytes, rounds)
    )


def one_changed(lab: Lab, cluster: str, megabytes: int) -> bool:
    """Of the files that were copied last, one is written anew."""
    lab.a.run("sh", "-c", "head -c 500000 /dev/urandom > /srv/w/model-00007.safetensors")
    before = received(lab)
    seconds = timed(lambda: canserve(lab, "--weights", "spark-a:/srv/w", "--to", cluster))
    share = (received(lab) - before) / (megabytes * 1e6)
    good = share < 0.02
    print(
        f"{word(good)} weights, one of 2000 files was changed: {share:.1%} of them moved in {seconds:.1f} s (bound: 2%)"
    )
    return good


def faster(
    what: str,
    name: str,
    plain: Callable[[], None],
    ours: Callable[[], None],
    how: tuple[Callable[[], None], int, int],
) -> bool:
    gone, megabytes, rounds = how
    took: dict[str, list[float]] = {name: [], "canserve": []}
    for number in range(2 * rounds):
        way, run = ((name, plain), ("canserve", ours))[(number + number // 2) % 2]
        gone()
        took[way].append(timed(run))
    ratio = max(of(took[name]) / of(took["canserve"]) for of in (min, median))
    good = ratio >= SLOWER
    rates = ", ".join(
        f"{way} {megabytes / min(seconds):.0f} MB/s ({' '.join(f'{each:.1f}' for each in seconds)} s)"
        for way, seconds in took.items()
    )
    print(f"{word(good)} {what}: {rates}; {ratio:.2f} times as fast (bound: {SLOWER})", flush=True)
    return good


def word(good: bool) -> str:
    return "PASS" if good else "FAIL"


def timed(run: Callable[[], None]) -> float:
    begun = time.monotonic()
    run()
    return time.monotonic() - begun


def shell(lab: Lab, script: str) -> None:
    lab.a.run("bash", "-o", "pipefail", "-c", script, user="spark")


def canserve(lab: Lab, *words: str) -> None:
    done = lab.canserve("distribute", "--quiet", *words, timeout=600)
    if done.returncode:
        sys.exit(f"bench: canserve distribute failed: {done.stdout}{done.stderr}")


def received(lab: Lab) -> int:
    return int(lab.b.read(CARD))


def made_layers(megabytes: int) -> list[bytes]:
    """Of contents that cannot be packed, as weights and compiled code hardly can."""
    found = []
    for number in range(LAYERS):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            data = os.urandom(megabytes * 1_000_000 // LAYERS)
            info = tarfile.TarInfo(f"opt/part-{number}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        found.append(out.getvalue())
    return found


def load(at: Host, layers: list[bytes], tag: str) -> None:
    digests = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    config = json.dumps(described).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [f"{n}.tar" for n in range(len(layers))]}]
    with tarfile.open(at.share / "image.tar", "w") as archive:
        parts = {name: config, **{f"{n}.tar": each for n, each in enumerate(layers)}}
        for path, data in {**parts, "manifest.json": json.dumps(manifest).encode()}.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    at.docker("load", "-q", "-i", "/lab/image.tar")
    (at.share / "image.tar").unlink()


if __name__ == "__main__":
    sys.exit(main())
