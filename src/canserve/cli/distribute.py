"""``canserve distribute``: an image and weights on every machine, verified there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canserve.cli.output import Progress, emit, format_option, look, quiet_option

if TYPE_CHECKING:
    from canserve.api.distributing import Wanted


@click.command("distribute")
@click.argument(
    "plan", metavar="[PLAN]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--image", metavar="IMAGE", help="An image that a machine holds, or docker://HOST/NAME:TAG.")
@click.option("--weights", metavar="FOLDER", help="/PATH here or MACHINE:/PATH; also a model of a Hub cache.")
@click.option("--into", metavar="PATH", help="Folder of the weights on the other machines.")
@click.option(
    "--to",
    "targets",
    multiple=True,
    required=True,
    metavar="MACHINE",
    help="A cluster file, or an ssh destination.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Print what would be run, and copy nothing.")
@format_option("text", "json")
@quiet_option
def command(**chosen: Any) -> int:
    """Bring an image and weights to all machines that are to serve.

    From whichever machine holds them, straight over the network of the cluster file where there is one, else through this
    machine; only the layers and files that differ; on after a cut; each verified by its digest where it arrived. Needs
    python3 on the machines. What passes straight between two machines is not encrypted.

    \b
    canserve distribute --image docker-daemon:vllm/vllm-openai:v0.17.1@spark-a --to cluster.toml
    canserve distribute --weights spark-a:/models/Qwen3.5-122B-A10B-FP8 --to cluster.toml
    canserve distribute plan.json --to cluster.toml --dry-run
    """
    return run(Asked(**chosen))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call."""

    plan: Path | None
    image: str | None
    weights: str | None
    into: str | None
    targets: tuple[str, ...]
    dry: bool
    form: str
    quiet: bool


def run(asked: Asked) -> int:
    """Copy, print, and give the exit code."""
    from canserve.api import Options
    from canserve.api.distributing import distribute

    wanted = _wanted(asked)
    with Progress(asked.quiet) as progress:
        found = distribute(wanted, asked.targets, Options(progress=progress), dry=asked.dry)
    if asked.form == "json":
        from canserve.render.structure import to_json
        from canserve.render.transfer_shapes import distribute_output

        emit(to_json(distribute_output(found, asked.dry)))
    else:
        from canserve.render.transfer_text import transfer_text

        emit(transfer_text(found, look(), asked.dry))
    return 1 if any(one.problem is not None for one in found) else 0


def _wanted(asked: Asked) -> Wanted:
    from canserve.api.distributing import Wanted

    image, weights = asked.image, asked.weights
    if asked.plan is not None:
        from canserve.plan.file import PlanError, read_plans

        try:
            plans = read_plans(asked.plan.read_text("utf-8", "replace"))
        except PlanError as error:
            raise click.UsageError(f"{asked.plan}: {error}") from None
        if not plans.plans:
            raise click.UsageError(f"{asked.plan}: no plan is in it")
        best = plans.plans[0]
        if image is None and best.build.startswith(("docker", "podman:", "containers-storage:")):
            image = best.build
        if weights is None and Path(best.model).is_dir():
            weights = best.model
    if image is None and weights is None:
        raise click.UsageError("Nothing to distribute: name --image, --weights, or a PLAN of an image.")
    return Wanted(image, weights, asked.into)
