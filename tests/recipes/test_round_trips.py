"""What was exported is read again: whole, as the plan that a file carries, and word by word as anybody's recipe."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.api import Options, SpecError
from canserve.api.exporting import export, put_down
from canserve.api.wished import UpWishes, candidate_plans, completed, given_to, where_it_lies
from canserve.commands.contained import contained, surroundings
from canserve.engines import ray
from canserve.plan.export.exported import Exported
from canserve.plan.export.forms import FORMS, written
from canserve.plan.file import read_plans
from canserve.plan.plan import Plans
from canserve.recipes.reading import read_recipe
from canserve.render.plan_structure import plans_output
from canserve.render.structure import to_json
from canserve.subjects.deployment import Folder, Image
from canserve.subjects.recipe import Command
from exported_cases import CASES

TAKEN = {"docker": "docker-daemon", "podman": "podman"}
WORDED = {"compose", "shell", "systemd"}
"""Forms that say every process as it is started."""


def said(name: str, form: str) -> bool:
    """Whether the form can say it; what is refused, and why, is test_exported_files's matter."""
    if form == "kuberay":
        return name == "ray"
    if isinstance(CASES[name].where, Folder):
        return form in ("shell", "systemd")
    return (name, form) != ("hostile", "sparkrun")


PAIRS = [(name, form) for name in CASES for form in FORMS if said(name, form)]


def saved(it: Exported, folder: Path) -> Path:
    """The plan in a file, as ``canserve plan --save`` writes it."""
    path = folder / "plan.json"
    path.write_text(to_json(plans_output(Plans(it.model, "latency", (it.plan,)))))
    return path


def wishes(it: Exported) -> UpWishes:
    """The options with which this is exported."""
    vendor = next((site.vendor for site in it.sites if site.vendor), "none")
    where = it.where
    inside = where.path if isinstance(where, Folder) else f"{TAKEN[where.program]}:{where.name}"
    on = tuple(site.name for site in it.sites)
    return UpWishes(on=on, inside=inside, accelerators=vendor, carried=it.given)


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_every_exported_file_is_the_plan_again(name: str, form: str, tmp_path: Path) -> None:
    it = CASES[name]
    if name == "unnamed" and form in WORDED:
        with pytest.raises(SpecError, match="not known: the address of a"):
            export(str(saved(it, tmp_path)), form, wishes(it))
        return
    plan = read_plans(saved(it, tmp_path).read_text()).plans[0]
    made = export(str(saved(it, tmp_path)), form, wishes(it))
    for path in put_down(made.files.files, tmp_path / "out"):
        again = candidate_plans(str(path), UpWishes(), Options())
        assert again == (plan,)
        assert again[0].start == plan.start and again[0].placement == plan.placement
        told = completed(str(path), UpWishes())
        where = where_it_lies(told.inside or "")
        assert where == it.where and given_to(it.model, where, told) == it.given
        for other in FORMS:  # and from there to every other form, which says the same
            if said(name, other):
                assert export(str(path), other, UpWishes()).files == written(made.exported, other)


def test_an_edited_file_is_not_taken_for_the_plan(tmp_path: Path) -> None:
    for form in FORMS:
        for path in put_down(written(CASES["ray"], form).files, tmp_path / form):
            head, mark, rest = path.read_text().partition("canserve-plan:")
            plan, _, body = rest.partition("\n")
            body = body.replace("engine/serve:1", "engine/serve:2")
            path.write_text(f"{head}{mark}{plan}\n{body}")
            with pytest.raises(SpecError, match=f"{path.name} was edited"):
                candidate_plans(str(path), UpWishes(), Options())


