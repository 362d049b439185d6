"""The command line of ``lmdeploy serve api_server`` and what it can ask for."""

from __future__ import annotations

from unittest.mock import ANY

import pytest
from lmdeploy_builds import MODERN, read

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Flag, Site

SERVE = """
    class SubCliServe:
        @staticmethod
        def add_parser_other():
            parser.add_argument('--not-of-the-server')

        @staticmethod
        def add_parser_api_server():
            parser.add_argument('model_path', type=str)
            parser.add_argument('--server-port', type=int, default=23333)
            parser.add_argument('--allow-origins', nargs='+', default=['*'])
            ArgumentHelper.backend(parser)
            pt_group = parser.add_argument_group('PyTorch')
            ArgumentHelper.device(pt_group, choices=['cuda', 'cpu'])
            quant = ArgumentHelper.quant_policy(pt_group)
            tb_group._group_actions.append(quant)
            ArgumentHelper.spec(parser)
            for name in ('a', 'b'):
                pass
"""
HELPERS = """
    class ArgumentHelper:
        @staticmethod
        def backend(parser, choices: list = ['pytorch', 'turbomind']):
            return parser.add_argument('--backend', '-b', choices=choices)

        @staticmethod
        def device(parser, default='cuda', choices: list = ['cuda', 'ascend']):
            return parser.add_argument('--device', default=default, choices=choices)

        @staticmethod
        def quant_policy(parser, default=0):
            return parser.add_argument('--quant-policy', type=int, choices=[0, 4, 8])

        @staticmethod
        def spec(parser):
            group = parser.add_argument_group('spec')
            group.add_argument('--speculative-algorithm', choices=['eagle', 'deepseek_mtp'])
            group.add_argument('--overrides', type=json.loads)
            group.add_argument('--quiet', action='store_true')
"""
FILES = {
    **MODERN,
    "cli/serve.py": SERVE,
    "cli/utils.py": HELPERS,
    "cli/cli.py": "parser = argparse.ArgumentParser()\n",
}
POLICY = """
        @staticmethod
        def quant_policy(parser, default=0):
            _aliases = {p.name.lower(): p.value for p in QuantPolicy}
            _aliases['fp8_e4m3'] = QuantPolicy.FP8.value
            def _parse(x): ...
            return parser.add_argument('--quant-policy', type=_parse)
"""
ENUM = "class QuantPolicy(enum.IntEnum):\n    NONE = 0\n    INT4 = 4\n    INT8 = 8\n    FP8 = 16\n"


def flags(files: dict[str, str]) -> dict[str, Flag]:
    found = read(files).flags
    assert isinstance(found, Known), found
    return dict(found.value)


def with_policy(text: str) -> dict[str, str]:
    start = HELPERS.index("        @staticmethod\n        def quant_policy")
    end = HELPERS.index("        @staticmethod\n        def spec")
    return {**FILES, "cli/utils.py": HELPERS[:start] + text.lstrip("\n") + HELPERS[end:]}


def test_flags_of_the_server_and_of_the_helpers_it_calls() -> None:
    found = flags(FILES)
    assert set(found) == {
        "--server-port", "--allow-origins", "--backend", "--device", "--quant-policy",
        "--speculative-algorithm", "--overrides", "--quiet",
    }  # fmt: skip
    assert found["--backend"].aliases == ("-b",)
    assert found["--server-port"].at == Site("lmdeploy/cli/serve.py", 10)


def test_choices_are_those_of_the_call_not_of_the_helper() -> None:
    found = flags(FILES)
    assert found["--device"].choices == ("cuda", "cpu")
    assert found["--backend"].choices == ("pytorch", "turbomind")
    assert found["--quant-policy"].choices == ("0", "4", "8")


def test_kinds() -> None:
    found = flags(FILES)
    assert {name: flag.kind for name, flag in found.items()} == {
        "--server-port": "value", "--allow-origins": "values", "--backend": "value", "--device": "value",
        "--quant-policy": "value", "--speculative-algorithm": "value", "--overrides": "json",
        "--quiet": "switch",
    }  # fmt: skip


