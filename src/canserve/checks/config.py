"""config-parsable, transformers-satisfied and remote-code-not-needed: the gates before the model class."""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from canserve.checks.architecture import Route, route
from canserve.checks.case import Case
from canserve.checks.gates import (
    Passing,
    candidates,
    condition,
    config_gate,
    import_gate,
    is_the_library,
    known_gate,
    look,
    resolved,
    spans,
)
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Known, Missing
from canserve.subjects.build import Site
from canserve.verdict import No, Unknown, Verdict, Yes


def own_config(reader: Reader, case: Case, model_type: str) -> str | None:
    """How the engine itself parses this model type, if it does: one line for the answer."""
    build = case.build
    shims = reader.read(build.config_shims)
    if shim := shims.get(model_type):
        reader.cite((look(case, str(shim.at), f"{model_type} -> {shim.name}"),))
        return f"the engine's own {shim.name} parses {model_type}, whatever transformers is installed"
    fixups = reader.try_read(build.config_fixups) or {}
    if at := fixups.get(model_type):
        reader.cite((look(case, str(at), f"rewrites configs of type {model_type}"),))
        return f"the engine rewrites configs of type {model_type} before transformers reads them"
    return None


def effective_type(reader: Reader, case: Case) -> str | None:
    """The config's model type, or the one the engine puts in by architecture."""
    model_type = reader.read(case.model.model_type)
    if isinstance(case.build.architecture_types, Missing):
        return model_type
    by_architecture = reader.read(case.build.architecture_types)
    for name in reader.read(case.model.architectures):
        if (named := by_architecture.get(name)) is not None:
            reader.cite((look(case, "architecture -> model type", f"{name} -> {named}"),))
            return named
    return model_type


