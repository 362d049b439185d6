"""ROCm's offload bundles: code objects for several AMD targets, one bundle for each translation unit.

Format: clang's documentation, "Clang Offload Bundler"; compressed bundles (``CCOB``) of versions 2 and 3, whose
header states their size. Of a compressed one only the beginning is unpacked, where the targets are named.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from canserve.probes.gpu_code.elf import File, FormError, Section, exactly
from canserve.probes.gpu_code.fatbin import skip_zeros

SECTION = ".hip_fatbin"
PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
PACKED = b"CCOB"
MAX_BUNDLES = 100_000
MAX_TARGETS = 256
MAX_HEAD = 64 << 10
"""Bytes of a bundle's beginning."""
_MAX_NAME = 256


def units(file: File, section: Section) -> Iterator[tuple[str, ...]]:
    """The targets of each bundle: ``gfx942``, ``gfx90a:xnack-``. Raises FormError."""
    at = section.start
    for _ in range(MAX_BUNDLES):
        at = skip_zeros(file, at, section.end)
        if at >= section.end:
            return
        head = exactly(file, at, min(at + MAX_HEAD, section.end))
        if head.startswith(PLAIN):
            targets, size = _targets(head)
        elif head.startswith(PACKED):
            beginning, size = _unpacked(head)
            targets, _ = _targets(beginning)
        else:
            raise FormError(f"unknown form: no offload bundle at byte {at} of {section.name}")
        if not 0 < size <= section.end - at:
            raise FormError(f"an offload bundle of {size} bytes at byte {at}, where its section has fewer")
        yield targets
        at += size
    raise FormError(f"more than {MAX_BUNDLES} offload bundles")


def _targets(head: bytes) -> tuple[tuple[str, ...], int]:
    """The targets of a bundle, and its size."""
    if not head.startswith(PLAIN):
        raise FormError("unknown form: what is packed is no offload bundle")
    at = len(PLAIN) + 8
    count = _number(head, len(PLAIN))
    if count > MAX_TARGETS:
        raise FormError(f"an offload bundle with {count} targets")
    found, size = [], at
    for _ in range(count):
        start, length, name = (_number(head, at + 8 * index) for index in range(3))
        if name > _MAX_NAME or at + 24 + name > len(head):
            raise FormError("an offload bundle whose list of targets is cut short")
        text = head[at + 24 : at + 24 + name].decode("ascii", "replace")
        at += 24 + name
        size = max(size, at, start + length)
        if text.startswith("hip"):
            target = text.rpartition("--")[2] or text.rpartition("-")[2]
            found.append("".join(c if c.isprintable() else "?" for c in target))
    return tuple(sorted(found)), size


def _unpacked(head: bytes) -> tuple[bytes, int]:
    """The beginning of what is packed, and how many bytes the packed bundle has."""
    if len(head) < 8:
        raise FormError("an offload bundle that is cut short")
    version, method = struct.unpack_from("<HH", head, 4)
    if version == 2:
        size, start = struct.unpack_from("<I", head + bytes(4), 8)[0], 24
    elif version == 3:
        size, start = _number(head, 8), 32
    else:
        raise FormError(f"unknown form: a compressed offload bundle of version {version}")
    data = head[start:size]
    try:
        if method == 0:
            return zlib.decompressobj().decompress(data, MAX_HEAD), size
        if method == 1:
            return _zstd(data), size
    except zlib.error as error:
        raise FormError(f"a compressed offload bundle that cannot be unpacked: {error}") from None
    raise FormError(f"unknown form: an offload bundle packed by method {method}")


def _zstd(data: bytes) -> bytes:
    import io

    import zstandard

    try:
        return (
            zstandard.ZstdDecompressor(max_window_size=128 << 20).stream_reader(io.BytesIO(data)).read(4096)
        )
    except zstandard.ZstdError as error:
        raise FormError(f"a compressed offload bundle that cannot be unpacked: {error}") from None


def _number(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise FormError("an offload bundle that is cut short")
    return int(struct.unpack_from("<Q", data, at)[0])
