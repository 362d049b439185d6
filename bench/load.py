"""How many tokens a second the load generator of ``canserve verify`` can take: its own ceiling.

A stub in a process of its own streams answers as fast as it can write them, one token an event, as engines do. What
is measured is then the generator, or the stub if that is slower: its own rate, read by the cheapest reader there is
(bytes counted, nothing parsed), is printed beside it. usage: python bench/load.py [WIDTH ...]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import platform
import socket
import sys
import time
from multiprocessing.connection import Connection

from canserve.checks.served import rates
from canserve.verify.asking import Asker
from canserve.verify.client import Client
from canserve.verify.limits import Clock, Limits
from canserve.verify.speed import Meter
from canserve.verify.target import endpoint

TOKENS = 256
"""Of each answer."""
BATCH = int(os.environ.get("BATCH", "1"))
"""Events in one write: what an engine hands on in one step reaches a busy client like that."""


def _event(delta: dict[str, object], **more: object) -> bytes:
    body = json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub",
                       "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], **more})  # fmt: skip
    data = f"data: {body}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def answer(tokens: int) -> list[bytes]:
    """The writes of one streamed answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    usage = {"prompt_tokens": 12, "completion_tokens": tokens}
    last = json.dumps({"choices": [], "usage": usage}).encode()
    end = b"data: " + last + b"\n\n" + b"data: [DONE]\n\n"
    event = _event({"content": " word"})
    writes = [head] + [event * min(BATCH, tokens - done) for done in range(0, tokens, BATCH)]
    return [*writes, f"{len(end):x}\r\n".encode() + end + b"\r\n0\r\n\r\n"]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = next(
                int(line.split(b":")[1]) for line in head.lower().splitlines() if b"content-length" in line
            )
            body = json.loads(await reader.readexactly(size))
            for data in answer(body["max_tokens"]):
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(0)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _stub(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def plain_rate(port: int, seconds: float = 2.0) -> float:
    """Tokens a second of the stub, read by one bare socket."""
    request = json.dumps({"max_tokens": TOKENS}).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(request)}\r\n\r\n".encode()
    start, tokens = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.monotonic() - start < seconds:
            connection.sendall(head + request)
            held = b""
            while not held.endswith(b"0\r\n\r\n"):
                held = held[-8:] + connection.recv(1 << 20)
            tokens += TOKENS
    return tokens / (time.monotonic() - start)


def main() -> None:
    widths = tuple(map(int, sys.argv[1:])) or (1, 8, 32, 64, 128, 256)
    here, there = multiprocessing.Pipe()
    stub = multiprocessing.Process(target=_stub, args=(there,), daemon=True)
    stub.start()
    port = here.recv()
    limits = Limits(total=600, decode=2 * TOKENS, ramp=widths)
    client = Client(endpoint(f"http://127.0.0.1:{port}"), limits)
    meter = Meter(Asker(client, Clock(limits), "stub"), None, 18.0)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print(f"the stub alone, one bare socket: {plain_rate(port):,.0f} tokens/s")
    for width in widths:
        step = meter.step(width)
        if step is not None:
            print(
                f"{width:4} streams: {rates.throughput(step) or 0:9,.0f} tokens/s, {rates.failed(step)} failed"
            )
    client.close()
    stub.terminate()


if __name__ == "__main__":
    main()
