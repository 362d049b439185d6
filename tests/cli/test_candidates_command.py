"""``canserve candidates`` by the real command: registries, hubs, files and environments, judged and ranked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import small_llama
from command import COMMAND, run
from jsonschema import Draft202012Validator

from made_images import PLAIN, config_of, layer, packed, sha
from terminal import on_terminal
from web_server import Site, page, ranged, status

SITE = "usr/lib/python3/dist-packages/"
LISTED = "".join(f'"Other{number}ForCausalLM": ("llama", "X"), ' for number in range(400))
OTHER = f"_TEXT_GENERATION_MODELS = {{{LISTED}}}\n_VLLM_MODELS = {{**_TEXT_GENERATION_MODELS}}\n"
"""A registry as long as those of real releases, without the model's class."""
ON = ("--on", "2xprofile:dgx-spark")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(small_llama.model(tmp_path / "model"))


def candidates(*words: str, cache: Path, code: int) -> dict[str, Any]:
    """The JSON output, which is what its schema says."""
    done = run("candidates", *words, "--format", "json", "--quiet", CANSERVE_CACHE=str(cache))
    assert done.returncode == code, done.stderr + done.stdout[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads(run("schema", "candidates").stdout)
    Draft202012Validator(schema).validate(told)
    return told


def builds(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["verdict"], one["build"]) for one in told["candidates"]]


