"""kv-cache-dtype-supported: the build takes the dtype the KV cache is to have.

The dtype is the one asked for with ``--kv-cache-dtype``, or the one the checkpoint carries scales for. Where
the machine is known, and the build's attention back ends say what they take, one that runs on its GPU must.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.quantization.names import stored
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.several_engines import left
from canserve.facts import Known, Missing
from canserve.rules import quantization as rules
from canserve.subjects.build import CAPABILITIES, AttentionBackend
from canserve.units import Capability
from canserve.verdict import No, Unknown, Verdict, Yes

DEFAULT = "auto"
E5M2 = "fp8_e5m2"
"""The FP8 type that older GPUs convert as well."""
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "fp8": ("fp8", "fp8_e4m3"),
    "fp8_e4m3": ("fp8_e4m3", "fp8"),
    "nvfp4": ("nvfp4", "fp4_e2m1", "fp4"),
    "fp4": ("nvfp4", "fp4_e2m1", "fp4"),
    "int8": ("int8", "int8_per_token_head"),
}
"""How builds spell a dtype that a checkpoint has scales for."""


def supported(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``kv-cache-dtype-supported``."""
    wish = case.wish.kv_cache_dtype
    if wish is not None and wish != DEFAULT:
        return _asked(reader, case, wish)
    return _carried(reader, case)


def _asked(reader: Reader, case: Case, wish: str) -> Verdict:
    dtypes = reader.read(case.build.kv_cache_dtypes)
    if not dtypes:
        return No(
            "the build gives no choice of the KV cache's dtype", "leave the flag out, or use a newer build"
        )
    if wish not in dtypes:
        near = ", ".join(get_close_matches(wish, dtypes, n=3, cutoff=0.5)) or ", ".join(dtypes)
        return No(f"the build knows no KV cache of dtype {wish}", f"use one it takes: {near}")
    because = f"the build takes a KV cache of dtype {wish}"
    ruled = _by_engine(reader, case, wish, because)
    return _with_attention(reader, case, (wish,), because) if ruled is None else ruled


def _by_engine(reader: Reader, case: Case, wish: str, because: str) -> Verdict | None:
    """What a build says of which only some engines take the dtype; None: that does not decide."""
    takers = (reader.try_read(case.build.kv_cache_engines) or {}).get(wish)
    way, _ = route(reader, case) if takers is not None else (None, None)
    if takers is None or way is None or way.way != "native":
        return None
    engines = left(reader, case, reader.read(case.build.registry)[way.served_by])
    taking = [engine for engine in engines if engine in takers]
    if not engines or engines[0] in takers:
        return None
    reader.cite(case.build.kv_cache_engines.evidence)
    refused = f"{engines[0]} does not take a {wish} cache"
    if not taking:
        return No(refused, "use --kv-cache-dtype auto")
    flag = (reader.try_read(case.build.engine_flags) or {}).get(taking[0])
    return Yes(f"{because}, for {taking[0]}; {refused}", (flag,) if flag else ())


def _carried(reader: Reader, case: Case) -> Verdict:
    """Nothing is asked for: what the checkpoint carries scales for decides."""
    quantization = stored(reader, case)
    carried = quantization.kv_cache if quantization else None
    if carried is None:
        raise NotApplicable("the cache keeps the model's own dtype")
    dtypes = reader.read(case.build.kv_cache_dtypes)
    spelled = tuple(name for name in SPELLINGS.get(carried, (carried,)) if name in dtypes)
    if not spelled:
        return Unknown(
            f"the checkpoint carries scales for a {carried} cache, which the build does not offer "
            f"({', '.join(dtypes)}); whether it ignores them is not known",
            "start it once, or use a checkpoint without scales for the cache",
        )
    return _with_attention(
        reader, case, spelled, f"the build offers {spelled[0]}, for which the checkpoint has scales"
    )


def _with_attention(reader: Reader, case: Case, spelled: tuple[str, ...], because: str) -> Verdict:
    """Narrow the answer by the attention back ends, where they and the GPU are known."""
    capability = reader.try_read(case.machine.capability) if case.machine else None
    if capability is None or isinstance(case.build.attention_backends, Missing):
        return Yes(because)
    backends = reader.read(case.build.attention_backends)
    if all(_takes(one, spelled) is None for one in backends.values()):
        return _in_hardware(reader, spelled[0], capability, because)
    running = {name: one for name, one in backends.items() if runs_on(one, capability) is not False}
    taking = [one for one in running.values() if _takes(one, spelled) and runs_on(one, capability)]
    if taking:
        reader.cite((look(case, str(taking[0].at), f"{taking[0].name} takes {spelled[0]}"),))
        through = ", ".join(one.name for one in taking[:3])
        return _in_hardware(reader, spelled[0], capability, f"{because}; on {capability} through {through}")
    if not running or any(_takes(one, spelled) is not False for one in running.values()):
        return Unknown(
            f"{because}; which attention back end takes it on compute capability {capability} was not read",
            "start it once, or leave --kv-cache-dtype out",
        )
    for one in running.values():
        reader.cite((look(case, str(one.at), f"{one.name} does not take {spelled[0]}"),))
    return No(
        f"no attention back end that runs on compute capability {capability} takes a {spelled[0]} cache",
        "use --kv-cache-dtype auto",
    )


def _in_hardware(reader: Reader, dtype: str, capability: Capability, because: str) -> Verdict:
    """A yes, unless the GPU lacks the type: then some kernels work around that and some fail when started."""
    if not dtype.startswith("fp8") or dtype == E5M2:
        return Yes(because)
    native, row = rules.native("fp8")
    if capability >= native:
        return Yes(because)
    reader.cite((row.evidence(f"from compute capability {native} on"),))
    return Unknown(
        f"{because}; but GPUs have this type from {native} on, and which kernel would work around it on "
        f"{capability} was not read",
        f"start it once, or use --kv-cache-dtype {E5M2}",
    )


def runs_on(backend: AttentionBackend, capability: Capability) -> bool | None:
    """Whether a back end accepts a GPU; None: its rule was not read, or not for this capability."""
    if isinstance(backend.capabilities, Missing) or capability.tenfold not in CAPABILITIES:
        return None
    return capability.tenfold in backend.capabilities.value


def _takes(backend: AttentionBackend, spelled: tuple[str, ...]) -> bool | None:
    match backend.kv_dtypes:
        case Known(dtypes):
            return any(name in dtypes for name in spelled)
        case Missing():
            return None


KV_CACHE = Check(
    "kv-cache-dtype-supported",
    "The build takes the KV cache's dtype; where its attention back ends say what they take, one takes it.",
    supported,
)
CHECK = KV_CACHE
