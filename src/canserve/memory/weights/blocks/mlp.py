"""Parameters of MLPs: dense ones, and mixtures of experts with their router and shared experts."""

from __future__ import annotations

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Dense, Experts
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.style import Moe, Style, holds


def dense(draft: Draft, mlp: Dense, hidden: int, style: Style, fields: Fields) -> None:
    """Gate, up and down, or those of them that there are."""
    _matrices(draft, mlp.width, hidden, style, holds(style.mlp_bias, fields))


def _matrices(draft: Draft, width: int, hidden: int, style: Style, bias: bool) -> None:
    *ups, down = style.mlp_names
    fused = style.gated and len(ups) == 1
    for name in ups:
        draft.linear(name, width * 2 if fused else width, hidden, bias)
    draft.linear(down, hidden, width, bias)


def experts(draft: Draft, mlp: Experts, hidden: int, style: Style, fields: Fields) -> None:
    """Router, routed experts and shared ones. The caller stands in the layer."""
    moe = style.moe
    inner = fields.number("moe_latent_size", "routed_expert_hidden_size", default=hidden)
    with draft.under(moe.at):
        draft.plain(f"{moe.router}.weight", mlp.number, hidden)
        if moe.router_bias:
            draft.plain(f"{moe.router}.bias", mlp.number)
        if moe.correction:
            rows = (1, mlp.number) if moe.correction.startswith("moe_statics") else (mlp.number,)
            draft.plain(moe.correction, *rows, dtype="F32")
        if moe.table:
            draft.plain(moe.table, fields.number("vocab_size"), mlp.per_token, dtype="I64")
        with draft.under(moe.experts):
            _routed(draft, mlp, inner, moe)
        if inner != hidden:
            _latent(draft, inner, hidden, fields)
    # A shared expert beside the mixture, not inside it, lies in the layer itself.
    with draft.under("" if moe.stacked == "apart" else moe.at):
        if mlp.shared_width and moe.shared:
            with draft.under(moe.shared):
                _matrices(draft, mlp.shared_width, hidden, style, holds(style.mlp_bias, fields))
            if moe.shared_gate:
                draft.plain(f"{moe.shared_gate}.weight", 1, hidden)


def _latent(draft: Draft, inner: int, hidden: int, fields: Fields) -> None:
    """Projections into the narrower space that the experts work in, and back."""
    if fields.has("moe_latent_size"):
        draft.linear("fc1_latent_proj", inner, hidden)
        draft.linear("fc2_latent_proj", hidden, inner)
        return
    draft.linear("routed_expert_down_proj", inner, hidden)
    if fields.flag("latent_moe_use_norm", False):
        draft.norm("routed_expert_norm", inner)
    draft.linear("routed_expert_up_proj", hidden, inner)


def _routed(draft: Draft, mlp: Experts, hidden: int, moe: Moe) -> None:
    gate, up, down = moe.names
    number, width = mlp.number, mlp.width
    match moe.stacked:
        case "rows":
            draft.stacked("gate_up_proj", number, 2 * width, hidden)
            draft.stacked("down_proj", number, hidden, width)
        case "columns":
            draft.stacked("gate_up_proj", number, 2 * width, hidden, flipped=True)
            draft.stacked("down_proj", number, hidden, width, flipped=True)
            if moe.stacked_bias:
                draft.plain("gate_up_proj_bias", number, 2 * width)
                draft.plain("down_proj_bias", number, hidden)
        case "apart":
            draft.stacked(f"{gate}.weight", number, width, hidden)
            draft.stacked(f"{up}.weight", number, width, hidden)
            draft.stacked(f"{down}.weight", number, hidden, width)
        case "granite":
            draft.stacked("input_linear.weight", number, 2 * width, hidden)
            draft.stacked("output_linear.weight", number, hidden, width)
        case _:
            for name in (gate, up):
                if name:
                    draft.linear(f"*.{name}", width, hidden, copies=number)
            draft.linear(f"*.{down}", hidden, width, copies=number)
