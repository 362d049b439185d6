"""``canserve completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

from canserve.cli import COMPLETE
from canserve.cli.output import emit


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """The completion script of a shell.

    It asks canserve itself for commands, options and values as they are typed: checks, releases, machines of the
    profiles, runs of the journal. Nothing is looked up anywhere else.

    \b
    canserve completion bash > ~/.local/share/bash-completion/completions/canserve
    canserve completion zsh > ~/.zfunc/_canserve
    canserve completion fish > ~/.config/fish/completions/canserve.fish
    """
    from click.shell_completion import get_completion_class

    import canserve.cli.completing  # noqa: F401 - brings bash's form of it

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root()
    emit(f"{found(root.command, {}, 'canserve', COMPLETE).source()}\n")
    return 0
