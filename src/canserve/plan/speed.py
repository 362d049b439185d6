"""Expected tokens a second, from bytes, operations, kernels and messages; and the bound that no build can pass.

A step of decoding reads the weights and every sequence's cache once, starts a number of kernels, and adds up partial
results over the tensor parallel ranks: ``t = max(bytes / bandwidth, operations / compute) + kernels + messages``.
Constants are in ``rules/speed.toml``; nothing is adjusted to a model or an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout.shape import hidden
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request, Serving
from canserve.memory.weights.loading import Loading, loading
from canserve.memory.weights.stored import tensors_of
from canserve.plan.links import Link, between, inside
from canserve.plan.plan import Speed
from canserve.plan.traffic import Traffic, traffic
from canserve.rules.speed import constant
from canserve.subjects.machine import Machine
from canserve.subjects.parallel import Parallel
from canserve.subjects.tensor import Tensor
from canserve.units import Compute

MICRO = 1e-6
ALONE = 1000.0
"""Tokens in the cache of the one sequence whose speed is stated."""
PROMPT = 8192
"""Tokens of one step of prefill where the engine's options do not say."""
BATCH = 256
"""Sequences at once where the options do not say."""
SEQUENCES = ("max_num_seqs", "max_running_requests", "max_batch_size")
CHUNK = ("max_num_batched_tokens", "chunked_prefill_size", "max_num_tokens")
EAGER = ("enforce_eager", "disable_cuda_graph")
ONE_BYTE = ("fp8", "int8", "turboquant")


@dataclass(frozen=True, slots=True)
class Course:
    """Everything that a step's time depends on."""

    stages: tuple[Traffic, ...]
    machines: tuple[tuple[Machine, ...], ...]
    """Of each stage."""
    parallel: Parallel
    group: Link
    """Of the tensor parallel ranks."""
    hop: Link
    """Between stages and between replicas."""
    shared: bool
    """Whether replicas share their experts, and exchange tokens for that."""
    remote: bool
    """Whether several machines take part."""
    width: float
    """Bytes of one element of the cache."""
    eager: bool
    bits: int
    """Of the weights in matrix products, 4, 8 or 16."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one step of one stage, by cause."""

    memory: float
    compute: float
    kernels: float
    messages: float

    @property
    def total(self) -> float:
        """All of it: reading and computing overlap, the rest does not."""
        return max(self.memory, self.compute) + self.kernels + self.messages


def speed(request: Request, serving: Serving | None = None, how: Fact[Loading] | None = None) -> Fact[Speed]:
    """Tokens a second of a deployment. Missing: a number of the model or a rate of a machine is not known.

    ``how``: how the engine loads the model (``Engine.loading``); None: as the model alone says.
    """
    wide = hidden(request.model)
    if isinstance(wide, Missing):
        return wide
    if isinstance(how, Missing):
        return how
    loads = loading(request.model) if how is None else how.value
    tensors = tensors_of(request.model, loads.towers)
    if isinstance(tensors, Missing):
        return tensors
    if not loads.layers or sum(request.placement.layers) != len(loads.layers):
        return Missing(
            Cause.UNAVAILABLE, "the model's layers are not known", ask="a config of a known model type"
        )
    for device in request.devices:
        if isinstance(device.machine.bandwidth, Missing):
            return device.machine.bandwidth
    course = _course(request, tensors.value, loads, wide.value)
    batch, context = _load(request.options, serving)
    remarks = _remarks(course, request.options)
    alone = _quantity(lambda end: _alone(course, end), f"one sequence of {ALONE:.0f} tokens{remarks}")
    many = _quantity(
        lambda end: _saturated(course, batch, context, end),
        f"{batch} sequences of {context:.0f} tokens on average{remarks}",
    )
    chunk = int(_option(request.options, CHUNK) or PROMPT)
    unstated = any(_peak(course, at) is None for at in range(len(course.stages)))
    guessed = ", at a rate of computation that is not stated" if unstated else ""
    why = f"{chunk} tokens of prompts a step{guessed}"
    prefill = _quantity(lambda end: _prefill(course, chunk, end), why)
    return Known(
        Speed(
            decode=alone,
            decode_bound=_bound(course),
            saturated=many,
            prefill=prefill,
            prefill_bound=_prefill_bound(course),
            limit=_limit(course),
        )
    )


