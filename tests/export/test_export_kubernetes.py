"""LeaderWorkerSet and RayCluster: schemas, and what the pods start once a cluster has put in its addresses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from custom_resources import readings, refused, schema

from canserve.commands.contained import contained
from canserve.plan.export.exported import Exported, ExportError, slug
from canserve.plan.export.forms import written
from canserve.subjects.deployment import Image, Site
from canserve.subjects.launch import Process
from exported_cases import CASES, DOCKER, PAIR, exported

GROUPED = [name for name, case in CASES.items() if isinstance(case.where, Image)]
RELEASES = ("1.33", kubernetes_validate.latest_version())


def documents(it: Exported, form: str) -> list[dict[str, Any]]:
    (text,) = written(it, form).files.values()
    return list(yaml.safe_load_all(text))


def templates(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of every machine, the head first."""
    spec = manifest["spec"]
    if manifest["kind"] == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        return [group["leaderTemplate"], *[group["workerTemplate"]] * (group["size"] - 1)]
    workers = [group for group in spec.get("workerGroupSpecs", []) for _ in range(group["replicas"])]
    return [spec["headGroupSpec"]["template"], *(group["template"] for group in workers)]


def core(it: Exported, form: str, release: str) -> None:
    manifest, *others = documents(it, form)
    accepted(manifest)
    metadata = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}
    for one in (metadata, *others, *map(pod_template, templates(manifest))):
        kubernetes_validate.validate(one, release, strict=True)


def accepted(manifest: dict[str, Any]) -> None:
    """By every version of its schema that was read, and by what admission adds. Raises ValidationError, ValueError."""
    for number in readings(manifest["kind"]):
        jsonschema.validate(manifest, schema(manifest["kind"], number))
    if found := refused(manifest):
        raise ValueError("; ".join(found))


def pod_template(template: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "p"}, "template": template}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", GROUPED)
def test_leader_worker_sets_keep_the_schemas(name: str, release: str) -> None:
    core(CASES[name], "leaderworkerset", release)


@pytest.mark.parametrize("release", RELEASES)
def test_ray_clusters_keep_the_schemas(release: str) -> None:
    core(CASES["ray"], "kuberay", release)


SET, GROUP = "spec.leaderWorkerTemplate", "spec.workerGroupSpecs.0"
FAULTS: dict[str, tuple[str, str, Any, str]] = {  # form, where, what is put there (None: it is left out), what is said of it
    "a key nobody knows": ("leaderworkerset", f"{SET}.sizes", 2, "'sizes' was unexpected"),
    "a key on top": ("leaderworkerset", "hosts", 2, "'hosts' was unexpected"),
    "a required one": ("leaderworkerset", f"{SET}.workerTemplate", None, "'workerTemplate' is a required"),
    "another type": ("leaderworkerset", f"{SET}.size", "2", "is not of type 'integer'"),
    "more than fits": ("leaderworkerset", "spec.replicas", 1 << 31, "greater than the maximum"),
    "no such value": ("leaderworkerset", f"{SET}.restartPolicy", "Never", "is not one of"),
    "a value of newer ones": ("leaderworkerset", f"{SET}.restartPolicy", "None", "is not one of"),
    "a field of newer ones": ("leaderworkerset", f"{SET}.volumeClaimTemplates", [], "was unexpected"),
    "no such policy": ("leaderworkerset", "spec.networkConfig", {"subdomainPolicy": "Own"}, "is not one of"),
    "no policy": ("leaderworkerset", "spec.networkConfig", {}, "'subdomainPolicy' is a required"),
    "no such startup": ("leaderworkerset", "spec.startupPolicy", "Ready", "is not one of"),
    "a strategy's type": ("leaderworkerset", "spec.rolloutStrategy", {}, "'type' is a required"),
    "a subgroup's key": ("leaderworkerset", f"{SET}.subGroupPolicy", {"size": 1}, "'size' was unexpected"),
    "a subgroup's size": ("leaderworkerset", f"{SET}.subGroupPolicy", {"subGroupSize": 3}, "subGroupSize: 3 of 2"),
    "nobody": ("leaderworkerset", f"{SET}.size", 0, "size: 0"),
    "too many": ("leaderworkerset", "spec.replicas", (1 << 31) - 1, "replicas: "),
    "a service's name": ("leaderworkerset", "metadata.name", "8b-model", "metadata.name: 8b-model"),
    "a label": ("leaderworkerset", "metadata.labels", {"a": "b/c"}, "labels: a=b/c"),
    "what a template loses": ("leaderworkerset", f"{SET}.workerTemplate.metadata.uid", "x", "uid is dropped"),
    "another version": ("leaderworkerset", "apiVersion", "leaderworkerset.x-k8s.io/v2", "was expected"),
    "a group without its name": ("kuberay", f"{GROUP}.groupName", None, "'groupName' is a required"),
    "a group without its most": ("kuberay", f"{GROUP}.maxReplicas", None, "'maxReplicas' is a required"),
    "a group's parameters": ("kuberay", f"{GROUP}.rayStartParams", {"num-gpus": 1}, "is not of type 'string'"),
    "without parameters": ("kuberay", "spec.headGroupSpec.rayStartParams", None, "'rayStartParams' is a required"),
    "a group's labels": ("kuberay", f"{GROUP}.labels", {"a": "b"}, "'labels' was unexpected"),
    "labels of Ray": ("kuberay", f"{GROUP}.rayStartParams.labels", "a=b", "labels are a field"),
    "no container": ("kuberay", f"{GROUP}.template.spec.containers", [], "no container"),
    "a long name": ("kuberay", "metadata.name", "m" * 54, "metadata.name: "),
    "a manager": ("kuberay", "spec.managedBy", "ray.io/kuberay-operator", "'managedBy' was unexpected"),
}  # fmt: skip


