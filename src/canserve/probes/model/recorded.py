"""Header facts without weights: a small file that says which tensors a checkpoint has.

``model.headers.json`` stands in a folder where weights would stand, for examples, tests and bundles::

    {"format": "canserve-headers/1",
     "recorded_from": "who says so, in one sentence",
     "tensors": [
       {"name": "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", "dtype": "F8_E4M3",
        "shape": [1024, 3072], "over": {"layer": "0-47", "expert": "0-255"}}]}

An entry stands for one tensor for each combination of the numbers in ``over`` (``"0-2,4-6"``); dtypes are
those of safetensors headers. Totals are computed from the entries, never stated. Real weights win.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from math import prod
from typing import Any

from canserve.probes.model.documents import Unreadable
from canserve.probes.model.safetensors import MAX_KINDS, Logical, Tally
from canserve.subjects.tensor import BITS, Tensor
from canserve.trees.names import printable

NAME = "model.headers.json"
FORMAT = "canserve-headers/1"
MAX_ENTRIES = 10_000
MAX_TENSORS = 10_000_000


def tally_recorded(value: Mapping[str, Any], logical: Logical) -> tuple[Tally, str]:
    """Count the tensors of a recorded listing; and its ``recorded_from``. Raises Unreadable."""
    if value.get("format") != FORMAT:
        raise Unreadable(f"format is {printable(repr(value.get('format')), 40)}, not {FORMAT}")
    source, tensors = value.get("recorded_from"), value.get("tensors")
    if not isinstance(source, str) or not isinstance(tensors, list) or len(tensors) > MAX_ENTRIES:
        raise Unreadable(f"needs recorded_from and a list of at most {MAX_ENTRIES} tensors")
    total = Tally()
    for entry in tensors:
        for tensor in _tensors(entry):
            if total.tensors + tensor.copies > MAX_TENSORS:
                raise Unreadable(f"stands for more than {MAX_TENSORS} tensors")
            total.add(tensor, logical)
    return total, printable(source, 200)


def _tensors(entry: object) -> Iterator[Tensor]:
    """The tensors that one entry stands for; those of one layer's experts together."""
    table = entry if isinstance(entry, dict) else {}
    name, dtype, shape, over = (table.get(key) for key in ("name", "dtype", "shape", "over"))
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in BITS:
        raise Unreadable(f"a tensor without a name or a known dtype: {printable(repr(entry))}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise Unreadable(f"tensor {printable(name)} has no shape")
    over = over if isinstance(over, dict) else {}
    if set(re.findall(r"\{(\w+)\}", name)) != over.keys():
        raise Unreadable(f"tensor {printable(name)}: the names in braces and in over differ")
    ranges = {key: _ranges(text) for key, text in over.items()}
    copies = 1
    if (expert := re.search(r"experts\.\{(\w+)\}\.", name)) and name.count(f"{{{expert[1]}}}") == 1:
        copies = sum(map(len, ranges.pop(expert[1])))
        name = name.replace(f"{{{expert[1]}}}", "*")
    if prod(sum(map(len, each)) for each in ranges.values()) > MAX_KINDS:
        raise Unreadable(f"tensor {printable(name)} stands for more than {MAX_KINDS} kinds of tensors")
    for numbers in product(*(chain(*each) for each in ranges.values())):
        each = name
        for key, number in zip(ranges, numbers, strict=True):
            each = each.replace(f"{{{key}}}", str(number))
        if copies:
            yield Tensor(each, tuple(shape), dtype, copies)


def _ranges(text: object) -> list[range]:
    """``"0-2,4-6"`` -> the numbers it stands for."""
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?){0,999}", text):
        raise Unreadable(f"not a list of numbers: {printable(repr(text))}")
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append(range(int(first), int(last or first) + 1))
    return found
