"""The stack of one build: every group of facts, each read by its own file."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.engines.requirements import requirement
from canserve.engines.sources import Notes
from canserve.facts import Fact, Known, Missing
from canserve.probes.discover.metadata import read_metadata
from canserve.probes.stack import kernels, nccl, releases, system, tools
from canserve.probes.stack.constants import Means
from canserve.probes.stack.constants import releases as releases_of
from canserve.probes.stack.ground import Ground
from canserve.subjects.stack import Stack
from canserve.trees.names import unreached

_MARKED = "x86_64"
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def alone(subject: str) -> Stack:
    """Of a distribution that stands by itself: nothing lies around it."""
    missing = unreached(subject, "", "only a distribution, with nothing around it",
                        "name an environment or image that has it")  # fmt: skip
    return Stack(**dict.fromkeys(Stack.__dataclass_fields__, missing))


def read_stack(ground: Ground, content: str | None = None, notes: Notes | None = None) -> Stack:
    """Read all of it. Never raises for what the files hold.

    ``content``: digest of the image, under which ``notes`` keeps what large files say of themselves.
    """
    asked = nccl.nccl_files(ground), tools.assemblers(ground), system.libc_file(ground)
    means = Means(ground.look.tree, ground.subject, ground.scans, content, notes)
    told = releases_of(means, {path: each for group in asked for path, each in group.items()})
    of_nccl, of_triton, of_libc = ({path: told[path] for path in group} for group in asked)
    copies = nccl.nccl_copies(ground, of_nccl)
    return Stack(
        torch_cuda=releases.torch_cuda(ground),
        torch_requires_nccl=_required(ground),
        cuda=releases.cuda_releases(ground),
        cuda_compat=releases.cuda_compat(ground),
        nccl=copies,
        nccl_loaded=nccl.nccl_loaded(ground, copies),
        ray=ground.found.installed_version("ray"),
        triton=tools.triton(ground, of_triton),
        nvcc=tools.nvcc(ground),
        c_compiler=tools.c_compiler(ground),
        python_header=tools.python_header(ground),
        ninja=tools.ninja(ground),
        kernels=kernels.kernels(ground),
        system=system.system(ground),
        libc=system.libc(ground, of_libc),
        started=system.started(ground),
        pins=system.pins(ground),
    )


def _required(ground: Ground) -> Fact[str | None]:
    """What the metadata of torch require of NCCL: ``==2.27.5``."""
    located = ground.found.installed("torch")
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    requires = read_metadata(located.value.package, located.value.info).requires
    if isinstance(requires, Missing):
        return requires
    lines = _told_for(_cpu(ground), requires.value)
    for name in _NCCL:
        if (wanted := requirement(lines, name)) is not None:
            return Known(wanted, ground.seen(_where(requires), f"requires {name}{wanted}"))
    return Known(None, ground.seen(_where(requires), "requires no package of NCCL"))


def _cpu(ground: Ground) -> str | None:
    """What torch's libraries are compiled for."""
    extensions = ground.extensions.value if isinstance(ground.extensions, Known) else {}
    known = (fact.value for fact in extensions.values() if isinstance(fact, Known))
    return next((each.cpu for each in known if each.package == "torch"), None)


def _told_for(cpu: str | None, lines: Sequence[str]) -> Sequence[str]:
    """The lines, with this CPU under the name for which markers are evaluated, and the other under one of nothing."""
    if cpu is None or cpu == _MARKED:
        return lines
    return [line.replace(_MARKED, "another").replace(cpu, _MARKED) for line in lines]


def _where(fact: Known[tuple[str, ...]]) -> str:
    return fact.evidence[0].how if fact.evidence else "its metadata"
