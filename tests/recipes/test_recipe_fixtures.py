"""Recipes in every form, written for this test from what public ones hold: what is read, and that no key is lost."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from canserve.recipes.reading import Beside, read_recipe
from canserve.recipes.trouble import RecipeError
from canserve.subjects.recipe import HIDDEN, Recipe

FIXTURES = Path(__file__).parent / "fixtures"
FILES = sorted(FIXTURES.iterdir())
YAML = (".yaml", ".json")

READ: dict[str, tuple[str | None, str | None, str | None]] = {
    # file: engine, model, image
    "apptainer.sh": ("vllm", "Qwen/Qwen3-14B", "vllm/vllm-openai:v0.17.1"),
    "cluster.env": (None, None, None),
    "compose-llama-variables.yaml": (
        "llama.cpp", "ggml-org/gemma-3-12b-it-GGUF", "ghcr.io/ggml-org/llama.cpp:server-cuda"
    ),
    "docker-run-powershell.txt": ("vllm", "Qwen/Qwen3-4B", "vllm/vllm-openai:v0.17.1"),
    "dstack.yaml": ("sglang", "Qwen/Qwen3-30B-A3B", "lmsysorg/sglang:v0.5.9"),
    "dynamo.yaml": ("vllm", "Qwen/Qwen3-32B", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.9.0"),
    "heredoc-options.sh": ("vllm", "openai/gpt-oss-20b", None),
    "isvc-runtime.yaml": ("vllm", "Qwen/Qwen3-4B", "vllm/vllm-openai:v0.17.1"),
    "llama-swap.yaml": ("llama.cpp", "unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:Q4_K_M", None),
    "rayservice.yaml": ("vllm", "Qwen/Qwen3-8B", "rayproject/ray-llm:2.55.0-py311-cu128"),
    "sky.yaml": ("vllm", "Qwen/Qwen3-235B-A22B-FP8", "vllm/vllm-openai:v0.17.1"),
    "slurm-container.sh": ("vllm", "/models/Qwen3-8B", "nvcr.io/nvidia/vllm:25.11-py3"),
    "slurm-srun.sh": ("vllm", "meta-llama/Llama-3.3-70B-Instruct", None),
    "stack-values.yaml": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "tmux.sh": ("vllm", "Qwen/Qwen3-32B", None),
    "uvx.txt": ("vllm", "Qwen/Qwen3-1.7B", None),
    "vllm-positional-last.txt": ("vllm", "Qwen/Qwen3-8B", None),
    "vllm.Dockerfile": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "compose-anchors.yaml": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "compose-bash.yaml": ("vllm", "Qwen/Qwen3-14B", "nvcr.io/nvidia/vllm:25.11-py3"),
    "compose-build.yaml": ("vllm", "Qwen/Qwen3-4B", None),
    "compose-llama-cpp.yaml": ("llama.cpp", "ggml-org/gemma-3-4b-it-GGUF", "ghcr.io/ggml-org/llama.cpp:server-cuda"),
    "compose-plain.yaml": ("vllm", "/models/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "compose-ray.yaml": ("vllm", "Qwen/Qwen3-32B", "vllm/vllm-openai:v0.17.1"),
    "compose-run.sh": ("vllm", "Qwen/Qwen3-Coder-Next-FP8", None),
    "compose-serve.yaml": ("vllm", "Qwen/Qwen3-Coder-Next-FP8", "spark-vllm:latest"),
    "kserve.yaml": ("vllm", "Qwen/Qwen3-8B", "docker.io/vllm/vllm-openai:v0.17.1"),
    "compose-sglang.yaml": ("sglang", "meta-llama/Llama-3.1-8B-Instruct", "lmsysorg/sglang:v0.5.9"),
    "compose-variables.yaml": ("vllm", "google/gemma-2-9b-it", "vllm/vllm-openai:latest"),
    "compose.env": (None, None, None),
    "deployment.yaml": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "docker-exec-ray.sh": ("vllm", "Qwen/Qwen3.5-122B-A10B-FP8", None),
    "docker-in-unit.service": ("vllm", "Qwen/Qwen3-32B-FP8", "vllm/vllm-openai:v0.17.1"),
    "docker-run-bash-c.sh": ("sglang", "Qwen/Qwen2.5-VL-7B-Instruct", "lmsysorg/sglang:latest"),
    "docker-run-nvidia.txt": ("vllm", "openai/gpt-oss-20b", "nvcr.io/nvidia/vllm:25.11-py3"),
    "docker-run-sglang.sh": ("sglang", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "lmsysorg/sglang:v0.5.9"),
    "docker-run-unknown-image.sh": ("vllm", "Qwen/Qwen3-8B", "registry.example.com:5000/team/my-vllm:2"),
    "docker-run-vllm.sh": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "eugr-deepseek-v4-flash.yaml": ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "vllm-node-dsv4"),
    "eugr-embedding.yaml": ("vllm", "mixedbread-ai/mxbai-embed-large-v1", "vllm-node"),
    "eugr-gemma4.yaml": ("vllm", "google/gemma-4-26B-A4B-it", "vllm-node-tf5"),
    "eugr-glm-flash-awq.yaml": ("vllm", "cyankiwi/GLM-4.7-Flash-AWQ-4bit", "vllm-node-tf5"),
    "eugr-gpt-oss.yaml": ("vllm", "openai/gpt-oss-120b", "vllm-node-mxfp4"),
    "eugr-minimax.yaml": ("vllm", "cyankiwi/MiniMax-M2.5-AWQ-4bit", "vllm-node"),
    "eugr-nemotron.yaml": ("vllm", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "vllm-node"),
    "eugr-qwen3-coder-next.yaml": ("vllm", "Qwen/Qwen3-Coder-Next-FP8", "vllm-node"),
    "eugr-qwen35-397b.yaml": ("vllm", "Intel/Qwen3.5-397B-A17B-int4-AutoRound", "vllm-node-tf5"),
    "eugr-registry-image.yaml": ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "ghcr.io/aidendle94/dspark-vllm:v0.27"),
    "llama-server-hf.txt": ("llama.cpp", "ggml-org/gpt-oss-20b-GGUF:mxfp4", None),
    "llama-server.sh": ("llama.cpp", "~/models/qwen2.5-coder-7b-instruct-q5_k_m.gguf", None),
    "lmdeploy.txt": ("lmdeploy", "internlm/internlm3-8b-instruct", None),
    "lws-ray-script.yaml": ("vllm", "meta-llama/Meta-Llama-3.1-405B-Instruct", "vllm/vllm-openai:latest"),
    "lws-sglang.yaml": ("sglang", "meta-llama/Meta-Llama-3.1-8B-Instruct", "lmsysorg/sglang:v0.5.18"),
    "lws-vllm.yaml": ("vllm", "meta-llama/Llama-3.1-405B-Instruct", "vllm/vllm-openai:v0.17.1"),
    "options-gpt-oss.yaml": (None, "openai/gpt-oss-120b", None),
    "options-llama.yaml": (None, None, None),
    "options.json": (None, "Qwen/Qwen3-8B", None),
    "page-gemma4.yaml": ("vllm", "google/gemma-4-26B-A4B-it", None),
    "page-minimax-m25.yaml": ("vllm", "MiniMaxAI/MiniMax-M2.5", "vllm/vllm-openai:v0.20.2"),
    "page-new-keys.yaml": ("vllm", "Qwen/Qwen3-8B", None),
    "page-qwen35-122b.yaml": ("vllm", "Qwen/Qwen3.5-122B-A10B", None),
    "page-qwen36-modes.yaml": ("vllm", "Qwen/Qwen3.6-35B-A3B", None),
    "page-seed-oss.yaml": ("vllm", "ByteDance-Seed/Seed-OSS-36B-Instruct", None),
    "podman-run.sh": ("vllm", "/models/Qwen3-8B", "docker.io/vllm/vllm-openai:v0.17.1"),
    "quadlet.container": ("vllm", "Qwen/Qwen3-8B", "docker.io/vllm/vllm-openai:v0.17.1"),
    "raycluster.yaml": ("vllm", "Qwen/Qwen3-32B", "vllm/vllm-openai:v0.17.1"),
    "sglang-serve.txt": ("sglang", "zai-org/GLM-4.7-Flash", None),
    "sglang-two-nodes.sh": ("sglang", "deepseek-ai/DeepSeek-V3", None),
    "solo.env": (None, None, None),
    "sparkrun-llama-cpp.yaml": ("llama.cpp", "unsloth/gpt-oss-20b-GGUF:Q4_K_M", "ghcr.io/ggml-org/llama.cpp:server-cuda"),
    "sparkrun-minimal.yaml": ("vllm", "Qwen/Qwen3-1.7B", "scitrera/dgx-spark-vllm:latest"),
    "sparkrun-per-machine.yaml": ("vllm", "Qwen/Qwen3-30B-A3B-FP8", "nvcr.io/nvidia/vllm:25.09"),
    "sparkrun-placeholder-left.yaml": ("vllm", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.17.1"),
    "sparkrun-qwen36-nvfp4.yaml": (
        "vllm",
        "unsloth/Qwen3.6-35B-A3B-NVFP4",
        "ghcr.io/miaai-lab/mia-vllm-gb10-linear-b12x"
        "@sha256:19627342e1da2607f4db50745dca30e57d7dd0ebff06062f03fd69b43a252931",
    ),
    "sparkrun-sglang-command.yaml": ("sglang", "zai-org/GLM-4.5-Air-FP8", "lmsysorg/sglang:v0.5.9"),
    "sparkrun-sglang.yaml": ("sglang", "Qwen/Qwen3-32B", "scitrera/dgx-spark-sglang:0.5.9"),
    "sparkrun-trtllm.yaml": ("tensorrt-llm", "nvidia/Qwen3-30B-A3B-FP4", "nvcr.io/nvidia/tensorrt-llm/release:1.2.0"),
    "sparkrun-unknown-runtime.yaml": (None, "Qwen/Qwen3-8B", "azeezish/atlas-gb10:latest"),
    "sparkrun-wrapper-script.yaml": (
        "vllm", "Mia-AiLab/GLM-5.3-Flash-EXL3-TR3-4bpw", "ghcr.io/miaai-lab/glm-5.3-flash-2x-dgx-sparks:latest"
    ),
    "template@.service": ("sglang", "/models/%i", None),
    "vllm-equals.txt": ("vllm", "Qwen/Qwen3-4B", None),
    "vllm-module.sh": ("vllm", "/mnt/data/models/Qwen/qwen3-30b-a3b", None),
    "vllm-readme.txt": ("vllm", "Qwen/Qwen3-Next-80B-A3B-Instruct", None),
    "vllm-script.sh": ("vllm", "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4", None),
    "vllm-serve-comments.sh": ("vllm", "Qwen/Qwen3.6-35B-A3B-FP8", None),
    "vllm.service": ("vllm", "Qwen/Qwen3-8B", None),
}  # fmt: skip

FLAGS: dict[str, str] = {
    "compose-llama-variables.yaml": "--ctx-size 16384 --n-gpu-layers 99",
    "dynamo.yaml": "--tensor-parallel-size 2",
    "heredoc-options.sh": "--max-model-len 16384 --config serve.yaml --port 9000",
    "isvc-runtime.yaml": "--served-model-name=small --port=8080 --max-model-len=16384",
    "llama-swap.yaml": "--port ${PORT} -c 32768",
    "sky.yaml": "--tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE --max-model-len 32768",
    "slurm-srun.sh": "--tensor-parallel-size 8 --pipeline-parallel-size ${SLURM_NNODES}",
    "stack-values.yaml": "--enable-prefix-caching --max-model-len 8192 --tensor-parallel-size 2 "
    "--gpu-memory-utilization 0.85",
    "vllm-positional-last.txt": "--host 0.0.0.0 --port 8000 --enable-auto-tool-choice --tool-call-parser hermes",
    "vllm.Dockerfile": "--chat-template /template.jinja --max-model-len 8192",
    "compose-serve.yaml": "--host 0.0.0.0 --max-model-len 32768",
    "compose-run.sh": """--max-model-len 4096 --compilation-config '{
    "cudagraph_mode": "FULL_DECODE_ONLY"
}'""",
    "compose-anchors.yaml": "--reasoning-parser qwen3 --tensor-parallel-size 2",
    "compose-bash.yaml": "--tensor-parallel-size 2 --max-model-len 40960",
    "compose-variables.yaml": "--max-model-len ${MAX_LEN} --gpu-memory-utilization 0.9 --port 8000",
    "deployment.yaml": "--max-model-len 8192 --download-dir /models",
    "docker-in-unit.service": "--tensor-parallel-size 2",
    "docker-run-bash-c.sh": "--host 0.0.0.0 --port 30003 --tp-size 1 --mem-fraction-static 0.7",
    "eugr-gemma4.yaml": "--port 8000 -tp 1 --max-model-len 131072 --tool-call-parser gemma4 --reasoning-parser gemma4 "
    "--async-scheduling",
    "eugr-registry-image.yaml": "--port 8888 -tp 2 "
    """--speculative-config '{"method":"dspark","num_speculative_tokens":5}'""",
    "lws-sglang.yaml": "--tp 2 --dist-init-addr $(LWS_LEADER_ADDRESS):20000 --nnodes 2 --node-rank $(LWS_WORKER_INDEX)",
    "options-llama.yaml": "--kv-cache-dtype fp8 "
    """--compilation-config '{"mode": 3, "cudagraph_capture_sizes": [1, 2, 4]}' --lora-modules a=/a b=/b""",
    "page-qwen36-modes.yaml": """--speculative-config '{"method":"mtp","num_speculative_tokens":3}'""",
    "quadlet.container": "--max-model-len 8192",
    "sparkrun-llama-cpp.yaml": "--port 8080 --host 0.0.0.0 --ctx-size 65536 --n-gpu-layers 99 --flash-attn on --jinja",
    "sparkrun-sglang.yaml": "--port 30000 --tp-size 2 --mem-fraction-static 0.8 --context-length 32768 "
    "--trust-remote-code --json-model-override-args "
    """'{"rope_scaling": {"factor": 4.0, "rope_type": "yarn"}}'""",
    "template@.service": "--tp 2 --context-length 8192",
    "vllm-equals.txt": f"--host=0.0.0.0 --port=11434 '--api-key={HIDDEN}' --kv-cache-dtype=auto",
    "vllm-script.sh": "--dtype auto --quantization gptq --max-model-len 32768 --port 8000",
    "vllm-serve-comments.sh": "--tensor-parallel-size 2 --max-model-len 1010000 --hf-overrides "
    """'{"text_config": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}}' --reasoning-parser qwen3""",
    "vllm.service": "--host 127.0.0.1 --port 8000 --chat-template-content-format openai",
}


