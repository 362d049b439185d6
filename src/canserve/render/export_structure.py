"""An export as the shape of the JSON output, and as text: the files themselves, or what was written."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.api.exporting import Export
from canserve.render.escape import visible
from canserve.render.export_shapes import ExportedFileShape, ExportShape


def export_output(made: Export, written: Sequence[str]) -> ExportShape:
    """Files and notes."""
    return ExportShape(
        version=1,
        model=made.exported.model,
        build=made.exported.build,
        form=made.form,
        run=made.exported.run,
        files=tuple(ExportedFileShape(path, text) for path, text in made.files.files.items()),
        written=tuple(written),
        notes=made.notes,
    )


def export_text(made: Export, written: Sequence[str], terminal: bool) -> str:
    """Paths of what was written; else the file, or each under a line with its path.

    ``terminal``: line by line, so that nothing in it moves a cursor; elsewhere to the byte, as it may be piped on.
    """
    if written:
        return "".join(f"{visible(path, 4096)}\n" for path in written)
    files = made.files.files
    if len(files) == 1:
        return _shown(next(iter(files.values())), terminal)
    return "".join(f"# {visible(path)}\n{_shown(text, terminal)}\n" for path, text in files.items())


def _shown(text: str, terminal: bool) -> str:
    if not terminal:
        return text
    return "".join(f"{visible(line, 1 << 22)}\n" for line in text.removesuffix("\n").split("\n"))