def engine_files(folder: Path, registry: str | None = None) -> dict[str, bytes]:
    root = small_llama.build(folder)
    files = {
        SITE + str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    if registry is not None:
        files[f"{SITE}vllm/model_executor/models/registry.py"] = registry.encode()
    return files


def put_image(site: Site, name: str, tag: str, layers: list[bytes], architecture: str = "arm64") -> int:
    """An image in the registry; the bytes of its layers."""
    config = config_of(layers, architecture, PLAIN)
    blobs = [packed(each, "gzip") for each in layers]
    for blob in (config, *blobs):
        site.put(f"/v2/{name}/blobs/sha256:{sha(blob)}", ranged(blob))
    told = {
        "schemaVersion": 2,
        "config": {"digest": f"sha256:{sha(config)}", "size": len(config), "mediaType": "x"},
        "layers": [{"digest": f"sha256:{sha(blob)}", "size": len(blob), "mediaType": "x"} for blob in blobs],
    }
    data = json.dumps(told).encode()
    for each in (tag, f"sha256:{sha(data)}"):
        site.put(f"/v2/{name}/manifests/{each}", page(data, "application/vnd.oci.image.manifest.v1+json"))
    return sum(map(len, blobs))


def host(site: Site) -> str:
    return site.url.removeprefix("http://")


def put_tags(site: Site, name: str, *tags: str) -> None:
    site.put(
        f"/v2/{name}/tags/list", page(json.dumps({"name": name, "tags": tags}).encode(), "application/json")
    )


def test_tags_are_judged_and_the_best_decides(site: Site, model: str, tmp_path: Path) -> None:
    good = put_image(site, "me/engine", "0.17.1", [layer(engine_files(tmp_path / "a"))])
    put_image(site, "me/engine", "0.14.0", [layer(engine_files(tmp_path / "b", OTHER))])
    put_image(site, "me/engine", "tools", [layer({"bin/tool": b"x"})])
    put_tags(site, "me/engine", "0.14.0", "0.17.1", "absent", "tools")
    told = candidates(
        model,
        *ON,
        "--no-index",
        "--tags",
        f"docker://{host(site)}/me/engine",
        cache=tmp_path / "cache",
        code=0,
    )
    name = f"docker://{host(site)}/me/engine"
    assert builds(told) == [
        ("yes", f"{name}:0.17.1"),
        ("unknown", f"{name}:absent"),
        ("no", f"{name}:0.14.0"),
    ]
    best, absent, old = told["candidates"]
    assert {each["bytes"] for each in best["travel"].values()} == {good} and len(best["travel"]) == 2
    assert absent["blocking"] is None and "404" in absent["because"]
    assert absent["travel"]["profile:dgx-spark"]["at_most"] is None, "what is not known is not nothing"
    assert old["blocking"] == "architecture-registered" and old["fix"]
    assert told["without_engine"] == [f"{name}:tools"] and told["verdict"] == "yes"


def test_a_search_finds_what_a_registry_then_is_asked_for(site: Site, model: str, tmp_path: Path) -> None:
    put_image(site, "team/spark", "nightly", [layer(engine_files(tmp_path / "a"))])
    rows = [{"repo_name": "team/spark"}, {"repo_name": "team/$(touch pwned)"}, {"repo_name": "x/\x1b[31mred"}]
    found = {"count": 3, "next": None, "results": rows}
    site.put("/v2/search/repositories/", page(json.dumps(found).encode(), "application/json"))
    tags = {"count": 1, "next": None, "results": [
        {"name": "nightly", "last_updated": "2026-03-08T10:00:00Z", "images": [{"architecture": "arm64", "os": "linux"}]}
    ]}  # fmt: skip
    site.put(
        "/v2/namespaces/team/repositories/spark/tags", page(json.dumps(tags).encode(), "application/json")
    )
    (tmp_path / "c.toml").write_text(
        f'[[hub]]\nkind = "docker-hub"\naddress = "{site.url}"\nregistry = "{host(site)}"\n'
        f'[[hub]]\nkind = "quay"\naddress = "{site.url}/quay"\nregistry = "{host(site)}"\n'
    )
    site.put("/quay/api/v1/find/repositories", page(b"<html>busy</html>", "text/html"))
    words = (model, *ON, "--no-index", "--from", str(tmp_path / "c.toml"))
    told = candidates(*words, "--search", "engine spark", cache=tmp_path / "cache", code=0)
    assert builds(told) == [("yes", f"docker://{host(site)}/team/spark:nightly")]
    assert told["candidates"][0]["source"] == "search" and told["candidates"][0]["date"].startswith(
        "2026-03-08"
    )
    (line,) = told["unheard"]
    assert line.startswith("quay ") and "did not answer with JSON" in line
    asked = len(site.requests)
    silent = candidates(*words, cache=tmp_path / "cache", code=3)
    assert silent["candidates"] == [] and len(site.requests) == asked, (
        "no hub is asked unless the user says so"
    )


def test_what_the_user_names_comes_with_its_own_reasons(model: str, tmp_path: Path) -> None:
    good, absent = small_llama.build(tmp_path / "good"), tmp_path / "absent"
    (tmp_path / "c.toml").write_text(f'[[candidate]]\nbuild = "{absent}"\nnote = "on the other disk"\n')
    told = candidates(
        model, *ON, "--no-index", "-b", str(good), "-b", str(good), "--from", str(tmp_path / "c.toml"),
        cache=tmp_path / "cache", code=0,
    )  # fmt: skip
    assert builds(told) == [("yes", str(good)), ("unknown", str(absent))], "named twice, judged once"
    assert told["candidates"][1]["note"] == "on the other disk" and told["candidates"][1]["source"] == "file"


def test_the_release_index_is_asked_as_by_check(model: str, tmp_path: Path) -> None:
    told = candidates(model, *ON, cache=tmp_path / "cache", code=0)
    assert {one["source"] for one in told["candidates"]} == {"index"}
    assert all(each["bytes"] is None for one in told["candidates"] for each in one["travel"].values())
    order = {"yes": 0, "unknown": 1, "no": 2}
    ranks = [order[one["verdict"]] for one in told["candidates"]]
    assert ranks == sorted(ranks) and ranks[0] == 0


def test_too_many_and_too_late_are_said(site: Site, model: str, tmp_path: Path) -> None:
    good = [str(small_llama.build(tmp_path / f"b{number}")) for number in range(4)]
    named = [word for each in good for word in ("-b", each)]
    told = candidates(model, *ON, "--no-index", *named, "--at-most", "3", cache=tmp_path / "cache", code=0)
    assert len(told["candidates"]) == 3 and told["left_out"] == [good[3]]


def test_nothing_but_a_no_is_no_answer_where_not_all_was_heard(
    site: Site, model: str, tmp_path: Path
) -> None:
    put_image(site, "me/engine", "1", [layer(engine_files(tmp_path / "b", OTHER))])
    put_tags(site, "me/engine", "1")
    words: tuple[str, ...] = (model, *ON, "--no-index", "--tags", f"docker://{host(site)}/me/engine")
    assert candidates(*words, cache=tmp_path / "cache", code=1)["verdict"] == "no"
    site.put("/v2/me/busy/tags/list", status(429))
    words = (*words, "--tags", f"docker://{host(site)}/me/busy")
    told = candidates(*words, cache=tmp_path / "cache", code=3)
    assert told["verdict"] == "unknown" and "429" in told["because"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--on"),
        (("--on", "no-such.toml"), "No such file"),
        ((*ON, "--from", "no-such.toml"), "No such file"),
        ((*ON, "--at-most", "0"), "--at-most"),
        ((*ON, "--format", "sarif"), "--format"),
    ],
)
def test_mistakes_of_usage(model: str, words: tuple[str, ...], said: str) -> None:
    done = run("candidates", model, *words)
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr


