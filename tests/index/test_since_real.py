"""`since` over the shipped index says of a release what the checks say of it: a sample at every run."""

from __future__ import annotations

import datetime
import random

import pytest

from canserve.api.released import since
from canserve.checks.architecture import REGISTERED
from canserve.checks.case import Case
from canserve.checks.quantization.registered import REGISTERED as QUANTIZED
from canserve.facts import Known
from canserve.index import indexed_build, projects, release_history
from canserve.index.names import Names
from canserve.index.since import GATES
from canserve.verdict import Finding, word, worst

SEED = datetime.datetime.now(datetime.UTC).date().toordinal()
"""Another sample every day, the same one all day."""


def sample(count: int) -> list[str]:
    every = sorted({name for engine in projects() for name in release_history().names(engine)})
    return random.Random(SEED).sample(every, count)


@pytest.mark.parametrize(
    "name", [*sample(6), "Glm4MoeLiteForCausalLM", "Qwen3ForSequenceClassification", "qwen3"]
)
def test_it_says_what_the_checks_say(name: str) -> None:
    subject = Names(release_history(), projects()).subjects(name)[-1]
    model = subject.model
    checks = (REGISTERED, QUANTIZED) if subject.kind == "GGUF architecture" else GATES
    for one in since(name).answers[-1].engines:
        judged = {}
        for stretch in one.stretches:
            for version in {stretch.run.first.version, stretch.run.last.version}:
                judged[version] = stretch.answer.usable
        for version in random.Random(SEED).sample(sorted(judged), min(6, len(judged))):
            build = indexed_build(one.column.engine, version)
            if not isinstance(build, Known):
                assert judged[version] == "unknown", (one.column.engine, version)
                continue
            case = Case(model, build.value)
            found = [each.judge(case) for each in checks]
            expected = word(worst(finding for finding in found if isinstance(finding, Finding)))
            assert judged[version] == expected, (one.column.engine, version)


@pytest.mark.parametrize(
    ("name", "engine", "listed", "usable"),
    [
        ("Qwen3_5MoeForConditionalGeneration", "vllm", "0.17.0", "0.17.0"),
        ("Qwen3NextForCausalLM", "vllm", "0.10.2", "0.10.2"),
        ("Qwen3MoeForCausalLM", "sglang", "0.4.5.post2", "0.4.5.post2"),
        ("DeepseekV3ForCausalLM", "vllm", "0.6.6", "0.8.2"),
        ("DeepseekV3ForCausalLM", "sglang", "0.4.1", "0.4.4.post4"),
        ("GptOssForCausalLM", "vllm", "0.10.1", "0.10.1"),
        ("Glm4MoeForCausalLM", "vllm", "0.10.0", "0.10.0"),
        ("Glm4MoeLiteForCausalLM", "vllm", "0.15.0", "0.19.1"),
        ("Glm4MoeLiteForCausalLM", "sglang", "0.5.8", "0.5.10rc0"),
        ("KimiLinearForCausalLM", "vllm", "0.11.1", "0.11.1"),
        ("KimiLinearForCausalLM", "sglang", "0.5.4.post2", "0.5.4.post2"),
        ("MiniMaxM2ForCausalLM", "vllm", "0.11.1", "0.19.1"),
        ("MiniMaxM2ForCausalLM", "sglang", "0.5.4.post1", "0.5.10rc0"),
    ],
)
def test_first_listed_and_first_usable(name: str, engine: str, listed: str, usable: str) -> None:
    """As measured by hand over all releases before there was an index."""
    one = next(one for one in since(name).answers[0].engines if one.column.engine == engine)
    assert one.lists[0].first.version == listed
    native = [s for s in one.usable if s.answer.way == "native" and not s.answer.ahead]
    assert native[0].run.first.version == usable
