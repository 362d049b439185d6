"""Flags, what they may name, and how a build serves, in every form they have had."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from vllm_builds import DENIED, REGISTRY, TABLES, built, reading

from canserve.engines.sources import Hole
from canserve.engines.vllm.flags import read_flags
from canserve.engines.vllm.parsers import REASONING, TOOLS, read_parsers
from canserve.engines.vllm.registry import read_registry
from canserve.engines.vllm.serving import (
    read_cache_types,
    read_gguf,
    read_launchers,
    read_load_formats,
    read_plugins,
    read_speculative,
)
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Flag

ARGS = "vllm/engine/arg_utils.py"
NO_RAY: Known[tuple[str, ...]] = Known(("torch",))
RAY: Known[tuple[str, ...]] = Known(("ray>=2.9",))


def flags(files: dict[str, str]) -> Mapping[str, Flag]:
    fact = read_flags(reading(files))
    assert isinstance(fact, Known), fact
    return fact.value


def test_flags_written_out() -> None:
    found = flags(
        {
            ARGS: """
                STR = ["auto", "pt"]
                def add(parser):
                    parser.add_argument("--model", type=str)
                    parser.add_argument("--tensor-parallel-size", "-tp", type=int)
                    parser.add_argument("--trust-remote-code", action="store_true")
                    parser.add_argument("--load-format", choices=STR)
                    parser.add_argument("--served-model-name", nargs="+")
                    parser.add_argument("--rope-scaling", type=json.loads)
                    parser.add_argument("--enable-x", action=argparse.BooleanOptionalAction)
                    parser.add_argument("--maybe", nargs="?", const="True")
                    parser.add_argument("model_tag")
                """
        }
    )
    assert {name: (flag.kind, flag.choices, flag.aliases) for name, flag in found.items()} == {
        "--model": ("value", None, ()),
        "--tensor-parallel-size": ("value", None, ("-tp",)),
        "--trust-remote-code": ("switch", None, ()),
        "--load-format": ("value", ("auto", "pt"), ()),
        "--served-model-name": ("values", None, ()),
        "--rope-scaling": ("json", None, ()),
        "--enable-x": ("pair", None, ()),
        "--maybe": (None, None, ()),
    }
    assert str(found["--model"].at) == f"{ARGS}:4"


CONFIG_CLASSES = """
    from dataclasses import dataclass, field
    from typing import Literal, Optional, Union
    from .common import Inner, Kind
    Cache = Literal["auto", "fp8"]
    @config
    class ModelConfig:
        model: str = "x"
        eager: bool = False
        cache: Cache = "auto"
        free: Cache | str = "auto"
        kind: Optional[Kind] = None
        names: Union[str, list[str], None] = None
        inner: Inner = field(default_factory=Inner)
        extra: dict[str, int] = field(default_factory=dict)
        token: bool | str | None = None
        device: "torch.device" = None
        count: int | None = None