def _course(request: Request, tensors: tuple[Tensor, ...], how: Loading, wide: int) -> Course:
    placement = request.placement
    parallel = placement.parallel
    machines = tuple(device.machine for device in request.devices)
    names = [rank.machine for rank in placement.ranks]
    groups = [names[at : at + parallel.tp] for at in range(0, len(names), parallel.tp)]
    apart = any(len(set(group)) > 1 for group in groups)
    remote = len(set(names)) > 1
    by_stage = tuple(
        tuple(m for m, rank in zip(machines, placement.ranks, strict=True) if rank.pp == stage)
        for stage in range(parallel.pp)
    )
    dtype = str(request.options.get("kv_cache_dtype", ""))
    return Course(
        stages=traffic(tensors, how, placement, wide),
        machines=by_stage,
        parallel=parallel,
        group=between(machines) if apart else _slowest(machines),
        hop=between(machines) if remote else _slowest(machines),
        shared=parallel.dp > 1 and (parallel.ep > 1 or how.across_replicas),
        remote=remote,
        width=1.0 if dtype.startswith(ONE_BYTE) else 2.0,
        eager=any(bool(request.options.get(name)) for name in EAGER),
        bits=_bits(request),
    )


def _slowest(machines: Sequence[Machine]) -> Link:
    return min((inside(machine) for machine in dict.fromkeys(machines)), key=lambda link: link.rate.value)


def _bits(request: Request) -> int:
    """Width in which matrix products are computed: that of quantized activations, else 16."""
    quantization = request.model.quantization
    if not isinstance(quantization, Known) or quantization.value is None:
        return 16
    widths = [
        scheme.activation_bits or (8 if scheme.weight_type == "float" and scheme.weight_bits == 8 else 16)
        for scheme in quantization.value.schemes
    ]
    return min((width for width in widths if width in (4, 8, 16)), default=16)


def _load(options: Mapping[str, object], serving: Serving | None) -> tuple[int, float]:
    """How many sequences run at once when there is enough to do, and how long they are on average."""
    most = int(_option(options, SEQUENCES) or BATCH)
    if serving is None:
        return most, ALONE
    fit = max(1, int(serving.max_concurrency.value))
    return min(most, fit), max(1.0, serving.context / 2)


def _option(options: Mapping[str, object], names: Sequence[str]) -> float | None:
    found = (options.get(name) for name in names)
    return next((float(value) for value in found if isinstance(value, int | float) and value > 0), None)


def _remarks(course: Course, options: Mapping[str, object]) -> str:
    """What makes a figure of decoding wider, or is not in it."""
    links = [course.group] * (course.parallel.tp > 1) + [course.hop] * course.remote
    unstated = next((link.name for link in links if not link.stated), None)
    words = f", over {unstated}" if unstated else ""
    if any(name.startswith("speculative") and value for name, value in options.items()):
        words += ", before what speculation saves"
    return words


def _step(course: Course, stage: int, tokens: float, cache: float, scores: float, end: str) -> Step:
    """One step of one stage: so many tokens, so many bytes of cache and operations of attention."""
    part = course.stages[stage]
    bandwidth = min(_value(machine) for machine in course.machines[stage])
    shared = any(_shares(machine) for machine in course.machines[stage])
    memory = (part.weights(tokens) + cache) / (
        bandwidth * _fraction("shared_memory" if shared else "memory", end)
    )
    operations = 2 * part.active * tokens + scores
    compute = operations / _rate(course, stage, end)
    kernels = part.kernels * _time("eager" if course.eager else "kernel", end)
    if course.eager:  # the host starts kernels while the accelerator still runs others
        kernels = max(0.0, kernels - max(memory, compute))
    size = tokens * part.hidden * 2.0
    messages = part.reductions * course.group.reduce(size, course.parallel.tp, end)
    if course.shared:
        messages += part.exchanges * course.hop.reduce(size, course.parallel.tp * course.parallel.dp, end)
    return Step(memory, compute, kernels, messages)


def _alone(course: Course, end: str) -> float:
    return 1 / (sum(step.total for step in _alone_steps(course, end)) + _between(course, 1, end))


def _alone_steps(course: Course, end: str) -> list[Step]:
    return [
        _step(course, stage, 1, part.cache(ALONE, course.width), part.scores(ALONE), end)
        for stage, part in enumerate(course.stages)
    ]


