"""From what a user names to a build: releases, files, folders, addresses, and what is none of these."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_engine import CODE, ENGINES, installed, lay, library, package

from archives import tarred, wheel_files, zipped
from canserve.engines.sources import Sources
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, TransformersTable, Want
from canserve.trees.cache import Cache
from canserve.trees.index.pages import JSON_KIND
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.tree import Cost
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from made_images import Layout, docker_archive, layer
from web_server import Site, page, ranged, whole

T = TypeVar("T")
QUICK = Settings(timeout=1.0, patience=2.0, retries=0)
SITE = "lib/python3.12/site-packages"
PACKAGE = {f"eng/{name}": text for name, text in CODE.items()}
WHEEL = zipped(wheel_files("eng", "1.2", {**PACKAGE, "eng/kernels.so": "k" * 1000}, ("transformers>=4,<5",)))
NAME = "eng-1.2-cp38-abi3-manylinux_2_28_x86_64.whl"


class Table:
    """Releases of transformers, by version only."""

    def __init__(self, *versions: str) -> None:
        self.versions: Sequence[str] = versions

    def config_types(self, version: str) -> frozenset[str]:
        return frozenset()

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        return None

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        return None

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        return ()

    def yanked(self, version: str) -> bool:
        return False

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        return None

    def gguf_architectures(self, version: str) -> frozenset[str]:
        return frozenset()

    def evidence(self, version: str) -> Evidence:
        return Evidence("table", version, "")


@pytest.fixture
def options(tmp_path: Path) -> BuildOptions:
    return BuildOptions(
        cache=Cache(tmp_path / "cache"), engines=ENGINES, config=PipConfig(settings=QUICK),
        table=Known(Table("4.0.0", "4.57.3")),
    )  # fmt: skip


def built(target: str, options: BuildOptions) -> Build:
    got = read_build(target, Want(), options).build
    assert isinstance(got, Build), got
    return got


def known(fact: Fact[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


def indexed(site: Site, options: BuildOptions, data: bytes = WHEEL, name: str = NAME) -> BuildOptions:
    """Options with an index that offers one file."""
    digest = hashlib.sha256(data).hexdigest()
    entry = {"filename": name, "url": f"/f/{name}", "hashes": {"sha256": digest}, "size": len(data)}
    body = json.dumps({"meta": {"api-version": "1.0"}, "files": [entry]}).encode()
    site.put("/simple/eng/", page(body, JSON_KIND))
    site.put(f"/f/{name}", ranged(data))
    return replace(options, config=PipConfig((f"{site.url}/simple",), (), QUICK))


@pytest.mark.parametrize("target", ["eng==1.2", "eng", "Eng>=1,<2", "eng[extra]==1.2", " eng == 1.2 "])
def test_a_release(site: Site, options: BuildOptions, target: str) -> None:
    reading = read_build(target, Want(), indexed(site, options))
    build = reading.build
    assert isinstance(build, Build)
    identity = build.identity
    assert identity.subject == target.strip()
    assert (identity.engine, known(identity.version)) == ("eng", "1.2")
    assert identity.origin == "wheel on the package index, read by byte ranges"
    assert known(identity.content) == f"sha256:{hashlib.sha256(WHEEL).hexdigest()}"
    assert known(identity.platforms) == ("manylinux_2_28_x86_64",)
    assert known(identity.requires_python) == ">=3.9"
    assert known(identity.requires) == ("transformers>=4,<5",)
    assert isinstance(build.registry, Known)
    assert set(build.registry.value) == {"Alpha", "Beta"}
    assert known(build.transformers.requirement) == "<5,>=4"
    assert isinstance(build.transformers.installed, Missing)
    assert known(build.transformers.candidates()) == ("4.0.0", "4.57.3")
    assert reading.cost.requests == len(site.requests) > 0


def test_a_second_reading_asks_for_nothing_not_even_the_index(site: Site, options: BuildOptions) -> None:
    with_index = indexed(site, options)
    first = read_build("eng==1.2", Want(), with_index)
    site.requests.clear()
    again = replace(with_index, web=Web(QUICK), cache=Cache(options.cache.folder.parent))
    second = read_build("eng==1.2", Want(), again)
    assert second.cost == Cost()
    assert site.requests == []
    assert isinstance(first.build, Build)
    assert isinstance(second.build, Build)
    assert second.build.registry == first.build.registry
    offline = read_build("eng==1.2", Want(), replace(with_index, offline=True))
    assert isinstance(offline.build, Build)
    assert offline.cost == Cost()


def test_a_release_where_ranges_are_refused(site: Site, options: BuildOptions) -> None:
    data = zipped(wheel_files("eng", "1.2", {**PACKAGE, "eng/x.so": os.urandom(90_000).hex()}))
    told: list[str] = []
    with_index = replace(indexed(site, options, data), tell=told.append)
    site.put(f"/f/{NAME}", whole(data))
    reading = read_build("eng==1.2", Want(), with_index)
    assert isinstance(reading.build, Build)
    assert "downloaded whole" in reading.build.identity.origin
    assert reading.cost.whole_downloads == 1
    assert told


def test_a_release_as_a_source_distribution(site: Site, options: BuildOptions) -> None:
    info = "Metadata-Version: 2.1\nName: eng\nVersion: 1.2\n"
    data = tarred(
        {**package("eng-1.2"), "eng-1.2/PKG-INFO": info, "eng-1.2/requirements.txt": "transformers\n"}
    )
    reading = read_build("eng==1.2", Want(), indexed(site, options, data, "eng-1.2.tar.gz"))
    build = reading.build
    assert isinstance(build, Build)
    assert known(build.identity.platforms) == ("any",)
    assert known(build.transformers.requirement) == ""
    assert "source distribution" in reading.notes[0]


def test_a_release_that_is_not_there(site: Site, options: BuildOptions) -> None:
    missing = read_build("eng==9", Want(), indexed(site, options)).build
    assert isinstance(missing, Missing)
    assert (missing.cause, missing.why) == (Cause.UNAVAILABLE, "the index has no eng ==9; nearest: 1.2")


@pytest.mark.parametrize(
    ("target", "ask"), [("eng==abc", "write eng==VERSION"), ("engg==1.2", "did you mean eng==1.2?")]
)
def test_a_name_without_a_version_is_not_corrected_into_itself(
    options: BuildOptions, target: str, ask: str
) -> None:
    found = read_build(target, Want(), options).build
    assert isinstance(found, Missing) and (found.ask or "").startswith(ask)


def test_a_local_wheel(tmp_path: Path, options: BuildOptions) -> None:
    (tmp_path / NAME).write_bytes(WHEEL)
    for target in (str(tmp_path / NAME), (tmp_path / NAME).as_uri(), f"eng @ {tmp_path / NAME}"):
        build = built(target, options)
        assert known(build.identity.content) == f"sha256:{hashlib.sha256(WHEEL).hexdigest()}"
        assert known(build.identity.platforms) == ("manylinux_2_28_x86_64",)
        assert build.identity.origin == "wheel"
    (tmp_path / NAME).write_bytes(WHEEL[:-4])
    broken = read_build(str(tmp_path / NAME), Want(), options).build
    assert isinstance(broken, Missing)
    assert broken.cause is Cause.UNREADABLE


def test_a_digest_is_remembered_until_the_file_changes(tmp_path: Path, options: BuildOptions) -> None:
    path = tmp_path / NAME
    for data in (WHEEL, zipped(wheel_files("eng", "1.3", PACKAGE))):
        path.write_bytes(data)
        for _ in range(2):
            assert (
                known(built(str(path), options).identity.content)
                == f"sha256:{hashlib.sha256(data).hexdigest()}"
            )


def test_an_address(site: Site, options: BuildOptions) -> None:
    url = site.put(f"/nightly/{NAME}", ranged(WHEEL))
    build = built(url, options)
    assert known(build.identity.version) == "1.2"
    assert isinstance(build.identity.content, Missing)
    digest = hashlib.sha256(WHEEL).hexdigest()
    assert known(built(f"{url}#sha256={digest}", options).identity.content) == f"sha256:{digest}"
    secret = read_build(f"{url.replace('//', '//me:hunter2@')}x?key=t0ken", Want(), options)
    assert isinstance(secret.build, Missing)
    assert "hunter2" not in repr(secret.build)
    assert "t0ken" not in repr(secret.build)


def test_a_virtual_environment(tmp_path: Path, options: BuildOptions) -> None:
    lay(tmp_path / "venv", {
        "pyvenv.cfg": "", **package(SITE), **installed(SITE, "eng", "1.2", ("transformers<5",)),
        **library(SITE, "transformers", "4.57.3"), **library(SITE, "torch", "2.9.1"),
    })  # fmt: skip
    build = built(str(tmp_path / "venv"), options)
    assert known(build.transformers.installed) == "4.57.3"
    assert known(build.transformers.candidates()) == ("4.57.3",)
    assert known(build.torch) == "2.9.1"
    assert known(build.identity.platforms) == ("manylinux_2_28_aarch64", "manylinux_2_28_x86_64")
    assert isinstance(build.identity.content, Missing)


def recorded(files: dict[str, str]) -> str:
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    return "".join(lines)


def test_transformers_that_are_no_release_are_read_live(tmp_path: Path, options: BuildOptions) -> None:
    """A development version; a release whose files were changed; but not a release as it was published."""
    live, asked = Table("live"), list[str]()

    def read_table(sources: Sources, version: str) -> Fact[TransformersTable]:
        assert sources.has("transformers/models/auto/configuration_auto.py")
        asked.append(version)
        return Known(live)

    auto = {"transformers/models/auto/configuration_auto.py": "CONFIG_MAPPING_NAMES = {}\n"}
    for number, (version, record, expected) in enumerate([
        ("5.0.0.dev0", recorded(auto), ["5.0.0.dev0"]),
        ("4.57.3", recorded(auto), []),
        ("4.57.3", recorded(dict.fromkeys(auto, "other")), ["4.57.3"]),
        ("4.57.3", "", ["4.57.3"]),
    ]):  # fmt: skip
        root = tmp_path / str(number)
        lay(root, {
            "pyvenv.cfg": "", **package(SITE), **installed(SITE, "eng", "1.2"), **library(SITE, "transformers", version),
            **{f"{SITE}/{path}": text for path, text in auto.items()},
            f"{SITE}/transformers-{version}.dist-info/RECORD": record,
        })  # fmt: skip
        asked.clear()
        build = built(str(root), replace(options, read_table=read_table))
        assert asked == expected
        table = build.transformers.table
        assert isinstance(table, Known)
        assert ("live" in table.value.versions) == bool(expected)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("docker://vllm/x", "names no registry"),
        ("oci-archive:x.tar", "no such file"),
        ("oci:", "no such file"),
    ],
)
def test_images_that_cannot_be_opened(options: BuildOptions, target: str, why: str) -> None:
    missing = read_build(target, Want(), options).build
    assert isinstance(missing, Missing)
    assert why in missing.why


def test_what_is_not_there_or_no_file(tmp_path: Path, options: BuildOptions) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, why in (
        ("nothing", "no such file"),
        ("./nothing", "no such file"),
        ("second", "no index"),
        ("", "no eng or second"),
        (str(tmp_path / "pipe"), "neither a file nor a folder"),
        ("/dev/null", "neither a file nor a folder"),
        ("x" * 5000, "name too long"),
        ("a\0b", "null"),
        ("http://[", "invalid"),
        ("file://[", "invalid"),
        ("http://", "not encrypted"),
        (str(tmp_path), "no eng or second in it"),
    ):
        missing = read_build(target, Want(), options).build
        assert isinstance(missing, Missing), target
        assert why in missing.why.lower(), target
        assert missing.why.isprintable()


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60)
    | st.from_regex(r"(eng|second|x)?(\[a\])? ?(==|>=|@|~=|!=)? ?[0-9./a-z*+:-]{0,12}", fullmatch=True)
)
def test_any_text_is_a_build_or_a_reason(target: str) -> None:
    options = BuildOptions(
        offline=True, engines=ENGINES, config=PipConfig(("https://index.invalid/simple",), (), QUICK)
    )
    if (
        target.strip() in {"", "/", ".", "..", "~", "./", "../"}
        or Path(target.strip().lstrip("@ ") or "/").is_dir()
    ):
        return
    reading = read_build(target, Want(), options)
    assert isinstance(reading.build, Missing)
    assert reading.build.why.isprintable()
    assert reading.cost == Cost()


def test_a_saved_image_is_not_taken_for_a_folder_of_files(tmp_path: Path) -> None:
    blob = layer({"usr/bin/python3": b""})
    layout = Layout(tmp_path / "layout")
    layout.add(layout.image([blob]))
    archive = docker_archive(tmp_path / "saved.tar", [blob])
    for target, scheme in ((layout.root, "oci"), (archive, "docker-archive")):
        got = read_build(str(target), Want(), BuildOptions(engines=ENGINES, offline=True)).build
        assert isinstance(got, Missing) and got.ask == f"name it as one: {scheme}:{target}"
