"""recipe-resolved, recipe-engine-matches, stated-versions-met; and the lines that flags-accepted tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_world import build, case, seen

from canserve.checks.flags import CHECK as FLAGS
from canserve.checks.recipe import ENGINE, RESOLVED, VERSIONS, judge
from canserve.checks.recipe.question import RecipeCheck
from canserve.checks.wish import meant_for, parse_wish
from canserve.facts import Cause, Fact, Known, Missing
from canserve.recipes.reading import read_recipe
from canserve.subjects.build import Build, Flag, Site, Transformers
from canserve.subjects.recipe import Recipe, Stated
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes


def of(engine: str = "vllm", version: str | None = "0.17.1", installed: str | None = "4.57.3") -> Build:
    one = build()
    known = (
        Missing(Cause.UNREADABLE, "no version there") if version is None else Known(version, seen("metadata"))
    )
    identity = replace(one.identity, engine=engine, version=known)
    told: Fact[str | None] = (
        Missing(Cause.UNAVAILABLE, "not an environment")
        if installed is None
        else Known(installed, seen("beside"))
    )
    transformers = replace(one.transformers, installed=told)
    return replace(one, identity=identity, transformers=transformers)


def verdict(check: RecipeCheck, recipe: Recipe, the_build: Build | None = None) -> Verdict:
    got = check.judge(recipe, the_build or of())
    assert isinstance(got, Finding)
    assert got.evidence
    return got.verdict


def recipe(text: str, name: str = "r.yaml") -> Recipe:
    return read_recipe(text, name)


PLAIN = "vllm serve Qwen/Qwen3-8B --port 8000 --max-model-len 4096"


def test_a_plain_line_is_resolved() -> None:
    assert isinstance(verdict(RESOLVED, recipe(PLAIN, "-")), Yes)


def test_a_variable_that_decides_is_unknown_by_line() -> None:
    got = verdict(RESOLVED, recipe("# x\nvllm serve a/b --max-model-len $LEN --port $PORT", "-"))
    assert isinstance(got, Unknown)
    assert got.because == "line 2: $LEN in --max-model-len: nothing in the recipe sets it"


def test_where_it_listens_decides_nothing() -> None:
    assert isinstance(
        verdict(RESOLVED, recipe("vllm serve a/b --port $PORT --master-addr $HEAD_IP", "-")), Yes
    )


def test_what_a_shell_would_execute_is_a_no_by_line() -> None:
    got = verdict(RESOLVED, recipe('container: a/b\nruntime: vllm\nmodel: "a/b; reboot"\n'))
    assert isinstance(got, No) and got.because.startswith("line 3: the model's name holds ';'")


def test_another_engine_is_a_no() -> None:
    assert isinstance(verdict(ENGINE, recipe(PLAIN, "-")), Yes)
    got = verdict(ENGINE, recipe(PLAIN, "-"), of("sglang"))
    assert isinstance(got, No) and got.because == "the recipe starts vllm (line 1), the build is sglang"
    unsaid = recipe("model: a/b\nmax-model-len: 4096\n")
    assert isinstance(ENGINE.judge(unsaid, of()), Skipped)


PAGE = "model:\n  model_id: a/b\n  min_vllm_version: 0.17.0\n"
VERSIONED = [
    (PAGE, "0.17.0", Yes), (PAGE, "0.18.0", Yes), (PAGE, "0.17.1rc1.dev25", Yes), (PAGE, "0.16.9", No),
    (PAGE, "0.14.0rc2.dev262", No), (PAGE, "0.17.0rc2", Unknown), (PAGE, "nightly", Unknown), (PAGE, None, Unknown),
    ("pip install 'vllm>=0.18'\n" + PLAIN, "0.17.1", Unknown),  # it would be installed
    ("pip install 'vllm>=0.10,<0.17'\n" + PLAIN, "0.17.1", Unknown),
    ("pip install vllm~=0.17.0\n" + PLAIN, "0.17.1", Yes),
    ("pip install vllm~=0.17.0\n" + PLAIN, "0.18.0", Unknown),
    ("pip install vllm~=0.17\n" + PLAIN, "0.18.0", Yes),
    ("pip install vllm!=0.17.0\n" + PLAIN, "0.17.1", None),
    ("pip install vllm==0.17.0\n" + PLAIN, "0.17.1", None),  # it says which build, not what one has to be
    ("# vLLM >= 0.18\n" + PLAIN, "0.17.1", Unknown),  # a sentence may be about something else
    ("# vLLM >= 0.17\n" + PLAIN, "0.17.1", Yes),
]  # fmt: skip


@pytest.mark.parametrize(("text", "version", "expected"), VERSIONED)
def test_the_least_release(text: str, version: str | None, expected: type[Verdict] | None) -> None:
    name = "-" if "serve" in text else "p.yaml"
    if expected is None:
        assert isinstance(VERSIONS.judge(recipe(text, name), of(version=version)), Skipped)
        return
    assert isinstance(verdict(VERSIONS, recipe(text, name), of(version=version)), expected)


def test_a_no_says_line_and_both_releases() -> None:
    got = verdict(VERSIONS, recipe(PAGE, "p.yaml"), of(version="0.14.0"))
    assert got == No("line 3 asks for vllm>=0.17.0: the build has 0.14.0", "use vllm>=0.17.0")


@pytest.mark.parametrize(("installed", "expected"), [("5.2.0", Yes), ("4.57.3", Unknown)])
def test_a_package_beside_the_engine(installed: str, expected: type[Verdict]) -> None:
    text = 'pip install "transformers>=5.0"\n' + PLAIN
    assert isinstance(verdict(VERSIONS, recipe(text, "-"), of(installed=installed)), expected)


def test_of_several_releases_that_may_be_there_those_that_meet_it_are_needed() -> None:
    one = of(installed=None)
    several = Transformers(Known(None, seen()), Known("", seen("any")), one.transformers.table)
    releases = several.candidates()
    assert isinstance(releases, Known) and len(releases.value) > 1
    text = f'pip install "transformers>={releases.value[-1]}"\n{PLAIN}'
    got = verdict(VERSIONS, recipe(text, "-"), replace(one, transformers=several))
    assert isinstance(got, Yes) and got.needs == (f"transformers>={releases.value[-1]}",)


def test_what_is_asked_of_other_engines_is_none_of_this_build() -> None:
    assert isinstance(VERSIONS.judge(recipe(PAGE, "p.yaml"), of("sglang")), Skipped)
    foreign = replace(recipe(PLAIN, "-"), stated=(Stated("torch", ">=2.9", 1, "torch>=2.9"),))
    assert isinstance(VERSIONS.judge(foreign, of()), Skipped)


def test_flags_are_told_by_line() -> None:
    one = recipe("vllm serve a/b \\\n  --port 1 \\\n  --max-modle-len 4", "-")
    flags = {name: Flag(name, None, Site("a.py", 1), (), "value") for name in ("--port", "--max-model-len")}
    wish = replace(parse_wish(one.flags), recipe=one)
    got = FLAGS.judge(case(the_build=replace(build(), flags=Known(flags, seen("flags"))), wish=wish))
    assert isinstance(got, Finding) and isinstance(got.verdict, No)
    assert (
        got.verdict.because
        == "line 3: --max-modle-len does not exist in this build; nearest: --max-model-len"
    )


def test_all_of_them_at_once() -> None:
    found, skipped = judge(recipe(PLAIN, "-"), of())
    assert [each.check for each in found] == ["recipe-resolved", "recipe-engine-matches"]
    assert [each.check for each in skipped] == ["stated-versions-met"]


def test_flags_of_another_engine_are_said_once() -> None:
    one = recipe("python -m sglang.launch_server --model-path a/b --mem-fraction-static 0.8", "-")
    wish = replace(parse_wish((*one.flags, "--max-model-len=1")), recipe=one)
    own = meant_for("vllm", wish)
    assert own.flags == {"--max-model-len": "1"} and own.recipe is one
    assert meant_for("sglang", wish) is wish
    alone = meant_for("vllm", replace(parse_wish(one.flags), recipe=one))
    skipped = FLAGS.judge(case(the_build=of(), wish=alone))
    assert isinstance(skipped, Skipped)
    assert skipped.because == "the recipe's flags are for sglang, as recipe-engine-matches says"
    assert isinstance(verdict(ENGINE, one), No)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("docker run --env-file x.env vllm/vllm-openai:v1 --model a/b", Yes),
        ("vllm serve a/b --config s.yaml", Unknown),
        ("source c.sh\nvllm serve a/b --port $PORT", Yes),
        ("source c.sh\nvllm serve a/b --max-model-len $LEN", Unknown),
    ],
)
def test_a_file_that_is_not_read_leaves_open_what_depends_on_it(text: str, kind: type[Verdict]) -> None:
    found = verdict(RESOLVED, recipe(text, "-"))
    assert isinstance(found, kind)
    if isinstance(found, Unknown):
        assert "s.yaml" in found.because or "c.sh" in found.because
