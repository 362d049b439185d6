"""Module-level constants of a package, evaluated without running it.

Both branches of a condition that is only known at run time are followed, and every key of a table
remembers its conditions; conditions about the platform are decided (CUDA unless told otherwise).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence

from canserve.engines.sources import Sources
from canserve.engines.static import builtin, modules
from canserve.engines.static.bounds import DEPTH, STEPS, Budget, Exhausted, source_of
from canserve.engines.static.expressions import FAILURES
from canserve.engines.static.mutation import Guarded, assign_item, delete_item, mutate
from canserve.engines.static.operators import binary, merge
from canserve.engines.static.values import Opaque, Ref, Table, Value, symbolic
from canserve.facts import Fact, Known, Missing

TOTAL_STEPS = 12 * STEPS
"""Work allowed for all modules of one package together."""
MAX_CHAIN = 20
"""Re-exports that are followed for one name."""

AttributeOf = Callable[[Ref, str], Value | None]
"""Value of a class attribute, for constants built from them; None where it is not plain data."""


class Namespace(Mapping[str, Value]):
    """The names a module defines; imported constants are resolved when they are asked for."""

    def __init__(self, run: _ModuleRun) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Value:
        return self._run.force(self._run.env[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.env)

    def __len__(self) -> int:
        return len(self._run.env)

    def unresolved(self, name: str) -> Value | None:
        """The name's value as it stands, imports not followed."""
        return self._run.env.get(name)


