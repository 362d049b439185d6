"""Container engines, whether this user may use them, and what runs in them."""

from __future__ import annotations

import json
import re
from typing import Any

from canserve.facts import Fact
from canserve.probes.host.probe import LATE, Probe, Seen
from canserve.subjects.host import Container, ContainerEngine, Usable

MAX_LIST = 200
# Not {{json .}}, which would have the engine add up every container's files first.
_ROW = '--format \'{"Names":{{json .Names}},"Image":{{json .Image}},"State":{{json .Status}},"Ports":{{json .Ports}}}\''
# podman makes its folders in the home folder and in /tmp when it is first asked anything, if only its version: it is
# asked only where they are there.
BEFORE_PODMAN = r"""podman_rc=3; podman_out=
if command -v podman; then
  s=${XDG_DATA_HOME:-$HOME/.local/share}/containers/storage; [ "$(id -u)" != 0 ] || s=/var/lib/containers/storage
  if [ -d "$s" ]; then podman_rc=0; else podman_out='its version was not asked'; podman_rc=4; fi
fi"""
ASK_PODMAN = '[ "$podman_rc" = 0 ] || { printf "%s\\n" "$podman_out"; exit "$podman_rc"; }\n'
# A client may be set to talk to a daemon elsewhere (DOCKER_HOST, docker context): what that holds does not lie here.
# What podman-docker installs as docker is a script or a link to podman, and is asked as podman. Whether the daemon
# answers is asked once: its client takes a while to start, and longer to find that nobody answers.
BEFORE_DOCKER = r"""docker_rc=3; docker_out=
if d=$(command -v docker); then
  k=$(readlink -f "$d" 2>/dev/null); value "$d"; case $v in '#!'*) k=$(grep -o podman "$d" 2>/dev/null);; esac
  case $k in
    *podman*) ;;
    *)
      e=${DOCKER_HOST:-}
      case $e in ''|unix://*|fd://*)
        docker_out=$(within 8 docker info --format '{{json .}}' 2>&1); docker_rc=$?; [ $docker_rc != 124 ] || LATE="$LATE docker ";;
      esac
      case $e$docker_out in
        ''|unix:*|fd:*|*'"Context":"default"'*) ;;
        *'"Context":"'*) e=$(within 5 docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null);;
      esac
      case $e in ''|unix://*|fd://*) ;; *) docker_out="its client talks to ${e##*@}, not to the engine here"; docker_rc=5;; esac;;
  esac
fi
docker_err=$(printf '%s\n' "$docker_out" | grep -v '^{')"""
ASK_DOCKER = '[ "$docker_rc" = 0 ] || { printf "%s\\n" "$docker_err" >&2; exit "$docker_rc"; }\n'
ABSENT, UNUSED, ELSEWHERE = 3, 4, 5


def docker(seen: Seen) -> Fact[ContainerEngine | None]:
    """``docker info``; None: there is no docker."""
    answer = seen.answer
    if answer.status == ABSENT:
        return seen.known(None, "no docker")
    if answer.status in LATE:
        return seen.known(_unusable("docker", "not answering", "docker info did not answer in time"))
    if answer.status == ELSEWHERE:
        return seen.known(_unusable("docker", "unknown", answer.complaint))
    info = _object(answer.text)
    errors = [str(error) for error in info.get("ServerErrors") or ()] if info else []
    if answer.status != 0 or errors or not info or not info.get("ServerVersion"):
        return seen.known(_refused("docker", errors or [answer.complaint]), (errors or [answer.complaint])[0])
    security = [str(option) for option in _list(info, "SecurityOptions")]
    devices = [str(d.get("ID")) for d in _list(info, "DiscoveredDevices") if isinstance(d, dict)]
    runtimes = info.get("Runtimes")
    found = ContainerEngine(
        name="docker",
        version=str(info["ServerVersion"])[:60],
        state="usable",
        why=None,
        rootless=any("rootless" in option for option in security),
        root=_text(info.get("DockerRootDir")),
        runtimes=tuple(sorted(str(name) for name in runtimes)[:MAX_LIST])
        if isinstance(runtimes, dict)
        else (),
        devices=tuple(devices[:MAX_LIST]),
    )
    return seen.known(found, f"docker {found.version}, runtimes {', '.join(found.runtimes)}")