def test_a_helper_that_is_not_there_is_an_unknown_form() -> None:
    assert isinstance(read({**FILES, "cli/utils.py": "class ArgumentHelper: ...\n"}).flags, Missing)


def test_python_fire_refuses_nothing_so_nothing_is_said() -> None:
    found = read({**MODERN, "cli/cli.py": "import fire\n", "cli/serve.py": "class SubCliServe: ...\n"})
    assert isinstance(found.flags, Missing)
    assert found.flags.cause is Cause.UNAVAILABLE
    assert isinstance(found.flag_syntax, Missing)


def test_names_are_read_by_argparse_or_by_a_parser_of_its_own() -> None:
    plain = read(FILES).flag_syntax
    assert isinstance(plain, Known)
    assert (plain.value.underscores, plain.value.dotted) == (False, False)
    own = read({
        **FILES,
        "cli/cli.py": "class CLI:\n    parser = FlexibleArgumentParser(prog='x')\n",
        "cli/utils.py": HELPERS + "\n    def create_nested_dict(keys, value): ...\n",
    }).flag_syntax  # fmt: skip
    assert isinstance(own, Known)
    assert (own.value.underscores, own.value.dotted) == (True, True)
    assert own.value.at == Site("lmdeploy/cli/cli.py", 2)


def test_what_the_numbers_of_the_cache_policy_mean() -> None:
    def dtypes(files: dict[str, str]) -> tuple[str, ...]:
        found = read(files).kv_cache_dtypes
        assert isinstance(found, Known), found
        return found.value

    assert dtypes(FILES) == ("auto", "int4", "int8")
    free = HELPERS.replace(", choices=[0, 4, 8]", ", default=0, help='Whether to use kv int8'")
    assert dtypes({**FILES, "cli/utils.py": free}) == ("auto", "int8")  # 4 meant int8 then
    assert dtypes({**FILES, "messages.py": ENUM}) == ("auto", "int4", "int8", "fp8")
    assert isinstance(read({**FILES, "cli/utils.py": HELPERS.replace("[0, 4, 8]", "[0, 99]")}).kv_cache_dtypes,
                      Missing)  # fmt: skip


def test_names_and_numbers_of_the_policy_are_choices_where_a_function_reads_them() -> None:
    found = flags({**with_policy(POLICY), "messages.py": ENUM})
    assert found["--quant-policy"].choices == (
        "none", "int4", "int8", "fp8", "fp8_e4m3", "0", "4", "8", "16",
    )  # fmt: skip


PARSERS = {
    "serve/parsers/reasoning_parser/__init__.py": "from .a_parser import A\nfrom .base import Base\n",
    "serve/parsers/reasoning_parser/a_parser.py": """
        @ReasoningParserManager.register_module(['a', 'a-old'])
        class A: ...
    """,
    "serve/parsers/reasoning_parser/base.py": """
        LEGACY_REASONING_PARSER_NAMES = ('legacy', 'a')

        @ReasoningParserManager.register_module(name='default')
        class Base: ...

        @OtherManager.register_module('other')
        class Other: ...
    """,
    "serve/parsers/reasoning_parser/left.py": """
        @ReasoningParserManager.register_module('never-imported')
        class Left: ...
    """,
    "serve/openai/tool_parser/__init__.py": "from .t import T\n",
    "serve/openai/tool_parser/t.py": "@ToolParserManager.register_module('t')\nclass T: ...\n",
}


def test_parsers_are_those_that_the_package_imports() -> None:
    build = read({**FILES, **PARSERS})
    assert isinstance(build.reasoning_parsers, Known)
    assert build.reasoning_parsers.value == ("a", "a-old", "default", "legacy")
    assert isinstance(build.tool_parsers, Known)
    assert build.tool_parsers.value == ("t",)


