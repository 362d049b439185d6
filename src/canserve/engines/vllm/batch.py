"""A start of vLLM as its options, its defaults and the devices make it: batch, cache dtype, context, graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canserve.engines.vllm.cache import CacheSetting, plain_dtype
from canserve.facts import Known
from canserve.memory.activation import Batch, stage_layers
from canserve.memory.cache.rows import ELEMENT, CacheDtype, cache_dtype
from canserve.memory.cache.state import StateDtypes
from canserve.memory.fields import Lacking
from canserve.memory.graphs import capture_sizes
from canserve.memory.layers.kinds import Layer, Recurrence
from canserve.memory.model_facts import ModelFacts, model_facts
from canserve.memory.options import BadOption, Options
from canserve.memory.quantity import GIB
from canserve.memory.request import Request
from canserve.memory.unfollowed import refuse_unfollowed
from canserve.memory.unserved import Unserved
from canserve.rules.memory import Rules
from canserve.subjects.parallel import Device, Placement

CAREFUL = 0.85
"""Utilisation of unified memory above which a start is not certain: the system, page cache and loading need room."""


COMPRESSED_DTYPE = (
    "fp8, the one form in which this release keeps a cache that is compressed along the sequence"
)
EVERY_BLOCK = frozenset(
    f"{name}ForCausalLM"
    for name in ("Bamba", "FalconH1", "GraniteMoeHybrid", "Jamba", "Mamba2", "Mamba", "NemotronH", "Zamba2")
)
"""Architectures that can keep a recurrent state for every block (0.11.1 to 0.31.0, ``SupportsMambaPrefixCaching``)."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the engine."""

    rules: Rules
    model: ModelFacts
    placement: Placement
    devices: tuple[Device, ...]
    utilization: float
    length: int
    """``max_model_len``."""
    model_length: int
    batch: Batch
    cache: CacheSetting
    draft_layers: tuple[Layer, ...]
    in_flight: int
    shards: int
    graph_sizes: int
    second_runner: bool
    text_only: bool
    fixed_cache: int | None
    blocks: int | None
    notes: tuple[str, ...]

    def stage(self, number: int) -> tuple[Layer, ...]:
        """The layers of a pipeline stage that keep a cache; the drafted ones lie on the last."""
        own = stage_layers(self.model.layers, self.placement.layers, number)
        return own + (self.draft_layers if number == self.placement.parallel.pp - 1 else ())


def read_start(request: Request, config: Mapping[str, Any], rules: Rules) -> Start:
    """The start that a request describes. Raises Lacking, BadOption, Unserved."""
    refuse_unfollowed(request.options)
    options = Options(request.options)
    model = model_facts(request.model, config)
    if model.recurrent and rules.value("states") == "outside":
        raise Unserved("keeps recurrent state outside its pool")
    length = _length(options, model)
    drafting = _Drafting.of(options)
    draft_layers = model.drafted() if drafting.own else ()
    batch = _batch(request, options, rules, length)
    second = _second_runner(rules, model)
    cache = _cache(request, options, rules, model, length)
    return Start(
        rules=rules,
        model=model,
        placement=request.placement,
        devices=request.devices,
        utilization=options.fraction("gpu_memory_utilization", rules.value("utilization")),
        length=length,
        model_length=model.context or length,
        batch=batch,
        cache=replace(cache, drafted=drafting.tokens),
        draft_layers=draft_layers,
        in_flight=batch.tokens * _batches(request, rules),
        shards=(options.number("decode_context_parallel_size", default=1) or 1)
        * (options.number("prefill_context_parallel_size", default=1) or 1),
        graph_sizes=_graph_sizes(options, batch, drafting.tokens),
        second_runner=second,
        text_only=_text_only(options),
        fixed_cache=options.number("kv_cache_memory_bytes", "kv_cache_memory")
        if rules.value("fixed_cache")
        else None,
        blocks=options.number("num_gpu_blocks_override"),
        notes=_notes(request, options, rules, drafting),
    )


def _length(options: Options, model: ModelFacts) -> int:
    value = options.get("max_model_len")
    if value in (-1, "-1", "auto") or value is None:
        if model.context is None:
            raise Lacking("max_position_embeddings")
        return model.context
    return options.number("max_model_len") or 1


