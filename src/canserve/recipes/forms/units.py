"""Units of systemd: services, and containers that podman's generator turns into services."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from posixpath import basename

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import process, started
from canserve.recipes.containers import mounted
from canserve.recipes.draft import Draft
from canserve.recipes.further import wanted
from canserve.recipes.variable_texts import docker_variables, systemd_variables
from canserve.recipes.variables import expanded
from canserve.subjects.recipe import HIDDEN, Said, Shared

FORM = "systemd unit"
_SECTION = re.compile(r"\[([A-Za-z-]+)\]\s*")
_TOLD = re.compile(r"^[ \t]*\[(Unit|Service|Container|Install)\][ \t]*$", re.MULTILINE)
_SPECIFIER = re.compile(r"%([a-zA-Z%])")
_UNBRACED = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\]|["'])+""", re.DOTALL)
_PIECE = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\]+|["']""", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_PREFIX = "-@:+!|"
_ASIDE_SECTIONS = ("Unit", "Install", "Quadlet")
_USED = frozenset({"ExecStart", "Environment", "Exec", "Image", "Entrypoint", "Volume", "EnvironmentFile"})
_UNREAD = frozenset({"PassEnvironment"})
_LISTS = frozenset({"ExecStart", "Environment", "EnvironmentFile", "Volume", "Mount"})
"""Settings of which an empty one takes back those before it."""
_ASIDE = frozenset({
    "Type", "User", "Group", "WorkingDirectory", "Restart", "RestartSec", "TimeoutStartSec", "TimeoutStopSec",
    "StandardOutput", "StandardError", "SyslogIdentifier", "LimitNOFILE", "LimitMEMLOCK", "LimitSTACK", "KillMode",
    "KillSignal", "Nice", "MemoryMax", "ExecStartPre", "ExecCondition", "ExecStop", "ExecStopPost", "ExecReload", "ExecStartPost", "PIDFile", "Slice",
    "RemainAfterExit", "PrivateTmp", "ContainerName", "PublishPort", "Network", "AddDevice", "ShmSize", "AutoUpdate",
    "Pull", "SecurityLabelDisable", "UserNS", "Notify", "Label", "StartLimitBurst", "StartLimitIntervalSec",
    "SupplementaryGroups", "UMask", "OOMScoreAdjust", "CPUAffinity", "TasksMax", "Delegate", "NoNewPrivileges",
    "ProtectSystem", "ProtectHome", "SuccessExitStatus", "TimeoutSec", "LimitNPROC", "LimitCORE", "RuntimeDirectory",
    "StateDirectory", "CacheDirectory", "LogsDirectory", "Ulimit", "GroupAdd", "IpcMode", "IPC", "DynamicUser", "PodmanArgs", "Secret",
    "GlobalArgs", "HostName", "HealthCmd", "HealthInterval", "RunInit", "Tmpfs", "StopTimeout", "EnvironmentHost",
    "ReadOnlyPaths", "ReadWritePaths", "LimitAS", "IOSchedulingClass", "CPUQuota", "CPUWeight", "MemoryHigh",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Setting:
    section: str
    key: str
    value: str
    line: int
    file: str = ""
    """Of a drop-in, what stands before its keys."""


def is_unit(text: str) -> bool:
    """Whether a text has this form."""
    return _TOLD.search(text) is not None


def read(text: str, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = FORM
    settings = [*_settings(text, draft), *_drop_ins(draft)]
    for one in settings:
        path = f"{one.file}{one.section}.{one.key}"
        if one.section in _ASIDE_SECTIONS:
            draft.key(path, one.value, one.line, "aside")
            draft.says(one.value, one.line)
        elif one.key in _UNREAD:
            draft.key(path, one.value, one.line, "used")
            draft.note(f"line {one.line}: {one.key} {one.value[:80]} is not read: what it sets is not known")
        elif one.key != "Environment" or not one.value:
            known = one.key in _ASIDE or one.key.startswith("X-")
            draft.key(
                path, one.value, one.line, "used" if one.key in _USED else "aside" if known else "unknown"
            )
    _start(_left(settings), draft)


def _left(settings: list[_Setting]) -> tuple[_Setting, ...]:
    """Without what a later empty setting takes back."""
    taken: dict[tuple[str, str], int] = {}
    for number, one in enumerate(settings):
        if one.key in _LISTS and not one.value:
            taken[one.section, one.key] = number
    return tuple(one for number, one in enumerate(settings) if number > taken.get((one.section, one.key), -1))


def _drop_ins(draft: Draft) -> Iterator[_Setting]:
    """Settings of files in the unit's own folder, which count after it, in the order of their names."""
    name = basename(draft.name)
    if not name.endswith((".service", ".container")):
        return
    folder = wanted(f"{name}.d/", 1, "drop-ins", required=False, decides=True)
    for each in (draft.files.text(folder) or "").splitlines():
        file = wanted(f"{name}.d/{each}", 1, "drop-in", decides=True)
        yield from _settings(draft.files.text(file) or "", draft, f"{file.path}: ")


def _start(settings: tuple[_Setting, ...], draft: Draft) -> None:
    image = next(
        (one for one in reversed(settings) if one.section == "Container" and one.key == "Image"), None
    )
    draft.environment = _variables(settings, "Service", draft)
    if image is not None:
        draft.environment = _variables(settings, "Container", draft)
    plain = {name: said.value for name, said in draft.environment.items() if said.value != HIDDEN}
    draft.scope = draft.scope.within(plain)
    mounts = _mounts(settings, draft)
    if image is not None:
        said = Said(_specified(image, draft), image.line)
        around = Around("", draft.environment, said, mounts=mounts, elsewhere=CONTAINER)
        entry = _words(_last(settings, "Entrypoint"), draft)
        started(entry or None, _words(_last(settings, "Exec"), draft), around, draft)
    folder = _last(settings, "WorkingDirectory")
    around = Around("", draft.environment, mounts=mounts, folder=folder.value if folder else "")
    for one in settings:
        if one.key == "ExecStart":
            process(_words(one, draft), around, draft)


def _last(settings: tuple[_Setting, ...], key: str) -> _Setting | None:
    return next((one for one in reversed(settings) if one.key == key), None)


def _variables(settings: tuple[_Setting, ...], section: str, draft: Draft) -> dict[str, Said]:
    """Of a service, files count more than the unit's own lines; of a container, these count more than files."""
    own: dict[str, Said] = {}
    filed: dict[str, Said] = {}
    for one in settings:
        if one.section == section and one.key == "Environment" and one.value:
            _environment(one, own, draft)
        elif one.section == section and one.key == "EnvironmentFile" and one.value:
            filed |= _filed(one, draft)
    return {**own, **filed} if section == "Service" else {**filed, **own}


def _filed(one: _Setting, draft: Draft) -> dict[str, Said]:
    """Variables of a file; a dash in front of its name: it may be absent."""
    name = _specified(one, draft).strip("\"'")
    file = wanted(name.removeprefix("-"), one.line, one.key, required=not name.startswith("-"))
    read = systemd_variables if one.section == "Service" else docker_variables
    found: dict[str, Said] = {}
    for each in read(draft.files.text(file) or "", draft.scope, one.line):
        said = draft.variable(each.name, each.value, one.line)
        found[each.name] = replace(said, at=f"{file.path}:{each.line}")
        draft.key(f"{file.path}: {each.name}", said.value, each.line, "used")
    return found


def _words(one: _Setting | None, draft: Draft) -> tuple[Said, ...]:
    """Words as systemd takes them apart: ``$X`` alone becomes several, ``${X}`` one."""
    if one is None:
        return ()
    found: list[Said] = []
    text = _specified(one, draft)
    for word in _split(text.lstrip(_PREFIX) if one.key == "ExecStart" else text, one.line, draft):
        alone = _UNBRACED.fullmatch(word.value)
        if alone and alone[1] in draft.scope.variables:
            found += _split(draft.scope.variables[alone[1]], word.line, draft)
        else:
            text = word.value.replace("$$", "\0")
            found.append(Said(expanded(text, word.line, draft.scope).replace("\0", "$"), word.line))
    return tuple(found)


def _split(text: str, line: int, draft: Draft) -> tuple[Said, ...]:
    """Words by systemd's quotes, in which a backslash means what it means in C."""
    words: list[Said] = []
    for found in _WORD.finditer(text):
        draft.scope.take(line)
        inner = "".join(
            piece[1:-1] if piece[:1] in ("'", '"') else piece for piece in _PIECE.findall(found[0])
        )
        words.append(Said(_ESCAPE.sub(_unescaped, inner), line))
    return tuple(words)


def _unescaped(found: re.Match[str]) -> str:
    sign = found[1]
    if sign[0] in "xuU" and len(sign) > 1:
        code = int(sign[1:], 16)
        return chr(code) if 0 < code < 0x110000 else found[0]
    if sign[0].isdecimal():
        return chr(int(sign, 8))
    return _SIGNS.get(sign, sign)


def _specified(one: _Setting, draft: Draft) -> str:
    """Specifiers such as ``%i`` are known only where the unit runs."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        draft.leave(found[0], one.line, "known only where the unit runs")
        return found[0]

    return _SPECIFIER.sub(value, one.value)


def _environment(one: _Setting, found: dict[str, Said], draft: Draft) -> None:
    for word in _split(_specified(one, draft), one.line, draft):
        name, equals, value = word.value.partition("=")
        said = draft.variable(name, value, one.line)
        path = f"{one.file}{one.section}.Environment.{name}"
        draft.key(path, said.value, one.line, "used" if equals else "unknown")
        if equals:
            found[name] = said


def _mounts(settings: tuple[_Setting, ...], draft: Draft) -> tuple[Shared, ...]:
    found = (mounted(_specified(one, draft), one.line) for one in settings if one.key == "Volume")
    return tuple(mount for mount in found if mount is not None)


def _settings(text: str, draft: Draft, file: str = "") -> Iterator[_Setting]:
    """All of a text. ``file``: of a drop-in, whose settings stand on no line of the unit: on its first, then."""
    section, lines = "", text.replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        start, line = 1 if file else number + 1, lines[number].strip()
        number += 1
        if line.startswith(("#", ";")) or not line:
            draft.says(line, start)
            continue
        if found := _SECTION.fullmatch(line):
            section = found[1]
            continue
        parts = [line.removesuffix("\\")]
        while line.endswith("\\") and number < len(lines):
            line = lines[number].strip()
            number += 1
            if not line.startswith(("#", ";")):
                parts.append(line.removesuffix("\\"))
            else:
                line = "\\"  # a comment between the lines ends nothing
        key, equals, value = " ".join(parts).partition("=")
        if equals:
            yield _Setting(section, key.strip(), value.strip(), start, file)
        else:
            draft.key(f"{file}{section}.{key.strip()}"[:80], "", start, "unknown")
