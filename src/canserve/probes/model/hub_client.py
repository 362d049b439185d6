"""Bounded HTTP to the Hub: byte ranges, a deadline, few retries; each refusal a value with its remedy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from canserve import __version__
from canserve.facts import Cause, Evidence, Missing
from canserve.probes.model.options import Options
from canserve.trees.names import printable
from canserve.trees.secret import HIDDEN, Secret, shown
from canserve.trees.tree import Cost

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIES = 3
SLACK = 1 << 20
"""Bytes read and thrown away to reach the start of a range that a server did not honour."""

_LOG_IN = "log in: hf auth login, or set HF_TOKEN"


class _Refused(Exception):  # noqa: N818 - a result on its way out of nested reads
    def __init__(self, cause: Cause, why: str, ask: str | None = None, again: bool = False) -> None:
        super().__init__(why)
        self.cause = cause
        self.why = why
        self.ask = ask
        self.again = again
        """Whether another try may succeed."""


class HubClient:
    """Requests for one model."""

    def __init__(self, subject: str, options: Options) -> None:
        from huggingface_hub import constants, get_token

        self.subject = subject
        self.endpoint = (options.endpoint or constants.ENDPOINT).rstrip("/")
        self.shown = shown(self.endpoint)
        self._options = options
        self._end = time.monotonic() + options.deadline
        # Not build_hf_headers(): for its user agent it asks the Hub which coding agents there are.
        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        self._token = Secret(token) if token else None

    def seen(self, how: str, saw: str, whole: bool = True) -> Evidence:
        """Evidence for a look at the Hub."""
        return Evidence(self.subject, f"{self.shown}: {how}", saw, whole)

    def get(self, url: str, what: str, start: int, end: int, ranged: bool = True) -> bytes | Missing:
        """Bytes from ``start`` to before ``end``; fewer only at the end of the file.

        ``what`` names the file to people. ``ranged=False`` asks for the whole, and refuses one of more than
        ``end`` bytes.
        """
        what = printable(what, 200)
        if self._options.progress:
            self._options.progress(what)
        for attempt in range(TRIES):
            try:
                return self._once(url, start, end, ranged)
            except _Refused as refused:
                last = refused
                pause = self._options.pause * 2**attempt
                if not refused.again or attempt == TRIES - 1 or time.monotonic() + pause > self._end:
                    break
                time.sleep(pause)
        return Missing(last.cause, f"{what}: {last.why}", (self.seen(what, last.why, whole=False),), last.ask)

    def _once(self, url: str, start: int, end: int, ranged: bool) -> bytes:
        from huggingface_hub import get_session
        from huggingface_hub.errors import HfHubHTTPError

        # The HTTP library is huggingface_hub's choice (httpx, later httpx2); its errors share this parent.
        (http_error,) = (
            k for k in HfHubHTTPError.__mro__ if k.__name__ == "HTTPError" and issubclass(k, Exception)
        )
        headers = {"User-Agent": f"canserve/{__version__}", "Accept-Encoding": "identity"}
        if ranged:
            headers["Range"] = f"bytes={start}-{end - 1}"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        timeout = min(self._options.timeout, self._end - time.monotonic())
        if timeout <= 0:
            raise self._late()
        try:
            with get_session().stream(
                "GET", url, headers=headers, timeout=timeout, follow_redirects=True
            ) as response:
                self._spent(Cost(requests=1 + len(response.history)))
                skip = self._judge(response.status_code, response.headers, start, ranged)
                # Without a chunk size: one would be waited for, however slowly it fills.
                return self._body(response.iter_raw(), skip, end - start, ranged)
        except (http_error, OSError, ValueError) as error:  # ValueError: a redirect to no URL at all
            said = str(error).replace(self._token.reveal(), HIDDEN) if self._token else str(error)
            why = f"{type(error).__name__}: {printable(said, 120)}"
            raise _Refused(Cause.UNREACHED, why, f"make {self.shown} reachable", again=True) from None

    def _late(self) -> _Refused:
        return _Refused(Cause.UNREACHED, f"no whole answer within {self._options.deadline:g} s", "try again")

    def _spent(self, cost: Cost) -> None:
        if self._options.spent:
            self._options.spent(cost)

    def _body(self, chunks: Iterator[bytes], skip: int, count: int, ranged: bool) -> bytes:
        found = bytearray()
        for chunk in chunks:
            self._spent(Cost(len(chunk)))
            found += chunk
            if len(found) > skip + count:
                if not ranged:
                    raise _Refused(Cause.UNREADABLE, f"the answer is larger than {count} bytes")
                break
            if time.monotonic() > self._end:
                raise self._late()
        return memoryview(found)[skip : skip + count].tobytes()

    def _judge(self, status: int, headers: Mapping[str, str], start: int, ranged: bool) -> int:
        """Bytes to skip before the wanted ones; raises when the answer is none."""
        if status == 416 and ranged:  # an empty file, or a range behind its end
            raise _Refused(Cause.UNREADABLE, f"the file ends before byte {start}")
        if status not in {200, 206}:
            raise self._refusal(status, headers)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused(Cause.UNREADABLE, "the server compresses although it was asked not to")
        if status == 206:
            if not headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise _Refused(Cause.UNREADABLE, "the server answers with another range than asked for")
            return 0
        if start > SLACK:
            raise _Refused(Cause.UNAVAILABLE, "the server does not serve byte ranges")
        return start

    def _refusal(self, status: int, headers: Mapping[str, str]) -> _Refused:
        code, message = headers.get("X-Error-Code", ""), printable(headers.get("X-Error-Message", ""), 160)
        said = f"the Hub answered {status}" + (f" ({message})" if message else "")
        if code == "GatedRepo":
            return _Refused(
                Cause.UNAVAILABLE, f"gated: {said}", f"accept its terms on {self.shown}, then {_LOG_IN}"
            )
        if code == "RevisionNotFound":
            return _Refused(Cause.UNAVAILABLE, f"no such revision: {said}", "check the name after @")
        if code == "EntryNotFound":
            return _Refused(Cause.UNAVAILABLE, f"no such file: {said}")
        if code == "RepoNotFound" or status in {401, 404}:
            ask = f"check the name; where it is private, {_LOG_IN}"
            return _Refused(Cause.UNAVAILABLE, f"no such repository, or none for this account: {said}", ask)
        if status == 429:
            wait = printable(headers.get("Retry-After", ""), 40)
            ask = f"wait{f' {wait} s' if wait.isdigit() else ''} and try again; {_LOG_IN} for a higher limit"
            return _Refused(Cause.UNREACHED, f"rate limit: {said}", ask)
        if status >= 500:
            return _Refused(Cause.UNREACHED, said, "try again later", again=True)
        return _Refused(Cause.UNAVAILABLE, said, _LOG_IN if status == 403 else None)
