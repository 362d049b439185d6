"""Simple commands as processes: wrappers peeled off, containers entered, what is installed or set remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename, normpath

from canserve.recipes.containers import Contained, contained, entered, mounted
from canserve.recipes.draft import Draft, hidden, veiled
from canserve.recipes.further import Place, wanted
from canserve.recipes.options import config_of
from canserve.recipes.servers import Serving, is_joining, serving
from canserve.recipes.shell import ASSIGNMENT, simple_commands
from canserve.recipes.sourcing import SOURCES, sourced, tested
from canserve.recipes.stated import required
from canserve.recipes.trouble import MAX_NESTED
from canserve.rules.recipes import Wrapper, container_programs, entrypoint, likely, variable_options, wrappers
from canserve.subjects.recipe import HIDDEN, Command, Role, Said, Shared

CONTAINER = "the container"
NOT_WRITTEN = 0
"""The line of words that an image puts in front of its own."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
REMOTE = "ssh"
_QUIET = frozenset({
    "set", "cd", "echo", "sleep", "true", "mkdir", "source", ".", "wait", "printf", "test", "[", "[[", "exit", "trap",
    "chmod", "return", "unset", "ulimit", "shift", "command", "which", "clear", "tail", "export",
})  # fmt: skip
_REQUIRES = ("--from", "--with")
_INSTALLERS = frozenset({"pip", "pip3"})


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a command."""

    name: str = ""
    environment: Mapping[str, Said] = field(default_factory=dict)
    image: Said | None = None
    machine: str | None = None
    mounts: tuple[Shared, ...] = ()
    depth: int = 0
    spoken: bool = False
    """Whether it stands in a shell's text."""
    elsewhere: str = ""
    """What holds the files that it names: ``the container``, another machine; empty: the recipe's own folder does."""
    inline: Mapping[str, str] = field(default_factory=dict)
    """Files in the container whose text stands in the recipe."""
    folder: str = ""
    """In which it runs; empty: the recipe's own."""

    @property
    def place(self) -> Place:
        """Where files are looked for that it names."""
        return Place(self.folder, self.elsewhere, self.mounts, self.inline)

    def inside(self, assigned: Mapping[str, Said]) -> Around:
        """The same with more variables."""
        return replace(self, environment={**self.environment, **assigned}) if assigned else self


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
        words = simple.words if lined else draft.located(simple.words)
        process(words, around.inside({**exported, **assigned}), draft)


def process(words: Sequence[Said], around: Around, draft: Draft) -> None:
    """The process that these words start, whatever is wrapped around it."""
    words, around = _unwrapped(words, around, draft)
    if not words:
        return
    program = basename(words[0].value)
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


def _inner(text: Said, given: list[str], around: Around, draft: Draft) -> None:
    """A shell's own text: of the variables around it, it sees those of its environment."""
    outer = draft.scope
    draft.scope = outer.within(
        {n: said.value for n, said in around.environment.items() if said.value != HIDDEN}
    )
    draft.scope.variables["0"] = given[0] if given else "sh"
    draft.scope.give(given[1:])
    script(text.value, text.line, replace(around, depth=around.depth + 1), draft, "\n" in text.value)
    outer.words, draft.scope = draft.scope.words, outer


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
        words, _ = _unwrapped(simple.words, around, quiet)
        at = next((number for number, word in enumerate(words) if word.value.startswith("--")), None)
        if at is None:
            continue
        model = words[at - 1] if at > 1 else None
        draft.note(
            f"line {words[0].line}: {' '.join(w.value for w in words[:at])[:80]} is not read: its words are judged"
        )
        args = hidden(words[at:])
        draft.commands.append(_command(words, around, draft.engine, model, args))


def install(word: Said, draft: Draft) -> None:
    """A requirement that is installed: the engine's release, or what is stated of another package."""
    pinned, stated = required(word.value, word.line)
    if pinned is not None and serving_name(pinned):
        draft.requirement = Said(pinned, word.line)  # which build it is, not what one has to be
    else:
        draft.stated += stated


def serving_name(requirement: str) -> bool:
    """Whether it names an engine that is served from its release."""
    return requirement.partition("==")[0] not in ("transformers", "torch")


def _unwrapped(words: Sequence[Said], around: Around, draft: Draft) -> tuple[Sequence[Said], Around]:
    """Without assignments in front and programs that only run another one."""
    while words:
        if found := ASSIGNMENT.match(words[0].value):
            name, value = found[1], words[0].value[found.end() :]
            said = draft.variable(name, value, words[0].line)
            draft.word(name, said.value, said.line, "used")
            around, words = around.inside({name: said}), words[1:]
            continue
        several = wrappers().get(basename(words[0].value), ())
        wrapper = next((one for one in several if _fits(one, words)), None)
        if wrapper is None:
            return words, around
        if basename(words[0].value) == REMOTE:
            around = replace(around, elsewhere="another machine", mounts=())
        words, around = _behind(words, wrapper, around, draft)
        if wrapper.text and len(words) == 1 and " " in words[0].value:
            words = (Said("sh", words[0].line), Said("-c", words[0].line), words[0])
    return words, around


def _fits(wrapper: Wrapper, words: Sequence[Said]) -> bool:
    following = [word.value for word in words[1:]]
    return (not wrapper.after or following[:1] == [wrapper.after]) and (
        not wrapper.until or wrapper.until in following
    )


def _behind(
    words: Sequence[Said], wrapper: Wrapper, around: Around, draft: Draft
) -> tuple[Sequence[Said], Around]:
    """What a wrapper runs, behind its own options; some of these say in which container."""
    if wrapper.until:
        at = [word.value for word in words].index(wrapper.until)
        return words[at + 1 :], around
    rest = words[2 if wrapper.after else 1 :]
    image: Said | None = None
    while rest and rest[0].value.startswith("-"):
        name, equals, glued = rest[0].value.partition("=")
        valued = name in wrapper.values and not equals
        value = replace(rest[0], value=glued) if equals else rest[1] if valued and len(rest) > 1 else None
        draft.word(name, rest[0].value, rest[0].line, "used" if value and name == wrapper.image else "aside")
        if value is not None and name == wrapper.image:
            image = value
        elif value is not None and name == wrapper.mounts:
            found = (mounted(each, value.line) for each in value.value.split(","))
            around = replace(around, mounts=(*around.mounts, *(each for each in found if each)))
        elif value is not None and name in _REQUIRES:
            install(value, draft)
        stop = rest[0].value == "--"
        rest = rest[2 if valued else 1 :]
        if stop:
            break
    if wrapper.image == "1" and rest:
        image, rest = rest[0], rest[1:]
    if image is not None:
        image = replace(image, value=image.value.removeprefix("docker://").replace("#", "/"))
        draft.image = draft.image or image
        around = replace(around, image=image, elsewhere=CONTAINER)
    return rest[wrapper.words :], around


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
        draft.word(program, " ".join(word.value for word in words), words[0].line, "unknown")
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
