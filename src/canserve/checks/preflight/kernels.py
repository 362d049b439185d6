"""Whether the accelerator computes what engines need of it, with what the environment or image brings."""

from __future__ import annotations

from canserve.checks.preflight.question import PreflightCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.cluster import Cluster
from canserve.subjects.preflight import Preflight
from canserve.verdict import No, Unknown, Verdict, Yes

_CLAIMS = {
    "bfloat16": ("product-in-bfloat16", "A matrix product in bfloat16 gives the right result."),
    "float16": ("product-in-float16", "A matrix product in float16 gives the right result."),
    "float32": ("product-in-float32", "A matrix product in float32 gives the right result."),
    "triton": ("triton-compiles-here", "Triton compiles a kernel for this GPU, and it runs."),
    "fp8": (
        "product-in-fp8-blocks",
        "A product of FP8 matrices with a scale per block gives the right result.",
    ),
    "fp8-scaled": (
        "product-in-fp8-scaled",
        "A product of FP8 matrices with one scale each gives the right result.",
    ),
    "fp4": (
        "product-in-fp4-blocks",
        "A product of FP4 matrices with a scale per block gives the right result.",
    ),
    "mxfp4": (
        "product-in-mxfp4",
        "A product with weights of MXFP4, unpacked on the way, gives the right result.",
    ),
    "int4": (
        "product-in-int4-groups",
        "A product with weights of four bits in groups, unpacked on the way, gives the right result.",
    ),
    "int8": ("product-in-int8", "A product of 8-bit integers gives exactly the right result."),
}


def _kernel(kernel: str, name: str, claim: str) -> PreflightCheck:
    def run(reader: Reader, cluster: Cluster, flight: Preflight) -> Verdict:
        del reader, cluster
        tried = [each for each in flight.kernels if each.name == kernel]
        if not tried and kernel not in flight.asked:
            raise NotApplicable("it was not tried: nothing asked for it")
        if failed := [each for each in tried if each.state in {"failed", "stalled"}]:
            said = "; ".join(f"{each.node}: {each.state}: {each.said}" for each in failed)
            return No(
                said, "take a build that was made for this GPU, or another that does without this kernel"
            )
        if tried and all(each.state == "absent" for each in tried):
            raise NotApplicable("; ".join(dict.fromkeys(each.said for each in tried)))
        nodes = {rank.node for rank in flight.ranks}
        if len({each.node for each in tried}) < len(nodes) or any(e.state == "cut" for e in tried):
            return Unknown("it was not tried, or not to its end, on every machine", "see ranks-start")
        return Yes(f"on {', '.join(each.node for each in tried if each.state == 'done')}")

    return PreflightCheck(name, claim, run)


KERNELS = tuple(_kernel(kernel, name, claim) for kernel, (name, claim) in _CLAIMS.items())
