"""Compose files, one for each machine: the containers of ``up``, with a restart policy.

The form is the Compose Specification's: https://github.com/compose-spec/compose-spec, read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canserve.commands.contained import LIMITS, RDMA, Contained, beside_of, contained
from canserve.commands.removal import GRACE
from canserve.plan.export.exported import Exported, ExportError, Files, folders, heading
from canserve.plan.export.order import joined_test, order_note
from canserve.plan.export.yaml_text import yaml_text
from canserve.subjects.deployment import Deployment, Image, Mount

NAME = "compose.yaml"
_RAW = "env_file with `format: raw`, which takes values as they stand, needs Compose 2.30 or later"


def write(it: Exported) -> Files:
    """One file a machine. Raises ExportError where the build is no image."""
    where = image_of(it, "compose")
    one = it.deployment
    notes = _notes(one)
    return Files(
        {
            f"{folder}/{NAME}": yaml_text(heading(it, "compose", notes), [_project(one, where, machine)])
            for machine, folder in folders(it).items()
            if any(process.host == machine for process in one.processes)
        },
        notes,
    )


def image_of(it: Exported, form: str) -> Image:
    """The image. Raises ExportError for a build that is none."""
    if isinstance(it.where, Image):
        return it.where
    raise ExportError(
        f"{form} starts containers, and the build is an environment: {it.where.path}",
        "name an image with --in, or export to shell or systemd",
    )


def _notes(it: Deployment) -> tuple[str, ...]:
    names = ", ".join(it.given.secrets)
    return (
        *order_note(it),
        *((f"values of {names} are taken from whoever runs compose",) if names else ()),
        *((_RAW,) if it.given.secret_files else ()),
        "accelerators are not claimed: canserve up elsewhere does not see that they are taken",
    )


def _project(it: Deployment, where: Image, machine: str) -> dict[str, Any]:
    numbers = [number for number, process in enumerate(it.processes) if process.host == machine]
    services = {f"process-{number}": _service(it, where, number) for number in numbers}
    volumes = {name for number in numbers for name, _ in contained(it, where, number).volumes}
    return {
        "name": f"canserve-{it.run}",
        "services": services,
        **({"volumes": {name: {"name": name} for name in sorted(volumes)}} if volumes else {}),
    }


def _service(it: Deployment, where: Image, number: int) -> dict[str, Any]:
    one = contained(it, where, number)
    beside = beside_of(it.processes, number)
    joins = one.pid is not None
    served = [other for other in range(len(it.processes)) if joined_test(it, other) and other != number]
    test = next(
        (joined_test(it, other) for other in served if beside_of(it.processes, other) == number), None
    )
    return {
        "image": _literal(one.image),
        "container_name": one.name,
        "pull_policy": "never",
        "entrypoint": [_literal(one.entrypoint)],
        "command": [_literal(word) for word in one.words],
        "labels": {name: _literal(value) for name, value in one.labels.items()},
        "network_mode": "host",
        "ipc": f"service:process-{beside}" if joins else one.ipc,
        **({"pid": f"service:process-{beside}"} if joins else {}),
        **({"shm_size": one.shm} if one.shm else {}),
        "ulimits": dict(LIMITS),
        **_accelerators(one),
        **({"cap_add": ["IPC_LOCK"]} if one.rdma else {}),
        **({"group_add": list(one.groups)} if one.groups else {}),
        **_volumes(one),
        **_environment(one),
        **({"healthcheck": _healthcheck(test)} if test else {}),
        **({"depends_on": {f"process-{beside}": {"condition": "service_healthy"}}} if joins else {}),
        "stop_grace_period": f"{GRACE}s",
        "restart": "unless-stopped",
    }


def _healthcheck(test: str) -> dict[str, Any]:
    """All accelerators have joined: what serves over them starts then."""
    return {"test": ["CMD-SHELL", _literal(test)], "interval": "5s", "timeout": "30s", "retries": 24}


def _accelerators(it: Contained) -> dict[str, Any]:
    devices = [*it.devices, *((RDMA,) if it.rdma else ())]
    found: dict[str, Any] = {}
    if it.gpus:
        asked = {"device_ids": [str(gpu) for gpu in it.gpus], "capabilities": ["gpu"]}
        found["deploy"] = {"resources": {"reservations": {"devices": [asked]}}}
    if devices:
        # A path of the machine is one inside, too; what has no slash in front is a name for a device of CDI.
        found["devices"] = [f"{path}:{path}" if path.startswith("/") else path for path in devices]
    return found


def _volumes(it: Contained) -> Mapping[str, Any]:
    volumes = [{"type": "volume", "source": name, "target": target} for name, target in it.volumes]
    found = [*map(_bind, it.mounts), *volumes]
    return {"volumes": found} if found else {}


def _bind(it: Mount) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": _literal(it.source),
        "target": _literal(it.target),
        **({"read_only": True} if it.readonly else {}),
        "bind": {"create_host_path": False},
    }


def _environment(it: Contained) -> Mapping[str, Any]:
    found: dict[str, str | None] = {name: _literal(value) for name, value in it.environment.items()}
    found.update(dict.fromkeys(it.secrets))  # without a value: it comes from whoever runs compose
    files = [{"path": _literal(path), "format": "raw"} for path in it.secret_files]
    return {**({"environment": found} if found else {}), **({"env_file": files} if files else {})}


def _literal(text: str) -> str:
    """Compose puts variables in place of what follows a dollar; two of them are one."""
    return text.replace("$", "$$")
