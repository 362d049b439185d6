"""``canserve matrix``: the whole table."""

from __future__ import annotations

import click

from canserve.cli.output import emit, format_option, look

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
@format_option("text", "json", "md", "html")
def command(engines: tuple[str, ...], names: tuple[str, ...], quantization: str | None, form: str) -> int:
    """Which releases list each architecture.

    Of every engine, or each quantization method. The HTML page holds both tables and needs nothing else: no network, no other file.

    \b
    canserve matrix --arch qwen3
    canserve matrix --quantization fp8
    canserve matrix --format html > matrix.html
    """
    from canserve.api.released import matrix
    from canserve.index.matrix import ARCHITECTURES, QUANTIZATION

    if quantization is not None and names:
        raise click.UsageError("--arch and --quantization are about different tables: name one of them.")
    both = (ARCHITECTURES, QUANTIZATION) if form == "html" and not names else (ARCHITECTURES,)
    tables = both if quantization is None else (QUANTIZATION,)
    patterns = names if quantization is None else tuple({quantization} - {_EVERY})
    found = matrix(tables, engines, patterns)
    if form == "json":
        from canserve.render.released_structure import matrix_output
        from canserve.render.structure import to_json

        emit(to_json(matrix_output(found)))
    elif form == "html":
        from canserve.render.matrix_page import matrix_page

        emit(matrix_page(found))
    elif form == "md":
        from canserve.render.matrix_text import matrix_markdown

        emit(matrix_markdown(found))
    else:
        from canserve.render.matrix_text import matrix_text

        emit(matrix_text(found, look()))
    return 0 if any(table.rows for table in found) else 1
