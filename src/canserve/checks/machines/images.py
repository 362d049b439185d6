"""image-same-digest: one image name stands for the same content on every machine."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.verdict import No, Verdict, Yes


def same(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``image-same-digest``."""
    used = {name for node in cluster.nodes for name in _used(reader, node)}
    if not used:
        raise NotApplicable("no container with accelerators runs, so that no image of theirs can differ")
    held: dict[str, dict[str, str]] = {}
    for node in cluster.nodes:
        for image in reader.read(node.machine.images):
            for name in used & {_full(name) for name in image.names}:
                held.setdefault(name, {}).setdefault(node.name, image.digest)
    several = {name: of for name, of in held.items() if len(of) > 1}
    if not several:
        raise NotApplicable(f"{min(used)} lies on one machine only: it has to be copied to the others")
    for name, of in sorted(several.items()):
        if len(set(of.values())) > 1:
            said = ", ".join(f"{node} {digest[:19]}" for node, digest in of.items())
            return No(
                f"{name} is not the same everywhere: {said}",
                f"copy it from one of them: docker save {name} | ssh HOST docker load",
            )
    name, of = min(several.items())
    return Yes(f"{name} is {next(iter(of.values()))[:19]} on {', '.join(of)}")


def _used(reader: Reader, node: Node) -> set[str]:
    """Names of images from which containers with accelerators run."""
    running = reader.read(node.machine.containers)
    return {_full(c.image) for c in running if c.confines is not None and c.confines.accelerators}


def _full(name: str) -> str:
    """With the tag that a name without one stands for."""
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


IMAGES = ClusterCheck(
    "image-same-digest",
    "The image of a running container with accelerators has the same content wherever it lies under its name.",
    same,
    of_several=True,
)
