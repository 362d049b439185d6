"""processor-files-present: what turns images, audio or video into tensors.

AutoProcessor and AutoImageProcessor read ``processor_config.json`` or ``preprocessor_config.json``
(``transformers/models/auto/processing_auto.py``, ``image_processing_auto.py``) and fail without both.
"""

from __future__ import annotations

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.gates import look, resolved
from canserve.checks.gguf import projectors_known
from canserve.checks.model_files import REMOTE_ASK, needs_files, not_described
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.subjects.build import gguf_only
from canserve.verdict import No, Unknown, Verdict, Yes

SENSES = ("vision_config", "audio_config", "video_config")
"""Configs inside the config that only a multimodal model has."""


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``processor-files-present``."""
    needs_files(case)
    if reader.try_read(case.model.gguf_architecture) is not None:
        return projectors_known(reader, case)
    if gguf_only(case.build):
        raise NotApplicable("the build serves GGUF files, and its converter makes the projector")
    if not _multimodal(reader, case):
        raise NotApplicable("the model takes text only")
    processor = reader.read(case.model.processor)
    if processor is not None and (names := [name for name in processor.files if name.endswith(".json")]):
        return Yes(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} there")
    not_described(reader, case)
    if reader.try_read(case.model.config_format) == "mistral":
        return Yes("params.json itself describes the encoder")
    if reader.read(case.model.auto_map):
        if case.wish.trust_remote_code:
            return Yes(
                "no processor files are there; the repository's own code, which is trusted, may do without"
            )
        return Unknown("no processor files are there, but the model brings code of its own", REMOTE_ASK)
    return No(
        "the model is multimodal, but has neither processor_config.json nor preprocessor_config.json",
        "copy processor_config.json and preprocessor_config.json from the original repository",
    )


def _multimodal(reader: Reader, case: Case) -> bool:
    """What the build's class says; where it says nothing, whether the config has a vision or audio part."""
    way, _ = route(reader, case)
    if way is not None and way.way in ("native", "converted"):
        found = resolved(reader, case, way.served_by)
        says = None if found is None else found.interfaces.get("supports_multimodal")
        if found is not None and says is not None:
            reader.cite((look(case, str(found.at), f"supports_multimodal: {says}"),))
            return bool(says)
    nested = reader.read(case.model.nested)
    return any(part.key.rsplit(".", 1)[-1] in SENSES for part in nested)


CHECK = Check(
    "processor-files-present",
    "A multimodal model has the files from which its processor is made.",
    run,
)
