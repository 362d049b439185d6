"""Real models against real releases of transformers, as an engine of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.api import Options, check
from canserve.verdict import Verdict, word

pytestmark = [pytest.mark.network, pytest.mark.slow]


def judged(model: Path, release: str, *flags: str) -> tuple[str, dict[str, Verdict]]:
    (one,) = check(str(model), [f"transformers=={release}"], options=Options(flags=flags)).builds
    return word(one.verdict), {finding.check: finding.verdict for finding in one.findings}


@pytest.mark.parametrize(
    "model, release, verdict, decided_by",
    [
        ("Qwen__Qwen3.5-122B-A10B", "5.20.2", "yes", ""),
        ("Qwen__Qwen3.5-122B-A10B", "4.57.6", "no", "architecture-registered"),
        ("deepseek-ai__DeepSeek-V4-Flash", "5.20.2", "yes", ""),
        ("deepseek-ai__DeepSeek-V4-Flash", "5.8.1", "no", "quantization-scheme-known"),
        ("openai__gpt-oss-120b", "4.57.6", "yes", ""),
        ("zai-org__GLM-5.3-FP8", "5.20.2", "yes", ""),
        ("moonshotai__Kimi-K2.5", "5.20.2", "unknown", "architecture-registered"),
        ("XiaomiMiMo__MiMo-7B-Base", "5.20.2", "no", "architecture-registered"),
        ("nvidia__Qwen3.5-397B-A17B-NVFP4", "5.20.2", "no", "quantization-registered"),
    ],
)
def test_models_of_this_year(shared: Path, model: str, release: str, verdict: str, decided_by: str) -> None:
    answer, findings = judged(shared / "models" / model, release)
    assert answer == verdict
    assert verdict == "yes" or word(findings[decided_by]) == verdict


def test_flags_of_the_server(shared: Path) -> None:
    model = shared / "models" / "Qwen__Qwen3.5-122B-A10B"
    _, known = judged(model, "5.20.2", "--port", "8000", "--continuous-batching")
    assert word(known["flags-accepted"]) == "yes"
    _, other = judged(model, "5.20.2", "--tensor-parallel-size", "2")
    assert word(other["flags-accepted"]) == "no"
