"""How engines are started: what a plan needs of an engine beyond reading its builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from canserve.facts import Cause, Fact, Missing, derive
from canserve.subjects.launch import Launch, Start
from canserve.subjects.model import Model


def every(model: Model) -> bool:
    """Every model that its registry lists."""
    del model
    return True


@dataclass(frozen=True, slots=True)
class Starting:
    """An engine of which is known how it is started."""

    name: str
    option_names: Mapping[str, str]
    """What a plan sets -> the engine's own option: ``context`` -> ``max_model_len``; ``sequences`` at once at most;
    ``utilisation``: the share of an accelerator's whole memory."""
    start: Callable[[Launch], Fact[Start]]
    """Every process of a deployment with argv and environment. Missing, unavailable: it cannot do it so."""
    suits: Callable[[Model], bool] = every
    """Whether the engine is proposed for a model where nobody named a build."""


def starting(name: str) -> Starting | None:
    """How the engine of that name is started; None: that is not written down."""
    from canserve.engines.llamacpp import command as llamacpp
    from canserve.engines.lmdeploy import command as lmdeploy
    from canserve.engines.sglang import command as sglang
    from canserve.engines.vllm import command as vllm

    known = (
        Starting("vllm", vllm.OPTIONS, vllm.start),
        Starting("sglang", sglang.OPTIONS, sglang.start),
        Starting("lmdeploy", lmdeploy.OPTIONS, lmdeploy.start, lmdeploy.suits),
        Starting("llama.cpp", llamacpp.OPTIONS, llamacpp.start, llamacpp.suits),
    )
    return next((one for one in known if one.name == name), None)


def option_names(engine: str) -> Mapping[str, str]:
    """The names of an engine; empty where nothing is known of how it is started."""
    found = starting(engine)
    return {} if found is None else found.option_names


def start(launch: Launch) -> Fact[Start]:
    """Every process of a deployment, by the build's own engine."""
    name = launch.build.identity.engine
    found = starting(name)
    if found is None:
        why = f"how {name} is started is not written down here"
        return Missing(Cause.UNREACHED, why, ask="start it as its documentation says")
    if launch.model.origin == "hub" or len(launch.hosts) == 1:
        return found.start(launch)
    note = f"{launch.model.subject} has to be there on every machine, under this very path"
    return derive(found.start(launch), lambda made: replace(made, notes=(*made.notes, note)))
