"""What every command needs, changes and answers with: the end of its ``--help``, told to agents as well.

Loaded with ``--help`` only.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

FAILED = "2 usage, 4 canserve itself failed"
USUAL = f"0 all yes, 1 some no, 3 no no but some unknown, {FAILED}"
READ = f"0 it was read, 3 it could not be, {FAILED}"
PRINTED = f"0 printed, {FAILED}"
CACHE = "nothing but canserve's cache"
NOTHING = "nothing"
LOOKED = "nothing on machines, which are only looked at; canserve's cache here"


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one command."""

    needs: str
    """What has to be there before."""
    changes: str
    """What is different afterwards, here and on machines."""
    codes: str
    """Exit codes."""


NETWORK = "the network, unless --offline; for remote builds and machines your own ssh, without a password"
PROMISES = {
    "check": Promise(NETWORK, LOOKED, USUAL),
    "recipes": Promise(NETWORK, LOOKED, USUAL),
    "candidates": Promise(NETWORK, LOOKED, f"0 some candidate is a yes, 1 all are a no, 3 otherwise, {FAILED}"),
    "plan": Promise(NETWORK, f"{LOOKED}; --save writes FILE", f"0 a plan fits, 1 none does, 3 otherwise, {FAILED}"),
    "up": Promise(
        "ssh without a password to the machines, and there what the plan starts; nothing of it with --dry-run",
        "brings image and weights to machines that lack them, starts processes or containers there, claims "
        "accelerators, writes logs and an audit line there, the journal and what failed wrote here; takes away again "
        "what failed",
        f"0 it answers, 1 it failed, 3 it is still starting, {FAILED}, 130 interrupted",
    ),
    "status": Promise("the journal, or machines with --on", "nothing; machines are only looked at", f"0 all run, 1 something ended, 3 something could not be seen, {FAILED}"),
    "logs": Promise("the journal, or machines with --on", "nothing; logs are only read", f"0 something was there, 1 nothing, {FAILED}"),
    "adopt": Promise("ssh without a password to the machines", "the journal here, and a note on each machine", f"0 taken over, 3 not every machine could note it, {FAILED}"),
    "down": Promise(
        "the journal, or machines with --on",
        "ends what up started, and removes its containers, claims and logs; nothing else, and nothing with --dry-run",
        f"0 nothing is left, 1 something is, 3 a machine could not be asked, {FAILED}",
    ),
    "history": Promise("the journal", NOTHING, PRINTED),
    "distribute": Promise(
        "ssh without a password and python3 on the machines; nothing is copied with --dry-run",
        "loads an image and writes weights on the machines",
        f"0 everything is there, 1 something is not, {FAILED}",
    ),
    "export": Promise(
        "a saved plan, or a file that was exported; ssh to the machines where --accelerators is not said",
        "nothing but the files below --out",
        "0 written, 2 usage or what the form cannot say, 4 canserve itself failed",
    ),
    "verify": Promise("an endpoint that can be reached", "nothing; requests are sent, which cost the server work", USUAL),
    "since": Promise("nothing; a model is read, from the network unless --offline", CACHE, f"0 some release serves it, 1 none does, 3 it could not be told, {FAILED}"),
    "matrix": Promise(NOTHING, NOTHING, f"0 printed, 1 the name is unknown, {FAILED}"),
    "index": Promise("the package index, for update and build", "the index in the user's folder", f"0 up to date, 3 some release could not be read, {FAILED}"),
    "build": Promise(NETWORK, LOOKED, READ),
    "model": Promise("the network, unless --offline or the model is here", CACHE, READ),
    "machine": Promise(
        "ssh without a password to the machine",
        "nothing; --preflight alone starts something there, which ends with this command; --save writes FILE",
        f"0 looked at, 3 one could not be; with --check 1 some no, 3 some unknown; {FAILED}",
    ),
    "diagnose": Promise("a log", NOTHING, f"0 it serves, 1 it failed or stands still, 3 neither can be told, {FAILED}"),
    "checks": Promise(NOTHING, NOTHING, PRINTED),
    "schema": Promise(NOTHING, NOTHING, PRINTED),
    "cache": Promise(NOTHING, "nothing; with --clear the cache is removed, to be fetched again when needed", PRINTED),
    "mcp": Promise(
        "pip install 'canserve[mcp]'",
        "nothing by itself; with --allow-changes what up, down, adopt and distribute change, after each was shown and approved",
        f"0 the client has left, {FAILED}",
    ),
    "doctor": Promise(NOTHING, NOTHING, PRINTED),
    "completion": Promise(NOTHING, NOTHING, PRINTED),
}  # fmt: skip


def promise(command: click.Command, name: str) -> None:
    """The end of a command's help, and of those below it."""
    found = PROMISES[name]
    lines = [f"Needs: {found.needs}.", f"Changes: {found.changes}."]
    if "exit codes:" not in (command.help or "").lower():
        lines.append(f"Exit codes: {found.codes}.")
    command.epilog = "\n\n".join(lines)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            below.epilog = command.epilog
