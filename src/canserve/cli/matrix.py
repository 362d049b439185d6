"""``canserve matrix``: the whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from canserve.cli.output import emit, format_option, look

if TYPE_CHECKING:
    from canserve.index.matrix import Matrix

_EVERY = "*"


@click.command("matrix")
@click.option("-e", "--engine", "engines", multiple=True, metavar="ENGINE", help="Only this engine.")
@click.option(
    "-a",
    "--arch",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only names that hold this; * and ? are wild.",
)
@click.option(
    "--quantization",
    is_flag=False,
    flag_value=_EVERY,
    metavar="[METHOD]",
    help="Quantization methods with their least compute capability, instead of architectures.",
)
@click.option(
    "--gguf", is_flag=False, flag_value=_EVERY, metavar="[NAME]", help="GGUF architectures instead."
)
@format_option("text", "json", "md", "html")
def command(
    engines: tuple[str, ...], names: tuple[str, ...], quantization: str | None, gguf: str | None, form: str
) -> int:
    """Which releases list each architecture.

    Of every engine, or each quantization method. The HTML page holds all tables and needs nothing else: no
    network, no other file.

    \b
    canserve matrix --arch qwen3
    canserve matrix --quantization fp8
    canserve matrix --format html > matrix.html
    """
    from canserve.api.released import matrix
    from canserve.index.matrix import ARCHITECTURES, GGUF, QUANTIZATION

    asked = {ARCHITECTURES: names, QUANTIZATION: _patterns(quantization), GGUF: _patterns(gguf)}
    chosen = {table: patterns for table, patterns in asked.items() if patterns}
    if len(chosen) > 1:
        raise click.UsageError(
            "--arch, --quantization and --gguf are about different tables: name one of them."
        )
    tables = tuple(chosen) or (tuple(asked) if form == "html" else (ARCHITECTURES,))
    patterns = tuple(name for names in chosen.values() for name in names if name != _EVERY)
    found = matrix(tables, engines, patterns)
    emit(_rendered(found, form))
    return 0 if any(table.rows for table in found) else 1


def _patterns(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _rendered(found: tuple[Matrix, ...], form: str) -> str:
    match form:
        case "json":
            from canserve.render.released_structure import matrix_output
            from canserve.render.structure import to_json

            return to_json(matrix_output(found))
        case "html":
            from canserve.render.matrix_page import matrix_page

            return matrix_page(found)
        case "md":
            from canserve.render.matrix_text import matrix_markdown

            return matrix_markdown(found)
        case _:
            from canserve.render.matrix_text import matrix_text

            return matrix_text(found, look())
