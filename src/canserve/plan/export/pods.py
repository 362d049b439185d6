"""Pods: what runs on each machine as a template, with names in place of addresses that only a cluster knows.

Fields are those of the core API (https://kubernetes.io/docs/reference/generated/kubernetes-api/), read 2026-11-30.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import pairwise
from typing import Any

from canserve.commands.contained import RDMA, Contained, contained
from canserve.engines import ray
from canserve.plan.export.compose import image_of
from canserve.plan.export.exported import Exported, ExportError, slug
from canserve.plan.export.order import joined_test
from canserve.plan.steps.starting import JOINING, endpoint, ports
from canserve.subjects.deployment import Deployment, Site
from canserve.subjects.launch import Host

OWN = "POD_IP"
_RANK = "--node-rank"
_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
"""What the vendors' device plugins call an accelerator: their own documentation."""


@dataclass(frozen=True, slots=True)
class Names:
    """What stands for addresses and ranks, as a cluster's controller sets it. Variables are written ``$(NAME)``."""

    leader: str
    """Address of the leader, in the other pods."""
    worker: Callable[[int], str] | None
    """Address of the worker with this index, from 1 on; None: nothing stands for it."""
    index: str | None
    """A pod's own index; None: it has none."""
    late: bool = False
    """Whether the controller sets the leader's after a container's own variables: these cannot name it then, words can."""


@dataclass(frozen=True, slots=True)
class Pods:
    """Templates of pods."""

    leader: Mapping[str, Any]
    worker: Mapping[str, Any] | None
    """The same for every worker; None: there is none."""
    workers: int
    notes: tuple[str, ...]


def pods(it: Exported, form: str, names: Names) -> Pods:
    """The pods of a deployment. Raises ExportError where workers are not alike."""
    image_of(it, form)
    one = _deployment(it)
    templates = [_template(it, one, number, names) for number in range(len(one.sites))]
    leader, *workers = templates
    for number, worker in enumerate(workers[1:], start=2):
        if worker != workers[0]:
            differs = _differs(workers[0], worker)
            raise ExportError(
                f"{form} starts equal workers, and {one.sites[number].name} is not started as {one.sites[1].name}: {differs}",
                "export to compose, shell or systemd",
            )
    return Pods(leader, workers[0] if workers else None, len(workers), _notes(it, one))


def service(it: Exported, selector: Mapping[str, str]) -> dict[str, Any] | None:
    """A service in front of the leader; None: it is not known where it answers."""
    found = endpoint(it.deployment)
    if found is None:
        return None
    ports = [{"name": "api", "port": found[1], "targetPort": found[1], "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{slug(it)}-api", "labels": labels(it)},
        "spec": {"selector": dict(selector), "ports": ports},
    }


def labels(it: Exported) -> dict[str, str]:
    """Of everything that an export makes."""
    return {
        "app.kubernetes.io/name": slug(it),
        "app.kubernetes.io/managed-by": "canserve",
        "canserve.run": it.run,
    }


def _deployment(it: Exported) -> Deployment:
    """With names of addresses where these are not known."""
    named = {Host(site.name).placeholder: f"${Host(site.name).placeholder}" for site in it.sites}
    return replace(it, addresses=named | dict(it.addresses)).deployment


def _notes(it: Exported, one: Deployment) -> tuple[str, ...]:
    secret = f"Secret {slug(it)}"
    files = one.given.secret_files
    names = (*one.given.secrets, *(f"what {path} holds" for path in files))
    indices = any(site.devices != tuple(range(len(site.devices))) for site in one.sites)
    return (
        "which machines serve is chosen by the cluster; addresses are those of its network",
        "images are pulled where they are missing",
        *((f"{', '.join(names)}: keys of {secret}, which you make",) if names else ()),
        *(("which accelerators of a machine are used is chosen by its device plugin",) if indices else ()),
        *((_RDMA_NOTE,) if any(site.rdma for site in one.sites) and len(one.sites) > 1 else ()),
        "limits of locked memory and stack are the node's: Kubernetes has no field for them",
        *(("folders of the machine have to be on every node: " + _folders(one),) if one.given.mounts else ()),
        *(
            ("workers have to listen before the leader starts: it is restarted until they do",)
            if _waits(one)
            else ()
        ),
    )


_RDMA_NOTE = (
    f"{RDMA} comes from a device plugin whose resource only the cluster names: add it to resources.limits"
)


def _folders(it: Deployment) -> str:
    return ", ".join(mount.source for mount in it.given.mounts)


