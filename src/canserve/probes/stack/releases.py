"""CUDA as torch, packages, toolkits and an image's variables state it; the driver of a compatibility package."""

from __future__ import annotations

import json
import re

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.stack.ground import Ground
from canserve.subjects.stack import Release
from canserve.trees.names import below, printable, unreadable

_TORCH = re.compile(
    r"""^cuda[ \t]*(?::[^=\n]{0,80})?=[ \t]*(?:["']([\d.]{1,20})["']|(None))[ \t]*$""", re.MULTILINE
)
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu\d{2})?-([\d.]{1,20})(?:\.post\d+)?\.dist-info")
_TOOLKIT = re.compile(r"cuda-(\d{1,2}\.\d{1,2})")
_DRIVER = re.compile(r"libcuda\.so\.(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)")
_VARIABLE = "CUDA_VERSION"


def torch_cuda(ground: Ground) -> Fact[str | None]:
    """What ``torch/version.py`` says it was built with."""
    located = ground.found.installed("torch")
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    place = located.value.package
    path = below(place.path, "version.py")
    raw = place.look.file(path)
    if isinstance(raw, Missing):
        return raw
    text = (raw.value or b"").decode("utf-8", "replace")
    match = _TORCH.search(text)
    if match is None:
        return unreadable(ground.subject, path, "it does not say for which CUDA torch was built")
    return Known(match[1], ground.seen(path, match[0].strip()))


def cuda_releases(ground: Ground) -> Fact[tuple[Release, ...]]:
    """The runtime's packages, toolkits, and what an image says of itself."""
    found: list[Release] = []
    looks: list[Evidence] = []
    for site in ground.sites:
        found += [
            Release(match[1], below(site.path, name))
            for name in ground.folders(site.path)
            if (match := _RUNTIME.fullmatch(name))
        ]
    for folder in ground.toolkits:
        stated = toolkit_version(ground, folder, "cuda")
        if isinstance(stated, Known) and stated.value:
            found.append(Release(stated.value, folder))
            looks += stated.evidence
    if version := ground.variables.get(_VARIABLE):
        found.append(Release(printable(version, 40), _VARIABLE))
    looks += (look for each in found for look in ground.seen(each.path, each.version))
    if not found:
        looks = list(ground.seen(ground.sites[0].path, "no CUDA runtime, no toolkit"))
        if not ground.system:
            return ground.outside()
        if gap := ground.look.gap("usr/local/cuda"):
            return gap
    return Known(tuple(found), tuple(dict.fromkeys(looks)))


def toolkit_version(ground: Ground, folder: str, part: str) -> Fact[str | None]:
    """The release of a part (``cuda``, ``cuda_nvcc``) of a toolkit, from its own list or the folder's name."""
    path = below(folder, "version.json")
    text = ground.text(path)
    match = _TOOLKIT.fullmatch(folder.rpartition("/")[2])
    by_name: str | None = match[1] if match else None
    if isinstance(text, Missing):
        return Known(by_name, ground.seen(folder, "its name")) if by_name else text
    if text.value is None:
        return Known(by_name, ground.seen(folder, "its name" if by_name else "no version.json"))
    try:
        stated = json.loads(text.value)[part]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return unreadable(ground.subject, path, f"it does not say the release of {part}")
    if not isinstance(stated, str) or not re.fullmatch(r"[\d.]{1,20}", stated):
        return unreadable(ground.subject, path, f"the release of {part} is no number")
    return Known(stated, ground.seen(path, f"{part} {stated}"))


def cuda_compat(ground: Ground) -> Fact[str | None]:
    """The driver that NVIDIA's compatibility package in an image stands in for."""
    if not ground.system:
        return ground.outside()
    for toolkit in ground.toolkits:
        folder = below(toolkit, "compat")
        for name in ground.files(folder):
            if match := _DRIVER.fullmatch(name):
                return Known(match[1], ground.seen(below(folder, name), "its name"))
    gap = ground.look.gap("usr/local/cuda/compat/libcuda.so")
    return gap or Known(None, ground.seen("usr/local/cuda*/compat", "no libcuda.so"))
