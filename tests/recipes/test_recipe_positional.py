"""A model behind flags: which words are values of flags, by the rules and by a build's own table."""

from __future__ import annotations

import pytest

from canserve.api import SpecError
from canserve.api.recipes import model_of
from canserve.facts import Known
from canserve.index import indexed_build, projects, release_history
from canserve.recipes.arity import Arity, positional
from canserve.recipes.reading import Beside, read_recipe
from canserve.rules.recipes import takes
from canserve.subjects.build import Flag, Site

BEHIND = [
    ("vllm serve --port 8000 org/model --tensor-parallel-size 2", "org/model", "--port 8000 --tensor-parallel-size 2"),
    ("vllm serve --enforce-eager org/model", "org/model", "--enforce-eager"),
    ("vllm serve --port=8000 org/model", "org/model", "--port=8000"),
    ("vllm serve -tp 2 --no-enable-prefix-caching org/model", "org/model", "-tp 2 --no-enable-prefix-caching"),
    ("vllm serve --gpu_memory_utilization 0.9 org/model", "org/model", "--gpu_memory_utilization 0.9"),
    ("vllm serve --speculative-config.method mtp org/model", "org/model", "--speculative-config.method mtp"),
    ("vllm serve --served-model-name a b --port 8000 org/model", "org/model", "--served-model-name a b --port 8000"),
    ("docker run vllm/vllm-openai:v1 --max-model-len 8 org/model", "org/model", "--max-model-len 8"),
    ("vllm serve --port 8000", None, "--port 8000"),
    ("vllm serve --served-model-name a org/model", None, "--served-model-name a org/model"),
    ("vllm serve --novel org/model", None, "--novel org/model"),
    ("vllm serve --novel x --enforce-eager org/model", "org/model", "--novel x --enforce-eager"),
    ("vllm serve --port 8000 --model org/model", "org/model", "--port 8000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "model", "flags"), BEHIND)
def test_by_the_rules(text: str, model: str | None, flags: str) -> None:
    recipe = read_recipe(text)
    assert (recipe.model and recipe.model.value, " ".join(recipe.flags)) == (model, flags)


def test_what_cannot_be_decided_is_said_by_line() -> None:
    recipe = read_recipe("# x\nvllm serve \\\n  --novel org/model")
    assert str(recipe.after_flags) == "org/model"
    with pytest.raises(SpecError, match="line 3: 'org/model' is the model, or belongs to the flag before it"):
        model_of(recipe, None)


@pytest.mark.parametrize(
    ("kind", "model", "flags"), [("switch", "org/model", "--novel"), ("value", None, "--novel org/model")]
)
def test_a_builds_own_table_decides(kind: str, model: str | None, flags: str) -> None:
    table = Arity.in_build({"--novel": Flag("--novel", None, Site("a.py", 1), ("-nv",), kind)}, "vllm")
    for name in ("--novel", "-nv"):
        recipe = read_recipe(f"vllm serve {name} org/model --port 1", "-", Beside(arity=table))
        assert recipe.model == (model and recipe.after_flags)
        assert " ".join(recipe.flags) == f"{flags.replace('--novel', name)} --port 1"


def test_the_table_overrules_the_rules() -> None:
    table = Arity.in_build({"--port": Flag("--port", None, Site("a.py", 1), (), "switch")}, "vllm")
    assert positional(["--port", "x"], table) == (1, True)
    assert positional(["--port", "x"], Arity.of("vllm")) == (None, False)


def test_the_rules_say_what_the_newest_release_says() -> None:
    for engine in projects():
        shelf, known = release_history().shelf(engine), takes(engine)
        if not known or shelf is None:
            continue
        build = indexed_build(engine, shelf.releases[-1]["version"])
        assert isinstance(build, Known) and isinstance(build.value.flags, Known)
        own = Arity.in_build(build.value.flags.value)
        differing = {flag for flag, count in own.counts.items() if known.get(flag, count) != count}
        assert len(own.counts) > 20 and not differing, engine
