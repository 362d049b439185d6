"""From a recipe's files to questions: model, builds, machines, layout, engine options."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.api import SpecError
from canserve.api.recipes import Loaded, builds_of, load, machines_of, model_of, overruled, wishes_with
from canserve.layout import Fixed
from canserve.plan.wishes import Wishes
from canserve.recipes.reading import read_recipe

FIXTURES = Path(__file__).parent / "fixtures"


def loaded(text: str, name: str = "-") -> Loaded:
    return Loaded(read_recipe(text, name))


BUILDS = [
    ("docker run vllm/vllm-openai:v1 --model a/b", (), ("docker://docker.io/vllm/vllm-openai:v1",)),
    ("docker run ghcr.io/x/y:1 vllm serve a/b", (), ("docker://ghcr.io/x/y:1",)),
    ("docker run localhost/x vllm serve a/b", (), ("docker://localhost/x",)),
    ("docker run vllm-node vllm serve a/b", (), ("docker-daemon:vllm-node",)),
    (
        "docker run vllm-node vllm serve a/b",
        ("profile:h200", "spark-1"),
        ("docker-daemon:vllm-node@spark-1",),
    ),
    ("docker run $IMAGE vllm serve a/b", (), ()),
    ("pip install vllm==0.17.1\nvllm serve a/b", (), ("vllm==0.17.1",)),
    ("pip install vllm>=0.17\nvllm serve a/b", (), ()),
    ("/opt/venv/bin/vllm serve a/b", (), ("/opt/venv",)),
    ("/opt/venv/bin/python3 -m sglang.launch_server --model-path a/b", ("spark-1",), ("spark-1:/opt/venv",)),
    ("/usr/bin/vllm serve a/b", (), ()),
    ("vllm serve a/b", (), ()),
]


@pytest.mark.parametrize(("text", "on", "expected"), BUILDS)
def test_the_build_that_a_recipe_names(text: str, on: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert builds_of(loaded(text), (), on) == expected
    assert builds_of(loaded(text), ("mine==1",), on) == ("mine==1",)


def test_a_file_of_variables_beside_a_recipe() -> None:
    it = load([str(FIXTURES / "eugr-minimax.yaml"), str(FIXTURES / "cluster.env")])
    assert machines_of(it, ()) == ("192.168.177.11", "192.168.177.12")
    assert machines_of(it, ("x",)) == ("x",)
    assert it.recipe.environment["NCCL_DEBUG"].value == "INFO"
    assert f"{FIXTURES}/cluster.env: SOMETHING_ELSE" in {key.path for key in it.recipe.unknown}
    with pytest.raises(SpecError, match="are two recipes"):
        load([str(FIXTURES / "eugr-minimax.yaml"), str(FIXTURES / "lmdeploy.txt")])


def test_a_path_of_a_container_is_the_one_outside() -> None:
    it = load([str(FIXTURES / "compose-plain.yaml")])
    assert model_of(it.recipe, None) == f"{FIXTURES}/models/Qwen3-8B"
    assert model_of(load([str(FIXTURES / "podman-run.sh")]).recipe, None) == "/srv/models/Qwen3-8B"
    assert model_of(it.recipe, "other") == "other"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vllm serve $M", "line 1: the model is $M: nothing in the recipe sets it"),
        ("ls", "no model is named in it"),
    ],
)
def test_a_model_that_is_not_known_is_said_by_line(text: str, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        model_of(read_recipe(text, "-"), None)
    assert why in str(caught.value)


def test_what_the_user_names_need_not_be_said() -> None:
    it = overruled(loaded("docker run $IMAGE vllm serve $M"), "a/b", ("vllm==1",))
    assert it.recipe.open and not any(one.decides for one in it.recipe.open)
    assert any(one.decides for one in overruled(loaded("vllm serve a/b -tp $N"), "a/b", ()).recipe.open)


LAYOUTS = [
    ("vllm serve a/b -tp 2 -pp 2 --max-model-len 8192 --enforce-eager", Fixed(2, 2, 1, 1),
     {"max_model_len": 8192, "enforce_eager": True}),
    ("vllm serve a/b --port 1 --host h --nnodes 2 --api-key x", Fixed(), {}),
    ("vllm serve a/b -q fp8 --no-enable-prefix-caching", Fixed(),
     {"quantization": "fp8", "enable_prefix_caching": False}),
    ("vllm serve a/b --speculative-config '{\"method\": \"mtp\"}'", Fixed(), {"speculative_config": {"method": "mtp"}}),
    ("llama-server -m x.gguf --no-mmap", Fixed(), {"no_mmap": True}),
    ("llama-server -m x.gguf -c 4096 -ngl 99 --flash-attn on", Fixed(),
     {"ctx_size": 4096, "gpu_layers": 99, "flash_attn": "on"}),
    ("sglang serve --model-path a/b --tp 4 --context-length 1024", Fixed(4, 1, 1, 1), {"context_length": 1024}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fixed", "options"), LAYOUTS)
def test_layout_and_options(text: str, fixed: Fixed, options: dict[str, object]) -> None:
    wishes, _ = wishes_with(Wishes(), loaded(text))
    assert wishes.fixed == fixed and wishes.options == options


def test_defaults_that_a_runtime_does_not_pass_on_are_no_flags() -> None:
    text = "model: a/b\nruntime: llama-cpp\ndefaults: {tensor_parallel: 2, max_model_len: 9, kv_cache_dtype: q8_0}\n"
    recipe = read_recipe(text, "r.yaml")
    assert recipe.flags == ("--ctx-size", "9")
    assert {key.path: key.role for key in recipe.keys}["defaults.kv_cache_dtype"] == "aside"


def test_experts_over_all_ranks() -> None:
    wishes, _ = wishes_with(Wishes(), loaded("vllm serve a/b -tp 4 --enable-expert-parallel"))
    assert wishes.fixed == Fixed(4, 1, 1, None) and wishes.spread


def test_the_user_wins() -> None:
    mine = Wishes(fixed=Fixed(8), options={"max_model_len": 1})
    wishes, left = wishes_with(mine, loaded("vllm serve a/b -tp 2 --max-model-len 2 --port 8000"))
    assert wishes.fixed == Fixed(8) and wishes.options == {"max_model_len": 1} and left == ("--port",)
