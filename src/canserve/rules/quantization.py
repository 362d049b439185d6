"""What quantization needs beyond a build's own tables: ``quantization.toml``."""

from __future__ import annotations

from functools import cache

from canserve.rules.table import Row, covers, load
from canserve.subjects.model import Quantization, Scheme
from canserve.units import Capability

FILE = "quantization.toml"


def _rows(section: str) -> tuple[Row, ...]:
    return load(FILE).rows(section)


def native(kind: str) -> tuple[Capability, Row]:
    """From which capability NVIDIA hardware multiplies ``fp8`` or ``fp4`` itself."""
    row = next(row for row in _rows("native") if row.values["type"] == kind)
    return Capability.parse(row.text("capability")), row


def family(method: str) -> Row | None:
    """The checkpoint format that a method's name belongs to."""
    return next((row for row in _rows("family") if method in row.texts("methods")), None)


def related(method: str) -> frozenset[str]:
    """All names of the method's format; the method alone where the table does not know it."""
    row = family(method)
    return frozenset(row.texts("methods")) if row else frozenset((method,))


def serves(wish: str, method: str) -> Row | None:
    """The row by which ``--quantization wish`` loads checkpoints of a method of another format."""
    return next(
        (
            row
            for row in _rows("serves")
            if row.values["wish"] == wish and related(method) & set(row.texts("methods"))
        ),
        None,
    )


def online(method: str) -> Row | None:
    """The row by which a method quantizes a plain checkpoint while loading it."""
    return next((row for row in _rows("online") if method in row.texts("methods")), None)


def stored(method: str) -> Row | None:
    """The row by which a method only loads what was quantized before."""
    return next((row for row in _rows("stored") if method in row.texts("methods")), None)


def left(engine: str, method: str) -> Row | None:
    """The row of a method that an engine has dropped."""
    found = (row for row in _rows("left") if (row.values["engine"], row.values["method"]) == (engine, method))
    return next(found, None)


def stand_in(name: str, method: str) -> Row | None:
    """The row of a name that serves a method only under conditions."""
    found = (row for row in _rows("stand_in") if (row.values["name"], row.values["method"]) == (name, method))
    return next(found, None)


def stands_in(row: Row, scheme: Scheme) -> bool:
    """Whether a scheme meets the row's conditions. A property that is not known does not break them."""
    bits = scheme.weight_bits
    symmetric = scheme.symmetric
    return (bits is None or bits in row.values["bits"]) and symmetric in {None, row.values["symmetric"]}


def class_names(method: str) -> frozenset[str]:
    """Every name that a scheme row of the method's format speaks of."""
    keys = ("names", "maybe", "weight_only", "moe")
    rows = [row for row in _schemes() if row.values["method"] in related(method)]
    return frozenset(name for row in rows for key in keys for name in row.texts(key))


def scheme_rows(method: str, wanted: Scheme) -> tuple[Row, ...]:
    """The rows for one way of storing weights in a method's format; empty: no rule knows it."""
    names = related(method)
    return tuple(row for row in _schemes() if row.values["method"] in names and _matches(row, wanted))


def dispatches(method: str) -> bool:
    """Whether any rule tells apart ways of storing weights within the method's format."""
    return any(row.values["method"] in related(method) for row in _schemes())


@cache
def _schemes() -> tuple[Row, ...]:
    """The rows of ``scheme``: each says what it is for and which names suffice."""
    rows = _rows("scheme")
    for row in rows:
        row.text("label")
        if not row.texts("names"):
            raise row.wrong("names no class")
        if not (row.texts("algorithms") or row.texts("weight")):
            raise row.wrong("is for no scheme")
    return rows


def _matches(row: Row, wanted: Scheme) -> bool:
    if algorithms := row.texts("algorithms"):
        return (wanted.format or "").upper() in algorithms
    return (
        _kind(wanted.weight_type, wanted.weight_bits) in {w.strip() for w in row.text("weight").split(",")}
        and ("activation" not in row.values or row.values["activation"] == _activation(wanted))
        and ("strategies" not in row.values or wanted.strategy in row.texts("strategies"))
        and ("groups" not in row.values or wanted.group_size in row.values["groups"])
        and ("formats" not in row.values or wanted.format in row.texts("formats"))
    )


def _kind(kind: str | None, bits: int | None) -> str:
    return f"{kind}{bits}" if kind and bits else "unknown"


def _activation(wanted: Scheme) -> str:
    return "none" if wanted.activation_bits is None else _kind(wanted.activation_type, wanted.activation_bits)


def holds_in(row: Row, engine: str, version: str) -> bool | None:
    """Whether the names of a scheme row have the row's meaning in a release; None: cannot tell."""
    unsure = row.values.get("unsure", {})
    if engine in unsure and covers(unsure[engine], version) is not False:
        return None
    since = row.values.get("since")
    if since is None:
        return True
    return covers(f">={since[engine]}", version) if engine in since else False


def limits(engine: str, method: str, quantization: Quantization | None, experts: bool) -> tuple[Row, ...]:
    """The rows by which releases of an engine need more of a GPU than they say, whatever the release.

    ``quantization`` is None where the method quantizes a plain checkpoint while it is loaded.
    """
    names = related(method)
    return tuple(
        row
        for row in _rows("limit")
        if row.values["engine"] == engine
        and names & set(row.texts("methods"))
        and (experts or not row.values.get("experts"))
        and (in_blocks(quantization) or not row.values.get("blocks"))
        and _stores(quantization, row.values.get("weight"))
    )


def _stores(quantization: Quantization | None, kind: str | None) -> bool:
    schemes = quantization.schemes if quantization else ()
    return kind is None or not schemes or any(_kind(s.weight_type, s.weight_bits) == kind for s in schemes)


def limited(row: Row, version: str) -> bool | None:
    """Whether a limit holds for a release; None: the version cannot tell, or is newer than what was read."""
    inside = covers(row.text("releases"), version)
    if inside and "read_to" in row.values and covers(f"<={row.text('read_to')}", version) is not True:
        return None
    return inside


def documented(engine: str, method: str, version: str) -> tuple[Row, ...]:
    """The rows that say from which capability a release serves a method, where its code does not."""
    return tuple(
        row
        for row in _rows("documented")
        if row.values["engine"] == engine
        and method in row.texts("methods")
        and covers(row.text("releases"), version)
    )


def in_blocks(quantization: Quantization | None) -> bool:
    """Whether some weights have one scale for a block of rows and columns."""
    schemes = quantization.schemes if quantization else ()
    return any(scheme.strategy == "block" or scheme.block is not None for scheme in schemes)
