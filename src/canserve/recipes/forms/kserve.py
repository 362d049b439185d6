"""Manifests of KServe: InferenceService with its ServingRuntime, LLMInferenceService.

What lies under ``/mnt/models`` is the model that the service names by its place. Sources: KServe 0.16, pkg/controller
and pkg/apis/serving: arguments of the service follow those of its runtime, variables of the same name replace them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from canserve.recipes.draft import Draft
from canserve.recipes.forms.config_maps import text_of
from canserve.recipes.shell import split
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.rules.recipes import preset
from canserve.subjects.recipe import Command, Said

RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime"})
SERVICE, LLM = "InferenceService", "LLMInferenceService"
MOUNTED = "/mnt/models"
_MAIN = ("kserve-container", "main")
_HUB = re.compile(r"hf://([^:]+)(?::(.+))?")
_NAME = re.compile(r"\{\{\s*\.Name\s*\}\}")


def container_of(tree: Mapping, runtimes: Iterable[Mapping], draft: Draft) -> tuple[Mapping, Mapping] | None:
    """The container that an InferenceService starts by its ``model`` section, and the pod's spec around it.

    None: it has no such section, or its runtime is not known.
    """
    predictor, model = _predictor(tree)
    if model is None or predictor is None:
        return None
    runtime = _runtime(model, runtimes)
    if runtime is not None:
        container = _main(runtime)
        return None if container is None else (_together(container, model, tree), runtime)
    form = text_of(model.get("modelFormat"), "name") or ""
    known = preset(form)
    if known is None:
        said = text_of(model, "runtime") or form or "none"
        draft.note(f"line {model.line}: the serving runtime ({said[:60]}) stands in no file that is read: its own words "
                   "are not known")  # fmt: skip
        return None
    start = Items(tuple(Scalar(word, model.line, '"') for word in known.start), model.line)
    first = Mapping(((Scalar("command", model.line), start),), model.line)
    return _together(first, model, tree), predictor


def runtime_names(trees: Iterable[Mapping]) -> frozenset[str]:
    """Names of runtimes that a service of the same file starts."""
    found = set()
    several = tuple(trees)
    for tree in several:
        _, model = _predictor(tree)
        if text_of(tree, "kind") == SERVICE and model is not None:
            runtime = _runtime(model, several)
            found |= {text_of(each.get("metadata"), "name") or "" for each in several
                      if runtime is not None and each.get("spec") is runtime}  # fmt: skip
    return frozenset(found)


def _predictor(tree: Mapping) -> tuple[Mapping | None, Mapping | None]:
    """Of a service; and its section on a model that a runtime serves."""
    spec = tree.get("spec")
    predictor = spec.get("predictor") if isinstance(spec, Mapping) else None
    model = predictor.get("model") if isinstance(predictor, Mapping) else None
    return (
        predictor if isinstance(predictor, Mapping) else None,
        model if isinstance(model, Mapping) else None,
    )


def _runtime(model: Mapping, trees: Iterable[Mapping]) -> Mapping | None:
    """The spec of the runtime that is named, else of the one that takes the model's format by itself."""
    name, form = text_of(model, "runtime"), text_of(model.get("modelFormat"), "name")
    for tree in trees:
        spec = tree.get("spec")
        if text_of(tree, "kind") not in RUNTIMES or not isinstance(spec, Mapping):
            continue
        formats = spec.get("supportedModelFormats")
        takes = [text_of(each, "name") for each in formats.nodes] if isinstance(formats, Items) else []
        if name == text_of(tree.get("metadata"), "name") or (
            name is None and form is not None and form in takes
        ):
            return spec
    return None


def _main(spec: Mapping) -> Mapping | None:
    containers = spec.get("containers")
    nodes = (
        [each for each in containers.nodes if isinstance(each, Mapping)]
        if isinstance(containers, Items)
        else []
    )
    return next((each for each in nodes if text_of(each, "name") in _MAIN), nodes[0] if nodes else None)


