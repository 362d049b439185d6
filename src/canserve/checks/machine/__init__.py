"""Checks of a build, or of a model with a build, against a machine."""

from __future__ import annotations

from canserve.checks.machine.broken import NOT_BROKEN
from canserve.checks.machine.capability import CAPABILITY
from canserve.checks.machine.cpu import CPU_ARCH
from canserve.checks.machine.cuda_libraries import CUDA_LIBRARIES
from canserve.checks.machine.driver import DRIVER
from canserve.checks.machine.gpu_code import GPU_CODE
from canserve.checks.machine.libc import LIBC
from canserve.checks.machine.vendor import VENDOR

CHECKS = (CPU_ARCH, VENDOR, LIBC, DRIVER, CUDA_LIBRARIES, GPU_CODE, CAPABILITY, NOT_BROKEN)
