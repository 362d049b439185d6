"""streams, ends-by-itself, stop-honoured, greedy-repeats, logprobs-sane: the form of answers."""

from __future__ import annotations

import math

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.served import texts
from canserve.checks.served.check import LOG, ServedCheck, offered, spoken, unanswered
from canserve.checks.served.texts import after_reasoning, same_words
from canserve.checks.served.words import say, short
from canserve.rules.served import marks_in
from canserve.subjects.served import Answer, Served
from canserve.verdict import No, Unknown, Verdict, Yes

_BUFFERED = 0.05
"""Share of the whole time in which all pieces came, below which somebody held them back."""
_RAN_ON = 0.8
_SEVERAL = 5
_MANY = 6


def streams(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``streams``."""
    reply = reader.read(served.streamed)
    if not isinstance(reply, Answer):
        return unanswered(served, reply)
    pieces = len(reply.arrivals)
    if not reply.ended:
        return No(f"its stream ends without [DONE] after {pieces} pieces", LOG)
    if reply.finish is None:
        return No("its stream never says why it ended (finish_reason)", LOG)
    if not pieces:
        return No("its stream holds no text", LOG)
    tokens = reply.completion_tokens or 0
    if pieces == 1 and tokens >= _SEVERAL:
        return No(
            f"all {tokens} tokens came in one piece",
            "look for a proxy that collects answers before it passes them on",
        )
    span = reply.arrivals[-1] - reply.arrivals[0]
    if pieces >= _MANY and reply.seconds > 0.4 and span < _BUFFERED * reply.seconds:
        why = f"{pieces} pieces came within {span:.3f} s, after {reply.arrivals[0]:.2f} s of silence"
        return Unknown(why, "look for a proxy that collects answers before it passes them on")
    return Yes(f"{pieces} pieces in {reply.seconds:.2f} s, finish {reply.finish}")


def ends(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``ends-by-itself``."""
    brief = [(name, answer, look) for name, answer, look in spoken(served) if not name.startswith("text")]
    for name, answer, look in brief:
        if found := marks_in("turn", answer.text):
            reader.cite(look)
            why = f"the answer to {name} holds {found[0]}, which ends or begins a turn: {short(answer.text)}"
            return No(why, "give the server the model's own chat template and generation_config.json")
    reader.cite(served.known.evidence)
    asked = reader.read(served.known)
    replies = [each.reply for each in asked if isinstance(each.reply, Answer)]
    if not replies:
        return Unknown("no question was answered", LOG)
    replies = [reply for reply in replies if not texts.cut(reply)]
    if not replies:
        return Unknown("no answer was given room enough to end", "the model reasons longer: ask it by hand")
    cut = [reply for reply in replies if reply.finish == "length"]
    said = f"{len(replies) - len(cut)} of {len(replies)} answers ended by themselves"
    fix = "look at eos_token_id in the model's generation_config.json, and at the chat template"
    if len(cut) >= _RAN_ON * len(replies):
        return No(f"{said}; the others ran on: {short(after_reasoning(cut[0]))}", fix)
    if len(cut) * 2 >= len(replies):
        return Unknown(f"{said}; the others ran on: {short(after_reasoning(cut[0]))}", fix)
    return Yes(said)


def stop(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``stop-honoured``."""
    reply = reader.read(served.stop)
    if not isinstance(reply, Answer):
        return unanswered(served, reply)
    if "5" in after_reasoning(reply) and reply.text:
        return No(f"it goes on past the stop text: {short(reply.text)}", LOG)
    if "4" in reply.text or (reply.reasoning and not reply.text and reply.finish == "stop"):
        return Yes(f"it ends before the stop text: {short(reply.text)}")
    return Unknown(
        f"the answer never came to the stop text: {say(reply)}", "try it by hand with another text"
    )


def repeats(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``greedy-repeats``."""
    replies = [reply for reply in reader.read(served.repeats) if isinstance(reply, Answer)]
    if len(replies) < 3:
        return Unknown(f"only {len(replies)} of the same questions were answered", LOG)
    texts = [reply.said for reply in replies]
    if len(set(texts)) == 1:
        return Yes(f"{len(texts)} times {short(texts[0], 60)}")
    shared = same_words(texts)
    if len(set(texts)) == len(texts) and all(
        same_words((one, other)) < 3 for number, one in enumerate(texts) for other in texts[number + 1 :]
    ):
        why = f"the same prompt at temperature 0 begins in {len(texts)} ways: {', '.join(short(t, 40) for t in texts)}"
        return No(
            why, "look for a sampling default that overrides temperature 0, or for state that requests share"
        )
    why = f"the same prompt at temperature 0 has {len(set(texts))} answers, alike for {shared} words"
    return Unknown(why, "rounding may do that; ask again on an idle server, without a prefix cache")


def logprobs(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``logprobs-sane``."""
    reply = offered(reader, served, served.chances, "logprobs")
    if not isinstance(reply, Answer):
        return unanswered(served, reply)
    if reply.chances is None:
        if "logprobs" not in served.wants:
            raise NotApplicable("the server leaves them out; --expect logprobs makes that a no")
        return No("the answer holds none", "look for what switches them on where it is started")
    for chance in reply.chances:
        if not math.isfinite(chance.logprob) or any(math.isnan(value) for value in chance.top):
            return No(
                f"that of {chance.token[:20]!r} is no number",
                "look for overflow: another dtype or quantization",
            )
        if chance.logprob > 1e-3 or any(value > 1e-3 for value in chance.top):
            return No(f"that of {chance.token[:20]!r} is above 0, a probability above 1", LOG)
    first = reply.chances[0]
    return Yes(
        f"{len(reply.chances)} tokens, the first {first.token[:20]!r} with {math.exp(first.logprob):.2g}"
    )


STREAMS = ServedCheck(
    "streams", "A streamed answer comes piece by piece, says why it ends, and ends.", streams
)
ENDS = ServedCheck(
    "ends-by-itself",
    "Answers end where the model ends them, without tokens of its chat format in them.",
    ends,
    True,
)
STOP = ServedCheck("stop-honoured", "A stop text ends an answer before it.", stop, True)
REPEATS = ServedCheck(
    "greedy-repeats", "The same prompt at temperature 0 gets the same answer.", repeats, True
)
LOGPROBS = ServedCheck("logprobs-sane", "Logarithmic probabilities are there, and are such.", logprobs)