@dataclass(frozen=True, slots=True)
class _Drafting:
    """Speculative decoding, as far as it changes memory."""

    tokens: int
    own: bool
    """Whether the model's own extra layers predict."""
    other: str | None
    """A draft model whose own memory is not counted."""

    @classmethod
    def of(cls, options: Options) -> _Drafting:
        """From ``speculative_config``."""
        table = Options(options.table("speculative_config"))
        method = table.text("method", "")
        tokens = table.number("num_speculative_tokens", default=1 if table.values else 0) or 0
        own = method.endswith("mtp") or method == "nextn"
        other = None if own or not table.values or method.startswith("ngram") else table.text("model", method)
        return cls(tokens, own, other)


def _batch(request: Request, options: Options, rules: Rules, length: int) -> Batch:
    tier = _tier(rules.value("batch"), request.devices[0])
    tokens = options.number("max_num_batched_tokens")
    sequences = options.number("max_num_seqs")
    if tokens is None:
        tokens = tier["server" if request.server else "offline"]
        if tier.get("whole_context"):
            tokens = max(tokens, length)
        tokens = min(tokens, (sequences or tier["seqs"]) * length)
    if sequences is not None and sequences > tokens:  # SchedulerConfig refuses it in every release
        raise BadOption("max_num_seqs", sequences, f"at most the {tokens} of max_num_batched_tokens")
    return Batch(tokens, min(sequences or tier["seqs"], tokens))


def _tier(tiers: Sequence[Mapping[str, Any]], device: Device) -> Mapping[str, Any]:
    gpu = device.machine.gpu.value.lower() if isinstance(device.machine.gpu, Known) else ""
    for tier in tiers:
        named = any(word in gpu for word in tier["names"]) if "names" in tier else True
        if (
            device.total >= tier.get("gib", 0) * GIB
            and named
            and not any(w in gpu for w in tier.get("not", ()))
        ):
            return tier
    return tiers[-1]


def _batches(request: Request, rules: Rules) -> int:
    """Batches whose tokens a window keeps: asynchronous scheduling computes one while another is prepared."""
    if rules.value("in_flight") == "one":
        return 1
    return request.placement.parallel.pp + (1 if request.placement.parallel.pp == 1 else 0)


def _graph_sizes(options: Options, batch: Batch, drafted: int) -> int:
    if options.flag("enforce_eager"):
        return 0
    compilation = options.table("compilation_config")
    if str(compilation.get("cudagraph_mode", "")).upper().endswith("NONE"):
        return 0
    listed = options.get("cudagraph_capture_sizes") or compilation.get("cudagraph_capture_sizes")
    if isinstance(listed, list | tuple):
        if not all(type(size) is int and size > 0 for size in listed):
            raise BadOption("cudagraph_capture_sizes", listed, "a list of whole numbers above zero")
        return len(listed)
    most = Options(compilation).number("max_cudagraph_capture_size") or options.number(
        "max_cudagraph_capture_size"
    )
    if most is not None:
        return capture_sizes(most, 0, most)
    return capture_sizes(batch.sequences, drafted)


def _second_runner(rules: Rules, model: ModelFacts) -> bool:
    which = rules.value("runner")
    if isinstance(which, list):
        return any(name in which for name in model.architectures) and not model.quantized
    if which == "dense":
        return not model.experts and not model.recurrent
    return bool(which == "v2")


def _text_only(options: Options) -> bool:
    limits = options.table("limit_mm_per_prompt")
    none = bool(limits) and all(value == 0 for value in limits.values())
    return options.flag("language_model_only") or none or options.flag("skip_mm_profiling")


def _cache(request: Request, options: Options, rules: Rules, model: ModelFacts, length: int) -> CacheSetting:
    own = options.text("dtype", "auto")
    plain = plain_dtype(model.dtype if own == "auto" else own)
    capability = request.devices[0].machine.capability
    major = capability.value.major if isinstance(capability, Known) and capability.value else 0
    return CacheSetting(
        rules=rules,
        tp=request.placement.parallel.tp,
        dtype=_cache_dtype(options, rules, model, plain),
        plain=plain,
        states=_state_dtypes(options, rules, model, plain),
        mode=_mode(options, rules, model),
        checkpoints=_checkpoints(rules, model, major),
        block=_block(options),
        length=length,
        drafted=0,
        major=major,
        grouped=not options.flag("disable_hybrid_kv_cache_manager"),
        chunk=model.text.number("mamba_chunk_size", "chunk_size", default=2048),
    )


