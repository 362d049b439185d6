"""``up --env NAME=VALUE``: variables for every process, and nothing secret among them."""

from __future__ import annotations

import pytest

from canserve.api import SpecError
from canserve.api.wished import UpWishes, given_to
from canserve.subjects.deployment import Folder, Image

FOLDER = Folder("/srv/engine")


def test_they_reach_every_process_with_what_else_is_passed_on() -> None:
    wishes = UpWishes(environment=("OMP_NUM_THREADS=1", "A=b=c", "EMPTY="), hub_cache="/hub")
    said = {"OMP_NUM_THREADS": "1", "A": "b=c", "EMPTY": ""}
    assert given_to("/m", FOLDER, wishes).environment == {**said, "HF_HOME": "/hub"}
    inside = given_to("/m", Image("docker", "engine:1"), wishes).environment
    assert {name: inside[name] for name in said} == said and set(inside) == {*said, "HF_HOME"}


@pytest.mark.parametrize("text", ["A", "=b", "1A=b", "A B=c", "A=b\nc", "A=b\0c", "-x=1", "$(id)=1"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="no variable with its value"):
        given_to("/m", FOLDER, UpWishes(environment=(text,)))


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "VLLM_API_KEY", "db_password", "SECRET", "AWS_SECRET_ACCESS_KEY"]
)
def test_a_secret_is_refused_and_its_value_not_repeated(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        given_to("/m", FOLDER, UpWishes(environment=(f"{name}=hunter2",)))
    assert name in str(refused.value) and "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYS_SHOWN", "MAX_TOKENS"])
def test_names_that_only_sound_like_it_are_taken(name: str) -> None:
    assert given_to("/m", FOLDER, UpWishes(environment=(f"{name}=1",))).environment == {name: "1"}
