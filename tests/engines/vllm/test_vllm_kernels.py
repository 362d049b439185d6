"""Quantization methods and attention back ends, with the capabilities they demand."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_builds import DENIED, reading

from canserve.engines.sources import Hole
from canserve.engines.vllm.attention import read_attention
from canserve.engines.vllm.quantization import read_quantization, read_vendors
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import NOT_ASKED, AttentionBackend, QuantMethod, Want

FOLDER = "vllm/model_executor/layers/quantization"
INIT = f"{FOLDER}/__init__.py"
CLASSES = {
    f"{FOLDER}/fp8.py": """
        from .base import Base
        class Fp8Config(Base):
            def __init__(self, weight_block_size=None): ...
            @classmethod
            def get_min_capability(cls): return 89 if current_platform.is_rocm() else 75
        class Fp8LinearMethod: ...
        """,
    f"{FOLDER}/base.py": """
        class Base:
            @classmethod
            def get_min_capability(cls): raise NotImplementedError
        """,
    f"{FOLDER}/many/many.py": """
        from ..base import Base
        from .schemes import W8A8, W4A4
        class ManyConfig(Base):
            @staticmethod
            def get_min_capability(): return -1
        """,
    f"{FOLDER}/many/schemes.py": """
        class W8A8:
            @classmethod
            def get_min_capability(cls): return 89
        class W4A4:
            @classmethod
            def get_min_capability(cls): return 100 if fast() else 80
        class Plain: ...
        """,
}


def methods(files: Mapping[str, str], want: Want | None = None) -> Mapping[str, QuantMethod]:
    fact = read_quantization(reading({**CLASSES, **files}), want or Want.everything())
    assert isinstance(fact, Known), fact
    return fact.value


def minimum(method: QuantMethod) -> object:
    fact = method.min_capability
    return fact.value if isinstance(fact, Known) else fact.cause


def test_a_dict_of_classes() -> None:
    for table, getter, path in (
        ("QUANTIZATION_METHODS", "get_quantization_config", INIT),
        ("_QUANTIZATION_REGISTRY", "get_quant_class", "vllm/model_executor/quantization_utils/__init__.py"),
    ):
        text = f"""
            from {FOLDER.replace("/", ".")}.fp8 import Fp8Config
            {table} = {{
                "fp8": Fp8Config,
            }}
            def {getter}(quantization):
                if quantization not in {table}:
                    raise ValueError(quantization)
                return {table}[quantization]
            """
        found = methods({path: text})["fp8"]
        assert (found.class_name, minimum(found), str(found.at)) == ("Fp8Config", 75, f"{path}:4")


LITERAL = """
    Methods = Literal["fp8", "many", "tpu", "short", "odd"]
    QUANTIZATION_METHODS: list[str] = list(get_args(Methods))
    _CUSTOM = {}
    def get_quantization_config(quantization):
        if quantization not in QUANTIZATION_METHODS:
            raise ValueError(quantization)
        from vllm.config.quantization import Short
        from .fp8 import Fp8Config
        from .many.many import ManyConfig
        from .base import Base
        table = {"fp8": Fp8Config, "many": ManyConfig, "tpu": Base}
        for short in Short:
            table.setdefault(short.value, Fp8Config)
        table["odd"] = made(Fp8Config)
        table.update(_CUSTOM)
        return table[quantization]
