"""Whatever the bytes are: a model comes back, every missing fact has its reason, nothing else is raised."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_making import LFS_POINTER, Tensors, folder, missing, safetensors, small_gguf

from canserve.facts import Known, Missing
from canserve.probes.model import gguf, read_model
from canserve.probes.model.cursor import Cursor
from canserve.probes.model.documents import Unreadable, parse
from canserve.probes.model.safetensors import header_length, tally
from canserve.probes.model.weights import read_index
from canserve.subjects.model import Model

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WORDS = """
architectures model_type auto_map quantization_config compression_config text_config vision_config dtype
format torch_dtype tie_word_embeddings max_position_embeddings num_nextn_predict_layers quantization over
quant_method quant_algo config_groups weights num_bits weight_block_size bits group_size kv_cache_scheme
ignore dynamic name modules_to_not_convert quantized_layers chat_template tokenizer_class processor_class
expert_dtype shape tensors transformers_version load_in_4bit weight_map metadata recorded_from
"""
KEYS = st.sampled_from(WORDS.split())
CONFIG = st.recursive(
    JSON | st.sampled_from(["fp8", "gptq", "awq", "modelopt", "compressed-tensors", "quark", "NVFP4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)
BYTES = st.binary()
NAMES = (
    "config.json", "params.json", "hf_quant_config.json", "quantize_config.json", "tokenizer_config.json",
    "chat_template.json", "preprocessor_config.json", "generation_config.json", "model.headers.json",
    "model.safetensors.index.json",
)  # fmt: skip


def stored(_name: str, _dtype: str, elements: int) -> int:
    return elements


def sound(model: Model) -> None:
    """Every fact is one, and what is said of it can be printed anywhere."""
    for field in fields(model):
        fact = getattr(model, field.name)
        if isinstance(fact, Missing):
            missing(fact)
        for look in fact.evidence if isinstance(fact, Known | Missing) else ():
            assert look.saw.isprintable()
            look.how.encode()
    json.dumps(model.subject).encode()


@LOOSE
@given(st.dictionaries(st.sampled_from(NAMES), st.dictionaries(KEYS, CONFIG, max_size=6) | JSON, max_size=4))
def test_any_json_in_any_file(tmp_path_factory: Any, content: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("m")
    sound(read_model(str(folder(path, {name: json.dumps(value) for name, value in content.items()}))))


@LOOSE
@given(
    st.dictionaries(
        st.sampled_from((*NAMES, "model.safetensors", "m.gguf", "chat_template.jinja")), st.binary()
    )
)
def test_any_bytes_in_any_file(tmp_path_factory: Any, content: dict[str, bytes]) -> None:
    sound(read_model(str(folder(tmp_path_factory.mktemp("m"), content))))


@given(st.binary() | st.text().map(str.encode) | JSON.map(json.dumps).map(str.encode))
def test_any_document(data: bytes) -> None:
    try:
        parse(data)
    except Unreadable as error:
        assert error.why.isprintable()


TENSORS = st.dictionaries(
    st.text(max_size=20).filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(["F32", "BF16", "U8", "F8_E4M3"]), st.lists(st.integers(0, 9), max_size=4)),
    max_size=6,
)


@given(TENSORS)
def test_every_sound_header_is_counted_as_it_is(tensors: Tensors) -> None:
    data = safetensors(tensors)
    length = header_length(data[:64], len(data))
    found = tally(data[8 : 8 + length], len(data), stored)
    assert found.tensors == len(tensors)
    assert found.bytes == len(data) - 8 - length


@given(TENSORS, st.data())
def test_a_header_with_changed_bytes_is_counted_or_refused(tensors: Tensors, data: st.DataObject) -> None:
    file = bytearray(safetensors(tensors))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    try:
        length = header_length(bytes(file[:64]), len(file))
        tally(bytes(file[8 : 8 + length]), len(file), stored)
    except Unreadable as error:
        assert error.why.isprintable()


SMALL = small_gguf()


@given(st.data())
def test_a_gguf_header_with_changed_bytes_is_read_or_refused(data: st.DataObject) -> None:
    file = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 500))
        file[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=9))
    asked = 0

    def read(start: int, end: int) -> bytes:
        nonlocal asked
        asked += 1
        return bytes(file[start:end])

    try:
        gguf.header(read, len(file))
    except Unreadable as error:
        assert error.why.isprintable()
    assert asked < 20


@given(st.binary() | CONFIG.map(json.dumps).map(str.encode))
def test_any_index(data: bytes) -> None:
    try:
        assert read_index(data)
    except Unreadable as error:
        assert error.why.isprintable()


@given(st.text())
def test_the_cursor_ends_on_any_text(text: str) -> None:
    try:
        cursor = Cursor(text)
        for _ in cursor.members():
            cursor.string()
        cursor.finish()
    except Unreadable:
        pass
    else:
        assert json.loads(text) is not None


@LOOSE
@given(st.text(max_size=60))
def test_any_name(spec: str) -> None:
    from canserve.probes.model import Options

    if not Path(spec.replace("\0", "")).exists():
        sound(read_model(spec, Options(offline=True, cache=Path("/nonexistent"))))


def test_a_pointer_in_every_place_at_once(tmp_path: Path) -> None:
    sound(read_model(str(folder(tmp_path, dict.fromkeys([*NAMES, "model.safetensors"], LFS_POINTER)))))
