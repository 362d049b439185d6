"""The tool's state as text, and as Markdown for an issue."""

from __future__ import annotations

from itertools import groupby

from canserve.api.tool_state import ToolState
from canserve.render.escape import code, markdown
from canserve.render.page import Cell, Look, Page, Row

_NAME = 18


def doctor_text(state: ToolState, look: Look) -> str:
    """A section for each topic."""
    page = Page(look)
    for topic, items in groupby(state.items, key=lambda item: item.topic):
        page.add(Row(topic, style="bold"))
        page.add(*(Row(item.value, (Cell(item.name, _NAME),), indent=2) for item in items))
    return page.render()


def doctor_markdown(state: ToolState) -> str:
    """A list, to be pasted into an issue."""
    lines = []
    for topic, items in groupby(state.items, key=lambda item: item.topic):
        lines += [f"**{topic}**", "", *(f"- {code(item.name)}: {markdown(item.value)}" for item in items), ""]
    return "\n".join(lines)
