"""ready, right-model, answers, metrics-present: whether it is there at all, and is what it should be."""

from __future__ import annotations

from canserve.checks.names import near, some
from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.served.check import LOG, ServedCheck
from canserve.checks.served.prometheus import family, samples
from canserve.checks.served.words import say, say_page
from canserve.facts import Cause, Missing
from canserve.subjects.served import NOT_ASKED, Answer, Listed, Refusal, Served
from canserve.verdict import No, Unknown, Verdict, Yes

_STARTING = frozenset({502, 503, 504})


def ready(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``ready``."""
    page = served.page
    if isinstance(page, Missing) and page.cause is not Cause.UNREACHED:  # it was reached, and does not serve
        reader.cite(page.evidence)
        return No(page.why, page.ask or LOG)
    found = reader.read(page)
    said = f"GET /v1/models: {say_page(found)}"
    if found.status in _STARTING:
        return No(f"it is not ready yet ({said})", "wait for it: --wait SECONDS")
    if found.status in {401, 403}:
        return No(
            f"it wants a key ({said})", "give it one: --key-file FILE, or CANSERVE_API_KEY in the environment"
        )
    if 300 <= found.status < 400:
        return No(f"it redirects, which was not followed ({said})", "name the address that it redirects to")
    if found.status >= 400 and served.asked_for is not None:
        return Unknown(f"it lists no models ({said})", "see answers")
    if isinstance(served.models, Missing):
        reader.cite(served.models.evidence)
        return No(served.models.why, served.models.ask or LOG)
    health = reader.try_read(served.health)
    if health is not None and health.status in _STARTING:
        return No(f"GET /health: {say_page(health)}", "wait for it: --wait SECONDS")
    return Yes(said)


def right_model(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``right-model``."""
    if served.page is NOT_ASKED or isinstance(served.page, Missing) or isinstance(served.models, Missing):
        raise NotApplicable("nothing was listed: see ready")
    listed = reader.read(served.models)
    names = [each.name for each in listed]
    if not listed:
        return No("the server lists no model", "look at what it was started with")
    if served.asked_for is not None and served.asked_for not in names:
        meant = near(served.asked_for, names, 0.3)
        hint = f"ask for {meant[0]}" if meant else f"ask for one of those it lists: {some(names, 5)}"
        return No(f"it lists {some(names, 5)}, not {served.asked_for}", hint)
    model = next((each for each in listed if each.name == served.model), listed[0])
    against = _planned(reader, served, model)
    return Yes(f"it serves {model.name}{_root(model)}") if against is None else against


def _planned(reader: Reader, served: Served, model: Listed) -> Verdict | None:
    """What the plan says of the model; None: nothing else than the server does."""
    if isinstance(served.expected, Missing):
        return None
    plan = reader.read(served.expected)
    wanted, said = _last(plan.model), {_last(model.name), _last(model.root or model.name)}
    if wanted in said:
        return None
    if _of_hub(plan.model) and _of_hub(model.root or ""):
        return No(
            f"it serves {model.name}{_root(model)}, the plan is of {plan.model}", "start what was planned"
        )
    why = f"it serves {model.name}{_root(model)}, the plan is of {plan.model}"
    return Unknown(why, "compare the two by hand: a name or a folder does not say what it is")


def _of_hub(name: str) -> bool:
    """Whether a name is one of the Hub; a folder may be called anything."""
    owner, slash, rest = name.partition("/")
    return bool(slash and owner.strip(".") and rest and "/" not in rest)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _root(model: Listed) -> str:
    return f" ({model.root})" if model.root and model.root != model.name else ""


def answers(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``answers``."""
    if served.first is NOT_ASKED:
        raise NotApplicable("nothing was asked: see ready and right-model")
    reply = reader.read(served.first)
    match reply:
        case Answer(empty=True):
            return No(f"its answer is empty ({say(reply)})", LOG)
        case Answer():
            return Yes(say(reply))
        case Refusal(status) if status in {401, 403}:
            return No(
                f"it wants a key ({say(reply)})",
                "give it one: --key-file FILE, or CANSERVE_API_KEY in the environment",
            )
        case _:
            return No(f"a first question got no answer: {say(reply)}", LOG)


def metrics(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``metrics-present``."""
    page = reader.read(served.metrics)
    if page.status != 200:
        if "metrics" not in served.wants:
            raise NotApplicable(
                f"the server offers none ({say_page(page)}); --expect metrics makes that a no"
            )
        return No(
            f"it offers none ({say_page(page)})",
            "switch them on where it is started (--metrics, --enable-metrics)",
        )
    count = sum(1 for _ in samples(page.text))
    if not count:
        return No(
            f"the page of metrics holds none ({say_page(page)})", "look at what answers there in its place"
        )
    return Yes(f"{count} samples" + ("" if family(page.text) else ", of names that are not known here"))


READY = ServedCheck(
    "ready", "The server is reached, has finished starting and lists models.", ready, at_once=True
)
RIGHT_MODEL = ServedCheck(
    "right-model",
    "The model that was asked for, or planned, is the one it serves.",
    right_model,
    at_once=True,
)
ANSWERS = ServedCheck("answers", "A question gets an answer in the protocol's form.", answers, at_once=True)
METRICS = ServedCheck("metrics-present", "The server's metrics can be read.", metrics)
