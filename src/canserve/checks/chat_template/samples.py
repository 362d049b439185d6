"""Conversations that every chat template should render, shaped as the engines hand them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROBE = "lighthouse"
"""A word of the user's message; a prompt without it has lost what the user said."""

_USER = {"role": "user", "content": f"How tall is the {PROBE}?"}
_SYSTEM = {"role": "system", "content": "You answer briefly."}
_ASSISTANT = {"role": "assistant", "content": "About forty metres."}
_PARTS = {"role": "user", "content": [{"type": "text", "text": _USER["content"]}]}
_IMAGE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": _USER["content"]}]}
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "height_of",
        "description": "The height of a building.",
        "parameters": {
            "type": "object",
            "properties": {
                "building": {"type": "string", "description": "Its name."},
                "unit": {"type": "string", "description": "Of the answer.", "enum": ["m", "ft"]},
            },
            "required": ["building"],
        },
    },
}
_CALL: Mapping[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "call12345",  # nine letters and digits: some templates insist on that
            "type": "function",
            "function": {"name": "height_of", "arguments": {"building": "tower", "unit": "m"}},
        }
    ],
}
_RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "height_of", "content": '{"height": 40}'}


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One conversation, compared by identity."""

    name: str
    messages: tuple[Mapping[str, Any], ...]
    plain: bool
    """Whether it holds only text, which every chat model must take."""
    told: bool = True
    """Whether a failure is worth telling; engines flatten parts for templates that want plain text."""
    tools: tuple[Mapping[str, Any], ...] = ()

    def variables(self) -> dict[str, Any]:
        """What transformers passes to the template: messages, tools, documents and special tokens."""
        return {
            "messages": list(self.messages),
            "tools": list(self.tools) or None,
            "documents": None,
            "add_generation_prompt": True,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        }


SAMPLES = (
    Sample("a user message", (_USER,), plain=True),
    Sample("a user message in parts", (_PARTS,), plain=True, told=False),
    Sample("a system message", (_SYSTEM, _USER), plain=True),
    Sample("several turns", (_USER, _ASSISTANT, _USER), plain=True),
    Sample("tools", (_USER,), plain=False, tools=(_TOOL,)),
    Sample("a tool call and its result", (_USER, _CALL, _RESULT), plain=False, tools=(_TOOL,)),
    Sample("an image", (_IMAGE,), plain=False, told=False),
)
