"""image-same-digest: one image name stands for the same content on every machine."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import HeldImage
from canserve.verdict import No, Unknown, Verdict, Yes


def same(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``image-same-digest``."""
    used = {name for node in cluster.nodes for name in _used(reader, node)}
    if not used:
        raise NotApplicable("no container with accelerators runs, so that no image of theirs can differ")
    held: dict[str, dict[str, HeldImage]] = {}
    for node in cluster.nodes:
        for image in reader.read(node.machine.images):
            for name in used & {_full(name) for name in image.names}:
                held.setdefault(name, {}).setdefault(node.name, image)
    several = {name: of for name, of in held.items() if len(of) > 1}
    if not several:
        raise NotApplicable(f"{min(used)} lies on one machine only: it has to be copied to the others")
    found = [_one(name, of) for name, of in sorted(several.items())]
    return next((it for kind in (No, Unknown) for it in found if isinstance(it, kind)), found[0])


def _one(name: str, of: Mapping[str, HeldImage]) -> Verdict:
    """Of one name.

    Engines that keep manifests know an image by its manifest's digest, the others by its config's: where they differ
    it is one image all the same if it was pulled as one, and may be if its layers are the same.
    """
    digests = {image.digest for image in of.values()}
    if len(digests) == 1:
        return Yes(f"{name} is {digests.pop()[:19]} on {', '.join(of)}")
    pulled = [{each.rpartition("@")[2] for each in image.repository_digests} for image in of.values()]
    if common := set.intersection(*pulled):
        return Yes(f"{name} was pulled as {min(common)[:19]} on {', '.join(of)}")
    said = ", ".join(f"{node} {image.digest[:19]}" for node, image in of.items())
    layers = {image.layers for image in of.values()}
    if len(layers) == 1 and None not in layers:
        return Unknown(
            f"{name} has the same layers everywhere, but other digests: {said}",
            f"compare how it is started on each: docker image inspect -f '{{{{json .Config}}}}' {name}",
        )
    return No(
        f"{name} is not the same everywhere: {said}",
        f"copy it from one of them: docker save {name} | ssh HOST docker load",
    )


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
