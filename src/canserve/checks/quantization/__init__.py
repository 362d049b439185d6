"""quantization-registered and quantization-scheme-known: whether the build loads weights stored this way."""

from __future__ import annotations

from canserve.checks.quantization.registered import REGISTERED
from canserve.checks.quantization.schemes import SCHEME_KNOWN

CHECKS = (REGISTERED, SCHEME_KNOWN)
