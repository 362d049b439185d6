"""What may be named as back end of fused experts, and on which GPUs the kernels behind each name run.

Since fused experts have oracles, one a quantization, each maps the user's names to kernels, and each kernel's class
says by itself on which device it runs; a name whose kernels all refuse ends the start. Older builds have no such
predicates, and nothing is said of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from canserve.engines.static.bounds import Impossible
from canserve.engines.static.sites import FunctionSite
from canserve.engines.vllm.on_device import OFF, on_cuda
from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import CAPABILITIES, MoeBackend, Site

FOLDER = "vllm/model_executor/layers/fused_moe/oracle/"
METHODS = "vllm/model_executor/layers/quantization/"
PLAIN = ("", "unquantized")
"""The method without quantization, and its oracle."""
UNASKED = ("is_lora_enabled", "use_moonep_kernels")
"""What has kernels of its own, whatever is named: adapters, and one way between ranks (``--all2all-backend``)."""
OTHER = "other"
"""Instead of an oracle: kernels that something else chooses."""
ANY = ""
"""Instead of a name, where nothing is known of how an oracle takes names."""
_KERNELS = "backend_to_kernel_cls"
_DEVICE = "_supports_current_device"
_ORACLE = ".fused_moe.oracle."


def moe_files(reading: Reading) -> list[str]:
    """Files that are needed in any case."""
    sources = reading.sources
    methods = (path for path in sources.under(METHODS) if path.count("/") == METHODS.count("/"))
    return [*sources.under(FOLDER), *methods, *sources.under("vllm/model_executor/layers/fused_moe/")]


def read_moe(reading: Reading) -> Fact[tuple[MoeBackend, ...]]:
    """Every name that an oracle maps to kernels. Empty where the build has no oracles."""
    paths = [path for path in reading.sources.under(FOLDER) if not path.endswith(("__init__.py", "/base.py"))]
    if not paths:
        return reading.known((), "no oracles of fused experts", FOLDER)
    users = _users(reading)
    if isinstance(users, Missing):
        return users
    found: list[MoeBackend] = []
    for path in paths:
        tree = reading.sources.tree(path)
        if isinstance(tree, Missing):
            return tree
        stem = path.rpartition("/")[2].removesuffix(".py")
        methods = {PLAIN[0]} if stem == PLAIN[1] else users.get(stem, set())
        if tree.value is not None:
            found += _of_oracle(reading, path, tree.value, (stem, frozenset(methods)))
    if users.get(OTHER):
        found.append(_anything((OTHER, frozenset(users[OTHER])), Site(METHODS, 1)))
    return reading.known(tuple(found), f"{len(found)} names of kernels for fused experts", *paths)


def _users(reading: Reading) -> dict[str, set[str]] | Missing:
    """Oracle -> the quantization methods whose own files import it; of those that also choose otherwise, ``OTHER``."""
    found: dict[str, set[str]] = {}
    for path in reading.sources.under(METHODS):
        text = reading.sources.text(path)
        if isinstance(text, Missing):
            return text
        if "MoE" not in (text.value or ""):
            continue
        tree = reading.sources.tree(path)
        if isinstance(tree, Missing) or tree.value is None:
            continue
        method = path.removeprefix(METHODS).partition("/")[0].removesuffix(".py")
        chosen = dict(_chosen_by(tree.value))
        for oracle in chosen.values():
            found.setdefault(oracle, set()).add(method)
        if not _choose_all(tree.value, chosen):
            found.setdefault(OTHER, set()).add(method)
    return found


def _chosen_by(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of functions that choose kernels, with the oracle that each is imported from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and _ORACLE in f"{node.module}.":
            oracle = node.module.rpartition(".")[2]
            yield from (
                (each.asname or each.name, oracle) for each in node.names if each.name.startswith("select_")
            )


def _choose_all(tree: ast.Module, chosen: Mapping[str, str]) -> bool:
    """Whether every class for fused experts of a file has its kernels chosen by an oracle, or inherits that."""
    choosing: set[str] = set()
    whole = True
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = {
            base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
        }
        if not any("MoE" in base for base in bases) or node.name.endswith("Config"):
            continue
        calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
        if bases & choosing or any(isinstance(func, ast.Name) and func.id in chosen for func in calls):
            choosing.add(node.name)
        else:
            whole = False
    return whole


def _of_oracle(
    reading: Reading, path: str, tree: ast.Module, told: tuple[str, frozenset[str]]
) -> Iterator[MoeBackend]:
    """Every name of one oracle; where its forms are not known, that any name may do."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernels = functions.get(_KERNELS)
    mapping = next(((name, found) for name, node in functions.items() if (found := _mapping(node))), None)
    passing = None if mapping is None else _passing(functions.values(), mapping[0])
    if kernels is None or mapping is None or passing is None:
        yield _anything(told, Site(path, 1))
        return
    by_member = _kernels(kernels)
    for name, (member, line) in mapping[1].items():
        classes = () if name in passing else by_member.get(member, ())
        each = [_runs(reading, module, cls) for module, cls in classes]
        runs = {tenfold: _some(one[tenfold] for one in each) for tenfold in CAPABILITIES}
        yield MoeBackend(name, *told, tuple(cls for _, cls in classes), runs, Site(path, line))
    for name in sorted(passing - set(mapping[1])):
        yield MoeBackend(name, *told, (), dict.fromkeys(CAPABILITIES), Site(path, 1))


