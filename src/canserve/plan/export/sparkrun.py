"""A recipe of sparkrun, version 2: one command for all machines, which sparkrun chooses and joins by itself.

Keys are those of sparkrun 0.4.2: RECIPES.md and core/recipe.py of https://github.com/spark-arena/sparkrun.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from canserve.commands.contained import LIMITS, SHARED_MEMORY, Contained, contained
from canserve.engines import ray
from canserve.engines.listening import listens
from canserve.plan.export.compose import image_of
from canserve.plan.export.exported import Exported, ExportError, Files, heading, plain
from canserve.plan.export.yaml_text import yaml_text
from canserve.plan.steps.starting import endpoint
from canserve.rules.exports import Runtime, sparkrun
from canserve.subjects.deployment import Deployment, Mount
from canserve.subjects.launch import Host

NAME = "recipe.yaml"
_CACHE = "HF_HOME"
"""sparkrun mounts a cache of its own there."""
_PLACEHOLDER = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}|\{\{")


def write(it: Exported) -> Files:
    """One recipe. Raises ExportError for what sparkrun has no runtime for."""
    image = image_of(it, "sparkrun")
    one = it.deployment
    over = "one" if len(one.sites) == 1 else "ray" if any(map(_rays, one.processes)) else "own"
    runtime = sparkrun(it.engine, over)
    if runtime is None:
        raise ExportError(
            f"sparkrun has no runtime for {it.engine} over {over}", "export to compose or shell"
        )
    held = [contained(one, image, number) for number in range(len(one.processes))]
    server = _server(one)
    kept, dropped = _environment(it, held)
    model = it.model if shlex.quote(it.model) == it.model else None
    notes = tuple(_notes(one, runtime, dropped))
    recipe: dict[str, Any] = {
        "recipe_version": "2",
        "description": plain(f"{it.model} with {it.build}"),
        "model": it.model,
        "runtime": runtime.name,
        "min_nodes": len(one.sites),
        "max_nodes": len(one.sites),
        "container": image.name,
        "defaults": _defaults(it, one),
        **({"env": kept} if kept else {}),
        "command": _command(held[server], runtime, _placeholders(it), model),
        "executor_config": _executor(one.given.mounts),
    }
    return Files({NAME: yaml_text(heading(it, "sparkrun", notes), [recipe])}, notes)


def _rays(process: Any) -> bool:
    return ray.starts(process.argv)


def _server(it: Deployment) -> int:
    """The process that answers requests: the one that the recipe's command starts."""
    found = (n for n, one in enumerate(it.processes) if listens(it.engine, one.argv).api is not None)
    return next(found, len(it.processes) - 1)


def _command(it: Contained, runtime: Runtime, addresses: Sequence[str], model: str | None) -> str:
    """``model``: a word that stands for sparkrun's own, which it may have brought elsewhere."""
    words = list(_without((it.entrypoint, *it.words), runtime.drops))
    for word in words:
        if unknown := [name for name in addresses if name in word]:
            raise ExportError(
                f"the command names an address that nobody knows: {unknown[0]}", "export to shell"
            )
        if _PLACEHOLDER.search(word):
            raise ExportError(
                f"sparkrun takes {word!r:.60} for a placeholder of its own", "export to compose or shell"
            )
    return " ".join("{model}" if word == model else shlex.quote(word) for word in words)


def _without(words: Sequence[str], flags: Sequence[str]) -> Iterator[str]:
    """The words but for these flags and their values."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in flags:
            skip = True
        elif word.partition("=")[0] not in flags:
            yield word


def _defaults(it: Exported, one: Deployment) -> dict[str, int]:
    """What sparkrun reckons with; the command holds the same."""
    answers, parallel = endpoint(one), it.placement.parallel
    degrees = {
        "tensor_parallel": parallel.tp,
        "pipeline_parallel": parallel.pp,
        "data_parallel": parallel.dp,
    }
    found = {name: degree for name, degree in degrees.items() if degree > 1 or name == "tensor_parallel"}
    return found | ({"port": answers[1]} if answers else {})


def _environment(it: Exported, held: Sequence[Contained]) -> tuple[dict[str, str], list[str]]:
    """Variables that are the same everywhere; and names of those that are not, or hold a machine's address."""
    names = list(dict.fromkeys(name for one in held for name in one.environment))
    kept: dict[str, str] = {}
    dropped: list[str] = []
    addresses = {*it.addresses.values(), *_placeholders(it), *_told(it)}
    for name in names:
        values = {one.environment[name] for one in held if name in one.environment}
        value = next(iter(values))
        same = len(values) == 1 and name != _CACHE and not any(address in value for address in addresses)
        if same:
            kept[name] = value
        else:
            dropped.append(name)
    return kept, dropped


def _placeholders(it: Exported) -> list[str]:
    """Names of addresses that are not known."""
    return [f"${Host(site.name).placeholder}" for site in it.sites]


def _told(it: Exported) -> set[str]:
    """Addresses under which Ray or a launcher starts."""
    argvs = [process.argv for process in it.deployment.processes]
    found = ray.address(argvs)
    return {found, found.rpartition(":")[0]} if found else set()


def _executor(mounts: Sequence[Mount]) -> Mapping[str, Any]:
    """What containers are given; sparkrun adds accelerators and RDMA by itself."""
    volumes = [f"{one.source}:{one.target}{':ro' if one.readonly else ''}" for one in mounts]
    return {
        "network": "host",
        "shm_size": SHARED_MEMORY,
        "ulimit": [f"{name}={value}" for name, value in LIMITS.items()],
        **({"volumes": volumes} if volumes else {}),
    }


def _notes(one: Deployment, runtime: Runtime, dropped: Sequence[str]) -> Iterator[str]:
    yield "which machines serve is chosen with sparkrun run --hosts or --cluster"
    if len(one.sites) > 1:
        flags = f" ({', '.join(runtime.drops)})" if runtime.drops else ""
        yield f"addresses and ranks are set by sparkrun{flags}"
    if dropped:
        yield f"set by sparkrun, or different on each machine: {', '.join(dropped)}"
    if any(site.devices != tuple(range(len(site.devices))) for site in one.sites):
        yield "which accelerators of a machine are used is chosen by sparkrun"
    secret = (*one.given.secrets, *one.given.secret_files)
    if secret:
        yield f"{', '.join(secret)}: env_file of the cluster in sparkrun; recipes hold no secrets"
