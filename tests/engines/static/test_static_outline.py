"""Outlines: what is kept of a module answers like the module itself, and nothing that was kept can do harm."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from static_sources import sources

from canserve.engines.static import outline
from canserve.engines.static.closure import Closure, Imports
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.outline import Outline, key_of, pack, unpack
from canserve.engines.static.sites import ImportSite

FILES = {
    "model.py": (
        "import torchaudio\nfrom pkg.layers import Linear, Gone\nfrom transformers import AutoConfig\n"
        "try:\n    import optional\nexcept ImportError:\n    optional = None\n"
        "class Model: ...\n"
    ),
    "layers.py": "from .nowhere import x\nLinear = 1\n",
}
SCANNED_BY = "fde0"
"""Digest of the code that decides what an outline says."""


class Kept(dict[str, bytes]):
    """Notes in memory."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data


def closure(notes: Kept | None, files: dict[str, str] = FILES) -> Closure:
    them = sources(files)
    them.notes = notes
    return Imports(ClassGraph(them, "pkg"), lambda _: True).closure(["pkg.model"])


def told(found: Closure) -> tuple[list[str], list[str], list[str]]:
    return found.modules, [str(need) for need in found.outside], [str(need) for need in found.broken]


def test_kept_outlines_answer_like_the_modules() -> None:
    notes = Kept()
    fresh, first, again = closure(None), closure(notes), closure(notes)
    assert told(fresh) == told(first) == told(again)
    assert told(fresh)[2] == [
        "pkg.nowhere.x (pkg/layers.py:1)",
        "pkg.layers.Gone (pkg/model.py:2)",
    ]
    assert len(notes) == len(FILES) + 1


def test_a_kept_outline_is_really_used() -> None:
    notes = Kept()
    closure(notes)
    for key in notes:
        notes[key] = pack(Outline((ImportSite("elsewhere", None, 7),), frozenset({"Gone"})))
    assert told(closure(notes))[1] == ["elsewhere (pkg/model.py:7)", "elsewhere (pkg/__init__.py:7)"]


def test_a_changed_file_is_read_anew() -> None:
    notes = Kept()
    closure(notes)
    changed = {**FILES, "layers.py": "Linear = Gone = 1\n"}
    assert told(closure(notes, changed))[2] == []


@pytest.mark.parametrize(
    "bad", [b"", b"null", b"[1, 2]", b"[[[1]], []]", b"\xff", b'[[["m", null, 1, []]]]', b"{}"]
)
def test_what_is_no_outline_is_read_anew(bad: bytes) -> None:
    assert unpack(bad) is None
    notes = Kept()
    closure(notes)
    assert told(closure(Kept(dict.fromkeys(notes, bad)))) == told(closure(None))


def test_an_unreadable_module_is_not_kept() -> None:
    notes = Kept()
    found = closure(notes, {**FILES, "layers.py": "def ("})
    assert [missing.why[:13] for missing in found.unread] == ["pkg/layers.py"]
    assert len(notes) == len(FILES)


def test_place_and_platform_are_part_of_the_key() -> None:
    keys = {key_of(path, platform, b"x") for path in ("a.py", "b.py") for platform in ("cuda", "rocm")}
    assert len(keys) == 4


def test_the_form_is_raised_with_the_scanner() -> None:
    folder = Path(outline.__file__).parent
    text = b"".join((folder / name).read_bytes() for name in ("scan.py", "guards.py", "outline.py"))
    digest = hashlib.sha256(text).hexdigest()[:4]
    assert digest == SCANNED_BY, (
        f"the scanner changed: raise outline.FORM if it says other things of the same text, then set {digest}"
    )
