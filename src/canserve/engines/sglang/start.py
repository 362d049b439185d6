"""A start of SGLang as its options, its defaults and the devices make it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.engines.sglang.compressed import PAGE, RUNNING, WINDOW_RATIO, Rings, Sizing
from canserve.facts import Known
from canserve.memory.cache.rows import ELEMENT, CacheDtype, cache_dtype
from canserve.memory.cache.state import StateDtypes
from canserve.memory.fields import Lacking
from canserve.memory.layers.kinds import Latent, Layer
from canserve.memory.model_facts import ModelFacts, model_facts
from canserve.memory.options import BadOption, Options
from canserve.memory.request import Request
from canserve.memory.unfollowed import refuse_unfollowed
from canserve.memory.unserved import Unserved
from canserve.rules.memory import Rules
from canserve.subjects.parallel import Device, Placement

MIB = 1 << 20
LARGE = 60 * 1024
"""MiB of a device above which a least reserve holds."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the engine."""

    rules: Rules
    model: ModelFacts
    placement: Placement
    devices: tuple[Device, ...]
    fraction: float
    why_fraction: str
    after_capture: bool
    length: int
    """``context_length``."""
    model_length: int
    chunk: int
    """Tokens of a prefill step."""
    graph_batch: int
    graph_sizes: int
    dtype: CacheDtype
    state_dtypes: StateDtypes
    page: int
    windows_apart: bool
    window_ratio: float
    window_ratio_asked: bool
    state_ratio: float
    states: int | None
    """Sequences whose state is kept, where it is a fixed number."""
    prefix_cache: bool
    running: int | None
    most_tokens: int | None
    attention_ranks: int
    """Over how many ranks the heads of attention are cut."""
    draft_layers: tuple[Layer, ...]
    rings: Rings | None
    """Where the cache is compressed along the sequence."""
    fixed_cache: int | None
    notes: tuple[str, ...]


