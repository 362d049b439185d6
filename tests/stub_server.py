"""A small OpenAI-compatible server that knows the answers, and can be made to err in one way at a time.

It speaks the protocol from its description and knows nothing of canserve but the questions; what it gets wrong is
named by a fault.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWERS = {
    "capital of France": "Paris",
    "Hauptstadt von Österreich": "Wien",
    "capitale de l'Italie": "Rome",
    "capital de España": "Madrid",
    "中国的首都": "北京",
    "日本の首都": "東京",
    "столицей России": "Москва",
    "17 + 25": "42",
    "9 times 8": "72",
    "100 minus 40": "60",
    "2, 4, 6, 8?": "10",
    "days does a week": "7",
    "opposite of hot": "Cold",
    "Repeat exactly": "blue river 7194",
    "how bread is made": "Bread is made of flour and water. The dough is kneaded, and it rests in a warm place. "
    "Yeast makes it rise. It is shaped and baked in a hot oven. Then it cools, and is eaten.",
    "Meer salzig": "Das Meer ist salzig, weil Flüsse Salze von den Steinen in die Meere tragen. Das Wasser "
    "verdunstet, und die Salze bleiben. So ist es seit langer Zeit. Der Regen ist süß. Das Salz bleibt.",
    "四个季节": "一年有四个季节。春天花开、天气变暖。夏天很热、孩子们去游泳。秋天凉爽、叶子变黄。冬天寒冷、常常下雪。",
    "about the sea": "The sea is wide and blue. Its waves never rest.",
    "days of the week": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "Count from 1 to 9": "1, 2, 3, 4, 5, 6, 7, 8, 9",
    "Say hello": "Hello!",
}
THOUGHT = "The user asks something simple. I know this."


@dataclass
class Stub:
    """The server, what is wrong with it, and what it was asked."""

    faults: frozenset[str] = frozenset()
    reasons: bool = False
    """Whether its model thinks before it answers."""
    model: str = "tiny"
    context: int = 4096
    tokens_per_second: float = 2000.0
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    running: int = 0
    held: int = 0
    made: dict[str, int] = field(default_factory=lambda: {"0": 0, "1": 0})
    asked: int = 0
    crowded: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def has(self, fault: str) -> bool:
        return fault in self.faults


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub
    number = 0
    """Of this request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Quiet."""

    def do_GET(self) -> None:
        stub, path = self.stub, self.path.partition("?")[0]
        stub.headers.append({name.lower(): value for name, value in self.headers.items()})
        if stub.has("redirect"):
            self.answer(307, b"", Location="http://127.0.0.1:9/v1/models?token=secret")
        elif stub.has("html"):
            self.answer(200, b"<html>Welcome to nginx</html>", Content_Type="text/html")
        elif stub.has("starting"):
            self.json(503, {"error": {"message": "Loading model", "code": 503}})
        elif stub.has("key") and self.headers.get("Authorization") != "Bearer open-sesame":
            self.json(401, {"error": {"message": "invalid api key"}})
        elif path == "/v1/models":
            name = "another" if stub.has("model") else stub.model
            self.json(
                200, {"object": "list", "data": [{"id": name, "root": name, "max_model_len": stub.context}]}
            )
        elif path == "/health":
            self.answer(200, b"")
        elif path == "/metrics" and not stub.has("no-metrics"):
            body = b"<html>sign in</html>" if stub.has("metrics") else self.metrics().encode()
            self.answer(200, body, Content_Type="text/plain")
        else:
            self.json(404, {"detail": "Not Found"})

    def metrics(self) -> str:
        stub = self.stub
        if stub.held and not stub.has("stale"):
            stub.made["0"] += 5 * stub.held
        lines = [
            f'vllm:num_requests_running{{engine="0",model_name="tiny"}} {float(stub.running + stub.held)}'
        ]
        lines += [
            f'vllm:generation_tokens_total{{engine="{name}",model_name="tiny"}} {float(count)}'
            for name, count in stub.made.items()
        ]
        return "# TYPE vllm:num_requests_running gauge\n" + "\n".join(lines) + "\n"

    def do_POST(self) -> None:
        stub = self.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stub.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.path == "/v1/completions":
            choice = {"index": 0, "text": " there", "finish_reason": "length"}
            self.json(200, {"object": "text_completion", "model": stub.model, "choices": [choice]})
            return
        with stub.lock:
            stub.running += 1
            stub.asked += 1
            self.number = stub.asked
        try:
            self.chat(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            if stub.has("cancel") or stub.has("stale"):
                stub.held += 1
        finally:
            with stub.lock:
                stub.running -= 1

    def chat(self, body: dict[str, Any]) -> None:
        stub, prompt = self.stub, body["messages"][-1]["content"]
        if self.misbehaves(body, prompt):
            return
        tokens = len(prompt.split()) * 4 // 3 + 12
        if tokens + body["max_tokens"] > stub.context:
            self.beyond(tokens, body)
            return
        with stub.lock:
            stub.made[str(self.number % 2 if not stub.has("replica") else 0)] += 8
        reply = Model(stub, self.number).reply(prompt, body)
        if body["stream"]:
            self.stream(reply, body, tokens)
        else:
            self.whole(reply, body, tokens)

    def beyond(self, tokens: int, body: dict[str, Any]) -> None:
        if self.stub.has("too-long"):
            self.answer(500, b"Internal Server Error")
        elif self.stub.has("cut"):
            self.whole(Said("Yes."), body, self.stub.context - 20)
        else:
            why = f"This model's maximum context length is {self.stub.context} tokens, not {tokens}"
            self.json(400, {"error": {"message": why, "type": "BadRequestError", "code": 400}})

    def misbehaves(self, body: dict[str, Any], prompt: str) -> bool:
        """What goes wrong before the model is asked."""
        stub = self.stub
        if (stub.faults & {"crowd", "polite", "batch"} and "Request" in prompt) or stub.has("batch"):
            time.sleep(0.1)  # requests that are sent together are there together
        if stub.has("answers"):
            self.json(500, {"error": {"message": "EngineCore encountered an issue"}})
        elif stub.has("silent") or (stub.has("half") and self.number % 2 == 0):
            time.sleep(30)
        elif stub.has("slow-loris"):
            self.head(200, Content_Type="application/json", Content_Length="100000")
            for _ in range(300):
                self.wfile.write(b" ")
                time.sleep(0.1)
        elif stub.has("garbage"):
            self.answer(200, b"<html>gateway</html>", Content_Type="text/html")
        elif stub.has("huge"):
            self.huge()
        elif (
            stub.has("rank")
            and "capital of France" in prompt
            and "Request" in prompt
            and self.number % 4 == 0
        ):
            time.sleep(30)
        elif stub.has("crowd") and "Say hello" in prompt and stub.running > 3:
            self.close_connection = True
            self.connection.close()
        elif stub.has("dies") and ("Say hello" in prompt or stub.crowded):
            stub.crowded = True
            self.json(500, {"error": {"message": "the engine is dead"}})
        elif stub.has("polite") and "Say hello" in prompt and stub.running > 3:
            self.json(429, {"error": {"message": "too many requests"}})
        elif stub.has("lost") and "Repeat exactly" in prompt:
            self.json(500, {"error": {"message": "index out of range"}})
        elif "tools" in body and stub.has("no-tools"):
            self.json(400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
        elif body.get("logprobs") and stub.has("no-logprobs"):
            self.json(400, {"error": {"message": "logprobs are not supported"}})
        else:
            return False
        return True

    def huge(self) -> None:
        self.head(200, Content_Type="application/json")
        start = b'{"choices":[{"message":{"content":"'
        self.chunk(start)
        for _ in range(120):
            self.chunk(b"a" * (1 << 20))

    def whole(self, reply: Said, body: dict[str, Any], tokens: int) -> None:
        time.sleep(reply.tokens / self.stub.tokens_per_second)
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.call:
            message["tool_calls"] = [{"id": "1", "type": "function", "function": reply.call}]
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish}
        if body.get("logprobs"):
            choice["logprobs"] = self.logprobs(reply)
        self.json(
            200,
            {
                "object": "chat.completion",
                "model": self.stub.model,
                "choices": [choice],
                "usage": {"prompt_tokens": tokens, "completion_tokens": reply.tokens},
            },
        )

    def logprobs(self, reply: Said) -> dict[str, Any]:
        flat = self.stub.has("flat")
        likely = float("nan") if self.stub.has("logprobs") else -11.2 if flat else -0.02
        top = [{"token": "x", "logprob": likely}, {"token": "y", "logprob": -11.3 if flat else -4.5}]
        return {
            "content": [
                {"token": word, "logprob": likely, "top_logprobs": top} for word in reply.text.split()[:8]
            ]
        }

    def stream(self, reply: Said, body: dict[str, Any], tokens: int) -> None:
        stub = self.stub
        if stub.has("buffered"):
            time.sleep(reply.tokens / stub.tokens_per_second)
        self.head(200, Content_Type="text/event-stream")
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        if stub.has("endless"):
            while True:
                self.event({"choices": [{"index": 0, "delta": {"content": "la "}}]})
        brief = stub.has("one-piece") and not reply.call and not body.get("ignore_eos")
        pieces = [{"content": reply.text}] if brief else reply.pieces(stub)
        pace = 0.02 if body["max_tokens"] > 1000 and body.get("ignore_eos") else 1 / stub.tokens_per_second
        for delta in pieces:
            if not stub.has("buffered"):
                time.sleep(pace)
            self.event({"choices": [{"index": 0, "delta": delta}]})
        if not stub.has("no-finish"):
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
        usage = {"prompt_tokens": tokens, "completion_tokens": reply.tokens}
        self.event({"choices": [], "usage": usage})
        if not stub.has("no-done"):
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data: dict[str, Any]) -> None:
        self.chunk(b"data: " + json.dumps({"model": self.stub.model, **data}).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def json(self, code: int, document: object) -> None:
        self.answer(code, json.dumps(document).encode(), Content_Type="application/json")

    def answer(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def head(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()


@dataclass
class Said:
    """What the model says."""

    text: str
    finish: str = "stop"
    reasoning: str = ""
    call: dict[str, str] | None = None

    @property
    def tokens(self) -> int:
        return max(len(self.text.split()) + len(self.reasoning.split()), 1)

    def pieces(self, stub: Stub) -> list[dict[str, Any]]:
        """Deltas, a word each."""
        out: list[dict[str, Any]] = [{"reasoning_content": f"{word} "} for word in self.reasoning.split()]
        out += [{"content": word} for word in re.findall(r"\s*\S+\s*", self.text)]
        if self.call:
            name, arguments = self.call["name"], self.call["arguments"]
            halves = (arguments[:5], arguments[5:])
            out.append({"tool_calls": [{"index": 0, "id": "1", "function": {"name": name, "arguments": ""}}]})
            out += [{"tool_calls": [{"index": 0, "function": {"arguments": half}}]} for half in halves]
        return out


@dataclass
class Model:
    """A model that knows the answers, for better or worse."""

    stub: Stub
    number: int

    def reply(self, prompt: str, body: dict[str, Any]) -> Said:
        has = self.stub.has
        said = self.call(body) if "tools" in body else Said(self.text(prompt, body))
        if body.get("ignore_eos") or (has("runs-on") and not {"tools", "response_format"} & set(body)):
            words = (said.text.split() or ["word"]) * body["max_tokens"]
            said = Said(" ".join(words[: body["max_tokens"]]), "length")
            if has("runs-on") and not body.get("ignore_eos"):
                said.text = (
                    f"{self.text(prompt, body)} and then {' '.join(map(str, range(body['max_tokens'])))}"
                )
        if (stop := body.get("stop")) and not has("stop"):
            said.text = said.text.partition(stop[0])[0]
        if has("turn") and not said.call:
            said.text += "<|im_end|>"
        return self.think(said)

    def think(self, said: Said) -> Said:
        has = self.stub.has
        if has("tags"):
            said.text = f"<think>{THOUGHT}</think>{said.text}"
        elif self.stub.reasons:
            said.reasoning = THOUGHT
            if has("unclosed") and not said.call:
                said.reasoning, said.text = f"{THOUGHT} {said.text}", ""
        return said

    def call(self, body: dict[str, Any]) -> Said:
        has, arguments = self.stub.has, json.dumps({"city": "Paris"})
        name = "get_weather"
        if has("small"):
            return Said("The weather in Paris is nice.")
        if has("tool-text") or (has("tool-stream") and body["stream"]):
            return Said(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')
        if has("tool-lost") and body["stream"]:
            return Said("I shall look at the weather.")
        broken = has("tool-json") and not body["stream"]
        return Said(
            "", "tool_calls", call={"name": name, "arguments": arguments[:-3] if broken else arguments}
        )

    def text(self, prompt: str, body: dict[str, Any]) -> str:
        has = self.stub.has
        if "response_format" in body:
            document = {"city": "Paris", "country": "France", "capital": True}
            return "The city is Paris." if has("schema") else json.dumps(document)
        if (needle := re.search(r"secret number of the lighthouse is (\d+)", prompt)) is not None:
            return self.needle(needle[1], prompt)
        if has("dummy") or has("flat"):
            return "qzx vlorp 81 fnord"
        found = next((answer for question, answer in ANSWERS.items() if question in prompt), "I see.")
        if has("small") and "四个季节" in prompt:
            return f"一年有四个季节{'哈' * 80}"
        if has("small"):  # it knows what the smallest models know, and makes sentences
            known = ("Paris", "7", "Cold")
            return found if found in known or len(found) > 20 else "I think that it is 32."
        if has("wrong"):
            return "purple elephant" if len(found) < 20 else found
        if has("batch") and self.stub.running > 1 and len(found) < 20 and "Request" not in prompt:
            return "purple elephant"
        if has("replica-nonsense") and "Request" in prompt and self.number % 4 == 0:
            return "!" * 60
        if has("warm") and "about the sea" in prompt:
            return (
                f"{('Waves', 'Salt', 'Deep', 'Ships')[self.number % 4]} come to mind. {self.number} of them."
            )
        if has("exclaims") and len(found) > 60:
            return "!" * 200
        if has("loops") and len(found) > 60:
            return "and then we go on " * 40
        if has("drifts") and len(found) > 60:
            return f"{found[:40]} и потом мы идём дальше по дороге, потому что так надо и так будет всегда"
        return found

    def needle(self, number: str, prompt: str) -> str:
        has, size = self.stub.has, len(prompt.split())
        if size < 400:
            return number if not has("weak") else "I do not know."
        if has("needle") or has("weak"):
            return "I do not know."
        return "!!!!!!!!" * 12 if has("long-garbage") and size > 1000 else number


@contextmanager
def serving(*faults: str, port: int = 0, **changes: Any) -> Iterator[Stub]:
    """The server, with these faults."""
    stub = Stub(frozenset(faults), **changes)
    handler = type("StubHandler", (Handler,), {"stub": stub})

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that left is no error."""

    server = Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()


def program(path: Path, *faults: str) -> None:
    """A program that serves at the port that it is told, as an engine does; its folder can be copied elsewhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name("stub_server.py").write_text(Path(__file__).read_text())
    path.write_text(
        "#!/bin/sh\nhere=${0%/*}\nwhile [ $# -gt 0 ]; do case $1 in --port) port=$2;; esac; shift; done\n"
        'echo "vLLM API server version 0.17.1"\n'
        f'exec python3 "$here/stub_server.py" {" ".join(faults)} "$port"\n'
    )
    path.chmod(0o755)


def main() -> None:
    """Serve until it is ended: faults, then the port."""
    with serving(*sys.argv[1:-1], port=int(sys.argv[-1])):
        print("INFO:     Application startup complete.", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
