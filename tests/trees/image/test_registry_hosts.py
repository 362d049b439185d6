"""Where an image is had from: mirrors, hosts without encryption, authorities of single hosts, as engines are configured."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from canserve.facts import Cause
from canserve.trees.image.hosts import BlockedError, Endpoint, endpoints
from canserve.trees.image.registry import reference
from image_registry import FILES, Shop
from web_server import running, status

NOWHERE: Mapping[str, str] = {}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def places(
    root: Path, host: str = "reg.example", repository: str = "team/vllm", **environment: str
) -> list[tuple[str, str]]:
    return [(each.host, each.repository) for each in endpoints(host, repository, environment, root)]


def test_without_configuration_the_registry_itself_is_asked(tmp_path: Path) -> None:
    assert endpoints("reg.example", "a", NOWHERE, tmp_path) == (Endpoint("reg.example", "a"),)
    assert Endpoint("reg.example", "a").bases == ("https://reg.example/v2/a",)
    assert Endpoint("127.0.0.1:5000", "a").bases[0] == "http://127.0.0.1:5000/v2/a"
    assert Endpoint("reg.example", "a", insecure=True).bases == (
        "https://reg.example/v2/a",
        "http://reg.example/v2/a",
    )
    assert reference("docker://docker.io/busybox:1").base == "https://registry-1.docker.io/v2/library/busybox"
    assert (
        reference("docker://docker.io/vllm/vllm-openai").base
        == "https://registry-1.docker.io/v2/vllm/vllm-openai"
    )


def test_mirrors_of_containers_registries(tmp_path: Path) -> None:
    write(tmp_path / "etc/containers/registries.conf", """
