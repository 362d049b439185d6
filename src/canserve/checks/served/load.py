"""long-prompt-sane, too-long-refused, cancel-frees-slot, overload-orderly, every-rank-alive: what it holds."""

from __future__ import annotations

from collections import Counter

from canserve.checks.reader import Reader
from canserve.checks.served.check import LOG, ServedCheck, partly_lost, unanswered
from canserve.checks.served.dummy import stated_dummy, suspected_dummy
from canserve.checks.served.texts import after_reasoning, cut, endless, garbled, right
from canserve.checks.served.words import say, short
from canserve.facts import Missing
from canserve.rules.questions import named
from canserve.subjects.served import (
    NOT_ASKED,
    Answer,
    Broken,
    Copies,
    LongAsked,
    Refusal,
    Reply,
    Served,
    Silence,
)
from canserve.verdict import No, Unknown, Verdict, Yes

_ORDERLY = frozenset({429, 503})


def long(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``long-prompt-sane``."""
    asked = reader.read(served.long)
    short_one, long_ones = asked[0], asked[1:]
    if not long_ones:
        return Unknown("the context is too short for a long prompt", "judge it by hand")
    shares = list(dict.fromkeys(one.share for one in long_ones))
    found: list[LongAsked] = []
    for share in shares:
        tries = [one for one in long_ones if one.share == share]
        verdict = _share(reader, served, tries)
        if verdict is None:
            found.append(next(one for one in tries if _found(one)))
            continue
        if isinstance(verdict, No) and not _found(short_one) and _answered(short_one) and _sane(tries):
            why = "the model does not find a sentence in a short prompt either"
            return Unknown(why, "a very small model may not; ask it by hand")
        return verdict
    sizes = (_answer(one).prompt_tokens for one in found)
    said = (
        f"{size} tokens" if size else f"about {one.share:.0%}" for one, size in zip(found, sizes, strict=True)
    )
    return Yes(f"the sentence is found in {', '.join(said)} of {reader.read(served.context)}")


def _share(reader: Reader, served: Served, tries: list[LongAsked]) -> Verdict | None:
    """What speaks against one share of the context; None: the sentence was found."""
    first = tries[0]
    where = f"at {first.share:.0%} of the context"
    for one in tries:
        if isinstance(one.reply, Missing):
            reader.cite(one.reply.evidence)
            return Unknown(f"{where}: {one.reply.why}", one.reply.ask or LOG)
        reply = one.reply.value
        if not isinstance(reply, Answer):
            if partly_lost(served) is not None:
                return unanswered(served, reply)
            fix = "start it with a shorter context, or find out why"
            return No(f"{where} the prompt got no answer: {say(reply)}", fix)
        if one.needle in reply.said:
            return None
        if cut(reply) and not endless(reply.said):
            said = f"{where} the answer was cut before it said anything: {say(reply)}"
            return Unknown(said, "ask it by hand, with more room")
        if (why := garbled(reply.said, "Latin")) is not None:
            return No(
                f"{where} the answer is none, {why}: {short(reply.said)}",
                "start it with a shorter context; look at rope scaling",
            )
    said = after_reasoning(_answer(first))
    return No(
        f"{where} the sentence is not found, wherever it stands: {short(said)}",
        "look at rope scaling and the attention backend; start it with a shorter context",
    )


def _answer(one: LongAsked) -> Answer:
    assert not isinstance(one.reply, Missing)
    assert isinstance(one.reply.value, Answer)
    return one.reply.value


def _answered(one: LongAsked) -> bool:
    return not isinstance(one.reply, Missing) and isinstance(one.reply.value, Answer)


def _found(one: LongAsked) -> bool:
    return _answered(one) and one.needle in _answer(one).said


def _sane(tries: list[LongAsked]) -> bool:
    return all(_answered(one) and garbled(_answer(one).said, "Latin") is None for one in tries)


def too_long(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``too-long-refused``."""
    reply, context = reader.read(served.too_long), reader.read(served.context)
    match reply:
        case Refusal(status, orderly=True) if 400 <= status < 500:
            return Yes(say(reply))
        case Answer(prompt_tokens=None):
            return Unknown("it was answered, and the server does not count tokens", "compare by hand")
        case Answer(prompt_tokens=int(tokens)) if tokens > context:
            return Unknown(
                f"{tokens} tokens were answered: it holds more than the {context} it claims",
                "look at its settings",
            )
        case Answer(prompt_tokens=tokens):
            return No(
                f"a prompt that is longer than {context} tokens was silently cut to {tokens}",
                "switch cutting off where it is started",
            )
        case Silence() | Broken() if partly_lost(served) is not None:
            return unanswered(served, reply)
        case _:
            return No(
                f"a prompt that is longer than {context} tokens is not refused in words: {say(reply)}", LOG
            )


def cancel(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``cancel-frees-slot``."""
    it = reader.read(served.cancelled)
    if not isinstance(it.next, Answer):
        if partly_lost(served) is not None:
            return unanswered(served, it.next)
        said = f"after {it.streams} streams were left, a short question got no answer: {say(it.next)}"
        return No(said, LOG)
    if it.before is None or it.after is None or it.during is None:
        return Unknown("the server does not say how many requests it runs", "switch its metrics on")
    if it.during <= it.before:
        return Unknown("the streams were never seen running", "try it by hand, with longer answers")
    if it.after > it.before:
        why = (
            f"{it.waited:.1f} s after they were left, {it.after:g} requests still run ({it.before:g} before)"
        )
        if it.before > 0:
            return Unknown(f"{why}; others use the server too", "try again when nobody else does")
        if not it.growing:  # some servers count anew only while they work
            return Unknown(f"{why}, as it counts, though it makes no more tokens", "look at its log")
        return No(why, "find out what hides from the server that a client has gone (a proxy, an old release)")
    if it.rest is None or it.waited > 0.5 * it.rest:
        return Unknown("the streams may have ended by themselves", "try it by hand, with longer answers")
    return Yes(
        f"{it.during:g} requests ran, {it.after:g} {it.waited:.1f} s after they were left, of {it.rest:.0f} s to go"
    )


def overload(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``overload-orderly``."""
    crowd = reader.read(served.crowd)
    bad = [reply for reply in crowd.replies if not _in_order(reply)]
    count = Counter(_kind(reply) for reply in crowd.replies)
    said = f"{len(crowd.replies)} at once: " + ", ".join(
        f"{many} {kind}" for kind, many in count.most_common()
    )
    fix = "limit what it takes at once, and let it refuse the rest (429 or 503)"
    if (bad or not isinstance(crowd.afterwards, Answer)) and partly_lost(served) is not None:
        return unanswered(served, bad[0] if bad else crowd.afterwards)
    if not isinstance(crowd.afterwards, Answer):
        return No(f"{said}; and afterwards a question got no answer: {say(crowd.afterwards)}", fix)
    if bad:
        return No(f"{said}; {say(bad[0])}", fix)
    return Yes(said)


def _in_order(reply: Reply) -> bool:
    return isinstance(reply, Answer) or (isinstance(reply, Refusal) and reply.status in _ORDERLY)


def _kind(reply: Reply) -> str:
    match reply:
        case Answer():
            return "answered"
        case Refusal(status):
            return f"refused with {status}"
        case Silence():
            return "in silence"
        case _:
            return "broken off"


def ranks(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``every-rank-alive``."""
    if served.ended is not NOT_ASKED and (gone := reader.read(served.ended)):
        return No(gone[0], f"canserve diagnose {served.subject.partition(' ')[0]}")
    it = reader.read(served.copies)
    lost = [reply for reply in it.replies if not isinstance(reply, Answer)]
    good = [reply for reply in it.replies if isinstance(reply, Answer)]
    if lost and not good:
        return No(f"it got no answer: {say(lost[0])}", LOG)
    if lost:
        why = f"{len(lost)} of {len(it.replies)} copies of one question got no answer, the others did: {say(lost[0])}"
        return No(why, "a replica or a rank of it does not work: canserve diagnose LOGS, one file a rank")
    idle = [name for name, tokens in it.shares.items() if tokens <= 0]
    if len(it.shares) > 1 and idle:
        why = f"replica {', '.join(idle)} of {len(it.shares)} made no token for {len(it.replies)} questions at once"
        return (
            No(why, "canserve diagnose LOGS, one file a rank")
            if len(it.replies) >= 4 * len(it.shares)
            else Unknown(why, "ask more at once")
        )
    if stated_dummy(served) is not None or suspected_dummy(served):
        return Yes(
            f"{len(good)} copies of one question were all answered; what dummy weights say is not judged"
        )
    return _same(it, good)


def _same(it: Copies, answers: list[Answer]) -> Verdict:
    """Copies that were all answered: whether they say the same."""
    question = named(it.right)
    wrong = [answer for answer in answers if not right(question, answer) and not cut(answer)]
    several = f" by {len(it.shares)} replicas" if len(it.shares) > 1 else ""
    if not wrong:
        return Yes(
            f"{len(answers)} copies of one question were all answered rightly{several}; each needs every rank of its replica"
        )
    why = (
        f"{len(wrong)} of {len(answers)} copies of one question are answered wrongly: {short(wrong[0].text)}"
    )
    strange = [answer for answer in wrong if garbled(answer.said, question.script)]
    if len(wrong) < len(answers) and strange:
        return No(why, "one replica computes nonsense: compare them one by one")
    return Unknown(why, "see answer-correct; where that is a yes, ask the replicas one by one")


LONG = ServedCheck(
    "long-prompt-sane", "Prompts of 25, 50 and 90 % of the context it claims are read to the end.", long, True
)
TOO_LONG = ServedCheck("too-long-refused", "A prompt beyond the context is refused in words.", too_long)
CANCEL = ServedCheck("cancel-frees-slot", "A client that hangs up frees what its request held.", cancel)
OVERLOAD = ServedCheck(
    "overload-orderly",
    "More requests than it holds are answered or refused (429, 503), and it lives on.",
    overload,
)
RANKS = ServedCheck("every-rank-alive", "Many copies of a question at once are all answered rightly.", ranks)
