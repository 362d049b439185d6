"""Small builds written by hand: a few files in LMDeploy's places, read as a wheel's files would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines.lmdeploy import LMDeploy
from canserve.engines.sources import Hole, Sources
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Build, Identity, Transformers, Want
from read_builds import as_bytes

UNKNOWN = Missing(Cause.UNREACHED, "not part of this test")
DENIED = Missing(Cause.UNAVAILABLE, "permission denied")

MODULE_MAP = """
    PATH = 'lmdeploy.pytorch.models'

    MODULE_MAP = dict()
    ASCEND_MODULE_MAP = dict()
    DEVICE_SPECIAL_MODULE_MAP = dict(ascend=ASCEND_MODULE_MAP)
    REMOVED_MODEL_MAP = {'GoneForCausalLM': 'Gone'}

    MODULE_MAP.update({'LlamaForCausalLM': f'{PATH}.llama.LlamaForCausalLM'})
    MODULE_MAP.update({'TalkForCausalLM':
                       f'{PATH}.llama.LlamaForCausalLM'})
    ASCEND_MODULE_MAP.update({'FarForCausalLM': f'{PATH}.llama.LlamaForCausalLM'})
    CUSTOM_MODULE_MAP = dict()
"""
SUPPORTED = """
    SUPPORTED_ARCHS = dict(
        LlamaForCausalLM='llama',
        SeeForConditionalGeneration='see',
    )

    def is_supported(model_path):
        arch, cfg = get_model_arch(model_path)
        quant_method = search_nested_config(cfg.to_dict(), 'quant_method')
        if quant_method and quant_method in ['smooth_quant']:
            return False
        if arch in SUPPORTED_ARCHS.keys():
            support_by_turbomind = True
            if arch == 'LlamaForCausalLM':
                support_by_turbomind = _is_head_dim_supported(cfg)
            elif arch in ['SeeForConditionalGeneration']:
                if getattr(cfg, 'wide', None) is not None:
                    support_by_turbomind = False
        return support_by_turbomind
"""
PATCH = """
    def _get_model_class(config, module_map):
        auto_map = getattr(config, 'auto_map', dict())
        if 'AutoModelForCausalLM' in auto_map:
            return module_map[auto_map['AutoModelForCausalLM'].split('.')[-1]]
        for arch in config.architectures:
            return module_map[arch]
"""
ARCHS = """
    def check_vl_llm(config):
        arch = config['architectures'][0]
        if arch in set(['SeeForConditionalGeneration']):
            return True
        elif arch == 'TalkForCausalLM' and 'visual' in config:
            return True
        return False

    def get_model_arch(model_path, trust_remote_code=False):
        cfg = AutoConfig.from_pretrained(model_path, trust_remote_code=trust_remote_code)
        return cfg.architectures[0], cfg
"""
MODERN: Mapping[str, str] = {
    "pytorch/models/module_map.py": MODULE_MAP,
    "pytorch/models/llama.py": """
        from transformers.models.llama import LlamaConfig
        import torch

        class LlamaForCausalLM:
            pass
    """,
    "pytorch/models/patch.py": PATCH,
    "turbomind/supported_models.py": SUPPORTED,
    "turbomind/models/llama.py": """
        from .base import INPUT_MODELS

        @INPUT_MODELS.register_module(name='llama')
        class LlamaModel:
            pass
    """,
    "turbomind/models/see.py": """
        from .base import INPUT_MODELS

        @INPUT_MODELS.register_module(name='see')
        class SeeModel:
            pass
    """,
    "turbomind/models/base.py": "INPUT_MODELS = Registry('source model')\n",
    "turbomind/models/__init__.py": "from .llama import LlamaModel\nfrom .see import SeeModel\n",
    "archs.py": ARCHS,
}
"""The newest form: classes and converters by architecture."""
LAYERS: Mapping[str, str] = {
    "pytorch/models/module_map.py": """
        from transformers.utils import DYNAMIC

        PATH = 'lmdeploy.pytorch.models'
        MODULE_MAP = {'transformers.models.llama.modeling_llama.LlamaAttention': f'{PATH}.llama.LlamaAttention'}
        MODULE_MAP.update({(f'{DYNAMIC}.modeling_x.X'): f'{PATH}.llama.LlamaModel'})
    """,
    "pytorch/models/patch.py": "def patch(model): ...\n",
    "pytorch/supported_models.py": "_SUPPORTED_ARCHS = dict(LlamaForCausalLM=True, OldForCausalLM=False)\n",
    "turbomind/supported_models.py": """
        _SUPPORTED_ARCHS = dict(
            LlamaForCausalLM=False,
            OldForCausalLM=True)
        def is_supported(path):
            cfg = AutoConfig.from_pretrained(path, trust_remote_code=True)
    """,
    "turbomind/turbomind.py": "class TurboMind: ...\n",
    "archs.py": "from .messages import TurbomindEngineConfig\n",
}
"""The form before: single layers of transformers' own classes are replaced."""


def sources(files: Mapping[str, str | bytes | Missing], holes: Sequence[Hole] = ()) -> Sources:
    """Files below ``lmdeploy/``, each dedented."""
    content = {f"lmdeploy/{path}": as_bytes(text) for path, text in files.items()}
    return Sources("test", content, lambda paths: {path: content[path] for path in paths}, holes)


def read(
    files: Mapping[str, str | bytes | Missing], want: Want | None = None, holes: Sequence[Hole] = ()
) -> Build:
    """Read a build that has these files."""
    identity = Identity("test", "lmdeploy", Known("0"), "test", UNKNOWN, UNKNOWN, UNKNOWN, Known(()))
    transformers = Transformers(UNKNOWN, UNKNOWN, UNKNOWN)
    return LMDeploy().read(sources(files, holes), identity, transformers, want or Want.everything())