unqualified-search-registries = ["other.example"]
[[registry]]
prefix = "reg.example/team"
location = "moved.example/new/team"
[[registry]]
location = "reg.example"
[[registry.mirror]]
location = "near.example:5000/proxy"
insecure = true
[[registry.mirror]]
location = "pinned.example"
pull-from-mirror = "digest-only"
[[registry]]
prefix = "*.corp.example"
insecure = true
[[registry]]
location = "bad.example"
blocked = true
""")  # fmt: skip
    assert places(tmp_path, repository="vllm") == [
        ("near.example:5000", "proxy/vllm"), ("pinned.example", "vllm"), ("reg.example", "vllm")]  # fmt: skip
    found = endpoints("reg.example", "vllm", NOWHERE, tmp_path)
    assert [each.insecure for each in found] == [True, False, False]
    assert [each.tags for each in found] == [True, False, True]
    assert [each.mirror for each in found] == [True, True, False]
    assert places(tmp_path) == [("moved.example", "new/team/vllm")], "the longest prefix"
    assert places(tmp_path, repository="teammate/vllm")[-1] == ("reg.example", "teammate/vllm")
    assert endpoints("a.corp.example", "x", NOWHERE, tmp_path) == (Endpoint("a.corp.example", "x", True),)
    with pytest.raises(BlockedError):
        endpoints("bad.example", "x", NOWHERE, tmp_path)


def test_the_users_own_file_counts_before_the_systems(tmp_path: Path) -> None:
    one = '[[registry]]\nlocation = "reg.example"\n[[registry.mirror]]\nlocation = "{}"\n'
    write(tmp_path / "etc/containers/registries.conf", one.format("system.example"))
    assert places(tmp_path)[0][0] == "system.example"
    write(tmp_path / "etc/containers/registries.conf.d/50.conf", one.format("dropped.example"))
    assert places(tmp_path)[0][0] == "dropped.example"
    write(tmp_path / "me/.config/containers/registries.conf", one.format("mine.example"))
    assert places(tmp_path, HOME=str(tmp_path / "me"))[0][0] == "mine.example"
    named = write(tmp_path / "named.conf", one.format("named.example"))
    assert (
        places(tmp_path, HOME=str(tmp_path / "me"), CONTAINERS_REGISTRIES_CONF=str(named))[0][0]
        == "named.example"
    )


def test_what_docker_is_configured_for(tmp_path: Path) -> None:
    told = {"registry-mirrors": ["https://hub.example", "http://plain.example:5000/"],
            "insecure-registries": ["lab.example:5000", "10.1.0.0/16"]}  # fmt: skip
    write(tmp_path / "etc/docker/daemon.json", json.dumps(told))
    found = endpoints("docker.io", "vllm/vllm-openai", NOWHERE, tmp_path)
    assert [(each.host, each.insecure, each.mirror) for each in found] == [
        ("hub.example", False, True), ("plain.example:5000", True, True), ("docker.io", False, False)]  # fmt: skip
    assert places(tmp_path) == [("reg.example", "team/vllm")], "Docker's mirrors are of Docker Hub"
    insecure = {host: endpoints(host, "x", NOWHERE, tmp_path)[-1].insecure for host in (
        "lab.example:5000", "lab.example", "10.1.2.3:5000", "10.1.2.3", "10.2.0.1")}  # fmt: skip
    assert list(insecure.values()) == [True, False, True, True, False]


def test_authorities_of_a_host(tmp_path: Path) -> None:
    write(tmp_path / "etc/docker/certs.d/reg.example:5000/ca.crt", "x")
    assert endpoints("reg.example:5000", "a", NOWHERE, tmp_path)[0].authority == str(
        tmp_path / "etc/docker/certs.d/reg.example:5000"
    )
    assert endpoints("reg.example", "a", NOWHERE, tmp_path)[0].authority is None


@pytest.mark.parametrize("text", ["", "[[registry", "registry = 7", "[[registry]]\nprefix = 7\nmirror = 7", "[registry]\nx = 1",
                                  '[[registry]]\nlocation = "reg.example"\n[[registry.mirror]]\nlocation = "a b\\n"'])  # fmt: skip
def test_broken_configuration_counts_as_none(tmp_path: Path, text: str) -> None:
    write(tmp_path / "etc/containers/registries.conf", text)
    write(tmp_path / "etc/docker/daemon.json", text)
    assert places(tmp_path)[-1] == ("reg.example", "team/vllm")
    assert all("\n" not in host for host, _ in places(tmp_path))


def mirrored(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *mirrors: str) -> None:
    lines = [f'[[registry.mirror]]\nlocation = "{mirror}"' for mirror in mirrors]
    told = "\n".join([f'[[registry]]\nlocation = "{shop.host}"', *lines])
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(write(tmp_path / "registries.conf", told)))


def test_a_mirror_spares_the_registry(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as near, running() as empty:
        near.routes = dict(shop.site.routes)
        mirrored(shop, tmp_path, monkeypatch, empty.url[7:], near.url[7:])
        image = shop.open()
        assert image.tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
        assert not shop.site.requests
        assert f"mirror {empty.url[7:]} did not serve it" in image.notes[0]


def test_mirrors_that_fail_are_passed_by(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as broken, running() as gone:
        broken.put("/v2/me/i/manifests/1", status(500))
        dead = gone.url[7:]
    mirrored(shop, tmp_path, monkeypatch, dead)
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    shop.site.routes.clear()
    assert "404" in shop.missing().why, "what the registry itself says"


def test_a_login_stays_with_its_registry(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auths = {shop.host: {"auth": "bWU6c2VjcmV0"}}
    write(tmp_path / "home/config.json", json.dumps({"auths": auths}))
    shop.lock("Basic bWU6c2VjcmV0", 'Basic realm="x"')
    with running() as mirror:
        mirror.put("/v2/me/i/manifests/1", status(401, WWW_Authenticate='Basic realm="x"'))
        mirrored(shop, tmp_path, monkeypatch, mirror.url[7:])
        assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
        assert all("authorization" not in each.headers for each in mirror.requests)


def test_a_blocked_registry_is_not_asked(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = f'[[registry]]\nlocation = "{shop.host}"\nblocked = true'
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(write(tmp_path / "r.conf", told)))
    assert "blocks the registry" in shop.missing().why
    assert not shop.site.requests


# -- encryption


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Signed by nobody but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, made = tmp_path / "key.pem", tmp_path / "ca.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", made, "-days", "2",
         "-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, made


def encrypted(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    return context


@pytest.fixture
def secure(shop: Shop, certificate: tuple[Path, Path]) -> Iterator[Shop]:
    """The same registry over TLS."""
    with running(encrypted(certificate)) as site:
        there = Shop(site, shop.cache, shop.sought)
        there.put([FILES])
        yield there


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: Shop) -> None:
    found = secure.missing()
    assert found.cause is Cause.UNREACHED
    assert "CERTIFICATE_VERIFY_FAILED" in found.why
    assert f"certs.d/{secure.host}/ca.crt" in (found.ask or "")
    assert not secure.site.requests


def test_an_authority_of_its_own(secure: Shop, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    folder = tmp_path / "home/.config/containers/certs.d" / secure.host
    write(folder / "ca.crt", certificate[1].read_text())
    assert secure.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    write(folder / "ca.crt", "no certificate")
    assert "certificates cannot be used" in Shop(secure.site, tmp_path / "other", secure.sought).missing().why


def test_a_host_that_is_named_insecure(secure: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = f'[[registry]]\nlocation = "{secure.host}"\ninsecure = true'
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(write(tmp_path / "r.conf", told)))
    assert secure.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
