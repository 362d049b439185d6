"""Reading one build: open what was named, find the engine in it, and let the engine's reader read it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace

from canserve.commands.ssh import Route
from canserve.engines import NAMES, Engine, engine_named, engines
from canserve.engines.sources import Sources
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.build_target import TABLE_FILES, Means, Opened, open_target
from canserve.probes.discover import Found, discover
from canserve.subjects.build import Build, Identity, Transformers, TransformersTable, Want
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.names import printable
from canserve.trees.tree import Cost
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings

NO_TABLE = Missing(Cause.UNREACHED, "no table of transformers releases was given")
LIBRARY = "transformers"

ReadTable = Callable[[Sources, str], Fact[TransformersTable]]
"""Read what one installation of transformers offers from its own files, given its version."""


def _quiet(message: str) -> None:
    del message


def read_table(sources: Sources, version: str) -> Fact[TransformersTable]:
    """What one installation of transformers offers, by its own files; most builds need no such look."""
    from canserve.engines.transformers import read_table as read

    return read(sources, version)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How builds are read. One value for many builds: connections, cache and tables are shared."""

    offline: bool = False
    arch: str | None = None
    """CPU architecture whose wheel is meant, ``x86_64`` or ``aarch64``; None: not said."""
    cpu_named: bool = True
    """Whether no other one will do; else an image for another CPU is read, for it to be judged as what it is."""
    table: Fact[TransformersTable] = NO_TABLE
    """Of all released versions."""
    read_table: ReadTable = field(default=read_table)
    """For installations that are not (or not exactly) a released version."""
    cache: Cache = field(default_factory=Cache)
    web: Web | None = None
    """None: as pip is configured."""
    config: PipConfig | Missing | None = None
    """None: pip's own."""
    engines: tuple[Engine, ...] | None = None
    """None: all."""
    tell: Callable[[str], None] = field(default=_quiet)
    routes: Mapping[str, Route] = field(default_factory=dict)
    """How machines that hold containers and images are reached, by name; any other name is one of ssh itself."""
    recent: MutableMapping[str, object] = field(default_factory=dict)
    """What was read of containers while one question is answered; filled as they are read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One build, or why it could not be read; what it took, and what the user should know."""

    target: str
    build: Build | Missing
    cost: Cost
    notes: tuple[str, ...] = ()


def read_build(target: str, want: Want, options: BuildOptions | None = None) -> Reading:
    """Read the build that the user names. Never raises for what is on the other side."""
    options = options or BuildOptions()
    config = pip_config() if options.config is None else options.config
    if options.web is not None:
        return _reading(target, want, replace(options, config=config, web=options.web.apart()))
    web = Web(Settings() if isinstance(config, Missing) else config.settings, options.offline)
    try:
        return _reading(target, want, replace(options, config=config, web=web))
    finally:
        web.close()


def _reading(target: str, want: Want, options: BuildOptions) -> Reading:
    assert options.web is not None
    assert options.config is not None
    sought = _sought(target) if options.engines is None else options.engines
    place = Place(options.web, options.cache, options.tell)
    whole = want.deep or want.architectures is None
    means = Means(
        place,
        options.config,
        options.arch,
        sought,
        options.cpu_named,
        options.routes,
        offline=options.offline,
        recent=options.recent,
        stack=want.stack,
        deep=want.deep,
        whole=whole,
    )
    opened = open_target(target, means)
    if isinstance(opened, Missing):
        return Reading(target, opened, options.web.cost)
    found = discover(opened.tree, sought, opened.outside, opened.wanted, opened.config)
    if isinstance(found, Missing):
        return Reading(target, found, options.web.cost, opened.notes)
    build = _read(printable(target.strip()), opened, found, want, options)
    return Reading(target, build, options.web.cost, opened.notes + found.notes)


def _sought(target: str) -> tuple[Engine, ...]:
    """The readers that may be needed: all of them, unless the user names a release (``vllm==0.17.1``)."""
    name, named, _ = target.strip().partition("==")
    engine = engine_named(name) if named and name in NAMES else None
    return engines() if engine is None else (engine,)