"""


def test_flags_made_from_config_fields() -> None:
    fields = [
        "model",
        "eager",
        "cache",
        "free",
        "kind",
        "names",
        "inner",
        "extra",
        "token",
        "device",
        "count",
    ]
    adds = "\n".join(f'        g.add_argument("--{name}", **kwargs["{name}"])' for name in fields)
    found = flags(
        {
            ARGS: "from vllm.config import ModelConfig\nclass EngineArgs:\n    def add(self, g):\n"
            f"        kwargs = get_kwargs(ModelConfig)\n{adds}\n"
            '        g.add_argument("--spread", **{**kwargs["eager"], "default": None})\n'
            '        g.add_argument("--strange", **made["x"])\n',
            "vllm/config/__init__.py": CONFIG_CLASSES,
            "vllm/config/common.py": "from typing import Literal\nKind = Literal['a', 'b']\n@dataclass\nclass Inner: ...",
        }
    )
    assert {name.removeprefix("--"): (flag.kind, flag.choices) for name, flag in found.items()} == {
        "model": ("value", None),
        "eager": ("pair", None),
        "cache": ("value", ("auto", "fp8")),
        "free": ("value", None),
        "kind": ("value", ("a", "b")),
        "names": ("values", None),
        "inner": ("json", None),
        "extra": ("json", None),
        "token": (None, None),
        "device": ("value", None),
        "count": ("value", None),
        "spread": ("pair", None),
        "strange": (None, None),
    }


@pytest.mark.parametrize("folder", ["openai", "common", "launchers"])
def test_flags_made_from_the_front_ends_fields(folder: str) -> None:
    front = f"vllm/entrypoints/{folder}/cli_args.py"
    found = flags(
        {
            ARGS: "def add(p):\n    p.add_argument('--model')",
            front: """
                from typing import ClassVar
                @dataclass
                class BaseFrontendArgs:
                    lora_modules: list[str] | None = None
                    counter: ClassVar[int] = 0
                @dataclass
                class FrontendArgs(BaseFrontendArgs):
                    host: str | None = None
                    allow_credentials: bool = False
                    middleware: list[str] = field(default_factory=list)
                    allowed_origins: list[str] = field(default_factory=list)
                    @classmethod
                    def _customize_cli_kwargs(cls, frontend_kwargs):
                        frontend_kwargs["allowed_origins"]["type"] = json.loads
                        del frontend_kwargs["allowed_origins"]["nargs"]
                        frontend_kwargs["middleware"]["action"] = "append"
                """,
        }
    )
    assert {name: flag.kind for name, flag in found.items()} == {
        "--model": "value",
        "--lora-modules": "values",
        "--host": "value",
        "--allow-credentials": "pair",
        "--middleware": "value",
        "--allowed-origins": "value",
    }


def test_flags_that_could_not_be_looked_for() -> None:
    assert read_flags(reading({}, [Hole("vllm/entrypoints", DENIED)])) == DENIED
    fact = read_flags(reading({ARGS: "x = 1"}))
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE


def value(fact: object) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_cache_types() -> None:
    alias = "CacheDType = Literal['auto', 'fp8']"
    for path in ("vllm/config/cache.py", "vllm/config/__init__.py", "vllm/config.py"):
        assert value(read_cache_types(reading({path: alias}))) == ("auto", "fp8")
    choices = "def f(p):\n    p.add_argument('--reasoning', choices=['r'], help='see --kv-cache-dtype')\n"
    choices += "    p.add_argument('--kv-cache-dtype', choices=['auto', 'fp8_e5m2'])"
    assert value(read_cache_types(reading({ARGS: choices}))) == ("auto", "fp8_e5m2")
    assert value(read_cache_types(reading({ARGS: "x = 1"}))) == ("auto",)
    unknown = read_cache_types(
        reading({ARGS: "def f(p):\n    p.add_argument('--kv-cache-dtype', choices=g())"})
    )
    assert isinstance(unknown, Missing)
    assert read_cache_types(reading({ARGS: ""}, [Hole("vllm/config", DENIED)])) == DENIED


def test_load_formats() -> None:
    enum = "class LoadFormat(str, enum.Enum):\n    AUTO = 'auto'\n    MISTRAL = 'mistral'\n"
    assert value(read_load_formats(reading({"vllm/config.py": enum}))) == ("auto", "mistral")
    alias = {"vllm/model_executor/model_loader/__init__.py": "LoadFormats = Literal['auto', 'gguf']"}
    assert value(read_load_formats(reading(alias))) == ("auto", "gguf")
    choices = {ARGS: "def f(p):\n    p.add_argument('--load-format', choices=['auto', 'pt'])"}
    assert value(read_load_formats(reading(choices))) == ("auto", "pt")


def test_launchers() -> None:
    parallel = {
        "vllm/config/parallel.py": "DistributedExecutorBackend = Literal['ray', 'mp', 'uni', 'external_launcher']"
    }
    arguments = {ARGS: 'def f(p):\n    p.add_argument("--nnodes")'}
    serve = {"vllm/entrypoints/cli/serve.py": 'def f(p):\n    p.add_argument("--headless")'}
    assert value(read_launchers(reading({ARGS: "", **parallel}), RAY)) == ("ray", "mp", "uni", "torchrun")
    newest = read_launchers(reading({**parallel, **arguments, **serve}), NO_RAY)
    assert value(newest) == ("ray-optional", "mp", "uni", "torchrun", "mp-multinode", "headless")
    oldest = reading({ARGS: "def f(p):\n    p.add_argument('--worker-use-ray', action='store_true')"})
    assert value(read_launchers(oldest, RAY)) == ("ray",)
    assert isinstance(read_launchers(reading({"vllm/__init__.py": ""}), RAY), Missing)


def test_speculative_classes_and_methods() -> None:
    methods = "Mtp = Literal['mtp']\nSpeculativeMethod = Literal['ngram', Mtp]"
    there = reading({REGISTRY: TABLES, "vllm/config/speculative.py": methods})
    found = read_speculative(there, read_registry(there))
    assert isinstance(found, Known) and sorted(found.value) == ["EagleModel", "mtp", "ngram"]
    assert str(found.value["ngram"]) == "vllm/config/speculative.py:2"
    old = reading({REGISTRY: "_VLLM_MODELS = {'MedusaModel': ('medusa', 'Medusa'), 'A': ('a', 'A')}"})
    assert value(read_speculative(old, read_registry(old))).keys() == {"MedusaModel"}  # type: ignore[attr-defined]
    assert read_speculative(there, DENIED) is DENIED


LAZY = "_{}_PARSERS_TO_REGISTER = {{'b': ('mod', 'B'), 'a': ('mod', 'A')}}"


def test_parsers() -> None:
    lazy = {
        "vllm/reasoning/__init__.py": LAZY.format("REASONING"),
        "vllm/tool_parsers/__init__.py": LAZY.format("TOOL"),
    }
    assert value(read_parsers(reading(lazy), REASONING)) == ("a", "b")
    assert value(read_parsers(reading(lazy), TOOLS)) == ("a", "b")
    decorated = {
        "vllm/entrypoints/openai/tool_parsers/__init__.py": "from .x import X",
        "vllm/entrypoints/openai/tool_parsers/x.py": """
            '''Example:
                @ToolParserManager.register_module("example")
            '''
            @ToolParserManager.register_module("one")
            class X: ...
            @ToolParserManager.register_module(
                ["two", "three-b"],
            )
            class Y: ...
            @ToolParserManager.register_module(name="four")
            class Z: ...
            @ToolParserManager.register_module()
            class Named: ...
            """,
    }
    assert value(read_parsers(reading(decorated), TOOLS)) == ("Named", "four", "one", "three-b", "two")
    choices = {
        "vllm/entrypoints/openai/cli_args.py": "def f(p):\n    p.add_argument('--tool-call-parser', choices=['hermes'])"
    }
    assert value(read_parsers(reading(choices), TOOLS)) == ("hermes",)
    assert value(read_parsers(reading(choices), REASONING)) == ()
    odd = read_parsers(
        reading({"vllm/reasoning/__init__.py": "_REASONING_PARSERS_TO_REGISTER = {**f()}"}), REASONING
    )
    assert isinstance(odd, Missing)
    assert read_parsers(reading({}, [Hole("vllm/reasoning", DENIED)]), REASONING) == DENIED


ENTRIES = """
    [vllm.general_plugins]
    own = vllm.plugins.lora_resolvers:register
    # a comment = nothing
    more_models = more_models.plugin:register

    [console_scripts]
    x = y:z
