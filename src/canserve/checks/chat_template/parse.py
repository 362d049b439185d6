"""Jinja source to a node tree, by jinja2's own parser. Nothing is compiled and nothing is run.

Jinja2 turns a template into Python code and executes that; here only its lexer and parser are used.
What its compiler would refuse before rendering is refused by ``_validate``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from jinja2 import Environment, nodes
from jinja2.compiler import find_undeclared
from jinja2.exceptions import TemplateAssertionError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser

from canserve.checks.chat_template.budget import Unsupported

MAX_SOURCE = 128 << 10
"""Largest template that is parsed, in characters; of 176 templates in use the largest has 19 000."""
MAX_DEPTH = 60
"""Deepest nesting of statements; Python refuses generated code that is indented further than 100 levels."""
MAX_LOOPS = 16
"""Deepest nesting of loops; Python refuses more than 20 nested blocks in a function."""

_FOREIGN = (
    nodes.Extends, nodes.Block, nodes.Include, nodes.Import, nodes.FromImport,
    nodes.EvalContextModifier, nodes.ScopedEvalContextModifier, nodes.OverlayScope,
)  # fmt: skip
"""Statements that need a template loader or change escaping. No chat template seen uses them."""


class Generation(Extension):
    """``{% generation %}``, which transformers adds to mark the assistant's words. It changes no output."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """The body as a call block, exactly as transformers has it, so that names scope alike."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)


def parse(environment: Environment, source: str) -> nodes.Template:
    """The node tree. Raises TemplateSyntaxError where jinja2 would, Unsupported where that is not known."""
    if len(source) > MAX_SOURCE:
        raise Unsupported(f"it is {len(source)} characters long, more than the {MAX_SOURCE} that are parsed")
    # Not Environment.parse: that one reports a syntax error by compiling and running a fake module.
    try:
        tree = Parser(environment, source).parse()
    except (ValueError, OverflowError) as error:  # a literal that Python refuses, such as 5000 digits
        raise TemplateSyntaxError(str(error), 1) from error
    _validate(tree, environment)
    return tree


def _validate(tree: nodes.Template, environment: Environment) -> None:
    """Raise what jinja2 raises while it compiles, before anything is rendered."""
    for node in tree.find_all(_FOREIGN):
        raise Unsupported(f"it uses {type(node).__name__.lower()} (line {node.lineno})")
    for node in tree.find_all(nodes.For):
        for name in node.find_all(nodes.Name):
            if name.ctx == "store" and name.name == "loop":
                raise TemplateAssertionError("can't assign to special loop variable", name.lineno)
    macros: list[nodes.Macro | nodes.CallBlock] = [
        *tree.find_all(nodes.Macro),
        *tree.find_all(nodes.CallBlock),
    ]
    for macro in macros:
        _validate_arguments(macro)
    for call in tree.find_all(nodes.Call):
        keys = [keyword.key for keyword in call.kwargs]
        if len(set(keys)) < len(keys):
            raise TemplateSyntaxError("keyword argument repeated", call.lineno)
    _walk_expressions(tree, environment, soft=False)
    _walk_statements(tree.body, in_loop=False, loops=0, depth=0)


def _validate_arguments(node: nodes.Macro | nodes.CallBlock) -> None:
    names = [argument.name for argument in node.args]
    if len(set(names)) < len(names):
        raise TemplateSyntaxError("duplicate argument in macro definition", node.lineno)
    if "caller" in names and "caller" in find_undeclared(node.body, ("caller",)):
        after = len(names) - names.index("caller")
        if after > len(node.defaults):
            raise TemplateAssertionError('the argument "caller" needs a default', node.lineno)


def _walk_expressions(node: nodes.Node, environment: Environment, soft: bool) -> None:
    """Unknown filters and tests fail at once, except inside a condition, where they fail when reached."""
    known: Container[str] | None = None
    if isinstance(node, nodes.Filter):
        known = environment.filters
    elif isinstance(node, nodes.Test):
        known = environment.tests
    if known is not None and not soft and node.name not in known:  # type: ignore[attr-defined]
        kind = type(node).__name__.lower()
        raise TemplateAssertionError(f"no {kind} named {node.name!r}", node.lineno)  # type: ignore[attr-defined]
    for child in node.iter_child_nodes():
        _walk_expressions(child, environment, _inside_condition(node, child, soft))


def _inside_condition(node: nodes.Node, child: nodes.Node, soft: bool) -> bool:
    """Whether jinja2 counts the child as part of a condition; a new scope ends one."""
    match node:
        case nodes.If() | nodes.CondExpr():
            return True
        case nodes.For():
            return soft and child is node.iter
        case nodes.CallBlock():
            return soft and child is node.call
        case nodes.With():
            return soft and any(child is value for value in node.values)
        case nodes.Macro() | nodes.AssignBlock() | nodes.FilterBlock() | nodes.Scope():
            return False
        case _:
            return soft


def _walk_statements(body: list[nodes.Node], in_loop: bool, loops: int, depth: int) -> None:
    """``break`` outside a loop, and nesting that Python would not compile."""
    if depth > MAX_DEPTH or loops > MAX_LOOPS:
        raise Unsupported("it nests deeper than is judged here")
    for node in body:
        if isinstance(node, nodes.Break | nodes.Continue) and not in_loop:
            raise TemplateSyntaxError(f"{type(node).__name__.lower()} outside loop", node.lineno)
        for part, inside, deeper in _bodies(node, in_loop):
            _walk_statements(part, inside, loops + deeper, depth + 1)


def _bodies(node: nodes.Node, in_loop: bool) -> Iterator[tuple[list[nodes.Node], bool, int]]:
    """The statement lists of a node, whether a loop surrounds them in the same function, and loop depth."""
    if isinstance(node, nodes.For):
        yield node.body, True, 1
        yield node.else_, in_loop and not node.recursive, 0
    elif isinstance(node, nodes.If):
        yield node.body, in_loop, 0
        yield list(node.elif_), in_loop, 0
        yield node.else_, in_loop, 0
    elif isinstance(node, nodes.Macro | nodes.CallBlock):
        yield node.body, False, 0
    elif isinstance(node, nodes.FilterBlock | nodes.With | nodes.AssignBlock | nodes.Scope):
        yield node.body, in_loop, 0
