"""Parameters of InternViT, the tower of InternVL's own repositories, and its projector."""

from __future__ import annotations

from canserve.memory.fields import Fields, Lacking
from canserve.memory.weights.blocks.draft import Draft


def internvit(draft: Draft, tower: Fields, whole: Fields, hidden: int) -> None:
    """InternVL 2 to 3.5: patches are shuffled together before a two-layer projector."""
    width, inner, patch = (tower.number(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    depth = tower.number("num_hidden_layers")
    layered = tower.text("norm_type", "rms_norm") == "layer_norm"
    if depth > 1000 or not patch:
        raise Lacking(tower.name("num_hidden_layers" if patch else "patch_size"), depth if patch else patch)
    with draft.under("vision_model"):
        with draft.under("embeddings"):
            draft.plain("class_embedding", 1, 1, width)
            draft.plain("patch_embedding.weight", width, 3, patch, patch)
            draft.plain("patch_embedding.bias", width)
            draft.plain("position_embedding", 1, (tower.number("image_size") // patch) ** 2 + 1, width)
        for number in range(depth):
            with draft.under(f"encoder.layers.{number}"):
                _layer(draft, width, inner, tower, layered)
    merged = width * _shuffled(whole) ** 2
    draft.norm("mlp1.0", merged, bias=True)
    draft.linear("mlp1.1", hidden, merged, bias=True)
    draft.linear("mlp1.3", hidden, hidden, bias=True)


def _layer(draft: Draft, width: int, inner: int, tower: Fields, layered: bool) -> None:
    draft.plain("ls1", width)
    draft.plain("ls2", width)
    draft.norm("norm1", width, layered)
    draft.norm("norm2", width, layered)
    draft.linear("attn.qkv", 3 * width, width, tower.flag("qkv_bias", False))
    draft.linear("attn.proj", width, width, bias=True)
    if tower.flag("qk_normalization", False):
        draft.norm("attn.q_norm", width)
        draft.norm("attn.k_norm", width)
    draft.linear("mlp.fc1", inner, width, bias=True)
    draft.linear("mlp.fc2", width, inner, bias=True)


def _shuffled(whole: Fields) -> int:
    """How many patches along a side become one. Raises Lacking."""
    ratio = whole.values.get("downsample_ratio")
    if not isinstance(ratio, float) or not 0.05 <= ratio <= 1:
        raise Lacking("downsample_ratio", ratio)
    return int(1 / ratio)
