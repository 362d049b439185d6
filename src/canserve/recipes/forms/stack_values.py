"""Values of the chart of the production stack: ``servingEngineSpec.modelSpec``, one server each."""

from __future__ import annotations

import re

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import process
from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.config_maps import text_of
from canserve.recipes.options import options_of
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.rules.recipes import form, runtime_of
from canserve.subjects.recipe import Said

FORM = "production_stack"
_HUMPS = re.compile(r"(?<=[a-z0-9])([A-Z])")
_USED = ("name", "repository", "tag", "modelURL", "env", "requestGPU")


def is_values(tree: Mapping) -> bool:
    """Whether a document has this form."""
    spec = tree.get("servingEngineSpec")
    return isinstance(spec, Mapping) and isinstance(spec.get("modelSpec"), Items)


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form, engine = form(FORM)
    account = Account(tree)
    for key, _ in tree.entries:
        account.aside(key.text)
    spec = tree.get("servingEngineSpec")
    models = spec.get("modelSpec") if isinstance(spec, Mapping) else None
    known = runtime_of(engine)
    for number, each in enumerate(models.nodes if isinstance(models, Items) else ()):
        if not isinstance(each, Mapping):
            continue
        options = f"{engine}Config"
        for name in (*_USED, options):
            account.use("servingEngineSpec", "modelSpec", number, name)
        model = each.get("modelURL")
        if isinstance(model, Scalar) and known is not None:
            words = [*(Said(word, model.line) for word in known.start), Said(model.text, model.line)]
            around = Around(text_of(each, "name") or "", _environment(each.get("env"), draft), _image(each),
                            elsewhere=CONTAINER)  # fmt: skip
            draft.image = draft.image or around.image
            process([*words, *_flags(each.get(options), draft)], around, draft)
    account.settle(draft)


def _image(node: Mapping) -> Said | None:
    repository, tag = node.get("repository"), text_of(node, "tag")
    if not isinstance(repository, Scalar):
        return None
    return Said(f"{repository.text}:{tag}" if tag else repository.text, repository.line)


def _flags(node: Node | None, draft: Draft) -> list[Said]:
    """``maxModelLen`` is ``--max-model-len``; ``extraArgs`` are words as they are."""
    if not isinstance(node, Mapping):
        return []
    named = Mapping(
        tuple(
            (Scalar(_HUMPS.sub(r"-\1", key.text).lower(), key.line, key.style), each)
            for key, each in node.entries
            if key.text not in ("extraArgs", "v1", "v0")
        ),
        node.line,
    )
    more = node.get("extraArgs")
    words = more.nodes if isinstance(more, Items) else ()
    return [
        *options_of(named, draft).args,
        *(Said(each.text, each.line) for each in words if isinstance(each, Scalar)),
    ]


def _environment(node: Node | None, draft: Draft) -> dict[str, Said]:
    found: dict[str, Said] = {}
    for each in node.nodes if isinstance(node, Items) else ():
        name, value = text_of(each, "name"), text_of(each, "value")
        if name is not None and value is not None:
            found[name] = draft.variable(name, value, each.line)
    return found
