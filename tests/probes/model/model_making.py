"""Models made by hand for tests: safetensors and GGUF files, config folders, Git LFS pointers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from canserve.facts import Fact, Known, Missing
from canserve.subjects.tensor import BITS

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 5021354\n"
)

Tensors = Mapping[str, tuple[str, Sequence[int]]]


def known(fact: Fact[Any]) -> Any:
    """The value of a fact that must be known."""
    assert isinstance(fact, Known), fact
    return fact.value


def missing(fact: Fact[Any]) -> Missing:
    """A fact that must be missing, with a reason in one printable line and a look."""
    assert isinstance(fact, Missing), fact
    assert fact.why.isprintable(), fact.why
    assert len(fact.why) < 1000
    return fact


def header_of(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """The JSON of a safetensors header, offsets in order."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return json.dumps(entries).encode()


def safetensors(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A whole safetensors file, its data zeros."""
    header = header_of(tensors, metadata)
    size = sum(prod(shape) * BITS[dtype] // 8 for dtype, shape in tensors.values())
    return len(header).to_bytes(8, "little") + header + bytes(size)


def folder(path: Path, files: Mapping[str, bytes | str | dict[str, Any] | list[Any]]) -> Path:
    """A folder with these files; tables and lists are written as JSON."""
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, bytes | str) else json.dumps(content)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def text(value: str) -> bytes:
    """A GGUF string."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, kind: int, value: bytes) -> bytes:
    """A GGUF metadata entry."""
    return text(key) + struct.pack("<I", kind) + value


def u32(key: str, value: int) -> bytes:
    return entry(key, 4, struct.pack("<I", value))


def string(key: str, value: str) -> bytes:
    return entry(key, 8, text(value))


def strings(key: str, values: Sequence[str]) -> bytes:
    return entry(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def tensor(name: str, shape: Sequence[int], kind: int, offset: int) -> bytes:
    """A GGUF tensor entry; the first dimension is the row."""
    dims = b"".join(struct.pack("<Q", size) for size in shape)
    return text(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", kind, offset)


def gguf(
    entries: Sequence[bytes], tensors: Sequence[bytes] = (), data: int = 0, version: int = 3, align: int = 32
) -> bytes:
    """A GGUF file with ``data`` zero bytes after its aligned header."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    body = head + b"".join(entries) + b"".join(tensors)
    return body + bytes(-len(body) % align) + bytes(data)


def small_gguf(architecture: str = "qwen3", extra: Sequence[bytes] = (), file_type: int = 15) -> bytes:
    """A sound little model: one Q4_K and one F32 tensor."""
    entries = [
        string("general.architecture", architecture),
        u32("general.file_type", file_type),
        u32(f"{architecture}.context_length", 40960),
        string("tokenizer.ggml.model", "gpt2"),
        strings("tokenizer.ggml.tokens", ["a", "b", "ab"]),
        string("tokenizer.chat_template", "{{ messages[0].content }}"),
        *extra,
    ]
    tensors = [tensor("blk.0.ffn.weight", (256, 64), 12, 0), tensor("norm.weight", (64,), 0, 9216)]
    return gguf(entries, tensors, 9216 + 256)
