"""attention-backend-available: an attention back end of the build takes this model on this GPU.

The build's own predicates are asked, as it asks them itself when it starts: of the back end that the user names, or
of those that it considers on this GPU. What it decides only at run time (by installed kernels, or by several things
together) stays open: a yes says that no rule of the build refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import normalized
from canserve.facts import Known, Missing
from canserve.memory.layers.kinds import Attention, Compressed, Latent, Layer, Span
from canserve.rules import attention as rules
from canserve.subjects.build import CAPABILITIES, AttentionBackend
from canserve.units import Capability
from canserve.verdict import No, Unknown, Verdict, Yes

FLAGS = ("--attention-backend", "--attention-config.backend")
WORDS: Mapping[str, tuple[str, str]] = {
    "mla": ("is for latent attention only", "is not for latent attention"),
    "sparse": ("is for an indexer's choice of tokens only", "attends to no indexer's choice of tokens"),
    "sinks": ("", "has no attention sinks"),
    "sliding": ("", "has no sliding window"),
}
"""What a back end refuses: where it has the trait and the model does not, and the other way round."""
NAMES: Mapping[str, str] = {
    "mla": "latent attention",
    "sparse": "an indexer's choice of tokens",
    "sinks": "attention sinks",
    "sliding": "a sliding window",
}
EXACT = ("mla", "sparse")
"""Traits in which back end and model must be alike; the others a back end may have for nothing."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one kind of the model's attention layers asks for."""

    head_size: int
    """Elements of a query's head; of a row of latent attention's cache."""
    traits: Mapping[str, bool]
    """Of ``TRAITS``, all."""

    def __str__(self) -> str:
        kind = "latent attention" if self.traits["mla"] else "attention"
        more = [NAMES[trait] for trait in ("sparse", "sinks", "sliding") if self.traits[trait]]
        return f"{kind} with {' and '.join((f'heads of {self.head_size}', *more))}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one back end says: why it refuses, and what it leaves open."""

    backend: AttentionBackend
    refused: tuple[str, ...]
    open: tuple[str, ...]


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``attention-backend-available``."""
    assert case.machine is not None
    asked = next((value for flag, value in case.wish.flags.items() if normalized(flag) in FLAGS), None)
    backends = reader.try_read(case.build.attention_backends) or {}
    if not any(one.traits for one in backends.values()):
        raise NotApplicable("no rules of the build's attention back ends were read")
    capability = reader.read(case.machine.capability)
    if capability is None or capability.tenfold not in CAPABILITIES:
        raise NotApplicable("the rules are for NVIDIA GPUs of known compute capability")
    needs = _needs(reader, case)
    if asked is not None:
        return _named(reader, case, asked, needs, capability)
    for need in needs:
        verdict = _any(reader, case, need, capability)
        if not isinstance(verdict, Yes):
            return verdict
    return verdict


def _needs(reader: Reader, case: Case) -> tuple[Need, ...]:
    from canserve.memory.layers import layers

    found = layers(case.model)
    if isinstance(found, Missing):
        raise NotApplicable(f"the kinds of the model's layers are not known: {found.why}")
    model_type = reader.try_read(case.model.model_type)
    row = rules.sinks(model_type) if model_type else None
    if row is not None:
        reader.cite((row.evidence(f"{model_type} has attention sinks"),))
    every = reader.read(found)
    kinds = _of_layers(every, sinks=row is not None)
    needs = tuple({str(need): need for need in kinds}.values())
    if not needs:
        raise NotApplicable("the model has no attention that is chosen among back ends")
    return needs


def _of_layers(found: Sequence[Layer], *, sinks: bool) -> Iterable[Need]:
    for mixer in (mixer for layer in found for mixer in layer.mixers):
        match mixer:
            case Latent():
                size = mixer.kv_rank + mixer.rope_dim
                yield Need(
                    size, {"mla": True, "sparse": mixer.index_dim > 0, "sinks": sinks, "sliding": False}
                )
            case Attention() if not mixer.index_dim and mixer.head_dim == mixer.v_head_dim:
                sliding = mixer.span is Span.SLIDING
                has = {"mla": False, "sparse": False, "sinks": sinks, "sliding": sliding}
                yield Need(mixer.head_dim, has)
            case Attention() | Compressed():
                raise NotApplicable("back ends of this model's attention are chosen by code of its own")
            case _:
                pass


def _named(
    reader: Reader, case: Case, asked: str, needs: tuple[Need, ...], capability: Capability
) -> Verdict:
    backends = reader.read(case.build.attention_backends)
    backend = backends.get(asked.upper())
    if backend is None:
        return Unknown(
            f"{asked} is none of the {len(backends)} attention back ends for CUDA that were read",
            "leave it out",
        )
    answers = [_ask(backend, need, capability) for need in needs]
    reader.cite((look(case, str(backend.at), f"{backend.name}: what its class takes"),))
    refused = [why for answer in answers for why in answer.refused]
    if refused:
        others = [
            one.name
            for one in backends.values()
            if all(not (it := _ask(one, need, capability)).refused and not it.open for need in needs)
        ]
        fix = f"leave it out, or use {' or '.join(others[:3])}" if others else "leave it out"
        return No(f"{backend.name} {' and '.join(dict.fromkeys(refused))}", fix)
    still = [why for answer in answers for why in answer.open]
    if still:
        return Unknown(
            f"{backend.name} decides at run time: {', '.join(dict.fromkeys(still))}", "start it once"
        )
    return Yes(f"no rule of {backend.name} refuses the model on compute capability {capability}")


def _any(reader: Reader, case: Case, need: Need, capability: Capability) -> Verdict:
    backends = reader.read(case.build.attention_backends)
    answers = [
        _ask(one, need, capability)
        for one in backends.values()
        if one.traits and _considered(one, capability) is not False
    ]
    if not answers:
        raise NotApplicable("which attention back ends the build considers is not read")
    taking = [it for it in answers if not it.refused and not it.open and _considered(it.backend, capability)]
    reader.cite(tuple(look(case, str(it.backend.at), _said(it)) for it in (taking or answers)[:12]))
    if taking:
        return Yes(
            f"{need}: {', '.join(it.backend.name for it in taking[:3])} on compute capability {capability}"
        )
    if any(not it.refused for it in answers):
        still = ", ".join(it.backend.name for it in answers if not it.refused)
        return Unknown(
            f"{need}: only {still} may take it on compute capability {capability}, which is decided at run time",
            "start it once",
        )
    return No(
        f"{need}: none of the {len(answers)} attention back ends that the build considers takes it on compute "
        f"capability {capability}: {'; '.join(_said(it) for it in _closest(answers))}",
        "use a GPU or a release with one that does",
    )


def _closest(answers: list[Answer]) -> list[Answer]:
    return sorted(answers, key=lambda it: len(it.refused))[:3]


def _said(answer: Answer) -> str:
    return f"{answer.backend.name} {' and '.join(answer.refused or answer.open) or 'takes it'}"


def _considered(backend: AttentionBackend, capability: Capability) -> bool | None:
    match backend.offered:
        case Known(offered):
            return offered.get(capability.tenfold)
        case Missing():
            return None


def _ask(backend: AttentionBackend, need: Need, capability: Capability) -> Answer:
    """Every rule of one back end, on one kind of attention."""
    refused, still = list[str](), list[str]()
    for trait, has in backend.traits.items():
        wanted = need.traits[trait]
        if has is None:
            still += [NAMES[trait]] if wanted else []
        elif has != wanted and (wanted or trait in EXACT):
            refused.append(WORDS[trait][wanted])
    match backend.capabilities:
        case Missing():
            still.append("where it runs")
        case Known(accepted) if capability.tenfold not in accepted:
            refused.append(f"does not run on compute capability {capability}")
        case _:
            pass
    sizes = backend.head_sizes.value if isinstance(backend.head_sizes, Known) else {}
    takes = sizes.get(need.head_size)
    if takes is False:
        refused.append(f"takes no heads of {need.head_size}")
    elif takes is None:
        still.append(f"heads of {need.head_size}")
    return Answer(backend, tuple(refused), tuple(still))


ATTENTION = Check(
    "attention-backend-available",
    "No rule of the build's attention back ends refuses the model on this GPU: of the one named, or of one it considers.",
    run,
    needs_machine=True,
    of_accelerators=True,
)
