"""What a template may touch: the attributes, filters, tests and globals of a sandbox.

Jinja2's own filters, tests and undefined values are used, so that they behave as they will when the engine
renders; every attribute and every filter that they reach for comes back through this environment. What
exists in Python but is not listed here is ``Unsupported``, never silently different.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import GeneratorType
from typing import Any, NoReturn

from jinja2 import Undefined
from jinja2.exceptions import TemplateError
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedFormatter,
    modifies_known_mutable,
    safe_range,
)
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

from canserve.checks.chat_template.budget import (
    VIEWS,
    Budget,
    BudgetExceeded,
    Unsupported,
    depth,
    fits,
    weight,
    width,
)
from canserve.checks.chat_template.parse import Generation

_TODAY = datetime(2025, 1, 1, 12, 0)
"""What ``strftime_now`` tells, naive as the time transformers gives: rendering twice gives the same text."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ATTRIBUTES: Mapping[type, frozenset[str]] = {
    str: _words(
        """capitalize casefold center count endswith expandtabs find format format_map index isalnum isalpha
        isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join
        ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit
        rstrip split splitlines startswith strip swapcase title upper zfill"""
    ),
    dict: _words("copy get items keys values"),
    list: _words("copy count index"),
    tuple: _words("count grouper index list"),  # two of them on what groupby yields
    LoopContext: _words(
        "changed cycle depth depth0 first index index0 last length nextitem previtem revindex revindex0"
    ),
    Macro: _words("arguments caller catch_kwargs catch_varargs name"),
    Cycler: _words("current next reset"),
}
_PRINTING = _words(
    """capitalize center e escape forceescape format indent lower replace safe string title trim upper
    wordcount"""
)
"""Filters that turn whatever they get into text."""
_WIDE = _words("batch center indent round slice")
"""Filters that take a width, a count or a precision."""
_FILTERS = (_PRINTING | _WIDE) | _words(
    """abs attr count d default dictsort first float groupby int items join last length list map max min
    reject rejectattr reverse select selectattr sort sum tojson unique"""
)
_NUMBER = re.compile(r"\d+")
_LARGE_NUMBER = re.compile(r"\d{5,}")
_PLAIN: tuple[type[Any], ...] = (str, int, float, type(None), Undefined, range, *VIEWS)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of a value, as a template holds it between ``.split`` and its brackets."""

    owner: Any
    name: str
    sandbox: Sandbox

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, once it is sure that the result fits."""
        self.sandbox.budget.made(self.owner, *args)
        if isinstance(self.owner, str):
            self.sandbox.budget.spend(_search_steps(self.owner, args))
            if self.name in {"format", "format_map"}:
                return self.sandbox.format(self.owner, self.name, args, kwargs)
            _bound_text(self.owner, self.name, args)
        return getattr(self.owner, self.name)(*args, **kwargs)


