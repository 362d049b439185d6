"""Requests end, are counted, go only where they may, and never tell a secret."""

from __future__ import annotations

import gzip
import os
import shutil
import ssl
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.facts import Cause
from canserve.trees.secret import Secret
from canserve.trees.tree import Cost
from canserve.trees.web.client import MAX_HOPS, RangesRefusedError, Web, WebError
from canserve.trees.web.settings import Settings
from web_server import Site, dripping, dripping_headers, first, moved, page, ranged, running, status, whole

QUICK = Settings(timeout=1.0, patience=1.5, retries=1)


@pytest.fixture
def web() -> Web:
    return Web(QUICK, pause=lambda seconds: None)


def test_a_page(site: Site, web: Web) -> None:
    got = web.page(site.put("/p", page(b"hello", "text/plain; charset=utf-8", ETag='"1"')), "text/plain", 100)
    assert (got.body, got.kind, got.etag, got.url) == (b"hello", "text/plain", '"1"', site.url + "/p")
    assert web.cost == Cost(5, 1, 0)
    assert site.requests[0].headers["accept"] == "text/plain"
    assert site.requests[0].headers["user-agent"].startswith("canserve/")


def test_a_page_that_has_not_changed(site: Site, web: Web) -> None:
    got = web.page(site.put("/p", status(304)), "*/*", 100, etag='"1"')
    assert (got.body, got.etag) == (None, '"1"')
    assert site.requests[0].headers["if-none-match"] == '"1"'


def test_a_page_that_is_packed_and_one_that_is_a_bomb(site: Site, web: Web) -> None:
    small = page(gzip.compress(b"hello" * 100), Content_Encoding="gzip")
    assert web.page(site.put("/p", small), "*/*", 1000).body == b"hello" * 100
    bomb = page(gzip.compress(bytes(200 << 20), 9), Content_Encoding="gzip")
    with pytest.raises(WebError, match="more than 1000 bytes"):
        web.page(site.put("/b", bomb), "*/*", 1000)
    with pytest.raises(WebError, match="encoding"):
        web.page(site.put("/z", page(b"x", Content_Encoding="br")), "*/*", 1000)
    with pytest.raises(WebError):
        web.page(site.put("/c", page(b"\x1f\x8bnot", Content_Encoding="gzip")), "*/*", 1000)


def test_a_page_that_is_too_large_is_not_taken(site: Site, web: Web) -> None:
    with pytest.raises(WebError, match="more than 1000 bytes") as error:
        web.page(site.put("/p", page(bytes(50 << 20))), "*/*", 1000)
    assert error.value.cause is Cause.UNREADABLE
    assert web.cost.bytes < 1 << 20


@pytest.mark.parametrize("slow", [dripping(pause=0.1), dripping_headers(pause=0.1)])
def test_neither_bodies_nor_headers_may_drip(site: Site, web: Web, slow: object) -> None:
    start = time.monotonic()
    with pytest.raises(WebError) as error:
        web.page(site.put("/p", slow), "*/*", 1 << 30)  # type: ignore[arg-type]
    assert error.value.cause is Cause.UNREACHED
    assert time.monotonic() - start < 4


def test_patience_counts_where_the_timeout_is_longer(site: Site) -> None:
    web = Web(replace(QUICK, timeout=30.0), pause=lambda seconds: None)
    start = time.monotonic()
    with pytest.raises(WebError):
        web.page(site.put("/silent", lambda handler: time.sleep(6)), "*/*", 100)
    assert time.monotonic() - start < 4


def test_redirects_are_followed_so_far(site: Site, web: Web) -> None:
    site.put("/end", page(b"here"))
    for hop in range(MAX_HOPS):
        site.put(f"/{hop}", moved(f"/{hop + 1}" if hop < MAX_HOPS - 1 else "/end", 301 + hop % 2))
    assert web.page(site.url + "/0", "*/*", 100).body == b"here"
    assert web.cost.requests == MAX_HOPS + 1
    with pytest.raises(WebError, match="redirects"):
        web.page(site.put("/round", moved("/round")), "*/*", 100)


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://example.invalid/x", "http://["]
)
def test_redirects_lead_nowhere_unsafe(site: Site, web: Web, to: str) -> None:
    with pytest.raises(WebError) as error:
        web.page(site.put("/p", moved(to)), "*/*", 100)
    assert error.value.cause is Cause.UNREACHED
    assert len(site.requests) == 1


def test_plain_http_is_only_for_this_machine_and_for_trusted_hosts(web: Web) -> None:
    with pytest.raises(WebError, match="not encrypted") as error:
        web.page("http://example.invalid/simple/", "*/*", 100)
    assert "PIP_TRUSTED_HOST" in (error.value.ask or "")
    assert web.cost == Cost()
    trusting = Settings(trusted=frozenset({"example.invalid", "other.invalid:8080"}))
    assert trusting.secure("http://example.invalid/x")
    assert trusting.secure("http://other.invalid:8080/x")
    assert not trusting.secure("http://other.invalid/x")


def test_logins_go_to_their_own_host_only_and_are_never_told(site: Site) -> None:
    with running() as other:
        other.put("/file", status(403))
        place = site.url.removeprefix("http://")
        logins = {place: (Secret("user"), Secret("pa55"))}
        web = Web(replace(QUICK, logins=logins), pause=lambda seconds: None)
        with pytest.raises(WebError) as error:
            web.page(site.put("/p", moved(f"{other.url}/file?token=t0ken")), "*/*", 100)
        assert site.requests[0].headers["authorization"].startswith("Basic ")
        assert "authorization" not in other.requests[0].headers
        for said in (str(error.value), repr(web.settings)):
            assert "pa55" not in said
            assert "t0ken" not in said


