"""Manifests of Kubernetes: LeaderWorkerSet, RayCluster, and whatever else has a pod with containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from canserve.recipes.commands import Around, started
from canserve.recipes.draft import Account, Draft
from canserve.recipes.yaml_tree import Items, Mapping, Node, Path, Scalar
from canserve.subjects.recipe import HIDDEN, Said, Shared

_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
"""Of two dollars one is left, which stands for itself."""
_SHELL = re.compile(r"^-[a-z]*c$")
_CONTAINERS = ("containers", "initContainers")
_CONTAINER_USED = ("name", "image", "command", "args", "env")
_CONTAINER_ASIDE = (
    "resources", "ports", "volumeMounts", "readinessProbe", "livenessProbe", "startupProbe", "securityContext",
    "imagePullPolicy", "workingDir", "lifecycle", "stdin", "tty", "volumeDevices", "terminationMessagePath",
)  # fmt: skip
_POD_ASIDE = (
    "volumes", "nodeSelector", "tolerations", "affinity", "hostNetwork", "hostIPC", "hostPID", "dnsPolicy",
    "restartPolicy", "serviceAccountName", "runtimeClassName", "securityContext", "imagePullSecrets", "subdomain",
    "schedulerName", "priorityClassName", "terminationGracePeriodSeconds", "hostname", "nodeName", "enableServiceLinks",
)  # fmt: skip
_SET_ASIDE = ("replicas", "rolloutStrategy", "startupPolicy", "networkConfig", "selector", "strategy", "rayVersion",
              "revisionHistoryLimit", "serviceName", "enableInTreeAutoscaling", "autoscalerOptions", "backoffLimit",
              "updateStrategy", "podManagementPolicy", "minReadySeconds")  # fmt: skip
_LWS, _RAY = "LeaderWorkerSet", "Ray"
_COMPANIONS = frozenset({
    "Service", "PersistentVolumeClaim", "PersistentVolume", "ConfigMap", "Secret", "Namespace", "Ingress", "Gateway",
    "HTTPRoute", "HorizontalPodAutoscaler", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ServiceMonitor",
    "ClusterRoleBinding", "NetworkPolicy", "PodMonitor", "PodDisruptionBudget", "StorageClass", "ResourceClaimTemplate",
})  # fmt: skip
"""Kinds that start nothing."""


def is_manifest(tree: Mapping) -> bool:
    """Whether a document has this form."""
    return isinstance(tree.get("apiVersion"), Scalar) and isinstance(tree.get("kind"), Scalar)


def read(trees: tuple[Mapping, ...], draft: Draft) -> None:
    """Fill the draft from all documents of a file."""
    kinds = []
    for number, tree in enumerate(trees):
        kind = tree.get("kind")
        assert isinstance(kind, Scalar)
        account = Account(tree)
        for name in ("apiVersion", "kind", "metadata", "status"):
            account.aside(name)
        if kind.text not in _COMPANIONS and (
            kind.text.startswith(_RAY) or any(True for _ in _pods(tree, ()))
        ):
            kinds.append(kind.text)
            _workload(tree, kind.text, draft, account)
        elif kind.text in _COMPANIONS:
            account.aside()
        account.settle(draft, f"{number}: " if len(trees) > 1 else "")
    draft.form = f"Kubernetes {', '.join(dict.fromkeys(kinds)) or 'manifest'}"


def _workload(tree: Mapping, kind: str, draft: Draft, account: Account) -> None:
    spec = tree.get("spec")
    if not isinstance(spec, Mapping):
        return
    _sizes(spec, kind, draft, account)
    for path, pod in _pods(tree, ()):
        _pod(pod, path, draft, account)


def _sizes(spec: Mapping, kind: str, draft: Draft, account: Account) -> None:
    """How many machines, and what around pods decides nothing."""
    for name in _SET_ASIDE:
        account.aside("spec", name)
    inner = spec.get("leaderWorkerTemplate")
    if kind == _LWS and isinstance(inner, Mapping):
        for name in ("restartPolicy", "subGroupPolicy", "volumeClaimTemplates", "resizePolicy"):
            account.aside("spec", "leaderWorkerTemplate", name)
        account.use("spec", "leaderWorkerTemplate", "size")
        size = inner.get("size")
        if isinstance(size, Scalar) and size.text.isdecimal():
            draft.nodes = Said(size.text, size.line)
            draft.scope.variables.setdefault("LWS_GROUP_SIZE", size.text)
    cluster = spec.get("rayClusterConfig", "rayClusterSpec")
    base = ("spec",) if not isinstance(cluster, Mapping) else ("spec", "rayClusterConfig")
    groups = (cluster if isinstance(cluster, Mapping) else spec).get("workerGroupSpecs")
    if isinstance(groups, Items):
        count, line = 1, groups.line
        for number, group in enumerate(groups.nodes):
            for name in (
                "replicas",
                "minReplicas",
                "maxReplicas",
                "groupName",
                "rayStartParams",
                "numOfHosts",
            ):
                account.use(*base, "workerGroupSpecs", number, name)
            replicas = group.get("replicas") if isinstance(group, Mapping) else None
            count += int(replicas.text) if isinstance(replicas, Scalar) and replicas.text.isdecimal() else 1
        account.use(*base, "headGroupSpec", "rayStartParams")
        account.aside(*base, "headGroupSpec", "serviceType")
        draft.nodes = Said(str(count), line)


def _pods(node: Node, path: Path) -> Iterator[tuple[Path, Mapping]]:
    """Everything that has containers, in the order of the file."""
    match node:
        case Mapping(entries=entries):
            if isinstance(node.get("containers"), Items):
                yield path, node
                return
            for key, each in entries:
                yield from _pods(each, (*path, key.text))
        case Items(nodes=nodes):
            for number, each in enumerate(nodes):
                yield from _pods(each, (*path, number))
        case _:
            pass


def _pod(pod: Mapping, path: Path, draft: Draft, account: Account) -> None:
    account.aside(*path[:-1], "metadata")
    for name in _POD_ASIDE:
        account.aside(*path, name)
    sources = _sources(pod.get("volumes"))
    for section in _CONTAINERS:
        containers = pod.get(section)
        for number, each in enumerate(containers.nodes if isinstance(containers, Items) else ()):
            if isinstance(each, Mapping):
                here = (*path, section, number)
                for name in _CONTAINER_USED:
                    account.use(*here, name)
                for name in _CONTAINER_ASIDE:
                    account.aside(*here, name)
                _container(each, sources, draft)


def _container(node: Mapping, sources: dict[str, str], draft: Draft) -> None:
    environment = _environment(node.get("env"), draft)
    image, name = node.get("image"), node.get("name")
    values = {key: said.value for key, said in environment.items() if said.value != HIDDEN}
    outer = draft.scope
    draft.scope = outer.within({**outer.variables, **values})
    around = Around(
        name.text if isinstance(name, Scalar) else "",
        environment,
        Said(image.text, image.line) if isinstance(image, Scalar) else None,
        mounts=_mounts(node.get("volumeMounts"), sources),
    )
    command, args = _words(node.get("command"), draft), _words(node.get("args"), draft)
    started(command or None, args, around, draft)
    outer.words, draft.scope = draft.scope.words, outer


def _words(node: Node | None, draft: Draft) -> tuple[Said, ...]:
    """Words, with ``$(NAME)`` replaced where the container sets NAME; in a shell's text it is a variable then."""
    found: list[Said] = []
    for each in node.nodes if isinstance(node, Items) else ():
        if isinstance(each, Scalar):
            inner = bool(found) and _SHELL.fullmatch(found[-1].value) is not None
            found.append(Said(_filled(each, draft, inner), each.line))
    return tuple(found)


