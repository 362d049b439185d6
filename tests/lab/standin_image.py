"""An image with an engine that is none, and a Ray that is none: shell scripts that listen, wait and say what they do."""

from __future__ import annotations

from pathlib import Path

from lab.hosts import Host
from made_images import docker_archive, layer

TAG = "standin/engine:1"
_WAIT = b"trap 'echo bye; exit 0' TERM\n/bin/busybox sleep 100000 &\nwait\n"
SERVER = (
    b"""#!/bin/busybox sh
echo "starting $0 $*"
port=8000 headless=
while [ $# -gt 0 ]; do
  case $1 in --port) port=$2;; --headless) headless=1;; --fail) echo "ValueError: no such model"; exit 7;; esac; shift
done
echo x >/dev/shm/engine
[ -n "$headless" ] || /bin/busybox nc -ll -p "$port" -e /bin/http &
echo "ready"
"""
    + _WAIT
)
RAY = (
    b"""#!/bin/busybox sh
if [ "$1" = status ]; then
  n=$(/bin/busybox cat /proc/net/tcp /proc/net/tcp6 | /bin/busybox grep -ci '^ *[0-9]*: [0-9a-f]*:18eb [0-9a-f]*:[0-9a-f]* 01 ')
  echo " 0.0/$((n + 1)).0 GPU"; exit 0
fi
echo "starting $0 $*"
echo x >/tmp/ray/session
case $* in
  *--head*) /bin/busybox nc -ll -p 6379 -e /bin/busybox sleep 100000 & ;;
  *) a=${*#*--address }; a=${a%% *}; /bin/busybox sleep 100000 | /bin/busybox nc "${a%:*}" "${a#*:}" & ;;
esac
"""
    + _WAIT
)


ANSWER = b"""#!/bin/busybox sh
while read -r line; do case $line in ?*[!\r]*) ;; *) break;; esac; done
printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
"""
"""To every request the same: it is healthy, and names no model."""


def load(host: Host) -> None:
    """Give it to a host's docker."""
    path = host.share / "standin.tar"
    members = {
        "bin/busybox": Path("/bin/busybox").read_bytes(),
        "bin/vllm": SERVER,
        "bin/ray": RAY,
        "bin/http": ANSWER,
        "tmp": None,
        "tmp/ray": None,
        "dev": None,
        "proc": None,
        "sys": None,
        "etc": None,
    }
    docker_archive(path, [layer(members)], TAG, ("PATH=/bin",))
    host.docker("load", "-q", "-i", f"/lab/{path.name}")
    path.unlink()
