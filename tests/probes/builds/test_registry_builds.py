"""Builds in a registry's plain layers: what is found where layers are read from the top one down, and what is not claimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from held_images import BASE, SITE, package
from small_engine import ENGINES

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.build import BuildOptions, Reading, read_build
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from canserve.trees.image.early import Sought
from canserve.trees.web.client import Web
from image_registry import Shop
from made_images import Member, link
from web_server import running

NO_INDEX = Missing(Cause.UNREACHED, "no index here")
WANT = Want(flags=True)
WHOLE = replace(WANT, deep=True)
T = TypeVar("T")
Layers = Sequence[Mapping[str, Member]]


def wheel(name: str, files: Mapping[str, bytes], version: str = "1.2", site: str = SITE) -> dict[str, Member]:
    """An installation with its RECORD."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    told = {**{f"{name}/{path}": data for path, data in files.items()}, f"{info}/METADATA": metadata}
    told[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*told, f"{info}/RECORD")).encode()
    return {f"{site}/{path}": data for path, data in told.items()}


def engine(names: str, version: str = "1.2", site: str = SITE, name: str = "eng") -> dict[str, Member]:
    """The small engine, installed."""
    code = {"__init__.py": b"", "version.py": f'__version__ = "{version}"\n'.encode()}
    return wheel(name, {**code, "registry.py": f"MODELS = [{names}]\n".encode()}, version, site)


def beside(site: str = SITE) -> dict[str, Member]:
    return {**wheel("transformers", {"__init__.py": b""}, "4.57.3", site),
            **wheel("torch", {"__init__.py": b"", "version.py": b"__version__ = '2.9.1'\n"}, "2.9.1", site)}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running() as site:
        yield Shop(site, tmp_path / "cache", Sought(frozenset()))


def read(shop: Shop, layers: Layers, want: Want = WANT) -> Reading:
    shop.put(layers)
    options = BuildOptions(
        cache=Cache(shop.cache), web=Web(pause=lambda _: None), config=NO_INDEX, engines=ENGINES
    )
    return read_build(f"docker://{shop.host}/me/i:1", want, options)


def built(reading: Reading) -> Build:
    assert isinstance(reading.build, Build), reading.build
    return reading.build


def names(reading: Reading) -> list[str]:
    registry = built(reading).registry
    assert isinstance(registry, Known), registry
    return sorted(registry.value)


