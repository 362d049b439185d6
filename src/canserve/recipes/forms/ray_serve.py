"""Applications of Ray Serve that hold an engine: ``serveConfigV2`` of a RayService, or a file of applications."""

from __future__ import annotations

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import process
from canserve.recipes.draft import Account, Draft
from canserve.recipes.options import options_of
from canserve.recipes.trouble import RecipeError
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar, documents, shifted
from canserve.rules.recipes import ray_application
from canserve.subjects.recipe import Said

FORM = "Ray Serve applications"
_LISTS = ("llm_configs", "llm_config", "prefill_config", "decode_config")
_ASIDE = ("proxy_location", "http_options", "grpc_options", "logging_config")
_CONFIG_ASIDE = ("deployment_config", "accelerator_type", "placement_group_config", "log_engine_metrics",
                 "experimental_configs", "llm_engine")  # fmt: skip


def is_applications(tree: Mapping) -> bool:
    """Whether a document has this form."""
    found = tree.get("applications")
    return isinstance(found, Items) and any(
        isinstance(each, Mapping) and each.get("import_path") is not None for each in found.nodes
    )


def read_file(tree: Mapping, draft: Draft) -> None:
    """Fill the draft from a file of its own."""
    draft.form = FORM
    applications(tree, Around(), draft, "")


def read_text(node: Scalar, around: Around, draft: Draft, prefix: str) -> None:
    """The applications in a manifest's text, on the lines of the manifest."""
    try:
        found = documents(node.text)
    except RecipeError as error:
        line = node.line + (error.line or 1) - 1 if node.lined else node.line
        draft.refuse(prefix, line, f"not readable: {error.why}")
        return
    tree = shifted(found[0], node.line - 1 if node.lined else 0) if found else None
    if isinstance(tree, Mapping):
        applications(tree, around, draft, prefix)


def applications(tree: Mapping, around: Around, draft: Draft, prefix: str) -> None:
    """Every model that an application holds as a server of its own."""
    account = Account(tree)
    for name in _ASIDE:
        account.aside(name)
    found = tree.get("applications")
    for number, each in enumerate(found.nodes if isinstance(found, Items) else ()):
        if isinstance(each, Mapping):
            _application(each, ("applications", number), around, draft, account)
    account.settle(draft, f"{prefix}: " if prefix else "")


def _application(
    app: Mapping, path: tuple[str | int, ...], around: Around, draft: Draft, account: Account
) -> None:
    for name in ("name", "route_prefix", "deployments", "runtime_env"):
        account.aside(*path, name)
    named, args = app.get("import_path"), app.get("args")
    account.use(*path, "import_path")
    if not isinstance(named, Scalar) or not isinstance(args, Mapping):
        return
    start = ray_application(named.text)
    if not start:
        draft.note(f"line {named.line}: {named.text[:60]} is an application whose code is not read")
        return
    environment = {**around.environment, **_variables(app.get("runtime_env"), draft)}
    for name in _LISTS:
        node = args.get(name)
        several = node.nodes if isinstance(node, Items) else () if node is None else (node,)
        for number, each in enumerate(several):
            here = (*path, "args", name, number) if isinstance(node, Items) else (*path, "args", name)
            if isinstance(each, Mapping):
                inner = Around(
                    around.name or name, environment, around.image, mounts=around.mounts, elsewhere=CONTAINER
                )
                _config(each, here, start, inner, draft, account)
            elif isinstance(each, Scalar):
                account.use(*here)
                draft.leave(each.text, each.line, "a file of the application, which is not read")


def _config(
    node: Mapping, path: tuple[str | int, ...], start: tuple[str, ...], around: Around, draft: Draft,
    account: Account,
) -> None:  # fmt: skip
    for name in _CONFIG_ASIDE:
        account.aside(*path, name)
    for name in ("model_loading_config", "engine_kwargs", "runtime_env"):
        account.use(*path, name)
    loading = node.get("model_loading_config")
    own = loading.get("model_id") if isinstance(loading, Mapping) else None
    source = loading.get("model_source") if isinstance(loading, Mapping) else None
    model = source if isinstance(source, Scalar) else own
    if isinstance(source, Mapping):
        draft.leave(
            own.text if isinstance(own, Scalar) else "model_source",
            source.line,
            "a bucket, which is not read",
        )
    arguments = node.get("engine_kwargs")
    given = options_of(arguments, draft) if isinstance(arguments, Mapping) else None
    if not isinstance(model, Scalar):
        return
    words = [*(Said(word, model.line) for word in start), Said(model.text, model.line)]
    name = own.text if isinstance(own, Scalar) else around.name
    environment = {**around.environment, **_variables(node.get("runtime_env"), draft)}
    inner = Around(name, environment, around.image, mounts=around.mounts, elsewhere=around.elsewhere)
    process([*words, *(given.args if given is not None else ())], inner, draft)


def _variables(node: Node | None, draft: Draft) -> dict[str, Said]:
    found = node.get("env_vars") if isinstance(node, Mapping) else None
    return {
        key.text: draft.variable(key.text, each.text, key.line)
        for key, each in (found.entries if isinstance(found, Mapping) else ())
        if isinstance(each, Scalar)
    }
