"""Manifests of Kubernetes: LeaderWorkerSet, RayCluster, and whatever else has a pod with containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import process, script, started
from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.config_maps import ConfigMaps, gathered, text_of
from canserve.recipes.forms.kserve import (
    LLM,
    RUNTIMES,
    SERVICE,
    container_of,
    llm_words,
    place_of,
    placed,
    runtime_names,
)
from canserve.recipes.forms.ray_serve import read_text
from canserve.recipes.yaml_tree import Items, Mapping, Node, Path, Scalar
from canserve.subjects.recipe import HIDDEN, Said, Shared

_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
"""Of two dollars one is left, which stands for itself."""
_SHELL = re.compile(r"^-[a-z]*c$")
_MAIN = "mainContainer"
"""Of a graph of Dynamo, whose operator makes a pod around it."""
_CONTAINERS = ("containers", "initContainers")
_CONTAINER_USED = ("name", "image", "command", "args", "env", "envFrom")
_CONTAINER_ASIDE = (
    "resources", "ports", "volumeMounts", "readinessProbe", "livenessProbe", "startupProbe", "securityContext",
    "imagePullPolicy", "workingDir", "lifecycle", "stdin", "tty", "volumeDevices", "terminationMessagePath",
)  # fmt: skip
_POD_ASIDE = (
    "volumes", "nodeSelector", "tolerations", "affinity", "hostNetwork", "hostIPC", "hostPID", "dnsPolicy",
    "restartPolicy", "serviceAccountName", "runtimeClassName", "securityContext", "imagePullSecrets", "subdomain",
    "schedulerName", "priorityClassName", "terminationGracePeriodSeconds", "hostname", "nodeName", "enableServiceLinks", "topologySpreadConstraints", "automountServiceAccountToken", "shareProcessNamespace",
    "serviceAccount", "resourceClaims", "containerConcurrency", "timeoutSeconds", "overhead", "hostAliases",
)  # fmt: skip
_SET_ASIDE = ("replicas", "rolloutStrategy", "startupPolicy", "networkConfig", "selector", "strategy", "rayVersion",
              "revisionHistoryLimit", "serviceName", "enableInTreeAutoscaling", "autoscalerOptions", "backoffLimit",
              "updateStrategy", "podManagementPolicy", "minReadySeconds", "schedule", "concurrencyPolicy",
              "completions", "parallelism", "ttlSecondsAfterFinished", "progressDeadlineSeconds", "suspend",
              "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "backendFramework")  # fmt: skip
_RUNTIME_ASIDE = ("supportedModelFormats", "multiModel", "annotations", "labels", "protocolVersions", "builtInAdapter",
                  "supportedUriFormats", "grpcEndpoint", "grpcDataEndpoint", "httpDataEndpoint", "router",
                  *_POD_ASIDE)  # fmt: skip
_KSERVE = frozenset({*RUNTIMES, SERVICE, LLM})
_LISTS = {"List": "items", "Template": "objects"}
"""Kinds that hold others, and under which key."""
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


@dataclass(frozen=True, slots=True)
class _Manifest:
    """One document, and what stands beside it."""

    tree: Mapping
    kind: str
    draft: Draft
    account: Account
    maps: ConfigMaps


def read(trees: tuple[Mapping, ...], draft: Draft) -> None:
    """Fill the draft from all documents of a file."""
    documents = [(f"{number}: " if len(trees) > 1 else "", tree) for number, tree in enumerate(trees)]
    listed = [(f"{path}{inner}", each) for path, tree in documents for inner, each in _listed(tree)]
    every = tuple(tree for _, tree in listed)
    maps, served = gathered(every), runtime_names(every)
    kinds: list[str] = []
    for path, tree in listed:
        kind = text_of(tree, "kind") or ""
        account = Account(tree)
        it = _Manifest(tree, kind, draft, account, maps)
        for name in ("apiVersion", "kind", "metadata", "status"):
            account.aside(name)
        if kind in RUNTIMES and text_of(tree.get("metadata"), "name") in served:
            _marked(it)
        elif kind.startswith(_RAY) or kind in _KSERVE or any(True for _ in _pods(tree, ())):
            kinds.append(kind)
            _workload(it, every)
        elif kind in _COMPANIONS:
            account.aside()
        account.settle(draft, path)
    draft.form = f"Kubernetes {', '.join(dict.fromkeys(kinds)) or 'manifest'}"


def _listed(tree: Mapping) -> Iterator[tuple[str, Mapping]]:
    """The manifests of a list, and the list without them; else the one."""
    key = _LISTS.get(text_of(tree, "kind") or "", "")
    items = tree.get(key)
    if not isinstance(items, Items):
        yield "", tree
        return
    for number, each in enumerate(items.nodes):
        if isinstance(each, Mapping):
            yield f"{key}[{number}].", each
    yield "", Mapping(tuple(one for one in tree.entries if one[0].text != key), tree.line)


def _marked(it: _Manifest) -> None:
    """The keys of a runtime that a service of the same file starts."""
    for name in _RUNTIME_ASIDE:
        it.account.aside("spec", name)
    for path, pod in _pods(it.tree, ()):
        _keys(pod, path, it.account)


def _workload(it: _Manifest, every: tuple[Mapping, ...]) -> None:
    tree, draft, account = it.tree, it.draft, it.account
    spec = tree.get("spec")
    if not isinstance(spec, Mapping):
        return
    _sizes(spec, it.kind, draft, account)
    before = len(draft.commands)
    if it.kind in _KSERVE:
        for name in _RUNTIME_ASIDE:
            account.aside("spec", name)
        _kserve(it, every)
    for path, pod in _pods(tree, ()):
        _pod(pod, path, it)
    if it.kind == LLM and not any(each.engine for each in draft.commands[before:]):
        _llm(it)
    if it.kind in _KSERVE:
        place = place_of(tree)
        draft.commands[before:] = [placed(each, place, draft) for each in draft.commands[before:]]
    config, entry = spec.get("serveConfigV2"), spec.get("entrypoint")
    if isinstance(config, Scalar):
        account.use("spec", "serveConfigV2")
        read_text(config, Around(image=draft.image or _image(tree)), draft, "spec.serveConfigV2")
    if isinstance(entry, Scalar) and it.kind.startswith(_RAY):
        account.use("spec", "entrypoint")
        script(entry.text, entry.line, Around(image=_image(tree), elsewhere=CONTAINER), draft, entry.lined)


def _kserve(it: _Manifest, every: tuple[Mapping, ...]) -> None:
    """The container of an InferenceService that names its model, and a runtime."""
    for name in ("model", "containers", "minReplicas", "maxReplicas", "workerSpec"):
        role = it.account.use if name in ("model", "workerSpec") else it.account.aside
        role("spec", "predictor", name)
    for name in _POD_ASIDE:
        it.account.aside("spec", "predictor", name)
    found = container_of(it.tree, every, it.draft) if it.kind == SERVICE else None
    if found is not None:
        container, pod = found
        _container(container, pod.get("volumes"), it)


def _llm(it: _Manifest) -> None:
    """The container of an LLMInferenceService that says nothing of what it starts."""
    for name in ("model", "parallelism", "template"):
        it.account.use("spec", name)
    pod = next((pod for _, pod in _pods(it.tree, ())), None)
    containers = pod.get("containers") if pod is not None else None
    first = containers.nodes[0] if isinstance(containers, Items) and containers.nodes else None
    container = first if isinstance(first, Mapping) else None
    words = llm_words(it.tree, container, it.draft)
    environment = _environment(container.get("env"), it) if container is not None else {}
    if words:
        process(words, Around(LLM, environment, _image(it.tree), elsewhere=CONTAINER), it.draft)


def _image(tree: Mapping) -> Said | None:
    """The first image that a document names."""
    for _, pod in _pods(tree, ()):
        containers = pod.get("containers")
        for each in containers.nodes if isinstance(containers, Items) else ():
            image = each.get("image") if isinstance(each, Mapping) else None
            if isinstance(image, Scalar):
                return Said(image.text, image.line)
    return None


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
    if kind.startswith(_RAY):
        for name in ("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions"):
            account.aside(*base, name)
        account.use(*base, "headGroupSpec", "rayStartParams")
        account.aside(*base, "headGroupSpec", "serviceType")
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
        draft.nodes = Said(str(count), line)


def _pods(node: Node, path: Path) -> Iterator[tuple[Path, Mapping]]:
    """Everything that has containers, in the order of the file."""
    match node:
        case Mapping(entries=entries):
            if isinstance(node.get("containers"), Items):
                yield path, node
                return
            if isinstance(node.get(_MAIN), Mapping):
                yield path, node
                return
            for key, each in entries:
                yield from _pods(each, (*path, key.text))
        case Items(nodes=nodes):
            for number, each in enumerate(nodes):
                yield from _pods(each, (*path, number))
        case _:
            pass


def _pod(pod: Mapping, path: Path, it: _Manifest) -> None:
    _keys(pod, path, it.account)
    main = pod.get(_MAIN)
    if isinstance(main, Mapping):
        _container(main, pod.get("volumes"), it)
    for section in _CONTAINERS:
        containers = pod.get(section)
        for each in containers.nodes if isinstance(containers, Items) else ():
            if isinstance(each, Mapping):
                _container(each, pod.get("volumes"), it)


def _keys(pod: Mapping, path: Path, account: Account) -> None:
    """Which keys of a pod decide something."""
    account.aside(*path[:-1], "metadata")
    for name in _POD_ASIDE:
        account.aside(*path, name)
    for name in _CONTAINER_USED:
        account.use(*path, _MAIN, name)
    for name in _CONTAINER_ASIDE:
        account.aside(*path, _MAIN, name)
    for section in _CONTAINERS:
        containers = pod.get(section)
        for number, _ in enumerate(containers.nodes if isinstance(containers, Items) else ()):
            for name in _CONTAINER_USED:
                account.use(*path, section, number, name)
            for name in _CONTAINER_ASIDE:
                account.aside(*path, section, number, name)


def _container(node: Mapping, volumes: Node | None, it: _Manifest) -> None:
    draft = it.draft
    environment = _environment(node.get("env"), it)
    filed, missing = it.maps.variables(node.get("envFrom"))
    for each in missing:
        draft.note(f"line {each.line}: what {each.value[:60]} sets stands in no file that is read")
    environment = {
        **{name: draft.variable(name, s.value, s.line) for name, s in filed.items()},
        **environment,
    }
    image, name = node.get("image"), node.get("name")
    values = {key: said.value for key, said in environment.items() if said.value != HIDDEN}
    outer = draft.scope
    draft.scope = outer.within({**outer.variables, **values})
    mounts, inline = _mounts(node.get("volumeMounts"), volumes, it.maps)
    around = Around(
        name.text if isinstance(name, Scalar) else "",
        environment,
        Said(image.text, image.line) if isinstance(image, Scalar) else None,
        mounts=mounts,
        elsewhere=CONTAINER,
        inline=inline,
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


def _environment(node: Node | None, it: _Manifest) -> dict[str, Said]:
    draft = it.draft
    found: dict[str, Said] = {}
    for each in node.nodes if isinstance(node, Items) else ():
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(each, Mapping) or not isinstance(name, Scalar):
            continue
        value, elsewhere = each.get("value"), it.maps.variable(each.get("valueFrom"))
        if isinstance(value, Scalar):
            found[name.text] = draft.variable(name.text, value.text.replace("$$", "$"), name.line)
        elif elsewhere is not None:
            found[name.text] = draft.variable(name.text, elsewhere.value, name.line)
        else:
            draft.scope.runtime |= {name.text}
    return found


def _mounts(
    node: Node | None, volumes: Node | None, maps: ConfigMaps
) -> tuple[tuple[Shared, ...], dict[str, str]]:
    """Folders of the machine that a container sees, and files whose text stands in the manifest."""
    known = {text_of(each, "name"): each for each in volumes.nodes} if isinstance(volumes, Items) else {}
    mounts: list[Shared] = []
    inline: dict[str, str] = {}
    for each in node.nodes if isinstance(node, Items) else ():
        name, target = text_of(each, "name"), text_of(each, "mountPath")
        volume = known.get(name)
        if not isinstance(each, Mapping) or not isinstance(volume, Mapping) or target is None:
            continue
        source, part, alone = (
            text_of(volume.get("hostPath"), "path"),
            text_of(each, "subPath"),
            each.get("readOnly"),
        )
        if source is not None:
            readonly = isinstance(alone, Scalar) and alone.truth is True
            mounts.append(Shared(f"{source}/{part}" if part else source, target, readonly, each.line))
        files = maps.files(volume)
        if part is not None:
            inline |= {target: files[part]} if part in files else {}
        else:
            inline |= {f"{target.rstrip('/')}/{key}": text for key, text in files.items()}
    return tuple(mounts), inline