"""
SHORT = {
    "vllm/config/quantization.py": "from enum import Enum\nclass Short(Enum):\n    A = 'short'\n    B = 'fp8'"
}


def test_names_in_a_literal_and_classes_in_a_function() -> None:
    found = methods({INIT: LITERAL, **SHORT})
    assert {name: (method.class_name, minimum(method)) for name, method in found.items()} == {
        "fp8": ("Fp8Config", 75),
        "many": ("ManyConfig", None),
        "tpu": ("Base", Cause.UNREADABLE),
        "short": ("Fp8Config", 75),
        "odd": (None, Cause.UNREADABLE),
    }
    assert found["fp8"].at.line == 2


def test_schemes_are_the_names_of_the_methods_own_package() -> None:
    found = methods({INIT: LITERAL, **SHORT})
    fp8, many = found["fp8"].schemes, found["many"].schemes
    assert isinstance(fp8, Known) and isinstance(many, Known)
    assert set(fp8.value) == {"Base", "Fp8Config", "Fp8LinearMethod", "weight_block_size"}
    assert set(many.value) >= {"ManyConfig", "W8A8", "W4A4", "Plain"}
    minima = found["many"].scheme_capabilities
    assert isinstance(minima, Known) and minima.value == {"W8A8": 89, "W4A4": None}


def test_only_wanted_methods_are_followed() -> None:
    found = methods({INIT: LITERAL, **SHORT}, Want(quantization=frozenset({"fp8"})))
    assert minimum(found["fp8"]) == 75
    assert (found["many"].class_name, found["many"].min_capability) == (None, NOT_ASKED)


def test_no_package_no_methods_and_unknown_forms() -> None:
    assert read_quantization(reading({"vllm/__init__.py": ""}), Want()) == Known(
        {}, read_quantization(reading({"vllm/__init__.py": ""}), Want()).evidence
    )
    for text in ("X = 1", "QUANTIZATION_METHODS = made()", "def ("):
        fact = read_quantization(reading({INIT: text}), Want())
        assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE
    assert read_quantization(reading({}, [Hole("vllm/model_executor", DENIED)]), Want()) == DENIED


def test_what_other_vendors_may_run() -> None:
    new = {
        "vllm/platforms/rocm.py": "class RocmPlatform:\n    supported_quantization: list[str] = [\n        'awq', 'fp8'\n    ]\n",
        "vllm/platforms/xpu.py": "class XPUPlatform: ...",
    }
    found = read_vendors(reading(new))
    assert isinstance(found, Known) and found.value == {"amd": ("awq", "fp8")}
    assert found.evidence[0].how == "vllm/platforms/rocm.py:2"
    old = read_vendors(
        reading(
            {"vllm/config.py": "class C:\n    def f(self):\n        rocm_supported_quantization = ['gptq']"}
        )
    )
    assert isinstance(old, Known) and old.value == {"amd": ("gptq",)}


ENUM = "vllm/v1/attention/backends/registry.py"
BACKENDS = {
    ENUM: """
        class AttentionBackendEnum(Enum):
            FLASH = "vllm.v1.attention.backends.flash.Flash"
            SPARSE = (
                "vllm.v1.attention.backends.flash."
                "Sparse"
            )
            OPEN = "vllm.v1.attention.backends.flash.Open"
            GONE = "vllm.v1.attention.backends.gone.Gone"
            ROCM_ATTN = "vllm.v1.attention.backends.rocm.Rocm"
            CPU_MLA = "vllm.v1.attention.backends.cpu.Cpu"
            CUSTOM = None
        """,
    "vllm/v1/attention/backends/flash.py": """
        from vllm.platforms.interface import DeviceCapability
        class Base:
            supported_kv_cache_dtypes = ["auto"]
            @classmethod
            def supports_compute_capability(cls, capability): return True
            @classmethod
            def supports_kv_cache_dtype(cls, kind):
                return kind is None or kind in cls.supported_kv_cache_dtypes
        class Flash(Base):
            @classmethod
            def supports_compute_capability(cls, capability):
                return capability >= DeviceCapability(8, 0)
            @classmethod
            def supports_kv_cache_dtype(cls, kind):
                if kind == "fp8":
                    return installed_kernels_take_fp8()
                return super().supports_kv_cache_dtype(kind)
        class Sparse(Flash):
            @classmethod
            def supports_compute_capability(cls, capability):
                return (capability.major, capability.minor) in ((12, 0), (12, 1)) and super().supports_compute_capability(capability)
        class Open(Base):
            @classmethod
            def supports_compute_capability(cls, capability):
                return capability.major == 9 and installed()
        """,
    "vllm/platforms/interface.py": """
        from typing import NamedTuple
        class DeviceCapability(NamedTuple):
            major: int
            minor: int = 0
        """,
    "vllm/config/cache.py": "CacheDType = Literal['auto', 'fp8', 'nvfp4']",
}


def backends(files: Mapping[str, str]) -> Mapping[str, AttentionBackend]:
    fact = read_attention(reading(files))
    assert isinstance(fact, Known), fact
    return fact.value


def test_back_ends_answer_for_every_capability_and_cache_type() -> None:
    found = backends(BACKENDS)
    assert sorted(found) == ["FLASH", "GONE", "OPEN", "SPARSE"], (
        "placeholders and other platforms are left out"
    )
    flash, sparse = found["FLASH"], found["SPARSE"]
    assert isinstance(flash.capabilities, Known) and isinstance(sparse.capabilities, Known)
    assert flash.capabilities.value == (80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
    assert sparse.capabilities.value == (120, 121)
    assert isinstance(flash.kv_dtypes, Known)
    assert flash.kv_dtypes.value == ("auto", "fp8"), "what is decided at run time counts as taken"
    assert isinstance(found["OPEN"].capabilities, Missing) and isinstance(found["GONE"].capabilities, Missing)


def test_bare_names_say_nothing_about_capabilities() -> None:
    for path in ("vllm/platforms/interface.py", "vllm/attention/selector.py"):
        found = backends(
            {path: "class _Backend(enum.Enum):\n    FLASH_ATTN = enum.auto()\n    ROCM_FLASH = enum.auto()"}
        )
        assert list(found) == ["FLASH_ATTN"]
        assert isinstance(found["FLASH_ATTN"].capabilities, Missing)


RULED = {
    ENUM: """
        class AttentionBackendEnum(Enum):
            FLASH = "vllm.v1.attention.backends.flash.Flash"
            LATENT = "vllm.v1.attention.backends.flash.Latent"
            LATER = "vllm.v1.attention.backends.flash.Later"
        """,
    "vllm/v1/attention/backends/flash.py": """
        from vllm.v1.attention.backend import Base
        class Flash(Base):
            @classmethod
            def get_supported_head_sizes(cls): return [64, 128]
            @classmethod
            def supports_sink(cls): return installed_kernels_have_sinks()
        class Latent(Base):
            @classmethod
            def is_mla(cls): return True
            @classmethod
            def supports_head_size(cls, size): return size == 576 or newer_kernels(size)
        class Later(Flash): ...
        """,
    "vllm/v1/attention/backend.py": """
        class Base:
            supported_kv_cache_dtypes = ["auto"]
            @classmethod
            def get_supported_head_sizes(cls): return []
            @classmethod
            def supports_head_size(cls, size):
                sizes = cls.get_supported_head_sizes()
                return (not sizes) or size in sizes
            @classmethod
            def is_mla(cls): return False
            @classmethod
            def is_sparse(cls): return False
            @classmethod
            def supports_sink(cls): return False
            @classmethod
            def supports_compute_capability(cls, capability): return True
            @classmethod
            def supports_kv_cache_dtype(cls, kind): return True
            @classmethod
            def validate_configuration(cls, head_size, use_mla, has_sink):
                reasons = []
                if not cls.supports_head_size(head_size):
                    reasons.append("head size")
                if use_mla != cls.is_mla():
                    reasons.append("latent")
                if has_sink and not cls.supports_sink():
                    reasons.append("sinks")
                return reasons
        """,
    "vllm/platforms/cuda.py": """
        from vllm.v1.attention.backends.registry import AttentionBackendEnum
        def _get_backend_priorities(use_mla, device_capability, num_heads=None):
            if use_mla:
                if device_capability.major >= 9:
                    return [AttentionBackendEnum.LATENT]
                return []
            if num_heads is not None and num_heads < 16:
                return [AttentionBackendEnum.LATER, AttentionBackendEnum.FLASH]
            return [AttentionBackendEnum.FLASH]
        """,
    "vllm/platforms/interface.py": BACKENDS["vllm/platforms/interface.py"],
    "vllm/config/cache.py": BACKENDS["vllm/config/cache.py"],
}


def test_what_back_ends_say_of_models() -> None:
    found = backends(RULED)
    assert dict(found["FLASH"].traits) == {"mla": False, "sinks": None}, "sparse is compared with nothing"
    assert dict(found["LATENT"].traits) == {"mla": True, "sinks": False}
    heads, latent = found["FLASH"].head_sizes, found["LATENT"].head_sizes
    assert isinstance(heads, Known) and [size for size, takes in heads.value.items() if takes] == [64, 128]
    assert isinstance(latent, Known) and latent.value[576] is True and latent.value[128] is None


def test_which_back_ends_are_considered_without_being_asked_for() -> None:
    found = {name: one.offered for name, one in backends(RULED).items()}
    assert isinstance(found["LATENT"], Known) and isinstance(found["LATER"], Known)
    assert isinstance(found["FLASH"], Known) and set(found["FLASH"].value.values()) == {True}
    assert found["LATENT"].value[90] is True and found["LATENT"].value[80] is None
    assert set(found["LATER"].value.values()) == {None}, "other arguments would bring it in"


def test_without_a_validation_nothing_is_compared() -> None:
    bare = {
        **RULED,
        "vllm/v1/attention/backend.py": RULED["vllm/v1/attention/backend.py"].replace("validate_", "x_"),
    }
    found = backends(bare)["LATENT"]
    assert not found.traits and isinstance(found.head_sizes, Missing)
    unplaced = backends({**RULED, "vllm/platforms/cuda.py": "def other(): ..."})["FLASH"]
    assert isinstance(unplaced.offered, Missing)


def test_no_enumeration_and_no_look() -> None:
    assert backends({"vllm/__init__.py": ""}) == {}
    assert read_attention(reading({}, [Hole("vllm/v1", DENIED)])) == DENIED
