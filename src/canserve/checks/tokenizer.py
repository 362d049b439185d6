"""tokenizer-loadable: files that hold a vocabulary, and a class that can read them.

AutoTokenizer takes the class that ``tokenizer_config.json`` names, with or without ``Fast``; releases that
have ``TokenizersBackend`` use it for every name they do not know, as long as there is a ``tokenizer.json``.
Engines' own config classes do not help here: the tokenizer is transformers' alone.
"""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.gates import Passing, candidates, cite_releases, condition, spans
from canserve.checks.gguf import vocabulary_known
from canserve.checks.model_files import REMOTE_ASK, needs_files, not_described
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given
from canserve.subjects.build import TransformersTable, gguf_only
from canserve.subjects.model import Tokenizer
from canserve.verdict import No, Unknown, Verdict, Yes

CATCH_ALL = "TokenizersBackend"
"""The class that reads any ``tokenizer.json``, and what checkpoints saved by newer releases name."""

ANOTHER = ("--tokenizer", "--tokenizer-path", "--skip-tokenizer-init")
COPY = "copy the tokenizer files from the original repository, or name another one: -- --tokenizer MODEL"


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``tokenizer-loadable``."""
    if (flag := given(case.wish, *ANOTHER)) is not None:
        raise NotApplicable(f"{flag}: the model's own tokenizer is not used")
    if gguf_only(case.build):
        return vocabulary_known(reader, case)
    needs_files(case)
    tokenizer = reader.read(case.model.tokenizer)
    if not tokenizer.files:
        not_described(reader, case)
    if tokenizer.kind == "gguf":
        return Yes("the tokenizer is inside the GGUF file")
    if tokenizer.kind == "mistral":
        return _mistral(reader, case)
    if tokenizer.kind is None and "AutoTokenizer" not in tokenizer.auto_map:
        return _no_vocabulary(tokenizer)
    passing = _gate(reader, case, tokenizer)
    if tokenizer.kind is not None and passing.passed:
        name = tokenizer.class_name or "its model type's tokenizer"
        found = "" if passing.every else f" of transformers {spans(passing.passed, passing.candidates)}"
        return Yes(f"{name}{found} reads {_main_file(tokenizer)}", condition(passing))
    return _not_offered(reader, case, tokenizer, passing)


def _gate(reader: Reader, case: Case, tokenizer: Tokenizer) -> Passing:
    """The transformers releases that have a class for this tokenizer."""
    versions, table = candidates(reader, case)
    cite_releases(reader, table, versions)
    model_type = reader.try_read(case.model.model_type)
    passed, unsure = set(), set()
    for version in versions:
        names = table.tokenizer_classes(version) if version in table.versions else None
        if names is None:
            unsure.add(version)
        elif _offers(table, version, tokenizer, model_type):
            passed.add(version)
    return Passing(versions, frozenset(passed), frozenset(unsure))


def _offers(table: TransformersTable, version: str, tokenizer: Tokenizer, model_type: str | None) -> bool:
    names = table.tokenizer_classes(version) or frozenset()
    if CATCH_ALL in names and tokenizer.kind == "fast":
        return True
    if tokenizer.class_name is None:
        return model_type is not None and model_type in table.config_types(version)
    name = tokenizer.class_name.removesuffix("Fast")
    return bool({tokenizer.class_name, name, f"{name}Fast"} & names)


def _not_offered(reader: Reader, case: Case, tokenizer: Tokenizer, passing: Passing) -> Verdict:
    name = tokenizer.class_name
    if (remote := tokenizer.auto_map.get("AutoTokenizer")) is not None:
        if case.wish.trust_remote_code:
            return Yes(f"{remote}, the repository's own tokenizer code, is trusted, and was not judged")
        return Unknown(f"the tokenizer needs the repository's own code ({remote})", REMOTE_ASK)
    tried = spans(passing.candidates, passing.candidates)
    if passing.unsure:
        return Unknown(
            f"which tokenizer classes transformers {tried} has is not recorded",
            "judge an environment in which transformers is installed, or update the release index",
        )
    if name is None:
        return Unknown(
            f"tokenizer_config.json names no class, and transformers {tried} has none for this model type",
            "write `tokenizer_class` into tokenizer_config.json",
        )
    _, table = candidates(reader, case)
    having = next((v for v in table.versions if _offers(table, v, tokenizer, None)), None)
    newer = f"; transformers {having} is the first to have it" if having else ""
    return No(
        f"transformers {tried} has no tokenizer class {name}",
        f"write the model family's own class into tokenizer_config.json{newer}",
    )


def _no_vocabulary(tokenizer: Tokenizer) -> Verdict:
    if not tokenizer.files:
        return No("the model has no tokenizer files", COPY)
    shown = ", ".join(tokenizer.files[:4])
    return Unknown(f"no vocabulary was recognized among its tokenizer files ({shown})", COPY)


def _mistral(reader: Reader, case: Case) -> Verdict:
    """Only ``tekken.json`` or its like: the engine must read Mistral's own format."""
    if "mistral" in reader.read(case.build.load_formats):
        flag = "--tokenizer-mode mistral"
        needs = () if given(case.wish, "--tokenizer-mode") else (flag,)
        return Yes("the engine reads Mistral's own tokenizer format", needs)
    return No(
        "the model has its tokenizer in Mistral's own format only, which this build does not read",
        "use a build that does, or a checkpoint with tokenizer.json",
    )


def _main_file(tokenizer: Tokenizer) -> str:
    return "tokenizer.json" if tokenizer.kind == "fast" else f"its {tokenizer.kind} files"


CHECK = Check(
    "tokenizer-loadable",
    "The tokenizer files are there, and a transformers release that the build may run with has their class.",
    run,
)
