"""Parsers that a server should be started with, so that reasoning and tool calls arrive in their fields."""

from __future__ import annotations

from canserve.facts import Fact, Known
from canserve.rules.parsers import suggested
from canserve.subjects.launch import Launch


def parser_options(launch: Launch) -> dict[str, object]:
    """``reasoning_parser`` and ``tool_call_parser``, where the template's marks and the build agree on one."""
    template = launch.model.chat_template
    if not isinstance(template, Known) or template.value is None:
        return {}
    kind = launch.model.model_type
    model_type = kind.value if isinstance(kind, Known) else None
    found: dict[str, object] = {}
    tables: tuple[tuple[str, str, Fact[tuple[str, ...]]], ...] = (
        ("reasoning", "reasoning_parser", launch.build.reasoning_parsers),
        ("tool", "tool_call_parser", launch.build.tool_parsers),
    )
    for table, option, known in tables:
        names = known.value if isinstance(known, Known) else ()
        if (name := suggested(table, template.value, model_type, names)) is not None:
            found[option] = name
    return found
