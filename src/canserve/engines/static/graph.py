"""Classes across the modules of one package: where names lead, base classes, attributes, imports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from canserve.engines.sources import Sources
from canserve.engines.static import modules
from canserve.engines.static.bounds import source_of
from canserve.engines.static.evaluate import Constants
from canserve.engines.static.interpret import RAISES, Interpreter
from canserve.engines.static.linearize import linearize
from canserve.engines.static.outline import Outline, key_of, outline_of, pack, unpack
from canserve.engines.static.scan import Binding, Imported, Module, flat, scan
from canserve.engines.static.shed import Block, Bodies, shed
from canserve.engines.static.sites import (
    Absent,
    Assigned,
    Attribute,
    ClassSite,
    External,
    FunctionSite,
    ImportSite,
    ModuleSite,
    Resolved,
    Unseen,
)
from canserve.engines.static.values import Ref, Value, symbolic
from canserve.facts import Cause, Missing

MAX_HOPS = 40
"""Re-exports, aliases and base classes that are followed in a row."""

Body = dict[str, Attribute]


class ClassGraph:
    """Resolves names across the modules of the package ``top``, each module read once, on demand."""

    def __init__(self, sources: Sources, top: str, platform: str = "cuda") -> None:
        self.sources = sources
        self.top = top
        self.platform = platform
        self.constants = Constants(sources, top, platform, self._class_constant, self._evaluated)
        self._modules: dict[str, Module | Missing | None] = {}
        self._outlines: dict[str, Outline | Missing | None] = {}
        self._resolved: dict[tuple[str, str], list[Resolved]] = {}
        self._sites: dict[int, ClassSite] = {}
        self._bodies: dict[int, Body] = {}
        self._bodies_left_out = Bodies(sources)
        self._linear: dict[ClassSite, list[Resolved]] = {}
        self._hops = 0

    @cached_property
    def interpreter(self) -> Interpreter:
        """Carries out small functions of the package on its classes."""
        return Interpreter(self)

    # -- modules

    def file_of(self, module: str) -> str | None:
        """The file that holds a module of the package, where it is listed."""
        return modules.file_of(self.sources, module)

    def module(self, name: str) -> Module | None:
        """The top level of a module; None when it does not exist or could not be read (see ``unread``)."""
        found = self._load(name)
        return None if isinstance(found, Missing) else found

    def unread(self, name: str) -> Missing | None:
        """Why a module could not be read, if that is so; None: it was read, or it does not exist."""
        found = self._load(name)
        return found if isinstance(found, Missing) else None

    def _load(self, name: str) -> Module | Missing | None:
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> Module | Missing | None:
        path = self.file_of(name)
        if path is None:
            stem = name.replace(".", "/")
            return self.sources.gap(f"{stem}.py") or self.sources.gap(f"{stem}/__init__.py")
        tree = self.sources.parse(path)
        if isinstance(tree, Missing):
            return tree
        return None if tree.value is None else self._scan(path, tree.value)

    def _evaluated(self, path: str, tree: ast.Module) -> None:
        """Look at a module that was parsed for its constants, before its tree is let go."""
        name = modules.module_of(path)
        if name not in self._modules and self.file_of(name) == path:
            self._modules[name] = self._scan(path, tree)

    def _scan(self, path: str, tree: ast.Module) -> Module:
        shed(tree.body)
        return scan(tree, path, self.platform)

    def outline(self, module: str) -> Outline | Missing | None:
        """What a module imports and binds, as it was kept or as it reads now; like ``module`` otherwise."""
        if module not in self._outlines:
            self._outlines[module] = self._outlined(module)
        return self._outlines[module]

    def _outlined(self, name: str) -> Outline | Missing | None:
        notes, path, key = self.sources.notes, self.file_of(name), None
        if notes is not None and path is not None and name not in self._modules:
            raw = self.sources.raw(path)
            if not isinstance(raw, Missing) and raw.value is not None:
                key = key_of(path, self.platform, raw.value)
                kept = unpack(notes.get(key) or b"")
                if kept is not None:
                    return kept
        found = self._load(name)
        if not isinstance(found, Module):
            return found
        outline = outline_of(found)
        if notes is not None and key is not None:
            notes.put(key, pack(outline))
        return outline

    def imports_of(self, module: str) -> Sequence[ImportSite]:
        """Imports that run when the module is imported, with what guards them. Empty when it is unread."""
        found = self.outline(module)
        return found.imports if isinstance(found, Outline) else ()

    # -- names

    def resolve(self, module: str, name: str) -> list[Resolved]:
        """What ``module.name`` is: best guess first, alternatives of undecided conditions after it.

        Never empty: a name that does not exist is ``Absent``, one that could not be looked up ``Unseen``.
        """
        key = (module, name)
        if key not in self._resolved:
            self._resolved[key] = [Absent(f"{module}.{name}")]  # a cycle ends here
            self._resolved[key] = self._limited(module, name)
        return self._resolved[key]

    def _limited(self, module: str, name: str) -> list[Resolved]:
        if self._hops > MAX_HOPS:
            return [self._unfollowed(f"{module}.{name}", "too many re-exports")]
        self._hops += 1
        try:
            return self._resolve(module, name)
        finally:
            self._hops -= 1

    def _resolve(self, module: str, name: str) -> list[Resolved]:
        if not modules.within(module, self.top):
            return [External(f"{module}.{name}")]
        found = self._load(module)
        if isinstance(found, Missing):
            return [Unseen(f"{module}.{name}", found)]
        if found is None:
            return self._submodule(module, name) or [Absent(module)]
        out: list[Resolved] = []
        for binding in _in_force(found.bindings.get(name, [])):
            out += [_under(site, binding.guards) for site in self._bound(found, name, binding)]
        out = (
            out or self._from_stars(found, name) or self._lazily(found, name) or self._submodule(module, name)
        )
        if not out and hasattr(builtins, name):
            return [External(f"builtins.{name}")]
        return sorted(out, key=_in_handler) or [Absent(f"{module}.{name}")]

    def _bound(self, found: Module, name: str, binding: Binding) -> list[Resolved]:
        match binding.bound:
            case ast.ClassDef() as node:
                return [self.site(found, node)]
            case ast.FunctionDef() | ast.AsyncFunctionDef() as function:
                return [FunctionSite(found.name, self.whole(found.path, function) or function, found.path)]
            case Imported(module, None):
                return [self._module_site(module)]
            case Imported(module, str() as original):
                return self.resolve(module, original)
            case ast.expr() as node:
                if isinstance(node, ast.Name) and node.id == name:
                    return []
                return self.resolve_expression(found.name, node)
            case _:
                raise AssertionError(binding.bound)

    def _module_site(self, module: str) -> Resolved:
        path = self.file_of(module)
        if not modules.within(module, self.top):
            return External(module)
        if path is not None:
            return ModuleSite(module, path)
        missing = self.unread(module)
        return Unseen(module, missing) if missing else Absent(module)

    def _submodule(self, module: str, name: str) -> list[Resolved]:
        path = self.file_of(f"{module}.{name}")
        if path is not None:
            return [ModuleSite(f"{module}.{name}", path)]
        missing = self.unread(f"{module}.{name}")
        return [Unseen(f"{module}.{name}", missing)] if missing else []

    def _from_stars(self, found: Module, name: str) -> list[Resolved]:
        unseen: list[Resolved] = []
        if name.startswith("_"):
            return unseen
        for star in found.stars:
            if not modules.within(star, self.top):
                if not hasattr(builtins, name):
                    unseen.append(External(f"{star}.{name}"))
                continue
            sites = self.resolve(star, name)
            if not isinstance(sites[0], Absent | Unseen | External) or (
                isinstance(sites[0], External) and not sites[0].name.startswith("builtins.")
            ):
                return sites
            unseen += [site for site in sites if isinstance(site, Unseen)]
        return unseen

    def _lazily(self, found: Module, name: str) -> list[Resolved]:
        """Names that the module's own ``__getattr__`` produces."""
        getter = found.bindings.get("__getattr__")
        if not getter or name.startswith("__") or not isinstance(getter[-1].bound, ast.FunctionDef):
            return []
        node = self.whole(found.path, getter[-1].bound) or getter[-1].bound
        function = FunctionSite(found.name, node, found.path)
        value = self.interpreter.call(function, [name])
        if value is RAISES:
            return []
        if value is None or isinstance(value, str | int | float):
            return [Assigned(found.name, ast.Constant(value), found.path)]
        return self.interpreter.sites(value) or [self._unfollowed(f"{found.name}.{name}", "made at run time")]

    def resolve_expression(self, module: str, node: ast.expr) -> list[Resolved]:
        """What an expression standing at a module's top level is: a name, an attribute, a call, ..."""
        path = self.file_of(module) or module
        match node:
            case ast.Name(id=name):
                return self.resolve(module, name)
            case ast.Attribute(value=inner, attr=attr):
                out: list[Resolved] = []
                for site in self.resolve_expression(module, inner):
                    if isinstance(site, ModuleSite):
                        out += self.resolve(site.module, attr)
                    elif isinstance(site, External):
                        out.append(External(f"{site.name}.{attr}", site.guards))
                return out or [Assigned(module, node, path)]
            case ast.Subscript(value=inner):
                sites = self.resolve_expression(module, inner)
                return sites if _generic(sites[0]) else [Assigned(module, node, path)]
            case ast.IfExp(body=body, orelse=orelse):
                test = source_of(node.test)
                return [_under(s, (test,)) for s in self.resolve_expression(module, body)] + [
                    _under(s, (f"not ({test})",)) for s in self.resolve_expression(module, orelse)
                ]
            case ast.Call(func=func) if _may_make_class(self.resolve_expression(module, func)):
                made = self.interpreter.sites(self.interpreter.value(module, node))
                return made or [Assigned(module, node, path)]
            case _:
                return [Assigned(module, node, path)]

    def class_named(self, module: str, name: str) -> ClassSite | None:
        """The class that ``module.name`` leads to, if it leads to one."""
        return next((site for site in self.resolve(module, name) if isinstance(site, ClassSite)), None)

    def _unfollowed(self, name: str, why: str) -> Unseen:
        return Unseen(name, Missing(Cause.UNREADABLE, f"{name}: {why}"))

    # -- classes

    def site(self, found: Module, node: ast.ClassDef) -> ClassSite:
        """The one site of a class statement, with its body."""
        if id(node) not in self._sites:
            # The tree that an identity stands for is kept by the module's bindings, so it is never reused.
            again = self._bodies_left_out.whole(found.path, node) or node
            self._sites[id(node)] = ClassSite(found.name, again, found.path)
        return self._sites[id(node)]

    def bases(self, site: ClassSite) -> list[Resolved]:
        """The base classes as written, each resolved."""
        out: list[Resolved] = []
        for node in site.node.bases:
            if isinstance(node, ast.Starred):
                out.append(self._unfollowed(source_of(node), "not followed"))
            elif site.scope is None:
                found = self.resolve_expression(site.module, node)
                out.append(next((s for s in found if isinstance(s, ClassSite)), found[0]))
            else:
                made = self.interpreter.sites(self.interpreter.local(site, node))
                out += made[:1] or [self._unfollowed(source_of(node), "not followed")]
        return out

    def linear(self, site: ClassSite) -> list[Resolved]:
        """The class and all its bases in look-up order, those outside the package included."""
        if site not in self._linear:
            self._linear[site] = [site]  # a class that inherits from itself ends here
            self._linear[site] = linearize(site, self.bases(site), self.linear)
        return self._linear[site]

    def mro(self, site: ClassSite) -> tuple[list[ClassSite], list[Resolved]]:
        """Classes of the package in look-up order, and the bases outside it or not followed."""
        order = self.linear(site)
        inside = [base for base in order if isinstance(base, ClassSite)]
        return inside, [base for base in order if not isinstance(base, ClassSite)]

    def body(self, site: ClassSite) -> Body:
        """The attributes that the class statement itself sets; the last definition wins."""
        key = id(site.node)
        if key not in self._bodies:
            found: Body = {}
            for node, _ in flat(site.node.body, self.platform):
                match node:
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                        found[name] = Attribute(site, value, node.lineno)
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            if isinstance(target, ast.Name):
                                found[target.id] = Attribute(site, value, node.lineno)
                    case ast.FunctionDef() | ast.AsyncFunctionDef():
                        found[node.name] = Attribute(site, node, node.lineno)
                    case _:
                        pass
            self._bodies[key] = found
        return self._bodies[key]

    def attribute(self, site: ClassSite, name: str) -> Attribute | None:
        """The attribute as the classes of the package define it; outside base classes are not seen."""
        for base in self.linear(site):
            if isinstance(base, ClassSite) and name in self.body(base):
                return replace(self.body(base)[name], owner=base)
        return None

    def whole(self, path: str, node: Block) -> Block | None:
        """A function or class of this graph with its body; None: it cannot be parsed again."""
        return self._bodies_left_out.whole(path, node)

    def attribute_value(self, site: ClassSite, name: str) -> Value:
        """A class attribute's plain value; ``Opaque`` or ``Ref`` where it is none; None also when unset."""
        found = self.attribute(site, name)
        if found is None or not isinstance(found.node, ast.expr):
            return None
        if isinstance(found.node, ast.Constant):  # most are: no need to evaluate the module around it
            return found.node.value
        return self.constants.value(found.owner.path, found.node)

    def _class_constant(self, ref: Ref, name: str) -> Value | None:
        if ref.module is None or ref.origin is None:
            return None
        site = self.class_named(ref.module, ref.origin)
        value = None if site is None else self.attribute_value(site, name)
        return None if symbolic(value) else value


def _in_force(bindings: list[Binding]) -> list[Binding]:
    """The bindings that may hold at the end: from the last unconditional one on, later ones first."""
    start = max((i for i, binding in enumerate(bindings) if not binding.guards), default=0)
    alive = bindings[start:]
    return alive[1:] + alive[:1] if alive and not alive[0].guards else alive


def _in_handler(site: Resolved) -> bool:
    return any(guard.startswith("except") for guard in site.guards)


def _under(site: Resolved, guards: tuple[str, ...]) -> Resolved:
    if not guards or (isinstance(site, ClassSite) and not guards):
        return site
    return replace(site, guards=guards + site.guards)


def _generic(site: Resolved) -> bool:
    """Whether ``X[...]`` is still the class X, and not a type expression such as ``Literal[...]``."""
    if isinstance(site, External) and site.name.startswith(("typing.", "typing_extensions.")):
        return site.name.rsplit(".", 1)[-1] in {"Protocol", "Generic", "NamedTuple", "TypedDict"}
    return isinstance(site, ClassSite | External | Unseen)


def _may_make_class(sites: Iterable[Resolved]) -> bool:
    return any(isinstance(site, FunctionSite) for site in sites)
