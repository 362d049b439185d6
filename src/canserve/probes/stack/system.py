"""The system in an image, how the image starts, and what its variables bind."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.stack.constants import LIBC, Asked
from canserve.probes.stack.ground import LIBRARIES, Ground
from canserve.rules.stack import bound
from canserve.subjects.stack import Started
from canserve.trees.names import below, printable, unreadable
from canserve.trees.secret import hidden, hidden_words

_NAME = re.compile(r"""^PRETTY_NAME=["']?([^"'\n]{1,200})["']?\s*$""", re.MULTILINE)
_LIBC6 = "Package: libc6\n"
_VERSION = re.compile(r"^Version: (?:\d+:)?(\d{1,2}\.\d{1,3})", re.MULTILINE)
_OLD = re.compile(r"libc-(\d{1,2}\.\d{1,3})\.so")
_EXEC = re.compile(r"^[ \t]*exec[ \t]+(.{1,2000})$", re.MULTILINE)
MAX_SCRIPT = 64 << 10
NO_IMAGE = "not an image: how it is started, and with which variables, is said there"


def system(ground: Ground) -> Fact[str | None]:
    """The name in ``os-release``."""
    if not ground.system:
        return ground.outside()
    for path in ("etc/os-release", "usr/lib/os-release"):
        text = ground.text(path)
        if isinstance(text, Missing):
            return text
        if text.value is not None:
            match = _NAME.search(text.value)
            if match is None:
                return unreadable(ground.subject, path, "it has no PRETTY_NAME")
            return Known(printable(match[1]), ground.seen(path, match[1]))
    return Known(None, ground.seen("etc/os-release", "no such file"))


def libc_file(ground: Ground) -> Mapping[str, Asked]:
    """The library itself, where nothing else says its release."""
    if not ground.system or isinstance(_stated_libc(ground), Known):
        return {}
    for folder in LIBRARIES:
        path = below(folder, "libc.so.6")
        if (size := ground.size(path)) is not None:
            return {path: Asked(size, LIBC)}
    return {}


def libc(ground: Ground, told: Mapping[str, Fact[str]]) -> Fact[str | None]:
    """By the library's own name, the list of packages, or the library's own words."""
    if not ground.system:
        return ground.outside()
    stated = _stated_libc(ground)
    own = next(iter(told.values()), None)
    if isinstance(stated, Known) or own is None:
        return stated
    return own if isinstance(own, Missing) else Known(own.value, own.evidence)


def _stated_libc(ground: Ground) -> Fact[str | None]:
    for folder in LIBRARIES:
        for name in ground.files(folder):
            if match := _OLD.fullmatch(name):
                return Known(match[1], ground.seen(below(folder, name), "its name"))
            if name.startswith("ld-musl-"):
                return Known("musl", ground.seen(below(folder, name), "musl's loader"))
    listed = ground.text("var/lib/dpkg/status")
    stanzas = listed.value.split("\n\n") if isinstance(listed, Known) and listed.value else []
    own = next((each for each in stanzas if each.startswith(_LIBC6)), "")
    if match := _VERSION.search(own):
        return Known(match[1], ground.seen("var/lib/dpkg/status", f"libc6 {match[1]}"))
    gap = ground.look.gap(below(LIBRARIES[0], "libc.so.6"))
    return gap or unreadable(ground.subject, LIBRARIES[0], "no libc was found in the usual folders")


def started(ground: Ground) -> Fact[Started]:
    """Entrypoint and command of an image, and what its script ends with; none of the secrets that stand there."""
    config = ground.config
    if config is None:
        return Missing(Cause.UNREACHED, NO_IMAGE, ground.seen("", ground.found.origin))
    words = hidden_words((*config.entrypoint, *config.command))  # an option's value may be in the second
    shown_words = tuple(printable(word, 400) for word in words)
    entry, command = shown_words[: len(config.entrypoint)], shown_words[len(config.entrypoint) :]
    shown = f"entrypoint {shlex.join(entry) or 'none'}; command {shlex.join(command) or 'none'}"
    found = Started(entry, command, _script(ground, entry))
    return Known(found, ground.seen("its config", shown) + found.script.evidence)


def _script(ground: Ground, entry: tuple[str, ...]) -> Fact[str | None]:
    """The words after the last ``exec`` of the first script among the entrypoint's words."""
    word = next((word for word in entry if word.endswith(".sh") or (word == entry[0] and "/" in word)), None)
    path = ground.inner(word) if word else None
    if path is None:
        return Known(None, ground.seen("its config", "no script"))
    entry_of = ground.files(path.rpartition("/")[0]).get(path.rpartition("/")[2])
    if entry_of is not None and entry_of.size > MAX_SCRIPT:
        return Known(None, ground.seen(path, "a program, or a long script"))
    text = ground.text(path)
    if isinstance(text, Missing):
        return text
    if text.value is None:
        return unreadable(ground.subject, path, "the entrypoint's script is not in the image")
    if not text.value.startswith("#!"):
        return Known(None, ground.seen(path, "no script"))
    last = _EXEC.findall(text.value)
    said_last = printable(hidden(last[-1].strip()), 400) if last else None
    return Known(said_last, ground.seen(path, f"exec {said_last}" if said_last else "it ends without exec"))


def pins(ground: Ground) -> Fact[Mapping[str, str]]:
    """Variables of an image that bind addresses, interfaces, libraries or compilers; no others, as some are secret."""
    config = ground.config
    if config is None:
        return Missing(Cause.UNREACHED, NO_IMAGE, ground.seen("", ground.found.origin))
    found = {
        name: printable(hidden(value), 400)
        for name, value in sorted(config.environment.items())
        if bound(name)
    }
    shown = ", ".join(f"{name}={value}" for name, value in found.items()) or "none of them binds anything"
    return Known(found, ground.seen("its config", f"{len(config.environment)} variables: {shown}"))
