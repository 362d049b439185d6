"""weights-format-loadable: the files that hold the weights, and a loader of the build that takes them."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.gguf import unconverted_weights
from canserve.checks.model_files import needs_files, not_described
from canserve.checks.reader import Check, Reader
from canserve.subjects.build import gguf_only
from canserve.verdict import No, Unknown, Verdict, Yes

AUTO = "auto"
NO_WEIGHTS = frozenset({"dummy"})
"""Loaders that read no weights at all."""
FORMS = frozenset({"safetensors", "pt", "gguf", "mistral"})
"""Loaders named after the one form they take; any other takes several, or a form of its own."""
CONVERT = {
    "pt": "convert the weights to safetensors, or name a repository that has them",
    "gguf": "serve the original safetensors, or use a build that reads GGUF",
    "mistral": "use a build that reads Mistral's own format, or a checkpoint in Hugging Face's format",
    "safetensors": "use a newer build: this one reads no safetensors",
}


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``weights-format-loadable``."""
    asked = case.wish.load_format or AUTO
    formats = reader.read(case.build.load_formats)
    if asked != AUTO and asked not in formats:
        return No(f"the build has no --load-format {asked}", f"use one it has: {', '.join(formats)}")
    if asked in NO_WEIGHTS:
        return Yes(f"--load-format {asked} reads no weights")
    if gguf_only(case.build) and reader.read(case.model.gguf_architecture) is None:
        return unconverted_weights(reader, case)
    needs_files(case)
    not_described(reader, case)
    form = reader.read(case.model.weight_format)
    if form is None:
        return No("the model has no weight files", "name the repository or folder that holds its weights")
    if form not in formats and gguf_only(case.build):
        return No(f"the build reads {', '.join(formats)} files only, not {form}", "use a newer build")
    if form not in formats:
        return No(f"the build has no loader for {form} weights", CONVERT[form])
    if asked in FORMS and asked != form:
        return No(f"the weights are {form}, but --load-format {asked} was given", f"use --load-format {form}")
    if form == "gguf" and (verdict := _gguf_method(reader, case)) is not None:
        return verdict
    return _whole(reader, case, form, asked)


def _gguf_method(reader: Reader, case: Case) -> Verdict | None:
    """GGUF is a loader and a quantization method; builds have dropped the latter."""
    if "gguf" in reader.read(case.build.quantization):
        return None
    return No("the build reads GGUF files but no longer has the gguf quantization method", CONVERT["gguf"])


def _whole(reader: Reader, case: Case, form: str, asked: str) -> Verdict:
    """The files are all there and their headers make sense; a header that does not is a missing fact."""
    if form == "pt":
        return Yes("pt: PyTorch files, whose tensors cannot be counted without running them")
    parameters = reader.read(case.model.parameters)
    if parameters.tensors == 0:
        return Unknown(
            "the weight files hold no tensors", "name the repository or folder that holds its weights"
        )
    through = f" through --load-format {asked}" if asked != AUTO else ""
    files = "1 file" if parameters.files == 1 else f"{parameters.files} files"
    return Yes(f"{form}: {parameters.tensors} tensors in {files}{through}", _mistral_flags(form, asked))


def _mistral_flags(form: str, asked: str) -> tuple[str, ...]:
    return ("--load-format mistral --config-format mistral",) if form == "mistral" and asked == AUTO else ()


CHECK = Check(
    "weights-format-loadable",
    "The weight files are complete, and the build has a loader for their format.",
    run,
)