def _waits(it: Deployment) -> bool:
    """Whether the leader's server needs processes of others that join no Ray and have no ranks."""
    return any(not one.ranks and not ray.starts(one.argv) for one in it.processes)


def _template(it: Exported, one: Deployment, number: int, names: Names) -> dict[str, Any]:
    site = one.sites[number]
    words = _Words(one, number, names)
    container = _container(it, one, site, words)
    own = labels(it)
    apart = {
        "labelSelector": {"matchLabels": {"canserve.run": it.run}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "metadata": {"labels": own},
        "spec": {
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
            },
            "containers": [container],
            "volumes": list(_volumes(one)),
        },
    }


def _container(it: Exported, one: Deployment, site: Site, words: _Words) -> dict[str, Any]:
    image = image_of(it, "a pod")
    numbers = [number for number, process in enumerate(one.processes) if process.host == site.name]
    held = [contained(one, image, number) for number in numbers]
    alike = {name: value for name, value in _alike(held).items() if not words.is_late(value)}
    command, args = _command(one, numbers, held, alike, words)
    answers = endpoint(one)
    open_ports = list(dict.fromkeys(ports(one, site.name)))
    served = answers is not None and answers[0] == site.name
    return {
        "name": "serve",
        "image": image.name,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        **({"args": args} if args else {}),
        "env": list(_environment(it, one, alike, words)),
        **_env_from(it, one),
        **({"ports": [{"containerPort": port} for port in open_ports]} if open_ports else {}),
        **({"readinessProbe": _ready(answers[1])} if served and answers else {}),
        **_limits(site),
        **({"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}} if held[0].rdma else {}),
        "volumeMounts": list(_mounted(one)),
    }


def _ready(port: int) -> dict[str, Any]:
    """A long start is no failure: nothing but this says when it serves."""
    return {"tcpSocket": {"port": port}, "periodSeconds": 10}


def _limits(site: Site) -> dict[str, Any]:
    if not site.devices or site.vendor not in _RESOURCES:
        return {}
    return {"resources": {"limits": {_RESOURCES[site.vendor]: str(len(site.devices))}}}


def _alike(held: Sequence[Contained]) -> dict[str, str]:
    """Variables that all processes of a machine have in common."""
    first = held[0].environment
    return {
        name: value
        for name, value in first.items()
        if all(one.environment.get(name) == value for one in held)
    }


def _environment(
    it: Exported, one: Deployment, alike: Mapping[str, str], words: _Words
) -> Iterator[dict[str, Any]]:
    yield {"name": OWN, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    for name, value in alike.items():
        yield {"name": name, "value": words.of(value)}
    for name in one.given.secrets:
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": slug(it), "key": name}}}


def _env_from(it: Exported, one: Deployment) -> dict[str, Any]:
    return {"envFrom": [{"secretRef": {"name": slug(it)}}]} if one.given.secret_files else {}


def _command(
    one: Deployment,
    numbers: Sequence[int],
    held: Sequence[Contained],
    alike: Mapping[str, str],
    words: _Words,
) -> tuple[list[str], list[str]]:
    """Of one process its own words; of several a script, the last of which stays in the foreground."""
    if len(held) == 1:
        late = [f"{name}={value}" for name, value in held[0].environment.items() if name not in alike]
        command = (*(("env", *late) if late else ()), held[0].entrypoint)
        return [words.of(word) for word in command], words.all(held[0].words)
    lines = ["set -eu"]
    for number, each in zip(numbers, held, strict=True):
        last = number == numbers[-1]
        if (test := joined_test(one, number)) is not None:
            lines += [
                f"end=$(($(date +%s) + {JOINING:.0f}))",
                f'until {test}; do [ "$(date +%s)" -lt "$end" ] || exit 1; sleep 1; done',
            ]
        more = [f"{name}={value}" for name, value in each.environment.items() if name not in alike]
        argv = ([each.entrypoint, *each.words]) if last else [each.entrypoint, *_returning(each.words)]
        line = shlex.join((*(("env", *more) if more else ()), *argv))
        beside = not last and not ray.starts((each.entrypoint, *each.words))
        lines.append(f"exec {line}" if last else f"{line} &" if beside else line)
    return ["/bin/sh", "-c"], [words.of("\n".join(lines) + "\n")]


def _returning(words: Sequence[str]) -> list[str]:
    """Ray goes on by itself when it has started."""
    return [word for word in words if word != "--block"]


def _volumes(it: Deployment) -> Iterator[dict[str, Any]]:
    yield {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    for number, mount in enumerate(it.given.mounts):
        yield {"name": f"mount-{number}", "hostPath": {"path": mount.source}}


def _mounted(it: Deployment) -> Iterator[dict[str, Any]]:
    yield {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - in the container
    for number, mount in enumerate(it.given.mounts):
        readonly = {"readOnly": True} if mount.readonly else {}
        yield {"name": f"mount-{number}", "mountPath": mount.target, **readonly}


class _Words:
    """Words of one pod: addresses and ranks as variables, everything else as it stands."""

    def __init__(self, it: Deployment, number: int, names: Names) -> None:
        self._tokens: dict[str, str] = {}
        self._nameless: dict[str, str] = {}
        for other, site in enumerate(it.sites):
            for token in _tokens(it, site):
                if other and other != number and names.worker is None:
                    self._nameless[token] = site.name
                    continue
                worker = names.worker(other) if other and names.worker else names.leader
                self._tokens[token] = f"$({OWN})" if other == number else worker
        self._index = names.index if number else None
        self._late = names.leader if names.late else None
        self._number = number
        self._name = it.sites[number].name

    def of(self, word: str) -> str:
        """One word, or the text of a script. Raises ExportError where it needs an address that nothing stands for."""
        for token, name in self._nameless.items():
            if _place(word, token) >= 0:
                raise ExportError(
                    f"{self._name} is told the address of {name}, and pods of workers have none that is known before",
                    "export to leaderworkerset, compose, shell or systemd",
                )
        parts = [word]
        for token in sorted(self._tokens, key=len, reverse=True):
            parts = [piece for part in parts for piece in _split(part, token, self._tokens)]
        return "".join(self._tokens.get(part, part.replace("$", "$$")) for part in parts)

    def is_late(self, value: str) -> bool:
        """Whether a variable would name what is not set yet."""
        return self._late is not None and self._late in self.of(value)

    def all(self, words: Sequence[str]) -> list[str]:
        """All of a command, the rank among the nodes in the form that every worker has."""
        found = [self.of(word) for word in words]
        if self._index is None:
            return found
        for at, (name, value) in enumerate(pairwise(words)):
            if name == _RANK:
                found[at + 1] = self._ranked(value)
        for at, word in enumerate(words):
            if word.startswith(f"{_RANK}="):
                found[at] = f"{_RANK}={self._ranked(word.partition('=')[2])}"
        return found

    def _ranked(self, value: str) -> str:
        if value != str(self._number):
            raise ExportError(
                f"the machine that comes as number {self._number} has node rank {value}",
                "export to compose, shell or systemd",
            )
        return self._index or value


def _split(part: str, token: str, known: Mapping[str, str]) -> list[str]:
    """A text before, at and after each place of a token; tokens that were found already stay whole."""
    if part in known:
        return [part]
    found: list[str] = []
    rest = part
    while (at := _place(rest, token)) >= 0:
        found += [rest[:at], token]
        rest = rest[at + len(token) :]
    return [*found, rest]


def _place(text: str, token: str) -> int:
    """Where a token stands by itself: 10.0.0.1 is no part of 10.0.0.12."""
    at = text.find(token)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(token) : at + len(token) + 1]
        inside = token[0] != "$" and (before.isalnum() or before == ".")
        if not inside and not (after.isalnum() or after == "_"):
            return at
        at = text.find(token, at + 1)
    return -1


def _tokens(it: Deployment, site: Site) -> tuple[str, ...]:
    """How words name a machine's address: the placeholder of it, or the address itself."""
    mine = [process for process in it.processes if process.host == site.name]
    told = [value for process in mine for value in process.environment.values()]
    told += [
        value
        for process in mine
        for name, value in pairwise(process.argv)
        if name == "--node-ip-address" or (name == "--host" and not process.ranks)
    ]
    own = (value for value in told if _is_address(value))
    return (f"${Host(site.name).placeholder}", *dict.fromkeys(own))


def _is_address(text: str) -> bool:
    """Whether others would use it to come here."""
    try:
        found = ip_address(text)
    except ValueError:
        return False
    return not found.is_loopback and not found.is_unspecified


def _differs(first: Any, second: Any, where: str = "") -> str:
    """The first place at which two templates differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        for name in first:
            if first.get(name) != second.get(name):
                return _differs(first.get(name), second.get(name), f"{where}.{name}" if where else name)
    if isinstance(first, list) and isinstance(second, list):
        for number, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                return _differs(one, other, f"{where}[{number}]")
    return f"{where}: {first!r:.60} and {second!r:.60}"
