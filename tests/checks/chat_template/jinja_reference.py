"""The environment that transformers renders chat templates in, for comparison.

Only templates written in this repository are rendered with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class AssistantTracker(Extension):
    """``{% generation %}``."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_generation_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _generation_support(self, context: nodes.EvalContext, caller: Any) -> Any:
        return caller()


def environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(
        x: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[AssistantTracker, loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: datetime(2025, 1, 1, 12, 0).strftime(format)  # noqa: A006 - transformers names it so
    return made


def reference(source: str, variables: Mapping[str, Any]) -> str | Exception:
    """What jinja2 makes of it: the text, or whatever it raised."""
    try:
        return environment().from_string(source).render(**variables)
    except Exception as error:  # noqa: BLE001 - whatever the template raises is the result
        return error
