"""Draft classes and flag syntax, from source written in the manner of the engine's own."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from textwrap import dedent, indent

import pytest

from canserve.engines.sources import Hole, Sources
from canserve.engines.vllm.drafts import draft_classes, draft_table
from canserve.engines.vllm.flag_syntax import flag_syntax
from canserve.engines.vllm.reading import Reading
from canserve.facts import Cause, Known, Missing


def reading(files: Mapping[str, str], holes: Sequence[Hole] = ()) -> Reading:
    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return {path: dedent(files[path]).encode() for path in paths}

    return Reading(Sources("vllm==9.9", files, fetch, holes))


def table(body: str) -> dict[str, tuple[str, ...]]:
    function = ast.parse("def hf_config_override(hf_config):\n" + indent(dedent(body), "    ")).body[0]
    assert isinstance(function, ast.FunctionDef)
    return draft_table(function)


def test_a_type_that_becomes_another_and_then_a_class() -> None:
    got = table("""
        if hf_config.model_type in ("a3", "a32"):
            hf_config.model_type = "a_mtp"
        if hf_config.model_type == "a_mtp":
            n = getattr(hf_config, "num_layers", None)
            hf_config.update({"n_predict": n, "architectures": ["AMTPModel"]})
        """)
    assert got == {"a3": ("AMTPModel",), "a32": ("AMTPModel",), "a_mtp": ("AMTPModel",)}


def test_a_class_chosen_at_run_time_lists_all() -> None:
    got = table("""
        if hf_config.model_type in {"b", "b_moe"}:
            is_moe = hf_config.model_type == "b_moe"
            hf_config.model_type = "b_mtp"
            hf_config.update({"architectures": ["BMoeMTP" if is_moe else "BMTP"]})
        """)
    assert got["b"] == got["b_moe"] == ("BMoeMTP", "BMTP")


def test_a_local_name_and_a_local_table() -> None:
    got = table("""
        if hf_config.model_type == "c":
            architecture = "C1" if x else ("C2" if y else "C3")
            hf_config.update({"architectures": [architecture]})
        if (arch := hf_config.architectures[0]) in ("DForCausalLM", "DOmniForCausalLM"):
            maps = {"DForCausalLM": "DMTP", "DOmniForCausalLM": "DOmniMTP"}
            hf_config.update({"architectures": [maps[arch]]})
        """)
    assert got["c"] == ("C1", "C2", "C3")
    assert got["DForCausalLM"] == ("DMTP",)
    assert got["DOmniForCausalLM"] == ("DOmniMTP",)


def test_conditions_of_other_forms() -> None:
    got = table("""
        initial_architecture = hf_config.architectures[0]
        if "e45" in hf_config.model_type:
            hf_config.update({"architectures": ["E"]})
        if hf_config.model_type == "f" or "FForCausalLM" in architectures:
            hf_config.architectures = ["F"]
        if hf_config.model_type in ("g",) or {"GForCausalLM"}.intersection(hf_config.architectures or []):
            overrides["architectures"] = ["G"]
        if initial_architecture == "HForCausalLM":
            if other:
                hf_config.update({"architectures": ["H"]})
        elif hf_config.model_type == "i" and hasattr(hf_config, "num_nextn_predict_layers"):
            hf_config.update({"architectures": ["I"]})
        if getattr(hf_config, "backend", None) == "not about a type":
            hf_config.update({"architectures": ["No"]})
        """)
    assert got == {
        "e45": ("E",),
        "f": ("F",),
        "FForCausalLM": ("F",),
        "g": ("G",),
        "GForCausalLM": ("G",),
        "HForCausalLM": ("H",),
        "i": ("I",),
    }


def test_what_names_itself_does_not_go_round_for_ever() -> None:
    got = table("""
        if hf_config.model_type == "j":
            name = [name, "J"]
            hf_config.update({"architectures": [name]})
        """)
    assert got == {"j": ("J",)}


def test_the_function_is_found_and_cited_with_its_line() -> None:
    source = """
        class SpeculativeConfig:
            @staticmethod
            def hf_config_override(hf_config):
                if hf_config.model_type == "a":
                    hf_config.update({"architectures": ["AMTP"]})
        """
    got = draft_classes(reading({"vllm/config/speculative.py": source, "vllm/config/__init__.py": ""}))
    assert isinstance(got, Known)
    assert got.value == {"a": ("AMTP",)}
    assert got.evidence[0].how == "vllm/config/speculative.py:4"


def test_a_build_without_the_function_has_no_draft_classes() -> None:
    got = draft_classes(reading({"vllm/config.py": "x = 1"}))
    assert isinstance(got, Known)
    assert got.value == {}


def test_what_could_not_be_listed_is_missing() -> None:
    hole = Hole("vllm/config", Missing(Cause.UNAVAILABLE, "permission denied"))
    assert isinstance(draft_classes(reading({"vllm/config.py": ""}, [hole])), Missing)
    hole = Hole("vllm/utils", Missing(Cause.UNAVAILABLE, "permission denied"))
    assert isinstance(flag_syntax(reading({"vllm/utils.py": ""}, [hole])), Missing)


def test_a_chain_of_conditions_without_end_is_missing() -> None:
    chain = "    if x: pass\n" + "    elif hf_config.model_type == 'a': pass\n" * 2500
    got = draft_classes(reading({"vllm/config.py": "def hf_config_override(hf_config):\n" + chain}))
    assert isinstance(got, Missing)


def test_an_unparseable_file_is_missing() -> None:
    assert isinstance(draft_classes(reading({"vllm/config.py": "def ("})), Missing)
    assert isinstance(flag_syntax(reading({"vllm/utils.py": "def ("})), Missing)


UNDERSCORES = """
    class FlexibleArgumentParser(argparse.ArgumentParser):
        def parse_args(self, args=None):
            for arg in args:
                key = arg.replace("_", "-")
"""
DOTS = (
    UNDERSCORES
    + """
                key, *keys = arg.split(".")
"""
)


def test_pairs_that_answer_to_their_inverse() -> None:
    action = 'class Both(Action):\n    inverse = {"--enable-": "--disable-", "--disable-": "--enable-"}\n\n\n'
    registers = '    def __init__(self):\n        self.register("action", BooleanOptionalAction, Both)\n'
    for source, expected in ((action + dedent(DOTS) + registers, True), (action + dedent(DOTS), False)):
        got = flag_syntax(reading({"vllm/utils.py": source}))
        assert isinstance(got, Known)
        assert got.value.inverses is expected


@pytest.mark.parametrize(
    ("source", "underscores", "dotted"),
    [
        (UNDERSCORES, True, False),
        (DOTS, True, True),
        ("class Other: pass", False, False),
        (
            "class FlexibleArgumentParser(argparse.ArgumentParser):\n    x = 'a'.replace('-', '_')",
            False,
            False,
        ),
    ],
)
def test_flag_syntax(source: str, underscores: bool, dotted: bool) -> None:
    got = flag_syntax(reading({"vllm/utils.py": source}))
    assert isinstance(got, Known)
    assert (got.value.underscores, got.value.dotted) == (underscores, dotted)
    assert got.evidence
