"""Parameters of audio towers, and of what leads from them into the decoder."""

from __future__ import annotations

from canserve.memory.fields import Fields, Lacking
from canserve.memory.weights.blocks.draft import Draft


def voxtral(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Voxtral: Whisper's encoder, of which four frames make one input of the decoder."""
    width = _whisper(draft, tower)
    inner = tower.number("intermediate_size", "encoder_ffn_dim", default=4 * width)
    draft.linear("multi_modal_projector.linear_1", hidden, inner)
    draft.linear("multi_modal_projector.linear_2", hidden, hidden)


def qwen2_audio(draft: Draft, tower: Fields, _whole: Fields, hidden: int) -> None:
    """Qwen2-Audio: Whisper's encoder and one projection."""
    draft.linear("multi_modal_projector.linear", hidden, _whisper(draft, tower), bias=True)


def _whisper(draft: Draft, tower: Fields) -> int:
    """The encoder; its width."""
    width = tower.number("d_model", "hidden_size")
    inner = tower.number("encoder_ffn_dim", "intermediate_size")
    depth = tower.number("encoder_layers", "num_hidden_layers")
    if depth > 1000:
        raise Lacking(tower.name("encoder_layers"), depth)
    with draft.under("audio_tower"):
        for name, inputs in (("conv1", tower.number("num_mel_bins")), ("conv2", width)):
            draft.plain(f"{name}.weight", width, inputs, 3)
            draft.plain(f"{name}.bias", width)
        draft.plain("embed_positions.weight", tower.number("max_source_positions"), width)
        for number in range(depth):
            with draft.under(f"layers.{number}"):
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    draft.linear(f"self_attn.{name}", width, width, bias=name != "k_proj")
                draft.norm("self_attn_layer_norm", width, bias=True)
                draft.linear("fc1", inner, width, bias=True)
                draft.linear("fc2", width, inner, bias=True)
                draft.norm("final_layer_norm", width, bias=True)
        draft.norm("layer_norm", width, bias=True)
    return width
