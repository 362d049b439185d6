"""AMD accelerators, by the kernel's own description of them; names by AMD's tools where one is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from canserve.facts import Fact
from canserve.probes.host.probe import NOT_FOUND, Probe, Seen, tabular
from canserve.subjects.host import Accelerator
from canserve.units import Bytes

_NODES = "/sys/class/kfd/kfd/topology/nodes"
_NODE_SCRIPT = rf"""[ -d {_NODES} ] || exit 1
for n in {_NODES}/*; do
  p=$(cat "$n/properties") || continue
  simd=$(printf '%s\n' "$p" | sed -n 's/^simd_count //p')
  [ "${{simd:-0}}" -gt 0 ] || continue
  gfx=$(printf '%s\n' "$p" | sed -n 's/^gfx_target_version //p')
  minor=$(printf '%s\n' "$p" | sed -n 's/^drm_render_minor //p')
  d=/sys/class/drm/renderD$minor/device
  printf '%s\t%s\t%s\t%s\t%s\n' "${{n##*/}}" "$gfx" "$(cat "$d/mem_info_vram_total")" \
    "$(cat "$d/mem_info_vram_used")" "$(cat "$d/current_compute_partition" 2>/dev/null)"
done; exit 0"""


def amd(seen: Seen) -> Fact[tuple[Accelerator, ...] | None]:
    """All accelerators, without their names; None: the driver is not loaded."""
    if seen.answer.status != 0:
        return seen.known(None, f"no {_NODES}")
    found = []
    for number, row in enumerate(seen.answer.text.splitlines()):
        cells = tabular(row, 5)
        if cells is None or not cells[1].isdigit():
            return seen.unreadable("the topology of AMD's driver")
        total, used = _bytes(cells[2]), _bytes(cells[3])
        free = Bytes(total.count - used.count) if total and used else None
        # SPX: one partition, the whole; older drivers and other accelerators cannot be partitioned.
        mode = cells[4]
        split = mode != "SPX" if mode else None
        parts = (mode,) if split else ()
        found.append(Accelerator(number, None, None, None, gfx(int(cells[1][:8])), total, free, split, parts))
    return seen.known(tuple(found), None if found else "no accelerator in the topology")


def gfx(target: int) -> str:
    """``90402`` -> ``gfx942``: two decimal digits a place, written as one hexadecimal digit each."""
    return f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"


def _bytes(cell: str) -> Bytes | None:
    return Bytes(int(cell)) if cell.isdigit() and len(cell) < 18 else None


def amd_names(seen: Seen) -> Fact[tuple[str, ...] | None]:
    """Marketing names in the order of the tool; None: there is no tool."""
    if seen.answer.status == NOT_FOUND:
        return seen.known(None, "neither rocm-smi nor amd-smi")
    if seen.answer.status != 0:
        return seen.failed("rocm-smi")
    text = seen.answer.text
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=0)
    try:
        said, _ = json.JSONDecoder().raw_decode(text[start:])  # warnings may stand before it
    except (ValueError, RecursionError):
        return seen.unreadable("AMD's tool")
    return seen.known(tuple(_names(said)))


def _names(said: object) -> Iterator[str]:
    """``Card Series`` of rocm-smi (``card0``, ``card1`` ...) or ``market_name`` of amd-smi (a list)."""
    if isinstance(said, dict) and isinstance(said.get("gpu_data"), list):
        said = said["gpu_data"]
    cards = list(said.values()) if isinstance(said, dict) else said if isinstance(said, list) else []
    for card in cards:
        if not isinstance(card, dict):
            continue
        asic = card.get("asic")
        flat = {str(k).lower(): v for k, v in {**card, **(asic if isinstance(asic, dict) else {})}.items()}
        name = flat.get("market_name") or flat.get("card series") or flat.get("card model")
        if isinstance(name, str) and name.isprintable():
            yield name


def rocm(seen: Seen) -> Fact[str | None]:
    """``6.4.1``; None: not installed where ROCm installs itself."""
    if seen.answer.status != 0:
        return seen.known(None, "no /opt/rocm/.info/version")
    if match := re.match(r"\d{1,3}(\.\d{1,4}){1,2}", seen.answer.text.strip()):
        return seen.known(match[0])
    return seen.unreadable("/opt/rocm/.info/version")


AMD = Probe("amd", _NODE_SCRIPT, f"{_NODES}/*/properties", amd, quick=True)
AMD_NAMES = Probe(
    "amd_names",
    "for d in '' /opt/rocm/bin/; do\n"
    '  command -v "${d}rocm-smi" >/dev/null 2>&1 && { within 20 "${d}rocm-smi" --showproductname --json; exit; }\n'
    '  command -v "${d}amd-smi" >/dev/null 2>&1 && { within 20 "${d}amd-smi" static --asic --json; exit; }\n'
    f"done; exit {NOT_FOUND}",
    "rocm-smi --showproductname --json, or else amd-smi static --asic --json",
    amd_names,
)
ROCM = Probe(
    "rocm",
    "[ -e /opt/rocm/.info/version ] || exit 1; cat /opt/rocm/.info/version",
    "/opt/rocm/.info/version",
    rocm,
    quick=True,
)
