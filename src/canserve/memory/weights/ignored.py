"""Which modules a checkpoint leaves unquantized: the lists and patterns of the tools that write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from canserve.memory.fields import Lacking

MAX_PATTERNS = 50_000
MAX_LENGTH = 300
MAX_WILD = 3
"""Wildcards in one pattern: names are short, but time grows with their power."""

_SAFE = re.compile(r"(?:[\w\-/ ]|\\[.dw]|\.[*+]|\.|\\d\+|\[[\w\-]+\]\+?|\(\??:?[\w|.\\\-]*\)|\||\^|\$)*")
"""Regular expressions that cannot take long: no repeated groups, nothing nested."""


class Ignored:
    """Answers whether a module is left out."""

    def __init__(self, names: Sequence[str], field: str) -> None:
        """Raises Lacking where the list is too long or holds a pattern that is not understood."""
        if len(names) > MAX_PATTERNS:
            raise Lacking(field, f"{len(names)} names")
        self._exact = {name for name in names if not _is_pattern(name)}
        self._patterns = tuple(_compiled(name, field) for name in names if _is_pattern(name))
        self._single = {name for name in self._exact if "." not in name}
        self._inner = {name for name in self._exact if "." in name}
        self._starts = {name.split(".", 1)[0] for name in self._inner}

    def leaves_out(self, module: str) -> bool:
        """Whether a module (``model.layers.0.mlp.gate``, an expert's number as a star) is left out."""
        name = module.replace("*", "0")
        segments = name.split(".")
        if not self._single.isdisjoint(segments):
            return True
        # A listed name may be the whole path, its beginning, its end, or a part between dots.
        for start, segment in enumerate(segments):
            if segment not in self._starts:
                continue
            for end in range(start + 2, len(segments) + 1):
                if ".".join(segments[start:end]) in self._inner:
                    return True
        return any(pattern.match(name) for pattern in self._patterns)


def _is_pattern(name: str) -> bool:
    return name.startswith("re:") or "*" in name


@lru_cache(maxsize=4096)
def _compiled(name: str, field: str) -> re.Pattern[str]:
    if len(name) > MAX_LENGTH:
        raise Lacking(field, name)
    if not name.startswith("re:"):
        if name.count("*") > MAX_WILD:
            raise Lacking(field, name)
        # A glob that ends in a module's name covers what lies in it too, as loaders read these lists.
        return re.compile(translate(name).replace(r"\Z", r"(?:\..*)?\Z").replace(r"\z", r"(?:\..*)?\z"))
    text = name.removeprefix("re:")
    if not _SAFE.fullmatch(text) or len(re.findall(r"[*+]", text)) > MAX_WILD:
        raise Lacking(field, name)
    try:
        return re.compile(text)
    except re.error:
        raise Lacking(field, name) from None
