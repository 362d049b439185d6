"""Machines looked at and judged: what is there, what passes between them, and whether they can serve together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from canserve.api import Options, SpecError, read_nodes
from canserve.subjects.cluster import Cluster
from canserve.verdict import Finding, Skipped, Verdict, worst

if TYPE_CHECKING:
    from canserve.probes.preflight import Wanted


@dataclass(frozen=True, slots=True)
class Links:
    """What is tried between the machines."""

    bandwidth: bool = False
    """Whether one stream after the other is measured, for a second each."""


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """Machines, judged by themselves and together."""

    cluster: Cluster
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings; unknown where nothing could be judged."""
        return worst(self.findings)


def machines(spec: str, options: Options | None = None, links: Links | None = None) -> MachinesReport:
    """Every machine that ``spec`` stands for; with ``links`` each tries the addresses of the others.

    Raises SpecError for what does not exist; what cannot be read on a machine is Missing in it.
    """
    options = options or Options()
    cluster = Cluster(spec, read_nodes(spec, options))
    if links is not None:
        from canserve.probes.links import with_links
        from canserve.probes.live import Way

        way = Way(options.offline, options.progress)
        cluster = with_links(cluster, way, bandwidth=links.bandwidth)
    from canserve.checks.machines import judge

    return MachinesReport(cluster, *judge(cluster))


def preflown(report: MachinesReport, wanted: Wanted, options: Options | None = None) -> MachinesReport:
    """The same machines after a preflight in these environments or images, with its findings beside the others."""
    from canserve.checks.preflight import judge
    from canserve.probes.live import Way
    from canserve.probes.preflight import with_preflight

    options = options or Options()
    cluster = with_preflight(report.cluster, wanted, Way(options.offline, options.progress))
    found, skipped = judge(cluster)
    return MachinesReport(cluster, (*report.findings, *found), (*report.skipped, *skipped))


def needing(wanted: Wanted, plan: Path, options: Options | None = None) -> Wanted:
    """The same preflight with the kernels that a saved plan's first plan needs. Raises SpecError."""
    from canserve.api import read_model
    from canserve.plan.file import MAX_BYTES, PlanError, read_plans
    from canserve.plan.kernels import needed

    options = options or Options()
    try:
        with plan.open(encoding="utf-8") as file:
            plans = read_plans(file.read(MAX_BYTES + 1))
    except (OSError, UnicodeDecodeError, PlanError) as error:
        raise SpecError(f"--plan {plan}: {error}", "canserve plan ... --save FILE writes one") from error
    if not plans.plans:
        raise SpecError(f"--plan {plan}: it holds no plan", "canserve plan ... --save FILE writes one")
    best = plans.plans[0]
    needs = needed(read_model(best.model, options), best.options)
    if options.progress is not None:
        options.progress("; ".join(f"{need.kernel}: {need.because}" for need in needs))
    return replace(wanted, kernels=tuple(need.kernel for need in needs))


def preflight_script(report: MachinesReport, wanted: Wanted) -> str:
    """What ``preflown`` would run, word for word; raises SpecError where it could not run."""
    from canserve.facts import Missing
    from canserve.probes.preflight import dry, prepared

    run = prepared(report.cluster, wanted)
    if isinstance(run, Missing):
        raise SpecError(run.why, run.ask or "")
    return dry(run, report.cluster.nodes)
