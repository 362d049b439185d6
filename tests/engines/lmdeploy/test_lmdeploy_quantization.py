"""Quantization methods of both back ends, and what each demands of a checkpoint."""

from __future__ import annotations

from lmdeploy_builds import MODERN, read

from canserve.facts import Known, Missing
from canserve.subjects.build import Demand, QuantMethod, Taker

CONVERTER = """
    _SUPPORTED_GROUP_SIZES = {'awq': frozenset({128}), 'gptq': frozenset({64, 128})}

    def get_tm_config(model_path, engine_config):
        quant_method = quant_config.get('quant_method')
        version = quant_config.get('version')
        assert engine_config.model_format is None or engine_config.model_format == quant_method
        if quant_method == 'awq':
            assert version == 'gemm', 'unsupported'
        elif quant_method == 'gptq':
            assert not quant_config.get('desc_act', False) and quant_config.get('sym', True)
        elif quant_method == 'fp8':
            pass
        elif quant_method == 'mxfp4':
            pass
        else:
            assert 0, 'unsupported'
"""
OLD_CONVERTER = """
    def get_tm_model(model_path, engine_config):
        quant_method = quant_config.get('quant_method')
        if quant_method == 'awq':
            assert version == 'gemm'
        elif quant_method == 'gptq':
            assert not quant_config.get('desc_act', False)
        else:
            assert 0
        if engine_config.model_format in ['awq', 'gptq']:
            assert group_size == 128, 'only 128'
"""
LINEAR = """
    def build_linear(quant_config):
        assert quant_method in ['never']
        if quant_method == 'awq':
            return Awq()
        if quant_method == 'smooth_quant':
            return W8A8()
        elif quant_method == 'modelslim_static':
            return OfAscend()
        elif quant_method == 'fp8':
            return BlockedF8Linear()
        else:
            raise RuntimeError
"""
MOE = """
    def build_fused_moe(quant_config):
        if quant_method == 'fp8':
            return FusedMoEBlockedF8()
        elif quant_method == 'compressed-tensors':
            return Packed()
"""
CONFIG = """
    class Other:
        @classmethod
        def from_config(cls, config): ...

    class QuantizationConfig:
        @classmethod
        def from_config(cls, hf_config):
            if quant_method == 'awq':
                pass
            elif quant_method == 'fp8':
                fmt = quant_config.get('fmt', 'e4m3')
                if fmt == 'e4m3':
                    dtype = 'a'
                elif fmt == 'e5m2':
                    dtype = 'b'
                else:
                    raise TypeError
            elif quant_method == 'smooth_quant':
                pass
            elif quant_method == 'compressed-tensors':
                pass
            else:
                raise TypeError
"""
FILES = {
    **MODERN,
    "turbomind/converter.py": CONVERTER,
    "turbomind/weight_format.py": "class FP8Format:\n    suffix_map = {'.weight_scale_inv': 'scales'}\n",
    "pytorch/nn/linear/__init__.py": LINEAR,
    "pytorch/nn/moe/__init__.py": MOE,
    "pytorch/config.py": CONFIG,
}
BLOCKS = Demand("weight_block_size", ((128, 128),), None)


def methods(files: dict[str, str]) -> dict[str, QuantMethod]:
    found = read(files).quantization
    assert isinstance(found, Known), found
    return dict(found.value)


def test_each_method_names_the_back_ends_that_take_it() -> None:
    found = methods(FILES)
    assert {name: [taker.backend for taker in method.takers] for name, method in found.items()} == {
        "awq": ["turbomind", "pytorch"],
        "gptq": ["turbomind"],
        "fp8": ["turbomind", "pytorch"],
        "mxfp4": ["turbomind"],
        "smooth_quant": ["pytorch"],
        "compressed-tensors": ["pytorch"],
    }


def test_turbomind_states_its_demands_in_assertions() -> None:
    found = methods(FILES)
    assert found["awq"].takers[0] == Taker(
        "turbomind", (Demand("version", ("gemm",), None), Demand("group_size", (128,), 128))
    )
    assert found["gptq"].takers[0].demands == (
        Demand("desc_act", (False,), False),
        Demand("sym", (True,), True),
        Demand("group_size", (64, 128), 64),
    )
    assert found["fp8"].takers[0].demands == (BLOCKS,)


def test_group_sizes_stood_in_an_assertion_before_there_was_a_table() -> None:
    found = methods({**FILES, "turbomind/converter.py": "", "turbomind/deploy/converter.py": OLD_CONVERTER} | {
        "turbomind/converter.py": OLD_CONVERTER
    })  # fmt: skip
    assert found["awq"].takers[0].demands == (
        Demand("version", ("gemm",), None),
        Demand("group_size", (128,), 128),
    )


def test_pytorch_has_to_be_asked_for_unless_turbomind_steps_back() -> None:
    found = methods(FILES)
    assert found["awq"].takers[1].flag == "--backend pytorch"
    assert found["smooth_quant"].takers[0].flag == ""  # is_supported says no to it


def test_pytorch_refuses_values_that_no_branch_takes() -> None:
    formats = Demand("fmt", ("e4m3", "e5m2"), "e4m3")
    assert methods(FILES)["fp8"].takers[1].demands == (formats, BLOCKS)


def test_one_scale_a_tensor_needs_layers_for_it() -> None:
    newer = LINEAR.replace("return BlockedF8Linear()", "return StaticF8Linear() or BlockedF8Linear()")
    demands = methods({**FILES, "pytorch/nn/linear/__init__.py": newer})["fp8"].takers[1].demands
    assert demands[-1] == Demand("weight_block_size", ((128, 128), None), None)


def test_a_method_that_only_experts_have_is_conditional() -> None:
    assert methods(FILES)["compressed-tensors"].takers[0].guards


def test_methods_of_other_accelerators_are_left_out() -> None:
    without = {path: text for path, text in FILES.items() if path != "pytorch/config.py"}
    assert "modelslim_static" not in methods(without)
    assert "smooth_quant" in methods(without)


def test_a_build_whose_layers_are_not_found_states_nothing() -> None:
    without = {path: text for path, text in FILES.items() if "/nn/" not in path}
    assert isinstance(read(without).quantization, Missing)
    assert isinstance(read({**FILES, "turbomind/converter.py": "def other(): ...\n"}).quantization, Missing)


def test_words_tell_which_ways_of_storing_are_meant() -> None:
    schemes = methods(FILES)["fp8"].schemes
    assert isinstance(schemes, Known)
    assert schemes.value == ("BlockedF8Linear", "weight_scale_inv")


def test_awq_layers_of_pytorch_have_the_layout_of_one_version() -> None:
    layer = (
        "def create_weights(self):\n    w = torch.empty((in_features, quant_out_feats), dtype=torch.int32)\n"
    )
    found = methods({**FILES, "pytorch/nn/linear/awq.py": layer})["awq"].takers[1]
    assert found.demands == (Demand("version", ("gemm",), "gemm"),)
    assert methods(FILES)["awq"].takers[1].demands == ()
