"""Recipes of sparkrun, and those of spark-vllm-docker that it calls its first version."""

from __future__ import annotations

from canserve.recipes.around import Around
from canserve.recipes.commands import process, script, unread_server
from canserve.recipes.draft import Account, Draft
from canserve.recipes.installing import install
from canserve.recipes.templates import filled, refuse_commands
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.rules.recipes import Runtime, asides, form, runtime, runtime_of
from canserve.subjects.recipe import HIDDEN, Said

SPARKRUN, EUGR = "sparkrun", "eugr"
_TOLD_BY = ("recipe_version", "sparkrun_version", "runtime", "container", "containers", "command", "defaults")
_FIRST = ("build_args", "mods")
_SCHEDULED = ("port", "host", "tensor_parallel", "pipeline_parallel")
"""Defaults by which machines are chosen and the server is found, whatever it is told itself."""
_NODES = ("min_nodes", "max_nodes", "solo_only", "cluster_only")


def is_sparkrun(tree: Mapping) -> bool:
    """Whether a document has this form."""
    return (
        isinstance(tree.get(*_TOLD_BY), Scalar | Mapping | Items)
        and tree.get("services", "apiVersion") is None
    )


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    account = Account(tree)
    version = tree.get("recipe_version")
    told = version.text if isinstance(version, Scalar) else ""
    first = told == "1" or (not told and tree.get(*_FIRST) is not None)
    draft.form, draft.engine = form(EUGR if first else SPARKRUN)
    draft.model = _said(tree, "model", account)
    draft.revision = _said(tree, "model_revision", account)
    draft.image = _said(tree, "container", account)
    draft.held = first and draft.image is not None and "/" not in draft.image.value
    if draft.image is not None and draft.held:
        built = f"line {draft.image.line}: {draft.image.value[:80]} is built where it runs"
        draft.note(f"{built}: name a machine that has it with --on, or a build with --build")
    _machines(tree, draft, account)
    _environment(tree, draft, account)
    _asides(tree, draft, account)
    values = _values(tree, draft)
    known = _runtime(tree, draft, account)
    command = tree.get("command")
    if isinstance(command, Scalar) and not command.null:
        account.use("command")
        _command(command, values, draft, account)
    elif known is not None:
        _from_defaults(tree, known, draft, account)
    account.settle(draft)


def _command(command: Scalar, values: dict[str, Said], draft: Draft, account: Account) -> None:
    """The template; a value that it does not use decides nothing."""
    plain = {name: said.value for name, said in values.items()}
    text = filled(command.text, command.line, plain, draft.scope, doubled="{{" in command.text)
    used = {
        name
        for name in values
        if f"{{{name}}}" in command.text or any(f"{{{name}}}" in v for v in plain.values())
    }
    refuse_commands({name: values[name] for name in used}, draft.scope)
    for name in values:
        if name in used or name in _SCHEDULED:
            account.use("defaults", name)
        else:
            account.aside("defaults", name)
    if untold := [name for name in values if name not in used and name not in (*_SCHEDULED, "model")]:
        draft.note(
            f"defaults that stand in no command, so that the server is not told: {', '.join(untold)[:200]}"
        )
    known = {name: said.value for name, said in draft.environment.items() if said.value != HIDDEN}
    draft.scope.variables.update(known)
    around = Around(environment=draft.environment, image=draft.image)
    script(text, command.line, around, draft, command.lined)
    if not any(each.engine for each in draft.commands):
        unread_server(text, command.line, around, draft)


def _from_defaults(tree: Mapping, known: Runtime, draft: Draft, account: Account) -> None:
    """Without a command the defaults are the server's flags."""
    defaults = tree.get("defaults")
    line = tree.line
    words = [Said(word, line) for word in known.start]
    if draft.model is not None:
        words += [Said("--model", draft.model.line), draft.model]
    for key, node in defaults.entries if isinstance(defaults, Mapping) else ():
        flag = known.keys.get(key.text, f"--{key.text.replace('_', '-')}")
        if flag:
            account.use("defaults", key.text)
            words += _flag(flag, node, key.line)
        else:
            account.aside("defaults", key.text)
    around = Around(environment=draft.environment, image=draft.image)
    process(words, around, draft)


