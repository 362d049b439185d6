"""Replies in a few words, for evidence and reasons."""

from __future__ import annotations

from canserve.subjects.served import Answer, Broken, Page, Refusal, Reply, Silence

_SHOWN = 100


def short(text: str, most: int = _SHOWN) -> str:
    """The beginning of a text, on one line, in quotes."""
    flat = " ".join(text[: 4 * most].split())
    return f'"{flat[:most]}..."' if len(flat) > most or len(text) > 4 * most else f'"{flat}"'


def number(value: float) -> str:
    """A figure as people read it: 27.4, 1,540, never 1.54e+03."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def say(reply: Reply) -> str:
    """One reply in one line."""
    match reply:
        case Answer():
            return _answer(reply)
        case Refusal(status, message):
            return f"{status}: {short(message, 160)}"
        case Silence(seconds, pieces):
            came = f" after {pieces} pieces" if pieces else ""
            return f"nothing more{came} within {seconds:.1f} s"
        case Broken(why):
            return why


def _answer(answer: Answer) -> str:
    said = [short(answer.text)] if answer.text or not (answer.calls or answer.reasoning) else []
    said += [f"{len(answer.reasoning)} letters of reasoning"] if answer.reasoning else []
    said += [f"called {call.name[:60]}({call.arguments[:120]})" for call in answer.calls[:2]]
    said += [f"finish {answer.finish}"]
    tokens = answer.completion_tokens
    said += [
        f"{tokens} tokens in {answer.seconds:.2f} s" if tokens is not None else f"{answer.seconds:.2f} s"
    ]
    return ", ".join(said)


def say_page(page: Page) -> str:
    """A page in one line."""
    where = f", to {page.location}" if page.location else ""
    return f"{page.status} {page.kind or 'without a type'}{where}, {len(page.text)} letters"
