"""What every form has in common: the plan comes back, nothing is lost in silence, secrets stay away."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.plan.export.carrying import read
from canserve.plan.export.exported import Exported, ExportError, carried, folders, slug
from canserve.plan.export.forms import CLUSTERED, FORMS, written
from canserve.subjects.deployment import Folder, Site
from exported_cases import CASES

PAIRS = [(name, form) for name, form in product(CASES, FORMS)]


SAID = {
    (name, form)
    for name, form in PAIRS
    if not (CASES[name].where == Folder("/srv/venv") and form not in ("shell", "systemd"))
}
SAID -= {(name, "kuberay") for name in CASES if name != "ray"}
SAID -= {("hostile", "sparkrun")}


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_only_what_cannot_be_said_is_refused(name: str, form: str) -> None:
    if (name, form) in SAID:
        assert written(CASES[name], form).files
        return
    with pytest.raises(ExportError) as raised:
        written(CASES[name], form)
    assert raised.value.hint


@pytest.mark.parametrize(("name", "form"), sorted(SAID))
def test_every_file_carries_the_plan(name: str, form: str) -> None:
    for path, text in written(CASES[name], form).files.items():
        found = read(text)
        assert found is not None, path
        assert found.exported == CASES[name]
        assert found.form == form
        assert found.exported.plan == CASES[name].plan
        assert found.exported.deployment == CASES[name].deployment


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_edited_says_so(form: str) -> None:
    text = next(iter(written(CASES["ray"], form).files.values()))
    found = read(text.replace("Model-1.5B", "Model-2B", 1).replace("--num-gpus", "--num_gpus"))
    assert found is None or found.form is None
    assert read(text.replace("canserve-plan", "plan")) is None


@pytest.mark.parametrize("form", sorted(FORMS))
def test_files_lie_below_their_folder_and_are_text(form: str) -> None:
    sites = (
        Site("../../etc"),
        Site("/root"),
        Site(".ssh"),
        Site("a b"),
        Site("A B"),
        Site(""),
        Site("ssh://x:22"),
    )
    found = list(folders(replace(CASES["one"], sites=sites)).values())
    assert len({name.lower() for name in found}) == len(sites)
    assert not any("/" in name or name.startswith((".", "-")) or " " in name for name in found)
    for path, text in written(CASES["ray"], form).files.items():
        assert not path.startswith(("/", ".")) and ".." not in path
        assert text.endswith("\n") and text.isascii()


def test_a_machines_name_starts_no_line_of_its_own() -> None:
    evil = replace(CASES["one"], model="m\nExecStart=evil\n- x: y", build="b\r\n* * *")
    for form in FORMS:
        if form in ("kuberay", "shell"):  # the one refuses it, the other has it in quotes
            continue
        for text in written(evil, form).files.values():
            assert not any(line.startswith(("ExecStart=evil", "- x", "* *")) for line in text.splitlines())
            assert read(text) is not None


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_named_and_that_is_said(form: str) -> None:
    found = written(CASES["ray"], form)
    assert any("HF_TOKEN" in note for note in found.notes)
    assert any("infiniband" in note for note in found.notes) == (form in ("leaderworkerset", "kuberay"))


def test_what_a_form_leaves_out_is_a_note_and_a_comment() -> None:
    for name, form in sorted(SAID):
        found = written(CASES[name], form)
        for text in found.files.values():
            for note in found.notes:
                assert f"# {note}\n" in text
        if form in CLUSTERED and name == "one":
            assert any("accelerators" in note for note in found.notes)


def test_equal_plans_have_equal_files_and_others_have_not() -> None:
    one = CASES["ray"]
    assert written(one, "compose") == written(replace(one), "compose")
    assert one.run != replace(one, version="0.18").run
    assert len(slug(one)) <= 49 and slug(replace(one, model="/x/漢字/")).startswith("m-")


@given(st.text(max_size=200))
def test_whatever_a_file_carries_is_read_or_left(text: str) -> None:
    read(f"# canserve-plan: {text}")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=5), x), max_leaves=10), st.sampled_from(sorted(json.loads(carried(CASES["ray"])))))  # fmt: skip
def test_a_plan_with_one_thing_wrong_is_read_or_left(value: object, key: str) -> None:
    told = json.loads(carried(CASES["ray"])) | {key: value}
    found = read(f"# canserve-plan: {json.dumps(told)}\n")
    assert found is None or isinstance(found.exported, Exported)
