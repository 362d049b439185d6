"""A verification as the shapes of the JSON output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from canserve.api.verifying import VerifyReport
from canserve.checks.served import rates
from canserve.facts import Fact, Known
from canserve.render.structure import finding_output
from canserve.render.verify_shapes import (
    ExpectedShape,
    SampleShape,
    SpeedsShape,
    SpreadShape,
    StepShape,
    VerifyShape,
)
from canserve.subjects.served import Answer, Expected, Reply, Speeds, Step
from canserve.verdict import word


def verify_output(report: VerifyReport) -> VerifyShape:
    """A whole report."""
    served = report.served
    return VerifyShape(
        version=1,
        url=served.subject,
        model=served.model or None,
        context=served.context.value if isinstance(served.context, Known) else None,
        verdict=word(report.verdict),
        because=report.verdict.because,
        findings=tuple(finding_output(finding) for finding in report.findings),
        skipped=report.skipped,
        notes=report.notes,
        speeds=_speeds(report.speeds, served.expected) if report.speeds else None,
    )


def _speeds(speeds: Speeds, expected: Fact[Expected]) -> SpeedsShape:
    return SpeedsShape(
        decode_tok_s=_spread(rates.decode(speeds)),
        first_token_s=_spread(rates.first(speeds)),
        between_pieces_s=_spread(rates.spread(rates.between(speeds.alone))),
        prefill_tok_s=_spread(rates.prefill(speeds)),
        ramp=tuple(_step(step) for step in speeds.ramp),
        ramp_ended=speeds.ended,
        generator_ceiling_tok_s=rates.CEILING,
        expected=_expected(expected.value) if isinstance(expected, Known) else None,
        samples=tuple(_samples(speeds)),
        imported=speeds.imported or None,
    )


def _expected(plan: Expected) -> ExpectedShape:
    return ExpectedShape(plan.decode, plan.decode_bound, plan.prefill, plan.limit)


def _spread(found: rates.Spread | None) -> SpreadShape | None:
    if found is None:
        return None
    return SpreadShape(round(found.median, 6), round(found.low, 6), round(found.high, 6), found.count)


def _step(step: Step) -> StepShape:
    firsts = [seconds for reply in step.replies if (seconds := rates.first_token(reply)) is not None]
    made = rates.throughput(step)
    return StepShape(
        step.concurrency,
        round(step.seconds, 4),
        None if made is None else round(made, 3),
        _spread(rates.spread(firsts)),
        _spread(rates.spread(rates.between(step.replies))),
        rates.failed(step),
    )


def _samples(speeds: Speeds) -> Iterator[SampleShape]:
    for of, replies in (
        ("decode", speeds.alone),
        ("short prompt", speeds.short),
        ("long prompt", speeds.long),
    ):
        yield from _of(of, 1, replies)
    for step in speeds.ramp:
        yield from _of("ramp", step.concurrency, step.replies)


def _of(of: str, concurrency: int, replies: Iterable[Reply]) -> Iterator[SampleShape]:
    for reply in replies:
        if isinstance(reply, Answer):
            times = tuple(round(when, 5) for when in reply.arrivals)
            yield SampleShape(
                of,
                concurrency,
                True,
                round(reply.seconds, 5),
                reply.prompt_tokens,
                reply.completion_tokens,
                times,
            )
        else:
            yield SampleShape(of, concurrency, False, round(reply.seconds, 5), None, None, ())