def podman(seen: Seen) -> Fact[ContainerEngine | None]:
    """``podman info``; None: there is no podman."""
    answer = seen.answer
    if answer.status == ABSENT:
        return seen.known(None, "no podman")
    if answer.status in LATE:
        return seen.known(_unusable("podman", "not answering", "podman info did not answer in time"))
    if answer.status == UNUSED:
        version = re.search(r"(\d+(?:\.\d+)+)", answer.text)
        why = "never used by this user: it was not asked, as it would create its storage"
        return seen.known(_unusable("podman", "unknown", why, version[1] if version else None))
    info = _object(answer.text)
    if answer.status != 0 or not info:
        return seen.known(_refused("podman", [answer.complaint]))
    host, store, version_ = (_dict(info, key) for key in ("host", "store", "version"))
    runtime = _dict(host, "ociRuntime").get("name")
    found = ContainerEngine(
        name="podman",
        version=_text(version_.get("Version")),
        state="usable",
        why=None,
        rootless=bool(_dict(host, "security").get("rootless")),
        root=_text(store.get("graphRoot")),
        runtimes=(str(runtime),) if runtime else (),
        devices=(),
    )
    return seen.known(found, f"podman {found.version}")


def _refused(name: str, errors: list[str]) -> ContainerEngine:
    said = " ".join(errors)[:300]
    state: Usable = "unknown"
    if "permission denied" in said.lower():
        state = "permission denied"
    elif re.search(
        r"cannot connect|is the docker daemon running|no such file|connection refused", said.lower()
    ):
        state = "down"
    return _unusable(name, state, said)


def _unusable(name: str, state: Usable, why: str, version: str | None = None) -> ContainerEngine:
    return ContainerEngine(name, version, state, why, None, None, (), ())


def cdi(seen: Seen) -> Fact[tuple[str, ...]]:
    """Files that describe devices to container engines."""
    return seen.known(tuple(seen.rows[:MAX_LIST]), None if seen.rows else "no CDI specification")


def containers(seen: Seen) -> Fact[tuple[Container, ...] | None]:
    """What runs in docker; None: there is no docker."""
    if seen.answer.status == ABSENT:
        return seen.known(None, "no docker")
    if seen.answer.status != 0:
        return seen.failed("docker ps")
    found = []
    for row in seen.rows:
        one = _object(row)
        if not one or not isinstance(one.get("Image"), str):
            return seen.unreadable("docker ps")
        words = [_text(one.get(key)) or "" for key in ("Names", "Image", "State", "Ports")]
        found.append(Container("docker", *words))
    return seen.known(tuple(found), ", ".join(f"{c.name}: {c.image}" for c in found) or "none runs")


def podman_containers(seen: Seen) -> Fact[tuple[Container, ...] | None]:
    """What runs in podman; None: there is no podman, or it was never used."""
    if seen.answer.status in {ABSENT, UNUSED}:
        return seen.known(None, "no podman in use")
    if seen.answer.status != 0:
        return seen.failed("podman ps")
    try:
        listed = json.loads(seen.answer.text or "[]")
    except (ValueError, RecursionError):
        return seen.unreadable("podman ps")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return seen.unreadable("podman ps")
    found = [
        Container(
            "podman",
            _first(one.get("Names")),
            _first(one.get("Image")),
            _first(one.get("State")),
            _ports(one),
        )
        for one in listed
    ]
    return seen.known(tuple(found), ", ".join(f"{c.name}: {c.image}" for c in found) or "none runs")


def _ports(one: dict[str, Any]) -> str:
    ports = [port for port in _list(one, "Ports") if isinstance(port, dict)]
    said = (f"{p.get('host_port')}->{p.get('container_port')}/{p.get('protocol', 'tcp')}" for p in ports)
    return ", ".join(said)[:300]


def _first(value: object) -> str:
    return _text(value[0] if isinstance(value, list) and value else value) or ""


def _object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dict(of: dict[str, Any], key: str) -> dict[str, Any]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _list(of: dict[str, Any], key: str) -> list[Any]:
    found = of.get(key)
    return found if isinstance(found, list) else []


def _text(value: object) -> str | None:
    return value[:300] if isinstance(value, str) and value else None


DOCKER = Probe(
    "docker",
    'printf "%s\\n" "$docker_out" | grep "^{"; printf "%s\\n" "$docker_err" >&2; exit "$docker_rc"',
    "docker info",
    docker,
    before=BEFORE_DOCKER,
)
PODMAN = Probe(
    "podman",
    f"{ASK_PODMAN}within 8 podman info --format json",
    "podman info",
    podman,
    before=BEFORE_PODMAN,
)
CDI = Probe(
    "cdi",
    'for f in /etc/cdi/* /var/run/cdi/*; do case $f in *.yaml|*.json) [ -e "$f" ] && echo "$f";; esac; done; exit 0',
    "/etc/cdi, /var/run/cdi",
    cdi,
    quick=True,
)
CONTAINERS = Probe(
    "containers",
    f"{ASK_DOCKER}within 8 docker ps --no-trunc {_ROW}",
    "docker ps",
    containers,
    before=BEFORE_DOCKER,
)
PODMAN_CONTAINERS = Probe(
    "podman_containers",
    f"{ASK_PODMAN}within 8 podman ps --format json",
    "podman ps",
    podman_containers,
    before=BEFORE_PODMAN,
)
