"""A machine: what a profile says of it, or (later) what was read on it."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.facts import Fact
from canserve.units import Bytes, Capability, Compute, Rate


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. A fact without a source is Missing, not a guess."""

    subject: str
    """``profile:dgx-spark``, a host of a cluster file."""
    vendor: Fact[str]
    """``nvidia``, ``amd``, ``intel``, ``google``, ``huawei``."""
    gpu: Fact[str]
    """Marketing name of the accelerator."""
    capability: Fact[Capability | None]
    """CUDA compute capability; ``Known(None)`` for accelerators that have none."""
    arch_name: Fact[str]
    """``sm_121``, ``gfx942`` ..."""
    gpus: Fact[int]
    memory: Fact[Bytes]
    """Of one accelerator, nominal."""
    visible_memory: Fact[Bytes]
    """Of one accelerator, as CUDA or HIP reports it (``cudaMemGetInfo``): less than the nominal figure."""
    unified_memory: Fact[bool]
    bandwidth: Fact[Rate]
    compute: Fact[Compute]
    """Peak of dense matrix products, of one accelerator."""
    cpu_arch: Fact[str]
    """``x86_64`` or ``aarch64``."""
    disk: Fact[Bytes]
    """Free for images and weights."""
    driver: Fact[str]
    """NVIDIA driver version, ``580.95.05``."""
    cuda: Fact[str]
    """Highest CUDA version that the driver serves, ``13.0``."""
    libc: Fact[str]
    fp8: Fact[bool]
    fp4: Fact[bool]
    intra_node: Fact[str]
    """How its accelerators reach each other, with the rate where it is known: ``NVLink, 450 GB/s each way``."""
    inter_node: Fact[str]
    """How it reaches other machines: ``RoCE, 25 GB/s each way``."""
