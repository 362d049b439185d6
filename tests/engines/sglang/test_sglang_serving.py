"""What a server can be told: parsers, dtypes, formats, algorithms, back ends, launchers, plugins."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_builds import MODEL, read

from canserve.facts import Cause, Known, Missing


def known(fact: Any) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def args(*declared: str) -> dict[str, str]:
    return {
        "server_args.py": "def add(parser):\n" + "".join(f"    parser.add_argument({d})\n" for d in declared)
    }


# -- parsers


@pytest.mark.parametrize("path", ["reasoning_parser.py", "parser/reasoning_parser.py"])
def test_reasoning_parsers(path: str) -> None:
    text = """
        class ReasoningParser:
            DetectorMap: Dict[str, Type[Base]] = {
                "deepseek-r1": DeepSeekR1Detector,
                "qwen3": Qwen3Detector,  # }
            }
            def __init__(self):
                self.x = self.DetectorMap.get("no")
    """
    assert known(read({path: text}).reasoning_parsers) == ("deepseek-r1", "qwen3")


def test_tool_parsers_and_what_the_flag_adds() -> None:
    table = "class P:\n    ToolCallParserEnum: Dict[str, X] = {'llama3': A, 'qwen25': B}\n"
    files = {"function_call/function_call_parser.py": table}
    assert known(read(files).tool_parsers) == ("llama3", "qwen25")
    added = args('"--tool-call-parser", choices=["auto"] + tool_parsers()')
    assert known(read({**files, **added}).tool_parsers) == ("llama3", "qwen25", "auto")


def test_releases_without_parsers_have_none() -> None:
    assert known(read().reasoning_parsers) == ()
    assert known(read().tool_parsers) == ()


@pytest.mark.parametrize("value", ["load()", "{name(): A}", "{**others}"])
def test_an_unknown_table_of_parsers_is_missing(value: str) -> None:
    fact = read({"reasoning_parser.py": f"class P:\n    DetectorMap = {value}\n"}).reasoning_parsers
    assert isinstance(fact, Missing)
    assert fact.cause is Cause.UNREADABLE


# -- choices


def test_cache_types() -> None:
    assert known(read(args('"--kv-cache-dtype", choices=["auto", "fp8_e5m2"]')).kv_cache_dtypes) == (
        "auto",
        "fp8_e5m2",
    )
    assert known(read(args('"--model-path"')).kv_cache_dtypes) == ("auto",)
    assert isinstance(read(args('"--kv-cache-dtype", choices=known_types()')).kv_cache_dtypes, Missing)


def test_load_formats_and_gguf() -> None:
    without = read(args('"--load-format", choices=["auto", "pt"]'))
    assert known(without.load_formats) == ("auto", "pt")
    assert known(without.gguf_architectures) == {}
    with_gguf = read(args('"--load-format", choices=["auto", "gguf"]'))
    assert known(with_gguf.gguf_architectures) is None
    assert isinstance(read(args('"--model-path"')).load_formats, Missing)


def test_launchers() -> None:
    assert known(read(args('"--tp-size"')).launchers) == ("mp",)
    several = args('"--nnodes", type=int', '"--node-rank", type=int')
    assert known(read(several).launchers) == ("mp", "sglang-multinode")
    ray = args('"--nnodes"', '"--node-rank"', '"--use-ray", action="store_true"')
    assert known(read(ray).launchers) == ("mp", "sglang-multinode", "ray")


# -- speculative decoding

DRAFT = {"models/llama_eagle.py": MODEL.format("LlamaForCausalLMEagle")}
ENUM = """
    class SpeculativeAlgorithm(IntEnum):
        NONE = auto()
        EAGLE = auto()
        def is_none(self): ...
"""
REGISTERED = """
    class SpeculativeAlgorithm(metaclass=Meta): ...
    SpeculativeAlgorithm.register("NONE")
    register_speculative_algorithm("EAGLE", aliases=("NEXTN",), worker_cls=make)
"""


def test_algorithms_of_an_enumeration_and_draft_classes() -> None:
    files = {**DRAFT, "speculative/spec_info.py": ENUM}
    assert sorted(known(read(files).speculative)) == ["EAGLE", "LlamaForCausalLMEagle"]


def test_algorithms_that_are_registered() -> None:
    assert sorted(known(read({"speculative/spec_info.py": REGISTERED}).speculative)) == ["EAGLE", "NEXTN"]


def test_names_that_stand_for_an_algorithm() -> None:
    aliases = {"speculative/spec_registry.py": '_RESERVED_ALIASES = frozenset({"NEXTN"})\n'}
    found = known(read({"speculative/spec_info.py": ENUM, **aliases}).speculative)
    assert sorted(found) == ["EAGLE", "NEXTN"]
    compared = {"server_args.py": '# --speculative-algorithm\nadd_argument("--speculative-algorithm")\n'
                'if speculative_algorithm == "NEXTN": speculative_algorithm = "EAGLE"\n'}  # fmt: skip
    assert "NEXTN" in known(read({"speculative/spec_info.py": ENUM, **compared}).speculative)


def test_releases_without_speculative_decoding() -> None:
    assert known(read(DRAFT).speculative) == {}


def test_an_unknown_list_of_algorithms_is_missing() -> None:
    fact = read({"speculative/spec_info.py": "ALGORITHMS = load()\n"}).speculative
    assert isinstance(fact, Missing)


# -- attention


def test_attention_back_ends() -> None:
    registry = """
        @register_attention_backend("flashinfer")
        def create_flashinfer_backend(runner): ...

        @register_attention_backend("triton")
        def create_triton_backend(runner): ...
    """
    flag = args('"--attention-backend", choices=["triton", "fa3"]')
    found = known(read({"layers/attention/attention_registry.py": registry, **flag}).attention_backends)
    assert sorted(found) == ["fa3", "flashinfer", "triton"]
    assert isinstance(found["triton"].capabilities, Missing)  # rules that are not followed are no rules


def test_without_any_list_the_back_ends_are_missing() -> None:
    assert isinstance(read(args('"--model-path"')).attention_backends, Missing)


# -- plugins

ENTRY_POINTS = """
    [console_scripts]
    tool = package:main

    [sglang.srt.plugins]
    mine = my_package.models:register
    [other]
    not_mine = x:y
"""


def test_plugins_of_packages_beside_the_engine() -> None:
    files = {"plugins/__init__.py": 'GENERAL_PLUGINS_GROUP = "sglang.srt.plugins"\n'}
    beside = {"../../my_package-1.0.dist-info/entry_points.txt": ENTRY_POINTS}
    assert known(read(files).plugins) == ()
    assert known(read({**files, **beside}).plugins) == (
        "sglang.srt.plugins: mine = my_package.models:register",
    )
    assert known(read(beside).plugins) == ()  # a release that loads no plugins
    assert isinstance(read({"plugins/__init__.py": "GROUPS = load()\n"}).plugins, Missing)
