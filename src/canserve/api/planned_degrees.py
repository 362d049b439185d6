"""The degrees that plans are made for: those of the wishes and those that engine options name, brought together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from canserve.api import SpecError
from canserve.checks.asked_degrees import DATA, EVERY, EXPERTS, PIPELINE, TENSOR, Named, named
from canserve.checks.case import Wish
from canserve.layout import Fixed
from canserve.plan.wishes import Wishes

LEAVE = "leave one of them out"
DECIDED = {
    "model": "name it as MODEL",
    "model_path": "name it as MODEL",
    **dict.fromkeys(
        ("nnodes", "node_rank", "master_addr", "master_port", "dist_init_addr", "headless",
         "data_parallel_size_local", "data_parallel_start_rank", "data_parallel_address",
         "data_parallel_rpc_port"),
        "name the machines with --on",
    ),
}  # fmt: skip
"""Options that a plan writes itself, and how they are asked for."""


def asked_for(wishes: Wishes, options: Wish, gpus: int) -> Wishes:
    """The wishes with what the build's own options name; ``gpus``: of all machines.

    Where anything names a degree as engines read it, those that nothing names are 1. Raises SpecError for a size
    that is none, and for two that contradict each other.
    """
    flags = _counted(_read(options))
    fixed = wishes.fixed
    tp = _one("tp", fixed.tp, flags.tp, TENSOR)
    pp = _one("pp", fixed.pp, flags.pp, PIPELINE)
    dp = _one("dp", fixed.dp, flags.dp, DATA)
    ep = _one("ep", fixed.ep, flags.ep, EXPERTS)
    spread = wishes.spread or flags.spread or flags.own
    if not (wishes.alone or any(flags.sizes)):
        return replace(wishes, fixed=Fixed(tp, pp, dp, ep), spread=spread and gpus > 1)
    tp, pp, dp = tp or 1, pp or 1, dp or 1
    if spread:
        ep = _one("ep", ep, tp if flags.own else tp * dp, ("enable-expert-parallel",))
    return replace(wishes, fixed=Fixed(tp, pp, dp, ep or 1), spread=False)


def refuse_decided(options: Iterable[str]) -> None:
    """Raises SpecError for an option that a plan writes itself."""
    for name in options:
        if name in DECIDED:
            raise SpecError(f"the plan writes {name} itself", DECIDED[name])


def refuse(options: Iterable[str]) -> None:
    """A change to compare with keeps the layout. Raises SpecError for an option that would change it."""
    refuse_decided(options)
    for name in options:
        if f"--{name.replace('_', '-')}" in EVERY:
            raise SpecError(f"a what-if keeps the layout, and {name} changes it", "plan once for each layout")


def _read(options: Wish) -> Named:
    try:
        return named(options)
    except ValueError as error:
        raise SpecError(str(error)) from error


def _counted(flags: Named) -> Named:
    """With a tensor parallel size that counts the ranks of one replica."""
    if not flags.attention or (flags.dp or 1) == 1:
        return flags
    whole = flags.filled()
    if whole is None:
        raise SpecError(
            "attention alone data parallel is planned only where the experts are spread over all ranks of it",
            f"ep_size={flags.tp or 1}, and a tp_size that dp_size divides",
        )
    return replace(flags, tp=whole.tp, dp=whole.dp, ep=whole.ep)


def _one(name: str, asked: int | None, option: int | None, flags: tuple[str, ...]) -> int | None:
    """Of two names of one degree the one that was given. Raises SpecError where they differ."""
    if asked is not None and option is not None and asked != option:
        flag = flags[0].lstrip("-").replace("-", "_")
        raise SpecError(
            f"{name} {asked} was asked for, and the engine option {flag} makes it {option}", LEAVE
        )
    return option if asked is None else asked
