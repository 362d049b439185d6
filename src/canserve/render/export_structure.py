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


def export_text(made: Export, written: Sequence[str]) -> str:
    """Paths of what was written; else the file, or each under a line with its path."""
    if written:
        return "".join(f"{visible(path, 4096)}\n" for path in written)
    files = made.files.files
    if len(files) == 1:
        return _shown(next(iter(files.values())))
    return "".join(f"# {visible(path)}\n{_shown(text)}\n" for path, text in files.items())


def _shown(text: str) -> str:
    """Line by line, so that nothing in it moves a terminal's cursor."""
    return "".join(
        f"{visible(line.replace(chr(9), '    '), 1 << 22)}\n" for line in text.removesuffix("\n").split("\n")
    )
