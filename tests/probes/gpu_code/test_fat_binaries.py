"""Fat binaries and offload bundles: targets by translation unit, small reads, hostile forms."""

from __future__ import annotations

import struct
import zlib

import pytest
import zstandard

from canserve.probes.gpu_code import fatbin
from canserve.probes.gpu_code.elf import FormError
from canserve.probes.gpu_code.extension import read_extension
from canserve.subjects.gpu_code import Extension, Unit
from gpu_files import Bytes, Shared, bundle, container, cuda_object, entry


def of(code: bytes, section: str = ".nv_fatbin") -> Extension:
    return read_extension(Bytes(Shared({section: code}).made()), "eng")


def test_targets_by_translation_unit() -> None:
    found = of(container("sm_80", "sm_90a", "compute_80") + container("sm_120f") + container("sm_120f"))
    assert found.units == (Unit(("compute_80", "sm_80", "sm_90a"), 1), Unit(("sm_120f",), 2))
    assert found.targets == ("compute_80", "sm_120f", "sm_80", "sm_90a")
    assert found.ptx == {"compute_80": "8.4"}


def test_the_newest_version_of_ptx_counts() -> None:
    found = of(
        container("compute_80", isa="9.0") + container("compute_80", isa="10.1") + container("compute_80")
    )
    assert found.ptx == {"compute_80": "10.1"}


def test_zeros_between_containers() -> None:
    padded = (
        container("sm_80") + bytes(8) + container("sm_90") + bytes(5 << 10) + container("sm_100") + bytes(64)
    )
    assert {unit.targets for unit in of(padded).units} == {("sm_80",), ("sm_90",), ("sm_100",)}


def test_relocatable_parts_are_not_loaded() -> None:
    assert of(container("sm_80"), "__nv_relfatbin").units == ()


def test_a_kind_that_nobody_knows_is_neither_machine_code_nor_ptx() -> None:
    body = bytearray(entry("sm_90"))
    struct.pack_into("<H", body, 0, 64)
    code = struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(body)) + body
    assert of(code).targets == ("kind64_90",)


def test_only_headers_are_read() -> None:
    large = b"".join(entry("sm_80", payload=1 << 20) for _ in range(20))
    code = struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(large)) + large
    file = Bytes(Shared({".nv_fatbin": code}).made())
    assert read_extension(file, "eng").targets == ("sm_80",)
    assert file.asked < 64 << 10


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"\1" * 64, "no fat binary"),
        (container("sm_80")[:-8], "has fewer"),
        (container("sm_80") + b"\1" * 7, "within a header|no fat binary"),
        (struct.pack("<IHHQ", fatbin.MAGIC, 2, 16, 0), "no fat binary"),
        (struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 1 << 62), "has fewer"),
        (struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 24) + bytes(24), "cut short"),
        (struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 64) + bytes(64), "an entry"),
        (struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 100) + entry("sm_80"), "ends at byte"),
    ],
)
def test_forms_that_are_not_understood(code: bytes, why: str) -> None:
    with pytest.raises(FormError, match=why):
        of(code.ljust(200, b"\0") if b"\1" in code[:1] else code)


def test_entries_beyond_number() -> None:
    empty = b"".join(entry("sm_80", payload=0) for _ in range(1000))
    code = struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(empty)) + empty
    section = Shared({".nv_fatbin": code}).made()
    assert of(code).units == (Unit(("sm_80",), 1),)
    from canserve.probes.gpu_code.elf import read_elf

    file = Bytes(section)
    (found,) = read_elf(file).named(".nv_fatbin")
    assert sum(len(unit) for unit in fatbin.units(file, found)) == 1000
    assert fatbin.MAX_ENTRIES < 1 << 21


def test_a_container_that_ends_in_itself_goes_on() -> None:
    """Overlapping would need a size below nothing: sizes are unsigned, so that every step goes forward."""
    data = bytearray(container("sm_80"))
    struct.pack_into("<Q", data, 16 + 8, (1 << 64) - 64)
    with pytest.raises(FormError, match="ends at byte"):
        of(bytes(data))


# ROCm ------------------------------------------------------------------------------------------------


def compressed(data: bytes, version: int, method: str) -> bytes:
    packed = zlib.compress(data) if method == "zlib" else zstandard.compress(data)
    number = {"zlib": 0, "zstd": 1}[method]
    if version == 2:
        size = 24 + len(packed)
        head = struct.pack("<4sHHIIQ", b"CCOB", 2, number, size, len(data), 0)
    else:
        size = 32 + len(packed)
        head = struct.pack("<4sHHQQQ", b"CCOB", version, number, size, len(data), 0)
    return (head + packed).ljust(-(-size // 4096) * 4096, b"\0")


def test_offload_bundles() -> None:
    code = bundle("gfx90a:sramecc+:xnack-", "gfx942") + bundle("gfx942")
    found = of(code, ".hip_fatbin")
    assert found.units == (Unit(("gfx90a:sramecc+:xnack-", "gfx942"), 1), Unit(("gfx942",), 1))


@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("version", [2, 3])
def test_compressed_offload_bundles(version: int, method: str) -> None:
    code = compressed(bundle("gfx942", align=1), version, method) * 2
    assert of(code, ".hip_fatbin").units == (Unit(("gfx942",), 2),)


@pytest.mark.parametrize(
    "code",
    [
        b"\1" * 64,
        bundle("gfx942")[:40],
        b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 << 40),
        compressed(b"nothing", 2, "zlib"),
        compressed(b"x" * 100, 2, "zlib")[:20],
        compressed(bundle("gfx942"), 9, "zstd"),
        b"CCOB" + struct.pack("<HHIIQ", 2, 1, 30, 99, 0) + b"\1" * 30,
        b"CCOB" + struct.pack("<HHIIQ", 2, 7, 40, 99, 0) + b"\1" * 30,
    ],
)
def test_bundles_that_are_not_understood(code: bytes) -> None:
    with pytest.raises(FormError):
        of(code, ".hip_fatbin")


def test_a_whole_extension() -> None:
    found = read_extension(Bytes(cuda_object(["sm_90", "compute_90"], libc="2.31")), "eng")
    assert (found.libc, found.needed) == ("2.31", ("libcudart.so.12", "libc.so.6"))
