"""Files of tasks: SkyPilot, dstack, and the models of llama-swap. Commands of a shell, with variables and an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import script
from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.compose_merge import keyed, listed
from canserve.recipes.variables import expanded
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.subjects.recipe import HIDDEN, Said

SKY, DSTACK, SWAP = "SkyPilot task", "dstack configuration", "llama-swap configuration"
_ASIDE = {
    SKY: ("name", "resources", "num_nodes", "workdir", "file_mounts", "service", "config", "volumes"),
    DSTACK: ("type", "name", "port", "ports", "resources", "model", "python", "nvcc", "ide", "volumes", "replicas",
             "scaling", "auth", "https", "gateway", "backends", "regions", "spot_policy", "max_price", "creation_policy",
             "idle_duration", "max_duration", "retry", "privileged", "working_dir", "files", "repos", "registry_auth",
             "shm_size", "probes", "rate_limits", "fleets", "tags", "home_dir", "user", "shell"),
    SWAP: ("healthCheckTimeout", "logLevel", "startPort", "groups", "hooks", "metricsMaxInMemory", "logTimeFormat",
           "includeAliasesInList", "sendLoadingState", "apiKeys", "peers"),
}  # fmt: skip
_MODEL_ASIDE = ("proxy", "aliases", "checkEndpoint", "ttl", "unlisted", "useModelName", "filters", "name", "description",
                "concurrencyLimit", "cmdStop", "metadata", "sendLoadingState", "timeouts")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Part:
    """Commands of one process, or of one that prepares for it."""

    name: str
    texts: tuple[Scalar, ...]
    image: Scalar | None = None
    variables: tuple[Node, ...] = ()


def form_of(tree: Mapping) -> str | None:
    """Which of these a document is; None: none of them."""
    if isinstance(tree.get("type"), Scalar) and isinstance(tree.get("commands"), Items):
        return DSTACK
    if isinstance(tree.get("run"), Scalar) and tree.get("resources", "setup", "envs", "service") is not None:
        return SKY
    models = tree.get("models")
    if isinstance(models, Mapping) and any(
        isinstance(each, Mapping) and isinstance(each.get("cmd"), Scalar) for _, each in models.entries
    ):
        return SWAP
    return None


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = form_of(tree) or SKY
    account = Account(tree)
    for name in _ASIDE[draft.form]:
        account.aside(name)
    if draft.form == SKY and isinstance(nodes := tree.get("num_nodes"), Scalar) and nodes.text.isdecimal():
        account.use("num_nodes")
        draft.nodes = Said(nodes.text, nodes.line)
    parts = _swapped(tree, account) if draft.form == SWAP else _tasks(tree, draft, account)
    for part in parts:
        _start(part, draft)
    account.settle(draft)


def _tasks(tree: Mapping, draft: Draft, account: Account) -> Iterator[_Part]:
    sky = draft.form == SKY
    texts = ("setup", "run") if sky else ("commands", "entrypoint")
    sets = ("envs", "secrets") if sky else ("env",)
    for name in (*texts, *sets, "image"):
        account.use(name)
    image = tree.get("image") if not sky else _sky_image(tree)
    found = [each for name in texts if (node := tree.get(name)) is not None for each in listed(node)]
    variables = tuple(node for name in sets if (node := tree.get(name)) is not None)
    yield _Part(
        "", tuple(each for each in found if isinstance(each, Scalar)),
        image if isinstance(image, Scalar) else None, variables,
    )  # fmt: skip


def _sky_image(tree: Mapping) -> Node | None:
    resources = tree.get("resources")
    return resources.get("image_id") if isinstance(resources, Mapping) else None


def _swapped(tree: Mapping, account: Account) -> Iterator[_Part]:
    account.use("macros")
    models, macros = tree.get("models"), tree.get("macros")
    for key, node in models.entries if isinstance(models, Mapping) else ():
        if isinstance(node, Mapping) and isinstance(command := node.get("cmd"), Scalar):
            for name in _MODEL_ASIDE:
                account.aside("models", key.text, name)
            for name in ("cmd", "env", "macros"):
                account.use("models", key.text, name)
            own = (macros, node.get("macros"), node.get("env"))
            yield _Part(key.text, (command,), None, tuple(each for each in own if each is not None))


def _start(part: _Part, draft: Draft) -> None:
    """One shell text after the other; what one sets, the next sees."""
    environment: dict[str, Said] = {}
    outer = draft.scope
    draft.scope = outer.within(outer.variables)
    swap = draft.form == SWAP
    for key, node in keyed(*part.variables).entries if part.variables else ():
        if isinstance(node, Scalar) and not node.null:
            said = draft.variable(key.text, expanded(node.text, node.line, draft.scope), key.line)
            environment[key.text] = said
            if said.value != HIDDEN:
                draft.scope.variables[key.text] = said.value
    image = None
    if part.image is not None:
        image = Said(part.image.text.removeprefix("docker:"), part.image.line)
    around = Around(part.name, {} if swap else environment, image, elsewhere=CONTAINER if image else "")
    if image is not None and draft.image is None:
        draft.image = image
    for text in part.texts:
        words = (
            " ".join(text.text.splitlines()) if swap else text.text
        )  # no shell reads it: lines end nothing
        script(words, text.line, around, draft, text.lined and not swap)
    outer.words, draft.scope = draft.scope.words, outer