def _flag(flag: str, node: Node, line: int) -> list[Said]:
    match node:
        case Scalar() if node.style is None and node.truth is not None:
            return [Said(flag, line)] if node.truth else []
        case Scalar() if not node.null:
            return [Said(flag, line), Said(node.text, line)]
        case Items(nodes=nodes):
            return [
                Said(flag, line),
                *(Said(each.text, each.line) for each in nodes if isinstance(each, Scalar)),
            ]
        case Mapping():
            from canserve.recipes.forms.json_text import json_text

            return [Said(flag, line), Said(json_text(node), line)]
        case _:
            return []


def _values(tree: Mapping, draft: Draft) -> dict[str, Said]:
    """What names in braces stand for."""
    from canserve.recipes.forms.json_text import json_text

    defaults = tree.get("defaults")
    entries = defaults.entries if isinstance(defaults, Mapping) else ()
    found = {
        key.text: Said(node.text if isinstance(node, Scalar) else json_text(node), key.line)
        for key, node in entries
    }
    if draft.model is not None:
        found.setdefault("model", draft.model)
    return found


def _runtime(tree: Mapping, draft: Draft, account: Account) -> Runtime | None:
    node = tree.get("runtime")
    if not isinstance(node, Scalar) or node.null:
        return runtime_of(draft.engine or "")
    account.use("runtime")
    known = runtime(node.text)
    draft.engine = known.engine if known else None
    if known is None:
        draft.note(f"line {node.line}: the runtime {node.text[:60]} is not known here")
    return known


def _machines(tree: Mapping, draft: Draft, account: Account) -> None:
    for name in _NODES:
        account.use(name)
    least = tree.get("min_nodes")
    if isinstance(least, Scalar) and least.text.isdecimal():
        draft.nodes = Said(least.text, least.line)
    containers = tree.get("containers")
    if isinstance(containers, Items):
        account.use("containers")
        entries = [each for each in containers.nodes if isinstance(each, Mapping)]
        hosts = [host for each in entries if isinstance(host := each.get("host"), Scalar)]
        draft.machines = tuple(Said(host.text, host.line) for host in hosts)
        image = entries[0].get("image") if entries else None
        if draft.image is None and isinstance(image, Scalar):
            draft.image = Said(image.text, image.line)


def _environment(tree: Mapping, draft: Draft, account: Account) -> None:
    node = tree.get("env")
    if isinstance(node, Mapping):
        account.use("env")
        for key, value in node.entries:
            if isinstance(value, Scalar):
                draft.environment[key.text] = draft.variable(key.text, value.text, key.line)
                if "${" in value.text:
                    draft.note(
                        f"line {key.line}: {key.text} reaches the container as it is written: {value.text[:60]}"
                    )


def _asides(tree: Mapping, draft: Draft, account: Account) -> None:
    """What decides nothing; texts may state a release, and hooks may install one."""
    for name in asides(SPARKRUN):
        account.aside(name)
    for name in ("description", "name"):
        node = tree.get(name)
        if isinstance(node, Scalar):
            draft.says(node.text, node.line, node.lined)
    for name in _FIRST:
        node = tree.get(name)
        if isinstance(node, Items):
            account.use(name)
            given = ", ".join(each.text for each in node.nodes if isinstance(each, Scalar))
            if given:
                draft.note(f"line {node.line}: {name} ({given[:120]}) change the image: its own files decide")
    hooks = tree.get("pre_exec")
    if isinstance(hooks, Items):
        account.use("pre_exec")
        for each in hooks.nodes:
            if isinstance(each, Scalar):
                draft.note(
                    f"line {each.line}: pre_exec changes the container before it serves; nothing of it is executed"
                )
                for word in each.text.split():
                    install(Said(word.strip("'\""), each.line), draft)


def _said(tree: Mapping, name: str, account: Account) -> Said | None:
    node = tree.get(name)
    account.use(name)
    return Said(node.text, node.line) if isinstance(node, Scalar) and not node.null and node.text else None
