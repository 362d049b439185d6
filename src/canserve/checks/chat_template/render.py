"""Render a chat template without executing it: its node tree is walked, within a budget.

``render`` gives the text that the engine would get, ``Failed`` when the template would fail in the engine as
well, and ``Undecided`` when the walk had to stop for a reason of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeAlias

from jinja2 import nodes
from jinja2.compiler import find_undeclared
from jinja2.exceptions import TemplateError, TemplateRuntimeError, TemplateSyntaxError
from jinja2.idtracking import Symbols
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.utils import Namespace, missing

from canserve.checks.chat_template.budget import Budget, BudgetExceeded, Unsupported
from canserve.checks.chat_template.expressions import Expressions
from canserve.checks.chat_template.parse import parse
from canserve.checks.chat_template.sandbox import Sandbox
from canserve.checks.chat_template.scope import Cells, Frame


@dataclass(frozen=True, slots=True)
class Failed:
    """The template itself fails: in the engine it will fail alike."""

    why: str
    line: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """The walk stopped for a reason of our own; the template may well work."""

    why: str


Rendering: TypeAlias = str | Failed | Undecided

MACRO = 10
"""Steps for defining or calling a macro, which takes about ten times as long as a node."""
_TEMPLATE_ERRORS = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What jinja2's compiled code lets rise: its own errors and those of Python's operators and methods."""


class Jump(Enum):
    """How a list of statements ended before its end."""

    BREAK = auto()
    CONTINUE = auto()


def render(source: str, variables: Mapping[str, Any], budget: Budget) -> Rendering:
    """Render with these variables, as transformers does: same globals, same whitespace rules, no escaping."""
    sandbox = Sandbox(budget)
    try:
        tree = parse(sandbox, source)
    except TemplateSyntaxError as error:
        return Failed(_brief(error), error.lineno)
    except Unsupported as limit:
        return Undecided(str(limit))
    except RecursionError:
        return Undecided("it nests deeper than is judged here")
    interpreter = Interpreter(sandbox, {**sandbox.globals, **variables})
    try:
        return interpreter.template(tree)
    except (BudgetExceeded, Unsupported) as limit:
        return Undecided(f"{limit} (line {interpreter.line})")
    except (RecursionError, MemoryError):
        return Undecided(f"it recurses deeper than is judged here (line {interpreter.line})")
    except _TEMPLATE_ERRORS as error:
        return Failed(_brief(error), interpreter.line)


def _brief(error: Exception) -> str:
    """One line of bounded length: the template chooses what it says."""
    message = error.message if isinstance(error, TemplateError) else str(error)
    return " ".join(f"{type(error).__name__}: {message}".split())[:160]


