"""Server-sent events from bytes: the few rules that streams of answers use, within bounds.

https://html.spec.whatwg.org/multipage/server-sent-events.html. Lines end with LF, CR LF or CR; ``data:`` lines of
one event are joined; everything else (comments, names, ids) is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class StreamError(ValueError):
    """A stream that is none, or that has no end."""


def events(chunks: Iterable[bytes], line: int, total: int) -> Iterator[str]:
    """The data of each event. Raises StreamError beyond ``line`` bytes in one line or ``total`` bytes in all."""
    held, seen, data = b"", 0, list[str]()
    for chunk in chunks:
        seen += len(chunk)
        if seen > total:
            raise StreamError(f"a stream of more than {total} bytes")
        *lines, held = _split(held + chunk)
        if len(held) > line:
            raise StreamError(f"a line of more than {line} bytes")
        for each in lines:
            if len(each) > line:
                raise StreamError(f"a line of more than {line} bytes")
            if each.startswith(b"data:"):
                data.append(each[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not each and data:
                yield "\n".join(data)
                data = []
    if held.startswith(b"data:"):  # a stream that ends without its last line's end
        data.append(held[5:].removeprefix(b" ").decode("utf-8", "replace"))
    if data:
        yield "\n".join(data)


def _split(text: bytes) -> list[bytes]:
    """Lines, and what follows the last line's end; a CR at the very end may be half of CR LF and is held."""
    if b"\r" in text:
        tail = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
    return text.split(b"\n")
