"""Schemas of two custom resources, written by hand from their published types; no package on the index ships them.

LeaderWorkerSet: ``api/leaderworkerset/v1/leaderworkerset_types.go`` of kubernetes-sigs/lws (v1, read 2026-11-30).
RayCluster: ``ray-operator/apis/ray/v1/raycluster_types.go`` of ray-project/kuberay (ray.io/v1, read 2026-11-30).
Every field of the parts that an export uses; pod templates are checked against the core API's own schema instead.
"""

from __future__ import annotations

from typing import Any

_NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}
_TEMPLATE = {"type": "object"}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _resource(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = _closed(["name"], name=_NAME, namespace=_NAME, labels=_TEXTS, annotations=_TEXTS)
    return _closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": version},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


LEADER_WORKER_SET = _resource(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    _closed(
        ["leaderWorkerTemplate"],
        replicas=_COUNT,
        leaderWorkerTemplate=_closed(
            ["workerTemplate"],
            leaderTemplate=_TEMPLATE,
            workerTemplate=_TEMPLATE,
            size={**_COUNT, "minimum": 1},
            restartPolicy={
                "enum": ["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
            },
            subGroupPolicy=_closed(
                [], subGroupPolicyType={"enum": ["LeaderWorker", "LeaderExcluded"]}, subGroupSize=_COUNT
            ),
        ),
        rolloutStrategy={"type": "object"},
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        networkConfig=_closed(["subdomainPolicy"], subdomainPolicy={"enum": ["Shared", "UniquePerReplica"]}),
    ),
)

RAY_CLUSTER = _resource(
    "ray.io/v1",
    "RayCluster",
    _closed(
        ["headGroupSpec"],
        headGroupSpec=_closed(
            ["rayStartParams", "template"],
            serviceType={"type": "string"},
            headService={"type": "object"},
            enableIngress={"type": "boolean"},
            rayStartParams=_TEXTS,
            template=_TEMPLATE,
        ),
        workerGroupSpecs={
            "type": "array",
            "items": _closed(
                ["groupName", "rayStartParams", "template", "minReplicas", "maxReplicas"],
                groupName=_NAME,
                replicas=_COUNT,
                minReplicas=_COUNT,
                maxReplicas=_COUNT,
                numOfHosts=_COUNT,
                rayStartParams=_TEXTS,
                template=_TEMPLATE,
                scaleStrategy={"type": "object"},
            ),
        },
        rayVersion={"type": "string"},
        enableInTreeAutoscaling={"type": "boolean"},
        autoscalerOptions={"type": "object"},
        headServiceAnnotations=_TEXTS,
        suspend={"type": "boolean"},
    ),
)