def test_netrc_is_read(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login me password secret\n")
    file.chmod(0o600)
    before = os.environ.get("NETRC")
    os.environ["NETRC"] = str(file)
    try:
        Web(QUICK).page(site.put("/p", page(b"x")), "*/*", 100)
        file.write_text("machine \0 \xff broken")
        Web(QUICK).page(site.put("/q", page(b"x")), "*/*", 100)
    finally:
        os.environ.pop("NETRC")
        if before is not None:
            os.environ["NETRC"] = before
    assert "authorization" in site.requests[0].headers
    assert "authorization" not in site.requests[1].headers


def test_a_proxy_is_used(site: Site) -> None:
    """A plain request to a proxy carries the whole address."""
    web = Web(replace(QUICK, proxy=Secret(site.url), trusted=frozenset({"index.invalid"})))
    site.put("http://index.invalid/simple/", page(b"by proxy"))
    assert web.page("http://index.invalid/simple/", "*/*", 100).body == b"by proxy"
    assert "REDACTED" in repr(web.settings.proxy)


def test_a_proxy_of_another_kind_is_said(web: Web) -> None:
    socks = Web(replace(QUICK, proxy=Secret("socks5://me:hunter2@127.0.0.1:1")))
    with pytest.raises(WebError, match="socks5 proxy") as error:
        socks.page("https://index.invalid/", "*/*", 100)
    assert "hunter2" not in str(error.value)


def test_a_download_that_drips_ends_though_its_size_is_not_known(site: Site, tmp_path: Path) -> None:
    start = time.monotonic()
    with (tmp_path / "file").open("wb") as handle, pytest.raises(WebError):
        Web(replace(QUICK, retries=0)).download(site.put("/f", dripping()), handle.fileno(), 4 << 30)
    assert time.monotonic() - start < 4


def test_ranges(site: Site, web: Web) -> None:
    data = bytes(range(256)) * 10
    got = web.span(site.put("/f", ranged(data)), 5, 20)
    assert (got.data, got.total) == (data[5:20], len(data))
    assert web.tail(site.url + "/f", 7).data == data[-7:]
    assert web.tail(site.url + "/f", 10_000).data == data
    assert site.requests[0].range == "bytes=5-19"
    assert site.requests[0].headers["accept-encoding"] == "identity"
    with pytest.raises(RangesRefusedError):
        web.span(site.put("/w", whole(data)), 5, 20)
    with pytest.raises(WebError, match="416"):
        web.span(site.url + "/f", 10_000, 10_020)


@pytest.mark.parametrize(
    "stated", ["", "bytes", "bytes 0-9", "bytes 0-9/*", "bytes 9-0/10", "bytes 0-9/10, 0-9/10", "x" * 10_000]
)
def test_a_range_that_is_not_stated_properly_is_refused(site: Site, web: Web, stated: str) -> None:
    with pytest.raises(RangesRefusedError):
        web.span(site.put("/f", lambda handler: handler.answer(206, bytes(10), Content_Range=stated)), 0, 10)


def test_ranges_that_are_refused_cost_a_header_and_not_the_file(site: Site, web: Web) -> None:
    with pytest.raises(RangesRefusedError):
        web.span(site.put("/f", whole(bytes(50 << 20))), 5, 20)
    assert web.cost.bytes < 1 << 20


def test_counts_are_apart_and_connections_shared(site: Site, web: Web) -> None:
    one, two = web.apart(), web.apart()
    url = site.put("/p", page(b"hello"))
    one.page(url, "*/*", 100)
    assert (web.cost.requests, one.cost.requests, two.cost.requests) == (0, 1, 0)


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    for broken in (tmp_path / "none.pem", tmp_path / "bad.pem"):
        if broken.name == "bad.pem":
            broken.write_text("not a certificate")
        web = Web(replace(QUICK, certificates=str(broken)))
        with pytest.raises(WebError, match="certificates cannot be used") as error:
            web.page("https://127.0.0.1:9/", "*/*", 100)
        assert "PIP_CERT" in (error.value.ask or "")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not here")
def test_certificates_are_verified_as_configured(tmp_path: Path) -> None:
    """Not at all known, named in PIP_CERT (as a file, as a folder), and of a host that is trusted anyway."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certs" / "own.pem"
    certificate.parent.mkdir()
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=own"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    subprocess.run(
        ["openssl", "rehash", str(certificate.parent)], check=True, capture_output=True, timeout=60
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with running(context) as site:
        url = site.put("/p", page(b"hello"))
        with pytest.raises(WebError, match="CERTIFICATE_VERIFY_FAILED") as error:
            Web(QUICK).page(url, "*/*", 100)
        assert (error.value.cause, error.value.ask) == (
            Cause.UNREACHED, "name the certificate authority in PIP_CERT",
        )  # fmt: skip
        for certificates in (certificate, certificate.parent):
            web = Web(replace(QUICK, certificates=str(certificates)))
            assert web.page(url, "*/*", 100).body == b"hello"
        host = site.url.removeprefix("https://")
        assert Web(replace(QUICK, trusted=frozenset({host}))).page(url, "*/*", 100).body == b"hello"


def test_after_trouble_the_answer_counts(site: Site, web: Web) -> None:
    assert web.page(site.put("/p", first(1, status(500), page(b"x"))), "*/*", 100).body == b"x"
