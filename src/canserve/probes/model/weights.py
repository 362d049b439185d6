"""Which files hold the weights, and how many parameters of which dtype their headers count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.model import recorded
from canserve.probes.model.cursor import Cursor
from canserve.probes.model.documents import Unreadable, refuse_pointer
from canserve.probes.model.files import Files
from canserve.probes.model.names import stays_inside
from canserve.probes.model.safetensors import MAX_KINDS, Logical, Tally, header_length, tally
from canserve.subjects.model import Parameters, Quantization
from canserve.subjects.tensor import BITS, Tensor
from canserve.trees.names import printable

SINGLE = "model.safetensors"
INDEX = f"{SINGLE}.index.json"
MAX_INDEX = 48 << 20
"""Largest index that is read; 280 000 tensors, the most seen in a real one, take 31 MB."""
MAX_SHARDS = 2000
FIRST_READ = 100_000
LARGEST_FIRST_READ = 1 << 20
"""Bytes first read of a shard: most headers end before; an index tells where one will be longer."""
ENTRY = 180
"""Bytes that one tensor takes in a header, about."""
TOGETHER = 16
"""Shards whose first bytes are fetched and held at once."""

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5,6})-of-(?P<count>\d{5,6})\.safetensors")
_NOT_WEIGHTS = re.compile(
    r"(adapter|optimizer|training|scheduler|scaler|rng_state)\w*\.(safetensors|bin|pt|pth)"
)
_PICKLES = re.compile(r"[\w.-]+\.(bin|pt|pth)")


@dataclass(frozen=True, slots=True)
class Weights:
    """The files that an engine would load."""

    format: str | None
    """``safetensors``, ``mistral``, ``pt``, ``gguf``, ``recorded`` (header facts only); None: no weights."""
    files: Mapping[str, int]
    """Names, and how many tensors an index promises in each (0: no index)."""


def find_weights(files: Files) -> Fact[Weights]:
    """Choose as loaders do: what the index names, else ``model.safetensors``, else all safetensors files.

    A second copy in Mistral's own format is not counted twice. Missing: an index that cannot be read, or one
    that names a file which is not there.
    """
    if files.has(INDEX):
        return _safetensors(files, "safetensors", SINGLE, ())
    tensors = files.matching(lambda n: n.endswith(".safetensors") and not _NOT_WEIGHTS.fullmatch(n))
    if isinstance(tensors, Missing):
        return tensors
    own = [name for name in tensors.value if not name.startswith("consolidated")]
    if own:
        return _safetensors(files, "safetensors", SINGLE, own)
    if tensors.value:
        return _safetensors(files, "mistral", "consolidated.safetensors", tensors.value)
    if files.has(recorded.NAME):
        return Known(Weights("recorded", {recorded.NAME: 0}), tensors.evidence)
    ggufs = dict.fromkeys((name for name in files.names if name.lower().endswith(".gguf")), 0)
    if ggufs:
        return Known(Weights("gguf", ggufs), tensors.evidence)
    pickles = files.matching(lambda n: _PICKLES.fullmatch(n) is not None and not _NOT_WEIGHTS.fullmatch(n))
    if isinstance(pickles, Missing):
        return pickles
    if pickles.value:
        return Known(Weights("pt", dict.fromkeys(pickles.value, 0)), pickles.evidence)
    return files.holes[0].missing if files.holes else Known(Weights(None, {}), pickles.evidence)


def _safetensors(files: Files, form: str, single: str, own: Sequence[str]) -> Fact[Weights]:
    index = f"{single}.index.json"
    shards: dict[str, int]
    if files.has(index):
        raw = files.read(index, MAX_INDEX)
        if isinstance(raw, Missing):
            return raw
        try:
            shards = read_index(raw.value or b"")
        except Unreadable as error:
            return files.unreadable(index, error)
    else:
        index = own[0]
        shards = {single: 0} if single in own else _numbered(own)
    if len(shards) > MAX_SHARDS:
        return files.unreadable(index, Unreadable(f"more than {MAX_SHARDS} files of weights"))
    lost = [name for name in shards if not files.has(name)]
    if lost:
        why = f"names {printable(lost[0])}, which is not there ({len(lost)} of {len(shards)} files)"
        return files.gap(lost[0]) or files.unavailable(index, why, "fetch the missing files")
    return Known(Weights(form, shards), (files.seen(index, f"{len(shards)} files of weights"),))


def _numbered(own: Sequence[str]) -> dict[str, int]:
    """All files; where they are numbered (``model-00001-of-00003``), all that the count promises."""
    names = dict.fromkeys(own, 0)
    for name in own:
        match = _SHARD.fullmatch(name)
        if match and 0 < int(match["count"]) <= MAX_SHARDS >= len(names):
            width = len(match["number"])
            names.update(
                (f"{match['stem']}-{n:0{width}}-of-{match['count']}.safetensors", 0)
                for n in range(1, int(match["count"]) + 1)
            )
    return names


def read_index(data: bytes) -> dict[str, int]:
    """An index -> its files, with the number of tensors in each. Raises Unreadable."""
    refuse_pointer(data[:64])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from None
    shards: dict[str, int] = {}
    cursor = Cursor(text)
    for key in cursor.members():
        if key != "weight_map":
            cursor.flat_object()
            continue
        for _ in cursor.members():
            name = cursor.string()
            shards[name] = shards.get(name, 0) + 1
            if len(shards) > MAX_SHARDS:
                raise Unreadable(f"names more than {MAX_SHARDS} files")
    cursor.finish()
    outside = next((name for name in shards if not stays_inside(name)), None)
    if outside is not None:
        raise Unreadable(f"names a file outside the model: {printable(outside)}")
    if not shards:
        raise Unreadable("names no file")
    return shards


@dataclass(frozen=True, slots=True)
class Content:
    """What the headers say of the weights."""

    parameters: Fact[Parameters]
    tensors: Fact[tuple[Tensor, ...]]
    mtp_tensors: int | None = None
    """How many tensors belong to multi-token prediction; None: not counted."""


def read_content(files: Files, weights: Fact[Weights], quantization: Fact[Quantization | None]) -> Content:
    """Tensors, and parameters by dtype, from the headers."""
    if isinstance(weights, Missing):
        return Content(weights, weights)
    chosen = weights.value
    logical = logical_for(quantization.value if isinstance(quantization, Known) else None)
    match chosen.format:
        case None:
            lost = files.unavailable("file list", "no weight files are there")
        case "pt":
            name = next(iter(chosen.files))
            why = "a PyTorch pickle: its tensors cannot be listed without running it"
            lost = files.unreadable(name, Unreadable(why, ask="name a repository with safetensors"))
        case "recorded":
            return _recorded(files, logical)
        case _:
            return _headers(files, chosen, logical)
    return Content(lost, lost)


def _recorded(files: Files, logical: Logical) -> Content:
    value = files.mapping(recorded.NAME)
    if isinstance(value, Missing):
        return Content(value, value)
    try:
        total, source = recorded.tally_recorded(value.value or {}, logical)
    except Unreadable as error:
        lost = files.unreadable(recorded.NAME, error)
        return Content(lost, lost)
    seen = files.seen(recorded.NAME, f"{_sum(total)}; {source}")
    return _content(files, total, 0, (seen,))


def _headers(files: Files, weights: Weights, logical: Logical) -> Content:
    total = Tally()
    notes: list[Evidence] = []
    for name, one in _tallies(files, weights, logical):
        if isinstance(one, Missing):
            return Content(one, one)
        total.merge(one)
        if (promised := weights.files[name]) > one.tensors and not notes:
            saw = f"holds {one.tensors} tensors, the index promises {promised}"
            notes.append(files.seen(name, saw, whole=False))
    how = f"headers of {len(weights.files)} files: {printable(next(iter(weights.files)))} ..."
    return _content(files, total, len(weights.files), (files.seen(how, _sum(total)), *notes))


def _content(files: Files, total: Tally, count: int, evidence: tuple[Evidence, ...]) -> Content:
    parameters = Parameters(dict(total.by_dtype), total.total, total.bytes, total.tensors, count)
    listed = total.listed()
    tensors: Fact[tuple[Tensor, ...]]
    if listed is None:
        tensors = files.unreadable(evidence[0].how, Unreadable(f"more than {MAX_KINDS} kinds of tensors"))
    else:
        tensors = Known(tuple(listed), evidence)
    return Content(Known(parameters, evidence), tensors, total.mtp_tensors)


def _tallies(files: Files, weights: Weights, logical: Logical) -> Iterator[tuple[str, Tally | Missing]]:
    """One header after the other, up to the first that cannot be read."""
    names = list(weights.files)
    for batch in (names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)):
        guesses = (min(max(FIRST_READ, weights.files[name] * ENTRY), LARGEST_FIRST_READ) for name in batch)
        spans = [(name, 0, guess) for name, guess in zip(batch, guesses, strict=True)]
        for name, first in zip(batch, files.pieces(spans), strict=True):
            one = first if isinstance(first, Missing) else _one(files, name, first, logical)
            yield name, one
            if isinstance(one, Missing):
                return


def _one(files: Files, name: str, first: bytes, logical: Logical) -> Tally | Missing:
    """One file's header, of which the first bytes are there."""
    size = files.size(name)
    try:
        end = 8 + header_length(first, size)
        body = first[8:end] if end <= len(first) else files.piece(name, 8, end)
        if isinstance(body, Missing):
            return body
        if len(body) < end - 8:
            raise Unreadable(f"the header claims {end - 8} bytes, {len(body)} are there: truncated")
        return tally(body, size, logical)
    except Unreadable as error:
        return files.unreadable(name, error)