def recipe_of(path: Path) -> Recipe:
    return read_recipe(path.read_text(), path.name)


def test_there_are_sixty_and_each_is_expected() -> None:
    assert len(FILES) >= 60
    assert {path.name for path in FILES} == set(READ)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_engine_model_and_image(path: Path) -> None:
    recipe = recipe_of(path)
    got = (recipe.engine, recipe.model and recipe.model.value, recipe.image and recipe.image.value)
    assert got == READ[path.name]
    assert not recipe.refused


@pytest.mark.parametrize("name", FLAGS)
def test_the_words_for_the_engine(name: str) -> None:
    assert recipe_of(FIXTURES / name).flags == tuple(shlex.split(FLAGS[name]))


def told(value: Any, path: str = "") -> Iterator[str]:
    """Every value's path, by another reader of YAML than the one that is tested."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            name = (
                {True: "true", False: "false", None: "null"}.get(key, str(key))
                if not isinstance(key, str)
                else key
            )
            yield from told(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from told(each, f"{path}[{number}]")
    else:
        yield path


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix in YAML], ids=lambda path: path.name)
def test_no_key_of_a_document_is_lost(path: Path) -> None:
    found = list(yaml.safe_load_all(path.read_text()))
    several = len(found) > 1
    wanted = {f"{n}: {each}" if several else each for n, one in enumerate(found) for each in told(one)}
    assert wanted <= {key.path for key in recipe_of(path).keys}


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    return ((n, line) for n, line in enumerate(path.read_text().splitlines(), 1))


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".env"], ids=lambda path: path.name)
def test_no_variable_of_a_file_is_lost(path: Path) -> None:
    set_ = {(m[1], n) for n, line in lines_of(path) if (m := re.match(r"(?:export )?([A-Z_]+)=", line))}
    assert set_ == {(key.path, key.line) for key in recipe_of(path).keys}


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.suffix in (".service", ".container")], ids=lambda p: p.name
)
def test_no_setting_of_a_unit_is_lost(path: Path) -> None:
    set_ = {(m[1], n) for n, line in lines_of(path) if (m := re.match(r"([A-Za-z]+)=", line))}
    assert set_ == {(key.path.split(".")[1], key.line) for key in recipe_of(path).keys}


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.suffix in (".sh", ".txt")], ids=lambda path: path.name
)
def test_no_flag_of_a_command_is_lost(path: Path) -> None:
    text = "\n".join(
        line for line in path.read_text().splitlines() if not line.lstrip().startswith(("#", "```"))
    )
    text = re.sub(r"ARGS=\(|\)$|\\$", " ", text, flags=re.MULTILINE)
    words = shlex.split(text, comments=True)
    words += [inner for word in words if " " in word for inner in word.split()]
    recipe = recipe_of(path)
    kept = " ".join((*(f"{key.path} {key.value}" for key in recipe.keys), *recipe.flags))
    flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z][a-z-]+", word)}
    assert {flag for flag in flags if flag not in kept} <= {"-euo"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_values_stand_on_the_line_that_is_told(path: Path) -> None:
    lines = path.read_text().splitlines()
    for key in recipe_of(path).keys:
        last = re.split(r"[.\[\] =]+", key.path.rstrip("]"))[-1]
        value = key.value.split("\n")[0].strip()[:12]
        near = "\n".join(lines[max(key.line - 1, 0) : key.line])
        words = [word for word in (last, value, json.dumps(value)[1:-1]) if word and word != HIDDEN]
        assert not words or last.isdecimal() or any(word in near for word in words) or "$" in near, (
            key,
            near,
        )


def test_secrets_are_not_kept() -> None:
    for path in FILES:
        assert not re.search(r"(hf_|sk-|-)secret", repr(recipe_of(path))), path.name


def test_unknown_keys_keep_their_line_and_value() -> None:
    found = {(key.path, key.value, key.line) for key in recipe_of(FIXTURES / "page-new-keys.yaml").unknown}
    assert found == {
        ("model.launch_profile.numa", "true", 5),
        ("model.launch_profile.cpus[0]", "0", 5),
        ("model.launch_profile.cpus[1]", "1", 5),
        ("telemetry.enabled", "true", 7),
        ("features", "", 6),
    }
    unit = recipe_of(FIXTURES / "vllm.service")
    assert [(key.path, key.value, key.line) for key in unit.unknown] == [("Service.Sandbox", "yes", 21)]
    run = recipe_of(FIXTURES / "docker-run-bash-c.sh")
    assert [(key.path, key.value, key.line) for key in run.unknown] == [("--newfangled-option", "yes", 2)]


def test_flags_of_folded_text_stand_on_their_own_lines() -> None:
    lines = {word.value: word.line for word in recipe_of(FIXTURES / "compose-plain.yaml").args}
    assert {flag: line for flag, line in lines.items() if flag.startswith("--")} == {
        "--max-model-len": 17, "--tensor-parallel-size": 18, "--max-num-seqs": 19
    }  # fmt: skip
    script = recipe_of(FIXTURES / "compose-bash.yaml")
    assert (script.line_of("--tensor-parallel-size"), script.line_of("--max-model-len")) == (11, 12)
    assert recipe_of(FIXTURES / "vllm-serve-comments.sh").line_of("--reasoning-parser") == 6


def test_machines_of_a_cluster_and_its_variables() -> None:
    recipe = recipe_of(FIXTURES / "cluster.env")
    assert [str(one) for one in recipe.machines] == ["192.168.177.11", "192.168.177.12"]
    assert {name: str(said) for name, said in recipe.environment.items()} == {
        "HF_TOKEN": HIDDEN, "NCCL_DEBUG": "INFO", "NCCL_IGNORE_CPU_AFFINITY": "1"
    }  # fmt: skip
    assert [key.path for key in recipe.unknown] == ["SOMETHING_ELSE"]


def test_releases_that_are_asked_for() -> None:
    stated = {
        name: [(s.about, s.releases, s.firm) for s in recipe_of(FIXTURES / name).stated] for name in READ
    }
    assert stated["page-qwen36-modes.yaml"] == [
        ("vllm", ">=0.17.0", True), ("transformers", ">=5.2.0", False)
    ]  # fmt: skip
    assert stated["page-seed-oss.yaml"] == [("vllm", ">=0.11.0", True), ("transformers", ">=4.56.0", False)]
    assert stated["docker-run-vllm.sh"] == [("vllm", ">=0.17.0", False)]
    assert stated["eugr-gemma4.yaml"] == [("transformers", ">=5.5.0", False)]
    assert stated["vllm-script.sh"] == [("transformers", ">=4.57", False)]


def test_a_part_is_chosen_by_name() -> None:
    text = (FIXTURES / "compose-anchors.yaml").read_text()
    assert str(read_recipe(text, "c.yaml", part="embed").model) == "BAAI/bge-m3"
    page = (FIXTURES / "page-qwen36-modes.yaml").read_text()
    variant = read_recipe(page, "p.yaml", part="nvfp4")
    assert str(variant.model) == "nvidia/Qwen3.6-35B-A3B-NVFP4"
    assert str(variant.image) == "vllm/vllm-openai:v0.28.0"
    assert variant.flags == read_recipe(page, "p.yaml").flags != ()
    with pytest.raises(RecipeError, match="no variant 'x'; there are: default, nvfp4"):
        read_recipe(page, "p.yaml", part="x")
    assert next(s.releases for s in variant.stated if s.about == "vllm" and s.firm) == ">=0.28.0"


def test_a_second_file_sets_variables() -> None:
    text = (FIXTURES / "compose-variables.yaml").read_text()
    sets = {"TAG": "v0.17.1", "MODEL": "Qwen/Qwen3-8B", "MAX_LEN": "32768"}
    recipe = read_recipe(text, "c.yaml", Beside(sets))
    assert str(recipe.image) == "vllm/vllm-openai:v0.17.1"
    assert str(recipe.model) == "Qwen/Qwen3-8B"
    assert recipe.flags[:2] == ("--max-model-len", "32768")
    assert not any(one.decides for one in recipe.open)
    assert str(recipe.environment["COST"]) == "5$"


def test_the_machine_that_an_export_is_for() -> None:
    run = "docker run --label canserve.machine=spark-1 a/b vllm serve m"
    assert read_recipe(run, "-").commands[0].machine == "spark-1"
    for labels in ("{canserve.machine: spark-1}", "[canserve.machine=spark-1]"):
        compose = f"services: {{s: {{image: a/b, labels: {labels}, command: vllm serve m}}}}"
        assert read_recipe(compose, "c.yaml").commands[0].machine == "spark-1"


PAGE = """\
# Serve it
Run `vllm serve not/this` like so:

```python
vllm serve("not this either")
```

1. As ever:

   ```bash
   vllm serve a/b \\
     --port 8000
   ```
"""


def test_a_page_is_read_by_its_blocks_of_commands() -> None:
    recipe = read_recipe(PAGE, "README.md")
    assert (recipe.form, recipe.flags, recipe.line_of("--port")) == ("command line", ("--port", "8000"), 12)
    assert [str(command.model) for command in recipe.commands] == ["a/b"]
