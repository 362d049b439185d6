"""Parameters of vision towers and of what leads from them into the decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from canserve.memory.fields import Fields, Lacking
from canserve.memory.weights.blocks.audio import qwen2_audio, voxtral
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.intern import internvit

Tower = Callable[[Draft, Fields, Fields, int], None]
"""Lists a tower: the draft, the tower's config, the whole config, the decoder's width. Raises Lacking."""


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How a multimodal model wraps its decoder."""

    root: str
    """Module of the decoder: ``model.language_model``."""
    head: str
    """Module of the output head."""
    tower: Tower
    key: str = "vision_config"
    """Where the tower's config stands."""


def qwen_merged(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Qwen3-VL, Qwen3.5: patches, a learned position table, mergers of neighbouring patches."""
    width, depth = tower.number("hidden_size"), tower.number("depth")
    out = tower.number("out_hidden_size", default=hidden)
    merged = width * tower.number("spatial_merge_size") ** 2
    patch = tower.number("patch_size")
    with draft.under("model.visual"):
        draft.plain(
            "patch_embed.proj.weight", width, tower.number("in_channels", default=3),
            tower.number("temporal_patch_size"), patch, patch,
        )  # fmt: skip
        draft.plain("patch_embed.proj.bias", width)
        draft.plain("pos_embed.weight", tower.number("num_position_embeddings"), width)
        for number in range(_depth(tower, depth)):
            with draft.under(f"blocks.{number}"):
                _fused_block(draft, width)
                _pair(draft, "mlp.linear_fc1", "mlp.linear_fc2", width, tower.number("intermediate_size"))
        mergers = [("merger", width)]
        mergers += [(f"deepstack_merger_list.{n}", merged) for n in range(_levels(tower))]
        for name, normed in mergers:
            with draft.under(name):
                draft.norm("norm", normed, bias=True)
                draft.linear("linear_fc1", merged, merged, bias=True)
                draft.linear("linear_fc2", out, merged, bias=True)


def _levels(tower: Fields) -> int:
    listed = tower.sequence("deepstack_visual_indexes")
    if listed is None and tower.text("model_type").startswith("qwen3_vl"):
        raise Lacking(tower.name("deepstack_visual_indexes"))
    return len(listed or ())


def _depth(tower: Fields, depth: int) -> int:
    if depth > 1000:
        raise Lacking(tower.name("depth"), depth)
    return depth


def _fused_block(draft: Draft, width: int) -> None:
    draft.norm("norm1", width, bias=True)
    draft.norm("norm2", width, bias=True)
    draft.linear("attn.qkv", 3 * width, width, bias=True)
    draft.linear("attn.proj", width, width, bias=True)


def _pair(draft: Draft, up: str, down: str, width: int, inner: int, bias: bool = True) -> None:
    draft.linear(up, inner, width, bias)
    draft.linear(down, width, inner, bias)


def qwen2(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Qwen2-VL: rotary positions, one merger; ``embed_dim`` is its width, ``hidden_size`` the decoder's."""
    width = tower.number("embed_dim")
    inner = width * int(tower.number("mlp_ratio", default=4))
    with draft.under("visual"):
        _qwen2_patches(draft, tower, width)
        for number in range(_depth(tower, tower.number("depth"))):
            with draft.under(f"blocks.{number}"):
                _fused_block(draft, width)
                _pair(draft, "mlp.fc1", "mlp.fc2", width, inner)
        draft.norm("merger.ln_q", width, bias=True)
        _qwen2_merger(draft, tower, width, tower.number("hidden_size", default=hidden))


def qwen2_5(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Qwen2.5-VL: gated MLPs and norms without bias."""
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    with draft.under("visual"):
        _qwen2_patches(draft, tower, width)
        for number in range(_depth(tower, tower.number("depth"))):
            with draft.under(f"blocks.{number}"):
                draft.norm("norm1", width)
                draft.norm("norm2", width)
                draft.linear("attn.qkv", 3 * width, width, bias=True)
                draft.linear("attn.proj", width, width, bias=True)
                draft.linear("mlp.gate_proj", inner, width, bias=True)
                _pair(draft, "mlp.up_proj", "mlp.down_proj", width, inner)
        draft.norm("merger.ln_q", width)
        _qwen2_merger(draft, tower, width, tower.number("out_hidden_size", default=hidden))


def _qwen2_patches(draft: Draft, tower: Fields, width: int) -> None:
    patch = tower.number("patch_size", "spatial_patch_size")
    channels = tower.number("in_channels", "in_chans", default=3)
    draft.plain(
        "patch_embed.proj.weight",
        width,
        channels,
        tower.number("temporal_patch_size", default=2),
        patch,
        patch,
    )


def _qwen2_merger(draft: Draft, tower: Fields, width: int, out: int) -> None:
    merged = width * tower.number("spatial_merge_size", default=2) ** 2
    draft.linear("merger.mlp.0", merged, merged, bias=True)
    draft.linear("merger.mlp.2", out, merged, bias=True)


def siglip(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Gemma 3: SigLIP, whose pooling head is there unless the config says otherwise, and a projection."""
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    patch = tower.number("patch_size")
    places = (tower.number("image_size") // max(patch, 1)) ** 2
    with draft.under("vision_tower.vision_model"):
        draft.plain("embeddings.patch_embedding.weight", width, 3, patch, patch)
        draft.plain("embeddings.patch_embedding.bias", width)
        draft.plain("embeddings.position_embedding.weight", places, width)
        for number in range(_depth(tower, tower.number("num_hidden_layers"))):
            with draft.under(f"encoder.layers.{number}"):
                draft.norm("layer_norm1", width, bias=True)
                draft.norm("layer_norm2", width, bias=True)
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    draft.linear(f"self_attn.{name}", width, width, bias=True)
                _pair(draft, "mlp.fc1", "mlp.fc2", width, inner)
        draft.norm("post_layernorm", width, bias=True)
        if tower.flag("vision_use_head", True):
            _pooling(draft, width, inner)
    with draft.under("multi_modal_projector"):
        draft.plain("mm_input_projection_weight", width, hidden)
        draft.plain("mm_soft_emb_norm.weight", width)


def _pooling(draft: Draft, width: int, inner: int) -> None:
    with draft.under("head"):
        draft.plain("probe", 1, 1, width)
        draft.plain("attention.in_proj_weight", 3 * width, width)
        draft.plain("attention.in_proj_bias", 3 * width)
        draft.linear("attention.out_proj", width, width, bias=True)
        draft.norm("layernorm", width, bias=True)
        _pair(draft, "mlp.fc1", "mlp.fc2", width, inner)


def gemma4(draft: Draft, tower: Fields, whole: Fields, hidden: int) -> None:
    """Gemma 4: gated MLPs, norms before and after, and a projection."""
    if whole.inner("audio_config") is not None:
        raise Lacking("audio_config", "an audio tower, whose parameter list is not known")
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    heads, each = tower.number("num_attention_heads"), tower.number("head_dim")
    keys = tower.number("num_key_value_heads")
    patch = tower.number("patch_size")
    clipped = tower.flag("use_clipped_linears", False)
    with draft.under("model.vision_tower"):
        if tower.flag("standardize", False):
            draft.plain("std_bias", width)
            draft.plain("std_scale", width)
        draft.plain(
            "patch_embedder.position_embedding_table", 2, tower.number("position_embedding_size"), width
        )
        draft.linear("patch_embedder.input_proj", width, 3 * patch * patch)
        for number in range(_depth(tower, tower.number("num_hidden_layers"))):
            with draft.under(f"encoder.layers.{number}"):
                for name, rows, columns in (
                    ("self_attn.q_proj", heads * each, width), ("self_attn.k_proj", keys * each, width),
                    ("self_attn.v_proj", keys * each, width), ("self_attn.o_proj", width, heads * each),
                    ("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width),
                    ("mlp.down_proj", width, inner),
                ):  # fmt: skip
                    draft.linear(f"{name}.linear", rows, columns)
                    for bound in ("input_max", "input_min", "output_max", "output_min") if clipped else ():
                        draft.plain(f"{name}.{bound}")
                draft.norm("self_attn.q_norm", each)
                draft.norm("self_attn.k_norm", each)
                for name in (
                    "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                    "post_feedforward_layernorm",
                ):  # fmt: skip
                    draft.norm(name, width)
    draft.linear("model.embed_vision.embedding_projection", hidden, width)


def llama4(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Llama 4: unfolded patches, an adapter that merges them, and a projection."""
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    patch = tower.number("patch_size")
    places = (tower.number("image_size") // max(patch, 1)) ** 2 + 1
    with draft.under("vision_model"):
        draft.plain("class_embedding", width)
        draft.plain("positional_embedding_vlm", places, width)
        draft.plain(
            "patch_embedding.linear.weight", width, tower.number("num_channels", default=3) * patch**2
        )
        draft.norm("layernorm_pre", width, bias=True)
        draft.norm("layernorm_post", width, bias=True)
        for number in range(_depth(tower, tower.number("num_hidden_layers"))):
            with draft.under(f"model.layers.{number}"):
                for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                    draft.linear(f"self_attn.{name}", width, width, bias=True)
                _pair(draft, "mlp.fc1", "mlp.fc2", width, inner)
                draft.norm("input_layernorm", width, bias=True)
                draft.norm("post_attention_layernorm", width, bias=True)
        adapter = tower.number("projector_input_dim")
        draft.linear("vision_adapter.mlp.fc1", adapter, inner)
        draft.linear("vision_adapter.mlp.fc2", tower.number("projector_output_dim"), adapter)
    draft.linear("multi_modal_projector.linear_1", hidden, tower.number("vision_output_dim"))


def moonvit(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Kimi: MoonViT and its patch merger, of either generation."""
    width = tower.number("vt_hidden_size", "hidden_size")
    inner = tower.number("vt_intermediate_size", "intermediate_size")
    heads = tower.number("qkv_hidden_size", default=width)
    patch = tower.number("patch_size")
    layered = tower.text("norm_type", "layernorm") == "layernorm"
    attends, linear = tower.flag("attn_bias", True), tower.flag("linear_bias", True)
    with draft.under("vision_tower"):
        places = (
            tower.number("init_pos_emb_height", "pos_emb_height"),
            tower.number("init_pos_emb_width", "pos_emb_width"),
        )
        draft.plain("patch_embed.pos_emb.weight", *places, width)
        draft.plain("patch_embed.proj.weight", width, 3, patch, patch)
        if tower.flag("patch_embed_proj_bias", True):
            draft.plain("patch_embed.proj.bias", width)
        for number in range(_depth(tower, tower.number("vt_num_hidden_layers", "num_hidden_layers"))):
            with draft.under(f"encoder.blocks.{number}"):
                draft.norm("norm0", width, layered)
                draft.norm("norm1", width, layered)
                draft.linear("wqkv", 3 * heads, width, attends)
                draft.linear("wo", width, heads, attends)
                _pair(draft, "mlp.fc0", "mlp.fc1", width, inner, linear)
        draft.norm("encoder.final_layernorm", width, layered)
    with draft.under("mm_projector"):
        _moon_projector(draft, tower, width, tower.number("text_hidden_size", default=hidden))


def _moon_projector(draft: Draft, tower: Fields, width: int, out: int) -> None:
    kernel = tower.sequence("merge_kernel_size") or ()
    if len(kernel) != 2 or not all(type(size) is int and 0 < size < 100 for size in kernel):
        raise Lacking(tower.name("merge_kernel_size"), kernel or None)
    merged = width * kernel[0] * kernel[1]
    first = tower.text("mm_projector_type", "patchmerger") == "patchmerger"
    if first:
        draft.norm("pre_norm", width, bias=True)
    draft.linear("proj.0", merged, merged, bias=first)
    draft.linear("proj.2", out, merged, bias=first)
    if not first:
        draft.norm("post_norm", out)


def pixtral(draft: Draft, tower: Fields, whole: Fields, hidden: int) -> None:
    """Mistral 3: Pixtral's tower, a patch merger and a projection."""
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    patch, merge = tower.number("patch_size"), whole.number("spatial_merge_size")
    bias = whole.flag("multimodal_projector_bias", False)
    with draft.under("vision_tower"):
        draft.plain("patch_conv.weight", width, tower.number("num_channels", default=3), patch, patch)
        draft.norm("ln_pre", width)
        for number in range(_depth(tower, tower.number("num_hidden_layers"))):
            with draft.under(f"transformer.layers.{number}"):
                draft.norm("attention_norm", width)
                draft.norm("ffn_norm", width)
                for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                    draft.linear(f"attention.{name}", width, width)
                draft.linear("feed_forward.gate_proj", inner, width)
                _pair(draft, "feed_forward.up_proj", "feed_forward.down_proj", width, inner, bias=False)
    with draft.under("multi_modal_projector"):
        draft.norm("norm", width)
        draft.linear("patch_merger.merging_layer", width, width * merge * merge)
        draft.linear("linear_1", hidden, width, bias)
        draft.linear("linear_2", hidden, hidden, bias)


def glm4v(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """GLM-4.1V to GLM-4.6V: gated MLPs, a downsampling convolution and a gated merger."""
    width, out = tower.number("hidden_size"), tower.number("out_hidden_size", default=hidden)
    inner, patch = tower.number("intermediate_size"), tower.number("patch_size")
    merge, frames = tower.number("spatial_merge_size"), tower.number("temporal_patch_size")
    bias = tower.flag("attention_bias", False)
    with draft.under("model.visual"):
        places = (tower.number("image_size") // max(patch, 1)) ** 2
        draft.plain("embeddings.position_embedding.weight", places, width)
        draft.plain(
            "patch_embed.proj.weight", width, tower.number("in_channels", default=3), frames, patch, patch
        )
        draft.plain("patch_embed.proj.bias", width)
        for number in range(_depth(tower, tower.number("depth"))):
            with draft.under(f"blocks.{number}"):
                draft.norm("norm1", width)
                draft.norm("norm2", width)
                draft.linear("attn.qkv", 3 * width, width, bias)
                draft.linear("attn.proj", width, width)
                draft.linear("mlp.gate_proj", out, width)
                _pair(draft, "mlp.up_proj", "mlp.down_proj", width, out, bias=False)
        draft.norm("post_conv_layernorm", width)
        draft.norm("post_layernorm", width)
        draft.plain("downsample.weight", out, width, merge, merge)
        draft.plain("downsample.bias", out)
        with draft.under("merger"):
            draft.linear("proj", out, out)
            draft.norm("post_projection_norm", out, bias=True)
            draft.linear("gate_proj", inner, out)
            _pair(draft, "up_proj", "down_proj", out, inner, bias=False)


def step(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Step-3.7: a transformer with layer scales, two downsampling convolutions and a projection."""
    width, inner = tower.number("hidden_size"), tower.number("intermediate_size")
    patch = tower.number("patch_size")
    places = (tower.number("image_size") // max(patch, 1)) ** 2
    with draft.under("vision_model"):
        draft.plain("conv1.weight", width, 3, patch, patch)
        draft.plain("positional_embedding", places, width)
        draft.norm("ln_pre", width, bias=True)
        for number in range(_depth(tower, tower.number("num_hidden_layers"))):
            with draft.under(f"transformer.resblocks.{number}"):
                draft.plain("ls_1.gamma", width)
                draft.plain("ls_2.gamma", width)
                draft.norm("ln_1", width, bias=True)
                draft.norm("ln_2", width, bias=True)
                draft.plain("attn.in_proj_weight", 3 * width, width)
                draft.plain("attn.in_proj_bias", 3 * width)
                draft.linear("attn.out_proj", width, width, bias=True)
                _pair(draft, "mlp.c_fc", "mlp.c_proj", width, inner)
        draft.plain("vit_downsampler1.weight", 2 * width, width, 3, 3)
        draft.plain("vit_downsampler1.bias", 2 * width)
        draft.plain("vit_downsampler2.weight", 4 * width, 2 * width, 3, 3)
        draft.plain("vit_downsampler2.bias", 4 * width)
    draft.linear("vit_large_projector", hidden, 4 * width)


_QWEN3 = Wrapping("model.language_model", "lm_head", qwen_merged)
_OUTER = ("language_model.model", "language_model.lm_head")

WRAPPINGS: Mapping[str, Wrapping] = {
    "qwen2_vl": Wrapping("model", "lm_head", qwen2),
    "qwen2_5_vl": Wrapping("model", "lm_head", qwen2_5),
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "qwen3_5": _QWEN3,
    "qwen3_5_moe": _QWEN3,
    "gemma3": Wrapping(*_OUTER, siglip),
    "gemma4": Wrapping("model.language_model", "lm_head", gemma4),
    "llama4": Wrapping(*_OUTER, llama4),
    "kimi_k25": Wrapping(*_OUTER, moonvit),
    "kimi_k3": Wrapping(*_OUTER, moonvit),
    "kimi_vl": Wrapping(*_OUTER, moonvit),
    "mistral3": Wrapping(*_OUTER, pixtral),
    "glm4v": Wrapping("model.language_model", "lm_head", glm4v),
    "glm4v_moe": Wrapping("model.language_model", "lm_head", glm4v),
    "step3p7": Wrapping("model", "lm_head", step),
    "internvl_chat": Wrapping(*_OUTER, internvit),
    "voxtral": Wrapping(*_OUTER, voxtral, "audio_config"),
    "qwen2_audio": Wrapping(*_OUTER, qwen2_audio, "audio_config"),
}
"""By the model type of the whole config."""

TOWER_KEYS = (
    "vision_config", "audio_config", "visual", "vision_tower_config", "vit_config", "encoder_config", "audio_encoder",
    "perceiver_config", "thinker_config", "talker_config",
)  # fmt: skip
"""Keys that tell of a tower: a model that has one and no row above is unknown."""
