"""Images that container engines hold: their names, sizes and layers, as the engine lists them. None is run."""

from __future__ import annotations

import json
import re
from typing import Any

from canserve.facts import Fact
from canserve.probes.host.containers import (
    ABSENT,
    ASK_DOCKER,
    ASK_PODMAN,
    BEFORE_DOCKER,
    BEFORE_PODMAN,
    UNUSED,
)
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import HeldImage
from canserve.units import Bytes

MAX_IMAGES = 300
_MAX_LAYERS = 512
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FIELDS = {
    "Id": ".ID",
    "Tags": ".RepoTags",
    "Digests": ".RepoDigests",
    "Created": ".Created",
    "Size": ".Size",
    "Arch": ".Architecture",
    "Layers": ".RootFS.Layers",
}
_ROW = "{" + ",".join(f'"{name}":{{{{json {field}}}}}' for name, field in _FIELDS.items()) + "}"


def _script(engine: str, before: str) -> str:
    """All of them in one call; the list is cut nowhere but at its end, where that is said."""
    return (
        f"{before}"
        f"ids=$(within 8 {engine} image ls --quiet --no-trunc) || exit 1\n"
        f"ids=$(printf '%s\\n' \"$ids\" | sort -u | head -n {MAX_IMAGES + 1})\n"
        '[ -n "$ids" ] || exit 0\n'
        f"within 8 {engine} image inspect --format '{_ROW}' $ids"
    )


def images(engine: str, seen: Seen) -> Fact[tuple[HeldImage, ...] | None]:
    """Every image of an engine; None: there is no such engine, or it was never used."""
    if seen.answer.status in {ABSENT, UNUSED}:
        return seen.known(None, f"no {engine} in use")
    if seen.answer.status != 0:
        return seen.failed(f"{engine} image inspect")
    found = [_image(engine, row) for row in seen.rows]
    held = tuple(image for image in found if image is not None)
    if len(held) < len(found):
        return seen.unreadable(f"{engine} image inspect")
    if len(held) > MAX_IMAGES:
        return seen.unreadable(f"a list of more than {MAX_IMAGES} images")
    return seen.known(held, f"{len(held)} images")


def _image(engine: str, row: str) -> HeldImage | None:
    try:
        told = json.loads(row)
    except (ValueError, RecursionError):
        return None
    digest = _digest(told.get("Id")) if isinstance(told, dict) else None
    if digest is None:
        return None
    size, created, arch = told.get("Size"), told.get("Created"), told.get("Arch")
    layers = told.get("Layers")
    return HeldImage(
        engine=engine,
        digest=digest,
        names=_texts(told.get("Tags")),
        repository_digests=_texts(told.get("Digests")),
        size=Bytes(size) if type(size) is int and 0 < size < 1 << 50 else None,
        layers=_layers(layers),
        architecture=arch[:40] if isinstance(arch, str) and arch else None,
        created=created[:40] if isinstance(created, str) and created.startswith("20") else None,
    )


def _digest(told: Any) -> str | None:
    """Podman writes the digest without its algorithm."""
    text = told if isinstance(told, str) else ""
    text = text if ":" in text else f"sha256:{text}"
    return text if _DIGEST.fullmatch(text) else None


def _layers(told: Any) -> tuple[str, ...] | None:
    if not isinstance(told, list) or len(told) > _MAX_LAYERS:
        return None
    found = tuple(each for each in told if isinstance(each, str) and _DIGEST.fullmatch(each))
    return found if found and len(found) == len(told) else None


def _texts(told: Any) -> tuple[str, ...]:
    listed = told if isinstance(told, list) else []
    return tuple(name[:300] for name in listed if isinstance(name, str) and "<none>" not in name)[:50]


DOCKER_IMAGES = Probe(
    "docker_images",
    _script("docker", ASK_DOCKER),
    "docker image inspect",
    lambda seen: images("docker", seen),
    limit=2_000_000,
    before=BEFORE_DOCKER,
)
PODMAN_IMAGES = Probe(
    "podman_images",
    _script("podman", ASK_PODMAN),
    "podman image inspect",
    lambda seen: images("podman", seen),
    limit=2_000_000,
    before=BEFORE_PODMAN,
)