def test_an_export_that_is_not_broken_is_accepted() -> None:
    for form in ("leaderworkerset", "kuberay"):
        accepted(documents(CASES["ray"], form)[0])


@pytest.mark.parametrize("fault", FAULTS)
def test_the_schemas_would_find_a_fault(fault: str) -> None:
    form, path, value, expected = FAULTS[fault]
    manifest, *_ = documents(CASES["ray"], form)
    *above, last = path.split(".")
    inside: Any = manifest
    for name in above:
        inside = inside[int(name)] if name.isdigit() else inside[name]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    with pytest.raises((jsonschema.ValidationError, ValueError)) as found:
        accepted(manifest)
    assert expected in str(found.value)


def test_the_core_schemas_would_find_a_fault() -> None:
    template = templates(documents(CASES["ray"], "leaderworkerset")[0])[0]
    template["spec"]["containers"][0]["port"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod_template(template), RELEASES[0], strict=True)


@pytest.mark.parametrize(
    "model", ["org/Model-1.5B", "x/" + "9" * 90, "x/" + "Long-Name-" * 12, "x/---", "/m/Ü"]
)
def test_names_leave_room_for_what_controllers_add(model: str) -> None:
    """Pods of a set are named after its name, and a hash of ten characters is the value of a label of theirs."""
    for form in ("leaderworkerset", "kuberay"):
        manifest, service = documents(replace(CASES["ray"], model=model), form)
        accepted(manifest)
        assert len(manifest["metadata"]["name"]) + len("-0-") + 10 <= 63
        assert len(service["metadata"]["name"]) <= 63


def expanded(text: str, known: Mapping[str, str]) -> str:
    """As Kubernetes does it in commands and variables: ``$(NAME)``, and two dollars for one."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)",
        lambda found: "$" if found[1] is None else known.get(found[1], found[0]),
        text,
    )


def started(it: Exported, form: str) -> list[list[tuple[list[str], dict[str, str]]]]:
    """Of each machine the processes: words and variables, with the addresses of the plan put in again."""
    name = slug(it)
    manifest, *_ = documents(it, form)
    found = []
    for number, template in enumerate(templates(manifest)):
        known = {
            "POD_IP": f"10.0.0.{number + 1}",
            "LWS_LEADER_ADDRESS": "10.0.0.1",
            "FQ_RAY_IP": "10.0.0.1",
            "LWS_WORKER_INDEX": str(number),
        }
        (container,) = template["spec"]["containers"]
        variables = {one["name"]: expanded(one["value"], known) for one in container["env"] if "value" in one}
        words = [expanded(word, known) for word in (*container["command"], *container.get("args", ()))]
        words = [re.sub(rf"{name}-0-(\d+)\.{name}", lambda at: f"10.0.0.{int(at[1]) + 1}", w) for w in words]
        found.append(processes(words, variables))
    return found


def processes(words: list[str], variables: dict[str, str]) -> list[tuple[list[str], dict[str, str]]]:
    if words[:2] != ["/bin/sh", "-c"]:
        return [(words, variables)]
    found = []
    for line in words[2].splitlines():
        if line.startswith(("set ", "end=", "until ")):
            continue
        argv = shlex.split(line.removesuffix(" &"))
        argv = argv[1:] if argv[0] == "exec" else argv
        more = {}
        if argv[0] == "env":
            count = next(n for n, word in enumerate(argv[1:]) if "=" not in word)
            more = dict(word.split("=", 1) for word in argv[1 : count + 1])
            argv = argv[count + 1 :]
        found.append((argv, variables | more))
    return found


@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, "leaderworkerset") for name in GROUPED if name != "unnamed"), ("ray", "kuberay")],
)
def test_pods_start_the_words_of_up(name: str, form: str) -> None:
    it = CASES[name]
    one = it.deployment
    assert isinstance(it.where, Image)
    for site, held in zip(it.sites, started(it, form), strict=True):
        numbers = [number for number, each in enumerate(one.processes) if each.host == site.name]
        expected = [contained(one, it.where, number) for number in numbers]
        for (argv, variables), container in zip(held, expected, strict=True):
            words = [container.entrypoint, *container.words]
            if len(held) > 1 and (argv, variables) != held[-1]:
                words = [word for word in words if word != "--block"]
            assert argv == words
            assert variables == dict(container.environment)


def test_a_variable_does_not_name_what_the_operator_adds_after_it() -> None:
    """KubeRay appends FQ_RAY_IP to a worker's variables, and a variable can only name those before it."""
    case = CASES["ray"]
    it = replace(case, given=replace(case.given, environment={"TOLD": "tcp://10.0.0.1:1"}))
    _, worker = templates(documents(it, "kuberay")[0])
    (container,) = worker["spec"]["containers"]
    assert not [one for one in container["env"] if "FQ_RAY_IP" in one.get("value", "")]
    assert container["command"] == ["env", "TOLD=tcp://$(FQ_RAY_IP):1", "ray"]
    _, worker = templates(documents(it, "leaderworkerset")[0])
    (container,) = worker["spec"]["containers"]
    assert {"name": "TOLD", "value": "tcp://$(LWS_LEADER_ADDRESS):1"} in container["env"]


