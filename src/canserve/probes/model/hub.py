"""A model on the Hub: names and bytes on demand, never a whole weights file.

Endpoint, token, proxies and client are those of ``huggingface_hub`` (``HF_ENDPOINT``, ``HF_TOKEN``,
``set_client_factory``). Its own readers are not used for the bytes: ``HfApi.model_info`` and
``get_safetensors_metadata`` take whatever a server sends into memory (one that ignores ``Range`` sends the
weights), and its retries sleep as long as a ``Retry-After`` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.model.documents import MAX_BYTES, Unreadable, parse
from canserve.probes.model.files import UNKNOWN_SIZE, Span
from canserve.probes.model.hub_client import HubClient
from canserve.probes.model.names import stays_inside
from canserve.trees.fanout import fanout
from canserve.trees.names import printable
from canserve.trees.tree import Entry, Hole, Listing, TreeError

VERY_LARGE = 50_000
"""From so many files on the Hub's answer may leave some out (``huggingface_hub._snapshot_download``)."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Hub:
    """One revision of a repository on the Hub."""

    kind = "hub"
    absent: frozenset[str] = frozenset()

    def __init__(
        self, client: HubClient, repo: str, info: Mapping[str, Any], commit: str, asked: str
    ) -> None:
        self.subject = client.subject
        self._client = client
        self._repo = repo
        self._commit = commit
        self._siblings = info.get("siblings")
        seen = [client.seen("revision", f"{asked} is commit {commit}")]
        if (name := info.get("id")) != repo and isinstance(name, str) and stays_inside(name):
            seen.append(client.seen("id", f"the Hub now calls it {name}"))
            self._repo = name
        self.revision: Fact[str | None] = Known(commit, tuple(seen))

    def listing(self) -> Listing:
        """All files of the commit, with their sizes."""
        if not isinstance(self._siblings, list):
            return Listing({}, (Hole("", self._unreadable("the answer holds no list of files")),))
        entries: dict[str, Entry] = {}
        holes: list[Hole] = []
        for item in self._siblings:
            name, size = (item.get("rfilename"), item.get("size")) if isinstance(item, dict) else (None, None)
            if not isinstance(name, str) or not stays_inside(name):
                shown = printable(repr(name))
                holes.append(Hole(shown, self._unreadable(f"no file name: {shown}")))
            else:
                entries[name] = Entry(size if type(size) is int and size >= 0 else UNKNOWN_SIZE)
        if len(self._siblings) >= VERY_LARGE:
            holes.append(Hole("", self._unreadable(f"{VERY_LARGE} files or more: the list may be cut")))
        return Listing(entries, tuple(holes))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file, by range. Raises TreeError."""
        from huggingface_hub import hf_hub_url

        url = hf_hub_url(self._repo, path, revision=self._commit, endpoint=self._client.endpoint)
        answer = self._client.get(url, path, start, start + MAX_BYTES if end is None else end)
        if isinstance(answer, Missing):
            raise TreeError(answer)
        return answer

    def read_spans(self, spans: Sequence[Span]) -> Sequence[bytes | Missing]:
        """Several ranges, some of them under way at once."""
        return fanout(self._try, spans)

    def _try(self, span: Span) -> bytes | Missing:
        try:
            return self.read(*span)
        except TreeError as error:
            return error.missing

    def _unreadable(self, why: str) -> Missing:
        return Missing(Cause.UNREADABLE, why, (self._client.seen("list of files", why, whole=False),))


def open_online(repo: str, revision: str | None, client: HubClient) -> Hub | Missing:
    """One request: which commit the revision is, and which files it has."""
    asked = revision or "main"
    url = f"{client.endpoint}/api/models/{repo}/revision/{quote(asked, safe='')}?blobs=true"
    answer = client.get(url, f"api/models/{repo}", 0, MAX_BYTES, ranged=False)
    if isinstance(answer, Missing):
        return answer
    try:
        info = parse(answer).value
    except Unreadable as error:
        why = f"the Hub's answer is not readable: {error.why}"
        ask = f"see what answers at {client.shown}: a proxy's or a log-in page?"
        return Missing(Cause.UNREADABLE, why, (client.seen(f"api/models/{repo}", why, whole=False),), ask)
    commit = info.get("sha") if isinstance(info, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        why = "the Hub's answer names no commit"
        return Missing(Cause.UNREADABLE, why, (client.seen(f"api/models/{repo}", why, whole=False),))
    return Hub(client, repo, info, commit, asked)
