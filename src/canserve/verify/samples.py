"""Samples of speed in files of other tools, read and written.

Read: what ``bench serve --save-result --save-detailed`` writes (one object a run: ``ttfts``, ``itls``,
``input_lens``, ``output_lens``; with ``--append-result`` one a line), what guidellm writes (``benchmarks``, with
``requests.successful``), and canserve's own. Told apart by their form. Written: the first of these.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from canserve.checks.served import rates
from canserve.subjects.served import Answer, Broken, Reply, Speeds, Step

MAX_BYTES = 256 << 20
"""Largest file that is read."""
_MOST = 1_000_000
"""Requests, and pieces of one, that are read."""


class SamplesError(ValueError):
    """A file that holds no samples of a known form; one line."""


def read_samples(text: str, name: str) -> Speeds:
    """Samples from the text of a file. Raises SamplesError."""
    documents = _documents(text)
    try:
        steps = [step for document in documents for step in _steps(document)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SamplesError(f"not what such a file holds: {type(error).__name__}: {error}"[:200]) from error
    steps = [step for step in steps if step.replies]
    if not steps:
        raise SamplesError("it holds no request that was answered")
    alone = [reply for step in steps if step.concurrency == 1 for reply in step.replies]
    return Speeds(tuple(alone), tuple(alone), (), tuple(steps), "so the file says", imported=name)


def _documents(text: str) -> list[Any]:
    if len(text) > MAX_BYTES:
        raise SamplesError(f"larger than {MAX_BYTES} bytes")
    try:
        return [json.loads(text)]
    except RecursionError as error:
        raise SamplesError("nested too deep") from error
    except ValueError as whole:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [json.loads(line) for line in lines or [""]]
        except (ValueError, RecursionError):
            raise SamplesError(f"not JSON: {whole}"[:200]) from whole


def _steps(document: Any) -> list[Step]:
    if not isinstance(document, dict):
        raise SamplesError("no JSON object")
    forms: Mapping[str, Callable[[dict[str, Any]], list[Step]]] = {
        "ttfts": _bench,
        "benchmarks": _guide,
        "speeds": _own,
    }
    for key, read in forms.items():
        if key in document:
            return read(document)
    if "mean_ttft_ms" in document:
        raise SamplesError("it holds means without the samples: --save-detailed keeps them")
    raise SamplesError("of no form that is known: bench serve, guidellm, canserve verify --format json")


def _bench(run: dict[str, Any]) -> list[Step]:
    """One run of ``bench serve``: seconds to the first token, and between neighbours."""
    firsts, gaps = run["ttfts"][:_MOST], run["itls"]
    prompts, made, errors = run["input_lens"], run["output_lens"], run.get("errors") or [""] * len(firsts)
    replies = [
        Broken(str(errors[n])[:200])
        if errors[n]
        else _answer(_number(firsts[n]), map(_number, gaps[n][:_MOST]), int(prompts[n]), int(made[n]))
        for n in range(len(firsts))
    ]
    width = run.get("max_concurrency") or run.get("max_concurrent_requests") or len(replies)
    return [Step(int(width), _number(run["duration"]), tuple(replies))]


def _answer(first: float, gaps: Iterable[float], prompt: int | None, made: int | None) -> Answer:
    arrivals = tuple(accumulate(gaps, initial=first))
    return Answer(
        "", None, arrivals[-1], prompt_tokens=prompt, completion_tokens=made, arrivals=arrivals, streamed=True
    )


def _guide(report: dict[str, Any]) -> list[Step]:
    """A report of guidellm: benchmarks, each with its requests."""
    return [_guide_step(benchmark) for benchmark in report["benchmarks"][:1000]]


def _guide_step(benchmark: dict[str, Any]) -> Step:
    requests = benchmark["requests"]["successful"][:_MOST]
    failed = benchmark["requests"].get("errored") or []
    replies: list[Reply] = [_guide_request(request) for request in requests]
    replies += [Broken("errored") for _ in failed[:_MOST]]
    starts = [time for request in requests if (time := request.get("request_start_time")) is not None]
    ends = [time for request in requests if (time := request.get("request_end_time")) is not None]
    seconds = max(ends) - min(starts) if starts and ends else _number(benchmark["duration"])
    return Step(_streams(benchmark) or _overlap(starts, ends), seconds, tuple(replies))


def _guide_request(request: dict[str, Any]) -> Answer:
    """Guidellm keeps the first and last token of each request, and how many there were between."""
    first = _number(request["time_to_first_token_ms"]) / 1000
    made = int(request.get("output_tokens") or 0)
    gap = _number(request.get("inter_token_latency_ms") or 0.0) / 1000
    prompt = request.get("prompt_tokens")
    return _answer(first, [gap] * min(max(made - 1, 0), _MOST), int(prompt) if prompt else None, made or None)


def _streams(benchmark: dict[str, Any]) -> int | None:
    """How many streams its strategy keeps busy; None: it does not fix that."""
    for holder in (benchmark.get("config"), benchmark.get("args"), benchmark.get("scheduler")):
        strategy = holder.get("strategy") if isinstance(holder, dict) else None
        if isinstance(strategy, dict):
            if strategy.get("type_") == "synchronous":
                return 1
            if isinstance(strategy.get("streams"), int):
                return int(strategy["streams"])
    return None


def _overlap(starts: Sequence[float], ends: Sequence[float]) -> int:
    """The most requests that ran at one time."""
    changes = sorted([(time, 1) for time in starts] + [(time, -1) for time in ends])
    return max(accumulate(change for _, change in changes), default=1)


def _own(report: dict[str, Any]) -> list[Step]:
    """What ``canserve verify --format json`` prints."""
    samples = (report["speeds"] or {}).get("samples", [])[:_MOST]
    alone = [_sample(each) for each in samples if each["of"] == "decode"]
    steps = [Step(1, sum(reply.seconds for reply in alone), tuple(alone))] if alone else []
    for found in report["speeds"]["ramp"]:
        of = [
            each for each in samples if each["of"] == "ramp" and each["concurrency"] == found["concurrency"]
        ]
        steps.append(Step(int(found["concurrency"]), _number(found["seconds"]), tuple(map(_sample, of))))
    return steps


def _sample(each: dict[str, Any]) -> Reply:
    if not each["answered"]:
        return Broken("not answered", _number(each["seconds"]))
    times = tuple(_number(time) for time in each["arrivals"][:_MOST])
    prompt, made = each["prompt_tokens"], each["completion_tokens"]
    return Answer(
        "",
        None,
        _number(each["seconds"]),
        prompt_tokens=prompt,
        completion_tokens=made,
        arrivals=times,
        streamed=True,
    )


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number < 1e12:  # NaN too
        raise ValueError(f"{value!r:.40} is no time")
    return number


def write_samples(speeds: Speeds, model: str, date: str) -> str:
    """Every step of the ramp in the form of ``bench serve --append-result --save-detailed``: an object a line."""
    steps = speeds.ramp or (Step(1, sum(reply.seconds for reply in speeds.alone), speeds.alone),)
    return "".join(f"{json.dumps(_written(step, model, date))}\n" for step in steps)


def _written(step: Step, model: str, date: str) -> dict[str, Any]:
    answers = [reply for reply in step.replies if isinstance(reply, Answer)]
    prompt = [reply.prompt_tokens or 0 for reply in answers]
    made = [rates.tokens(reply) or 0 for reply in answers]
    gaps = [[later - sooner for sooner, later in pairwise(reply.arrivals)] for reply in answers]
    firsts = [reply.arrivals[0] if reply.arrivals else reply.seconds for reply in answers]
    seconds = step.seconds or 1.0
    paces = [sum(gap) / max(count - 1, 1) for gap, count in zip(gaps, made, strict=True)]
    return {
        "date": date, "endpoint_type": "openai-chat", "backend": "openai-chat", "label": "canserve",
        "model_id": model, "tokenizer_id": model, "num_prompts": len(step.replies), "request_rate": "inf",
        "burstiness": 1.0, "max_concurrency": step.concurrency, "duration": step.seconds,
        "completed": len(answers), "failed": rates.failed(step), "total_input_tokens": sum(prompt),
        "total_output_tokens": sum(made), "request_throughput": len(answers) / seconds, "request_goodput": None,
        "output_throughput": sum(made) / seconds, "total_token_throughput": (sum(made) + sum(prompt)) / seconds,
        "input_lens": prompt, "output_lens": made, "ttfts": firsts, "itls": gaps,
        "generated_texts": ["" for _ in answers], "errors": ["" for _ in answers],
        **_percentiles("ttft", firsts), **_percentiles("tpot", paces),
        **_percentiles("itl", [gap for each in gaps for gap in each]),
        **_percentiles("e2el", [reply.seconds for reply in answers]),
    }  # fmt: skip


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    found = sorted(value * 1000 for value in seconds) or [0.0]
    return {
        f"mean_{name}_ms": statistics.fmean(found),
        f"median_{name}_ms": statistics.median(found),
        f"std_{name}_ms": statistics.pstdev(found),
        f"p99_{name}_ms": found[min(int(0.99 * len(found)), len(found) - 1)],
    }
