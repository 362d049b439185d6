"""Config classes that SGLang brings itself, by model type.

Two ways make a model type parsable: an entry of ``_CONFIG_REGISTRY``, once the module goes on to register
its entries with transformers' ``AutoConfig``, and such a registration anywhere else. Older releases only
exchange a config that transformers has already parsed; their table makes nothing parsable.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from canserve.engines.sglang.places import CONFIG_TABLE, CONFIGS
from canserve.engines.sglang.reading import Reading, transformers_imports
from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import within
from canserve.engines.static.sites import ClassSite
from canserve.engines.static.values import Ref, Table, Value
from canserve.facts import Fact, Known
from canserve.subjects.build import ConfigShim, Import, Site

TABLE = "_CONFIG_REGISTRY"
_REGISTERING = (b"AutoConfig.register", b"CONFIG_MAPPING")
_MAPPINGS = {"AutoConfig", "CONFIG_MAPPING"}


@dataclass(frozen=True, slots=True)
class Registration:
    """One call or assignment that makes a model type known to ``AutoConfig``."""

    key: ast.expr
    config: ast.expr | None
    wins: bool
    """Whether it replaces what transformers has under the same type."""
    line: int
    loops: tuple[ast.For, ...]
    attempt: ast.Try | None
    """The ``try`` around it, if there is one."""


def read_config_shims(reading: Reading) -> Fact[Mapping[str, ConfigShim]]:
    """Every model type with a config class of the engine's own."""
    table_path = reading.first(CONFIG_TABLE)
    if table_path is None:
        return Known({}, (reading.sources.seen(CONFIGS, "no config classes of its own"),))
    paths = [table_path, *reading.direct(CONFIGS)]
    reading.sources.prefetch(paths)
    shims: dict[str, ConfigShim] = {}
    table = _table(reading, table_path)
    for path in paths:
        if not any(word in reading.raw(path) for word in _REGISTERING):
            continue
        for registration in _registrations(reading.tree(path).body):
            for model_type, shim in _shims(reading, path, registration, table):
                if model_type not in shims or not shims[model_type].overrides:
                    shims[model_type] = shim
    saw = f"{len(shims)} config classes registered with AutoConfig"
    return Known(shims, (reading.sources.seen(table_path, saw),))


def _table(reading: Reading, path: str) -> Table:
    if TABLE not in reading.text(path):
        return Table()
    found = reading.constants(path).get(TABLE)
    if not isinstance(found, Table):
        raise reading.unknown(path, f"{TABLE} is no table")
    if found.opaque:
        raise reading.unknown(path, f"{TABLE} holds {found.opaque[0][:80]}")
    return found


# -- registrations


def _registrations(
    body: Sequence[ast.stmt], loops: tuple[ast.For, ...] = (), attempt: ast.Try | None = None
) -> Iterator[Registration]:
    """All registrations in a block, functions included: they are defined to be called on import."""
    for node in body:
        match node:
            case ast.For():
                yield from _registrations(node.body, (*loops, node), attempt)
            case ast.Try():
                yield from _registrations(node.body, loops, node)
                for handler in node.handlers:
                    yield from _registrations(handler.body, loops, attempt)
            case ast.If() | ast.With() | ast.FunctionDef():
                yield from _registrations([*node.body, *getattr(node, "orelse", [])], loops, attempt)
            case ast.Expr(ast.Call(ast.Attribute(owner, "register"), [key, *rest], keywords)):
                if _last_name(owner) in _MAPPINGS:
                    wins = any(keyword.arg == "exist_ok" for keyword in keywords)
                    config = rest[0] if rest else None
                    yield Registration(key, config, wins, node.lineno, loops, attempt)
            case ast.Assign([ast.Subscript(ast.Attribute(owner, "_extra_content"), key)], config):
                if _last_name(owner) in _MAPPINGS:
                    yield Registration(key, config, True, node.lineno, loops, attempt)
            case _:
                pass


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _shims(
    reading: Reading, path: str, registration: Registration, table: Table
) -> Iterator[tuple[str, ConfigShim]]:
    of_table = any(TABLE in ast.unparse(loop.iter) for loop in registration.loops)
    if of_table:  # its own key and value stand in the table, with their lines and conditions
        for key, value in table.items():
            attempt = _attempt_around(reading, path, table, key)
            yield from _shim(
                reading, Site(path, table.lines.get(key, registration.line)), key, value, attempt
            )
        return
    for names in _bindings(reading, path, registration.loops):
        key = reading.graph.constants.value(path, registration.key, names)
        value = (
            None
            if registration.config is None
            else reading.graph.constants.value(path, registration.config, names)
        )
        if not isinstance(key, str | Ref):
            raise reading.unknown(path, f"registers {ast.unparse(registration.key)} with AutoConfig")
        site = Site(path, registration.line)
        for model_type, shim in _shim(reading, site, key, value, registration.attempt):
            yield model_type, ConfigShim(shim.model_type, shim.name, shim.at, registration.wins, shim.imports)


