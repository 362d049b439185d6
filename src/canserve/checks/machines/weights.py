"""weights-same-content: one model is the same revision, and complete, wherever it lies."""

from __future__ import annotations

from canserve.checks.machines.question import ClusterCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster
from canserve.subjects.host import CachedModel
from canserve.verdict import No, Unknown, Verdict, Yes


def same(reader: Reader, cluster: Cluster) -> Verdict:
    """The verdict of ``weights-same-content``."""
    held: dict[str, dict[str, CachedModel]] = {}
    for node in cluster.nodes:
        for model in reader.read(node.machine.cached_models):
            held.setdefault(model.name, {})[node.name] = model
    several = {name: of for name, of in sorted(held.items()) if len(of) > 1}
    if not several:
        raise NotApplicable("no model lies on more than one machine")
    doubts: list[Unknown] = []
    for name, of in several.items():
        verdict = _one(name, of)
        if isinstance(verdict, No):
            return verdict
        doubts += [verdict] if isinstance(verdict, Unknown) else []
    return doubts[0] if doubts else Yes(f"the same on every machine that has it: {', '.join(several)}")


def _one(name: str, of: dict[str, CachedModel]) -> Verdict:
    """Of one model. One that lies complete nowhere is being fetched, or was given up: nobody serves it."""
    if not any(model.complete for model in of.values()):
        return Yes(f"{name} is complete nowhere")
    for node, model in of.items():
        if not model.complete:
            return No(f"{name}: {model.why} on {node}", f"copy it to {node} again, or fetch it there")
    revisions = {node: model.revision for node, model in of.items()}
    if None in revisions.values():
        sizes = {model.bytes for model in of.values()}
        if None not in sizes and len(sizes) > 1:
            said = ", ".join(f"{node} {model.bytes}" for node, model in of.items())
            return No(f"{name} has different sizes: {said}", "copy it from one of them: rsync -a --checksum")
        return Unknown(
            f"{name}: a folder has no revision that could be compared", f"compare there: sha256sum {name}/*"
        )
    if len(set(revisions.values())) > 1:
        said = ", ".join(f"{node} {str(revision)[:12]}" for node, revision in revisions.items())
        return No(f"{name} is of different revisions: {said}", "fetch the same revision on every machine")
    return Yes(f"{name}: revision {str(next(iter(revisions.values())))[:12]}")


WEIGHTS = ClusterCheck(
    "weights-same-content",
    "A model that lies on several machines is of one revision there, and complete.",
    same,
    of_several=True,
)
