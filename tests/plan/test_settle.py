"""Settings that nobody asked for: a share of the memory that starts, a context that fits; and when to leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from canserve.api.planning import Asked, plan
from canserve.facts import Known
from canserve.plan.plan import Plan
from canserve.plan.wishes import Wishes
from canserve.subjects.parallel import Parallel
from canserve.verdict import No, Yes, word

BUILD = "vllm==0.25.1"

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose size is set by the number of its layers: 0.406 GiB each."""
    return tmp_path_factory.mktemp("settle")


def config(layers: int, context: int = 131072) -> Mapping[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": layers, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": context,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip


def best(folder: Path, layers: int, on: str, **wishes: object) -> Plan:
    (folder / "config.json").write_text(json.dumps(config(layers)))
    asked = Asked((on,), (BUILD,), 1, Wishes(**wishes))  # type: ignore[arg-type]
    plans = plan(str(folder), asked).plans.plans
    return next(one for one in plans if one.parallel == Parallel())


def test_a_share_that_starts_is_chosen_on_shared_memory(small: Path) -> None:
    chosen = best(small, 32, "profile:dgx-spark")
    share = chosen.options["gpu_memory_utilization"]
    assert isinstance(share, float) and 0.6 < share < 0.92 and isinstance(chosen.verdict, Yes)
    assert any("gpu_memory_utilization" in note for note in chosen.notes)
    asked = best(small, 32, "profile:dgx-spark", options={"gpu_memory_utilization": 0.95})
    assert asked.options["gpu_memory_utilization"] == 0.95 and word(asked.verdict) == "unknown"


def test_where_only_the_default_might_do_it_is_left(small: Path) -> None:
    tight = best(small, 236, "profile:dgx-spark")  # 96 GiB: within the default, not within what surely starts
    assert "gpu_memory_utilization" not in tight.options
    assert not isinstance(tight.verdict, No), tight.verdict.because


def test_a_context_that_fits_is_chosen_and_a_wish_is_not_touched(small: Path) -> None:
    chosen = best(small, 40, "profile:rtx-4090")
    assert isinstance(chosen.serving, Known)
    length = chosen.options["max_model_len"]
    assert length == chosen.serving.value.context and length % 1024 == 0
    assert chosen.serving.value.max_context.low >= chosen.serving.value.context
    wished = best(small, 40, "profile:rtx-4090", context=131072)
    assert wished.options["max_model_len"] == 131072 and isinstance(wished.verdict, No)


def test_a_default_that_surely_starts_is_left(small: Path) -> None:
    assert best(small, 32, "profile:h200").options == {}