def read_start(request: Request, config: Mapping[str, Any], rules: Rules) -> Start:
    """The start that a request describes. Raises Lacking, BadOption, Unserved."""
    refuse_unfollowed(request.options)
    options = Options(request.options)
    model = model_facts(request.model, config)
    if model.recurrent and rules.value("states") == "none":
        raise Unserved("does not serve recurrent state")
    length = options.number("context_length", default=model.context)
    if length is None:
        raise Lacking("max_position_embeddings")
    mib = request.devices[0].total // MIB
    chunk, graphs = _batch(options, rules, mib, _ranks(request.placement) // request.placement.parallel.pp)
    after = _after_capture(options, rules, model)
    fraction, why = _fraction(_Fraction(options, rules, model, request.placement, mib, chunk, graphs, after))
    rings = _rings(request, options, rules, model)
    apart = any(name in rules.value("windows") for name in model.architectures)
    radix = not options.flag("disable_radix_cache")
    running = options.number("max_running_requests", default=RUNNING if rings else None)
    return Start(
        rules=rules,
        model=model,
        placement=request.placement,
        devices=request.devices,
        fraction=fraction,
        why_fraction=why,
        after_capture=after,
        length=length,
        model_length=model.context or length,
        chunk=chunk,
        graph_batch=graphs,
        graph_sizes=0 if options.flag("disable_cuda_graph") else _sizes(graphs),
        dtype=_dtype(options, model),
        state_dtypes=_states(options, model),
        page=PAGE if rings else options.number("page_size", default=1) or 1,
        windows_apart=apart and not options.flag("disable_hybrid_swa_memory"),
        window_ratio=options.fraction("swa_full_tokens_ratio", WINDOW_RATIO if rings else 0.8),
        window_ratio_asked=options.get("swa_full_tokens_ratio") is not None,
        state_ratio=options.ratio("mamba_full_memory_ratio", 0.9),
        states=options.number("max_mamba_cache_size") or (None if radix else running),
        prefix_cache=radix,
        running=running,
        most_tokens=options.number("max_total_tokens"),
        attention_ranks=_attention_ranks(options, request.placement),
        draft_layers=model.drafted() if _drafting(options) in {"EAGLE", "NEXTN"} else (),
        rings=rings,
        fixed_cache=options.number("kv_cache_bytes"),
        notes=_notes(rules, after),
    )


def _rings(request: Request, options: Options, rules: Rules, model: ModelFacts) -> Rings | None:
    if not model.compressed:
        return None
    name = options.text("kv_cache_dtype", "auto")
    if name not in {"auto", "fp8_e4m3"}:
        raise Unserved(f"the size of {name} in a cache that is compressed along the sequence is not known")
    capability = request.devices[0].machine.capability
    major = capability.value.major if isinstance(capability, Known) and capability.value else 0
    return Rings(Sizing(rules.value("compressed")), bool(_drafting(options)), major)


def _drafting(options: Options) -> str:
    return options.text("speculative_algorithm", "").upper()


def _attention_ranks(options: Options, placement: Placement) -> int:
    """With data-parallel attention every replica keeps the cache of its own sequences."""
    if options.flag("enable_dp_attention") and placement.parallel.dp == 1:
        return max(placement.parallel.tp // (options.number("dp_size", "dp", default=1) or 1), 1)
    return placement.parallel.tp


def _batch(options: Options, rules: Rules, mib: int, tp: int) -> tuple[int, int]:
    """Tokens of a chunk, and the largest batch whose graph is captured."""
    rows: Sequence[Sequence[int]] = rules.value("batch")
    _, chunk, few, many = next(row for row in rows if mib < row[0])
    asked = options.get("chunked_prefill_size")
    whole = options.number("max_prefill_tokens", default=16384) or 16384
    chunk = whole if asked in (-1, "-1") else options.number("chunked_prefill_size", default=chunk) or chunk
    graphs = options.number("cuda_graph_max_bs", default=few if tp < 4 else many) or few
    return chunk, graphs


@dataclass(frozen=True, slots=True)
class _Fraction:
    """What the default of ``mem_fraction_static`` depends on."""

    options: Options
    rules: Rules
    model: ModelFacts
    placement: Placement
    mib: int
    chunk: int
    graphs: int
    after: bool


def _fraction(it: _Fraction) -> tuple[float, str]:
    if it.options.get("mem_fraction_static") is not None:
        return it.options.fraction("mem_fraction_static", 1.0), "as asked for"
    rule = it.rules.value("fraction")
    match rule["kind"]:
        case "degree":
            value = _by_degree(rule, it)
        case "tiers":
            value = _kept(it.mib, _by_tier(rule, it))
        case _:
            value = _kept(it.mib, _by_parts(rule, it))
    if it.model.encoder and it.rules.value("encoder") and not it.options.flag("language_model_only"):
        value *= _encoder_factor(it.model)
    if not 0 < value <= 1:
        raise BadOption("mem_fraction_static", value, "left above zero by the default's own reserve")
    return value, it.rules.why("fraction")


def _kept(mib: int, reserved: float) -> float:
    return round((mib - reserved) / mib, 3)


def _by_degree(rule: Mapping[str, Any], it: _Fraction) -> float:
    if it.mib > 81920 and "above" in rule:
        return float((it.mib - rule["above"]) / it.mib)
    return float(next(share for degree, share in rule["steps"] if it.placement.parallel.tp >= degree))


def _ranks(placement: Placement) -> int:
    """What the engine multiplies: its tensor parallel size counts all replicas where only attention is apart."""
    parallel = placement.parallel
    return parallel.tp * parallel.pp * (parallel.dp if parallel.joined else 1)


def _apart(it: _Fraction) -> bool:
    """Whether attention is data parallel."""
    return it.placement.parallel.joined or it.options.flag("enable_dp_attention")


def _by_tier(rule: Mapping[str, Any], it: _Fraction) -> float:
    ranks = _ranks(it.placement)
    _, base, each = next(row for row in rule["steps"] if it.mib < row[0])
    reserved = base + each * ranks
    if drafting := _drafting(it.options):
        reserved += 6144 if drafting == "STANDALONE" else rule["drafted"]
    return float(reserved + (rule["replicas"] if _apart(it) else 0))


def _by_parts(rule: Mapping[str, Any], it: _Fraction) -> float:
    ranks = _ranks(it.placement)
    if it.after and "after_capture" in rule:
        return float(rule["after_capture"] + rule["rank"] * ranks)
    reserved = rule["constant"] + rule["token"] * max(it.chunk, 2048) + rule["rank"] * ranks
    graphs = 0 if it.options.flag("disable_cuda_graph") and rule.get("after_capture") else it.graphs
    reserved += rule["graph"] * graphs
    if _apart(it):
        replicas = it.placement.parallel.dp
        if replicas == 1:
            replicas = it.options.number("dp_size", "dp", default=1) or 1
        reserved += graphs * replicas * (4.5 if graphs > 300 else 3)
    if rule.get("pieces") and not it.options.flag("disable_piecewise_cuda_graph"):
        latent = any(isinstance(mixer, Latent) for layer in it.model.layers for mixer in layer.mixers)
        reserved += 1536 if latent else 8 * _pieces(it.chunk)
    if it.mib > LARGE:
        reserved = max(reserved, rule["least"])
    if (drafting := _drafting(it.options)) and drafting != "NGRAM" and rule["drafted"]:
        reserved += 6144 if drafting == "STANDALONE" else rule["drafted"]
    return float(reserved)


def _pieces(tokens: int) -> int:
    """Sizes of prefill whose graphs are captured: 4, then steps of 4, 16, 32, 64, 128, 256 and 512 tokens.

    Source: sglang 0.5.12, server_args.py, ``_generate_piecewise_cuda_graph_tokens``.
    """
    steps = ((4, 32), (16, 256), (32, 512), (64, 1024), (256, 4096), (512, tokens))
    count, at = 0, 0
    for step, end in steps:
        last = min(end, tokens)
        count += max((last - at) // step, 0)
        at = max(at, last)
    return count


def _encoder_factor(model: ModelFacts) -> float:
    """Source: sglang 0.5.12, server_args.py, ``adjust_mem_fraction_for_vlm``."""
    vision = model.whole.inner("vision_config")
    if vision is None:
        return 1.0
    layers = vision.number("num_hidden_layers", default=24)
    width = vision.number("hidden_size", default=1024)
    grown = layers * width**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (grown - 1.0)))


def _after_capture(options: Options, rules: Rules, model: ModelFacts) -> bool:
    """Whether the pool is sized after the graphs are captured, which an environment variable asks for."""
    latent = any(isinstance(mixer, Latent) for layer in model.layers for mixer in layer.mixers)
    asked = options.flag("SGLANG_ENABLE_POST_CAPTURE_KV_SIZING")
    planned = rules.value("sized") == "capture" and asked
    return bool(planned and not latent and not options.flag("disable_cuda_graph"))


def _sizes(most: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, 8, 12, then steps of 8, 16 and 32, and the largest.

    Source: sglang 0.5.12, server_args.py, ``_generate_cuda_graph_batch_sizes``.
    """
    sizes = {1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, most + 1, 32), most}
    return sum(size <= most for size in sizes)


def _dtype(options: Options, model: ModelFacts) -> CacheDtype:
    own = options.text("dtype", "auto")
    name = options.text("kv_cache_dtype", "auto")
    if name == "auto":
        name = model.dtype if own == "auto" else own
    found = cache_dtype(name)
    if found is None:
        raise BadOption("kv_cache_dtype", name, "a cache dtype whose size is known here")
    return found


def _states(options: Options, model: ModelFacts) -> StateDtypes:
    name = options.text("mamba_ssm_dtype", "") or model.text.text("mamba_ssm_dtype") or "float32"
    width = ELEMENT.get(name)
    if width is None:
        raise BadOption("mamba_ssm_dtype", name, "a dtype")
    return StateDtypes(2, width)


def _notes(rules: Rules, after: bool) -> tuple[str, ...]:
    notes = []
    if after:
        notes.append("the pool is sized after the graphs are captured")
    if rules.beyond:
        notes.append(
            f"memory rules of sglang {rules.beyond} are applied, the newest that they were compared with"
        )
    return tuple(notes)