def config_parsable(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``config-parsable``."""
    if reader.try_read(case.model.gguf_architecture) is not None:
        raise NotApplicable("a GGUF file has no config.json; its header is judged by architecture-registered")
    if reader.try_read(case.model.config_format) == "mistral":
        return _mistral(reader, case)
    model_type = effective_type(reader, case)
    auto_map = reader.read(case.model.auto_map)
    if model_type is None:
        if "AutoConfig" in auto_map:
            return _remote(reader, case, "the config names no model type")
        return Unknown(
            "the config names no model_type: transformers then guesses from the folder's name",
            "write `model_type` into config.json",
        )
    if because := own_config(reader, case, model_type):
        return Yes(because)
    passing = config_gate(reader, case, model_type)
    if passing.every:
        return Yes(f"every transformers the build may run with parses {model_type} ({_tried(passing)})")
    if passing.passed:
        found = spans(passing.passed, passing.candidates)
        return Yes(f"transformers {found} parse {model_type}; the others allowed do not", condition(passing))
    if "AutoConfig" in auto_map:
        return _remote(
            reader, case, f"neither the engine nor transformers {_tried(passing)} knows {model_type}"
        )
    if passing.unsure:
        return Unknown(
            f"whether transformers {_tried(passing)} parses {model_type} is not recorded",
            "judge an environment in which transformers is installed, or update the release index",
        )
    return _unknown_type(reader, case, model_type, passing)


def _unknown_type(reader: Reader, case: Case, model_type: str, passing: Passing) -> Verdict:
    if (at := reader.try_read(case.build.plain_config)) is not None:
        reader.cite((look(case, str(at), "transformers' plain config class"),))
        return Unknown(
            f"neither the engine nor transformers {_tried(passing)} knows {model_type}: the engine takes "
            "transformers' plain config class, which has no defaults",
            "start it once: whether all that the class needs stands in config.json decides",
        )
    _, table = candidates(reader, case)
    because = f"model type {model_type} is known neither to the engine nor to transformers {_tried(passing)}"
    having = [v for v in table.versions if model_type in table.config_types(v)]
    engine = case.build.identity.engine
    first = case.history.first_parsing(engine, model_type)
    reader.cite((case.history.evidence(engine),))
    build = f"use {engine}>={first}, the first release that parses it" if first else ""
    if not having:
        return No(because, build or "use a build whose engine brings this config, or a checkpoint that does")
    reader.cite((table.evidence(having[0]),))
    newer = f"transformers {having[0]} is the first to know it"
    requirement = reader.try_read(case.build.transformers.requirement)
    if requirement and not is_the_library(case.build):
        newer += f" (the build asks for {requirement})"
    return No(because, f"{build}; {newer}" if build else newer)


def _mistral(reader: Reader, case: Case) -> Verdict:
    formats = reader.read(case.build.load_formats)
    if "mistral" in formats:
        return Yes("params.json is parsed by the engine's own reader of Mistral's format")
    return No(
        "the model has params.json but no config.json, and this build reads only the latter",
        "use a newer build, or a checkpoint in Hugging Face's format",
    )


def _tried(passing: Passing) -> str:
    count = len(passing.candidates)
    shown = spans(passing.candidates, passing.candidates)
    return shown if count < 3 else f"{passing.candidates[0]} to {passing.candidates[-1]}, {count} releases"


def _remote(reader: Reader, case: Case, why: str) -> Verdict:
    if case.wish.trust_remote_code:
        return Yes(f"{why}; the repository's own configuration code is trusted, and was not judged")
    if runs_code_anyway(reader, case):
        return Yes(f"{why}; the build runs the repository's own configuration code, which was not judged")
    return Unknown(
        f"{why}, but the model repository brings its own configuration code",
        "read that code, then judge again with -- --trust-remote-code",
    )


def gates(reader: Reader, case: Case) -> tuple[Route | None, Passing]:
    """The way through the build, and the transformers releases that open all gates of the model at once."""
    candidates(reader, case)  # where nothing is known of them, that is what to say
    way, passing = route(reader, case)
    return way, opened(reader, case, way, passing)


def opened(reader: Reader, case: Case, way: Route | None, passing: Passing | None) -> Passing:
    """The transformers releases that open all gates of a way at once; ``passing``: those of its fallback."""
    versions, _ = candidates(reader, case)
    together = Passing(versions, frozenset(versions))
    if way is not None and way.way == "fallback" and passing is not None:
        together = together.both(passing)
    if way is not None and way.way in ("native", "converted"):
        found = resolved(reader, case, way.served_by)
        if found is not None:
            together = together.both(import_gate(reader, case, found.imports))
    return together.both(_config(reader, case, versions)).both(known_gate(reader, case, versions))


def runs_code_anyway(reader: Reader, case: Case) -> bool:
    """Whether the build runs code of the model repository without being asked to."""
    at = reader.try_read(case.build.trusts_code)
    if at is not None:
        reader.cite((look(case, str(at), "trusts the repository's code"),))
    return at is not None


def transformers_satisfied(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``transformers-satisfied``: one release must open all gates at once."""
    _, together = gates(reader, case)
    versions = together.candidates
    if not together.passed:
        if together.unsure and (plain := _plain(reader, case)) is not None:
            return Unknown(
                f"no transformers knows the model type: what the engine makes of it ({plain}) decides",
                "start it once",
            )
        if together.unsure:
            return Unknown(
                f"of transformers {spans(together.unsure, versions)} not enough is recorded",
                "judge an environment in which transformers is installed, or update the release index",
            )
        return No(
            f"no transformers that the build may run with opens every gate: {together.reason}", _heal(case)
        )
    if (outside := _outside(reader, case)) is not None:
        return outside
    return Yes(f"transformers {spans(together.passed, versions)}", condition(together))


def _heal(case: Case) -> str:
    """What opens the gates: another transformers where one was named, else another build."""
    if is_the_library(case.build):
        return f"use a release of {case.build.identity.engine} that the other findings name, if they name one"
    if isinstance(case.build.transformers.installed, Known) and case.build.transformers.installed.value:
        return "install another transformers beside it (--with transformers==X judges one)"
    return "use a build that allows another transformers; the other findings say which gate stays shut"


def _config(reader: Reader, case: Case, versions: tuple[str, ...]) -> Passing:
    anyone = Passing(versions, frozenset(versions))
    if reader.try_read(case.model.gguf_architecture) is not None:
        return anyone
    model_type = effective_type(reader, case)
    if model_type is None or own_config(reader, case, model_type):
        return anyone
    passing = config_gate(reader, case, model_type)
    if not passing.passed and "AutoConfig" in reader.read(case.model.auto_map):
        return anyone
    if _plain(reader, case) is not None:
        return Passing(versions, frozenset(), frozenset(versions), passing.reason)
    return passing


def _plain(reader: Reader, case: Case) -> Site | None:
    """Where the engine takes transformers' plain config, if it has to; None: some transformers parses it."""
    model_type = effective_type(reader, case)
    if model_type is None or own_config(reader, case, model_type):
        return None
    return None if config_gate(reader, case, model_type).passed else reader.try_read(case.build.plain_config)


def _outside(reader: Reader, case: Case) -> Verdict | None:
    installed = reader.try_read(case.build.transformers.installed)
    requirement = reader.try_read(case.build.transformers.requirement)
    if not installed or not requirement:
        return None
    try:
        inside = SpecifierSet(requirement).contains(installed, prereleases=True)
    except InvalidSpecifier:
        return None
    if inside:
        return None
    return Unknown(
        f"every gate is open with transformers {installed}, but the build itself asks for {requirement}",
        "install a release the build asks for, or start it once: nobody promises this pair",
    )


def remote_code(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``remote-code-not-needed``."""
    auto_map = reader.read(case.model.auto_map)
    if not auto_map:
        return Yes("the model names no code of its own")
    needed = _needed(reader, case, auto_map.get("AutoConfig") is not None)
    if not needed:
        return Yes("the model brings code, but the build has its own for the config and the class")
    if case.wish.trust_remote_code:
        return Yes(f"{needed} needs the repository's code, which --trust-remote-code allows")
    if runs_code_anyway(reader, case):
        return Unknown(
            f"{needed} needs code from the model repository, which this build runs without asking",
            "read that code, then judge again with -- --trust-remote-code",
        )
    return Unknown(
        f"{needed} needs code from the model repository, which is never run or judged here",
        "read that code, then judge again with -- --trust-remote-code",
    )


def _needed(reader: Reader, case: Case, has_config: bool) -> str:
    """``the config`` or ``the model class`` when only the repository's code can provide it, else empty."""
    way, _ = route(reader, case)
    if way is not None and way.way == "remote":
        return "the model class"
    model_type = effective_type(reader, case)
    if not has_config or (model_type is not None and own_config(reader, case, model_type)):
        return ""
    if model_type is not None and config_gate(reader, case, model_type).passed:
        return ""
    return "the config"


PARSABLE = Check(
    "config-parsable",
    "The engine's own config classes, or those of a transformers it would run with, parse the model's type.",
    config_parsable,
    of_checkpoints=True,
)
SATISFIED = Check(
    "transformers-satisfied",
    "One and the same transformers release meets the build's requirement and opens every gate of the model.",
    transformers_satisfied,
    of_checkpoints=True,
)
REMOTE = Check(
    "remote-code-not-needed",
    "Neither the config nor the model class needs code from the model repository.",
    remote_code,
    of_checkpoints=True,
)