class Names(Namespace):
    """What ``namespace()`` makes: it may hold itself, so that it is never shown with what it holds."""

    def __repr__(self) -> str:
        return "<Namespace>"


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment transformers renders chat templates in, closed further and with a budget."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
        )
        self.budget = budget
        self.filters |= {"attr": self._attr, "join": self._join, "sum": self._sum, "tojson": _tojson}
        self.globals = {
            "range": safe_range, "dict": dict, "namespace": Names, "cycler": Cycler, "joiner": Joiner,
            "raise_exception": self._raise_exception, "strftime_now": _TODAY.strftime,
        }  # fmt: skip
        self.unjudged = frozenset({"lipsum", "self"})
        """Names that jinja2 gives a meaning and this sandbox does not."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``obj.attribute``: an attribute if it has one, else an item, else undefined."""
        if _has(obj, attribute):
            return self._attribute(obj, attribute)
        try:
            return obj[attribute]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """``obj[argument]``: an item if it has one, else an attribute, else undefined."""
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if isinstance(argument, str) and _has(obj, argument):
                return self._attribute(obj, argument)
            return self.undefined(obj=obj, name=argument)

    def _attribute(self, obj: Any, name: str) -> Any:
        if name.startswith("_") or modifies_known_mutable(obj, name):
            return self.unsafe_undefined(obj, name)
        if isinstance(obj, Namespace):
            return getattr(obj, name)
        allowed = next((names for kind, names in _ATTRIBUTES.items() if isinstance(obj, kind)), frozenset())
        if name not in allowed:
            raise Unsupported(f"it uses the attribute {name!r} of a {type(obj).__name__}")
        value = getattr(obj, name)
        return Method(obj, name, self) if callable(value) and not isinstance(obj, LoopContext) else value

    def call_filter(
        self,
        name: str,
        value: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        context: Context | None = None,
        eval_ctx: EvalContext | None = None,
    ) -> Any:
        """Apply a filter, for a template or for a filter such as ``map``, within the budget."""
        if name in FILTERS and name not in _FILTERS:
            raise Unsupported(f"it uses the filter {name!r}")
        given = [*(args or ()), *(kwargs or {}).values()]
        self.budget.made(value, *given)
        if name in _PRINTING:
            self.printable([value, *given])
        if name in _WIDE:
            width(*given)
        if isinstance(value, str):
            self.budget.spend(_search_steps(value, given))
        _bound_filter(name, value, args or (), kwargs or {})
        made = super().call_filter(name, value, args, kwargs, context, eval_ctx)
        self.budget.made(made)
        return made

    def call_test(
        self,
        name: str,
        value: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        context: Context | None = None,
        eval_ctx: EvalContext | None = None,
    ) -> Any:
        """Apply a test, for a template or for a filter such as ``select``, within the budget."""
        self.budget.made(value, *(args or ()))
        return super().call_test(name, value, args, kwargs, context, eval_ctx)

    def format(self, text: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """``str.format`` and ``str.format_map``, whose fields go through this sandbox."""
        if isinstance(text, Markup):
            raise Unsupported("it formats markup")
        if name == "format_map":
            if kwargs or len(args) != 1:
                raise TypeError("format_map() takes exactly one argument")
            return _Formatter(self).vformat(text, (), args[0])
        return _Formatter(self).vformat(text, args, kwargs)

    def text(self, value: Any) -> str:
        """What printing the value gives."""
        return str(self.printable(value))

    def printable(self, value: Any) -> Any:
        """The value itself. Raises Unsupported for what prints an address or the insides of jinja2."""
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, list | tuple):
                stack.extend(item)
            elif isinstance(item, dict):
                stack.extend(item)
                stack.extend(item.values())
            elif not isinstance(item, _PLAIN):
                raise Unsupported(f"it prints a {type(item).__name__}")
        return value

    def concat_text(self, values: Iterable[Any]) -> str:
        """The texts of several values in one."""
        texts = [self.text(value) for value in values]
        fits(sum(map(len, texts)))
        return "".join(texts)

    def _raise_exception(self, message: Any) -> NoReturn:
        raise TemplateError(self.text(message))

    def _attr(self, obj: Any, name: str) -> Any:
        return self._attribute(obj, name) if _has(obj, name) else self.undefined(obj=obj, name=name)

    def _join(self, value: Any, d: str = "", attribute: str | int | None = None) -> str:
        get = make_attrgetter(self, attribute) if attribute is not None else None
        parts = [self.text(item if get is None else get(item)) for item in value]
        glue = self.text(d)
        fits(sum(map(len, parts)) + len(parts) * len(glue))
        return glue.join(parts)

    def _sum(self, iterable: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
        if not isinstance(start, int | float):
            raise Unsupported("it sums something other than numbers")
        get = make_attrgetter(self, attribute) if attribute is not None else None
        return sum((item if get is None else get(item) for item in iterable), start)


class _Formatter(SandboxedFormatter):
    """``str.format`` with bounded widths, and fields that are bounded together."""

    def __init__(self, env: Sandbox) -> None:
        super().__init__(env)
        self._sandbox = env
        self._length = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        if _LARGE_NUMBER.search(format_spec):
            raise BudgetExceeded("it formats with a very large width")
        text = super().format_field(self._sandbox.printable(value), format_spec)
        self._length += len(text)
        fits(self._length)
        return text


def bound_percent(text: str, args: Iterable[Any]) -> None:
    """Refuse ``%`` formatting that would make a huge text: by widths, or by long values many times over."""
    if _LARGE_NUMBER.search(text):
        raise BudgetExceeded("it formats with a very large width")
    values = list(args)
    widths = [abs(value) for value in values if isinstance(value, int)] if "*" in text else []
    longest = max([64 * weight(value) for value in values], default=0)
    fits(sum(map(int, _NUMBER.findall(text))) + text.count("%") * (longest + max(widths, default=0)))


def _bound_filter(name: str, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse, before it is made, what a filter would make too large."""
    given = [*args, *kwargs.values()]
    if name == "format" and isinstance(value, str):
        bound_percent(value, given)
    elif name == "replace" and len(args) > 1:
        fits(str(value).count(str(args[0])) * len(str(args[1])))
    elif name == "replace":
        fits(len(str(value)) * _largest(given))
    elif name == "indent":
        fits(str(value).count("\n") * _largest(given or [4]))


def _largest(given: Iterable[Any]) -> int:
    """The length of the longest text, or the greatest number."""
    texts = [len(one) if isinstance(one, str) else one for one in given if isinstance(one, str | int)]
    return max(texts, default=0)


def _search_steps(owner: str, args: Iterable[Any]) -> int:
    """Steps for looking for one text in another, which can take the product of their lengths."""
    return len(owner) * max([len(arg) for arg in args if isinstance(arg, str)], default=0) >> 12


def _bound_text(owner: str, name: str, args: tuple[Any, ...]) -> None:
    """Refuse, before it is made, what a string method would make too large."""
    if name in {"center", "ljust", "rjust", "zfill", "expandtabs"}:
        width(*args)
    if name == "expandtabs" and args and isinstance(args[0], int):
        fits(owner.count("\t") * args[0])
    if name == "replace" and len(args) > 1 and isinstance(args[0], str) and isinstance(args[1], str):
        fits(owner.count(args[0]) * len(args[1]))
    if name == "join" and args and not isinstance(args[0], GeneratorType):
        fits(sum(len(owner) + len(part) for part in args[0]))


def _has(obj: Any, name: str) -> bool:
    """Whether Python finds an attribute of that name; no value here has code of the template's own."""
    if isinstance(obj, Undefined):
        return False  # its items and attributes fail alike
    if isinstance(obj, Namespace):
        return hasattr(obj, name)
    if callable(obj) and not isinstance(obj, LoopContext | Macro | Joiner | Cycler):
        raise Unsupported(f"it takes the attribute {name!r} of a function")
    return hasattr(type(obj), name) or name in getattr(obj, "__dict__", ())


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers overrides it: no HTML escaping, options of ``json.dumps``."""
    indents = indent if isinstance(indent, int) else len(indent or "")
    fits(weight(x) * (depth(x) * indents + len("".join(separators or ()))))
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
