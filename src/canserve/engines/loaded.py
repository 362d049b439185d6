"""Weights per rank for engines built on torch: what their options make of a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from canserve.engines.habits import Habits
from canserve.facts import Fact, Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.layers.text import decoder
from canserve.memory.options import BadOption, Options
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request, Serving
from canserve.memory.weights.loading import DTYPES, Loading, loading
from canserve.memory.weights.rotary import rotary_bytes
from canserve.memory.weights.sharding import rank_weights
from canserve.memory.weights.stored import tensors_of
from canserve.rules.weights import Padding, loads_first, paddings, scales_twice
from canserve.subjects.tensor import BITS

AHEAD = ("mtp", "nextn", "eagle")
"""Words in a way to speculate that uses the model's own layers, if it brings no other model."""


def loading_of(request: Request, habits: Habits) -> Fact[Loading]:
    """How it loads the model under the request's options. Missing: an option holds nonsense."""
    try:
        return Known(_how(request, habits))
    except BadOption as bad:
        return bad.missing()


def weights_of(request: Request, habits: Habits) -> Fact[tuple[Quantity, ...]]:
    """Bytes of weights on every rank. Missing: tensors are not known, or an option holds nonsense."""
    try:
        how = _how(request, habits)
    except BadOption as bad:
        return bad.missing()
    tensors = tensors_of(request.model, how.towers)
    if isinstance(tensors, Missing):
        return tensors
    return Known(rank_weights(tensors.value, how, request.placement), tensors.evidence)


def with_peaks(serving: Fact[Serving], request: Request, habits: Habits) -> Fact[Serving]:
    """The same, with what loading takes at most where that is more than what stays.

    Releases that quantize a checkpoint while loading once held all of it unquantized first.
    """
    how = loading_of(request, habits)
    if isinstance(serving, Missing) or isinstance(how, Missing) or how.value.online is None:
        return serving
    row = loads_first(habits.engine, request.version)
    tensors = tensors_of(request.model, how.value.towers)
    if row is None or isinstance(tensors, Missing):
        return serving
    plain = rank_weights(tensors.value, replace(how.value, online=None), request.placement)
    why = f"held unquantized until all of it is there [{row.source}]"
    partly = (
        row.values.get("partly") is True
    )  # experts come in quantized already: no more than that is certain
    ranks = []
    for rank, peak in zip(serving.value.ranks, plain, strict=True):
        low = min(peak.low, rank.weights.low) if partly else peak.low
        ranks.append(replace(rank, load_peak=Quantity(peak.value, low, peak.high, why)))
    return Known(replace(serving.value, ranks=tuple(ranks)), serving.evidence)


def _how(request: Request, habits: Habits) -> Loading:
    """The model's own way, changed by options. Raises BadOption."""
    options, own = Options(request.options), loading(request.model)
    asked = options.text("dtype", "auto").lower()
    dtype = own.dtype if asked == "auto" else DTYPES.get(asked)
    if dtype is None and asked != "auto":
        raise BadOption("dtype", asked, f"one of auto, {', '.join(DTYPES)}")
    quantized = isinstance(request.model.quantization, Known) and request.model.quantization.value is not None
    own_padding, most_padding = _padding(request, habits)
    online = options.text("quantization", "").lower() in habits.online and not quantized
    return replace(
        own,
        dtype=dtype,
        towers=not any(options.flag(name) for name in habits.text_only) and not _no_inputs(options),
        whole_towers=any(options.text(name, "").lower() == value for name, value in habits.whole_towers),
        ahead=_ahead(options, habits),
        across_replicas=habits.across_replicas,
        absorbs=habits.absorbs,
        online="F8_E4M3" if online else None,
        buffers=_rotary(request, own, dtype, habits.sections),
        scales_twice=_twice(request, habits),
        padding=own_padding,
        most_padding=most_padding,
    )


def _padding(request: Request, habits: Habits) -> tuple[Padding, Padding] | tuple[None, None]:
    """How packed experts are padded on these accelerators, and at most; None where it is not known."""
    rows = paddings(_method(request)) if habits.pads else ()
    if not rows:
        return None, None
    most = max((padding for _, padding in rows), key=lambda padding: (padding.hidden, padding.width))
    here = _tenfold(request)
    return next((padding for tenfolds, padding in rows if here in tenfolds), most), most


def _twice(request: Request, habits: Habits) -> bool:
    here = _tenfold(request)
    return here is not None and scales_twice(habits.engine, request.version, _method(request), here)


def _method(request: Request) -> str:
    """How the checkpoint is quantized; empty: not at all, or not known."""
    quantization = request.model.quantization
    return quantization.value.method if isinstance(quantization, Known) and quantization.value else ""


def _tenfold(request: Request) -> int | None:
    """Compute capability of the first accelerator, times ten; None: it has none, or it is not known."""
    found = [device.machine.capability for device in request.devices]
    known = [fact.value.tenfold for fact in found if isinstance(fact, Known) and fact.value is not None]
    return known[0] if known else None


def _no_inputs(options: Options) -> bool:
    """Whether every kind of input that a tower would take is limited to none."""
    limits = options.table("limit_mm_per_prompt")
    return {"image", "video"} <= limits.keys() and not any(limits.values())


def _ahead(options: Options, habits: Habits) -> bool:
    for name in habits.draft:
        value = options.get(name)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = options.table(name)
        if isinstance(value, dict):
            value = "" if value.get("model") else value.get("method")
        if isinstance(value, str) and any(word in value.lower() for word in AHEAD):
            return True
    return False


def _rotary(request: Request, how: Loading, dtype: str | None, sections: int) -> int:
    if not isinstance(request.model.config, Known):
        return 0
    try:
        found = decoder(request.model.config.value)
        return rotary_bytes(found, how.layers, BITS[dtype or "BF16"] // 8, sections)
    except Lacking:
        return 0
