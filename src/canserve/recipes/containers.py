"""Options of ``docker run`` and its like: what the container sees, and what follows the image."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from canserve.recipes.draft import Draft
from canserve.recipes.further import wanted
from canserve.recipes.variable_texts import docker_variables
from canserve.rules.recipes import is_secret
from canserve.subjects.recipe import HIDDEN, Further, Said, Shared

MACHINE = "canserve.machine"
"""The label that ``up`` and ``export`` give to what they start: the machine that it belongs on."""
_LABEL = ("-l", "--label")
_ENV = ("-e", "--env")
_VOLUME = ("-v", "--volume")
_NAMES = ("--name",)
_READONLY = ("ro", "readonly")
_ASIDE = frozenset({
    "--gpus", "--ipc", "--shm-size", "--network", "--net", "-p", "--publish", "--restart", "--runtime", "--ulimit",
    "--device", "--cap-add", "--security-opt", "--pull", "--user", "-u", "--workdir", "-w", "--log-driver", "--log-opt",
    "--hostname", "-h", "--label", "-l", "--memory", "-m", "--cpus", "--pid", "--platform", "--add-host", "--expose",
    "--stop-timeout", "--group-add", "--userns", "--uts", "--cpuset-cpus", "--memory-swap", "--tmpfs", "--hooks-dir",
})  # fmt: skip
"""Options of which no check asks here: machines are looked at instead."""


@dataclass(slots=True)
class Contained:
    """A container's command line taken apart."""

    image: Said | None = None
    name: str = ""
    machine: str | None = None
    entrypoint: tuple[Said, ...] | None = None
    environment: dict[str, Said] = field(default_factory=dict)
    filed: dict[str, Said] = field(default_factory=dict)
    """Variables of files that the command line names."""
    mounts: list[Shared] = field(default_factory=list)
    words: tuple[Said, ...] = ()


def contained(words: Sequence[Said], switches: Collection[str], draft: Draft) -> Contained:
    """The words after ``run``."""
    found, rest = _options(words, switches, draft)
    if rest:
        found.image = rest[0]
        draft.word("image", rest[0].value, rest[0].line, "used")
    found.words = tuple(rest[1:])
    return found


def entered(words: Sequence[Said], switches: Collection[str], draft: Draft) -> Contained:
    """The words after ``exec``."""
    found, rest = _options(words, switches, draft)
    if rest:
        found.name = rest[0].value
        draft.word("container", rest[0].value, rest[0].line, "used")
    found.words = tuple(rest[1:])
    return found


def _options(
    words: Sequence[Said], switches: Collection[str], draft: Draft
) -> tuple[Contained, Sequence[Said]]:
    found = Contained()
    at = 0
    while at < len(words):
        word = words[at]
        if not word.value.startswith("-") or word.value == "-":
            break
        at += 1
        if word.value == "--":
            break
        name, value = _apart(word, switches)
        glued = value is None and not name.startswith("--") and len(name) > 2
        if value is None and not glued and name not in switches and at < len(words):
            value = words[at]
            at += 1
        _option(found, name, value, word, draft)
    found.environment = {**found.filed, **found.environment}
    return found, words[at:]


def _apart(word: Said, switches: Collection[str]) -> tuple[str, Said | None]:
    """``--name=value``, ``-eA=b``, ``-itd``: the option, and a value that is glued to it."""
    text = word.value
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        return name, Said(value, word.line) if equals else None
    if all(f"-{sign}" in switches for sign in text[1:]):
        return text, None
    if len(text) > 2:
        return text[:2], Said(text[2:].removeprefix("="), word.line)
    return text, None


def _option(found: Contained, name: str, value: Said | None, word: Said, draft: Draft) -> None:
    text = value.value if value else ""
    line = value.line if value else word.line
    if name in _ENV and value is not None:
        key, equals, content = text.partition("=")
        if not equals:
            if key in draft.scope.variables:
                content = draft.scope.variables[key]
            else:
                content = f"${key}"
                draft.leave(content, line, "taken from who starts it")
        found.environment[key] = draft.variable(key, content, line)
        draft.word(f"{name} {key}", HIDDEN if is_secret(key) else content, line, "used")
        return
    if name in _VOLUME and value is not None:
        found.mounts += [mount] if (mount := mounted(text, line)) else []
    elif name == "--mount" and value is not None:
        found.mounts += [mount] if (mount := mounted_by_keys(text, line)) else []
    elif name in _LABEL and text.startswith(f"{MACHINE}="):
        found.machine = text.partition("=")[2]
    elif name in _NAMES:
        found.name = text
    elif name == "--entrypoint" and value is not None:
        found.entrypoint = (value,) if text else ()
    elif name == "--env-file":
        found.filed |= _filed(wanted(text, line, name), draft)
    else:
        known = value is None or name in _ASIDE
        draft.word(name, text, word.line, "aside" if known else "unknown")
        return
    draft.word(name, text, word.line, "used")


def _filed(file: Further, draft: Draft) -> dict[str, Said]:
    """Variables of a file; those that the command line sets itself count more, wherever they stand."""
    text = draft.files.text(file)
    filed = {}
    for one in docker_variables(text or "", draft.scope, file.line):
        filed[one.name] = replace(
            draft.variable(one.name, one.value, file.line), at=f"{file.path}:{one.line}"
        )
        draft.key(f"{file.path}: {one.name}", filed[one.name].value, one.line, "used")
    return filed


def mounted(text: str, line: int) -> Shared | None:
    """``/there:/inside[:ro]``."""
    source, colon, rest = text.partition(":")
    if not colon:
        return None
    target, _, options = rest.partition(":")
    return Shared(source, target, any(each in _READONLY for each in options.split(",")), line)


def mounted_by_keys(text: str, line: int) -> Shared | None:
    """``type=bind,source=/there,target=/inside,readonly``."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    source, target = parts.get("source", parts.get("src", "")), _target(parts)
    return (
        Shared(source, target, any(each in parts for each in _READONLY), line) if source and target else None
    )


def _target(parts: Mapping[str, str]) -> str:
    return next((parts[name] for name in ("target", "dst", "destination") if name in parts), "")