def known(fact: Fact[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


def cut(reading: Reading) -> bool:
    return any("--deep" in note for note in reading.notes)


def test_an_installation_on_top_is_enough(shop: Shop) -> None:
    reading = read(shop, [BASE, {"usr/lib/x.so": b"x" * 9000}, engine('"Alpha"') | beside()])
    build = built(reading)
    assert cut(reading)
    assert names(reading) == ["Alpha"]
    assert known(build.identity.version) == "1.2"
    assert known(build.transformers.installed) == "4.57.3"
    assert known(build.torch) == "2.9.1"


def test_it_is_the_same_build_read_whole(shop: Shop) -> None:
    layers = [BASE, engine('"Alpha"') | beside()]
    early, whole = read(shop, layers), read(shop, layers, WHOLE)
    assert cut(early)
    assert not cut(whole)
    assert built(early).identity == built(whole).identity
    assert known(built(early).registry) == known(built(whole).registry)


def test_a_patch_above_counts(shop: Shop) -> None:
    patch = {f"{SITE}/eng/registry.py": b'MODELS = ["Patched"]\n'}
    assert names(read(shop, [BASE, engine('"Alpha"') | beside(), patch, {"x.sh": b""}])) == ["Patched"]


def test_a_newer_one_over_an_older_one(shop: Shop) -> None:
    old = {f"{SITE}/.wh.eng-1.2.dist-info": b"", f"{SITE}/eng/.wh.left.py": b""}
    below = engine('"Alpha"') | {f"{SITE}/eng/left.py": b"", f"{SITE}/eng/kept.py": b""} | beside()
    reading = read(shop, [BASE, below, old | engine('"Beta"', "2.0")])
    assert not cut(reading), "something of the older one may be left"
    assert names(reading) == ["Beta"]
    assert known(built(reading).identity.version) == "2.0"


def test_an_editable_install_leads_into_a_lower_layer(shop: Shop) -> None:
    info = f"{SITE}/eng-1.2.dist-info"
    rows = b"__editable__.eng-1.2.pth,,\neng-1.2.dist-info/METADATA,,\n"
    editable: dict[str, Member] = {f"{SITE}/__editable__.eng-1.2.pth": b"/opt/eng\n", f"{info}/RECORD": rows,
                                   f"{info}/METADATA": b"Name: eng\nVersion: 1.2\n"}  # fmt: skip
    reading = read(shop, [BASE, package("opt/eng", '"Gamma"'), beside() | editable])
    assert not cut(reading)
    assert names(reading) == ["Gamma"]
    assert "editable install of /opt/eng" in built(reading).identity.origin


def test_a_source_tree_over_an_installation(shop: Shop) -> None:
    reading = read(shop, [BASE, beside(), package("opt/eng", '"Source"')])
    assert names(reading) == ["Source"]
    above = read(shop, [BASE, engine('"Installed"') | beside(), package("opt/eng", '"Source"')])
    assert names(above) == names(
        read(shop, [BASE, engine('"Installed"') | beside(), package("opt/eng", '"Source"')], WHOLE)
    )


def test_several_pythons(shop: Shop) -> None:
    other = "usr/lib/python3.11/site-packages"
    layers = [BASE, engine('"Old"', "1.1", other) | beside(other), engine('"New"') | beside()]
    early, whole = read(shop, layers), read(shop, layers, WHOLE)
    assert names(early) == names(whole) == ["New"]
    assert any("would not have been seen" in note for note in early.notes)
    assert any("also found" in note and other in note for note in whole.notes)


def test_a_linked_site(shop: Shop) -> None:
    site = "usr/lib/python3.12/site-packages"
    layers: Layers = [
        BASE | {site: link("/opt/packages")},
        engine('"Linked"', site="opt/packages") | beside("opt/packages"),
    ]
    assert names(read(shop, layers)) == ["Linked"]
    through: Layers = [
        BASE | {"opt/packages/README": b"", site: link("/opt/packages")},
        engine('"Through"', site=site) | beside(site),
    ]
    assert names(read(shop, through)) == ["Through"]
    assert names(read(shop, through, WHOLE)) == ["Through"]


def test_no_engine_is_said_only_after_every_layer(shop: Shop) -> None:
    reading = read(shop, [BASE, {"usr/lib/x": b"1"}, beside()])
    assert isinstance(reading.build, Missing)
    assert reading.build.cause is Cause.UNAVAILABLE
    assert "no eng or second in it" in reading.build.why
    shop.put([BASE, {"usr/lib/x": b"1"}, beside()])
    del shop.site.routes[shop.place(shop.blobs[0])]
    broken = read_build(f"docker://{shop.host}/me/i:1", WANT, BuildOptions(
        cache=Cache(shop.cache / "other"), web=Web(pause=lambda _: None), config=NO_INDEX, engines=ENGINES))  # fmt: skip
    assert isinstance(broken.build, Missing)
    assert "404" in broken.build.why, "a layer that cannot be had is not an empty one"


def test_both_engines_are_seen(shop: Shop) -> None:
    together: Layers = [BASE, engine('"Two"', name="second") | engine('"One"') | beside()]
    apart: Layers = [BASE, engine('"Two"', name="second"), engine('"One"') | beside()]
    for layers in (together, apart):
        for want in (WANT, WHOLE):
            notes = " ".join(read(shop, layers, want).notes)
            seen = "also found, and not read: second" in notes
            assert seen or "would not have been seen" in notes, (layers is together, want)
            assert seen == (layers is together or want is WHOLE)


def test_what_a_build_stands_on_costs_no_second_pass_over_a_plain_layer(shop: Shop) -> None:
    triton = wheel("triton", {"__init__.py": b"", "runtime/build.py": b"Failed to find C compiler\n",
                              "backends/nvidia/bin/ptxas": bytes(range(256)) * 4000}, "3.6.0")  # fmt: skip
    base: dict[str, Member] = {
        "etc/ld.so.conf": b"", "etc/os-release": b"PRETTY_NAME='Small'\n", "usr/bin/gcc": b"x" * 5000,
        "start": b"#!/bin/sh\nexec eng\n",
    }  # fmt: skip
    layers: Layers = [base, {**engine("'A'"), **beside(), **triton}]
    shop.put(layers, Entrypoint=["/start"], Env=["NCCL_SOCKET_IFNAME=eth0"])
    bare = read_again(shop, replace(WANT, gpu_code=True), "bare")
    full = read_again(shop, replace(WANT, gpu_code=True, stack=True), "full")
    assert full.cost.bytes == bare.cost.bytes > 0
    stack = built(full).stack
    assert isinstance(stack.pins, Known) and stack.pins.value == {"NCCL_SOCKET_IFNAME": "eth0"}
    assert isinstance(stack.started, Known)
    script = stack.started.value.script
    assert isinstance(script, Missing) and script.cause is Cause.UNREACHED  # it may be in what was not read
    assert all(
        isinstance(fact := getattr(stack, name), Missing) and fact.cause is Cause.UNREACHED
        for name in ("c_compiler", "system", "libc", "nvcc", "ninja", "cuda_compat")
    )
    assert isinstance(stack.triton, Known)
    assert stack.triton.value is not None
    (assembler,) = stack.triton.value.assemblers
    assert isinstance(assembler.version, Missing) and assembler.version.ask == "add --deep"
    deep = built(read_again(shop, replace(WHOLE, gpu_code=True, stack=True), "deep")).stack
    assert isinstance(deep.c_compiler, Known) and deep.c_compiler.value == "usr/bin/gcc"
    assert isinstance(deep.system, Known) and deep.system.value == "Small"
    assert isinstance(deep.started, Known) and isinstance(deep.started.value.script, Known)


def read_again(shop: Shop, want: Want, cache: str) -> Reading:
    options = BuildOptions(
        cache=Cache(shop.cache / cache), web=Web(pause=lambda _: None), config=NO_INDEX, engines=ENGINES
    )
    return read_build(f"docker://{shop.host}/me/i:1", want, options)
