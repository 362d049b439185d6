"""A model in GGUF files: which are one quantization, which are projectors, and what their headers say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.model import gguf
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.files import Files
from canserve.probes.model.schemes import scheme
from canserve.subjects.model import Parameters, Quantization
from canserve.subjects.tensor import Tensor
from canserve.trees.names import printable
from canserve.trees.tree import TreeError

SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_ENDING = re.compile(r"\.gguf$", re.IGNORECASE)
_WIDTH = re.compile(r"(?:I?Q|TQ|MXFP|NVFP)(\d)")
PROJECTOR = ("clip.projector_type", "clip.vision.projector_type", "clip.audio.projector_type")
_PLAIN = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What the GGUF files of a model say."""

    header: Fact[gguf.Header]
    """Of the first file of the chosen quantization, which holds the metadata."""
    name: str
    parameters: Fact[Parameters]
    tensors: Fact[tuple[Tensor, ...]]
    quantization: Fact[Quantization | None]
    projectors: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    """Which files there are, and what the chosen one is."""


def variants(names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Models by name without number and ending; the parts of a split one together, in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        match = SHARD.fullmatch(name)
        found.setdefault(match["stem"] if match else _ENDING.sub("", name), []).append(name)
    return {stem: tuple(parts) for stem, parts in found.items()}


def is_projector(name: str) -> bool:
    """Whether a file is named as a multimodal projector, which goes beside a model (``mmproj-F16.gguf``)."""
    return "mmproj" in name.rsplit("/", 1)[-1].lower()


def read_gguf(files: Files, wanted: str | None = None) -> Reading:
    """Read the GGUF files of a model.

    ``wanted`` is a file name, or a quantization such as ``Q4_K_M``. Without it, and with several of them
    there, what they share is read from the first and what differs is Missing, naming them.
    """
    names = [name for name in files.names if name.lower().endswith(".gguf") or name == wanted]
    projectors = tuple(sorted(name for name in names if is_projector(name)))
    asked = [wanted] if wanted in projectors else [name for name in names if not is_projector(name)]
    models = variants(asked or names)
    fitting = {stem: parts for stem, parts in models.items() if _fits(stem, parts, wanted)}
    if not fitting:
        listed = ", ".join(printable(stem) for stem in list(models)[:10])
        lost = files.unavailable(printable(wanted or "*.gguf"), "no such GGUF file", f"name one of: {listed}")
        return Reading(lost, "", lost, lost, lost, projectors, lost.evidence)
    parts = next(iter(fitting.values()))
    header = _header(files, parts[0])
    evidence = _evidence(files, parts[0], header, projectors)
    if len(fitting) > 1:
        several = _several(files, tuple(fitting))
        return Reading(
            header, parts[0], several, several, several, projectors, (*evidence, *several.evidence)
        )
    parameters, tensors = _content(files, header, parts)
    quantization = _quantization(files, parts[0], header)
    return Reading(header, parts[0], parameters, tensors, quantization, projectors, evidence)


def projector_kinds(files: Files, found: Reading) -> Fact[tuple[str, ...]]:
    """What the first projector beside the model says it is: one kind, or one for each sense."""
    beside = [name for name in found.projectors if name != found.name]
    if not beside:
        return Known((), (files.seen("file list", "no projector beside the model"),))
    header = _header(files, beside[0])
    if isinstance(header, Missing):
        return header
    said = tuple(dict.fromkeys(kind for key in PROJECTOR if (kind := header.value.text(key)) is not None))
    shown = ", ".join(printable(kind) for kind in said) or "nothing of its kind"
    return Known(said, (files.seen(beside[0], f"projector: {shown}"),))


def _fits(stem: str, parts: tuple[str, ...], wanted: str | None) -> bool:
    if wanted is None or wanted in parts:
        return True
    return re.search(rf"(?:^|[-_./]){re.escape(wanted)}(?:$|[-_./])", stem, re.IGNORECASE) is not None


def _several(files: Files, stems: tuple[str, ...]) -> Missing:
    shown = ", ".join(printable(stem) for stem in stems[:20])
    evidence = (files.seen("file list", f"several GGUF models: {shown}"),)
    why = f"{len(stems)} GGUF models are there: {shown}"
    return Missing(Cause.UNREACHED, why, evidence, f"name one of its files: {printable(stems[0])}.gguf")


def _header(files: Files, name: str) -> Fact[gguf.Header]:
    def read(start: int, end: int) -> bytes:
        piece = files.piece(name, start, end)
        if isinstance(piece, Missing):
            raise TreeError(piece)
        return piece

    try:
        found = gguf.header(read, files.size(name))
    except TreeError as error:
        return error.missing
    except Unreadable as error:
        return files.unreadable(name, error)
    saw = f"GGUF {found.version}, {found.text('general.architecture') or 'no architecture'}"
    return Known(found, (files.seen(name, f"{saw}, {found.tensors} tensors"),))


def _evidence(
    files: Files, name: str, header: Fact[gguf.Header], projectors: tuple[str, ...]
) -> tuple[Evidence, ...]:
    if isinstance(header, Missing):
        return header.evidence
    kind = header.value.text("general.type")
    notes: list[str] = []
    if kind is not None and kind != "model":
        notes = [f"general.type is {printable(kind)}: not a model by itself"]
    if header.value.text("general.architecture") == "clip":
        notes = ["a multimodal projector (mmproj), which goes beside a model"]
    notes += [
        f"projector beside the model: {printable(projector)}" for projector in projectors if projector != name
    ]
    return (*header.evidence, *(files.seen(name, note) for note in notes))


def _content(
    files: Files, first: Fact[gguf.Header], parts: tuple[str, ...]
) -> tuple[Fact[Parameters], Fact[tuple[Tensor, ...]]]:
    """Parameters and tensors of all parts."""
    if isinstance(first, Missing):
        return first, first
    promised = first.value.number("split.count") or 1
    if promised != len(parts):
        why = f"is split into {promised} files, {len(parts)} of them are there"
        lost = files.unavailable(parts[0], why, "fetch the missing files")
        return lost, lost
    elements: Counter[str] = Counter()
    listed: list[Tensor] | None = []
    size = tensors = 0
    for name in parts:
        header = first if name == parts[0] else _header(files, name)
        if isinstance(header, Missing):
            return header, header
        elements.update(header.value.elements)
        size += header.value.bytes
        tensors += header.value.tensors
        listed = None if listed is None or header.value.listed is None else [*listed, *header.value.listed]
    total = sum(elements.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in elements.most_common())
    seen = files.seen(
        f"headers of {len(parts)} files: {parts[0]}", f"{tensors} tensors, {total} parameters: {kinds}"
    )
    parameters = Known(Parameters(dict(elements), total, size, tensors, len(parts)), (seen,))
    if listed is None:
        return parameters, files.unreadable(
            parts[0], Unreadable("holds tensors of a type that is not known here")
        )
    return parameters, Known(tuple(listed), (seen,))


def _quantization(files: Files, name: str, header: Fact[gguf.Header]) -> Fact[Quantization | None]:
    if isinstance(header, Missing):
        return header
    number = header.value.number("general.file_type")
    kinds = {kind: count for kind, count in header.value.elements.items() if kind not in _PLAIN}
    most = max(header.value.elements, key=header.value.elements.__getitem__, default="no tensors")
    declared = gguf.FILE_TYPES.get(number, most) if number is not None else most
    schemes = tuple(
        scheme(int(width[1]) if (width := _WIDTH.match(kind)) else None, None, "group", format=kind)
        for kind in kinds
    )
    raw: Mapping[str, Any] = {"general.file_type": number, "tensor_types": dict(header.value.elements)}
    quantization = Quantization("gguf", declared, f"{name}: general.file_type", schemes, (), None, raw)
    return Known(quantization, (files.seen(name, f"general.file_type: {number}, mostly {most}"),))
