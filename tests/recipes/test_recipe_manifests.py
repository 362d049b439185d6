"""Manifests that say what they start by a section of their own: KServe, Ray Serve; and what stands beside a pod."""

from __future__ import annotations

import pytest

from canserve.recipes.reading import read_recipe
from canserve.subjects.recipe import HIDDEN, Recipe

RUNTIME = """apiVersion: serving.kserve.io/v1alpha1
kind: {kind}
metadata: {{name: rt}}
spec:
  supportedModelFormats: [{{name: vLLM, autoSelect: true}}]
  containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.17.1
      command: [python, -m, vllm.entrypoints.openai.api_server]
      args: ["--model=/mnt/models", "--served-model-name={{{{.Name}}}}"]
      env: [{{name: A, value: runtime}}]
"""
SERVICE = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: qwen}
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      storageUri: "hf://Qwen/Qwen3-8B:0123abc"
      args: [--max-model-len, "4096"]
      env: [{name: A, value: service}]
"""


@pytest.mark.parametrize("kind", ["ServingRuntime", "ClusterServingRuntime"])
@pytest.mark.parametrize("first", [True, False])
def test_a_service_and_its_runtime(kind: str, first: bool) -> None:
    runtime = RUNTIME.format(kind=kind)
    recipe = read_recipe("---\n".join((runtime, SERVICE) if first else (SERVICE, runtime)), "k.yaml")
    assert (str(recipe.model), str(recipe.revision)) == ("Qwen/Qwen3-8B", "0123abc")
    assert str(recipe.image) == "vllm/vllm-openai:v0.17.1"
    assert " ".join(recipe.flags) == "--served-model-name=qwen --max-model-len 4096"
    assert recipe.environment["A"].value == "service" and len(recipe.commands) == 1
    assert not recipe.unknown and not recipe.open


def test_a_runtime_alone_leaves_its_model_open() -> None:
    recipe = read_recipe(RUNTIME.format(kind="ServingRuntime"), "k.yaml")
    (one,) = recipe.open
    assert one.decides and "InferenceService" in one.why


def test_a_service_whose_runtime_stands_elsewhere() -> None:
    recipe = read_recipe(SERVICE, "k.yaml")
    assert recipe.engine is None and any("stands in no file that is read" in note for note in recipe.notes)


def test_the_runtime_of_the_hub_is_known() -> None:
    text = SERVICE.replace("name: vLLM", "name: huggingface").replace(
        '[--max-model-len, "4096"]', "[--model_name=q, --backend=vllm, --max-model-len=4096]"
    )
    recipe = read_recipe(text.replace("--model_name=q,", "--model_name=q, --model_id=a/b,"), "k.yaml")
    assert (recipe.engine, str(recipe.model), recipe.flags) == ("vllm", "a/b", ("--max-model-len=4096",))
    mounted = read_recipe(text.replace("--model_name=q,", "--model_dir=/mnt/models,"), "k.yaml")
    assert str(mounted.model) == "Qwen/Qwen3-8B"


@pytest.mark.parametrize("place", ["pvc://claim/qwen", "s3://bucket/qwen", "oci://x/y:z"])
def test_places_that_are_not_read_are_open(place: str) -> None:
    text = (
        RUNTIME.format(kind="ServingRuntime") + "---\n" + SERVICE.replace("hf://Qwen/Qwen3-8B:0123abc", place)
    )
    (one,) = read_recipe(text, "k.yaml").open
    assert (one.what, one.line, one.decides) == (place, 20, True)


def test_a_custom_container_with_its_storage() -> None:
    text = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: q}
spec:
  predictor:
    containers:
      - name: kserve-container
        image: lmsysorg/sglang:v0.5.9
        command: [python3, -m, sglang.launch_server, --model-path, /mnt/models]
        args: [--tp, "2"]
        env: [{name: STORAGE_URI, value: "hf://a/b"}]
"""
    recipe = read_recipe(text, "k.yaml")
    assert (recipe.engine, str(recipe.model), recipe.flags) == ("sglang", "a/b", ("--tp", "2"))


def test_a_service_for_llms() -> None:
    text = """apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: q}
spec:
  model: {uri: "hf://a/b", name: q}
  parallelism: {tensor: 2}
  template:
    containers:
      - name: main
        image: vllm/vllm-openai:v1
        env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 4096"}]
"""
    recipe = read_recipe(text, "k.yaml")
    assert (recipe.engine, str(recipe.model), str(recipe.image)) == ("vllm", "a/b", "vllm/vllm-openai:v1")
    assert recipe.flags == ("--tensor-parallel-size", "2", "--max-model-len", "4096")


