"""A RayCluster of KubeRay: the machines of a plan over Ray, and the server on its head.

Fields are those that ray.io/v1 has had since its definition at 1184bc87 of ray-project/kuberay (config/crd, read
2026-11-30): an older operator drops what it does not know. tests/export/custom_resources.toml holds them. A RayService
holds applications of Ray Serve; an engine that brings its own server is started on the head of a RayCluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from canserve.engines import ray
from canserve.plan.export.exported import Exported, ExportError, Files, heading, slug
from canserve.plan.export.pods import Names, Pods, labels, pods, service
from canserve.plan.export.yaml_text import yaml_text

NAME = "raycluster.yaml"
_OVERWRITE = {"ray.io/overwrite-container-cmd": "true"}
"""Containers start what they say; KubeRay would start Ray by itself, with words of its own."""
_FLAGS = {
    "--port": "port",
    "--num-gpus": "num-gpus",
    "--node-ip-address": "node-ip-address",
    "--num-cpus": "num-cpus",
    "--dashboard-host": "dashboard-host",
}
_NOTE = "Ray is started by the containers' own commands: rayStartParams say the same to KubeRay"


def write(it: Exported) -> Files:
    """One manifest. Raises ExportError for a plan that is not over Ray."""
    one = it.deployment
    if not any(ray.starts(process.argv) for process in one.processes):
        raise ExportError(
            "kuberay holds what is started over Ray, and this plan is not", "export to leaderworkerset"
        )
    if not ray.starts(next(process.argv for process in one.processes if process.host == one.sites[0].name)):
        raise ExportError(f"{one.sites[0].name} is the head, and starts no Ray", "export to shell")
    names = Names(leader="$(FQ_RAY_IP)", worker=None, index=None, late=True)
    found = pods(it, "kuberay", names)
    notes = (*found.notes, _NOTE)
    name = slug(it)
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": labels(it), "annotations": dict(_OVERWRITE)},
        "spec": {"headGroupSpec": _head(it, found), **_workers(it, found)},
    }
    front = service(it, {"ray.io/cluster": name, "ray.io/node-type": "head"})
    documents = [manifest, *([front] if front else [])]
    return Files({NAME: yaml_text(heading(it, "kuberay", notes), documents)}, notes)


def _head(it: Exported, found: Pods) -> dict[str, Any]:
    argv = next(process.argv for process in it.start.processes if ray.starts(process.argv))
    return {"rayStartParams": _params(argv), "template": _annotated(found.leader)}


def _workers(it: Exported, found: Pods) -> dict[str, Any]:
    if found.worker is None:
        return {}
    argv = [process.argv for process in it.start.processes if ray.starts(process.argv)][-1]
    count = found.workers
    group = {
        "groupName": "workers",
        "replicas": count,
        "minReplicas": count,
        "maxReplicas": count,
        "rayStartParams": _params(argv),
        "template": _annotated(found.worker),
    }
    return {"workerGroupSpecs": [group]}


def _annotated(template: Any) -> dict[str, Any]:
    metadata = {**template["metadata"], "annotations": dict(_OVERWRITE)}
    return {"metadata": metadata, "spec": template["spec"]}


def _params(argv: Sequence[str]) -> dict[str, str]:
    """Counts and ports of ``ray start``; addresses are the cluster's own."""
    found = {}
    for at, word in enumerate(argv[:-1]):
        if word in _FLAGS and word != "--node-ip-address":
            found[_FLAGS[word]] = argv[at + 1]
    return found
