"""Compose files: every service that starts something, with variables filled from declared defaults."""

from __future__ import annotations

from dataclasses import replace

from canserve.recipes.commands import Around, started
from canserve.recipes.containers import MACHINE, mounted
from canserve.recipes.draft import Account, Draft
from canserve.recipes.shell import split
from canserve.recipes.variables import expanded
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.subjects.recipe import Said, Shared

FORM = "docker compose"
_ASIDE = (
    "annotations", "build", "cap_add", "cap_drop", "cgroup", "configs", "container_name", "cpu_count", "cpus",
    "cpuset", "depends_on", "deploy", "device_cgroup_rules", "devices", "dns", "domainname", "expose", "extra_hosts",
    "gpus", "group_add", "healthcheck", "hostname", "init", "ipc", "isolation", "labels", "logging", "mem_limit",
    "mem_reservation", "memswap_limit", "network_mode", "networks", "oom_kill_disable", "pid", "pids_limit",
    "platform", "ports", "privileged", "profiles", "pull_policy", "read_only", "restart", "runtime", "scale",
    "secrets", "security_opt", "shm_size", "stdin_open", "stop_grace_period", "stop_signal", "sysctls", "tmpfs",
    "tty", "ulimits", "user", "userns_mode", "working_dir",
)  # fmt: skip
"""Keys of a service of which no check asks here."""
_USED = ("image", "command", "entrypoint", "environment", "volumes")
_TOP = ("version", "name", "networks", "volumes", "secrets", "configs")


def is_compose(tree: Mapping) -> bool:
    """Whether a document has this form."""
    return isinstance(tree.get("services"), Mapping)


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = FORM
    account = Account(tree)
    for name in _TOP:
        account.aside(name)
    for key, _ in tree.entries:
        if key.text.startswith("x-"):
            account.aside(key.text)
    services = tree.get("services")
    assert isinstance(services, Mapping)
    for key, node in services.entries:
        if isinstance(node, Mapping):
            _service(key.text, node, draft, account)
    account.settle(draft)


def _service(name: str, node: Mapping, draft: Draft, account: Account) -> None:
    for key, _ in node.entries:
        if key.text in _USED:
            account.use("services", name, key.text)
        elif key.text in _ASIDE or key.text.startswith("x-"):
            account.aside("services", name, key.text)
    for missing in ("env_file", "extends"):
        found = node.get(missing)
        if found is not None:
            draft.note(f"line {found.line}: {missing} of {name} is not read: what it sets is not known")
    image = node.get("image")
    said = _text(image, draft) if isinstance(image, Scalar) else None
    if said is None and node.get("build") is not None:
        draft.note(f"line {node.line}: {name} is built where it runs: name the build with --build")
    environment = _environment(node.get("environment"), draft)
    around = Around(name, environment, said, _machine(node.get("labels")), _mounts(node, draft))
    entry = _words(node.get("entrypoint"), draft)
    args = _words(node.get("command"), draft) or ()
    started(entry or None, args, around, draft)


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
    return Said(expanded(text, node.line, draft.scope).replace("\0", "$"), node.line)


def _words(node: Node | None, draft: Draft) -> tuple[Said, ...] | None:
    match node:
        case Scalar() if not node.null:
            said = _text(node, draft)
            return draft.located(split(said.value, said.line, draft.scope))
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
