"""GGUF: every metadata type, both versions, splits and projectors; hostile headers end in one line."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from model_making import (
    LFS_POINTER,
    entry,
    folder,
    gguf,
    known,
    missing,
    small_gguf,
    string,
    strings,
    tensor,
    text,
    u32,
)

from canserve.facts import Cause
from canserve.probes.model import read_model
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.gguf import Header, Long, header

ARCH = string("general.architecture", "llama")


def read(data: bytes, size: int | None = None) -> Header:
    return header(lambda start, end: data[start:end], len(data) if size is None else size)


def why(data: bytes) -> str:
    with pytest.raises(Unreadable) as caught:
        read(data)
    assert caught.value.why.isprintable()
    return caught.value.why


def test_every_metadata_type_is_read() -> None:
    nested = struct.pack("<IQ", 9, 2) + (struct.pack("<IQ", 4, 1) + struct.pack("<I", 7)) * 2
    found = read(
        gguf(
            [
                entry("u8", 0, b"\xff"), entry("i8", 1, b"\xff"), entry("u16", 2, b"\xff\xff"),
                entry("i16", 3, b"\xff\xff"), entry("u32", 4, b"\xff" * 4), entry("i32", 5, b"\xff" * 4),
                entry("f32", 6, struct.pack("<f", 0.5)), entry("bool", 7, b"\1"), entry("text", 8, text("é")),
                entry("u64", 10, b"\xff" * 8), entry("i64", 11, b"\xff" * 8),
                entry("f64", 12, struct.pack("<d", 0.25)), strings("words", ["a", "b"]),
                entry("row", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3)),
                entry("long", 9, struct.pack("<IQ", 0, 5000) + bytes(5000)), entry("nested", 9, nested),
            ]
        )
    )  # fmt: skip
    assert found.metadata == {
        "u8": 255, "i8": -1, "u16": 65535, "i16": -1, "u32": 2**32 - 1, "i32": -1, "f32": 0.5, "bool": True,
        "text": "é", "u64": 2**64 - 1, "i64": -1, "f64": 0.25, "words": Long(2), "row": [1, -2, 3],
        "long": Long(5000), "nested": Long(2),
    }  # fmt: skip


def test_parameters_are_counted_by_tensor_type() -> None:
    tensors = [tensor("a", (256, 2), 14, 0), tensor("b", (32,), 39, 448), tensor("c", (5, 3, 2), 1, 480)]
    found = read(gguf([ARCH], tensors, 480 + 60))
    assert found.elements == {"Q6_K": 512, "MXFP4": 32, "F16": 30}
    assert found.bytes == 2 * 210 + 17 + 60


def test_version_2_and_another_alignment_are_known() -> None:
    found = read(
        gguf([ARCH, u32("general.alignment", 64)], [tensor("a", (4,), 0, 0)], 16, version=2, align=64)
    )
    assert (found.version, found.elements) == (2, {"F32": 4})


def test_an_unknown_tensor_type_is_counted_under_its_number() -> None:
    assert read(gguf([ARCH], [tensor("a", (64,), 199, 0)], 999)).elements == {"type 199": 64}


def test_a_vocabulary_of_megabytes_is_walked_over_in_pieces() -> None:
    words = [f"token{n}" for n in range(200_000)]
    data = gguf([strings("tokenizer.ggml.tokens", words), u32("after", 5)])
    asked: list[int] = []

    def piece(start: int, end: int) -> bytes:
        asked.append(end - start)
        return data[start:end]

    begin = time.process_time()
    found = header(piece, len(data))
    assert found.metadata == {"tokenizer.ggml.tokens": Long(200_000), "after": 5}
    assert time.process_time() - begin < 2
    assert len(asked) < 10


HUGE = struct.pack("<Q", 1 << 62)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"GGUF", "truncated"),
        (b"GGML" + bytes(20), "not with GGUF"),
        (b"PK\3\4" + bytes(20), "not with GGUF"),
        (LFS_POINTER, "Git LFS"),
        (gguf([], version=1), "version 1"),
        (gguf([], version=4), "version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "not a sound header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "not a sound header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 5), "truncated"),
        (gguf([text("k") + struct.pack("<I", 13)]), "unknown metadata type 13"),
        (gguf([entry("k", 8, HUGE)]), "a metadata string claims"),
        (gguf([HUGE]), "a metadata key claims"),
        (gguf([entry("k", 9, struct.pack("<I", 4) + HUGE)]), "longer than"),
        (gguf([entry("k", 9, struct.pack("<I", 8) + HUGE)]), "longer than"),
        (gguf([entry("k", 9, struct.pack("<IQ", 9, 5) * 8)]), "inside an array"),
        (gguf([entry("k", 9, struct.pack("<I", 9) + HUGE)]), "inside an array"),
        (gguf([entry("k", 9, struct.pack("<IQ", 77, 0))]), "unknown metadata type 77"),
        (gguf([u32("k", 1), u32("k", 2)]), "stands twice"),
        (gguf([u32("general.alignment", 0)]), "alignment"),
        (gguf([u32("general.alignment", 12)]), "alignment"),
        (gguf([string("general.alignment", "x")]), "alignment"),
        (gguf([], [tensor("t", (1, 1, 1, 1, 1), 0, 0)]), "5 dimensions"),
        (gguf([], [tensor("t", (1 << 40, 1 << 40), 0, 0)]), "impossible shape"),
        (gguf([], [tensor("t", (4,), 0, 7)], 100), "offset"),
        (gguf([], [tensor("t", (100,), 12, 0)], 100), "do not fill blocks of 256"),
        (gguf([], [tensor("t", (256,), 0, 0)], 100), "truncated"),
        (gguf([], [tensor("t", (256,), 0, 1 << 50)], 100), "truncated"),
    ],
)
def test_broken_headers_say_why(data: bytes, reason: str) -> None:
    assert reason in why(data)


def test_many_arrays_inside_arrays_are_refused_in_time() -> None:
    inner = struct.pack("<IQ", 9, 1000) + struct.pack("<IQ", 4, 0) * 1000
    data = gguf([entry("k", 9, struct.pack("<IQ", 9, 1000) + inner * 1000)])
    begin = time.process_time()
    assert "arrays inside" in why(data)
    assert time.process_time() - begin < 1


def test_a_gguf_file_is_a_model(tmp_path: Path) -> None:
    path = folder(tmp_path, {"tiny-Q4_K_M.gguf": small_gguf()}) / "tiny-Q4_K_M.gguf"
    model = read_model(str(path))
    assert model.origin == "gguf"
    assert known(model.gguf_architecture) == "qwen3"
    assert known(model.architectures) == ()
    assert known(model.model_type) is None
    assert known(model.weight_format) == "gguf"
    parameters = known(model.parameters)
    assert (parameters.by_dtype, parameters.total) == ({"Q4_K": 16384, "F32": 64}, 16448)
    quantization = known(model.quantization)
    assert (quantization.method, quantization.declared) == ("gguf", "Q4_K_M")
    assert [(s.weight_bits, s.format) for s in quantization.schemes] == [(4, "Q4_K")]
    assert known(model.tokenizer).kind == "gguf"
    assert known(model.chat_template) == "{{ messages[0].content }}"
    assert known(model.max_positions) == 40960
    assert known(model.mtp_layers) == 0
    assert missing(model.config).cause is Cause.UNAVAILABLE
    missing(model.files)


def test_a_gguf_file_may_have_any_name(tmp_path: Path) -> None:
    path = folder(tmp_path, {"blob": small_gguf("llama")}) / "blob"
    assert known(read_model(str(path)).gguf_architecture) == "llama"


def test_mtp_layers_stand_in_the_metadata(tmp_path: Path) -> None:
    extra = [u32("glm4moe.nextn_predict_layers", 1)]
    path = folder(tmp_path, {"m.gguf": small_gguf("glm4moe", extra)}) / "m.gguf"
    assert known(read_model(str(path)).mtp_layers) == 1


def part(number: int, count: int, kind: int = 0) -> bytes:
    if number == 1:
        return small_gguf(extra=[entry("split.count", 2, struct.pack("<H", count))])
    keys = [
        entry("split.count", 2, struct.pack("<H", count)),
        entry("split.no", 2, struct.pack("<H", number - 1)),
    ]
    return gguf(keys, [tensor("more", (256,), kind, 0)], 1024)


@pytest.mark.parametrize("named", ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "."])
def test_a_split_model_is_read_from_any_of_its_parts(tmp_path: Path, named: str) -> None:
    folder(tmp_path, {"m-00001-of-00002.gguf": part(1, 2), "m-00002-of-00002.gguf": part(2, 2)})
    model = read_model(str(tmp_path / named))
    assert known(model.gguf_architecture) == "qwen3"
    assert known(model.parameters).by_dtype == {"Q4_K": 16384, "F32": 64 + 256}
    assert known(model.parameters).files == 2


def test_a_missing_or_broken_part_is_missing_parameters(tmp_path: Path) -> None:
    path = folder(tmp_path / "a", {"m-00001-of-00002.gguf": part(1, 2)})
    model = read_model(str(path / "m-00001-of-00002.gguf"))
    assert "split into 2 files, 1 of them" in missing(model.parameters).why
    assert known(model.gguf_architecture) == "qwen3"
    path = folder(tmp_path / "b", {"m-00001-of-00002.gguf": part(1, 2), "m-00002-of-00002.gguf": b"GGUF"})
    assert "truncated" in missing(read_model(str(path)).parameters).why


def test_several_quantizations_are_named_instead_of_guessed(tmp_path: Path) -> None:
    names = ["m-Q4_K_M.gguf", "Q8_0/m-Q8_0-00001-of-00001.gguf"]
    folder(tmp_path, dict.fromkeys(names, small_gguf()) | {"mmproj-F16.gguf": small_gguf("clip")})
    model = read_model(str(tmp_path))
    lost = missing(model.parameters)
    assert "2 GGUF models are there: Q8_0/m-Q8_0, m-Q4_K_M" in lost.why
    assert lost.ask is not None
    assert ".gguf" in lost.ask
    missing(model.quantization)
    assert known(model.gguf_architecture) == "qwen3"
    assert known(model.processor).files == ("mmproj-F16.gguf",)
    one = read_model(str(tmp_path / "m-Q4_K_M.gguf"))
    assert known(one.parameters).total == 16448


def test_a_projector_alone_is_called_one(tmp_path: Path) -> None:
    path = folder(tmp_path, {"mmproj-F16.gguf": small_gguf("clip")}) / "mmproj-F16.gguf"
    model = read_model(str(path))
    assert known(model.gguf_architecture) == "clip"
    assert any("multimodal projector" in look.saw for look in model.gguf_architecture.evidence)


def test_what_the_projector_beside_a_model_is(tmp_path: Path) -> None:
    eyes = gguf([string("general.architecture", "clip"), string("clip.projector_type", "qwen2vl_merger")])
    both = gguf([string("general.architecture", "clip"), string("clip.vision.projector_type", "a"),
                 string("clip.audio.projector_type", "b")])  # fmt: skip
    for number, (projector, kinds) in enumerate(
        [(eyes, ("qwen2vl_merger",)), (both, ("a", "b")), (b"", None)]
    ):
        files = {"tiny-Q4_K_M.gguf": small_gguf(), "mmproj-F16.gguf": projector}
        model = read_model(str(folder(tmp_path / str(number), files)))
        if kinds is None:
            missing(model.gguf_projectors)
        else:
            assert known(model.gguf_projectors) == kinds
        assert known(model.gguf_architecture) == "qwen3"
    alone = read_model(str(folder(tmp_path / "alone", {"tiny-Q4_K_M.gguf": small_gguf()})))
    assert known(alone.gguf_projectors) == ()


def test_an_adapter_is_said_to_be_no_model(tmp_path: Path) -> None:
    data = small_gguf(extra=[string("general.type", "adapter")])
    model = read_model(str(folder(tmp_path, {"lora.gguf": data}) / "lora.gguf"))
    assert any("adapter: not a model by itself" in look.saw for look in model.gguf_architecture.evidence)


def test_a_config_beside_gguf_weights_counts_as_well(tmp_path: Path) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    model = read_model(str(folder(tmp_path, {"config.json": config, "m.gguf": small_gguf()})))
    assert known(model.architectures) == ("Qwen3ForCausalLM",)
    assert known(model.gguf_architecture) == "qwen3"
    assert known(model.quantization).method == "gguf"
    assert known(model.tokenizer).kind == "gguf"
    assert known(model.parameters).total == 16448


def test_a_config_that_cannot_be_read_stays_in_the_way_of_gguf_weights(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"config.json": LFS_POINTER, "m.gguf": small_gguf()})))
    assert "Git LFS" in missing(model.architectures).why
    assert known(model.gguf_architecture) == "qwen3"


def test_tokenizer_and_template_files_win_over_the_header(tmp_path: Path) -> None:
    model = read_model(
        str(folder(tmp_path, {"m.gguf": small_gguf(), "tokenizer.json": "{}", "chat_template.jinja": "T"}))
    )
    assert model.origin == "folder"
    assert known(model.tokenizer).kind == "fast"
    assert known(model.chat_template) == "T"
    assert known(model.architectures) == ()
    assert "no config.json" in missing(model.config).why


def test_a_header_without_an_architecture_is_unreadable_there(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"m.gguf": gguf([u32("a", 1)])}) / "m.gguf"))
    assert missing(model.gguf_architecture).cause is Cause.UNREADABLE


def test_a_broken_gguf_file_breaks_only_what_it_would_say(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"m.gguf": b"GGUF" + bytes(3)}) / "m.gguf"))
    for fact in (model.gguf_architecture, model.parameters, model.quantization, model.tokenizer):
        assert "truncated" in missing(fact).why
