"""``verify``: whether an endpoint really serves, by findings of the same type as ``check``'s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.api import SpecError
from canserve.api.promised import expected_of
from canserve.checks.served import CHECKS, rates
from canserve.facts import Fact, Known
from canserve.plan.file import MAX_BYTES, PlanError, read_plans
from canserve.subjects.served import NOT_ASKED, Expected, Served, Speeds
from canserve.trees.secret import Secret
from canserve.verdict import Finding, Skipped, Verdict, worst
from canserve.verify.client import key_from
from canserve.verify.ledger import Ledger
from canserve.verify.limits import QUICK, Limits
from canserve.verify.probe import Wanted, ask_all
from canserve.verify.samples import MAX_BYTES as MOST_SAMPLES
from canserve.verify.samples import SamplesError, read_samples, write_samples
from canserve.verify.target import Endpoint, TargetError, endpoint

EXPECTABLE = ("tools", "reasoning", "schema", "logprobs", "metrics", "dummy")
"""What a deployment may be expected to offer, or to be."""
MOST_KEY_BYTES = 8192


@dataclass(frozen=True, slots=True)
class VerifyWishes:
    """What the user wishes beyond the address."""

    model: str | None = None
    """The name in requests; None: the first that the server lists."""
    plan: Path | None = None
    """A saved plan, whose speeds and flags are compared."""
    expect: frozenset[str] = frozenset()
    """Of ``EXPECTABLE``: what is a no, where it is not offered."""
    context: int | None = None
    """Tokens of the longest sequence, where the server does not say it."""
    key: Secret | None = None
    certificates: Path | None = None
    quick: bool = False
    seconds: float | None = None
    """For everything."""
    patience: float | None = None
    """Seconds for one answer."""
    wait: float = 0.0
    """Seconds for a server that is still starting."""
    samples: Path | None = None
    """A file of samples measured before, by this or another tool, to be judged in place of new ones."""
    limits: Limits | None = None
    """All bounds at once; None: the usual ones."""
    progress: Callable[[str], None] | None = None
    ledger: Ledger | None = None
    """Is told of every part, request and rank, for whoever wants to see them; None: nobody does."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """One endpoint, judged."""

    served: Served
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()
    """What the user should know beside the findings."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings."""
        return worst(self.findings)

    @property
    def speeds(self) -> Speeds | None:
        """What was measured; None: nothing."""
        return self.served.speeds.value if isinstance(self.served.speeds, Known) else None


def verify(url: str, wishes: VerifyWishes | None = None) -> VerifyReport:
    """Ask the endpoint and judge what it answers.

    Raises SpecError for an address, a key or a plan that cannot be used; whatever the server does is a finding.
    """
    wishes = wishes or VerifyWishes()
    try:
        place = endpoint(url, wishes.key)
    except TargetError as error:
        raise SpecError(str(error), error.hint) from error
    return verify_endpoint(place, wishes)


def verify_endpoint(
    place: Endpoint,
    wishes: VerifyWishes,
    expected: Fact[Expected] | None = None,
    ended: Fact[tuple[str, ...]] = NOT_ASKED,
) -> VerifyReport:
    """The same of an endpoint that is known. ``expected``: where no plan is named; ``ended``: of a deployment."""
    unknown = wishes.expect - set(EXPECTABLE)
    if unknown:
        raise SpecError(f"{min(unknown)!r} cannot be expected", f"one of {', '.join(EXPECTABLE)}")
    expected = _expected(wishes.plan) if wishes.plan is not None else expected
    planned = expected.value.wants if isinstance(expected, Known) else frozenset()
    wanted = Wanted(
        place,
        _limits(wishes),
        wishes.model,
        wishes.context,
        wishes.expect | planned,
        expected,
        ended,
        str(wishes.certificates) if wishes.certificates else None,
        wishes.wait,
        _samples(wishes.samples) if wishes.samples is not None else None,
        tell=wishes.progress or (lambda _: None),
        ledger=wishes.ledger or Ledger(),
    )
    report = judged(ask_all(wanted))
    return replace(report, notes=tuple(_notes(report, place)))


def _notes(report: VerifyReport, place: Endpoint) -> Iterator[str]:
    if place.key is not None and place.exposes_key:
        yield "the key went over the network unencrypted: the address is not https"
    models = report.served.models
    if report.served.asked_for is None and isinstance(models, Known) and len(models.value) > 1:
        yield f"the server lists {len(models.value)} models; --model names another than {report.served.model}"
    if report.speeds is not None and rates.limited(report.speeds.ramp):
        yield f"the load generator itself takes about {rates.CEILING:,.0f} tok/s: the server may take more"


def judged(served: Served) -> VerifyReport:
    """Every check of an endpoint that was asked."""
    each = [check.judge(served) for check in CHECKS]
    found = tuple(one for one in each if isinstance(one, Finding))
    return VerifyReport(served, found, tuple(one for one in each if isinstance(one, Skipped)))


def exported(report: VerifyReport, date: str) -> str:
    """Its samples in the form of other tools, a line for each step; empty where nothing was measured."""
    return "" if report.speeds is None else write_samples(report.speeds, report.served.model, date)


def read_key(path: Path) -> Secret | None:
    """The key in a file. Raises SpecError where there is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_KEY_BYTES + 1)
    except OSError as error:
        raise SpecError(f"--key-file {path}: {error.strerror or error}") from error
    if len(text) > MOST_KEY_BYTES:
        raise SpecError(
            f"--key-file {path}: larger than {MOST_KEY_BYTES} bytes", "a file that holds the key alone"
        )
    key = key_of(text.decode("utf-8", "replace"), f"--key-file {path}")
    if key is None:
        raise SpecError(f"--key-file {path}: it is empty", "a file that holds the key alone")
    return key


def key_of(text: str, where: str) -> Secret | None:
    """A key from a text; None: it is empty. Raises SpecError."""
    try:
        return key_from(text)
    except ValueError as error:
        raise SpecError(f"{where}: {error}", "the key alone, on one line") from error


def _limits(wishes: VerifyWishes) -> Limits:
    limits = wishes.limits or (QUICK if wishes.quick else Limits())
    if wishes.seconds is not None:
        limits = replace(limits, total=wishes.seconds)
    return limits if wishes.patience is None else replace(limits, patience=wishes.patience)


def _samples(path: Path) -> Speeds:
    """Samples from a file. Raises SpecError."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_SAMPLES + 1).decode("utf-8", "replace")
        return read_samples(text, str(path))
    except OSError as error:
        raise SpecError(f"--samples {path}: {error.strerror or error}") from error
    except SamplesError as error:
        raise SpecError(f"--samples {path}: {error}") from error


def _expected(path: Path) -> Fact[Expected]:
    """What the best plan of a file promises. Raises SpecError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8", "replace")
        plans = read_plans(text)
    except OSError as error:
        raise SpecError(f"--plan {path}: {error.strerror or error}") from error
    except PlanError as error:
        raise SpecError(f"--plan {path}: {error}", "canserve plan ... --save FILE writes one") from error
    if not plans.plans:
        raise SpecError(f"--plan {path}: it holds no plan", "canserve plan ... --save FILE writes one")
    return expected_of(plans.plans[0], str(path))
