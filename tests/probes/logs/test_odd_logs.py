"""Logs that look worse, or better, than they are: warnings, one failed request, two deployments, odd wrappings."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from deployment import diagnosed

START = """\
(APIServer pid=1) INFO 11-30 04:27:09 [api_server.py:9] vLLM API server version 0.17.1
(EngineCore pid=44) INFO 11-30 04:27:20 [core.py:7] Initializing a V1 LLM engine (v0.17.1) with config: model='/m'
(Worker_TP0 pid=51) INFO 11-30 04:27:26 [gpu_model_runner.py:2] Starting to load model /m...
"""
WARNINGS = """\
(Worker_TP0 pid=51) WARNING 11-30 04:27:27 [fp8.py:1] FP8 quantization is not supported natively on this GPU.
(Worker_TP0 pid=51) ERROR 11-30 04:27:28 [x.py:3] Failed to import Triton kernels. Error: No module named 'triton_kernels.routing'
(Worker_TP0 pid=51) ERROR 11-30 04:27:28 [fa_utils.py:1] Cannot use FA version 2: only supported on devices with compute capability >= 8
[rank0]:[W1130 04:27:28.4 ProcessGroupNCCL.cpp:9] Warning: WARNING: destroy_process_group() was not called
(Worker_TP0 pid=51) Some weights of Foo were not initialized from the model checkpoint at /m and are newly initialized
warning: failed to mlock 4096-byte buffer (after previously locking 0 bytes): Cannot allocate memory
gpu1:12:34 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v7 symbol.
"""
READY = """\
(Worker_TP0 pid=51) INFO 11-30 04:28:26 [default_loader.py:2] Loading weights took 60.2 seconds
(APIServer pid=1) INFO:     Application startup complete.
"""
SERVED = '(APIServer pid=1) INFO:     10.9.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
REQUEST = """\
(APIServer pid=1) INFO:     10.9.0.1:6 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request
(APIServer pid=1) ERROR 11-30 04:30:10 [serving_chat.py:2] ValueError: This model's maximum context length is 9 tokens.
(APIServer pid=1) ERROR 11-30 04:30:11 [x.py:1] jinja2.exceptions.TemplateError: Conversation roles must alternate
(APIServer pid=1) ERROR 11-30 04:30:12 [hermes_tool_parser.py:1] Error in extracting tool call from response.
"""
OOM = """\
(Worker_TP0 pid=51) ERROR 11-30 04:28:59 [x.py:5] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
BAR = "\r".join(
    f"Loading safetensors checkpoint shards:  {n}% Completed | {n}/9 [00:01<00:01, 1.0it/s]" for n in range(9)
)


@pytest.mark.parametrize("line", WARNINGS.splitlines())
def test_a_warning_alone_fails_no_start(line: str) -> None:
    found = diagnosed(log=START + line + "\n")
    assert (found.state, found.kind) == ("starting", None)


@pytest.mark.parametrize("after", ["", SERVED, REQUEST, SERVED + REQUEST, SERVED + REQUEST + SERVED])
def test_warnings_and_failed_requests_end_no_server(after: str) -> None:
    found = diagnosed(log=START + WARNINGS + READY + after)
    assert (found.state, found.kind) == ("serving", None)


def test_a_server_that_dies_while_serving_has_failed() -> None:
    found = diagnosed(log=START + READY + SERVED + REQUEST + OOM)
    assert (found.state, found.kind) == ("failed", "memory")


def test_a_refused_request_shows_no_living_server() -> None:
    refused = SERVED.replace("200 OK", "500 Internal Server Error")
    plain = "INFO:     Application startup complete.\n" + SERVED + "RuntimeError: CUDA error: out of memory\n"
    assert diagnosed(log=plain + refused).kind == "memory"
    assert diagnosed(log=plain + SERVED).kind is None


def test_another_deployment_that_serves_hides_no_failure() -> None:
    found = diagnosed(a=START + READY.replace("04:28", "04:40") + SERVED, b=START + OOM)
    assert (found.state, found.kind) == ("failed", "memory")


def test_a_health_check_is_no_service() -> None:
    log = "load_tensors: loading model tensors, this can take a while...\nsrv  log_server_r: request: GET /health 127.0.0.1 503\n"
    assert diagnosed(log=log).state == "starting"


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "docker": lambda line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": "2026-11-30T04:27:27Z"}
    ),
    "journald": lambda line: f"Nov 30 04:27:27 box serve[8727]: {line}",
    "journal as JSON": lambda line: json.dumps({"MESSAGE": line, "PRIORITY": "6"}),
    "kubectl --timestamps": lambda line: f"2026-11-30T04:27:27.123456789Z {line}",
    "kubectl --prefix": lambda line: f"[pod/serve-0/engine] 2026-11-30T04:27:27.123456789Z {line}",
    "CRI": lambda line: f"2026-11-30T04:27:27.123456789+00:00 stderr F {line}",
    "compose": lambda line: f"serve-1  | {line}",
    "Windows": lambda line: line + "\r",
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_wrappings_change_nothing(name: str) -> None:
    wrap = WRAPPINGS[name]
    failed = "".join(wrap(line) + "\n" for line in (START + OOM).splitlines())
    served = "".join(wrap(line) + "\n" for line in (START + WARNINGS + READY + SERVED).splitlines())
    assert (diagnosed(log=failed).state, diagnosed(log=failed).kind) == ("failed", "memory")
    assert (diagnosed(log=served).state, diagnosed(log=served).kind) == ("serving", None)


@pytest.mark.parametrize(
    "end",
    [
        BAR + "\n" + OOM,
        BAR + "\r" + OOM,
        BAR + "torch.OutOfMemoryError: CUDA out of memory.\n",
        "torch.OutOfMemoryError: CUDA out of memory.\r" + BAR + "\n",
    ],
)
def test_a_bar_hides_no_error(end: str) -> None:
    assert diagnosed(log=START + end).kind == "memory"
