"""Checks of a build, or of a model with a build, against a machine."""

from __future__ import annotations

from canserve.checks.machine.broken import NOT_BROKEN
from canserve.checks.machine.capability import CAPABILITY
from canserve.checks.machine.cpu import CPU_ARCH
from canserve.checks.machine.driver import DRIVER

CHECKS = (CPU_ARCH, DRIVER, CAPABILITY, NOT_BROKEN)