def test_no_parsers_yet_is_known_and_a_package_without_any_is_not() -> None:
    none = read(FILES).tool_parsers
    assert isinstance(none, Known)
    assert none.value == ()
    assert isinstance(
        read({**FILES, "serve/parsers/tool_parser/__init__.py": "X = 1\n"}).tool_parsers, Missing
    )


def test_speculative_algorithms_and_draft_classes() -> None:
    table = (
        MODERN["pytorch/models/module_map.py"]
        + """
    MODULE_MAP.update({'DeepseekMTPModel': f'{PATH}.llama.LlamaForCausalLM'})
    MODULE_MAP.update({'EagleLlamaForCausalLM': f'{PATH}.llama.LlamaForCausalLM'})
"""
    )
    builder = """
        class Builder(AutoModelConfigBuilder):
            @classmethod
            def condition(cls, hf_config):
                return hf_config.model_type in ['deepseek_v3', 'kimi_k2']

            @classmethod
            def build(cls, hf_config, is_draft_model=False):
                if is_draft_model:
                    hf_config.architectures[0] = 'DeepseekMTPModel'
                else:
                    hf_config.architectures[0] = 'NoDraftForCausalLM'
    """
    build = read({
        **FILES, "pytorch/models/module_map.py": table, "pytorch/configurations/deepseek.py": builder,
    })  # fmt: skip
    assert isinstance(build.speculative, Known)
    assert set(build.speculative.value) == {
        "eagle", "deepseek_mtp", "DeepseekMTPModel", "EagleLlamaForCausalLM",
    }  # fmt: skip
    assert isinstance(build.draft_classes, Known)
    assert build.draft_classes.value == {
        "deepseek_v3": ("DeepseekMTPModel",),
        "kimi_k2": ("DeepseekMTPModel",),
    }


def test_launchers() -> None:
    def launchers(files: dict[str, str]) -> tuple[str, ...]:
        found = read(files).launchers
        assert isinstance(found, Known), found
        return found.value

    assert launchers(FILES) == ("mp",)
    ray = {**FILES, "pytorch/engine/executor/ray_executor.py": ""}
    assert launchers(ray) == ("mp", "ray")
    nodes = "".join(
        f"            parser.add_argument('{name}')\n"
        for name in ("--nnodes", "--node-rank", "--dist-init-addr")
    )
    assert launchers({**ray, "cli/serve.py": SERVE.rstrip() + "\n" + nodes}) == (
        "mp",
        "ray",
        "lmdeploy-multinode",
    )


def test_weight_files_that_the_loaders_look_for() -> None:
    loader = {"turbomind/checkpoint.py": "A = 'model*.safetensors'\nB = 'pytorch_model*.bin'\n"}
    formats = read({**FILES, **loader}).load_formats
    assert isinstance(formats, Known)
    assert formats.value == ("safetensors", "pt")
    assert isinstance(read(FILES).load_formats, Missing)  # no loader was found: that is no empty list


BACKEND = """
        @staticmethod
        def api_server(args):
            backend = args.backend
            if backend != 'pytorch':
                backend = autoget_backend(args.model_path)
"""
REFUSING = """
class TurbomindEngineConfig:
    def __post_init__(self):
        assert self.tp >= 1, 'tp'
        assert self.quant_policy {} (QuantPolicy.INT8, QuantPolicy.FP8), 'not supported'
"""


def test_one_back_end_can_be_forced() -> None:
    assert read({**FILES, "cli/serve.py": SERVE + BACKEND}).engine_flags == Known(
        {"pytorch": "--backend pytorch"}, ANY
    )
    assert read(FILES).engine_flags == Known({}, ANY)


@pytest.mark.parametrize("operator, refused", [("not in", {"int8", "fp8"}), ("in", {"none", "int4"})])
def test_cache_types_that_turbomind_refuses(operator: str, refused: set[str]) -> None:
    found = read({**FILES, "messages.py": ENUM + REFUSING.format(operator)}).kv_cache_engines
    assert isinstance(found, Known)
    assert found.value == dict.fromkeys(refused, ("pytorch",))
    assert read(FILES).kv_cache_engines == Known({}, ANY)