APPLICATIONS = """applications:
  - name: llms
    import_path: ray.serve.llm:build_openai_app
    route_prefix: /
    args:
      llm_configs:
        - model_loading_config: {model_id: q, model_source: a/b}
          engine_kwargs: {tensor_parallel_size: 2, enable_prefix_caching: true, hf_overrides: {x: 1}}
          runtime_env: {env_vars: {A: "1", HF_TOKEN: hf_secret}}
          accelerator_type: H200
        - model_loading_config: {model_id: c/d}
"""


def applications(recipe: Recipe, line: int) -> None:
    assert (recipe.engine, str(recipe.model)) == ("vllm", "a/b")
    assert (
        " ".join(recipe.flags) == '--tensor-parallel-size 2 --enable-prefix-caching --hf-overrides {"x": 1}'
    )
    assert recipe.line_of("--tensor-parallel-size") == line
    assert {name: said.value for name, said in recipe.environment.items()} == {"A": "1", "HF_TOKEN": HIDDEN}
    assert [command.name for command in recipe.commands] == ["q", "c/d"]
    assert "secret" not in repr(recipe)


def test_a_file_of_applications() -> None:
    applications(read_recipe(APPLICATIONS, "serve.yaml"), 8)


def test_applications_of_a_ray_service() -> None:
    inner = "".join(f"    {line}\n" for line in APPLICATIONS.splitlines())
    text = f"""apiVersion: ray.io/v1
kind: RayService
metadata: {{name: llm}}
spec:
  serveConfigV2: |
{inner}  rayClusterConfig:
    rayVersion: "2.55.0"
    headGroupSpec:
      rayStartParams: {{}}
      template:
        spec:
          containers: [{{name: head, image: "rayproject/ray-llm:2.55.0"}}]
"""
    recipe = read_recipe(text, "r.yaml")
    applications(recipe, 13)
    assert str(recipe.image) == "rayproject/ray-llm:2.55.0" and not recipe.unknown


def test_applications_that_are_no_yaml_are_refused_by_line() -> None:
    text = "apiVersion: ray.io/v1\nkind: RayService\nspec:\n  serveConfigV2: |\n    applications: [\n"
    (one,) = read_recipe(text, "r.yaml").refused
    assert one.line in (5, 6)


def test_an_application_of_ones_own_is_not_guessed() -> None:
    recipe = read_recipe(APPLICATIONS.replace("ray.serve.llm:build_openai_app", "mine:app"), "serve.yaml")
    assert recipe.model is None and any("mine:app is an application" in note for note in recipe.notes)


BESIDE = """apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: c}
  data:
    MODEL: a/b
    serve.yaml: |
      max-model-len: 4096
- apiVersion: v1
  kind: Secret
  metadata: {name: s}
  stringData: {TOKEN_OF_HUB: hf_secret}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: d}
  spec:
    template:
      spec:
        volumes: [{name: v, configMap: {name: c, items: [{key: serve.yaml, path: s.yaml}]}}]
        containers:
        - name: s
          image: vllm/vllm-openai:v1
          args: [--model, $(M), --config, /etc/vllm/s.yaml]
          envFrom: [{secretRef: {name: s}}, {configMapRef: {name: other}}]
          env: [{name: M, valueFrom: {configMapKeyRef: {name: c, key: MODEL}}}]
          volumeMounts: [{name: v, mountPath: /etc/vllm}]
"""


def test_what_stands_beside_a_pod() -> None:
    recipe = read_recipe(BESIDE, "k.yaml")
    assert str(recipe.model) == "a/b" and recipe.flags[:2] == ("--max-model-len", "4096")
    assert recipe.environment["TOKEN_OF_HUB"].value == HIDDEN
    assert any("what other sets stands in no file" in note for note in recipe.notes)
    assert "items[3].spec.template.spec.containers[0].image" not in {key.path for key in recipe.unknown}
    part = BESIDE.replace("mountPath: /etc/vllm}", "mountPath: /etc/vllm/s.yaml, subPath: s.yaml}")
    assert read_recipe(part, "k.yaml").flags[:2] == ("--max-model-len", "4096")


def test_documents_that_a_chart_gives() -> None:
    text = f"---\n# Source: x/templates/ns.yaml\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n}}\n---\n{SERVICE}"
    assert read_recipe(text.replace("vLLM", "huggingface"), "k.yaml").engine == "vllm"
