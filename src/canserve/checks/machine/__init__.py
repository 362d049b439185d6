"""Checks of a build, or of a model with a build, against a machine."""

from __future__ import annotations

from canserve.checks.machine.attention import ATTENTION
from canserve.checks.machine.broken import NOT_BROKEN
from canserve.checks.machine.capability import CAPABILITY
from canserve.checks.machine.collective import COLLECTIVE_LOADS
from canserve.checks.machine.cpu import CPU_ARCH
from canserve.checks.machine.cuda_libraries import CUDA_LIBRARIES
from canserve.checks.machine.driver import DRIVER
from canserve.checks.machine.entrypoint import ENTRYPOINT
from canserve.checks.machine.environment import ENVIRONMENT
from canserve.checks.machine.gpu_code import GPU_CODE
from canserve.checks.machine.jit_toolchain import JIT_TOOLCHAIN
from canserve.checks.machine.libc import LIBC
from canserve.checks.machine.moe_backend import MOE_BACKEND
from canserve.checks.machine.triton_compiler import TRITON_COMPILER
from canserve.checks.machine.vendor import VENDOR

CHECKS = (
    CPU_ARCH,
    VENDOR,
    LIBC,
    DRIVER,
    CUDA_LIBRARIES,
    GPU_CODE,
    TRITON_COMPILER,
    JIT_TOOLCHAIN,
    COLLECTIVE_LOADS,
    CAPABILITY,
    ATTENTION,
    MOE_BACKEND,
    ENTRYPOINT,
    ENVIRONMENT,
    NOT_BROKEN,
)
