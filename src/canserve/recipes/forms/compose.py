"""Compose files: every service that starts something, with variables filled from declared defaults."""

from __future__ import annotations

from dataclasses import replace

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import started
from canserve.recipes.containers import MACHINE, mounted
from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.compose_merge import listed
from canserve.recipes.forms.compose_project import ENV, INCLUDE, Project, Service
from canserve.recipes.further import wanted
from canserve.recipes.shell import split
from canserve.recipes.variable_texts import compose_variables, docker_variables
from canserve.recipes.variables import expanded
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.subjects.recipe import Said, Shared

FORM = "docker compose"
_ASIDE = (
    "annotations", "build", "cap_add", "cap_drop", "cgroup", "configs", "container_name", "cpu_count", "cpus",
    "cpuset", "depends_on", "deploy", "develop", "device_cgroup_rules", "devices", "dns", "dns_search", "domainname", "expose", "extra_hosts",
    "gpus", "group_add", "healthcheck", "hostname", "init", "ipc", "isolation", "labels", "logging", "mem_limit",
    "links", "mac_address", "mem_reservation", "memswap_limit", "network_mode", "networks", "oom_kill_disable", "pid", "pids_limit",
    "platform", "ports", "privileged", "profiles", "pull_policy", "read_only", "restart", "runtime", "scale",
    "secrets", "security_opt", "shm_size", "stdin_open", "stop_grace_period", "stop_signal", "sysctls", "tmpfs",
    "tty", "ulimits", "user", "userns_mode", "working_dir",
)  # fmt: skip
"""Keys of a service of which no check asks here."""
_USED = ("image", "command", "entrypoint", "environment", "volumes", "env_file", "extends")
_TOP = ("version", "name", "networks", "volumes", "secrets", "configs")


def is_compose(tree: Mapping) -> bool:
    """Whether a document has this form."""
    return isinstance(tree.get("services"), Mapping)


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = FORM
    project = Project(tree, draft)
    account = project.files[""][1]
    for name in _TOP:
        account.aside(name)
    for key, _ in tree.entries:
        if key.text.startswith("x-"):
            account.aside(key.text)
    if not draft.scope.variables and any("$" in line for line in draft.lines):
        draft.scope.variables.update(project.variables(ENV, 1))
    configs = tree.get("configs")
    for service in project.services():
        outer = draft.scope
        draft.scope = outer.within({**service.variables, **outer.variables})
        _service(service, configs if isinstance(configs, Mapping) else None, draft, account)
        outer.words, draft.scope = draft.scope.words, outer
    if any(each.engine is not None for each in draft.commands):
        draft.files.spare(INCLUDE)
    project.settle(_USED)


def _service(service: Service, configs: Mapping | None, draft: Draft, account: Account) -> None:
    name, node = service.name, service.node
    for key, _ in node.entries:
        if key.text in _USED:
            account.use("services", name, key.text)
        elif key.text in _ASIDE or key.text.startswith("x-"):
            account.aside("services", name, key.text)
    image = node.get("image")
    said = _text(image, draft) if isinstance(image, Scalar) else None
    if said is None and node.get("build") is not None:
        draft.note(f"line {node.line}: {name} is built where it runs: name the build with --build")
    environment = {
        **_filed(name, node.get("env_file"), draft),
        **_environment(node.get("environment"), draft),
    }
    mounts, inline = _configs(node.get("configs"), configs)
    around = Around(
        name, environment, said, _machine(node.get("labels")), (*_mounts(node, draft), *mounts),
        elsewhere=CONTAINER, inline=inline,
    )  # fmt: skip
    entry = _words(node.get("entrypoint"), draft)
    args = _words(node.get("command"), draft) or ()
    started(entry or None, args, around, draft)


def _filed(service: str, node: Node | None, draft: Draft) -> dict[str, Said]:
    """Variables of ``env_file``: a later file counts more."""
    found: dict[str, Said] = {}
    for each in listed(node) if node is not None else ():
        named = each.get("path") if isinstance(each, Mapping) else each
        if not isinstance(named, Scalar):
            continue
        needed, form = (
            each.get(key) if isinstance(each, Mapping) else None for key in ("required", "format")
        )
        file = wanted(
            _text(named, draft).value, named.line, f"env_file of {service}",
            required=not (isinstance(needed, Scalar) and needed.truth is False),
        )  # fmt: skip
        raw = isinstance(form, Scalar) and form.text == "raw"
        text = draft.files.text(file) or ""
        for one in (docker_variables if raw else compose_variables)(text, draft.scope, file.line):
            said = draft.variable(one.name, one.value, file.line)
            found[one.name] = Said(said.value, file.line, f"{file.path}:{one.line}")
            draft.key(f"{file.path}: {one.name}", said.value, one.line, "used")
    return found


