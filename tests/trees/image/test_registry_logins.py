"""Logging in to registries: who is asked, with what, and that no secret is told."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from canserve.facts import Cause, Missing
from canserve.trees.image.login import login_for
from image_registry import FILES, Shop
from made_images import layer, packed
from web_server import (
    Behaviour,
    Handler,
    moved,
    page,
    running,
    status,
)

SECRET = "hunter2-secret"


def configure(tmp_path: Path, told: object) -> None:
    (tmp_path / "home" / "config.json").write_text(json.dumps(told))


def auth(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    place = tmp_path / "docker-credential-test"
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def token_server(shop: Shop, answer: Behaviour) -> str:
    shop.site.put("/token", answer)
    return f'Bearer realm="{shop.site.url}/token",service="s"'


@pytest.mark.parametrize(
    "answer",
    [status(401), status(403), status(500), status(404), page(b"no", "text/plain"), page(b"[]", "application/json"),
     page(b'{"token": 7}', "application/json"), page(b'{"token": "a\\r\\nX: y"}', "application/json"), moved("/token")],
)  # fmt: skip
def test_token_servers_that_fail(shop: Shop, answer: Behaviour, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"auth": auth("me", SECRET)}}})
    shop.lock("Bearer good", token_server(shop, answer))
    found = shop.missing()
    assert found.cause in {Cause.UNAVAILABLE, Cause.UNREADABLE}
    assert SECRET not in repr(found)
    assert auth("me", SECRET) not in repr(found)


def test_a_token_that_runs_out_is_renewed(shop: Shop) -> None:
    blob, given = packed(layer({**FILES, "x": bytes(range(256)) * 20_000}), "plain"), iter(range(100))
    shop.put([blob])
    allowed: set[str] = set()

    def give(handler: Handler) -> None:
        token = f"t{next(given)}"
        allowed.clear()
        allowed.add(f"Bearer {token}")
        handler.answer(200, json.dumps({"token": token}).encode())

    def once(behaviour: Behaviour) -> Behaviour:
        def behave(handler: Handler) -> None:
            if handler.headers.get("Authorization") in allowed:
                allowed.clear()
                behaviour(handler)
            else:
                handler.answer(401, b"", WWW_Authenticate=f'Bearer realm="{shop.site.url}/token"')

        return behave

    for path, behaviour in list(shop.site.routes.items()):
        shop.site.routes[path] = once(behaviour)
    shop.site.put("/token", give)
    assert shop.open().tree.read("vllm/m7.py") == FILES["vllm/m7.py"]
    assert next(given) > 4, "every request took a new one"


def test_an_identity_token_is_changed_for_one_that_opens(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"identitytoken": SECRET}}})
    shop.lock("Bearer abc", token_server(shop, page(b'{"access_token": "abc"}', "application/json")))
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    asked = next(each for each in shop.site.requests if each.path.startswith("/token"))
    told = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    assert told == {
        "grant_type": "refresh_token", "client_id": "canserve", "refresh_token": SECRET, "service": "s",
        "scope": "repository:me/i:pull",
    }  # fmt: skip
    assert SECRET not in asked.path


def test_a_form_with_a_secret_is_not_sent_on(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"identitytoken": SECRET}}})
    with running() as elsewhere:
        elsewhere.put("/steal", page(b'{"access_token": "abc"}', "application/json"))
        shop.lock("Bearer abc", token_server(shop, moved(f"{elsewhere.url}/steal", 307)))
        assert "307" in shop.missing().why
        assert not elsewhere.requests


@pytest.mark.parametrize(
    "challenge", ['Basic realm="x", Bearer realm="{}/token"', 'Bearer realm="{}/token", Basic realm="x"']
)
def test_of_several_kinds_of_login_a_token_is_taken(shop: Shop, challenge: str) -> None:
    token_server(shop, page(b'{"token": "abc"}', "application/json"))
    shop.lock("Bearer abc", challenge.format(shop.site.url))
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]


@pytest.mark.parametrize(
    "challenge", ["Negotiate", "Bearer", 'Bearer realm="file:///etc/passwd"', 'Bearer realm="http://x"']
)
def test_unknown_kinds_of_login(shop: Shop, challenge: str) -> None:
    shop.lock("never", challenge)
    assert "unknown kind of login" in shop.missing().why


def test_basic_logins(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"auth": auth("me", SECRET)}}})
    shop.lock(f"Basic {auth('me', SECRET)}", 'Basic realm="here"')
    image = shop.open()
    assert image.tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    assert SECRET not in repr(image)
    configure(tmp_path, {"auths": {shop.host: {"auth": auth("me", "wrong")}}})
    assert shop.missing(tag=":1").cause is Cause.UNAVAILABLE


def test_a_store_that_wants_a_login_itself_gets_none(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"auth": auth("me", SECRET)}}})
    with running() as store:
        wanting = status(401, WWW_Authenticate=f'Bearer realm="{store.url}/token"')
        there = store.put("/blob", wanting).replace("127.0.0.1", "localhost")
        shop.site.put(shop.place(shop.blobs[0]), moved(there, 307))
        shop.lock(f"Basic {auth('me', SECRET)}", 'Basic realm="here"')
        assert "401" in shop.missing().why
        assert all("authorization" not in each.headers for each in store.requests)
        assert not any(each.path.startswith("/token") for each in store.requests)


def test_a_token_server_that_is_not_encrypted_gets_nothing(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"auths": {shop.host: {"auth": auth("me", SECRET)}}})
    shop.lock("Bearer abc", 'Bearer realm="http://registry.example/token"')
    assert "not encrypted" in shop.missing().why


# -- where logins are kept


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 60", "did not answer"),
        ("sleep 60 & exec sleep 60", "did not answer"),
        ("echo garbage", "unknown form"),
        ("echo '{\"Username\": 7, \"Secret\": []}'", "unknown form"),
        ("yes garbage", "failed"),
        (f"echo '{SECRET}'; exit 3", "exit code 3"),
        ("kill -9 $$", "failed"),
    ],
)  # fmt: skip
def test_helpers_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    helper(tmp_path, monkeypatch, script)
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "test"}))
    begun = time.monotonic()
    found = login_for("here", {"DOCKER_CONFIG": str(tmp_path)}, patience=0.5)
    assert found.login is None
    assert why in (found.trouble or "")
    assert SECRET not in repr(found)
    assert time.monotonic() - begun < 30, "it is not waited for"


def test_a_helper_that_knows_no_login_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo 'credentials not found in native keychain'; exit 1")
    told = {"credsStore": "test", "auths": {"here": {"auth": auth("me", "file")}}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    found = login_for("here", {"DOCKER_CONFIG": str(tmp_path)}).login
    assert found is not None
    assert found[1].reveal() == "file", "what the file itself holds"
    assert login_for("there", {"DOCKER_CONFIG": str(tmp_path)}).trouble is None


def test_a_helper_gives_an_identity_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, f"""echo '{{"Username": "<token>", "Secret": "{SECRET}"}}'""")
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"here": "test"}}))
    found = login_for("here", {"DOCKER_CONFIG": str(tmp_path)})
    assert found.token is not None
    assert SECRET not in repr(found)


def test_logins_for_a_part_of_a_registry(tmp_path: Path) -> None:
    told = {"auths": {"here": {"auth": auth("all", "1")}, "here/team": {"auth": auth("team", "2")},
                      "https://index.docker.io/v1/": {"auth": auth("hub", "3")}}}  # fmt: skip
    (tmp_path / "auth.json").write_text(json.dumps(told))
    environment = {"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}

    def user(host: str, repository: str) -> str | None:
        found = login_for(host, environment, repository).login
        return found[0].reveal() if found else None

    assert user("here", "team/vllm") == "team"
    assert user("here", "teammate/vllm") == "all"
    assert user("docker.io", "vllm/vllm-openai") == "hub"
    assert user("here.example", "team/vllm") is None


def test_a_file_of_logins_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "folder").mkdir()
    for environment, why in (
        ({"DOCKER_CONFIG": str(tmp_path)}, "is no JSON"),
        ({"REGISTRY_AUTH_FILE": str(tmp_path / "folder")}, "cannot be read"),
    ):
        found = login_for("registry.example", environment)
        assert found.login is None and why in (found.trouble or "")
    assert login_for("registry.example", {"DOCKER_CONFIG": str(tmp_path / "none")}).trouble is None
    both = {"REGISTRY_AUTH_FILE": str(tmp_path / "good.json"), "DOCKER_CONFIG": str(tmp_path)}
    (tmp_path / "good.json").write_text('{"auths": {"registry.example": {"auth": "bWU6cHc="}}}')
    assert login_for("registry.example", both).login is not None


def test_a_broken_login_is_told_where_it_was_needed(shop: Shop, tmp_path: Path) -> None:
    configure(tmp_path, {"credHelpers": {shop.host: "none-such"}})
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"], "nobody asked for a login"
    shop.lock("Bearer abc", token_server(shop, status(401)))
    found: Missing = shop.missing()
    assert "docker-credential-none-such is configured" in (found.ask or "")
