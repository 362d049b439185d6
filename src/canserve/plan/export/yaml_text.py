"""YAML that every reader understands alike: whatever could be a number, a date or a truth elsewhere stands in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

_PLAIN = re.compile(r"(?:--?|/|\./)?[A-Za-z_][A-Za-z0-9_./@=+-]*(?::[A-Za-z0-9_./@=+-]+)*")
"""Letters first, so that no reader takes it for a number; no sign that means something to one."""
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


class _Dumper(yaml.SafeDumper):
    """Without aliases: what stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always."""
        del data
        return True


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        style = None
    elif "\n" in text and _block(text):
        style = "|"
    else:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _block(text: str) -> bool:
    """Whether it may stand line by line."""
    lines = text.split("\n")
    return all(
        line.isascii() and line.isprintable() and line == line.rstrip() for line in lines
    ) and not text.startswith((" ", "\n"))


_Dumper.add_representer(str, _represent)


def yaml_text(comments: Iterable[str], documents: Sequence[Any]) -> str:
    """Comments, then the documents."""
    head = "".join(f"# {line}\n" for line in comments)
    body = "---\n".join(
        yaml.dump(
            one, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=100_000, allow_unicode=False
        )
        for one in documents
    )
    return head + body
