"""What is printed of things brought to machines: state, road, bytes, digest; commands of a dry run; nothing unescaped."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from canserve.render import structure
from canserve.render.page import Look
from canserve.render.transfer_shapes import distribute_output
from canserve.render.transfer_text import transfer_text
from canserve.run.transfer import Carried
from canserve.units import Bytes

SCHEMA = Path(structure.__file__).parent / "schema" / "distribute.json"
FOUND = (
    Carried("me/vllm:1", "head", "there", None, digest="sha256:ab"),
    Carried(
        "me/vllm:1", "second", "direct", "head", Bytes(2_000_000), 1.5, "sha256:ab", "4 of 5 layers are there"
    ),
    Carried("me/vllm:1", "third", "through", "head", problem="third: no space left\x1b[2J"),
)


def test_text_says_what_is_where_and_how_it_came() -> None:
    assert transfer_text(FOUND, Look(), dry=False).splitlines() == [
        "me/vllm:1",
        "  head    there  it is there",
        "                 verified: sha256:ab",
        "  second  there  from head, straight over the network between them; 2 MB moved in 1.5 s",
        "                 4 of 5 layers are there",
        "                 verified: sha256:ab",
        "  third   no     third: no space left\\x1b[2J",
    ]


def test_a_dry_run_shows_commands() -> None:
    argv = (("head", ("docker", "save", "me/vllm:1")), ("second", ("docker", "load", "-q")))
    said = transfer_text([Carried("me/vllm:1", "second", "direct", "head", argv=argv)], Look(), dry=True)
    assert "second  would  from head" in said
    assert "head$ docker save me/vllm:1\n" in said
    assert "moved" not in said


def test_json_keeps_its_schema() -> None:
    for dry in (True, False):
        told = json.loads(structure.to_json(distribute_output(FOUND, dry)))
        jsonschema.validate(told, json.loads(SCHEMA.read_text()))
        assert [one["there"] for one in told["carried"]] == [True, None if dry else True, False]
    assert told["carried"][1]["moved_bytes"] == 2_000_000
