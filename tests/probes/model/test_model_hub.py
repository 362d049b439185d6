"""Models on the Hub: what travels, what does not, and how each refusal reads."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_hub import COMMIT, Hub, Reply, Repository, refuse, serve
from model_making import header_of, known, missing, safetensors, small_gguf
from test_model_places import snapshot

from canserve.facts import Cause, Missing
from canserve.probes.model import Options, read_model
from canserve.subjects.model import Model
from canserve.trees.tree import Cost

CONFIG = json.dumps({"architectures": ["QwenForCausalLM"], "model_type": "qwen"}).encode()
BIG = safetensors({"w": ("F32", (1_000_000,))})
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve() as running:
        running.repositories["org/name"] = Repository({"config.json": CONFIG, "model.safetensors": BIG})
        yield running


def read(hub: Hub, spec: str = "org/name", **more: Any) -> Model:
    options = {"endpoint": hub.endpoint, "cache": Path("/nonexistent"), "pause": 0.01, **more}
    return read_model(spec, Options(**options))


def run(script: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh process: huggingface_hub reads its environment when it is imported."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_model_on_the_hub(hub: Hub) -> None:
    model = read(hub)
    assert model.origin == "hub"
    assert known(model.revision) == COMMIT
    assert known(model.architectures) == ("QwenForCausalLM",)
    assert known(model.parameters).by_dtype == {"F32": 1_000_000}
    assert known(model.processor) is None
    assert known(model.files) == ("config.json", "model.safetensors")


def test_only_headers_of_weights_travel(hub: Hub) -> None:
    hub.repositories["org/name"].large = frozenset({"model.safetensors"})
    model = read(hub)
    assert known(model.parameters).total == 1_000_000
    assert hub.sent < 110_000 < len(BIG)
    assert hub.paths().count("/cdn/org/name/model.safetensors") == 1
    assert [r.range for r in hub.requests if "/cdn/" in r.path] == ["bytes=0-99999"]


def test_requests_are_few(hub: Hub) -> None:
    files = hub.repositories["org/name"].files
    files.update(dict.fromkeys(["tokenizer.json", "tokenizer.model", "vocab.json", "README.md"], b"x" * 5000))
    files.update(
        {"tokenizer_config.json": b"{}", "generation_config.json": b"{}", "preprocessor_config.json": b"{}"}
    )
    read(hub)
    assert sorted(path.rsplit("/", 1)[-1] for path in hub.paths()) == [
        "config.json", "generation_config.json", "main", "model.safetensors", "preprocessor_config.json",
        "tokenizer_config.json"]  # fmt: skip


def test_empty_files_are_not_asked_for(hub: Hub) -> None:
    hub.repositories["org/name"].files["chat_template.jinja"] = b""
    assert known(read(hub).chat_template) == ""
    assert not [path for path in hub.paths() if path.endswith(".jinja")]


def test_a_file_that_is_larger_than_its_size_said_is_read_whole_or_refused(hub: Hub) -> None:
    siblings = [{"rfilename": "config.json", "size": 5}]
    hub.repositories["org/name"].info = {"siblings": siblings}
    assert known(read(hub).architectures) == ("QwenForCausalLM",)
    hub.repositories["org/name"].files["config.json"] = CONFIG + b" " * (3 << 20)
    assert known(read(hub).architectures) == ("QwenForCausalLM",)


def test_the_token_goes_to_the_hub_and_not_to_other_hosts(hub: Hub) -> None:
    hub.repositories["org/name"].large = frozenset({"model.safetensors"})
    script = (
        "import sys; from canserve.probes.model import Options, read_model;"
        "print(read_model('org/name', Options(endpoint=sys.argv[1])).parameters)"
    )
    environment = {**os.environ, "HF_TOKEN": "hf_secret", "HF_HOME": "/nonexistent"}
    environment.pop("HF_HUB_OFFLINE", None)
    done = run(script, environment, hub.endpoint)
    assert "1000000" in done.stdout, done.stderr
    assert {r.authorization for r in hub.requests if "/cdn/" not in r.path} == {"Bearer hf_secret"}
    assert {r.authorization for r in hub.requests if "/cdn/" in r.path} == {None}
    assert "hf_secret" not in done.stdout + done.stderr
    assert not [path for path in hub.paths() if "harness" in path or "telemetry" in path]


def test_the_endpoint_and_offline_are_huggingface_hubs(hub: Hub) -> None:
    script = "from canserve.probes.model import read_model; print(read_model('org/name').architectures)"
    environment = {**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_HOME": "/nonexistent"}
    environment.pop("HF_HUB_OFFLINE", None)
    done = run(script, environment)
    assert "QwenForCausalLM" in done.stdout, done.stderr
    asked = len(hub.requests)
    environment["HF_HUB_OFFLINE"] = "1"
    done = run(script, environment)
    assert "not in the Hub's cache" in done.stdout, done.stderr
    assert len(hub.requests) == asked


def test_offline_makes_no_attempt(hub: Hub) -> None:
    assert missing(read(hub, offline=True).config).cause is Cause.UNREACHED
    assert not hub.requests


@pytest.mark.parametrize("revision", ["main", "refs/pr/1", COMMIT])
def test_revisions(hub: Hub, revision: str) -> None:
    assert known(read(hub, f"org/name@{revision}").revision) == COMMIT


def test_sharded_headers_are_read_together(hub: Hub) -> None:
    tensors = [{f"l{n}.{i}.w": ("BF16", (1,)) for i in range(3000)} for n in (1, 2)]
    index = {
        "weight_map": {name: shard for part, shard in zip(tensors, SHARDS, strict=True) for name in part}
    }
    assert len(header_of(tensors[0])) > 100_000
    hub.repositories["org/name"] = Repository(
        {
            "config.json": CONFIG,
            "model.safetensors.index.json": json.dumps(index).encode(),
            **{name: safetensors(part) for name, part in zip(SHARDS, tensors, strict=True)},
        }
    )
    assert known(read(hub).parameters).total == 6000
    assert [hub.paths().count(f"/org/name/resolve/{COMMIT}/{shard}") for shard in SHARDS] == [1, 1]


def test_a_header_longer_than_the_first_read_is_fetched_in_two(hub: Hub) -> None:
    many = {f"some.long.name.of.a.tensor.{i}.weight": ("BF16", (1,)) for i in range(3000)}
    hub.repositories["org/name"].files["model.safetensors"] = safetensors(many)
    assert known(read(hub).parameters).total == 3000
    assert hub.paths().count(f"/org/name/resolve/{COMMIT}/model.safetensors") == 2


def test_a_renamed_repository_is_followed_and_told(hub: Hub) -> None:
    hub.repositories["org/new"] = hub.repositories.pop("org/name")

    def moved(path: str, _count: int) -> Reply | None:
        old = "/api/models/org/name/revision/main"
        return Reply(307, headers={"Location": "/api/models/org/new/revision/main"}) if path == old else None

    hub.override = moved
    model = read(hub)
    assert known(model.architectures) == ("QwenForCausalLM",)
    assert any("now calls it org/new" in look.saw for look in model.revision.evidence)


GATED = refuse(403, "GatedRepo", "Access to model org/name is restricted")
REFUSALS: list[tuple[str, Reply, Cause, str, str]] = [
    ("/api/", refuse(401, "RepoNotFound", "x"), Cause.UNAVAILABLE, "no such repository", "check the name"),
    ("/api/", refuse(401, "", "Invalid credentials"), Cause.UNAVAILABLE, "Invalid credentials", "log in"),
    ("/api/", refuse(404, "RepoNotFound", "x"), Cause.UNAVAILABLE, "no such repository", "check the name"),
    ("/api/", refuse(404, "RevisionNotFound", "x"), Cause.UNAVAILABLE, "no such revision", "after @"),
    (
        "/api/",
        refuse(403, "", "Access to this resource is disabled."),
        Cause.UNAVAILABLE,
        "disabled",
        "log in",
    ),
    ("/api/", refuse(451, "", "legal"), Cause.UNAVAILABLE, "answered 451", ""),
    ("/api/", Reply(429, headers={"Retry-After": "30"}), Cause.UNREACHED, "rate limit", "wait 30 s"),
    ("/api/", Reply(429, headers={"Retry-After": "\x1b[2J"}), Cause.UNREACHED, "rate limit", "wait and try"),
    ("/api/", Reply(500), Cause.UNREACHED, "answered 500", "later"),
    ("/api/", Reply(503, headers={"Retry-After": "86400"}), Cause.UNREACHED, "answered 503", "later"),
    ("/api/", Reply(200, b"<html>log in to the network</html>"), Cause.UNREADABLE, "not JSON", "log-in page"),
    ("/api/", Reply(200, b"[]"), Cause.UNREADABLE, "names no commit", ""),
    ("/api/", Reply(200, b'{"sha": "../../x"}'), Cause.UNREADABLE, "names no commit", ""),
    ("/api/", Reply(200, b'{"a":' * 100_000), Cause.UNREADABLE, "nested deeper", ""),
    ("/api/", Reply(302, headers={"Location": "file:///etc/passwd"}), Cause.UNREACHED, "", "reachable"),
    ("/api/", Reply(302, headers={"Location": "http://[broken"}), Cause.UNREACHED, "", "reachable"),
    ("config.json", GATED, Cause.UNAVAILABLE, "gated", "accept its terms"),
    ("config.json", refuse(401, "GatedRepo", "x"), Cause.UNAVAILABLE, "gated", "hf auth login"),
    ("config.json", refuse(404, "EntryNotFound", "x"), Cause.UNAVAILABLE, "no such file", ""),
    ("config.json", Reply(502), Cause.UNREACHED, "answered 502", "later"),
]


@pytest.mark.parametrize(("place", "reply", "cause", "why", "ask"), REFUSALS)
def test_refusals(hub: Hub, place: str, reply: Reply, cause: Cause, why: str, ask: str) -> None:
    hub.override = lambda path, _count: reply if place in path else None
    begin = time.monotonic()
    lost = missing(read(hub).config)
    assert time.monotonic() - begin < 3  # no Retry-After is slept through
    asked = [path for path in hub.paths() if place in path]
    assert len(asked) == (3 if reply.status >= 500 or not why else 1)  # what will not change is asked once
    assert (lost.cause, why in lost.why, ask in str(lost.ask)) == (cause, True, True), lost


def test_a_redirect_without_end_ends(hub: Hub) -> None:
    hub.override = lambda path, _count: Reply(302, headers={"Location": path})
    assert missing(read(hub).config).cause is Cause.UNREACHED
    assert len(hub.requests) < 100


def test_a_refused_file_breaks_only_what_it_would_say(hub: Hub) -> None:
    hub.override = lambda path, _count: GATED if "/resolve/" in path else None
    model = read(hub)
    assert known(model.revision) == COMMIT
    assert known(model.files) == ("config.json", "model.safetensors")
    assert known(model.weight_format) == "safetensors"
    for fact in (model.config, model.architectures, model.parameters):
        assert "gated" in missing(fact).why


def test_passing_faults_are_tried_again(hub: Hub) -> None:
    hub.override = lambda _path, count: Reply(503) if count < 2 else None
    assert known(read(hub).architectures) == ("QwenForCausalLM",)


def test_nothing_listens(hub: Hub) -> None:
    lost = missing(read(hub, endpoint="http://127.0.0.1:9").config)
    assert lost.cause is Cause.UNREACHED
    assert "reachable" in str(lost.ask)


def test_an_unreachable_hub_leaves_the_cache(hub: Hub, tmp_path: Path) -> None:
    snapshot(tmp_path)
    model = read(hub, endpoint="http://127.0.0.1:9", cache=tmp_path)
    assert known(model.architectures) == ("A",)
    assert "not the Hub: " in model.revision.evidence[0].saw


def test_a_slow_answer_meets_the_deadline(hub: Hub) -> None:
    hub.override = lambda path, _count: Reply(200, b"x" * 100_000, delay=0.2) if "/api/" in path else None
    begin = time.monotonic()
    lost = missing(read(hub, deadline=1.0).config)
    assert (lost.cause, "no whole answer" in lost.why) == (Cause.UNREACHED, True)
    assert time.monotonic() - begin < 5


def test_after_the_deadline_nothing_more_is_asked(hub: Hub) -> None:
    hub.override = lambda path, _count: Reply(200, b"x" * 9000, delay=0.2) if "/resolve/" in path else None
    begin = time.monotonic()
    model = read(hub, deadline=0.5)
    assert "within 0.5 s" in missing(model.config).why
    assert "within 0.5 s" in missing(model.parameters).why
    assert len(hub.requests) <= 3
    assert time.monotonic() - begin < 3


def test_cost_and_progress_are_told(hub: Hub) -> None:
    asked: list[str] = []
    costs: list[Cost] = []
    read(hub, progress=asked.append, spent=costs.append)
    assert asked == ["api/models/org/name", "config.json", "model.safetensors"]
    total = sum(costs, Cost())
    assert (total.requests, total.bytes) == (len(hub.requests), hub.sent)


def test_a_password_in_the_endpoint_is_not_shown(hub: Hub) -> None:
    model = read(hub, endpoint=hub.endpoint.replace("//", "//me:hunter2@"))
    assert known(model.architectures) == ("QwenForCausalLM",)
    assert "hunter2" not in repr(model)
    lost = missing(read(hub, endpoint="http://me:hunter2@127.0.0.1:9").config)
    assert "hunter2" not in repr(lost)


def test_silence_meets_the_timeout(hub: Hub) -> None:
    hub.override = lambda path, _count: Reply(200, b"x", delay=2) if "/api/" in path else None
    begin = time.monotonic()
    assert missing(read(hub, timeout=0.2, deadline=2.0).config).cause is Cause.UNREACHED
    assert time.monotonic() - begin < 4


def test_a_server_without_ranges_is_left_after_the_header(hub: Hub) -> None:
    hub.ranges = False
    hub.repositories["org/name"].files["model.safetensors"] = safetensors({"w": ("U8", (200_000_000,))})
    model = read(hub)
    assert known(model.parameters).total == 200_000_000
    assert hub.sent < 20_000_000


def test_a_server_without_ranges_and_a_far_offset_is_refused(hub: Hub) -> None:
    from canserve.probes.model.hub_client import HubClient

    hub.ranges = False
    client = HubClient("x", Options(endpoint=hub.endpoint))
    url = f"{hub.endpoint}/org/name/resolve/{COMMIT}/model.safetensors"
    assert client.get(url, "w", 1000, 1010) == BIG[1000:1010]
    lost = client.get(url, "w", 3_000_000, 3_000_010)
    assert isinstance(lost, Missing)
    assert "byte ranges" in lost.why


def test_a_server_that_answers_another_range_is_not_believed(hub: Hub) -> None:
    reply = Reply(206, b"x" * 10, {"Content-Range": "bytes 5-14/100"})
    hub.override = lambda path, _count: reply if "config.json" in path else None
    assert "another range" in missing(read(hub).config).why


def test_compressed_answers_are_neither_asked_for_nor_unpacked(hub: Hub) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    reply = Reply(200, bomb, {"Content-Encoding": "gzip"})
    hub.override = lambda path, _count: reply if "config.json" in path else None
    assert "compresses" in missing(read(hub).config).why
    assert {request.encoding for request in hub.requests} == {"identity"}


def test_an_endless_answer_is_cut(hub: Hub) -> None:
    hub.override = lambda path, _count: Reply(200, b" " * 40_000_000) if "/api/" in path else None
    assert "larger than" in missing(read(hub).config).why
    hub.override = lambda path, _count: Reply(200, b" " * 40_000_000) if "config.json" in path else None
    assert "larger than" in missing(read(hub).config).why


SIBLINGS: list[Any] = [
    None, {}, "x", [5], [{"rfilename": "../../etc/passwd", "size": 5}], [{"rfilename": 5}],
    [{"rfilename": "a\x1b[2J"}], [{"rfilename": "config.json", "size": "big"}],
]  # fmt: skip


@pytest.mark.parametrize("siblings", SIBLINGS)
def test_odd_file_lists_are_holes(hub: Hub, siblings: Any) -> None:
    hub.repositories["org/name"].info = {"siblings": siblings}
    model = read(hub)
    assert known(model.revision) == COMMIT
    assert "/etc/passwd" not in " ".join(hub.paths())
    assert "passwd" not in str(model.files)
    assert isinstance(model.files, Missing) or not model.files.evidence[0].whole or known(model.files)


def test_a_truncated_upload_is_seen_by_its_size(hub: Hub) -> None:
    hub.repositories["org/name"].files["model.safetensors"] = BIG[:1000]
    assert "truncated" in missing(read(hub).parameters).why


def test_a_gguf_repository(hub: Hub) -> None:
    hub.repositories["org/gguf"] = Repository(
        {
            "m-Q4_K_M.gguf": small_gguf(),
            "BF16/m-BF16.gguf": small_gguf(file_type=32),
            "mmproj.gguf": small_gguf("clip"),
        }
    )
    model = read(hub, "org/gguf")
    assert known(model.gguf_architecture) == "qwen3"
    assert "2 GGUF models" in missing(model.parameters).why
    for spec, name in (
        ("org/gguf:Q4_K_M", "Q4_K_M"), ("org/gguf:bf16", "BF16"), ("org/gguf/m-Q4_K_M.gguf", "Q4_K_M"),
        ("org/gguf/BF16/m-BF16.gguf@main", "BF16"),
    ):  # fmt: skip
        one = read(hub, spec)
        assert known(one.parameters).total == 16448, spec
        assert known(one.quantization).declared == name
        assert one.subject == spec
    lost = missing(read(hub, "org/gguf:Q9").parameters)
    assert "no such GGUF file" in lost.why
    assert "m-Q4_K_M" in str(lost.ask)
