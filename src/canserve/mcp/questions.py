"""The tools that only read and look."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canserve.api import Options, SpecError
from canserve.mcp import arguments as takes
from canserve.mcp.answers import NoSuchPartError
from canserve.mcp.asking import Asking, Done, Tool
from canserve.render.plain import plain
from canserve.verdict import Verdict, word

if TYPE_CHECKING:
    from canserve.api.running import Found


def judged(shape: object, verdict: Verdict, following: str = "") -> Done:
    """A shape of the JSON output, with its verdict."""
    return Done(plain(shape), word(verdict), verdict.because, following)


def check(it: takes.Check, asking: Asking) -> Done:
    """``api.check``."""
    from canserve.api import check as api_check
    from canserve.render.structure import check_output

    options = Options(it.offline, tuple(it.flags), it.arch, it.transformers, asking.tell)
    model, builds = it.model, tuple(it.builds)
    if it.recipe is not None:
        from canserve.api.recipes import builds_of, load, model_of, options_with, with_table

        loaded = load((it.recipe,))
        builds = builds_of(loaded, builds, (it.on,) if it.on else ())
        loaded = loaded if model is not None else with_table(loaded, builds, options)
        model = model_of(loaded.recipe, model)
        options = options_with(options, loaded.recipe)
    if model is None:
        raise SpecError("no model", "name `model`, or a `recipe` that names one")
    report = api_check(model, builds, on=it.on, options=options)
    return judged(check_output(report), report.verdict)


def candidates(it: takes.Candidates, asking: Asking) -> Done:
    """``api.candidates``."""
    from canserve.api.candidates import Sought
    from canserve.api.candidates import candidates as api_candidates
    from canserve.probes.offers.gathering import Named
    from canserve.render.candidates_structure import candidates_output

    sought = Sought(Named(tuple(it.builds)), seconds=it.seconds)
    options = Options(it.offline, progress=asking.tell)
    report = api_candidates(it.model, on=it.on, sought=sought, options=options)
    return judged(candidates_output(report), report.verdict)


def plan(it: takes.Plan, asking: Asking) -> Done:
    """``api.planning.plan``."""
    from canserve.api.planning import Asked
    from canserve.api.planning import plan as api_plan
    from canserve.layout import Fixed
    from canserve.plan.wishes import Wishes, read_options
    from canserve.render.plan_structure import plans_output

    try:
        options = read_options(it.engine_args)
    except ValueError as error:
        raise SpecError(f"engine_args: {error}", "NAME=VALUE, under the engine's own names") from error
    alone = any((it.tp, it.pp, it.dp))
    fixed = Fixed(it.tp, it.pp, it.dp, None)
    wishes = Wishes(it.goal, it.context, it.concurrency, fixed, alone, options=options)
    asked = Asked(tuple(it.on), tuple(it.builds), wishes=wishes)
    report = api_plan(it.model, asked, Options(it.offline, progress=asking.tell))
    following = "`up` takes the address of this answer as its plan" if report.plans.plans else ""
    return judged(plans_output(report.plans), report.verdict, following)


def since(it: takes.Since, asking: Asking) -> Done:
    """``api.released.since``."""
    from canserve.api.released import UnknownNameError, UnreadModelError
    from canserve.api.released import since as api_since
    from canserve.render.released_structure import since_output

    try:
        report = api_since(it.names, Options(progress=asking.tell))
    except UnknownNameError as error:
        raise SpecError(str(error), f"names that look like it: {', '.join(error.nearest)}") from error
    except UnreadModelError as error:
        raise SpecError(str(error), error.missing.ask or "") from error
    said = {one.word for answers in report.answers for one in answers.engines}
    found = "yes" if "yes" in said else "unknown" if "unknown" in said else "no"
    return Done(plain(since_output(report)), found)


def model(it: takes.OfModel, asking: Asking) -> Done:
    """``api.read_model``."""
    from canserve.api import read_model
    from canserve.render.subject_structure import model_output

    return Done(plain(model_output(read_model(it.model, Options(it.offline, progress=asking.tell)))))


def build(it: takes.OfBuild, asking: Asking) -> Done:
    """``api.read_build``."""
    from canserve.api import read_build
    from canserve.render.subject_structure import build_output

    found = read_build(it.build, Options(it.offline, arch=it.arch, progress=asking.tell))
    return Done(plain(build_output(it.build, found)))


def machine(it: takes.OfMachine, asking: Asking) -> Done:
    """``api.machines.machines``."""
    from canserve.api.machines import Links, machines
    from canserve.render.subject_structure import machine_output

    options = Options(it.offline, progress=asking.tell)
    report = machines(it.machine, options, Links() if it.links else None)
    return judged(machine_output(report), report.verdict)


def diagnose(it: takes.Diagnose, asking: Asking) -> Done:
    """``api.diagnosing.diagnose``."""
    from canserve.api.diagnosing import diagnose as api_diagnose
    from canserve.api.diagnosing import diagnose_run, diagnose_stream
    from canserve.render.diagnosis_shapes import diagnosis_output

    match it.path, it.text, it.run:
        case str(path), None, None:
            found = api_diagnose(path, progress=asking.tell)
        case None, str(text), None:
            found = diagnose_stream(BytesIO(text.encode("utf-8", "surrogatepass")))
        case None, None, str(run):
            found = diagnose_run(_deployment(run), progress=asking.tell)
        case _:
            raise SpecError("one of path, text and run", "name a log, a folder or a deployment")
    said = {"serving": "yes", "failed": "no", "stalled": "no"}.get(found.state, "unknown")
    return Done(plain(diagnosis_output(found)), said, found.because)


def _deployment(run: str) -> Found:
    """The one of that name. Raises SpecError."""
    from canserve.api.running import Sought, one_of
    from canserve.store.journal import journal

    with journal() as kept:
        return one_of(Sought(run), kept)


def verify(it: takes.Verify, asking: Asking) -> Done:
    """``api.verifying.verify``."""
    from canserve.api.verifying import VerifyWishes, read_key
    from canserve.api.verifying import verify as api_verify
    from canserve.render.verify_structure import verify_output

    wishes = VerifyWishes(
        model=it.model,
        plan=Path(it.plan) if it.plan else None,
        expect=frozenset(it.expect),
        context=it.context,
        key=read_key(Path(it.key_file)) if it.key_file else None,
        quick=not it.thorough,
        progress=asking.tell,
    )
    match it.url, it.run:
        case str(url), None:
            report = api_verify(url, wishes)
        case None, str(run):
            from canserve.api.verifying_runs import verify_run

            report = verify_run(_deployment(run), wishes)
        case _:
            raise SpecError("one of url and run", "name an endpoint or a deployment")
    return judged(verify_output(report), report.verdict)


def status(it: takes.Run, asking: Asking) -> Done:
    """``api.running.status``."""
    from canserve.api.running import Sought
    from canserve.api.running import status as api_status
    from canserve.render.run_structure import status_output
    from canserve.store.journal import journal

    asking.tell("looking at machines")
    with journal() as kept:
        found = api_status(Sought(it.run, tuple(it.on), it.state), kept)
    return Done(plain(status_output(found)), _all_run([one.word for one in found]))


def _all_run(words: Sequence[str]) -> str | None:
    if not words:
        return None
    if {"partly", "ended", "gone"} & set(words):
        return "no"
    return "unknown" if "unknown" in words else "yes"


def logs(it: takes.Logs, asking: Asking) -> Done:
    """``api.running.logs``, never followed."""
    from canserve.api.running import Sought, one_of
    from canserve.api.running import logs as api_logs
    from canserve.store.journal import journal

    asking.tell("reading logs")
    with journal() as kept:
        found = one_of(Sought(it.run, tuple(it.on), it.state), kept)
    with closing(api_logs(found, it.tail)) as read:
        lines = [
            {"machine": line.machine, "process": line.process, "ranks": line.ranks, "text": line.text}
            for line in read
        ]
    value: dict[str, Any] = {"run": found.run, "state": found.word, "lines": lines}
    return Done(value, next="`diagnose` says what a log comes down to")


def explain(it: takes.Explain, asking: Asking) -> Done:
    """The part of an answer that an address leads to; its view is made by the server, as of every answer."""
    try:
        return Done(asking.answers.view(it.address), viewed=True)
    except NoSuchPartError as error:
        raise SpecError(str(error), "addresses stand in answers, where something was too long") from error


QUESTIONS = (
    Tool("check", "Will these builds serve the model, on this machine? Judged from files; nothing is run.", takes.Check, check, "check"),
    Tool("candidates", "Which build at hand serves the model on these machines, best first?", takes.Candidates, candidates, "candidates"),
    Tool("plan", "What fits on these machines: layouts, memory of each rank, speed, exact flags.", takes.Plan, plan, "plan"),
    Tool("since", "Which release of each engine serves a name first and last? From the index alone.", takes.Since, since, "since"),
    Tool("model", "What a model is, by its config and headers; no weights are downloaded.", takes.OfModel, model, "model"),
    Tool("build", "What a build offers, by its own files.", takes.OfBuild, build, "build"),
    Tool("machine", "What a machine is, and what speaks against serving there; one read-only look.", takes.OfMachine, machine, "machine"),
    Tool("diagnose", "The first cause in the logs of an engine, and the fix.", takes.Diagnose, diagnose, "diagnose"),
    Tool("verify", "Does an endpoint really serve? It is sent requests, and nothing else.", takes.Verify, verify, "verify"),
    Tool("status", "What deployments there are, and how each process is.", takes.Run, status, "status"),
    Tool("logs", "What the processes of a deployment wrote last.", takes.Logs, logs, None),
    Tool("explain", "The part of an earlier answer that was too long to be shown, such as evidence.", takes.Explain, explain, None),
)  # fmt: skip
"""In the order in which they are listed."""
