"""GGUF files against a build, and builds that serve nothing else against checkpoints of the Hub.

A GGUF file holds its config, its tokenizer and its tensor types itself, so what is asked of a Hub checkpoint in
many checks is asked of its header here. A build that serves GGUF files alone brings a converter, which decides
what becomes of checkpoints.
"""

from __future__ import annotations

from difflib import get_close_matches

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.names import some
from canserve.checks.reader import NotApplicable, Reader
from canserve.rules.table import covers
from canserve.subjects.build import Converted, Converter, gguf_only
from canserve.subjects.model import Quantization
from canserve.verdict import No, Unknown, Verdict, Yes

PROJECTOR = "clip"
"""``general.architecture`` of a multimodal projector."""
NUMBERED = "type "
"""How a tensor type is shown that has no name known here: ``type 99``."""
ORIGINAL = "serve the original safetensors instead of a GGUF file"
ANOTHER_FILE = "use a newer build, or a GGUF file made for this one"


def architecture_known(reader: Reader, case: Case, architecture: str) -> Verdict:
    """Whether the build's own table has a GGUF file's architecture."""
    own = reader.read(case.build.gguf_architectures) or {}
    if not own:
        return No("the build knows no GGUF architecture at all", _instead(case))
    if architecture in own:
        reader.cite((look(case, str(own[architecture]), f"GGUF architecture {architecture}"),))
        return Yes(f"GGUF architecture {architecture} is known")
    if architecture == PROJECTOR:
        return No(
            "the file is a multimodal projector, which is no model by itself",
            "name the model's own GGUF file; the projector goes beside it",
        )
    because = f"GGUF architecture {architecture} is not among the {len(own)} known ones"
    if near := get_close_matches(architecture, own, n=3, cutoff=0.7):
        because += f"; nearest: {', '.join(near)}"
    return No(because, _first_with(reader, case, architecture) or _instead(case))


def _instead(case: Case) -> str:
    return ANOTHER_FILE if gguf_only(case.build) else ORIGINAL


def _first_with(reader: Reader, case: Case, architecture: str) -> str | None:
    engine = case.build.identity.engine
    first = case.history.first_listing(engine, "gguf_architectures", architecture)
    reader.cite((case.history.evidence(engine),))
    if first is None or covers(f">={first}", reader.try_read(case.build.identity.version) or "") is not False:
        return None
    return f"use {engine}>={first}, the first release that lists it"


def convertible(reader: Reader, case: Case) -> Verdict:
    """Whether the build's own converter makes a GGUF file of a checkpoint that the build serves then."""
    names = reader.read(case.model.architectures)
    if not names:
        return Unknown(
            "the config names no architecture, by which the converter goes",
            "write the class into config.json as `architectures`",
        )
    converter = reader.read(case.build.converter)
    if converter is None:
        return Unknown(
            "the build serves GGUF files only, and brings no converter that makes them",
            "name a GGUF file of the model",
        )
    row = converted_row(converter, names)
    if row is None:
        return _unconverted(reader, case, converter, names[0])
    reader.cite((look(case, str(row.at), f"{row.architecture} -> {row.name}"),))
    needs = ("the model converted to GGUF",)
    if row.gguf is None:
        return Yes(f"{row.architecture} is converted to GGUF by {row.name}", needs)
    verdict = architecture_known(reader, case, row.gguf)
    if isinstance(verdict, Yes):
        return Yes(f"{row.architecture} becomes GGUF architecture {row.gguf}, which is known", needs)
    return verdict


def converted_row(converter: Converter, names: tuple[str, ...]) -> Converted | None:
    """The first of these classes that the converter makes a GGUF file of."""
    return next((converter.classes[name] for name in names if name in converter.classes), None)


def _unconverted(reader: Reader, case: Case, converter: Converter, name: str) -> Verdict:
    because = (
        f"the build serves GGUF files only, and {name} is not among the {len(converter.classes)} classes that "
        "its converter makes them of"
    )
    if converter.unnamed:
        scripts = ", ".join(str(at.file.rpartition("/")[2]) for at in converter.unnamed)
        reader.cite(look(case, str(at), "does not look at the class") for at in converter.unnamed)
        return Unknown(
            f"{because}; but {scripts} takes checkpoints by their tensors", "try to convert it once"
        )
    if near := get_close_matches(name, converter.classes, n=3, cutoff=0.7):
        because += f"; nearest: {', '.join(near)}"
    engine = case.build.identity.engine
    first = case.history.first_listing(engine, "converted", name)
    if first is None:
        return No(because, "use another engine, or a build whose converter knows the class")
    reader.cite((case.history.evidence(engine),))
    return No(because, f"use {engine}>={first}, the first release whose converter knows it")