def _sum(total: Tally) -> str:
    kinds = ", ".join(
        f"{count} {dtype}" for dtype, count in sorted(total.by_dtype.items(), key=lambda i: -i[1])
    )
    return f"{total.tensors} tensors, {total.total} parameters: {kinds}"


_SCALE = re.compile(
    r"(?:^|[._])(?:scale|scales|scale_inv|scale_2|global_scale|zero_point|qzeros|g_idx|weight_shape|absmax"
    r"|nested_absmax|quant_map|nested_quant_map|SCB|weight_format)$|\.quant_state\."
)
_CONTAINERS = {"U8", "I8", "I16", "I32", "U32", "I64"}


def logical_for(quantization: Quantization | None) -> Logical:
    """How many parameters a stored tensor stands for, in a checkpoint quantized like this.

    Packed integers hold several; scales and zero points hold none. Where schemes of several widths would fit
    a container, the stored count is taken.
    """
    if quantization is None:
        return lambda _name, _dtype, elements: elements
    widths = {scheme.weight_bits for scheme in quantization.schemes if scheme.weight_bits}

    def logical(name: str, dtype: str, elements: int) -> int:
        if _SCALE.search(name):
            return 0
        narrower = [bits for bits in widths if 0 < bits < BITS[dtype]] if dtype in _CONTAINERS else []
        return elements * BITS[dtype] // narrower[0] if len(narrower) == 1 else elements

    return logical
