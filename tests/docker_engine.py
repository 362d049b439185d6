"""A real dockerd of the test's own: its socket, its disk and its state lie in a folder, and it touches no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from made_images import Member, docker_archive, layer

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin"
BUSYBOX = Path("/bin/busybox")


def problem() -> str | None:
    """Why no dockerd can be started here; None: it can."""
    if os.getuid() != 0:
        return "starting dockerd needs root"
    for program in ("dockerd", "docker", "containerd", "runc"):
        if shutil.which(program, path=PATH) is None:
            return f"no {program} here (Debian: docker.io)"
    return None if BUSYBOX.is_file() else "no busybox here (Debian: busybox-static)"


@dataclass(frozen=True, slots=True)
class Docker:
    """A running dockerd."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def host(self) -> str:
        """For ``DOCKER_HOST``."""
        return f"unix://{self.folder}/sock"

    def __call__(self, *words: str, check: bool = True) -> str:
        """What ``docker`` says."""
        return subprocess.run(
            ["docker", *words], check=check, capture_output=True, text=True, timeout=60,
            env={**os.environ, "PATH": PATH, "DOCKER_HOST": self.host},
        ).stdout.strip()  # fmt: skip

    def load(self, tag: str, layers: Sequence[Mapping[str, Member]]) -> str:
        """An image of these layers; its identity."""
        path = self.folder / "image.tar"
        docker_archive(path, [layer(each) for each in layers], tag)
        self("load", "-q", "-i", str(path))
        return self("image", "inspect", "--format", "{{.Id}}", tag)

    def left(self) -> list[str]:
        """Containers that are there."""
        return self("ps", "-a", "--format", "{{.Names}}").split()


@contextmanager
def dockerd(folder: Path) -> Iterator[Docker]:
    """A dockerd; everything of it ends with the block. ``folder``: a short path, as sockets have."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        "dockerd", "--host", f"unix://{folder}/sock", "--data-root", str(folder / "root"),
        "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid"), "--iptables=false",
        "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--shutdown-timeout", "1",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PATH": PATH}
        )
    try:
        docker = Docker(folder, process)
        end = time.monotonic() + 60
        while (
            subprocess.run(["docker", "-H", docker.host, "info"], check=False, capture_output=True).returncode
            != 0
        ):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.1)
        try:
            yield docker
        finally:
            for name in docker.left():
                docker("rm", "-f", name, check=False)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