def _configs(node: Node | None, top: Mapping | None) -> tuple[tuple[Shared, ...], dict[str, str]]:
    """Files that a service is given: from beside the recipe, or with their text in it."""
    mounts: list[Shared] = []
    inline: dict[str, str] = {}
    for each in listed(node) if node is not None and top is not None else ():
        source, target = (
            (each.get("source"), each.get("target")) if isinstance(each, Mapping) else (each, None)
        )
        config = top.get(source.text) if top is not None and isinstance(source, Scalar) else None
        if not isinstance(source, Scalar) or not isinstance(config, Mapping):
            continue
        where = target.text if isinstance(target, Scalar) else f"/{source.text}"
        file, content = config.get("file"), config.get("content")
        if isinstance(content, Scalar):
            inline[where] = content.text
        elif isinstance(file, Scalar):
            mounts.append(
                Shared(file.text if file.text[:1] in "/.~" else f"./{file.text}", where, True, each.line)
            )
    return tuple(mounts), inline


def _machine(labels: Node | None) -> str | None:
    """The machine that an exported service belongs on."""
    match labels:
        case Mapping():
            found = labels.get(MACHINE)
            return found.text if isinstance(found, Scalar) else None
        case Items(nodes=nodes):
            texts = (each.text for each in nodes if isinstance(each, Scalar))
            return next((text.partition("=")[2] for text in texts if text.startswith(f"{MACHINE}=")), None)
        case _:
            return None


def _text(node: Scalar, draft: Draft) -> Said:
    """A value with its variables filled; ``$$`` stands for one ``$``."""
    text = node.text.replace("$$", "\0")
    return Said(expanded(text, node.line, draft.scope).replace("\0", "$"), node.line, node.at)


def _words(node: Node | None, draft: Draft) -> tuple[Said, ...] | None:
    match node:
        case Scalar() if not node.null:
            said = _text(node, draft)
            words = split(said.value, said.line, draft.scope)
            return tuple(replace(word, at=said.at) for word in words) if said.at else draft.located(words)
        case Items(nodes=nodes):
            return tuple(_text(each, draft) for each in nodes if isinstance(each, Scalar))
        case _:
            return None


def _environment(node: Node | None, draft: Draft) -> dict[str, Said]:
    found: dict[str, Said] = {}
    match node:
        case Mapping(entries=entries):
            for key, value in entries:
                if isinstance(value, Scalar):
                    found[key.text] = _variable(key.text, None if value.null else value, key.line, draft)
        case Items(nodes=nodes):
            for each in nodes:
                if isinstance(each, Scalar):
                    name, equals, content = each.text.partition("=")
                    inner = replace(each, text=content) if equals else None
                    found[name] = _variable(name, inner, each.line, draft)
        case _:
            pass
    return found


def _variable(name: str, value: Scalar | None, line: int, draft: Draft) -> Said:
    """Without a value it is taken from who starts it."""
    if value is None:
        known = draft.scope.variables.get(name)
        if known is None:
            draft.leave(f"${name}", line, "taken from who starts it")
        return draft.variable(name, f"${name}" if known is None else known, line)
    return draft.variable(name, _text(value, draft).value, line)


def _mounts(node: Mapping, draft: Draft) -> tuple[Shared, ...]:
    volumes = node.get("volumes")
    found: list[Shared] = []
    for each in volumes.nodes if isinstance(volumes, Items) else ():
        if isinstance(each, Scalar):
            mount = mounted(_text(each, draft).value, each.line)
            found += [mount] if mount else []
        elif isinstance(each, Mapping):
            source, target, readonly = (each.get(key) for key in ("source", "target", "read_only"))
            if isinstance(source, Scalar) and isinstance(target, Scalar):
                alone = isinstance(readonly, Scalar) and readonly.truth is True
                found.append(Shared(_text(source, draft).value, target.text, alone, each.line))
    return tuple(found)
