"""Simple commands as processes: wrappers peeled off, containers entered, what is installed or set remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from posixpath import basename, normpath

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.containers import Contained, contained, entered
from canserve.recipes.draft import Draft, hidden, veiled
from canserve.recipes.further import wanted
from canserve.recipes.installing import install
from canserve.recipes.options import config_of
from canserve.recipes.servers import Serving, is_joining, serving
from canserve.recipes.shell import simple_commands
from canserve.recipes.sourcing import SOURCES, sourced, tested
from canserve.recipes.trouble import MAX_NESTED
from canserve.recipes.wrapping import unwrapped
from canserve.rules.recipes import container_programs, entrypoint, likely, variable_options
from canserve.subjects.recipe import HIDDEN, Command, Role, Said

NOT_WRITTEN = 0
"""The line of words that an image puts in front of its own."""
SCRIPTS = (".sh", ".bash")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_QUIET = frozenset({
    "set", "cd", "echo", "sleep", "true", "mkdir", "source", ".", "wait", "printf", "test", "[", "[[", "exit", "trap",
    "chmod", "return", "unset", "ulimit", "shift", "command", "which", "clear", "tail", "export",
    ":", "cat", "tee", "ls", "grep", "awk", "sed", "head", "date", "hostname", "nvidia-smi", "huggingface-cli", "hf", "module",
    "pushd", "popd", "uname", "df", "free", "touch", "read", "shopt", "umask",
})  # fmt: skip
_VERBS = frozenset({
    "rm", "pull", "stop", "kill", "logs", "ps", "images", "image", "network", "volume", "inspect", "system", "login", "load",
    "save", "build", "tag", "push", "wait", "info", "version", "stats", "cp", "rmi", "prune",
})  # fmt: skip
"""Of container engines, what starts no server."""
_INSTALLERS = frozenset({"pip", "pip3"})


def script(text: str, line: int, around: Around, draft: Draft, lined: bool = True) -> None:
    """Every process that a shell text starts."""
    if around.depth > MAX_NESTED:
        draft.refuse("sh -c", line, "shells within shells beyond the bound")
        return
    exported: dict[str, Said] = {}
    tests: frozenset[str] = frozenset()
    around = replace(around, spoken=True)
    for simple in simple_commands(text, line, draft.scope, lined):
        assigned = {
            name: draft.variable(name, said.value, said.line) for name, said in simple.assigned.items()
        }
        for name, said in assigned.items():
            draft.word(name, said.value, said.line, "used")
        if not simple.words:
            exported |= assigned
            continue
        if simple.words[0].value in SOURCES and len(simple.words) > 1:
            exported |= sourced(simple, tests, draft, around.place)
            continue
        tests = tested(simple) or (tests if simple.words[0].value in _QUIET else frozenset())
        if around.file:
            words: Sequence[Said] = [replace(word, at=around.file) for word in simple.words]
        else:
            words = simple.words if lined else draft.located(simple.words)
        process(words, around.inside({**exported, **assigned}), draft)


def process(words: Sequence[Said], around: Around, draft: Draft) -> None:
    """The process that these words start, whatever is wrapped around it."""
    words, around = unwrapped(words, around, draft)
    if not words:
        return
    program = basename(words[0].value)
    if (file := _script_file(words, program)) is not None and _followed(file, words, around, draft):
        return
    if program in SHELLS and (inner := _shell_text(words)) is not None:
        _inner(inner, [word.value for word in words[words.index(inner) + 1 :]], around, draft)
    elif program in container_programs() and len(words) > 1:
        _container(words, program, around, draft)
    elif (found := serving(words, draft.arity)) is not None:
        _keep(words, draft)
        _server(words, found, around, draft)
    elif is_joining(words):
        _keep(words, draft)
        draft.commands.append(_command(words, around, None, None, ()))
    else:
        _other(words, program, around, draft)


def _server(words: Sequence[Said], found: Serving, around: Around, draft: Draft) -> None:
    """A server, with the options of a file that its words name in front of its own."""
    draft.revision = found.revision or draft.revision
    model, args = found.model, found.args
    draft.after_flags = draft.after_flags or found.after_flags
    if found.config is not None:
        file = wanted(found.config.value, found.config.line, "--config", decides=True)
        place = replace(around.place, inline={**draft.scope.written, **around.inline})
        file = replace(file, path=normpath(file.path)) if normpath(file.path) in place.inline else file
        text = draft.files.text(file, place)
        if text is not None:
            named = replace(file, path=place.path(file.path) or file.path)
            given = config_of(text, named, draft, file.path in place.inline)
            model, args = model or given.model, (*given.args, *args)
    filed = _by_variables(found.engine, around.environment)
    if filed:
        told = serving((*(word for word in words[:1]), *filed))
        model = model or (told.model if told is not None else None)
        args = (*(told.args if told is not None else ()), *args)
    draft.commands.append(_command(words, around, found.engine, model, hidden(args)))


def _by_variables(engine: str, environment: Mapping[str, Said]) -> tuple[Said, ...]:
    """Options that variables stand for."""
    known = variable_options(engine)
    return tuple(
        replace(said, value=text)
        for name, said in environment.items()
        if name in known and said.value
        for text in (known[name], said.value)
    )


def _inner(text: Said, given: list[str], around: Around, draft: Draft, lined: bool = True) -> None:
    """A shell's own text: of the variables around it, it sees those of its environment."""
    outer = draft.scope
    draft.scope = outer.within(
        {n: said.value for n, said in around.environment.items() if said.value != HIDDEN}
    )
    draft.scope.variables["0"] = given[0] if given else "sh"
    draft.scope.give(given[1:])
    script(
        text.value,
        text.line,
        replace(around, depth=around.depth + 1),
        draft,
        lined and not around.file and "\n" in text.value,
    )
    outer.words, draft.scope = draft.scope.words, outer


