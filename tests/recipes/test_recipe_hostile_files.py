"""Hostile further files: read within bounds or refused by line, whatever they hold; nothing of them is executed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canserve.facts import Fact, Known
from canserve.recipes.reading import Beside, read_recipe
from canserve.recipes.trouble import RecipeError

FIXTURES = sorted((Path(__file__).parent / "fixtures").iterdir())
ASKS = {
    "compose": (
        "c.yaml",
        "include: [f]\nservices:\n  s: {extends: {file: f, service: a}, env_file: [f, f]}\n",
    ),
    "override": ("compose.yaml", "services:\n  a: {image: 'vllm/vllm-openai:v1', command: --model a/b}\n"),
    "source": ("-", "set -a\nsource f\n. f\nvllm serve $M --config f\n"),
    "docker": ("-", "docker run --env-file f -v ./:/x vllm/vllm-openai:v1 --model a/b --config /x/f\n"),
    "script": ("-", "./f.sh\nbash -e f.sh a b\nsource f.sh\n"),
    "unit": ("x.service", "[Service]\nEnvironmentFile=f\nExecStart=vllm serve $M --config f\n"),
}
PLACES = ("f", "f.sh", "compose.override.yaml", "compose.override.yml", ".env", "x.service.d/")


def read(ask: str, text: str) -> None:
    name, recipe = ASKS[ask]
    files: dict[str, Fact[str | None]] = {place: Known(text) for place in PLACES}
    with contextlib.suppress(RecipeError):
        found = read_recipe(recipe, name, Beside(files=files))
        last = recipe.count("\n") + 1
        assert all(0 <= word.line <= last for command in found.commands for word in command.argv)
        for told in (found.open, found.refused, found.files):
            assert all(0 <= one.line <= last for one in told)
        assert all(0 <= said.line <= last for said in found.environment.values())


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(ASKS)), st.text(max_size=300))
def test_any_text_beside_a_recipe_is_read_or_refused(ask: str, text: str) -> None:
    read(ask, text)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(ASKS)),
    st.sampled_from(FIXTURES),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.text("'\"$`{}[]()<>|&;:#\\\n\t -=*a0", max_size=6)),
        max_size=4,
    ),
)
def test_any_recipe_beside_a_recipe_is_read_or_refused(
    ask: str, path: Path, changes: list[tuple[float, int, str]]
) -> None:
    text = path.read_text()
    for where, length, new in changes:
        at = int(where * len(text))
        text = text[:at] + new + text[at + length :]
    read(ask, text)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
WIDE = "services:\n  a:\n    image: vllm/vllm-openai:v1\n    labels: [" + "x=y, " * 9_000 + "]\n"
LARGE = {
    "a bomb": BOMB,
    "a service of many values": WIDE,
    "variables without end": "A=1\n" * 60_000,
    "a variable that doubles": "M=xxxxxxxxxxxxxxxx\n" + "M=$M$M\n" * 60,
    "an open quote": 'A="' + "x\\" * 100_000,
    "quotes": "A='\nB=\"\n" * 30_000,
    "backslashes": "A=x\\\n" * 60_000,
    "sources": "source f\n" * 20_000,
    "scripts": "./f.sh\n" * 2_000,
    "brackets": "a: " + "[" * 200_000,
    "a tag": "services: !!python/object/apply:os.system ['touch pwned']\n",
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_ends(ask: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read(ask, LARGE[name])
    assert not list(tmp_path.iterdir())


def test_many_services_that_extend_a_wide_one_are_refused() -> None:
    text = "services:\n" + "".join(f"  s{n}: {{extends: {{file: f, service: a}}}}\n" for n in range(500))
    with pytest.raises(RecipeError, match="more than"):
        read_recipe(text, "c.yaml", Beside(files={"f": Known(WIDE)}))


def test_many_services_that_extend_each_other_end() -> None:
    text = "services:\n  s0: {image: x}\n" + "".join(
        f"  s{n}: {{extends: s{n - 1}}}\n" for n in range(1, 600)
    )
    with contextlib.suppress(RecipeError):
        assert read_recipe(text, "c.yaml").refused


def test_many_services_that_extend_a_wide_one_beside_them_are_refused() -> None:
    text = WIDE + "".join(f"  s{n}: {{extends: a}}\n" for n in range(500))
    with pytest.raises(RecipeError, match="more than"):
        read_recipe(text, "c.yaml")