def _together(base: Mapping, over: Mapping, tree: Mapping) -> Mapping:
    """The runtime's container with what the service adds."""
    name = text_of(tree.get("metadata"), "name") or ""
    entries = {key.text: (key, node) for key, node in base.entries}
    for key, node in over.entries:
        before = entries[key.text][1] if key.text in entries else None
        if (
            key.text in ("args", "env", "envFrom", "volumeMounts")
            and isinstance(before, Items)
            and isinstance(node, Items)
        ):
            entries[key.text] = key, Items((*before.nodes, *node.nodes), node.line)
        elif key.text in ("args", "env", "envFrom", "volumeMounts", "image", "command"):
            entries[key.text] = key, node
    for part in ("args", "command"):
        if part in entries:
            entries[part] = entries[part][0], _named(entries[part][1], name)
    return Mapping(tuple(entries.values()), over.line)


def _named(node: Node, name: str) -> Node:
    nodes = node.nodes if isinstance(node, Items) else ()
    texts = (
        replace(each, text=_NAME.sub(lambda _: name, each.text)) for each in nodes if isinstance(each, Scalar)
    )
    return Items(tuple(texts), node.line)


def place_of(tree: Mapping) -> Scalar | None:
    """Where a service's model lies: ``storageUri`` of its model, ``STORAGE_URI`` of a container, ``uri`` of an LLM."""
    spec = tree.get("spec")
    if not isinstance(spec, Mapping):
        return None
    own, (predictor, inner) = spec.get("model"), _predictor(tree)
    for node, key in ((own, "uri"), (inner, "storageUri")):
        found = node.get(key) if isinstance(node, Mapping) else None
        if isinstance(found, Scalar):
            return found
    containers = predictor.get("containers") if predictor is not None else None
    for each in containers.nodes if isinstance(containers, Items) else ():
        variables = each.get("env") if isinstance(each, Mapping) else None
        for one in variables.nodes if isinstance(variables, Items) else ():
            value = one.get("value") if isinstance(one, Mapping) else None
            if text_of(one, "name") == "STORAGE_URI" and isinstance(value, Scalar):
                return value
    return None


def placed(command: Command, place: Scalar | None, draft: Draft) -> Command:
    """A server of what is mounted for it, with the model that lies there."""
    model = command.model
    if model is not None and model.value.rstrip("/") != MOUNTED:
        return command
    if place is None:
        if model is not None:
            draft.leave(MOUNTED, model.line, "an InferenceService says which model lies there")
        return command
    found = _HUB.fullmatch(place.text)
    if found is None:
        draft.leave(place.text, place.line, "a place of models that is not read: name the model")
        return replace(command, model=Said(place.text, place.line))
    if found[2]:
        draft.revision = Said(found[2], place.line)
    return replace(command, model=Said(found[1], place.line))


def llm_words(tree: Mapping, container: Mapping | None, draft: Draft) -> tuple[Said, ...]:
    """How an LLMInferenceService starts its engine where its container does not say it."""
    spec, known = tree.get("spec"), preset(LLM)
    place = place_of(tree)
    if known is None or place is None or not isinstance(spec, Mapping):
        return ()
    words = [*(Said(word, place.line) for word in known.start), Said(MOUNTED, place.line)]
    sizes = spec.get("parallelism")
    for key, node in sizes.entries if isinstance(sizes, Mapping) else ():
        if key.text in known.parallelism and isinstance(node, Scalar):
            words += [Said(known.parallelism[key.text], key.line), Said(node.text, key.line)]
    variables = container.get("env") if container is not None else None
    for one in variables.nodes if isinstance(variables, Items) else ():
        value = one.get("value") if isinstance(one, Mapping) else None
        if text_of(one, "name") == known.more and isinstance(value, Scalar):
            words += split(value.text, value.line, draft.scope)
    return tuple(words)
