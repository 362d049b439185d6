"""Two custom resources as their projects publish them: closed JSON Schemas of every reading, and what admission adds.

The facts are ``custom_resources.toml``. What is of the core API (pod templates) has schemas of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
INT32 = (1 << 31) - 1
_TYPES: Mapping[str, dict[str, Any]] = {
    "count": {"type": "integer", "minimum": 0, "maximum": INT32},
    "flag": {"type": "boolean"},
    "text": {"type": "string"},
    "texts": {"type": "object", "additionalProperties": {"type": "string"}},
    "words": {"type": "array", "items": {"type": "string"}},
    "amount": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[0-9]+%$"}]},
    "core": {"type": "object"},
    "list": {"type": "array", "items": {"type": "object"}},
}
_TEMPLATE_METADATA = {"annotations", "finalizers", "labels", "name", "namespace"}
"""What both keep of a template's metadata."""
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LONGEST = {"LeaderWorkerSet": 63, "RayCluster": 53}
_RAY_RESOURCES = {"num-cpus", "num-gpus", "memory", "resources"}


def readings(kind: str) -> range:
    """Numbers of the versions that were read, from 1."""
    return range(1, len(_FACTS[kind]["readings"]) + 1)


def schema(kind: str, reading: int) -> dict[str, Any]:
    """The JSON Schema of one reading: what it does not know fails."""
    spec = _closed()
    for line in filter(None, _FACTS[kind]["fields"].splitlines()):
        path, form, *since = line.split()
        if since and int(since[0].removeprefix("@")) > reading:
            continue
        *above, name = path.removesuffix("!").split(".")
        inside = spec
        for one in above:
            held = inside["properties"][one]
            inside = held.get("items", held)
        inside["properties"][name] = _typed(form)
        others = set(inside["required"]) - {name}
        inside["required"] = sorted(others | ({name} if path.endswith("!") else set()))
    whole = _closed("apiVersion", "kind", "metadata", "spec")
    whole["properties"] = {
        "apiVersion": {"const": _FACTS[kind]["version"]},
        "kind": {"const": kind},
        "metadata": {"type": "object"},
        "spec": spec,
    }
    return whole


def _closed(*required: str) -> dict[str, Any]:
    return {"type": "object", "properties": {}, "required": list(required), "additionalProperties": False}


def _typed(form: str) -> dict[str, Any]:
    if form == "object":
        return _closed()
    if form == "objects":
        return {"type": "array", "items": _closed()}
    return _TYPES[form] if form in _TYPES else {"enum": form.split("|")}


def refused(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What admission and the operator would refuse of one that keeps its schema; the sources stand with the facts."""
    kind, spec = manifest["kind"], manifest["spec"]
    own = _of_a_set(manifest, spec) if kind == "LeaderWorkerSet" else _of_a_cluster(manifest, spec)
    return (*_named(manifest, _LONGEST[kind]), *own)


def templates(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every template of pods, once."""
    spec = manifest["spec"]
    if manifest["kind"] == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        yield from (group[name] for name in ("leaderTemplate", "workerTemplate") if name in group)
        return
    yield spec["headGroupSpec"]["template"]
    yield from (group["template"] for group in spec.get("workerGroupSpecs", ()))


def _named(manifest: Mapping[str, Any], longest: int) -> Iterator[str]:
    """Names are those of services; labels and annotations have a form; a template keeps some of its metadata."""
    metadata = manifest["metadata"]
    name = metadata["name"]
    if len(name) > longest or not _DNS_1035.fullmatch(name):
        yield f"metadata.name: {name}"
    held = [metadata, *(one.get("metadata", {}) for one in templates(manifest))]
    for one in held:
        for key, value in one.get("labels", {}).items():
            if len(value) > 63 or not _LABEL.fullmatch(value):
                yield f"labels: {key}={value}"
    for one in held[1:]:
        yield from (f"template.metadata: {key} is dropped" for key in set(one) - _TEMPLATE_METADATA)


def _of_a_set(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    template = spec["leaderWorkerTemplate"]
    size, replicas = template.get("size", 1), spec.get("replicas", 1)
    if size < 1:
        yield f"size: {size}"
    if size * replicas > INT32:
        yield f"replicas: {replicas} of {size}"
    rolling = spec.get("rolloutStrategy", {}).get("rollingUpdateConfiguration", {})
    amounts = [rolling.get("maxUnavailable", 1), rolling.get("maxSurge", 0)]
    if replicas and all(str(one).rstrip("%") == "0" for one in amounts):
        yield "rollingUpdateConfiguration: neither maxUnavailable nor maxSurge"
    if any(isinstance(one, str) and int(one.rstrip("%")) > 100 for one in amounts):
        yield f"rollingUpdateConfiguration: {amounts}"
    if (policy := template.get("subGroupPolicy")) is not None:
        part, apart = policy.get("subGroupSize", 0), policy.get("subGroupPolicyType") == "LeaderExcluded"
        if not 1 <= part <= size or ((apart or size % part) and (size - 1) % part):
            yield f"subGroupSize: {part} of {size}"
    elif "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology" in manifest["metadata"].get(
        "annotations", {}
    ):
        yield "annotations: an exclusive topology of groups that there are not"


def _of_a_cluster(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    head, workers = spec["headGroupSpec"], spec.get("workerGroupSpecs", ())
    names = Counter(group["groupName"] for group in workers)
    yield from (f"groupName: {name} stands twice" for name, count in names.items() if count > 1)
    for group in (head, *workers):
        params = group.get("rayStartParams", {})
        if "labels" in params:
            yield "rayStartParams: labels are a field of the group"
        if group.get("resources") and _RAY_RESOURCES & set(params):
            yield "rayStartParams: resources are said twice"
        if not group["template"]["spec"].get("containers"):
            yield "template: no container"
        if group.get("suspend"):
            yield "suspend: a group that is suspended"
    variables = {one["name"]: one.get("value") for one in _first(head).get("env", ())}
    if "redis-username" in head.get("rayStartParams", {}) or "REDIS_USERNAME" in variables:
        yield "redis-username: it is a field of gcsFaultToleranceOptions"
    if "RAY_REDIS_ADDRESS" in variables and "gcsFaultToleranceOptions" not in spec:
        yield "env: RAY_REDIS_ADDRESS without gcsFaultToleranceOptions"
    scaled = spec.get("enableInTreeAutoscaling", False)
    if not scaled and variables.get("RAY_enable_autoscaler_v2") in ("1", "true"):
        yield "env: RAY_enable_autoscaler_v2 without enableInTreeAutoscaling"


def _first(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of Ray."""
    containers = group["template"]["spec"].get("containers") or [{}]
    found: Mapping[str, Any] = containers[0]
    return found
