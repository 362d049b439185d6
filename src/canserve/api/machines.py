"""Machines looked at and judged: what is there, what passes between them, and whether they can serve together."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.api import Options, read_nodes
from canserve.subjects.cluster import Cluster
from canserve.verdict import Finding, Skipped, Verdict, worst


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