"""
CONSTANT = "DEFAULT_PLUGINS_GROUP = 'vllm.general_plugins'"
CALL = "def load():\n    return entry_points(group='vllm.general_plugins')"


@pytest.mark.parametrize("loader", [CONSTANT, CALL])
def test_plugins_of_other_packages(loader: str) -> None:
    files = {
        "vllm/plugins/__init__.py": loader,
        "vllm-9.9.dist-info/entry_points.txt": ENTRIES,
        "more-1.dist-info/entry_points.txt": ENTRIES,
    }
    assert value(read_plugins(reading(files))) == (
        "vllm.general_plugins: more_models = more_models.plugin:register",
    )
    del files["more-1.dist-info/entry_points.txt"]
    assert value(read_plugins(reading(files))) == ()


def test_a_build_without_plugin_loader_has_none() -> None:
    assert value(read_plugins(reading({"more-1.dist-info/entry_points.txt": ENTRIES}))) == ()


def test_gguf_is_left_to_others_or_not_read_at_all() -> None:
    build = built({"vllm/model_executor/layers/quantization/__init__.py": "QUANTIZATION_METHODS = ['gguf']"})
    assert build.gguf_architectures == Known(None, build.quantization.evidence)
    without = built({"vllm/model_executor/layers/quantization/__init__.py": "QUANTIZATION_METHODS = ['fp8']"})
    assert value(without.gguf_architectures) == {}
    assert read_gguf(DENIED) is DENIED