def _cache_dtype(options: Options, rules: Rules, model: ModelFacts, plain: CacheDtype) -> CacheDtype:
    name = options.text("kv_cache_dtype", "auto")
    if model.compressed:
        if name == "auto":
            name = rules.value("compressed_auto")
        if not name.startswith("fp8"):
            raise BadOption("kv_cache_dtype", options.text("kv_cache_dtype", "auto"), COMPRESSED_DTYPE)
    if name == "auto":
        scaled = model.scaled_cache or ""
        fp8 = any(scaled.startswith(method) for method in rules.value("scaled_cache"))
        name = "fp8" if fp8 else plain.name
    if name == "fp8_ds_mla":
        name = "fp8"
    found = cache_dtype(name)
    if found is None:
        raise BadOption("kv_cache_dtype", name, "a cache dtype whose size is known here")
    return found


def _state_dtypes(options: Options, rules: Rules, model: ModelFacts, plain: CacheDtype) -> StateDtypes:
    conv = options.text("mamba_cache_dtype", "auto")
    state = options.text("mamba_ssm_cache_dtype", "auto")
    if state == "auto":
        state = model.text.text("mamba_ssm_dtype") or model.text.text("mamba_ssm_cache_dtype") or "auto"
    if state == "auto" and model.family == "nemotron_h":
        state = rules.value("mamba_dtype")
    if state == "auto" and model.family in {"kimi_linear", "kimi_k3"}:
        state = "float32"
    width = ELEMENT[plain.name] if conv == "auto" else ELEMENT.get(conv)
    if width is None:
        raise BadOption("mamba_cache_dtype", conv, "a dtype")
    deep = width if state == "auto" else ELEMENT.get(state)
    if deep is None:
        raise BadOption("mamba_ssm_cache_dtype", state, "a dtype")
    return StateDtypes(width, deep)


def _mode(options: Options, rules: Rules, model: ModelFacts) -> str:
    if not model.recurrent or not options.flag("enable_prefix_caching", rules.value("hybrid_prefix")):
        return "none"
    which = rules.value("state_mode")
    able = any(name in EVERY_BLOCK for name in model.architectures)
    asked = options.text("mamba_cache_mode", "none")
    if which in {"off", "some"}:
        return "all" if able and which == "some" else "none"
    if which == "only" and asked == "all":
        raise BadOption("mamba_cache_mode", asked, "a mode of this release")
    if asked == "none":
        asked = "all" if which == "all" else "align"
    return "all" if able and asked == "all" else "align"


def _checkpoints(rules: Rules, model: ModelFacts, major: int) -> frozenset[Recurrence]:
    """Kinds of layers that keep a state to go on from within a prefill."""
    kinds = {"mamba2": Recurrence.MAMBA2, "gdn": Recurrence.GDN, model.family: Recurrence.KDA}
    rows: Mapping[str, Any] = rules.value("checkpoints")
    return frozenset(
        kinds[name] for name, majors in rows.items() if name in kinds and (majors == "all" or major in majors)
    )


def _notes(request: Request, options: Options, rules: Rules, drafting: _Drafting) -> tuple[str, ...]:
    notes = []
    if drafting.other:
        notes.append(f"the draft model {drafting.other} takes memory of its own, which is not counted")
    used = options.fraction("gpu_memory_utilization", rules.value("utilization"))
    if any(device.unified for device in request.devices) and used > CAREFUL:
        notes.append(
            f"gpu_memory_utilization {used:g} of unified memory: above {CAREFUL:g} a start depends on what the"
            " system and the page cache hold"
        )
    if rules.beyond:
        notes.append(
            f"memory rules of vllm {rules.beyond} are applied, the newest that they were compared with"
        )
    return tuple(notes)


def _block(options: Options) -> int | None:
    """Tokens of a block, as the user set it.

    Source: vLLM 0.25.1, v1/attention/backends: ``get_supported_kernel_block_sizes`` are multiples of 8 or 16, or 1.
    """
    block = options.number("block_size")
    if block is not None and block != 1 and (block % 8 or not block):
        raise BadOption(
            "block_size", block, "a number of tokens that attention back ends take: multiples of 8"
        )
    return block
