"""What a user may wish: options under engine names, counts of tokens."""

from __future__ import annotations

import pytest

from canserve.layout import Fixed
from canserve.plan.wishes import Wishes, read_count, read_option, read_options
from canserve.subjects.parallel import Parallel


def test_options_are_json_where_they_can_be() -> None:
    assert read_option("gpu_memory_utilization=0.95") == ("gpu_memory_utilization", 0.95)
    assert read_option("--max-num-seqs=64") == ("max_num_seqs", 64)
    assert read_option("enforce_eager") == ("enforce_eager", True)
    assert read_option("enforce-eager=false") == ("enforce_eager", False)
    assert read_option("kv_cache_dtype=fp8") == ("kv_cache_dtype", "fp8")
    assert read_option('limit_mm_per_prompt={"image": 0}') == ("limit_mm_per_prompt", {"image": 0})
    assert read_option("compilation_config.cudagraph_mode=NONE") == (
        "compilation_config.cudagraph_mode",
        "NONE",
    )
    assert read_option("served_model_name=a=b") == ("served_model_name", "a=b")
    assert read_options(("a=1", "a=2")) == {"a": 2}


@pytest.mark.parametrize("text", ["", "=1", "a b=1", "a=NaN", "a=1e999", "$x=1", "a=" + "x" * 20_000, "1=2"])
def test_what_is_no_option_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_option(text)


def test_counts_of_tokens() -> None:
    assert [read_count(text) for text in ("4096", "262,144", "256k", "1M")] == [4096, 262144, 262144, 1 << 20]
    for text in ("", "0", "-1", "1.5k", "many", "1" * 13):
        with pytest.raises(ValueError, match="not a number of tokens"):
            read_count(text)


def test_degrees_that_were_asked_for() -> None:
    assert Wishes(fixed=Fixed(tp=2)).allows(Parallel(2, 4)) and not Wishes(fixed=Fixed(tp=2)).allows(
        Parallel()
    )
    assert Wishes(spread=True).allows(Parallel(2, 1, 1, 2)) and not Wishes(spread=True).allows(Parallel(2))


@pytest.mark.parametrize(
    "name", ["api_key", "--admin-api-key", "hf_token", "ssl_keyfile_password", "api_keys"]
)
def test_secrets_never_reach_a_command_line(name: str) -> None:
    with pytest.raises(ValueError, match="is a secret") as error:
        read_option(f"{name}=sk-12345")
    assert "sk-12345" not in str(error.value)
    assert read_option("hf_token=true") == ("hf_token", True)
    assert read_option("max_num_batched_tokens=1")[1] == 1