def _script_file(words: Sequence[Said], program: str) -> int | None:
    """Where the file of a script stands that is run: by a shell, or by itself; None: none is."""
    if program.endswith(SCRIPTS):
        return 0
    at = 1
    while program in SHELLS and at < len(words) and re.fullmatch(r"-[a-bd-z]+|--[a-z-]+", words[at].value):
        at += 1
    named = program in SHELLS and at < len(words) and words[at].value.endswith(SCRIPTS)
    return at if named else None


def _followed(at: int, words: Sequence[Said], around: Around, draft: Draft) -> bool:
    """Whether a script of its own could be read: what it starts is started here, on the line that names it."""
    if around.depth >= MAX_NESTED:
        return False
    name = words[at]
    if around.place.path(name.value) is None:
        return False  # it is the image's own
    text = draft.files.text(wanted(name.value, name.line, "script", required=False), around.place)
    if text is None:
        return False
    draft.word(name.value, " ".join(word.value for word in words), name.line, "used")
    given = [word.value for word in words[at:]]
    before = len(draft.keys)
    _inner(Said(text, name.line), given, replace(around, file=name.value), draft, lined=False)
    draft.keys[before:] = [
        replace(key, path=f"{name.value}: {key.path}") if key.line == name.line else key
        for key in draft.keys[before:]
    ]
    return True


def _command(
    words: Sequence[Said], around: Around, engine: str | None, model: Said | None, args: tuple[Said, ...]
) -> Command:
    line = next((word.line for word in words if word.line != NOT_WRITTEN), 1)
    return Command(
        around.name, hidden(words), line, around.environment, around.image, around.machine, engine,
        model, args, around.mounts,
    )  # fmt: skip


def _keep(words: Sequence[Said], draft: Draft) -> None:
    """Each word among the keys: flags by their name, others as they are."""
    for word in hidden(words):
        if word.line != NOT_WRITTEN:
            draft.word(word.value.partition("=")[0], word.value, word.line, "used")


def _other(words: Sequence[Said], program: str, around: Around, draft: Draft) -> None:
    """What starts no server: installations are remembered, the rest is kept as unknown."""
    values = [word.value for word in words]
    installer = program in _INSTALLERS or (program == "uv" and "pip" in values) or "pip" in values[1:3]
    role: Role = "used" if installer and "install" in values else "aside" if program in _QUIET else "unknown"
    draft.word(program, " ".join(values), words[0].line, role)
    if role == "unknown" and around.spoken and not draft.spoken:
        draft.note(f"line {words[0].line}: not read: {veiled(' '.join(values))[:80]}")
    if role == "used":
        for word in words:
            install(word, draft)


def unread_server(text: str, line: int, around: Around, draft: Draft) -> None:
    """Where a script starts the server: the words that it is given are taken for the engine's."""
    quiet = replace(draft, scope=draft.scope.within(draft.scope.variables), commands=[], keys=[])
    for simple in simple_commands(text, line, quiet.scope):
        words, _ = unwrapped(simple.words, around, quiet)
        at = next((number for number, word in enumerate(words) if word.value.startswith("--")), None)
        if at is None:
            continue
        model = words[at - 1] if at > 1 else None
        draft.note(
            f"line {words[0].line}: {' '.join(w.value for w in words[:at])[:80]} is not read: its words are judged"
        )
        args = hidden(words[at:])
        draft.commands.append(_command(words, around, draft.engine, model, args))


