"""Layers that are damaged, hostile or packed in unusual ways, from a registry."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest
import zstandard

from canserve.facts import Cause
from canserve.trees.archive.stream import BombError
from canserve.trees.image import layer as layers
from canserve.trees.tree import TreeError
from image_registry import FILES, Shop
from made_images import hard, layer, link, packed
from web_server import (
    ranged,
)


def hostile(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for each in members:
            archive.addfile(each, io.BytesIO(b"\0" * each.size) if each.isreg() else None)
    return out.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def test_a_layer_cannot_reach_out_of_the_image(shop: Shop) -> None:
    evil = hostile(
        entry("../../etc/passwd", size=3),
        entry("/absolute/file", size=3),
        entry("out", tarfile.SYMTYPE, "../../../../etc"),
        entry("abs", tarfile.SYMTYPE, "/etc/shadow"),
        entry("hard", tarfile.LNKTYPE, "../../etc/shadow"),
        entry("hard2", tarfile.LNKTYPE, "/etc/shadow"),
        entry("dev/sda", tarfile.BLKTYPE),
        entry("dev/tty", tarfile.CHRTYPE),
        entry("run/pipe", tarfile.FIFOTYPE),
        entry("loop/a", tarfile.SYMTYPE, "b"),
        entry("loop/b", tarfile.SYMTYPE, "a"),
        entry("up", tarfile.SYMTYPE, "."),
        entry("ok", size=3),
    )
    shop.put([evil, FILES])
    tree = shop.open().tree
    listing = tree.listing()
    assert {"ok", "absolute/file"} <= {path for path in listing.entries if not path.startswith("vllm")}
    assert not [path for path in listing.entries if "passwd" in path or "shadow" in path or "dev/" in path]
    holes = {hole.prefix for hole in listing.holes}
    assert {"hard", "hard2", "loop/a", "loop/b"} <= holes
    for path in ("../etc/passwd", "out/passwd", "abs", "hard", "dev/sda", "run/pipe", "loop/a/x"):
        with pytest.raises(TreeError):
            tree.read(path)


def test_an_archive_within_its_packing_does_not_fill_the_memory(shop: Shop) -> None:
    bomb = gzip.compress(hostile(entry("zeros", size=100 << 20)), 9) + b""
    shop.put([bomb + gzip.compress(bytes(600 << 20), 9)])
    assert "unpacks to more than" in shop.missing().why


def test_a_window_that_wants_gigabytes_is_refused(shop: Shop) -> None:
    frame = zstandard.ZstdCompressionParameters
    wide = zstandard.ZstdCompressor(compression_params=frame.from_level(3, window_log=30))
    machine = wide.compressobj()
    shop.put([machine.compress(layer(FILES)) + machine.flush()])
    assert shop.missing().cause is Cause.UNREADABLE


def test_zstd_in_many_frames_with_skipped_ones_between(shop: Shop) -> None:
    data, machine = layer(FILES), zstandard.ZstdCompressor(level=1)
    frames = [machine.compress(data[at : at + 700]) for at in range(0, len(data), 700)]
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
    shop.put([skipped.join(frames) + skipped, b""])
    found = shop.missing()
    assert found.cause is Cause.UNREADABLE, "a blob without a byte is no archive"
    shop.put([skipped.join(frames) + skipped, {}])
    assert shop.open().tree.read("vllm/m59.py") == FILES["vllm/m59.py"]


def test_gzip_in_many_members(shop: Shop) -> None:
    data = layer(FILES)
    shop.put([b"".join(gzip.compress(data[at : at + 900], 1) for at in range(0, len(data), 900))])
    assert shop.open().tree.read("vllm/m59.py") == FILES["vllm/m59.py"]


def test_more_names_than_any_layer_has() -> None:
    builder, node = layers.Builder(), layers.Node(layers.FILE)
    for number in range(layers.MAX_NODES):
        builder.put(f"a/{number}", node)
    with pytest.raises(BombError, match=f"more than {layers.MAX_NODES} names"):
        builder.put("one/more", node)
    for number in range(layers.MAX_HOLES):
        builder.put(f"../{number}", node)
    with pytest.raises(BombError, match="more unusable names"):
        builder.put("../more", node)


def test_a_hundred_thousand_names(shop: Shop) -> None:
    data = b"".join(_renamed(entry("a" * 60).tobuf(), b"%060d" % number) for number in range(100_000))
    shop.put([gzip.compress(data + bytes(1024), 1), FILES])
    tree = shop.open().tree
    assert len(tree.listing().entries) == 100_000 + len(FILES)
    assert tree.read("vllm/m1.py") == FILES["vllm/m1.py"]


def _renamed(header: bytes, name: bytes) -> bytes:
    """A header under another name of the same length, its checksum made to fit."""
    changed = name + header[len(name) :]
    total = sum(changed[:148]) + 8 * 32 + sum(changed[156:])
    return changed[:148] + b"%06o\0 " % total + changed[156:]


@pytest.mark.parametrize("size", ["77777777777", "-1", "99999999999x"])
def test_absurd_sizes(shop: Shop, size: str) -> None:
    header = bytearray(entry("big", size=1).tobuf())
    header[124:136] = size.encode().ljust(11, b" ")[:11] + b"\0"
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    header[148:156] = b"%06o\0 " % total
    shop.put([bytes(header) + layer(FILES)])
    assert shop.missing().cause is Cause.UNREADABLE


@pytest.mark.parametrize("how", ["gzip", "zstd", "plain"])
def test_damage_anywhere_is_found(shop: Shop, how: str) -> None:
    blob = packed(layer(FILES), how)
    shop.put([blob])
    for at in (0, 3, len(blob) // 3, len(blob) // 2, len(blob) - 4):
        damaged = blob[:at] + bytes([blob[at] ^ 0x55]) + blob[at + 1 :]
        shop.site.put(shop.place(blob), ranged(damaged))
        assert shop.missing().cause is Cause.UNREADABLE, at


def test_layers_of_nothing(shop: Shop) -> None:
    shop.put([{}, FILES, {}, {"a/.wh.b": b""}])
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]


def test_links_of_layers_over_links_of_others(shop: Shop) -> None:
    site = "usr/lib/python3.12/site-packages"
    shop.put([
        {"opt/real/vllm/a.py": b"1", site: link("/opt/real"), "lib": link("usr/lib")},
        {f"{site}/vllm/b.py": b"2", "lib/python3.12/x.py": b"3"},
        {f"{site}/vllm/.wh.a.py": b"", "copy.py": hard(f"{site}/vllm/b.py")},
    ])  # fmt: skip
    tree = shop.open().tree
    assert sorted(tree.listing("opt").entries) == ["opt/real/vllm/b.py"]
    assert tree.read(f"{site}/vllm/b.py") == b"2"
    assert tree.read("usr/lib/python3.12/x.py") == b"3"
