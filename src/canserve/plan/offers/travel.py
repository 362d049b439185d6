"""How many bytes would have to travel to a machine: of a build, and of the model's weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from canserve.checks.model_files import RECORDED_HEADERS
from canserve.facts import Fact, Known, Missing
from canserve.plan.offers.offer import Offer
from canserve.subjects.cluster import Node
from canserve.subjects.host import CachedModel, HeldImage
from canserve.subjects.model import Model
from canserve.units import Bytes

NOTHING = Bytes(0)


@dataclass(frozen=True, slots=True)
class Travel:
    """Bytes to one machine, at least and at most. What is not known is never counted as nothing."""

    least: Bytes
    most: Bytes | None
    """None: no bound is known."""
    why: str

    @property
    def exact(self) -> Bytes | None:
        """The figure, where it is one."""
        return self.least if self.least == self.most else None

    @property
    def there(self) -> bool:
        """Whether nothing has to travel, for certain."""
        return self.exact == NOTHING


def exactly(count: Bytes, why: str) -> Travel:
    """A figure that is known."""
    return Travel(count, count, why)


def unknown(why: str) -> Travel:
    """A figure of which nothing is known."""
    return Travel(NOTHING, None, why)


def of_build(offer: Offer, node: Node) -> Travel:
    """What of a build has to be brought to a machine."""
    if node.name in offer.on:
        return exactly(NOTHING, "it is there")
    if not offer.whole:
        found = _of_image(offer, node)
        return Travel(found.least, None, f"{found.why}; what was changed in it is not counted")
    if offer.layers is not None or offer.packed is not None:
        return _of_image(offer, node)
    if offer.size is not None:
        return exactly(offer.size, "all of it")
    if offer.source == "environment":
        return unknown("an environment is installed anew rather than copied")
    if "==" in offer.target:
        return unknown("a release, with all that it requires: their sizes were not added up")
    return unknown("its size is not known")


def _of_image(offer: Offer, node: Node) -> Travel:
    layers = offer.layers if offer.packed is None else tuple(layer.digest for layer in offer.packed)
    if layers is None:
        return unknown("its size is not known")
    whole = offer.size
    if offer.packed is not None:
        whole = Bytes(sum(layer.size.count for layer in offer.packed))
    held = _layers_on(node)
    if isinstance(held, Missing):
        return Travel(NOTHING, whole, "which of its layers are there could not be read")
    lacking = [layer for layer in layers if layer not in held.value]
    if not lacking:
        return exactly(NOTHING, "all of its layers are there")
    said = f"{len(lacking)} of {len(layers)} layers"
    most = whole
    if offer.packed is not None:
        most = Bytes(sum(layer.size.count for layer in offer.packed if layer.digest not in held.value))
        said = f"{said}, packed"
    if node.address is not None and any(image.layers is None for image in _value(node.machine.images)):
        return Travel(NOTHING, most, f"{said}; of some image there the layers are not told")
    if most is None:
        return unknown(f"{said}; its size is not known")
    if offer.packed is not None:
        return exactly(most, said)
    if len(lacking) == len(layers):
        return exactly(most, "all of its layers, unpacked")
    return Travel(NOTHING, most, f"{said}, whose sizes the engine does not tell apart")


def _value(images: Fact[tuple[HeldImage, ...]]) -> tuple[HeldImage, ...]:
    return images.value if isinstance(images, Known) else ()


def _layers_on(node: Node) -> Fact[frozenset[str]]:
    """What lies in one engine may have to be copied into another, but not over a network."""
    images = node.machine.images
    if node.address is None:
        return Known(frozenset())  # a kind of machine, on which nothing lies
    if isinstance(images, Missing):
        return images
    return Known(frozenset(layer for image in images.value for layer in image.layers or ()), images.evidence)


def of_weights(model: Model, node: Node, name: str | None = None) -> Travel:
    """What of the model's weights has to be brought to a machine, by what its Hub cache holds.

    ``name``: as which the cache holds it, where the model was not named by its Hub id.
    """
    whole = Bytes(model.parameters.value.bytes) if isinstance(model.parameters, Known) else None
    if node.address is None and whole is not None:
        return exactly(whole, "nothing lies on a kind of machine")
    sought = name or (model.subject.partition("@")[0] if model.origin == "hub" else None)
    if sought is None:
        if node.address == "local" and _with_weights(model):
            return exactly(NOTHING, "they lie where the model was named")
        return Travel(
            NOTHING, whole, "under which name its Hub cache would hold the model was not said (--stored-as)"
        )
    cached = node.machine.cached_models
    if isinstance(cached, Missing):
        return Travel(NOTHING, whole, f"its Hub cache is not known: {cached.why}")
    found = _stored(sought, cached.value)
    if found is None:
        if whole is None:
            return unknown("none of it is in the Hub cache; its size is not known")
        return exactly(whole, "none of it is in the Hub cache")
    if not found.complete:
        return _rest(found, whole)
    wanted = model.revision.value if name is None and isinstance(model.revision, Known) else None
    if wanted is not None and found.revision not in {None, wanted}:
        return Travel(NOTHING, whole, f"another revision of it is there: {found.revision}")
    return exactly(NOTHING, "it is complete in the Hub cache")


def _with_weights(model: Model) -> bool:
    """Whether the weights themselves lie where the model was named, and not only their headers."""
    format_, files = model.weight_format, model.files
    described = isinstance(files, Missing) or RECORDED_HEADERS in files.value
    return isinstance(format_, Known) and format_.value is not None and not described


def _stored(name: str, cached: Iterable[CachedModel]) -> CachedModel | None:
    """Its best copy."""
    named = [one for one in cached if one.name == name]
    return next((one for one in named if one.complete), next(iter(named), None))


def _rest(found: CachedModel, whole: Bytes | None) -> Travel:
    """What is there may be of another revision or half a file: all of it counts only towards the least."""
    least = NOTHING
    if whole is not None and found.bytes is not None:
        least = Bytes(max(whole.count - found.bytes.count, 0))
    return Travel(least, whole, found.why)