def test_text_on_a_narrow_terminal_without_colour_and_markdown(
    site: Site, model: str, tmp_path: Path
) -> None:
    put_image(site, "me/engine", "1", [layer(engine_files(tmp_path / "b", OTHER))])
    put_tags(site, "me/engine", "1")
    good = small_llama.build(tmp_path / "\x1b[31m|good")
    words = [
        "candidates", model, *ON, "--no-index", "-b", str(good), "--tags", f"docker://{host(site)}/me/engine",
    ]  # fmt: skip
    own = {"NO_COLOR": "1", "CANSERVE_CACHE": str(tmp_path / "cache")}
    code, text, _ = on_terminal([*COMMAND, *words], environment=own)
    assert code == 0 and "\x1b" not in text
    long = [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]
    assert not long, long
    assert "1 yes" in text and "2 no" in text and "fix:" in text and "architecture-registered:" in text
    done = run(*words, "--format", "md", CANSERVE_CACHE=str(tmp_path / "cache"))
    assert "| 1 | **yes** |" in done.stdout and "\x1b" not in done.stdout and "\\|good" in done.stdout


DOCKER = """#!/bin/sh
case "$1 $2" in
"--version ") echo Docker version 28.3.3;;
"info --format") cat {recorded}/docker.txt;;
"ps --no-trunc") cat {here}/containers.txt;;
"image ls") echo x;;
"image inspect") case $3 in --format) cat {recorded}/docker_images.txt;; *) echo "permission denied" >&2; exit 1;; esac;;
*) echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1;;
esac
"""
"""Answers as recorded, and lets nobody read anything."""


def test_what_a_machine_holds_and_nobody_may_read_is_unknown_with_its_cause(
    root: Path, model: str, tmp_path: Path
) -> None:
    recorded = root / "tests" / "probes" / "host" / "recorded" / "gb10"
    rows = [{"Names": name, "Image": "nvcr.io/nvidia/vllm:26.01-py3", "State": "Up", "Ports": ""}
            for name in ("vllm-head", "x;touch pwned", "\x1b[2J", "-rf", "../../etc")]  # fmt: skip
    (tmp_path / "containers.txt").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER.format(recorded=recorded, here=tmp_path))
    docker.chmod(0o755)
    own = {"PATH": f"{docker.parent}:{os.environ['PATH']}", "CANSERVE_CACHE": str(tmp_path / "cache")}
    checked = json.loads(run("check", model, "--on", "local", "--format", "json", "--quiet", **own).stdout)
    said = next(
        note for note in checked["notes"] if note.startswith("on the machines, and not judged here: ")
    )
    assert "container://vllm-head" in said and "26.01-py3" in said and "canserve candidates" in said
    words = ("candidates", model, "--on", "local", "--no-index", "--quiet")
    done = run(*words, "--format", "json", **own)
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    found = {one["build"]: one for one in told["candidates"] if one["source"] in {"running", "image"}}
    assert len(found) == len(rows) + 4 and {one["verdict"] for one in found.values()} == {"unknown"}
    assert "permission denied" in found["container://vllm-head"]["because"]
    assert "no name of a container" in found["container://x;touch pwned"]["because"]
    (old,) = (one for name, one in found.items() if "26.01-py3" in name)
    assert (
        old["on"] == ["local"]
        and old["travel"]["local"]["bytes"] == 0
        and old["date"].startswith("2026-01-28")
    )
    assert not list(tmp_path.rglob("pwned")) and not (root / "pwned").exists()
    assert "\x1b" not in run(*words, **own).stdout