def unconverted_weights(reader: Reader, case: Case) -> No:
    """A checkpoint of the Hub for a build that reads GGUF alone: what makes the one of the other."""
    form = reader.try_read(case.model.weight_format) or "a checkpoint of the Hub"
    served: tuple[str, ...] = reader.read(case.build.load_formats)
    because = f"the build serves {' and '.join(served).upper()} files only, and the model is {form}"
    converter = reader.try_read(case.build.converter)
    row = converted_row(converter, reader.try_read(case.model.architectures) or ()) if converter else None
    if converter is None or row is None:
        return No(because, "name a GGUF file of the model, or use another engine")
    reader.cite((look(case, str(row.at), f"{row.architecture} -> {row.name}"),))
    started = f" ({converter.script.file})" if converter.script else ""
    also = " and its projector (--mmproj)" if row.architecture in converter.projectors else ""
    return No(because, f"convert the model{also}: this build's converter knows {row.architecture}{started}")


def vocabulary_known(reader: Reader, case: Case) -> Verdict:
    """Whether the build, which serves GGUF alone, knows the tokenizer inside a GGUF file."""
    if reader.read(case.model.gguf_architecture) is None:
        raise NotApplicable("the build serves GGUF files, into which its converter writes the tokenizer")
    if reader.try_read(case.build.gguf_architectures) == {}:
        raise NotApplicable("the build reads no GGUF files: see architecture-registered")
    inside = "the tokenizer is inside the GGUF file"
    known = reader.read(case.build.gguf_vocabularies)
    metadata = reader.read(case.model.gguf_metadata) or {}
    model, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if not isinstance(model, str) or model not in known.models:
        return No(
            f"the build knows no vocabulary of kind {model}; it has {some(tuple(known.models))}", ANOTHER_FILE
        )
    reader.cite((look(case, str(known.models[model]), f"tokenizer.ggml.model {model}"),))
    if model not in known.split_models or known.splits is None:
        return Yes(f"{inside}: {model}")
    if not isinstance(split, str):
        return Yes(f"{inside}: {model}; it does not say how text is split, so the build's default is taken")
    if split in known.splits:
        reader.cite((look(case, str(known.splits[split]), f"tokenizer.ggml.pre {split}"),))
        return Yes(f"{inside}: {model}, text split as {split}")
    because = f"the build cannot split text as {split}, which the file's tokenizer asks for"
    if near := get_close_matches(split, known.splits, n=3, cutoff=0.7):
        because += f"; nearest: {', '.join(near)}"
    return No(because, ANOTHER_FILE)


def projectors_known(reader: Reader, case: Case) -> Verdict:
    """Whether the build knows the multimodal projector that lies beside a GGUF model."""
    if not gguf_only(case.build):
        raise NotApplicable("a GGUF model brings its projector as a file of its own")
    kinds = reader.read(case.model.gguf_projectors)
    if not kinds:
        raise NotApplicable("no multimodal projector lies beside the model")
    known = reader.read(case.build.gguf_projectors)
    absent = [kind for kind in kinds if kind not in known]
    if absent:
        because = f"the build knows no multimodal projector {', '.join(absent)}"
        if near := get_close_matches(absent[0], known, n=3, cutoff=0.7):
            because += f"; nearest: {', '.join(near)}"
        return No(because, "use a newer build, or serve the model without its projector")
    for kind in kinds:
        reader.cite((look(case, str(known[kind]), f"projector {kind}"),))
    return Yes(f"the build knows the multimodal projector beside the model: {', '.join(kinds)}")


def types_known(reader: Reader, case: Case) -> Verdict:
    """Whether the build knows every tensor type of a GGUF file."""
    if not gguf_only(case.build):
        raise NotApplicable("gguf: which tensor types the build's kernels take was not read")
    known = reader.read(case.build.gguf_types)
    numbers = frozenset(known.values())
    stored = reader.read(case.model.parameters).by_dtype
    absent = [name for name in stored if name not in known and not _numbered(name, numbers)]
    if not absent:
        return Yes(f"the build knows every tensor type in the file: {', '.join(stored)}")
    shown = ", ".join(absent)
    return No(f"the build knows no tensor type {shown}, which the file has", ANOTHER_FILE)


def _numbered(name: str, numbers: frozenset[int]) -> bool:
    number = name.removeprefix(NUMBERED)
    return name.startswith(NUMBERED) and number.isdecimal() and int(number) in numbers


def quantization_convertible(reader: Reader, case: Case, quantization: Quantization) -> Verdict:
    """Whether the converter takes the weights of a quantized checkpoint of the Hub apart."""
    converter = reader.read(case.build.converter)
    method = quantization.method
    if converter is not None and converter.quantizations and method in converter.quantizations:
        at = converter.quantizations[method]
        reader.cite((look(case, str(at), f"takes {method} apart"),))
        return Yes(f"the build's converter takes {method} weights apart", ("the model converted to GGUF",))
    return Unknown(
        f"whether the build's converter takes {method} weights apart is not written where it was looked for",
        "convert it once, or start from a checkpoint that is not quantized",
    )
