"""collective-library-agrees: environments of one path hold the same libraries on every machine."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster
from canserve.verdict import No, Verdict, Yes

OF_COLLECTIVES = "nvidia_nccl_"


def agrees(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``collective-library-agrees``."""
    held: dict[str, dict[str, Mapping[str, str]]] = {}
    for node in cluster.nodes:
        for environment in reader.read(node.machine.environments):
            held.setdefault(environment.path, {})[node.name] = dict(environment.packages)
    shared = {path: of for path, of in held.items() if len(of) == len(cluster.nodes)}
    if not shared:
        raise NotApplicable("no environment with an engine has the same path on every machine")
    for path, of in sorted(shared.items()):
        for package in sorted({name for packages in of.values() for name in packages}, key=_first):
            versions = {name: packages.get(package) for name, packages in of.items()}
            if len(set(versions.values())) > 1:
                said = ", ".join(f"{name} {version or 'none'}" for name, version in versions.items())
                return No(
                    f"{path}: {package} differs: {said}", f"install the same {package} in it on each machine"
                )
    path, of = min(shared.items())
    first = next(iter(of.values()))
    names = ", ".join(f"{name} {first[name]}" for name in sorted(first, key=_first))
    return Yes(f"{path} is the same on every machine: {names}")


def _first(package: str) -> tuple[bool, str]:
    """The collective library first: a difference there stops ranks before anything else does."""
    return not package.startswith(OF_COLLECTIVES), package


COLLECTIVE = ClusterCheck(
    "collective-library-agrees",
    "An environment that all machines have holds the same versions of the engine, torch, Ray and NCCL on each.",
    agrees,
    of_several=True,
)
