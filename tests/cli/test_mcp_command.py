"""``canserve mcp``, driven by the SDK's own client over a pipe and over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import small_llama
import tiny
from command import COMMAND, environment, run
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from canserve.mcp.folding import BUDGET
from canserve.render.schemas import SHAPES, schema_text
from canserve.store.journal import Journal
from loopback import free_port
from made_plans import environment as programs
from made_plans import made, refused, saved, server, written

READING = {"check", "candidates", "plan", "since", "model", "build", "machine", "diagnose", "verify", "status", "logs", "explain"}  # fmt: skip
CHANGING = {"up", "down", "adopt", "distribute"}
MOST = BUDGET * 2
"""Characters of a whole reply: the answer, and what is said of it."""
LOG = """\
INFO 11-30 10:00:00 [api_server.py:1] vLLM API server version 0.17.1
INFO 11-30 10:00:01 [core.py:58] Initializing a V1 LLM engine (v0.17.1)
ERROR 11-30 10:00:09 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.
"""


@asynccontextmanager
async def over_pipe(*options: str, **changes: str) -> AsyncIterator[Client]:
    started = StdioServerParameters(
        command=COMMAND[0], args=["mcp", *options], env=environment(**changes), cwd=Path.cwd()
    )
    async with Client(started, read_timeout_seconds=300) as client:
        yield client


async def asked(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call that is answered; its text says the same as its structure, and both fit."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, said(result)
    assert json.loads(said(result)) == result.structured_content
    assert len(said(result)) < MOST, tool
    found: dict[str, Any] = result.structured_content
    return found


def said(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_a_client_checks_plans_and_diagnoses_over_a_pipe(tmp_path: Path) -> None:
    build, model = small_llama.build(tmp_path / "venv"), small_llama.model(tmp_path / "model")
    log = tmp_path / "engine.log"
    log.write_text(LOG)

    async def talk() -> None:
        async with over_pipe() as client:
            good = await asked(client, "check", model=str(model), builds=[str(build)], offline=True)
            assert good["result"]["builds"][0]["engine"] == "vllm"
            bad = await asked(
                client, "check", model=str(tiny.model(tmp_path / "other")), builds=[str(build)], offline=True
            )
            assert bad["verdict"] == "no"
            recipe = tmp_path / "serve.sh"
            recipe.write_text(f"vllm serve {model} --no-such-flag 1\n")
            wrong = await asked(client, "check", recipe=str(recipe), builds=[str(build)], offline=True)
            assert "line 1: --no-such-flag does not exist" in wrong["because"]
            first = bad["result"]["builds"][0]["findings"][0]
            assert first["verdict"] == "no"
            assert first["fix"]
            proof = await asked(client, "explain", address=first["evidence"]["folded"])
            assert {"subject", "how", "saw", "when", "whole"} <= proof["result"][0].keys()
            (read,) = (await client.read_resource(first["evidence"]["folded"])).contents
            assert isinstance(read, TextResourceContents)
            assert json.loads(read.text) == proof["result"]
            plan = await asked(client, "plan", model=str(model), on=["profile:h200"], builds=[str(build)], tp=1, offline=True)  # fmt: skip
            assert plan["result"]["plans"][0]["layout"]["tp"] == 1
            found = await asked(client, "diagnose", path=str(log))
            assert found["verdict"] == "no"
            assert "out of memory" in found["result"]["cause"]["text"]
            same = await asked(client, "diagnose", text=LOG)
            assert same["result"]["because"] == found["result"]["because"]

    anyio.run(talk)


def test_what_is_listed_is_small_and_says_what_it_changes() -> None:
    async def talk() -> None:
        async with over_pipe() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == READING | CHANGING
            sizes = {name: len(tool.model_dump_json(exclude_none=True)) for name, tool in tools.items()}
            assert sum(sizes.values()) < 30_000, sizes
            for name, tool in tools.items():
                Draft202012Validator.check_schema(tool.input_schema)
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is True
                assert ("only shows them" in (tool.description or "")) == (name in CHANGING)
            addresses = [resource.uri for resource in (await client.list_resources()).resources]
            for address in addresses:
                (content,) = (await client.read_resource(address)).contents
                assert isinstance(content, TextResourceContents)
                if address.startswith("canserve://schema/"):
                    name = address.rpartition("/")[2]
                    assert name in SHAPES
                    assert content.text == schema_text(name)
        async with over_pipe("--allow-changes") as client:
            for tool in (await client.list_tools()).tools:
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is (tool.name in READING)
                assert tool.annotations.destructive_hint is (tool.name in CHANGING)

    anyio.run(talk)


def test_what_is_asked_wrongly_is_answered(tmp_path: Path) -> None:
    async def talk() -> None:
        async with over_pipe() as client:
            for tool, arguments, words in (
                ("check", {}, "no model"),
                ("model", {}, "model: Field required"),
                ("check", {"model": "x", "tp": 2}, "tp: Extra inputs are not permitted"),
                ("check", {"model": "x", "on": "profile:nonsense"}, "hint: canserve machine --list"),
                (
                    "plan",
                    {"model": "x", "on": ["local"], "engine_args": ["api_key=verysecret"]},
                    "is a secret",
                ),
                ("diagnose", {}, "one of path, text and run"),
                ("verify", {"run": "0a0b0c0d"}, "no run 0a0b0c0d"),
                ("verify", {}, "one of url and run"),
                ("diagnose", {"path": str(tmp_path / "none\x1b[2J")}, "\\x1b[2J"),
                ("explain", {"address": "canserve://answers/9/x"}, "not kept"),
                ("explain", {"address": "file:///etc/passwd"}, "no address"),
                ("up", {}, "no plan"),
                ("up", {"approve": "0" * 16}, "--allow-changes"),
            ):
                result = await client.call_tool(tool, arguments)
                assert result.is_error, tool
                assert words in said(result), said(result)
                assert "verysecret" not in said(result)

    anyio.run(talk)


def test_changes_are_shown_and_run_only_when_allowed_and_approved(tmp_path: Path) -> None:
    """A deployment here goes up and down again: each by two calls."""
    state, port = str(tmp_path / "state"), free_port()
    plan = str(saved(tmp_path / "plan.json", [server("local", port)], build=programs(tmp_path, "vllm")))
    data = {"CANSERVE_DATA": str(tmp_path / "data")}

    async def talk() -> None:
        async with over_pipe(**data) as client:
            shown = await asked(client, "up", plan=plan, state=state)
            assert "approve" not in shown
            assert "--allow-changes" in shown["next"]
            assert shown["result"]["state"] == "dry-run"
            assert shown["result"]["steps"][0]["line"]
        assert not Path(state).exists()
        async with over_pipe("--allow-changes", **data) as client:
            shown = await asked(client, "up", plan=plan, state=state)
            word = shown["approve"]
            assert not Path(state).exists()
            assert (await client.call_tool("down", {"approve": word})).is_error
            started = await asked(client, "up", approve=word)
            assert started["verdict"] == "yes", started
            assert started["result"]["run"] == shown["result"]["run"]
            assert (await client.call_tool("up", {"approve": word})).is_error
            run = started["result"]["run"]
            assert (await asked(client, "status", state=state))["verdict"] == "yes"
            assert (
                "ready on"
                in (await asked(client, "logs", run=run, state=state))["result"]["lines"][-1]["text"]
            )
            leaving = await asked(client, "down", run=run, state=state)
            assert (await asked(client, "status", state=state))["verdict"] == "yes"
            gone = await asked(client, "down", approve=leaving["approve"])
            assert gone["verdict"] == "yes"
            assert (await asked(client, "status", state=state))["result"]["runs"] == []

    anyio.run(talk)


def test_up_goes_on_to_the_next_plan_as_the_command_does(tmp_path: Path) -> None:
    """Of three plans one says no, one fails and one serves; what was shown is what is run first."""
    where, other = programs(tmp_path, "vllm"), programs(tmp_path / "other", "vllm")
    state, data, port = tmp_path / "state", tmp_path / "data", free_port()
    plans = [
        made([server("local", port)], build=where, findings=refused("it lacks the class")),
        made([server("local", free_port(), "--fail")], build=where),
        made([server("local", port)], build=other),
    ]
    plan = str(written(tmp_path / "plan.json", plans))

    async def talk() -> None:
        async with over_pipe("--allow-changes", CANSERVE_DATA=str(data)) as client:
            shown = await asked(client, "up", plan=plan, state=str(state))
            assert f"3. {other} on local; tries=1" in shown["next"]
            assert not state.exists()
            done = await asked(client, "up", approve=shown["approve"])
            assert done["verdict"] == "yes", done
            states = [one["state"] for one in done["result"]["candidates"]]
            assert states == ["refused", "failed", "up"]
            runs = [one["run"] for one in done["result"]["candidates"]]
            assert runs[1] == shown["result"]["run"] and runs[2] == done["result"]["run"]
            leaving = await asked(client, "down", run=runs[2], state=str(state))
            assert (await asked(client, "down", approve=leaving["approve"]))["verdict"] == "yes"
            only = await asked(client, "up", plan=plan, state=str(state), tries=1)
            assert "next plan" not in only["next"]
            done = await asked(client, "up", approve=only["approve"])
            assert done["verdict"] == "no"
            assert [one["state"] for one in done["result"]["candidates"]] == [
                "refused",
                "failed",
                "left-over",
            ]

    anyio.run(talk)
    assert [path.name for path in state.iterdir() if not path.name.startswith("audit-")] == []


def test_a_call_that_is_given_up_is_taken_away(tmp_path: Path) -> None:
    """``up`` of an engine that never answers, cancelled by the client: as with Ctrl-C."""
    state = tmp_path / "state"
    where = programs(tmp_path, "vllm")
    (Path(where) / "bin" / "vllm").write_text("#!/bin/sh\necho waiting\nsleep 100000\n")
    plan = str(saved(tmp_path / "plan.json", [server("local", free_port())], build=where))
    data = tmp_path / "data"

    async def talk() -> None:
        async with over_pipe("--allow-changes", CANSERVE_DATA=str(data)) as client:
            shown = await asked(client, "up", plan=plan, state=str(state))
            kept, run = Journal(data), shown["result"]["run"]
            with anyio.fail_after(500):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "up", {"approve": shown["approve"]})
                    while not any(one.name == "start" and one.ended for one in kept.steps(run)):
                        await anyio.sleep(0.2)
                    group.cancel_scope.cancel()
                while kept.runs()[0].ended is None:
                    await anyio.sleep(0.2)
            assert kept.runs()[0].why == "interrupted"

    anyio.run(talk)
    assert [path.name for path in state.iterdir() if not path.name.startswith("audit-")] == []


@dataclass
class Served:
    address: str
    token: str
    process: subprocess.Popen[str]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The server over HTTP on a free port."""
    token = tmp_path / "token"
    process = subprocess.Popen(
        [*COMMAND, "mcp", "--http", "--port", "0", "--token-file", str(token)],
        stderr=subprocess.PIPE, text=True, env=environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("http://127.0.0.1:"), line
        assert token.stat().st_mode & 0o777 == 0o600
        assert token.read_text().strip() not in line
        yield Served(line.split(" ")[0], token.read_text().strip(), process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        process.stderr.close()


def test_a_client_checks_plans_and_diagnoses_over_http(served: Served, tmp_path: Path) -> None:
    build, model = small_llama.build(tmp_path / "venv"), small_llama.model(tmp_path / "model")

    async def talk() -> None:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=300) as http:
            transport = streamable_http_client(served.address, http_client=http)
            async with Client(transport, read_timeout_seconds=300) as client:
                good = await asked(client, "check", model=str(model), builds=[str(build)], offline=True)
                assert good["result"]["builds"][0]["engine_version"] == "0.25.1"
                plan = await asked(client, "plan", model=str(model), on=["profile:h200"], builds=[str(build)], offline=True)  # fmt: skip
                assert plan["verdict"] in ("yes", "unknown")
                found = await asked(client, "diagnose", text=LOG)
                assert found["verdict"] == "no"

    anyio.run(talk)


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Authorization": "Basic nonsense"}, 401),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "elsewhere.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
    ],
)
def test_requests_of_others_are_refused(served: Served, headers: dict[str, str], status: int) -> None:
    usual = {"Authorization": f"Bearer {served.token}", **ACCEPT}
    reply = httpx2.post(served.address, json=HELLO, headers={**usual, **headers}, timeout=60)
    assert reply.status_code == status, reply.text
    assert served.token not in reply.text


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a" * 40)
    token.chmod(0o644)
    done = run("mcp", "--http", "--port", "0", "--token-file", str(token))
    assert done.returncode == 2
    assert "others can read it" in done.stderr
    token.chmod(0o600)
    token.write_text("short")
    done = run("mcp", "--http", "--port", "0", "--token-file", str(token))
    assert "holds no token" in done.stderr


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no', name='mcp')\n")
    done = run("mcp", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "mcp is not installed" in done.stderr
    assert "canserve[mcp]" in done.stderr


def test_other_commands_do_not_load_it() -> None:
    code = (
        "import sys; sys.argv = ['canserve', '--help']\nfrom canserve.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'mcp', 'pydantic', 'anyio', 'canserve.mcp'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] in ("[]", "['canserve.mcp']")