def _filled(node: Scalar, draft: Draft, inner: bool) -> str:
    scope = draft.scope

    def value(found: re.Match[str]) -> str:
        name: str | None = found[1]
        if name is None:
            return "$"
        if name in scope.variables:
            scope.grow(len(scope.variables[name]), node.line)
            return scope.variables[name]
        if name in scope.runtime:
            if inner:
                return f"${{{name}}}"
            scope.leave(
                found[0], node.line + node.text.count("\n", 0, found.start()), "known only where it runs"
            )
        elif not inner:
            scope.leave(found[0], node.line, "nothing in the manifest sets it")
        return found[0]

    return _VARIABLE.sub(value, node.text)


def _environment(node: Node | None, draft: Draft) -> dict[str, Said]:
    found: dict[str, Said] = {}
    for each in node.nodes if isinstance(node, Items) else ():
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(each, Mapping) or not isinstance(name, Scalar):
            continue
        value = each.get("value")
        if isinstance(value, Scalar):
            found[name.text] = draft.variable(name.text, value.text.replace("$$", "$"), name.line)
        else:
            draft.scope.runtime |= {name.text}
    return found


def _sources(node: Node | None) -> dict[str, str]:
    """Folders of the machine by the volume's name."""
    found: dict[str, str] = {}
    for each in node.nodes if isinstance(node, Items) else ():
        if isinstance(each, Mapping):
            name, host = each.get("name"), each.get("hostPath")
            path = host.get("path") if isinstance(host, Mapping) else None
            if isinstance(name, Scalar) and isinstance(path, Scalar):
                found[name.text] = path.text
    return found


def _mounts(node: Node | None, sources: dict[str, str]) -> tuple[Shared, ...]:
    found: list[Shared] = []
    for each in node.nodes if isinstance(node, Items) else ():
        if isinstance(each, Mapping):
            name, target, alone = (each.get(key) for key in ("name", "mountPath", "readOnly"))
            if isinstance(name, Scalar) and isinstance(target, Scalar) and name.text in sources:
                readonly = isinstance(alone, Scalar) and alone.truth is True
                found.append(Shared(sources[name.text], target.text, readonly, each.line))
    return tuple(found)
