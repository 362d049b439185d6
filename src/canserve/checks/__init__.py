"""Checks: one file a question, all of them listed in one tuple."""

from __future__ import annotations

from canserve.checks import architecture, config, kv_cache, machine, quantization
from canserve.checks.chat_template import CHECK as CHAT_TEMPLATE
from canserve.checks.reader import Check

CHECKS: tuple[Check, ...] = (
    architecture.REGISTERED,
    architecture.MODULE_PRESENT,
    config.PARSABLE,
    config.SATISFIED,
    config.REMOTE,
    CHAT_TEMPLATE,
    *quantization.CHECKS,
    kv_cache.CHECK,
    *machine.CHECKS,
)
"""In the order in which a reader wants to see them: the class, its config, its files, the machine."""