class Constants:
    """Evaluates modules of one package on demand, each once."""

    def __init__(
        self,
        sources: Sources,
        top: str,
        platform: str = "cuda",
        attribute_of: AttributeOf | None = None,
        afterwards: Callable[[str, ast.Module], None] | None = None,
    ) -> None:
        """``afterwards`` is given every tree that was evaluated, which is not kept here."""
        self.sources = sources
        self.top = top
        self.platform = platform
        self._attribute_of = attribute_of
        self._afterwards = afterwards
        self._left = TOTAL_STEPS
        self._done: dict[str, Fact[Namespace | None]] = {}
        self._running: set[str] = set()
        self._chain = 0

    def of(self, path: str) -> Fact[Namespace | None]:
        """The constants of one file; ``Known(None)``: there is no such file."""
        if path not in self._done:
            self._running.add(path)
            try:
                self._done[path] = self._evaluate(path)
            finally:
                self._running.discard(path)
        return self._done[path]

    def _evaluate(self, path: str) -> Fact[Namespace | None]:
        tree = self.sources.parse(path)
        if isinstance(tree, Missing):
            return tree
        if tree.value is None:
            return Known(None, tree.evidence)
        budget = Budget(min(STEPS, self._left))
        run = _ModuleRun(self, modules.module_of(path), modules.is_package(path), budget)
        granted = budget.left
        try:
            run.block(tree.value.body)
        except (Exhausted, RecursionError):
            return self.sources.unreadable(path, f"evaluating its constants takes more than {granted} steps")
        finally:
            self._left -= granted - max(budget.left, 0)
        if self._afterwards is not None:
            self._afterwards(path, tree.value)
        return Known(Namespace(run), tree.evidence)

    def of_module(self, module: str) -> Namespace | None:
        """The constants of a module of this package; None where there are none to be had."""
        path = modules.file_of(self.sources, module)
        if path is None or path in self._running:
            return None
        fact = self.of(path)
        return fact.value if isinstance(fact, Known) else None

    def value(self, path: str, node: ast.expr, names: Mapping[str, Value] | None = None) -> Value:
        """An expression's value in the context of a file, with some names given."""
        fact = self.of(path)
        known = fact.value if isinstance(fact, Known) else None
        run = _ModuleRun(self, modules.module_of(path), modules.is_package(path), Budget(STEPS // 4))
        if known is not None:
            run.adopt(known)
        run.env.update(names or {})
        try:
            return run.use(node)
        except Exhausted:
            return Opaque(source_of(node))

    def resolve(self, ref: Ref) -> Value:
        """The plain value behind an imported name or class attribute; else the reference itself."""
        if ref.module is None or ref.origin is None or not modules.within(ref.module, self.top):
            return ref
        if self._chain > MAX_CHAIN:
            return ref
        self._chain += 1
        try:
            value = self._follow(ref, ref.module, ref.origin.split("."))
        finally:
            self._chain -= 1
        return ref if symbolic(value) else value

    def _follow(self, ref: Ref, module: str, path: Sequence[str]) -> Value:
        first, *attributes = path
        names = self.of_module(module)
        if names is None:
            return ref
        if names.unresolved(first) is None:
            if attributes and modules.file_of(self.sources, f"{module}.{first}"):
                return self._follow(ref, f"{module}.{first}", attributes)
            if first not in names:
                return self._from_stars(ref, names)
        value = names.unresolved(first)
        if not attributes:
            same = isinstance(value, Ref) and (value.module, value.origin) == (module, first)
            return value if same else names[first]
        if isinstance(value, Ref) and self._attribute_of is not None:
            found: Value | None = value
            for name in attributes:
                found = self._attribute_of(found, name) if isinstance(found, Ref) else None
            return ref if found is None else found
        return ref

    def _from_stars(self, ref: Ref, names: Namespace) -> Value:
        assert ref.origin is not None
        found = names._run.starred(ref.origin.split(".")[0])  # noqa: SLF001 - one mechanism in two classes
        return ref if found is None else self.resolve(found)


class _ModuleRun(Guarded):
    """The evaluation of one module's statements."""

    def __init__(self, world: Constants, module: str, package: bool, budget: Budget) -> None:
        super().__init__(budget, world.platform)
        self.world = world
        self.module = module
        self.package = package
        self.guards: tuple[str, ...] = ()
        self.born: dict[str, tuple[str, ...]] = {}
        self.stars: list[str] = []

    def adopt(self, names: Namespace) -> None:
        """Start from what another run of the same module ended with."""
        run = names._run  # noqa: SLF001
        self.env = dict(run.env)
        self.stars = run.stars

    # -- names

    def lookup(self, name: str) -> Value:
        if name in self.env:
            return self.env[name]
        if self.stars and not hasattr(builtins, name):
            return self.starred(name) or Ref(name)
        return Ref(name)

    def starred(self, name: str) -> Ref | None:
        """The name as one of the star imports brings it in."""
        for star in reversed(self.stars):
            names = self.world.of_module(star) if modules.within(star, self.world.top) else None
            if names is None:
                continue
            if name in names:
                return Ref(name, star, name)
            deeper = names._run.starred(name) if self.budget.depth < DEPTH else None  # noqa: SLF001
            if deeper is not None:
                return deeper
        return None

    def force(self, value: Value) -> Value:
        if not isinstance(value, Ref):
            return value
        found = self.world.resolve(value)
        if isinstance(found, dict | list | set):
            # A copy: what this module adds to an imported table must not change the other module's.
            self.budget.spend(len(found))
            found = Table(found) if isinstance(found, dict) else type(found)(found)
            if self.env.get(value.name) is value:
                self.env[value.name] = found
        return found

    # -- statements

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Run statements in order; True when a ``break`` or ``continue`` was reached for certain."""
        self.budget.depth += 1
        if self.budget.depth > DEPTH:
            raise Exhausted
        stopped = any(self.statement(statement) for statement in body)
        self.budget.depth -= 1
        return stopped

    def statement(self, node: ast.stmt) -> bool:  # noqa: C901, PLR0912 - one branch a statement form
        """Run one statement; True when it ends the turn of a loop."""
        self.budget.spend(1)
        match node:
            case ast.Assign():
                value = self.evaluate(node.value)
                for target in node.targets:
                    self.assign(target, value, node.lineno)
            case ast.AnnAssign(value=ast.expr() as expression):
                self.assign(node.target, self.evaluate(expression), node.lineno)
            case ast.AugAssign(target=ast.Name() | ast.Subscript() as target):
                self.augment(target, node)
            case ast.Expr(value=ast.Call(func=ast.Attribute() as func) as call):
                mutate(self, self.use(func.value), func.attr, call)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        delete_item(self.use(target.value), self.use(target.slice), self.guards)
            case ast.If():
                return self.branch(node)
            case ast.Try() | ast.TryStar():
                self.attempt(node)
            case ast.For():
                self.loop(node)
            case ast.With():
                return self.block(node.body)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define(node.name, Ref(node.name, self.module, node.name))
            case ast.ImportFrom():
                self.import_names(node)
            case ast.Import():
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    self.define(name, Ref(name, alias.name if alias.asname else name))
            case ast.Break() | ast.Continue():
                return not self.guards
            case _:
                pass
        return False

    def define(self, name: str, value: Value) -> None:
        """Bind a name; under a condition, beside what it was bound to before."""
        old = self.env.get(name)
        if name not in self.env or self.born.get(name, ()) == self.guards:
            self.env[name] = _guarded(value, self.guards) if name not in self.env else value
            self.born.setdefault(name, self.guards)
        elif not self.guards:
            self.env[name] = value
            self.born[name] = ()
        else:
            self.env[name] = merge(old, value, (), self.guards)

    def assign(self, target: ast.expr, value: Value, line: int) -> None:
        """Assign to a name, an element, or several of them."""
        match target:
            case ast.Name(id=name):
                self.define(name, value)
            case ast.Subscript():
                assign_item(self.use(target.value), self.use(target.slice), value, line, self.guards)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                parts = value if isinstance(value, list | tuple) and len(value) == len(targets) else None
                for index, inner in enumerate(targets):
                    self.assign(inner, parts[index] if parts else Opaque("unpacked"), line)
            case _:
                pass

    def augment(self, target: ast.Name | ast.Subscript, node: ast.AugAssign) -> None:
        """``NAME += value``, ``TABLE[key] += value`` and the like."""
        try:
            value = binary(self.use(target), node.op, self.use(node.value), self.budget)
        except FAILURES:
            value = Opaque(source_of(node))
        self.assign(target, value, node.lineno)

    def branch(self, node: ast.If) -> bool:
        """``if``: the branch that is taken, or both with their conditions."""
        decided = self.decide(node.test)
        if decided is not None:
            return self.block(node.body if decided else node.orelse)
        outer, test = self.guards, source_of(node.test)
        self.guards = (*outer, test)
        self.block(node.body)
        self.guards = (*outer, f"not ({test})")
        self.block(node.orelse)
        self.guards = outer
        return False

    def attempt(self, node: ast.Try | ast.TryStar) -> None:
        """``try``: everything may have happened; what stands in handlers did so only after a failure."""
        outer = self.guards
        self.guards = (*outer, "try")
        self.block(node.body)
        self.block(node.orelse)
        for handler in node.handlers:
            kind = source_of(handler.type) if handler.type else ""
            self.guards = (*outer, f"except {kind}".rstrip())
            self.block(handler.body)
        self.guards = outer
        self.block(node.finalbody)

    def loop(self, node: ast.For) -> None:
        """``for`` over known elements; over unknown ones the body is run once, under a condition."""
        items = self.use(node.iter)
        outer = self.guards
        if isinstance(items, list | tuple | set | frozenset | dict):
            for item in builtin.elements(items, self.budget):
                self.bind(node.target, item)
                if self.block(node.body):
                    break
            return
        self.guards = (*outer, f"for {source_of(node.target)} in {source_of(node.iter)}")
        self.bind(node.target, Opaque(source_of(node.target)))
        self.block(node.body)
        self.guards = outer

    def import_names(self, node: ast.ImportFrom) -> None:
        """``from x import a``: remembered, followed only when the value is needed."""
        source = modules.imported_module(node, self.module, self.package)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
            else:
                name = alias.asname or alias.name
                self.define(name, Ref(name, source, alias.name))


def _guarded(value: Value, guards: tuple[str, ...]) -> Value:
    """A table that exists under conditions only: so do its keys."""
    if not guards or not isinstance(value, dict):
        return value
    table = Table(value)
    for key in table:
        table.guards[key] = guards + table.guards.get(key, ())
    return table


def evaluate(sources: Sources, path: str, top: str, platform: str = "cuda") -> Fact[Namespace | None]:
    """Module-level constants of one file of the package ``top``; ``Known(None)``: no such file.

    For constants built from class attributes (``{cls.model_type: cls for ...}``), and to evaluate several
    files, use ``ClassGraph.constants``.
    """
    return Constants(sources, top, platform).of(path)
