"""A report of candidates as the shapes of the JSON output."""

from __future__ import annotations

from canserve.api.candidates import Candidate, CandidatesReport, needs
from canserve.facts import Missing
from canserve.plan.offers.travel import Travel
from canserve.render.candidates_shapes import CandidateShape, CandidatesShape, TravelShape
from canserve.render.structure import build_verdict, model_summary
from canserve.verdict import No, Unknown, Yes, word


def candidates_output(report: CandidatesReport) -> CandidatesShape:
    """All of it."""
    return CandidatesShape(
        version=1,
        model=model_summary(report.model),
        verdict=word(report.verdict),
        because=report.verdict.because,
        weights={name: _travel(travel) for name, travel in report.weights},
        candidates=tuple(map(_candidate, report.candidates)),
        without_engine=report.without_engine,
        left_out=report.left_out,
        unheard=report.unheard,
        cost=report.cost,
    )


def _candidate(candidate: Candidate) -> CandidateShape:
    offer, verdict, build = candidate.offer, candidate.verdict, candidate.build
    return CandidateShape(
        build=offer.target,
        source=offer.source,
        also=offer.also,
        note=offer.note,
        on=offer.on,
        digests=tuple(sorted(offer.digests)),
        date=candidate.date,
        engine=None if isinstance(build, Missing) else build.identity.engine,
        engine_version=build if isinstance(build, Missing) else build.identity.version,
        verdict=word(verdict),
        blocking=None if isinstance(verdict, Yes) else candidate.blocking,
        because=verdict.because,
        fix=verdict.fix if isinstance(verdict, No) else None,
        ask=verdict.ask if isinstance(verdict, Unknown) else None,
        needs=needs(candidate) if isinstance(verdict, Yes) else (),
        travel={name: _travel(travel) for name, travel in candidate.travel},
        reports=tuple(map(build_verdict, candidate.reports)),
    )


def _travel(travel: Travel) -> TravelShape:
    return TravelShape(
        bytes=None if travel.exact is None else travel.exact.count,
        at_least=travel.least.count,
        at_most=None if travel.most is None else travel.most.count,
        because=travel.why,
    )