def _between(course: Course, tokens: float, end: str) -> float:
    """Hops between stages, and what the host does between two steps."""
    hops = (course.parallel.pp - 1) * course.hop.send(tokens * course.stages[0].hidden * 2.0, end)
    waits = [("step", True), ("remote", course.remote), ("replicas", course.shared)]
    return hops + sum(_time(name, end) for name, applies in waits if applies)


def _saturated(course: Course, batch: int, context: float, end: str) -> float:
    """All replicas together; each stage works on its share of the sequences while the others do on theirs."""
    share = max(1.0, batch / course.parallel.pp)
    slowest = max(
        _step(
            course, at, share, share * part.cache(context, course.width), share * part.scores(context), end
        ).total
        for at, part in enumerate(course.stages)
    )
    alone = _between(course, share, end) / course.parallel.pp
    return course.parallel.dp * min(share, batch) / (slowest + alone)


def _prefill(course: Course, tokens: int, end: str) -> float:
    slowest = max(
        _step(
            course, at, tokens, part.cache(tokens, course.width), tokens * part.scores(tokens / 2), end
        ).total
        for at, part in enumerate(course.stages)
    )
    return course.parallel.dp * tokens / (slowest + _between(course, tokens, end) / course.parallel.pp)


def _bound(course: Course) -> float:
    """Tokens a second of one sequence if nothing but reading the weights took time, at the full bandwidth."""
    seconds = sum(
        part.weights(1) / min(_value(machine) for machine in course.machines[at])
        for at, part in enumerate(course.stages)
    )
    return 1 / seconds if seconds else 0.0


def _prefill_bound(course: Course) -> float:
    """Tokens a second of prompts if nothing but matrix products took time, at the full rate; 0: not known."""
    seconds = [2 * part.active / rate for at, part in enumerate(course.stages) if (rate := _peak(course, at))]
    return course.parallel.dp / max(seconds) if len(seconds) == len(course.stages) else 0.0


def _peak(course: Course, stage: int) -> float | None:
    return (
        min((_compute(machine, course.bits) or 0.0 for machine in course.machines[stage]), default=0.0)
        or None
    )


def _rate(course: Course, stage: int, end: str) -> float:
    """Operations a second that matrix products reach; guessed from the memory's rate where none is stated."""
    peak = _peak(course, stage)
    if peak is None:
        slowest = min(_value(machine) for machine in course.machines[stage])
        return slowest * _fraction("intensity", end) * _fraction("matrix", end)
    return peak * _fraction("matrix" if course.bits == 16 else "narrow", end)


def _compute(machine: Machine, bits: int) -> float | None:
    """The rate for products of that width; of wider numbers where it is not stated, of narrower ones halved."""
    if isinstance(machine.compute, Missing):
        return None
    known: Compute = machine.compute.value
    rates = {16: known.bf16, 8: known.fp8, 4: known.fp4}
    for wider in (bits, *(width for width in (8, 16) if width > bits)):
        if (rate := rates[wider]) is not None:
            return float(rate)
    for narrower in (8, 4):
        if narrower < bits and (rate := rates[narrower]) is not None:
            return rate * narrower / bits
    return None


def _limit(course: Course) -> str:
    steps = _alone_steps(course, "value")
    parts = {
        "memory bandwidth": sum(step.memory for step in steps),
        "starting kernels": sum(step.kernels for step in steps),
        f"messages over {course.group.name}": sum(step.messages for step in steps),
    }
    return max(parts, key=parts.__getitem__)


def _value(machine: Machine) -> float:
    return float(machine.bandwidth.value.per_second) if isinstance(machine.bandwidth, Known) else 0.0


def _shares(machine: Machine) -> bool:
    """Whether processor and accelerator share one memory, and so its bandwidth."""
    return isinstance(machine.unified_memory, Known) and machine.unified_memory.value


def _fraction(name: str, end: str) -> float:
    found = constant(name)
    return {"fast": found.high, "slow": found.low}.get(end, found.value)


def _time(name: str, end: str) -> float:
    found = constant(name)
    return {"fast": found.low, "slow": found.high}.get(end, found.value) * MICRO


def _quantity(compute: Callable[[str], float], why: str) -> Quantity:
    value, low, high = (compute(end) for end in ("value", "slow", "fast"))
    return Quantity(value, min(low, value), max(high, value), why)
