"""A build and two models, small enough to read by eye: files written for these tests, not copied."""

from __future__ import annotations

import json
from pathlib import Path

FILES = {
    "vllm/__init__.py": "",
    "vllm/model_executor/models/registry.py": """\
_TEXT_GENERATION_MODELS = {
    "TinyForCausalLM": ("tiny", "TinyForCausalLM"),
}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}
""",
    "vllm/model_executor/models/tiny.py": "class TinyForCausalLM:\n    pass\n",
    "vllm/transformers_utils/config.py": '_CONFIG_REGISTRY = LazyConfigDict(tiny="TinyConfig")\n',
    "vllm-0.99.0.dist-info/METADATA": """\
Metadata-Version: 2.1
Name: vllm
Version: 0.99.0
Requires-Dist: transformers>=4.50
""",
}


def build(root: Path) -> Path:
    """A folder that holds the engine as an installer would have left it."""
    for path, text in FILES.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def model(root: Path, model_type: str = "tiny", architecture: str = "TinyForCausalLM") -> Path:
    """A folder with a config and nothing else."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps({"architectures": [architecture], "model_type": model_type}))
    return root
