"""Units of systemd, one for each process, in a folder for each machine.

What a unit may say is from systemd.unit(5), systemd.service(5) and systemd.exec(5) of release 252.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from canserve.commands import serving
from canserve.commands.contained import beside_of, contained, container_name, run_words, surroundings
from canserve.commands.removal import GRACE
from canserve.engines import ray
from canserve.plan.export.exported import Exported, Files, folders, heading, plain
from canserve.plan.export.order import joined_test, order_note
from canserve.plan.steps.starting import JOINING
from canserve.subjects.deployment import Deployment, Folder, Image

_SAFE = re.compile(r"[A-Za-z0-9_./:=,@+-]+")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def unit_name(run: str, number: int) -> str:
    """Of a process: ``canserve-4f2a9c1d-0.service``."""
    return f"{container_name(run, number)}.service"


def write(it: Exported) -> Files:
    """A unit for each process."""
    one = it.deployment
    notes = _notes(one)
    where = folders(it)
    files = {
        f"{where[process.host]}/{unit_name(one.run, number)}": _unit(it, one, number, notes)
        for number, process in enumerate(one.processes)
    }
    return Files(files, notes)


def _notes(it: Deployment) -> tuple[str, ...]:
    names = ", ".join(it.given.secrets)
    folder = isinstance(it.where, Folder)
    return (
        *order_note(it),
        *((f"{names}: systemd passes it on where its own environment has it",) if names else ()),
        *(
            ("User= is not set: they run as root unless you name who has the model and caches",)
            if folder
            else ()
        ),
        *(
            ("EnvironmentFile= takes quotes and backslashes of values as its own",)
            if folder and it.given.secret_files
            else ()
        ),
        "accelerators are not claimed: canserve up elsewhere does not see that they are taken",
    )


def _unit(it: Exported, one: Deployment, number: int, notes: tuple[str, ...]) -> str:
    process = one.processes[number]
    ranks = f"ranks {', '.join(map(str, process.ranks))}" if process.ranks else "joins machines"
    first = _before(one, number)
    service = (
        _container(one, one.where, number)
        if isinstance(one.where, Image)
        else _process(one, one.where, number)
    )
    after = [unit_name(one.run, other) for other in first]
    engine = ["docker.service"] if one.program == "docker" else []
    lines = (
        *(f"# {line}" for line in heading(it, "systemd", notes)),
        "[Unit]",
        plain(f"Description={_percent(it.model)} on {_percent(process.host)}, {ranks}"),
        "Wants=network-online.target",
        f"After={' '.join(('network-online.target', *engine, *after))}",
        *((f"Requires={' '.join((*engine, *after))}",) if engine or after else ()),
        "",
        "[Service]",
        *service,
        "Restart=on-failure",
        "RestartSec=5",
        f"TimeoutStartSec={JOINING + 60:.0f}",
        f"TimeoutStopSec={GRACE + 10}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    )
    return "\n".join(lines) + "\n"


def _before(it: Deployment, number: int) -> list[int]:
    """Those of the same machine that have to be there."""
    host = it.processes[number].host
    return [other for other in range(number) if it.processes[other].host == host]


def _container(it: Deployment, image: Image, number: int) -> Iterator[str]:
    one = contained(it, image, number)
    for name in one.secrets:
        yield f"PassEnvironment={name}"
    yield f"ExecStartPre=-{command((image.program, 'rm', '--force', '--volumes', one.name))}"
    if (test := joined_test(it, number)) is not None:
        beside = container_name(it.run, beside_of(it.processes, number))
        yield _waiting(f"{image.program} exec {beside} {test}")
    yield f"ExecStart={command((image.program, 'run', '--rm', '--pull', 'never', *run_words(one)))}"
    yield f"ExecStop={command((image.program, 'stop', '--time', str(GRACE), one.name))}"
    if one.pid is None:
        for name, _ in one.volumes:
            yield f"ExecStopPost=-{command((image.program, 'volume', 'rm', name))}"


def _process(it: Deployment, where: Folder, number: int) -> Iterator[str]:
    program, *words = ray.kept(it.processes[number].argv)
    told = {
        serving.VARIABLE: f"{it.run}.",
        "PATH": f"{where.path}/bin:{_PATH}",
        **surroundings(it, number),
    }
    for name, value in told.items():
        yield f"Environment={_quoted(f'{name}={value}', dollar=False)}"
    for name in it.given.secrets:
        yield f"PassEnvironment={name}"
    for path in it.given.secret_files:
        yield f"EnvironmentFile={_percent(path)}"
    if "RAY_TMPDIR" in told:
        yield f"ExecStartPre={command(('mkdir', '-p', '--', told['RAY_TMPDIR']))}"
    if (test := joined_test(it, number)) is not None:
        yield _waiting(f"{where.path}/bin/{test}")
    yield f"ExecStart={command((f'{where.path}/bin/{program}', *words))}"
    yield "LimitMEMLOCK=infinity"


def _waiting(test: str) -> str:
    """Until all accelerators have joined."""
    script = (
        f"end=$(($(date +%s) + {JOINING:.0f})); until {test}; do "
        '[ "$(date +%s)" -lt "$end" ] || exit 1; sleep 1; done'
    )
    return f"ExecStartPre={command(('sh', '-c', script))}"


def command(words: Sequence[str]) -> str:
    """A command line as systemd reads it back: word by word."""
    return " ".join(word if _SAFE.fullmatch(word) else _quoted(word, dollar=True) for word in words)


def _quoted(word: str, dollar: bool) -> str:
    """``dollar``: whether variables would be put in place of what follows one."""
    text = word.replace("\\", "\\\\").replace('"', '\\"')
    text = "".join(
        letter if letter >= " " and letter != "\x7f" else f"\\x{ord(letter):02x}" for letter in text
    )
    if dollar:
        text = text.replace("$", "$$")
    return f'"{_percent(text)}"'


def _percent(text: str) -> str:
    """A percent sign begins a specifier; two are one."""
    return text.replace("%", "%%")