def _anything(told: tuple[str, frozenset[str]], at: Site) -> MoeBackend:
    return MoeBackend(ANY, *told, (), dict.fromkeys(CAPABILITIES), at)


def _passing(functions: Iterable[ast.FunctionDef], table: str) -> frozenset[str] | None:
    """Names that are not looked up, of ``if name != "auto": ... return chosen_or_raised(...)``; None: no such form."""
    for function in functions:
        raising = {
            inner.name
            for inner in function.body
            if isinstance(inner, ast.FunctionDef) and isinstance(inner.body[-1], ast.Raise)
        }
        for node in function.body:
            if not isinstance(node, ast.If) or not _calls(node.body, table):
                continue
            match node.body[-1]:
                case ast.Return(value=ast.Call(func=ast.Name(id=name))) if name in raising:
                    return _left_out(node.test) if _asked_first(function, node) else None
                case _:
                    return None
    return None


def _asked_first(function: ast.FunctionDef, until: ast.If) -> bool:
    """Whether nothing but other platforms and ``UNASKED`` returns before the name is looked at."""
    for node in function.body:
        if node is until:
            return True
        returns = not isinstance(node, ast.FunctionDef) and any(
            isinstance(n, ast.Return) for n in ast.walk(node)
        )
        match node:
            case ast.If(
                test=ast.Call(func=ast.Attribute(value=ast.Name(id="current_platform"), attr=name)), orelse=[]
            ) if name in OFF:
                continue
            case ast.If(test=ast.Attribute(attr=name), orelse=[]) if name in UNASKED:
                continue
            case _:
                if returns:
                    return False
    return False


def _calls(body: Iterable[ast.stmt], name: str) -> bool:
    """Whether one of the statements themselves assigns what a function gives."""
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == name
        for node in body
    )


def _left_out(test: ast.expr) -> frozenset[str] | None:
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.NotEq()], comparators=[ast.Constant(value=str(name))]):
            return frozenset({name})
        case ast.Compare(
            left=ast.Name(), ops=[ast.NotIn()], comparators=[ast.List(elts=items) | ast.Tuple(elts=items)]
        ):
            names = [item.value for item in items if isinstance(item, ast.Constant)]
            texts = [name for name in names if isinstance(name, str)]
            return frozenset(texts) if len(texts) == len(items) else None
        case _:
            return None


def _some(answers: Iterable[bool | None]) -> bool | None:
    found = list(answers)
    return True if True in found else None if None in found or not found else False


def _mapping(node: ast.FunctionDef) -> dict[str, tuple[str, int]]:
    """Names of a literal table in a function named ``map_..._backend``, each with its member of the enumeration."""
    if not (node.name.startswith("map_") and node.name.endswith("_backend")):
        return {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Dict):
            found = {}
            for key, value in zip(inner.value.keys, inner.value.values, strict=True):
                match key, value:
                    case ast.Constant(value=str(name)), ast.Attribute(attr=member):
                        found[name] = (member, value.lineno)
                    case _:
                        return {}
            return found
    return {}


def _kernels(function: ast.FunctionDef) -> dict[str, tuple[tuple[str, str], ...]]:
    """Member of the enumeration -> module and name of each class, of a chain of ``if backend == X: return [...]``."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.If):
            continue
        match node.test:
            case ast.Compare(left=ast.Name(), ops=[ast.Eq()], comparators=[ast.Attribute(attr=member)]):
                if member not in found and (classes := _returned(node.body)) is not None:
                    found[member] = classes
            case _:
                pass
    return found


def _returned(body: Iterable[ast.stmt]) -> tuple[tuple[str, str], ...] | None:
    """The classes of a body that imports and returns them, and does nothing else."""
    modules: dict[str, tuple[str, str]] = {}
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                modules |= {each.asname or each.name: (module, each.name) for each in names}
            case ast.Return(value=ast.List(elts=items)):
                named = [item.id for item in items if isinstance(item, ast.Name)]
                if len(named) != len(items) or not all(name in modules for name in named):
                    return None
                return tuple(modules[name] for name in named)
            case _:
                return None
    return None


def _runs(reading: Reading, module: str, name: str) -> Mapping[int, bool | None]:
    """Capability (times ten) -> what the kernel's own predicate says; None: more than the device decides."""
    unknown: dict[int, bool | None] = dict.fromkeys(CAPABILITIES)
    site = reading.graph.class_named(module, name)
    if site is None:
        return unknown
    try:
        method = reading.graph.interpreter.attribute(site, _DEVICE)
    except Impossible:
        return unknown
    if not isinstance(method, FunctionSite) or not isinstance(method.node, ast.FunctionDef):
        return unknown
    node = reading.graph.whole(method.path, method.node)
    if not isinstance(node, ast.FunctionDef) or not _platform_is_imported(reading, method.path):
        return unknown
    return {tenfold: on_cuda(node, tenfold) for tenfold in CAPABILITIES}


def _platform_is_imported(reading: Reading, path: str) -> bool:
    tree = reading.sources.tree(path)
    return isinstance(tree, Known) and any(
        isinstance(node, ast.ImportFrom)
        and node.module == "vllm.platforms"
        and any(each.name == "current_platform" and each.asname is None for each in node.names)
        for node in (tree.value.body if tree.value is not None else ())
    )
