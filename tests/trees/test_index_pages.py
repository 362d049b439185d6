"""Index pages of both forms, honest and hostile; and which file of a release is meant."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from canserve.trees.index.choose import Choice, NoChoice, choose
from canserve.trees.index.pages import JSON_KIND, File, PageError, parse_page

URL = "https://index.invalid/simple/eng/"
SHA = "ab" * 32
KEYS = ["files", "filename", "url", "hashes", "sha256", "size", "yanked", "core-metadata", "meta"]
PIECES = [b"<a href=", b"'", b'"', b"eng-1.0.tar.gz", b"#sha256=", SHA.encode(), b">", b"</a>", b" "]
PIECES += [b"data-yanked=", b"<base href="]


def page_of(*files: dict[str, object], **meta: object) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1", **meta}, "name": "eng", "files": files}).encode()


def entry(name: str, **more: object) -> dict[str, object]:
    return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": SHA}, **more}


def files_of(*names: str, yanked: frozenset[str] = frozenset()) -> list[File]:
    page = page_of(*(entry(name, yanked=name in yanked) for name in names))
    return list(parse_page(page, JSON_KIND, URL, "eng").files)


def chosen(files: list[File], requirement: str, arch: str | None = None) -> str:
    got = choose(files, Requirement(requirement), arch)
    assert isinstance(got, Choice), got
    return got.file.name


def test_json() -> None:
    page = page_of(
        entry("eng-1.0-1-cp38-abi3-manylinux1_x86_64.whl", size=5, **{"requires-python": ">=3.9"},
              yanked="broken", **{"core-metadata": {"sha256": SHA}}),
        entry("eng-1.0.tar.gz", yanked=True),
        entry("eng-1.0.exe"), entry("other-1.0.tar.gz"), entry("eng-nonsense.whl"),
        {"filename": 3}, {"filename": "eng-2.0.tar.gz"},
    )  # fmt: skip
    offer = parse_page(page, JSON_KIND, URL, "Eng")
    wheel, sdist = offer.files
    assert wheel == File(
        "eng-1.0-1-cp38-abi3-manylinux1_x86_64.whl",
        "https://index.invalid/files/eng-1.0-1-cp38-abi3-manylinux1_x86_64.whl",
        Version("1.0"), (1, ""), ("cp38",), ("manylinux1_x86_64",), SHA, 5, ">=3.9", "broken", SHA,
    )  # fmt: skip
    assert (sdist.is_wheel, sdist.yanked, sdist.size) == (False, "", None)
    assert offer.unusable == 3


def test_html() -> None:
    page = f"""<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.0">
    <base href="https://files.invalid/x/"></head><body>
    <a href="eng-1.0-py3-none-any.whl#sha256={SHA}" data-requires-python="&gt;=3.9"
       data-core-metadata="sha256={SHA}">eng</a>
    <a href="/abs/eng-1.1.tar.gz#md5=1" data-yanked="bad build">x</a>
    <a href="eng-1.2%2Bcu129-py3-none-any.whl" data-yanked>x</a>
    <a>no address</a><a href="notes.txt">x</a>
    """
    wheel, sdist, local = parse_page(page.encode(), "text/html", URL, "eng").files
    assert wheel.url == "https://files.invalid/x/eng-1.0-py3-none-any.whl"
    assert (wheel.sha256, wheel.requires_python, wheel.metadata_sha256) == (SHA, ">=3.9", SHA)
    assert (sdist.url, sdist.sha256, sdist.yanked) == (
        "https://files.invalid/abs/eng-1.1.tar.gz",
        None,
        "bad build",
    )
    assert (str(local.version), local.yanked) == ("1.2+cu129", "")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", JSON_KIND), (b"[]", JSON_KIND), (b"{}", JSON_KIND), (b'{"files": 3}', JSON_KIND),
        (b"\xff", JSON_KIND),
        (b"[" * 100_000, JSON_KIND), (b'{"meta": {"api-version": "2.0"}, "files": []}', JSON_KIND),
        (b'<meta name="pypi:repository-version" content="2.0">', "text/html"),
    ],
)  # fmt: skip
def test_pages_of_unknown_form_are_refused(body: bytes, kind: str) -> None:
    with pytest.raises(PageError):
        parse_page(body, kind, URL, "eng")


@pytest.mark.parametrize(
    "piece", [b"<!--", b"<a ", b"<![CDATA[", b"</", b"<a href='", b"&#", b"<!DOCTYPE [", b"<?"]
)
def test_html_that_never_ends_ends(piece: bytes) -> None:
    start = time.process_time()
    try:
        parse_page(piece * (4_000_000 // len(piece)), "text/html", URL, "eng")
    except PageError as error:
        assert "not a readable index page" in str(error)
    assert time.process_time() - start < 15


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("eng-1.0.tar.gz"),
        lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        ),
        max_leaves=30,
    )
)  # fmt: skip
def test_any_json_gives_files_or_an_error(value: object) -> None:
    for body in (value, {"files": value}, {"files": [value]}):
        try:
            offer = parse_page(json.dumps(body).encode(), JSON_KIND, URL, "eng")
        except PageError:
            continue
        assert all(isinstance(file.version, Version) for file in offer.files)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join))
def test_any_html_gives_files_or_an_error(body: bytes) -> None:
    with contextlib.suppress(PageError):
        parse_page(body, "text/html", URL, "eng")


LINUX = "eng-1.0-cp38-abi3-manylinux1_x86_64.whl"
ARM = "eng-1.0-cp38-abi3-manylinux2014_aarch64.whl"
MAC = "eng-1.0-cp38-abi3-macosx_11_0_arm64.whl"
SDIST = "eng-1.0.tar.gz"


def test_wheels_come_first_and_the_wanted_architecture() -> None:
    files = files_of(SDIST, MAC, ARM, LINUX)
    assert chosen(files, "eng") == LINUX
    assert chosen(files, "eng==1.0", "aarch64") == ARM
    assert chosen(files_of(SDIST, LINUX), "eng", "aarch64") == LINUX
    assert chosen(files_of(SDIST, MAC), "eng") == MAC
    assert chosen(files_of(SDIST), "eng") == SDIST
    pure = "eng-1.0-py3-none-any.whl"
    assert chosen(files_of(SDIST, MAC, pure), "eng", "aarch64") == pure


def test_what_was_chosen_is_said() -> None:
    got = choose(files_of(SDIST, LINUX), Requirement("eng"), "aarch64")
    assert isinstance(got, Choice)
    assert got.notes == (
        f"the release has no wheel for aarch64; its wheel of another architecture {LINUX} is read",
    )
    got = choose(files_of(LINUX, ARM), Requirement("eng"))
    assert isinstance(got, Choice)
    assert got.notes == ("the wheel for x86_64 is read; there are others for aarch64",)


def test_the_highest_build_tag_and_python_win() -> None:
    one, two = "eng-1.0-1-py3-none-any.whl", "eng-1.0-2-py3-none-any.whl"
    assert chosen(files_of("eng-1.0-py3-none-any.whl", two, one), "eng") == two
    ten = "eng-1.0-10-py3-none-any.whl"
    assert chosen(files_of(two, ten), "eng") == ten
    pythons = [f"eng-1.0-cp{v}-cp{v}-manylinux1_x86_64.whl" for v in ("39", "311", "310", "38")]
    assert chosen(files_of(*pythons), "eng") == pythons[1]


def test_versions() -> None:
    files = files_of(
        *(f"eng-{v}.tar.gz" for v in ("0.9", "1.0", "1.1rc1", "1.0.post1", "1.0+cu12", "2.0.dev1"))
    )
    assert chosen(files, "eng") == "eng-1.0.post1.tar.gz"
    assert chosen(files, "eng==1.0") == "eng-1.0+cu12.tar.gz"
    assert chosen(files, "eng==1.1rc1") == "eng-1.1rc1.tar.gz"
    assert chosen(files, "eng>=1.1rc1") == "eng-2.0.dev1.tar.gz"
    assert chosen(files, "eng<1.0") == "eng-0.9.tar.gz"
    assert chosen(files, "eng==0.*") == "eng-0.9.tar.gz"
    assert chosen(files_of("eng-1.0rc1.tar.gz"), "eng") == "eng-1.0rc1.tar.gz"


def test_yanked_files_count_only_for_an_exact_version() -> None:
    files = files_of(LINUX, "eng-0.9.tar.gz", yanked=frozenset({LINUX}))
    assert chosen(files, "eng") == "eng-0.9.tar.gz"
    assert chosen(files, "eng>=0.1") == "eng-0.9.tar.gz"
    got = choose(files, Requirement("eng==1.0"))
    assert isinstance(got, Choice)
    assert got.file.name == LINUX
    assert "is yanked" in got.notes[0]
    nothing = choose(files_of(LINUX, yanked=frozenset({LINUX})), Requirement("eng"))
    assert isinstance(nothing, NoChoice)
    assert "yanked" in nothing.why
    half = files_of(LINUX, ARM, yanked=frozenset({LINUX}))
    assert chosen(half, "eng==1.0") == ARM


def test_a_version_that_is_not_there_has_neighbours() -> None:
    files = files_of(*(f"eng-1.{v}.tar.gz" for v in range(20)))
    got = choose(files, Requirement("eng==1.9.5"))
    assert isinstance(got, NoChoice)
    assert got.near == ("1.7", "1.8", "1.9", "1.10", "1.11", "1.12")
    assert choose(files, Requirement("eng==0.1")).near == ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")  # type: ignore[union-attr]
    assert choose(files, Requirement("eng>3")).near[-1] == "1.19"  # type: ignore[union-attr]
    assert choose([], Requirement("eng==1.0")) == NoChoice("the index has no file of eng", ())
