"""A real sshd on loopback, started by the test, with keys of its own; nothing of the user's is touched."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
PRIVSEP = Path("/run/sshd")
"""Where a root sshd of Debian insists on an empty folder."""


def problem() -> str | None:
    """Why no sshd can be started here; None: it can."""
    if SSHD is None:
        return "no sshd here (Debian: openssh-server)"
    if os.getuid() == 0 and not PRIVSEP.is_dir():
        try:
            PRIVSEP.mkdir(mode=0o755)
        except OSError as error:
            return f"{PRIVSEP} cannot be made: {error.strerror}"
    return None


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Loopback:
    """A running sshd, and the ssh configuration that reaches it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        """For ``ssh -F``; the host is called ``box``."""
        return self.folder / "config"

    def configure(self, text: str = "", port: int | None = None) -> tuple[str, ...]:
        """Options with which ``ssh`` reaches it; ``text`` comes first and wins."""
        self.config.write_text(
            f"{text}\nHost *\n  HostName 127.0.0.1\n  Port {port or self.port}\n"
            f"  IdentityFile {self.folder}/key\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
            "  HostKeyAlias box\n  StrictHostKeyChecking yes\n  ControlPath none\n"
        )
        return ("-F", str(self.config))

    def log(self) -> str:
        """What sshd said."""
        return (self.folder / "sshd.log").read_text(errors="replace")


def key(path: Path) -> str:
    """Make a key pair; the public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


@contextmanager
def sshd(folder: Path, settings: str = "") -> Iterator[Loopback]:
    """An sshd that lets this user in by a key of its own. ``settings``: further lines of its configuration."""
    assert SSHD is not None
    folder.mkdir(parents=True, exist_ok=True)
    host, user = key(folder / "host_key"), key(folder / "key")
    (folder / "known_hosts").write_text(f"box {host}\n")
    (folder / "authorized_keys").write_text(f"{user}\n")
    port = free_port()
    (folder / "sshd_config").write_text(
        f"{settings}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin yes\nPrintMotd no\nUseDNS no\n"
    )
    log = (folder / "sshd.log").open("wb")
    process = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (folder / "sshd.log").read_text()
            time.sleep(0.05)
        yield Loopback(folder, port, process)
    finally:
        # A connection has a process group of its own, and ends when its client does.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def user() -> str:
    """Who runs the tests."""
    return pwd.getpwuid(os.getuid()).pw_name
