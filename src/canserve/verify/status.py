"""What the server says of itself: models, health, metrics, context, dummy weights."""

from __future__ import annotations

from canserve.checks.served.prometheus import running
from canserve.facts import Cause, Fact, Known, Missing
from canserve.rules.served import Told, field, listed_context, metrics_pages, places, told
from canserve.subjects.served import Listed, Page
from canserve.verify.asking import Asker
from canserve.verify.reply import parsed

_MOST = 1000
"""Models that are read of a list."""


def models(page: Fact[Page]) -> Fact[tuple[Listed, ...]]:
    """The models in ``/v1/models``."""
    if isinstance(page, Missing):
        return page
    document = parsed(page.value.text) if page.value.status == 200 else None
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        why = f"GET /v1/models gives no list of models ({page.value.status} {page.value.kind})"
        return Missing(
            Cause.UNREADABLE, why, page.evidence, "name the address of an OpenAI-compatible server"
        )
    found = tuple(
        _listed(row) for row in rows[:_MOST] if isinstance(row, dict) and isinstance(row.get("id"), str)
    )
    return Known(found, page.evidence)


def _listed(row: dict[str, object]) -> Listed:
    root = row.get("root")
    return Listed(
        str(row["id"]), root if isinstance(root, str) else None, _tokens(field(row, listed_context()))
    )


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def metrics(asker: Asker) -> Fact[Page]:
    """The first page of metrics that is one; else the first that was looked for."""
    looked = []
    for path in metrics_pages():
        page = asker.page(path)
        if isinstance(page, Known) and page.value.status == 200:
            return page
        looked.append(page)
    return looked[0]


def busy(asker: Asker) -> float | None:
    """Requests that the server says it runs now; None: it does not say."""
    page = metrics(asker)
    count = running(page.value.text) if isinstance(page, Known) and page.value.status == 200 else None
    return count if count is not None else _places(asker)


def _places(asker: Asker) -> float | None:
    for path, name in places():
        page = asker.page(path)
        rows = parsed(page.value.text) if isinstance(page, Known) and page.value.status == 200 else None
        if isinstance(rows, list) and rows and all(isinstance(row, dict) and name in row for row in rows):
            return float(sum(bool(row[name]) for row in rows))
    return None


def pages_told(asker: Asker) -> list[tuple[Told, Fact[Page]]]:
    """Pages beside the protocol that this server has."""
    looked = [(each, asker.page(each.path)) for each in told()]
    return [(each, page) for each, page in looked if isinstance(page, Known) and page.value.status == 200]


def context(
    model: Listed | None, pages: list[tuple[Told, Fact[Page]]], listed: Fact[tuple[Listed, ...]]
) -> Fact[int]:
    """Tokens of the longest sequence, as the server claims it."""
    for each, page in pages:
        if isinstance(page, Known) and (tokens := _tokens(field(parsed(page.value.text), each.context))):
            return Known(tokens, page.evidence)
    if model is not None and model.context is not None:
        return Known(model.context, listed.evidence)
    why = "the server does not say how long a sequence may be"
    return Missing(Cause.UNAVAILABLE, why, listed.evidence, "name it: --context TOKENS")


def dummy(pages: list[tuple[Told, Fact[Page]]]) -> Fact[str | None]:
    """Whether the server says that its weights are dummies."""
    looks = tuple(look for _, page in pages for look in page.evidence)
    for each, page in pages:
        if isinstance(page, Known) and field(parsed(page.value.text), each.load_format) == "dummy":
            return Known(f"GET {each.path} says that its weights are dummies", page.evidence)
    return Known(None, looks)