def test_workers_of_ray_have_no_name() -> None:
    case = CASES["ray"]
    it = replace(case, given=replace(case.given, environment={"PEERS": "10.0.0.2"}))
    with pytest.raises(ExportError, match="a is told the address of b"):
        written(it, "kuberay")
    assert "0-1.model-1-5b" in "".join(written(it, "leaderworkerset").files.values())


def test_an_address_that_nobody_knows_is_the_leaders() -> None:
    text = "".join(written(CASES["unnamed"], "leaderworkerset").files.values())
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "A_IP" not in body
    head, worker = templates(documents(CASES["unnamed"], "leaderworkerset")[0])
    assert "$(POD_IP)" in head["spec"]["containers"][0]["args"]
    args = worker["spec"]["containers"][0]["args"]
    assert "$(LWS_LEADER_ADDRESS)" in args and args[args.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"


def test_workers_that_differ_are_no_group() -> None:
    own = CASES["own"]
    third = Process(
        "c", (2,), (*own.start.processes[1].argv[:-1], "--seed", "3"), {"VLLM_HOST_IP": "10.0.0.3"}
    )
    argv = list(third.argv)
    argv[argv.index("--node-rank") + 1] = "2"
    it = exported(
        DOCKER,
        (*PAIR, Site("c", (0,), "nvidia", rdma=True)),
        *own.start.processes,
        replace(third, argv=tuple(argv)),
    )
    with pytest.raises(ExportError, match=r"c is not started as b: .*args\["):
        written(it, "leaderworkerset")
    fewer = exported(DOCKER, (PAIR[0], Site("b", (0, 1), "nvidia"), Site("c", (0,), "nvidia")), *own.start.processes,
                     replace(own.start.processes[1], host="c", ranks=(2,)))  # fmt: skip
    with pytest.raises(ExportError, match="node rank 1"):
        written(fewer, "leaderworkerset")


def test_an_address_is_no_part_of_a_longer_one() -> None:
    words = (
        "vllm",
        "serve",
        "m",
        "--at",
        "10.0.0.1",
        "--other",
        "10.0.0.12",
        "--url",
        "http://10.0.0.1:80/x10.0.0.1",
    )
    it = exported(DOCKER, (PAIR[0],), Process("a", (0,), words, {"VLLM_HOST_IP": "10.0.0.1"}))
    (template,) = templates(documents(it, "leaderworkerset")[0])[:1]
    assert template["spec"]["containers"][0]["args"] == [
        "serve", "m", "--at", "$(POD_IP)", "--other", "10.0.0.12", "--url", "http://$(POD_IP):80/x10.0.0.1",
    ]  # fmt: skip


def test_values_of_secrets_are_keys_of_a_secret() -> None:
    (template,) = templates(documents(CASES["given"], "leaderworkerset")[0])
    container = template["spec"]["containers"][0]
    name = slug(CASES["given"])
    asked = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": "HF_TOKEN"}}}
    assert asked in container["env"] and container["envFrom"] == [{"secretRef": {"name": name}}]


def test_a_plan_without_ray_is_no_ray_cluster() -> None:
    with pytest.raises(ExportError, match="this plan is not"):
        written(CASES["own"], "kuberay")
