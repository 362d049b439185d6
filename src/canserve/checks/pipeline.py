"""pipeline-supported: whether the model's class can be cut into stages, and its draft class too."""

from __future__ import annotations

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.gates import look, resolved
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.speculative import draft_classes, uses_own_layers
from canserve.subjects.build import ModelClass
from canserve.verdict import No, Unknown, Verdict, Yes

INTERFACE = "supports_pp"


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``pipeline-supported``."""
    stages = case.wish.pipeline_parallel
    if stages < 2:
        raise NotApplicable("no pipeline parallelism was asked for")
    way, _ = route(reader, case)
    if way is None:
        raise NotApplicable("the build has no class for this model")
    if way.way not in ("native", "converted"):
        return Unknown(
            f"{way.served_by} runs transformers' own class, whose plan for pipeline stages was not read",
            "start it once, or use tensor parallelism alone",
        )
    found = resolved(reader, case, way.served_by)
    if found is None:
        return No(f"{way.served_by} does not exist in this build", "use another build")
    verdict = _judge_class(reader, case, found, stages)
    if isinstance(verdict, Yes) and uses_own_layers(case):
        return _with_drafts(reader, case, stages, verdict)
    return verdict


def _with_drafts(reader: Reader, case: Case, stages: int, verdict: Yes) -> Verdict:
    """The draft class runs in the same stages, so it has to be able to as well."""
    for name in draft_classes(reader, case):
        found = resolved(reader, case, name)
        if found is not None and not isinstance(one := _judge_class(reader, case, found, stages), Yes):
            return one
    return verdict


def _judge_class(reader: Reader, case: Case, found: ModelClass, stages: int) -> Verdict:
    says = found.interfaces.get(INTERFACE)
    reader.cite((look(case, str(found.at), f"{found.name}: {INTERFACE} {says}"),))
    if says is None:
        return Unknown(
            f"whether {found.name} can be cut into {stages} pipeline stages is not written in its class",
            "start it once, or use tensor parallelism alone",
        )
    if says:
        return Yes(f"{found.name} supports pipeline parallelism")
    return No(
        f"{found.name} does not support pipeline parallelism in this build",
        "use tensor parallelism alone: leave --pipeline-parallel-size out",
    )


CHECK = Check(
    "pipeline-supported",
    "The class that serves the model can be cut into pipeline stages.",
    run,
)