def _read(subject: str, opened: Opened, found: Found, want: Want, options: BuildOptions) -> Build:
    sources = found.sources(subject)
    sources.notes = options.cache.notes("outline")
    sources.prefetch(found.engine.first_files(sources, want))
    identity = Identity(
        subject=subject,
        engine=found.engine.name,
        version=found.metadata.version,
        origin=_origin(opened, found),
        content=opened.content,
        platforms=found.platforms() if opened.platforms is None else opened.platforms,
        requires_python=found.metadata.requires_python,
        requires=found.metadata.requires,
    )
    build = found.engine.read(sources, identity, _transformers(subject, found, options), want)
    build = replace(build, torch=found.installed_version("torch"))
    if want.gpu_code:
        build = _with_gpu_code(build, opened, found, want, options)
    return _with_stack(build, opened, found, want, options) if want.stack else build


def _origin(opened: Opened, found: Found) -> str:
    """``image on disk: Python environment, installed in usr/lib/python3/dist-packages``."""
    whole = opened.tree.origin
    return found.origin if whole == "folder" or whole in found.origin else f"{whole}: {found.origin}"


def _with_gpu_code(build: Build, opened: Opened, found: Found, want: Want, options: BuildOptions) -> Build:
    """What its compiled files hold; of a remote build only where that was asked for, as all of them travel."""
    if opened.remote and not want.deep:
        missing = Missing(
            Cause.UNREACHED,
            "those of a remote build only with --deep",
            (Evidence(build.identity.subject, build.identity.origin, "not downloaded", whole=False),),
            "add --deep, or name an installation or a downloaded file",
        )
        return replace(build, gpu_code=missing, cuda_needed=missing, libc_needed=missing)
    from canserve.probes.gpu_code.reading import Means as ReadingMeans
    from canserve.probes.gpu_code.reading import read_gpu_code

    content = opened.content.value if isinstance(opened.content, Known) else None
    means = ReadingMeans(build.identity.subject, content, options.cache.notes("gpu-code"), options.tell)
    read = read_gpu_code(found, means)
    return replace(build, gpu_code=read.extensions, cuda_needed=read.cuda, libc_needed=read.libc)


def _with_stack(build: Build, opened: Opened, found: Found, want: Want, options: BuildOptions) -> Build:
    """What it stands on. Large files of a remote build only where that was asked for."""
    from canserve.probes.stack.ground import Ground
    from canserve.probes.stack.reading import alone, read_stack

    subject = build.identity.subject
    if found.environment is None:
        return replace(build, stack=alone(subject))
    scans = want.deep or not opened.remote
    ground = Ground(found, found.environment, subject, build.gpu_code, opened.config, scans)
    content = opened.content.value if isinstance(opened.content, Known) else None
    return replace(build, stack=read_stack(ground, content, options.cache.notes("constants")))


def _transformers(subject: str, found: Found, options: BuildOptions) -> Transformers:
    requires = found.metadata.requires
    requirement: Fact[str | None]
    if isinstance(requires, Missing):
        requirement = requires
    else:
        stated = found.engine.requirement(requires.value, LIBRARY)
        requirement = Known(stated, requires.evidence)
    installed = found.installed_version(LIBRARY)
    return Transformers(installed, requirement, _table(subject, found, installed, options))


def _table(
    subject: str, found: Found, installed: Fact[str | None], options: BuildOptions
) -> Fact[TransformersTable]:
    """The shipped table; for an installation that is not one of its releases, what its own files say."""
    if isinstance(installed, Missing) or installed.value is None:
        return options.table
    sources = found.installed_sources(LIBRARY, f"{subject}: {LIBRARY} {installed.value}")
    if sources is None:
        return options.table
    shipped = options.table
    if isinstance(shipped, Known) and installed.value in shipped.value.versions and _untouched(sources):
        return shipped
    own = options.read_table(sources, installed.value)
    if isinstance(own, Missing) or isinstance(shipped, Missing):
        return own
    from canserve.engines.transformers import merge

    return Known(merge([own.value, shipped.value]), own.evidence + shipped.evidence)


def _untouched(sources: Sources) -> bool:
    """Whether the files that decide are those that were installed, by the digests in RECORD."""
    records = [path for path in sources.under("", "RECORD") if path.count("/") == 1]
    if not records:
        return False
    text = sources.text(records[0])
    if isinstance(text, Missing) or text.value is None:
        return False
    for name in TABLE_FILES[LIBRARY]:
        path = f"{LIBRARY}/{name}"
        raw = sources.raw(path)
        if isinstance(raw, Missing):
            return False
        if raw.value is not None and f"{path},sha256={_digest(raw.value)}," not in text.value:
            return False
    return True


def _digest(data: bytes) -> str:
    """As RECORD writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
