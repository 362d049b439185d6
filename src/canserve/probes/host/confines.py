"""What running containers may use of the machine: devices, shared memory, locked memory, its network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.facts import Fact, Known, Missing
from canserve.probes.host.containers import ABSENT, ASK_DOCKER, BEFORE_DOCKER, MAX_LIST
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import Confines, Container
from canserve.units import Bytes

# Named one by one: the whole answer holds the environment, and with it tokens and passwords.
_FIELDS = {
    "Name": ".Name",
    "Image": ".Image",
    "Privileged": ".HostConfig.Privileged",
    "Runtime": ".HostConfig.Runtime",
    "Devices": ".HostConfig.Devices",
    "Requests": ".HostConfig.DeviceRequests",
    "ShmSize": ".HostConfig.ShmSize",
    "Ipc": ".HostConfig.IpcMode",
    "Network": ".HostConfig.NetworkMode",
    "Ulimits": ".HostConfig.Ulimits",
    "Rights": ".HostConfig.CapAdd",
}
_ROW = "{" + ",".join(f'"{name}":{{{{json {field}}}}}' for name, field in _FIELDS.items()) + "}"
_MAX_DEVICES = 64
_GPU_RUNTIMES = {"nvidia", "amd"}
_GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


def confines(seen: Seen) -> Fact[Mapping[str, Confines] | None]:
    """By the container's name; None: there is no docker."""
    if seen.answer.status == ABSENT:
        return seen.known(None, "no docker")
    if seen.answer.status != 0:
        return seen.failed("docker inspect")
    found = {}
    for row in seen.rows:
        try:
            told = json.loads(row)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("Name"), str):
            return seen.unreadable("docker inspect")
        found[told["Name"].lstrip("/")[:300]] = _confines(told)
    return seen.known(found, None if found else "no container runs")


def _confines(told: Mapping[str, Any]) -> Confines:
    devices = tuple(
        device["PathOnHost"][:200]
        for device in _list(told.get("Devices"))[:_MAX_DEVICES]
        if isinstance(device, dict) and isinstance(device.get("PathOnHost"), str)
    )
    privileged = told.get("Privileged") is True
    asked = _list(told.get("Requests")) or any(device.startswith(_GPU_DEVICES) for device in devices)
    image, size, ipc = told.get("Image"), told.get("ShmSize"), told.get("Ipc")
    own = ipc in {"", "private", "shareable", None}
    return Confines(
        image=image if isinstance(image, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", image) else None,
        accelerators=bool(asked) or privileged or told.get("Runtime") in _GPU_RUNTIMES,
        devices=devices,
        privileged=privileged,
        shared_memory=Bytes(size) if own and type(size) is int and 0 < size < 1 << 60 else None,
        host_network=told.get("Network") == "host",
        locks=_locks(told),
    )


def _locks(told: Mapping[str, Any]) -> Bytes | bool:
    rights = {str(right).upper().removeprefix("CAP_") for right in _list(told.get("Rights"))}
    if told.get("Privileged") is True or rights & {"IPC_LOCK", "ALL"}:
        return True
    for limit in _list(told.get("Ulimits")):
        if isinstance(limit, dict) and limit.get("Name") == "memlock" and type(limit.get("Soft")) is int:
            return True if limit["Soft"] < 0 else Bytes(min(limit["Soft"], 1 << 62))
    return False


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def confined(found: Fact[tuple[Container, ...]], told: Fact[Any]) -> Fact[tuple[Container, ...]]:
    """Each container with what it may use, as far as its engine says it."""
    if isinstance(found, Missing) or isinstance(told, Missing) or told.value is None:
        return found
    both = tuple(
        replace(each, confines=told.value.get(each.name)) if each.engine == "docker" else each
        for each in found.value
    )
    return Known(both, (*found.evidence, *told.evidence))


CONFINES = Probe(
    "confines",
    f"{ASK_DOCKER}ids=$(within 8 docker ps --quiet --no-trunc) || exit 1\n"
    f"ids=$(printf '%s\\n' \"$ids\" | head -n {MAX_LIST})\n"
    '[ -n "$ids" ] || exit 0\n'
    f"within 8 docker inspect --type container --format '{_ROW}' $ids",
    "docker inspect",
    confines,
    limit=400_000,
    before=BEFORE_DOCKER,
)
