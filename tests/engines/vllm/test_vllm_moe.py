"""Names of kernels for fused experts, and where they run, from small builds written by hand."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from vllm_builds import reading

from canserve.engines.vllm.moe import ANY, OTHER, read_moe
from canserve.engines.vllm.on_device import on_cuda
from canserve.facts import Known
from canserve.subjects.build import MoeBackend

FUSED = "vllm/model_executor/layers/fused_moe"
ORACLE = """
    from enum import Enum
    class B(Enum):
        TRITON = 1
        TRTLLM = 2
        HIDDEN = 3

    def backend_to_kernel_cls(backend):
        if backend == B.TRITON:
            from vllm.model_executor.layers.fused_moe.kernels import Triton
            return [Triton]
        elif backend == B.TRTLLM:
            from vllm.model_executor.layers.fused_moe.kernels import One, Two
            return [One, Two]
        elif backend == B.HIDDEN:
            return [pick()]

    def map_eight_backend(name):
        mapping = {"triton": B.TRITON, "trtllm": B.TRTLLM, "hidden": B.HIDDEN}
        if found := mapping.get(name):
            return found
        raise ValueError("not supported")

    def select_eight_moe_backend(config):
        BEFORE
        def taken_or_raised(backend):
            for cls in backend_to_kernel_cls(backend):
                if cls.is_supported_config():
                    return cls
            raise ValueError("does not support")
        name = config.moe_backend
        if TEST:
            wanted = map_eight_backend(name)
            return taken_or_raised(wanted)
        return None
"""
KERNELS = """
    from vllm.platforms import current_platform

    class Triton:
        @staticmethod
        def _supports_current_device():
            return current_platform.is_cuda_alike() or current_platform.is_xpu()

    class One:
        @staticmethod
        def _supports_current_device():
            p = current_platform
            return p.is_cuda() and p.is_device_capability_family(100) and has_flashinfer()

    class Two(One): ...
"""
METHOD = """
    from vllm.model_executor.layers.fused_moe.oracle.eight import select_eight_moe_backend
    class EightConfig: ...
    class EightMoEMethod(FusedMoEMethodBase):
        def __init__(self, moe):
            self.cls = select_eight_moe_backend(config=moe)
    class EightOnlineMoEMethod(EightMoEMethod): ...
"""
ALONE = """
    class OwnMoEMethod(FusedMoEMethodBase):
        def __init__(self): self.kernel = mine()
"""


def backends(
    test: str = 'name != "auto"', before: str = "pass", **files: str
) -> dict[tuple[str, str], MoeBackend]:
    oracle = dedent(ORACLE).replace("TEST", test).replace("    BEFORE", f"    {before}")
    found = read_moe(
        reading(
            {
                f"{FUSED}/oracle/eight.py": oracle,
                f"{FUSED}/kernels.py": KERNELS,
                "vllm/model_executor/layers/quantization/eight.py": METHOD,
                **{
                    f"vllm/model_executor/layers/quantization/{name}.py": text for name, text in files.items()
                },
            }
        )
    )
    assert isinstance(found, Known)
    return {(one.oracle, one.name): one for one in found.value}


def test_a_name_has_kernels_that_say_where_they_run() -> None:
    found = backends()
    assert {name for _, name in found} == {"auto", "triton", "trtllm", "hidden"}
    triton, trtllm = found["eight", "triton"], found["eight", "trtllm"]
    assert set(triton.runs.values()) == {True} and triton.methods == {"eight"}
    assert trtllm.classes == ("One", "Two")
    assert {tenfold for tenfold, runs in trtllm.runs.items() if runs is None} == {100, 103}
    assert trtllm.runs[121] is False and trtllm.runs[90] is False
    assert set(found["eight", "hidden"].runs.values()) == {None}, "what is returned is not known"


@pytest.mark.parametrize(
    ("test", "before"),
    [
        ("name in known()", "pass"),
        ('name != "auto"', "if config.odd: return None"),
        ('name != "auto"', "for x in y:\n            return x"),
    ],
)
def test_where_a_name_may_be_passed_over_nothing_is_known(test: str, before: str) -> None:
    assert set(backends(test, before)) == {("eight", ANY)}


def test_names_that_are_not_looked_up() -> None:
    found = backends('name not in ["auto", "triton", "marlin"]', "if config.is_lora_enabled: return None")
    assert set(found["eight", "triton"].runs.values()) == {None}
    assert set(found["eight", "marlin"].runs.values()) == {None}
    assert found["eight", "trtllm"].runs[121] is False


def test_a_method_that_chooses_by_itself_is_told_apart() -> None:
    found = backends(own=ALONE, both=METHOD + ALONE)
    assert found[OTHER, ANY].methods == {"own", "both"}
    assert found["eight", "triton"].methods == {"eight", "both"}


def test_a_build_without_oracles_has_none() -> None:
    found = read_moe(reading({f"{FUSED}/layer.py": "x = 1"}))
    assert isinstance(found, Known) and found.value == ()


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("return current_platform.has_device_capability(90)", {89: False, 90: True, 121: True}),
        ("return current_platform.has_device_capability((9, 0))", {89: False, 90: True}),
        ("return current_platform.is_device_capability(90) or odd()", {90: True, 100: None}),
        ("return not current_platform.is_rocm() and odd()", {90: None}),
        ("return current_platform.is_cpu() and odd()", {90: False}),
        (
            "if not current_platform.is_device_capability_family(120):\n    return False\nreturn odd()",
            {100: False, 121: None},
        ),
        ("if odd():\n    return False\nreturn True", {90: None}),
        ("p = odd\nreturn p.is_cuda()", {90: None}),
        ("x = odd()\nreturn current_platform.is_cuda()", {90: True}),
        ("for x in y:\n    return True", {90: None}),
        ("pass", {90: None}),
        ("return current_platform.has_device_capability(90, 1)", {90: None}),
        ("return current_platform.is_cuda(device=1)", {90: None}),
    ],
)
def test_a_predicate_over_the_platform(body: str, answers: dict[int, bool | None]) -> None:
    function = ast.parse("def f():\n" + "\n".join(f"    {line}" for line in body.splitlines())).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert {tenfold: on_cuda(function, tenfold) for tenfold in answers} == answers
