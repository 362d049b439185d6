"""Checks of what a deployment finds on its machines, before anything is claimed or started there."""

from __future__ import annotations

from canserve.checks.deployment.model_readable import MODEL_READABLE
from canserve.checks.deployment.question import ReadingCheck

CHECKS: tuple[ReadingCheck, ...] = (MODEL_READABLE,)