def _shell_text(words: Sequence[Said]) -> Said | None:
    """What follows ``-c``, ``-lc`` ...; None: a file is run."""
    for number, word in enumerate(words[1:], 1):
        if not word.value.startswith("-"):
            return None
        if not word.value.startswith("--") and word.value.endswith("c"):
            return words[number + 1] if number + 1 < len(words) else None
    return None


def _container(words: Sequence[Said], program: str, around: Around, draft: Draft) -> None:
    """A container that is started or entered."""
    switches = container_programs()[program]
    verb = words[1].value if words[1].value != "container" else (words[2].value if len(words) > 2 else "")
    rest = words[2 if words[1].value != "container" else 3 :]
    if verb in ("run", "create"):
        found = contained(rest, switches, draft)
    elif verb == "exec":
        found = entered(rest, switches, draft)
    elif verb == "compose" and (at := _verb(rest)) is not None:
        found = entered(rest[at + 1 :], switches, draft)
        found.words = (*_of_service(found), *found.words)
    else:
        role: Role = "aside" if verb in _VERBS else "unknown"
        if verb == "compose" and any(word.value == "up" for word in rest):
            draft.note(
                f"line {words[0].line}: what compose starts stands in its own file: name that as the recipe"
            )
            role = "used"
        draft.word(program, " ".join(word.value for word in words), words[0].line, role)
        return
    outer = replace(
        around,
        name=found.name or around.name,
        image=found.image or around.image,
        machine=found.machine or around.machine,
        environment={**around.environment, **found.environment},
        mounts=(*around.mounts, *found.mounts),
        depth=around.depth + 1,
        elsewhere=CONTAINER,
    )
    if outer.image is not None and draft.image is None:
        draft.image = outer.image
    started(found.entrypoint, found.words, outer, draft)


def started(entry: Sequence[Said] | None, args: Sequence[Said], around: Around, draft: Draft) -> None:
    """What a container starts. ``entry``: what replaces the image's own entrypoint; None: that is kept."""
    if around.depth > MAX_NESTED:
        draft.refuse(
            args[0].value if args else "", around.image.line if around.image else 1, "nested too deeply"
        )
        return
    if entry is not None:
        process((*entry, *args), around, draft)
        return
    image = around.image
    own = entrypoint(image.value) if image else ()
    if not args:  # it starts what the image says; some engines take its model from the environment
        words = tuple(Said(word, NOT_WRITTEN) for word in own)
        found = serving(words)
        if found is not None and _by_variables(found.engine, around.environment):
            process(words, around, draft)
        return
    flags = args[0].value.startswith("-")
    if image is not None and not own and (flags or _continues(args, image)):
        own = likely(image.value)
        if own:
            draft.note(f"line {image.line}: {image.value} is taken for an image that starts {' '.join(own)}")
    if own and len(own) > 1 and args[0].value == own[-1]:
        own = own[:-1]  # the rest of what starts the server is written out
    if own and serving(args) is not None:
        draft.note(f"line {args[0].line}: the entrypoint of {around.image} stands before these words")
    if own and (flags or serving(args) is None) and not _runs_itself(args):
        process((*(Said(word, NOT_WRITTEN) for word in own), *args), around, draft)
    elif args:
        process(args, around, draft)


def _verb(words: Sequence[Said]) -> int | None:
    """Where ``run`` or ``exec`` stands among the words for compose."""
    return next((number for number, word in enumerate(words) if word.value in ("run", "exec")), None)


def _of_service(found: Contained) -> tuple[Said, ...]:
    """What a service's image most likely puts in front of its words, by the service's name."""
    own = likely(found.name)
    if not own or not found.words or serving(found.words) is not None:
        return ()
    if found.words[0].value.startswith("-"):
        return tuple(Said(word, NOT_WRITTEN) for word in own)
    goes_on = len(own) > 1 and found.words[0].value == own[-1]
    return tuple(Said(word, NOT_WRITTEN) for word in own[:-1]) if goes_on else ()


def _continues(args: Sequence[Said], image: Said) -> bool:
    """Whether the words go on where the likely entrypoint of an image ends: ``serve MODEL``."""
    own = likely(image.value)
    return len(own) > 1 and args[0].value == own[-1]


def _runs_itself(args: Sequence[Said]) -> bool:
    """Whether the words name a program of their own: what some entrypoints run as it is."""
    return bool(args) and basename(args[0].value) in SHELLS
