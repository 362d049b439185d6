"""ELF headers: linked libraries, libc versions, and files that are not what they say."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canserve.probes.gpu_code import elf
from canserve.probes.gpu_code.elf import FormError, read_elf
from canserve.probes.gpu_code.extension import read_extension
from gpu_files import Bytes, Shared, container, cuda_object

WHOLE = Shared(
    {".nv_fatbin": container("sm_90")},
    ["libcudart.so.12", "libc10.so"],
    {
        "libc.so.6": ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_PRIVATE"],
        "libstdc++.so.6": ["GLIBCXX_3.4.30", "GLIBC_9.9.9"],
    },
    machine=62,
).made()


def test_what_a_shared_object_links_and_needs() -> None:
    found = read_extension(Bytes(WHOLE), "eng")
    assert found.cpu == "x86_64"
    assert found.needed == ("libcudart.so.12", "libc10.so")
    assert found.targets == ("sm_90",)
    versions = {"libc.so.6": ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_PRIVATE"]}
    assert read_extension(Bytes(Shared(versions=versions).made()), "eng").libc == "2.34"


def test_an_object_that_needs_nothing() -> None:
    found = read_extension(Bytes(Shared().made()), "eng")
    assert (found.cpu, found.needed, found.libc, found.units) == ("aarch64", (), None, ())


def test_this_interpreters_own_extensions_as_readelf_sees_them() -> None:
    import _ctypes
    import zlib

    paths = {Path(sys.executable).resolve()}
    paths |= {Path(file) for module in (_ctypes, zlib) if (file := getattr(module, "__file__", None))}
    for path in paths:
        file = Bytes(path.read_bytes())
        if not elf.is_elf(file):
            continue
        headers = read_elf(file)
        try:
            shown = subprocess.run(["readelf", "-dVW", str(path)], capture_output=True, text=True, check=True)
        except FileNotFoundError:
            assert elf.needed(headers, file)
            continue
        for name in elf.needed(headers, file):
            assert f"[{name}]" in shown.stdout
        libc = elf.libc(headers, file)
        assert libc is None or f"Name: GLIBC_{libc} " in shown.stdout


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "not an ELF"),
        (lambda data: data[:40], "not an ELF"),
        (lambda data: b"MZ" + data[2:], "not an ELF"),
        (lambda data: data[:4] + b"\1" + data[5:], "64 bits"),
        (lambda data: data[:40] + bytes(8) + data[48:], "stripped"),
        (lambda data: data[:40] + struct.pack("<Q", 1 << 60) + data[48:], "the file has"),
        (lambda data: data[:58] + struct.pack("<H", 40) + data[60:], "section headers of 40"),
        (lambda data: data[:60] + struct.pack("<H", 60000) + data[62:], "the file has"),
        (lambda data: data[:-200], "the file has"),
    ],
)
def test_headers_that_cannot_be_right(change: object, why: str) -> None:
    assert callable(change)
    with pytest.raises(FormError, match=why):
        read_extension(Bytes(change(WHOLE)), "eng")


def test_a_number_of_sections_that_stands_in_the_first_one() -> None:
    count = struct.unpack_from("<H", WHOLE, 60)[0]
    table = struct.unpack_from("<Q", WHOLE, 40)[0]
    data = bytearray(WHOLE)
    struct.pack_into("<H", data, 60, 0)
    struct.pack_into("<Q", data, table + 32, count)
    assert read_extension(Bytes(bytes(data)), "eng").needed == ("libcudart.so.12", "libc10.so")
    struct.pack_into("<Q", data, table + 32, 1 << 40)
    with pytest.raises(FormError, match="sections"):
        read_extension(Bytes(bytes(data)), "eng")


def test_version_needs_that_lead_in_circles_come_to_an_end() -> None:
    data = Shared(versions={"libc.so.6": ["GLIBC_2.34"]}).made()
    file = Bytes(data)
    section = next(s for s in read_elf(file).sections if s.kind == elf.VERSION_NEEDS)
    looped = bytearray(data)
    struct.pack_into("<H", looped, section.start + 2, 0xFFFF)
    struct.pack_into("<I", looped, section.start + 16 + 12, 16)
    with pytest.raises(FormError):
        read_extension(Bytes(bytes(looped)), "eng")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # no time is asserted, by no one
@given(st.data())
def test_any_damage_is_a_form_error_and_reads_little(data: st.DataObject) -> None:
    whole = bytearray(cuda_object(["sm_80", "sm_90a"], ["compute_80"]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=8))
        whole[at : at + len(patch)] = patch
    file = Bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with contextlib.suppress(FormError):
        read_extension(file, "eng")
    assert file.asked < 200 * len(whole)


def test_folders_that_libraries_are_looked_for_in() -> None:
    paths = {15: "$ORIGIN/../nvidia/nccl/lib:$ORIGIN", 29: "/opt/lib"}
    made = Shared(needed=["libnccl.so.2"], paths=paths).made()
    found = read_extension(Bytes(made), "eng")
    assert found.needed == ("libnccl.so.2",)
    assert found.rpath == ("$ORIGIN/../nvidia/nccl/lib", "$ORIGIN")
    assert found.runpath == ("/opt/lib",)
    assert read_extension(Bytes(WHOLE), "eng").rpath == ()
