"""What all pages share: the frame, the style, verdicts, advice, and the one way by which text gets in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from canserve.render.escape import visible
from canserve.verdict import Verdict, advice, word

SIGNS = {"yes": "\u2713", "no": "\u2715", "unknown": "?", "skipped": "\u2013"}
"""Beside the colour and the word."""
_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
{scripts}img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
"""


def text(value: str, limit: int | None = None) -> str:
    """Text from outside, made safe between tags and inside quotes."""
    return escape(visible(value) if limit is None else visible(value, limit), quote=True)


def head(title: str, style: str, script: str = "") -> str:
    """The page up to its body. ``script``: the digest of the only script that may run; empty: none may."""
    scripts = f"script-src '{script}'; " if script else ""
    return _HEAD.format(title=text(title), style=f"{asset('colours.css')}{style}", scripts=scripts)


def asset(name: str) -> str:
    """A file of the package."""
    return files("canserve.render").joinpath("assets", name).read_text("utf-8")


def document(title: str, body: Iterable[str], style: str = "") -> str:
    """A whole page."""
    inside = "".join(body)
    return f"{head(title, asset('report.css') + style)}<body>\n<main>\n{inside}</main>\n</body>\n</html>\n"


def said(verdict: str, word: str = "") -> str:
    """A verdict as a word that stands out; not by its colour alone. ``word``: what is said in place of it."""
    shown = text(word or verdict)
    return (
        f'<span class="word {verdict}"><span aria-hidden="true">{SIGNS[verdict]}</span>&nbsp;{shown}</span>'
    )


def top(verdict: Verdict, title: str, lead: str, about: Sequence[str] = ()) -> str:
    """What a reader sees first: the verdict, of what, why, and what to do."""
    kind = word(verdict)
    lines = "".join(f'<p class="soft">{text(line)}</p>' for line in about if line)
    return (
        f'<header class="top {kind}"><p class="word {kind}"><span aria-hidden="true">{SIGNS[kind]}</span> {kind}</p>'
        f'<h1>{text(title)}</h1><p class="lead">{text(lead)}</p>{advised(verdict)}{lines}</header>\n'
    )


def advised(verdict: Verdict) -> str:
    """What a verdict asks to be done."""
    label, what = advice(verdict)
    return f'<p class="advice"><b>{label}:</b> {text(", ".join(what))}</p>' if what else ""


def named(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    inside = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in rows if value)
    return f"<dl>{inside}</dl>" if inside else ""


def notes(found: Iterable[str]) -> str:
    """Remarks."""
    return "".join(f'<p class="soft">note: {text(note)}</p>' for note in found)


def folded(summary: str, inside: str) -> str:
    """Something that is opened by who wants it."""
    return f'<details class="fold"><summary>{text(summary)}</summary>{inside}</details>' if inside else ""
