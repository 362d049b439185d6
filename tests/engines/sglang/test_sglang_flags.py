"""Flags in both ways of declaring them, whole and one at a time."""

from __future__ import annotations

import pytest
from sglang_builds import read

from canserve.engines.sglang.flags import one_flag
from canserve.engines.sglang.reading import Reading
from canserve.engines.sources import Sources
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Flag, Site, Want

CALLS = """
CHOICES = ["auto", "gguf"]


class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        LOCAL = ["triton", "fa3"]
        parser.add_argument(
            "--model-path", "--model",
            type=str,
            help="The path (a folder, or an id).",
            required=True,
        )
        parser.add_argument("--load-format", type=str, choices=CHOICES, default=ServerArgs.load_format)
        parser.add_argument("--attention-backend", choices=LOCAL)
        parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8_e5m2"])
        parser.add_argument("--trust-remote-code", action="store_true", help="yes)")
        parser.add_argument("--radix", action=argparse.BooleanOptionalAction)
        parser.add_argument("--lora-paths", type=str, nargs="*")
        parser.add_argument("--reasoning-parser", choices=list(Parser.DetectorMap))
        parser.add_argument("--old", action=DeprecatedStoreTrueAction, new_flag="--new")
        parser.add_argument("--gone", action=DeprecatedAction, error_message="it is gone")
        parser.add_argument("--renamed", action=DeprecatedStoreConstAction, nargs=None, choices=["amd"])
        parser.add_argument("-p", "--port", type=int)
        parser.add_argument("positional")
"""
FIELDS = """
class ServerArgs:
    model_path: A[str, Arg(help="A path.", aliases=["--model"])]
    load_format: A[str, Arg(help="Format.", choices=LOAD_FORMATS)] = "auto"
    trust_remote_code: A[bool, "Whether to (really) trust."] = False
    dtype: A[Literal["auto", "half"], "Type."] = "auto"
    lora_paths: A[Optional[List[str]], Arg(help="Paths.")] = None
    json_list: A[Optional[List[str]], Arg(help="Paths.", type_parser=json_list)] = None
    tp_size: A[int, Arg(help="Size.", cli_name="--tensor-parallel-size", aliases=["--tp"])] = 1
    radix: A[bool, Arg(help="Radix.", action=argparse.BooleanOptionalAction)] = True
    tokenizer: A[Optional[str], f"Help for {NAME}."] = None
    hidden: A[int, Arg(help="Not for users.", no_cli=True)] = 0
    gone: A[bool, Arg(action=DeprecatedAction, action_kwargs={"error_message": "gone"})] = False
    plain: int = 0
    rank: A[int, Derived("set later")] = 0
"""
CHOICES = 'LOAD_FORMATS = [\n    "auto",\n    "gguf",  # )]\n]\n'


def flags(files: dict[str, str]) -> dict[str, Flag]:
    fact = read(files).flags
    assert isinstance(fact, Known), fact
    return dict(fact.value)


def test_add_argument() -> None:
    found = flags({"server_args.py": CALLS})
    assert found["--model-path"].aliases == ("--model",)
    assert found["--port"].aliases == ("-p",)
    assert found["--load-format"].choices == ("auto", "gguf")
    assert found["--attention-backend"].choices == ("triton", "fa3")
    assert found["--reasoning-parser"].choices is None
    assert {name: flag.kind for name, flag in found.items()} == {
        "--model-path": "value",
        "--load-format": "value",
        "--attention-backend": "value",
        "--kv-cache-dtype": "value",
        "--trust-remote-code": "switch",
        "--radix": "pair",
        "--lora-paths": "values",
        "--reasoning-parser": "value",
        "--old": "switch",
        "--renamed": "value",
        "--port": "value",
    }


@pytest.mark.parametrize("place", ["server_args.py", "arg_groups/fields/model.py"])
def test_fields_of_a_dataclass(place: str) -> None:
    files = {"server_args.py": "", "arg_groups/choices.py": CHOICES, place: FIELDS}
    found = flags(files)
    assert found["--tensor-parallel-size"].aliases == ("--tp",)
    assert found["--load-format"].choices == ("auto", "gguf")
    assert found["--dtype"].choices == ("auto", "half")
    assert found["--load-format"].at == Site(f"sglang/srt/{place}", 4)
    assert {name: flag.kind for name, flag in found.items()} == {
        "--model-path": "value",
        "--load-format": "value",
        "--trust-remote-code": "switch",
        "--dtype": "value",
        "--lora-paths": "values",
        "--json-list": "value",
        "--tensor-parallel-size": "value",
        "--radix": "pair",
        "--tokenizer": "value",
    }


@pytest.mark.parametrize("text", [CALLS, FIELDS])
def test_one_flag_cut_out_is_the_flag_of_the_whole_reading(text: str) -> None:
    files = {"sglang/srt/server_args.py": text.encode(), "sglang/srt/arg_groups/choices.py": CHOICES.encode()}
    reading = Reading(Sources("test", files, lambda paths: {path: files[path] for path in paths}), Want())
    whole = flags({"server_args.py": text, "arg_groups/choices.py": CHOICES})
    derived = {name for name, flag in whole.items() if name == "--tensor-parallel-size"}
    for name in whole.keys() - derived:
        assert one_flag(reading, name) == whole[name], name
    assert one_flag(reading, "--not-there") is None
    assert one_flag(reading, "--gone") is None


def test_no_flag_at_all_is_an_unknown_form() -> None:
    for files in ({}, {"server_args.py": "parser = build_parser_from_yaml()\n"}):
        fact = read(files, bare=True).flags
        assert isinstance(fact, Missing)
        assert fact.cause is Cause.UNREADABLE


def test_names_are_read_as_argparse_reads_them() -> None:
    syntax = read({"server_args.py": CALLS}).flag_syntax
    assert isinstance(syntax, Known)
    assert (syntax.value.underscores, syntax.value.dotted) == (False, False)
    assert isinstance(read({"server_args.py": "class P(argparse.ArgumentParser): ..."}).flag_syntax, Missing)