def test_other_files_carry_none(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text("services: {}\n")
    assert completed(str(path), UpWishes()) == UpWishes()


def test_files_are_not_written_over(tmp_path: Path) -> None:
    files = written(CASES["one"], "compose").files
    put_down(files, tmp_path)
    put_down(files, tmp_path)  # the same again is no harm
    (tmp_path / "a" / "compose.yaml").write_text("mine\n")
    with pytest.raises(SpecError, match="is there already"):
        put_down(files, tmp_path)
    assert (tmp_path / "a" / "compose.yaml").read_text() == "mine\n"
    (tmp_path / "a" / "compose.yaml").unlink()
    (tmp_path / "a" / "compose.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpecError, match="is there already"):
        put_down(files, tmp_path)


def read_commands(name: str, form: str) -> list[Command]:
    found: list[Command] = []
    for path, text in written(CASES[name], form).files.items():
        recipe = read_recipe(text, path.rpartition("/")[2])
        assert not recipe.refused, recipe.refused
        found += recipe.commands
    return found


def expected(it: Exported) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Words and variables of every process of ``up``."""
    one = it.deployment
    found = []
    for number, process in enumerate(one.processes):
        argv = ray.kept(process.argv)
        if isinstance(it.where, Image):
            found.append((argv, dict(contained(one, it.where, number).environment)))
        else:
            found.append(((f"{it.where.path}/bin/{argv[0]}", *argv[1:]), surroundings(one, number)))
    return found


def told(command: Command) -> tuple[tuple[str, ...], dict[str, str]]:
    mine = ("CANSERVE_RUN", "PATH", "HF_TOKEN", "T", "POD_IP")
    return command.words, {k: v.value for k, v in command.environment.items() if k not in mine}


@pytest.mark.parametrize(("name", "form"), [pair for pair in PAIRS if pair[1] in WORDED])
def test_as_a_recipe_it_has_the_same_words(name: str, form: str) -> None:
    def key(one: Any) -> Any:
        return one[0], sorted(one[1].items())

    found = sorted(map(told, read_commands(name, form)), key=key)
    assert found == sorted(expected(CASES[name]), key=key)


@pytest.mark.parametrize("name", [name for name, form in PAIRS if form == "sparkrun"])
def test_a_sparkrun_recipe_has_the_servers_words(name: str) -> None:
    it = CASES[name]
    (command,) = read_commands(name, "sparkrun")
    server = next(argv for argv, _ in expected(it) if argv[0] not in ("ray", "rpc-server"))
    left = [word for word in server if word not in command.words]
    assert [word for word in command.words if word not in server] == []
    assert not left or left[0] in ("--nnodes", "--node-rank", "--rpc", "--dist-init-addr")


@pytest.mark.parametrize(
    ("name", "form"), [pair for pair in PAIRS if pair[1] in ("leaderworkerset", "kuberay")]
)
def test_pods_as_a_recipe_have_the_same_words_but_for_addresses(name: str, form: str) -> None:
    address = re.compile(r"\$\(\w+\)|\$[AB]_IP|\b10\.0\.0\.\d+\b|[a-z0-9.-]+-0-\d\.[a-z0-9.-]+")

    def blank(words: tuple[str, ...]) -> tuple[str, ...]:
        found = [address.sub("@", word) for word in words if word != "--block"]
        for at, word in enumerate(found[:-1]):
            if word == "--node-rank":
                found[at + 1] = "@"
        return tuple(found)

    found = {blank(one.words) for one in read_commands(name, form)}
    assert found == {blank(argv) for argv, _ in expected(CASES[name])}


def test_every_recipe_names_model_engine_and_image() -> None:
    for name, form in PAIRS:
        it = CASES[name]
        recipes = [
            read_recipe(text, path.rpartition("/")[2]) for path, text in written(it, form).files.items()
        ]
        (model,) = {one.model.value for one in recipes if one.model is not None}
        assert model == it.model, (name, form)
        assert {one.engine for one in recipes if one.engine is not None} == {it.engine}
        if isinstance(it.where, Image):
            assert {one.image.value for one in recipes if one.image is not None} == {it.where.name}


def test_a_plan_of_an_export_holds_no_figures() -> None:
    it = CASES["one"].plan
    assert it.findings == ()
    again = read_plans(to_json(plans_output(Plans(it.model, "latency", (it,))))).plans[0]
    assert again == it
    assert json.loads(to_json(plans_output(Plans(it.model, "latency", (it,)))))["version"]
    assert replace(CASES["one"], options={}).plan != it
