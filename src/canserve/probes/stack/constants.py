"""What programs and libraries say of themselves in their constants: bounded passes over ELF sections."""

from __future__ import annotations

import re

from canserve.probes.gpu_code.elf import File, FormError, read_elf

PTXAS = re.compile(rb"Cuda compilation tools, release (\d{1,3}\.\d{1,3}), V(\d{1,3}(?:\.\d{1,4}){1,3})")
NCCL = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})(?:\+cuda(\d{1,3}\.\d{1,3}))?")
LIBC = re.compile(rb"GNU C Library [^\0\n]{0,120}release version (\d{1,3}\.\d{1,3})")
MAX_CONSTANTS = 64 << 20
"""Bytes of constants that are passed over; NCCL has 7 MB, ptxas 25."""
_STEP = 1 << 20
_OVERLAP = 256
_CONSTANTS = (".rodata", ".rodata.str1.1", ".data.rel.ro.local", ".data")


def said(file: File, pattern: re.Pattern[bytes]) -> str | None:
    """The last group of the first match that took part; None: it says nothing. Raises FormError, TreeError."""
    left = MAX_CONSTANTS
    sections = read_elf(file).sections
    for section in (each for name in _CONSTANTS for each in sections if each.name == name):
        at = section.start
        while at < section.end:
            end = min(at + _STEP + _OVERLAP, section.end)
            left -= end - at
            if left < 0:
                raise FormError(f"more than {MAX_CONSTANTS} bytes of constants")
            if match := pattern.search(file.read(at, end)):
                return str(match[1 if pattern is not PTXAS else 2], "ascii")
            at += _STEP
    return None
