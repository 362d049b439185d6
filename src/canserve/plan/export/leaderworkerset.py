"""A LeaderWorkerSet: the head and its workers as one group of pods, started and ended together.

Fields are those that leaderworkerset.x-k8s.io/v1 has had since its definition at 103a98aa of kubernetes-sigs/lws (config/crd,
read 2026-11-30): an older cluster drops what it does not know. tests/export/custom_resources.toml holds them.
"""

from __future__ import annotations

from typing import Any

from canserve.plan.export.exported import Exported, Files, heading, slug
from canserve.plan.export.pods import Names, labels, pods, service
from canserve.plan.export.yaml_text import yaml_text

NAME = "leaderworkerset.yaml"


def write(it: Exported) -> Files:
    """One manifest. Raises ExportError where workers are not alike, or the build is no image."""
    name = slug(it)
    names = Names(
        leader="$(LWS_LEADER_ADDRESS)",
        worker=lambda index: f"{name}-0-{index}.{name}",
        index="$(LWS_WORKER_INDEX)",
    )
    found = pods(it, "leaderworkerset", names)
    template: dict[str, Any] = {
        "size": found.workers + 1,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": found.leader,
        "workerTemplate": found.worker or found.leader,
    }
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": labels(it)},
        "spec": {
            "replicas": 1,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "Shared"},
            "leaderWorkerTemplate": template,
        },
    }
    selector = {
        "leaderworkerset.sigs.k8s.io/name": name,
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    front = service(it, selector)
    documents = [manifest, *([front] if front else [])]
    return Files({NAME: yaml_text(heading(it, "leaderworkerset", found.notes), documents)}, found.notes)
