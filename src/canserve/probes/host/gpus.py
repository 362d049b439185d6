"""NVIDIA accelerators, by the driver's own tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.host.probe import LATE, NOT_FOUND, WITH_SMI, Probe, Seen
from canserve.subjects.host import Accelerator, GpuProcess
from canserve.units import Bytes, Capability

_COLUMNS = "index,name,uuid,memory.total,memory.free,mig.mode.current"
_QUERY = f"nvidia-smi --query-gpu={_COLUMNS},compute_cap --format=csv,noheader,nounits"
_OLDER = f"nvidia-smi --query-gpu={_COLUMNS} --format=csv,noheader,nounits"
_APPS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name --format=csv,noheader,nounits"
_MIB = 1 << 20
_NONE = re.compile(r"no devices were found", re.IGNORECASE)


def gpus(seen: Seen) -> Fact[tuple[Accelerator, ...] | None]:
    """All accelerators; None: there is no such tool. Memory that the driver does not report is None."""
    answer = seen.answer
    if answer.status == NOT_FOUND:
        return seen.known(None, "no nvidia-smi")
    if _NONE.search(answer.text + answer.error):
        return seen.known((), "No devices were found")
    if answer.status in LATE:
        return seen.failed("nvidia-smi")
    if answer.status != 0:
        return seen.missing(
            Cause.UNAVAILABLE,
            f"nvidia-smi failed: {_complaint(seen)}",
            "make nvidia-smi work there: the driver may not be loaded",
        )
    found = [_gpu(row) for row in seen.rows]
    whole = [gpu for gpu in found if gpu is not None]
    if not whole or len(whole) != len(found):
        return seen.unreadable("nvidia-smi --query-gpu")
    return seen.known(tuple(whole))


def _complaint(seen: Seen) -> str:
    """``nvidia-smi`` complains on stdout."""
    return (seen.rows or [seen.answer.complaint])[-1][:200]


def _gpu(row: str) -> Accelerator | None:
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) not in (6, 7) or not cells[0].isdigit() or not cells[1]:
        return None
    capability = cells[6] if len(cells) == 7 else ""
    try:
        return Accelerator(
            index=int(cells[0][:6]),
            name=cells[1],
            uuid=cells[2] if cells[2].startswith("GPU-") else None,
            capability=Capability.parse(capability) if capability and capability[0] != "[" else None,
            arch_name=None,
            total=_mib(cells[3]),
            free=_mib(cells[4]),
            mig={"enabled": True, "disabled": False}.get(cells[5].lower()),
        )
    except ValueError:
        return None


def _mib(cell: str) -> Bytes | None:
    """``81559`` -> bytes; ``[N/A]`` -> None. Raises ValueError for anything else: ``[GPU is lost]`` is no memory."""
    if cell.strip("[]").lower() in {"n/a", "not supported"}:
        return None
    return Bytes(int(cell[:12]) * _MIB)


def processes(seen: Seen) -> Fact[tuple[tuple[str, GpuProcess], ...]]:
    """Processes that hold memory, each with the uuid of its accelerator."""
    if seen.answer.status != 0:
        return seen.failed("nvidia-smi")
    found = []
    for row in seen.rows:
        cells = [cell.strip() for cell in row.split(",", 3)]
        if len(cells) != 4 or not cells[1].isdigit() or len(cells[1]) > 10:
            if "no running" in row.lower():
                continue
            return seen.unreadable("nvidia-smi --query-compute-apps")
        memory = Bytes(int(cells[2]) * _MIB) if cells[2].isdigit() and len(cells[2]) < 12 else None
        found.append((cells[0], GpuProcess(int(cells[1]), cells[3], memory)))
    return seen.known(tuple(found), None if found else "no process")


def instances(seen: Seen) -> Fact[tuple[tuple[int, str], ...]]:
    """The parts of accelerators that are split, each with its accelerator's index."""
    if seen.answer.status != 0:
        return seen.failed("nvidia-smi")
    index, found = -1, []
    for row in seen.rows:
        if match := re.match(r"GPU (\d{1,4}):", row):
            index = int(match[1])
        elif match := re.match(r"MIG (\S+)\s+Device", row):
            found.append((index, match[1]))
    return seen.known(tuple(found))


def places(seen: Seen) -> Fact[Mapping[str, tuple[str, int | None]]]:
    """By uuid: the PCI address, and the NUMA node of machines that have several. As the driver's own files say."""
    found = {}
    for row in seen.rows:
        pci, uuid, node = (*row.split("\t"), "", "")[:3]
        if re.fullmatch(r"[0-9a-f]{4,8}(:[0-9a-f]{2}){2}\.[0-7]", pci) and uuid.startswith("GPU-"):
            found[uuid] = (pci, int(node[:4]) if node.isdigit() else None)
    return seen.known(found, None if found else "no accelerator of that driver")


def joined(
    found: Known[tuple[Accelerator, ...]],
    held: Fact[tuple[tuple[str, GpuProcess], ...]],
    split: Fact[tuple[tuple[int, str], ...]],
    places: Fact[Mapping[str, tuple[str, int | None]]],
) -> Known[tuple[Accelerator, ...]]:
    """Each accelerator with its processes, its parts, and where it sits."""
    lying = places.value if isinstance(places, Known) else {}
    told = places.evidence if lying else ()
    evidence = (*found.evidence, *held.evidence, *split.evidence, *told)
    out = []
    for gpu in found.value:
        mine = None if isinstance(held, Missing) else tuple(p for uuid, p in held.value if uuid == gpu.uuid)
        parts = (
            () if isinstance(split, Missing) else tuple(p for index, p in split.value if index == gpu.index)
        )
        pci, node = lying.get(gpu.uuid or "", (None, None))
        out.append(replace(gpu, processes=mine, instances=parts, pci=pci, node=node))
    return Known(tuple(out), evidence)


GPUS = Probe(
    "gpus",
    # Drivers before 510 do not know compute_cap and refuse the whole query.
    f"{WITH_SMI}out=$(within 15 {_QUERY}); rc=$?\n"
    f"case $out in *'not a valid field'*) out=$(within 15 {_OLDER}); rc=$?;; esac\n"
    "printf '%s\\n' \"$out\"; exit $rc",
    _QUERY,
    gpus,
)
PROCESSES = Probe("gpu_processes", f"{WITH_SMI}within 15 {_APPS}", _APPS, processes)
INSTANCES = Probe("gpu_instances", f"{WITH_SMI}within 15 nvidia-smi -L", "nvidia-smi -L", instances)
PLACES = Probe(
    "gpu_places",
    r"""for d in /proc/driver/nvidia/gpus/*; do
  u=; { while IFS= read -r l; do case $l in 'GPU UUID:'*) u=${l##*[!A-Za-z0-9-]};; esac; done <"$d/information"; } 2>/dev/null
  value "/sys/bus/pci/devices/${d##*/}/numa_node"; printf '%s\t%s\t%s\n' "${d##*/}" "$u" "$v"
done; exit 0""",
    "/proc/driver/nvidia/gpus, /sys/bus/pci/devices/*/numa_node",
    places,
    quick=True,
)