class Interpreter(Expressions):
    """Runs the statements of one template once."""

    def __init__(self, sandbox: Sandbox, variables: Mapping[str, Any]) -> None:
        super().__init__(sandbox, Context(sandbox, dict(variables), None, {}))
        self._symbols: dict[tuple[nodes.Node, str], Symbols] = {}
        self._special: dict[nodes.Node, set[str]] = {}
        self._statements: Mapping[type[nodes.Node], Callable[[Any, Frame, list[str]], Jump | None]] = {
            nodes.Output: self._output,
            nodes.If: self._if,
            nodes.For: self._for,
            nodes.Assign: self._assign,
            nodes.AssignBlock: self._assign_block,
            nodes.Macro: self._macro,
            nodes.CallBlock: self._call_block,
            nodes.FilterBlock: self._filter_block,
            nodes.With: self._with,
            nodes.Break: lambda *_: Jump.BREAK,
            nodes.Continue: lambda *_: Jump.CONTINUE,
        }

    def template(self, tree: nodes.Template) -> str:
        """The text of the whole template."""
        symbols = Symbols()
        symbols.analyze_node(tree)
        frame = Frame(symbols, Cells())
        frame.enter(self._resolve)
        return self._body_text(tree.body, frame)[0]

    def _resolve(self, name: str) -> Any:
        if name in self.sandbox.unjudged and name not in self.context:
            raise Unsupported(f"it uses {name}")
        return self.context.resolve_or_missing(name)

    def _run(self, body: Iterable[nodes.Node], frame: Frame, out: list[str]) -> Jump | None:
        for node in body:
            self.sandbox.budget.spend()
            self.line = node.lineno
            rule = self._statements.get(type(node))
            if rule is None:
                raise Unsupported(f"it uses {type(node).__name__.lower()}")
            jump = rule(node, frame, out)
            if jump is not None:
                return jump
        return None

    def _body_text(self, body: Iterable[nodes.Node], frame: Frame) -> tuple[str, Jump | None]:
        out: list[str] = []
        jump = self._run(body, frame, out)
        text = "".join(out)
        self.sandbox.budget.made(text)
        return text, jump

    def _inner(
        self, node: nodes.Node, frame: Frame, part: str = "body", names: Sequence[str] = ()
    ) -> Symbols:
        """The names of a scope inside ``frame``, analysed once; ``names`` are declared as its parameters."""
        key = (node, part)
        if key not in self._symbols:
            symbols = Symbols(parent=frame.symbols)
            if isinstance(node, nodes.For):
                for name in names:
                    symbols.declare_parameter(name)
                symbols.analyze_node(node, for_branch=part)
            else:
                symbols.analyze_node(node)
                for name in names:
                    symbols.declare_parameter(name)
            self._symbols[key] = symbols
        return self._symbols[key]

    def _scope(self, node: nodes.Node, frame: Frame) -> Frame:
        inner = Frame(self._inner(node, frame), frame.cells)
        inner.enter(self._resolve)
        return inner

    # -- output and assignment

    def _output(self, node: nodes.Output, frame: Frame, out: list[str]) -> None:
        for child in node.nodes:
            text = self.sandbox.text(self.evaluate(child, frame))
            self.sandbox.budget.made(text)
            out.append(text)

    def _assign(self, node: nodes.Assign, frame: Frame, _out: list[str]) -> None:
        self._check_namespaces(node, frame)
        self._store(node.target, self.evaluate(node.node, frame), frame)

    def _check_namespaces(self, node: nodes.Node, frame: Frame) -> None:
        for target in node.find_all(nodes.NSRef):
            if not isinstance(frame.get(target.name), Namespace):
                raise TemplateRuntimeError("cannot assign attribute on non-namespace object")

    def _store(self, target: nodes.Node, value: Any, frame: Frame) -> None:
        if isinstance(target, nodes.Name):
            frame.set(target.name, value)
        elif isinstance(target, nodes.NSRef):
            frame.get(target.name)[target.attr] = value
        elif isinstance(target, nodes.Tuple):
            for item, part in zip(target.items, _unpack(value, len(target.items)), strict=True):
                self._store(item, part, frame)
        else:
            raise Unsupported(f"it assigns to a {type(target).__name__.lower()}")

    def _assign_block(self, node: nodes.AssignBlock, frame: Frame, _out: list[str]) -> Jump | None:
        inner = self._scope(node, frame)
        inner.captured, jump = self._body_text(node.body, inner)
        if jump is None:
            value = inner.captured if node.filter is None else self.evaluate(node.filter, inner)
            self._store(node.target, value, frame)
        inner.leave()
        return jump

    def _filter_block(self, node: nodes.FilterBlock, frame: Frame, out: list[str]) -> Jump | None:
        inner = self._scope(node, frame)
        inner.captured, jump = self._body_text(node.body, inner)
        if jump is None:
            out.append(self.evaluate(node.filter, inner))
        inner.leave()
        return jump

    def _with(self, node: nodes.With, frame: Frame, out: list[str]) -> Jump | None:
        inner = self._scope(node, frame)
        for target, value in zip(node.targets, node.values, strict=True):
            self._store(target, self.evaluate(value, frame), inner)
        jump = self._run(node.body, inner, out)
        inner.leave()
        return jump

    # -- control flow

    def _if(self, node: nodes.If, frame: Frame, out: list[str]) -> Jump | None:
        for branch in (node, *node.elif_):
            if self.evaluate(branch.test, frame):
                return self._run(branch.body, frame, out)
        return self._run(node.else_, frame, out)

    def _for(self, node: nodes.For, frame: Frame, out: list[str]) -> Jump | None:
        if not node.recursive:
            return self._loop(node, frame, self.evaluate(node.iter, frame), out)

        def recurse(iterable: Any, _render: Any, depth: int = 0) -> str:
            text: list[str] = []
            self._loop(node, Frame(frame.symbols, Cells(outer=frame.cells)), iterable, text, (recurse, depth))
            return "".join(text)

        out.append(recurse(self.evaluate(node.iter, frame), recurse))
        return None

    def _loop(
        self,
        node: nodes.For,
        frame: Frame,
        iterable: Any,
        out: list[str],
        recursion: tuple[Callable[..., str], int] | None = None,
    ) -> Jump | None:
        extended = "loop" in self._undeclared(node, ("loop",))
        inner = Frame(self._inner(node, frame, "body", ("loop",) if extended else ()), frame.cells)
        items: Iterator[Any] | LoopContext = iter(self._selected(node, frame, iterable))
        if extended:
            recurse, depth = recursion or (None, 0)
            source = iterable if node.test is None else items
            items = LoopContext(source, self.sandbox.undefined, recurse, depth)
        finished = False  # a round to its end: jinja2 takes the else branch after rounds that all jumped
        for item in items:
            self.sandbox.budget.spend()
            value, loop = item if extended else (item, None)
            self._store(node.target, value, inner)
            if extended:
                inner.set("loop", loop)
            inner.enter(self._resolve)
            jump = self._run(node.body, inner, out)
            finished = finished or jump is None
            if jump is Jump.BREAK:
                break
        inner.leave()
        return self._else(node, frame, out) if node.else_ and not finished else None

    def _else(self, node: nodes.For, frame: Frame, out: list[str]) -> Jump | None:
        other = Frame(self._inner(node, frame, "else"), frame.cells)
        other.enter(self._resolve)
        jump = self._run(node.else_, other, out)
        other.leave()
        return jump

    def _selected(self, node: nodes.For, frame: Frame, iterable: Any) -> Iterable[Any]:
        """The items that pass the loop's own ``if``, tested one by one as the loop reaches them."""
        if node.test is None:
            return iterable  # type: ignore[no-any-return]
        return self._tested(node, node.test, frame, iterable)

    def _tested(self, node: nodes.For, test: nodes.Node, frame: Frame, iterable: Any) -> Iterator[Any]:
        inner = Frame(self._inner(node, frame, "test"), Cells(outer=frame.cells))
        inner.enter(self._resolve)
        for item in iterable:
            self._store(node.target, item, inner)
            if self.evaluate(test, inner):
                yield item

    # -- macros

    def _macro(self, node: nodes.Macro, frame: Frame, _out: list[str]) -> None:
        frame.set(node.name, self._function(node, frame, node.name))

    def _call_block(self, node: nodes.CallBlock, frame: Frame, out: list[str]) -> None:
        caller = self._function(node, frame, "")
        out.append(self.call(node.call, frame, caller))

    def _function(self, node: nodes.Macro | nodes.CallBlock, frame: Frame, name: str) -> Macro:
        """A macro as jinja2's own runtime binds its arguments, with a body that is walked here."""
        self.sandbox.budget.spend(MACRO)
        arguments = tuple(argument.name for argument in node.args)
        used = self._undeclared(node, ("caller", "kwargs", "varargs"))
        special = [word for word in ("caller", "kwargs", "varargs") if word in used and word not in arguments]
        symbols = self._inner(node, frame, names=special)

        def body(*values: Any) -> str:
            self.sandbox.budget.spend(MACRO)
            inner = Frame(symbols, Cells(outer=frame.cells))
            inner.fill(dict(zip((*arguments, *special), values, strict=True)))
            inner.enter(self._resolve)
            inner.binding = True
            for index, argument in enumerate(arguments):
                if inner.get(argument) is missing:
                    inner.set(argument, self._default(node, index, inner))
            inner.binding = False
            return self._body_text(node.body, inner)[0]

        catches = ("kwargs" in special, "varargs" in special, "caller" in used)
        # A tuple, as jinja2's own compiler passes: a template can print it.
        return Macro(self.sandbox, body, name, arguments, *catches)  # type: ignore[arg-type]

    def _undeclared(
        self, node: nodes.For | nodes.Macro | nodes.CallBlock, names: tuple[str, ...]
    ) -> set[str]:
        """Which of these names the body reads without setting them; jinja2's own rule, asked once."""
        if node not in self._special:
            self._special[node] = find_undeclared(node.body, names)
        return self._special[node]

    def _default(self, node: nodes.Macro | nodes.CallBlock, index: int, frame: Frame) -> Any:
        offset = index - len(node.args)
        if -offset <= len(node.defaults):
            return self.evaluate(node.defaults[offset], frame)
        argument = node.args[index].name
        return self.sandbox.undefined(f"parameter {argument!r} was not provided", name=argument)


def _unpack(value: Any, count: int) -> list[Any]:
    """Python's unpacking into ``count`` names, without walking further than it has to."""
    parts = list(islice(iter(value), count + 1))
    if len(parts) != count:
        raise ValueError(f"cannot unpack {len(parts)} values into {count} names")
    return parts
