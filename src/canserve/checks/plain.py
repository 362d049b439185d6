"""Every check that needs no layout, in one tuple."""

from __future__ import annotations

from canserve.checks import (
    architecture,
    config,
    flags,
    kv_cache,
    machine,
    parsers,
    pipeline,
    processor,
    quantization,
    speculative,
    tokenizer,
    weights,
)
from canserve.checks.chat_template import CHECK as CHAT_TEMPLATE
from canserve.checks.reader import Check

PLAIN: tuple[Check, ...] = (
    architecture.REGISTERED,
    architecture.MODULE_PRESENT,
    config.PARSABLE,
    config.SATISFIED,
    config.REMOTE,
    tokenizer.CHECK,
    processor.CHECK,
    CHAT_TEMPLATE,
    weights.CHECK,
    *quantization.CHECKS,
    kv_cache.CHECK,
    speculative.CHECK,
    pipeline.CHECK,
    parsers.CHECK,
    flags.CHECK,
    *machine.CHECKS,
)
"""In the order in which a reader wants to see them: the class, its config, its files, the machine."""