def _bindings(reading: Reading, path: str, loops: Sequence[ast.For]) -> Iterator[dict[str, Value]]:
    """The values of the loop variables, turn by turn; one empty set outside of any loop."""
    if not loops:
        yield {}
        return
    loop = loops[-1]
    items = reading.graph.constants.value(path, loop.iter)
    if len(loops) > 1 or not isinstance(items, list | tuple | set | dict):
        raise reading.unknown(path, f"registers configs in a loop over {ast.unparse(loop.iter)[:80]}")
    for item in items:
        match loop.target:
            case ast.Name(id=name):
                yield {name: item}
            case ast.Tuple(elts=targets) if isinstance(item, tuple) and len(item) == len(targets):
                yield {t.id: part for t, part in zip(targets, item, strict=True) if isinstance(t, ast.Name)}
            case _:
                raise reading.unknown(path, f"registers configs in the loop in line {loop.lineno}")


def _shim(
    reading: Reading, at: Site, key: Hashable, value: Value, attempt: ast.Try | None
) -> Iterator[tuple[str, ConfigShim]]:
    name = value.name if isinstance(value, Ref) else ""
    site = _class(reading, value)
    model_type = key if isinstance(key, str) else _outside_type(key)
    if model_type is None:
        raise reading.unknown(at.file, f"the model type of {name or key} in line {at.line}")
    place = at if site is None else Site(site.path, site.line)
    imports = [*_imports(reading, site), *_attempted(at.file, attempt)]
    yield (
        model_type,
        ConfigShim(model_type, name, place, overrides=True, imports=tuple(dict.fromkeys(imports))),
    )


def _class(reading: Reading, value: Value) -> ClassSite | None:
    if not isinstance(value, Ref) or value.module is None:
        return None
    return reading.graph.class_named(value.module, value.origin or value.name)


def _outside_type(key: Hashable) -> str | None:
    """The model type of a class of another package, whose ``model_type`` cannot be read here.

    Only three such classes exist, vLLM's ``ChatGLMConfig``, ``DbrxConfig`` and ``ExaoneConfig``, and there
    the type is the class's name in lower case, as for most configs.
    """
    if not isinstance(key, Ref) or not key.name.endswith("Config.model_type"):
        return None
    return key.name.removesuffix("Config.model_type").rsplit(".", 1)[-1].lower()


# -- what they import


def _imports(reading: Reading, site: ClassSite | None) -> list[Import]:
    """What the class's module takes from transformers; nothing for classes that stand beside the table."""
    if site is None or not site.path.startswith(CONFIGS):
        return []
    needs = Imports(reading.graph, lambda _: False).closure([site.module])
    return transformers_imports(needs)


def _attempted(path: str, attempt: ast.Try | None) -> list[Import]:
    """What must be importable for the ``try`` around a registration to get as far as that."""
    if attempt is None or not any(_forgives(handler) for handler in attempt.handlers):
        return []
    found = []
    for node in attempt.body:
        if isinstance(node, ast.ImportFrom) and node.module and within(node.module, "transformers"):
            found += [Import(node.module, alias.name, Site(path, node.lineno)) for alias in node.names]
    return found


def _forgives(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(
        isinstance(node, ast.Name) and node.id in {"ImportError", "ModuleNotFoundError", "Exception"}
        for node in ast.walk(handler.type)
    )


def _attempt_around(reading: Reading, path: str, table: Table, key: Hashable) -> ast.Try | None:
    """The ``try`` under which a key of the table was set."""
    if not any(guard == "try" for guard in table.guards.get(key, ())):
        return None
    line = table.lines.get(key, 0)
    for node in reading.tree(path).body:
        if isinstance(node, ast.Try) and node.lineno <= line <= (node.end_lineno or 0):
            return node
    return None
