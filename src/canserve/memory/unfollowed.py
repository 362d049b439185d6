"""Engine options that change memory in ways that no rule here follows: what holds without them says nothing."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.memory.options import Options
from canserve.memory.unserved import Unserved

CONFIG = "changes the model's config"
HOST = "keeps weights in the host's memory"
ADAPTERS = "takes memory for adapters"
COPIES = "places experts more than once"
UNFOLLOWED: Mapping[str, str] = {
    "hf_overrides": CONFIG,
    "hf_config_path": CONFIG,
    "model_class_overrides": CONFIG,
    "json_model_override_args": CONFIG,
    "cpu_offload_gb": HOST,
    "offload_backend": HOST,
    "offload_group_size": HOST,
    "enable_lora": ADAPTERS,
    "lora_paths": ADAPTERS,
    "enable_eplb": COPIES,
    "ep_num_redundant_experts": COPIES,
}
"""Option -> what it does. Beside each stands its own help in every release that has it."""
UNSET = (None, False, 0, "", "0", "0.0", "false", "False", "{}", "none", "auto")


DRAFTS = ("speculative_draft_model_path", "speculative_model")
"""Options that name a model of its own for drafts; one that predicts with its own layers is counted."""


def refuse_unfollowed(options: Mapping[str, object]) -> None:
    """Raises Unserved where such an option is set, and BadOption where one cannot be read."""
    for name, what in UNFOLLOWED.items():
        if (value := options.get(name)) not in UNSET and value not in ({}, []):
            raise Unserved(f"{name} {what}, and what it needs then is not known here")
    config = Options(options).table("speculative_config") or {}
    name, draft = next(
        ((name, options[name]) for name in DRAFTS if options.get(name) not in UNSET),
        ("speculative_config", config.get("model")),
    )
    if draft:
        raise Unserved(f"{name} names a draft model, {draft!r:.60}, whose memory is not known here")
