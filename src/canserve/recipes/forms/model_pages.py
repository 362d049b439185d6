"""Recipes of the vllm-project: a model, its base arguments, features that may be switched on, variants."""

from __future__ import annotations

from canserve.recipes.around import Around
from canserve.recipes.commands import process
from canserve.recipes.draft import Account, Draft
from canserve.recipes.installing import install
from canserve.recipes.stated import least
from canserve.recipes.trouble import RecipeError
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.rules.recipes import asides, form, runtime_of
from canserve.rules.recipes import least as least_keys
from canserve.subjects.recipe import Said

FORM = "model_page"
DEFAULT = "default"
_DESCRIBES = (
    "architecture",
    "parameter_count",
    "active_parameters",
    "context_length",
    "install",
    "nightly_required",
)
_VARIANT = ("model_id", "extra_args", "extra_env", "docker_image", *least_keys())


def is_model_page(tree: Mapping) -> bool:
    """Whether a document has this form."""
    model = tree.get("model")
    return isinstance(model, Mapping) and isinstance(model.get("model_id"), Scalar)


def read(tree: Mapping, draft: Draft, part: str | None) -> None:
    """Fill the draft. ``part``: one of the variants; None: the default one."""
    account = Account(tree)
    draft.form, draft.engine = form(FORM)
    for name in asides(FORM):
        account.aside(name)
    model = tree.get("model")
    assert isinstance(model, Mapping)
    for name in _DESCRIBES:
        account.aside("model", name)
    variant = _variant(tree, part, draft, account)
    args: list[Said] = []
    for each, path in ((model, ("model",)), (variant, ("variants", part or DEFAULT))):
        if each is not None:
            _about(each, path, draft, account)
            args += _words(each.get("base_args", "extra_args", "args"))
    args += _features(tree, draft, account)
    _dependencies(tree, draft, account)
    guide = tree.get("guide")
    if isinstance(guide, Scalar):
        draft.says(guide.text, guide.line, guide.lined)
    known = runtime_of(draft.engine)
    start = known.start if known else ()
    if draft.model is not None:
        words = [*(Said(word, draft.model.line) for word in start), draft.model, *args]
        process(words, Around(part or DEFAULT, draft.environment, draft.image), draft)
    account.settle(draft)


def _about(node: Mapping, path: tuple[str, ...], draft: Draft, account: Account) -> None:
    """What a model or one of its variants says."""
    for name in (
        "model_id",
        "base_args",
        "extra_args",
        "args",
        "base_env",
        "extra_env",
        "env",
        "docker_image",
        "image",
    ):
        account.use(*path, name)
    if isinstance(found := node.get("model_id"), Scalar):
        draft.model = Said(found.text, found.line)
    if isinstance(found := node.get("docker_image", "image"), Scalar) and not found.null:
        draft.image = Said(found.text, found.line)
    for key, about in least_keys().items():
        if isinstance(found := node.get(key), Scalar) and not found.null:
            account.use(*path, key)
            stated = least(about, found.text, found.line)
            if stated is None:
                draft.note(f"line {found.line}: {key} is no release: {found.text[:40]}")
            else:  # a variant's own replaces the model's
                draft.stated = [one for one in draft.stated if one.about != about]
                draft.stated.append(stated)
    _environment(node.get("base_env", "extra_env", "env"), draft)


def _environment(node: Node | None, draft: Draft) -> None:
    for key, value in node.entries if isinstance(node, Mapping) else ():
        if isinstance(value, Scalar):
            draft.environment[key.text] = draft.variable(key.text, value.text, key.line)


def _variant(tree: Mapping, part: str | None, draft: Draft, account: Account) -> Mapping | None:
    variants = tree.get("variants")
    if not isinstance(variants, Mapping):
        return None
    account.aside("variants")
    names = [key.text for key, _ in variants.entries]
    chosen = variants.get(part or DEFAULT)
    if part is not None and chosen is None:
        raise RecipeError(f"it has no variant {part!r:.60}; there are: {', '.join(names)}")
    others = ", ".join(name for name in names if name != (part or DEFAULT))
    if others:
        draft.note(f"the variant {part or DEFAULT} is judged; others by --part: {others[:200]}")
    return chosen if isinstance(chosen, Mapping) else None


def _features(tree: Mapping, draft: Draft, account: Account) -> list[Said]:
    """Words of every feature that is on unless somebody switches it off."""
    features, opt_in = tree.get("features"), tree.get("opt_in_features")
    asked = (
        {each.text for each in opt_in.nodes if isinstance(each, Scalar)}
        if isinstance(opt_in, Items)
        else set()
    )
    found: list[Said] = []
    for key, node in features.entries if isinstance(features, Mapping) else ():
        account.aside("features", key.text)
        if key.text in asked or not isinstance(node, Mapping):
            continue
        account.use("features", key.text)
        for name in (
            "description",
            "label",
            "modes",
            "default_mode",
            "strategies",
            "hardware",
            "hardware_overrides",
            "variants",
        ):
            account.aside("features", key.text, name)
        found += _words(node.get("args"))
        _environment(node.get("env"), draft)
        modes, first = node.get("modes"), node.get("default_mode")
        if isinstance(modes, Mapping) and modes.entries:
            mode = modes.get(first.text) if isinstance(first, Scalar) else modes.entries[0][1]
            if isinstance(mode, Mapping):
                found += _words(mode.get("args"))
    if asked:
        draft.note(f"features that are off unless asked for: {', '.join(sorted(asked))}")
    return found


def _dependencies(tree: Mapping, draft: Draft, account: Account) -> None:
    node = tree.get("dependencies")
    if not isinstance(node, Items):
        return
    account.use("dependencies")
    for each in node.nodes:
        command = each.get("command") if isinstance(each, Mapping) else None
        if isinstance(command, Scalar):
            for word in command.text.split():
                install(Said(word.strip("'\""), command.line), draft)


def _words(node: Node | None) -> list[Said]:
    nodes = node.nodes if isinstance(node, Items) else ()
    return [Said(each.text, each.line) for each in nodes if isinstance(each, Scalar)]
