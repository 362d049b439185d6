"""``export``: a saved plan in the forms of other tools. Nothing is started.

Machines are looked at only for what accelerators they have, where nobody says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.api import Options, SpecError
from canserve.api.sites import bare, named, of_plan, site
from canserve.api.wished import (
    UpWishes,
    absolute,
    carried_in,
    chosen_plan,
    completed,
    given_to,
    startable,
)
from canserve.plan.export.exported import Exported, ExportError, Files
from canserve.plan.export.forms import CLUSTERED, written
from canserve.rules.machines import PREFIX
from canserve.subjects.cluster import Node
from canserve.subjects.launch import Host, Start


@dataclass(frozen=True, slots=True)
class Export:
    """An exported plan."""

    form: str
    exported: Exported
    files: Files

    @property
    def notes(self) -> tuple[str, ...]:
        """What the form does not say."""
        return self.files.notes


def export(spec: str, form: str, wishes: UpWishes, options: Options | None = None) -> Export:
    """A saved plan's first plan as files of a form. Raises SpecError for what the form cannot say."""
    exported = exportable(spec, form, wishes, options or Options())
    try:
        return Export(form, exported, written(exported, form))
    except ExportError as error:
        raise SpecError(str(error), error.hint) from error


def exportable(spec: str, form: str, wishes: UpWishes, options: Options) -> Exported:
    """What is to be written. Raises SpecError."""
    if (again := carried_in(spec)) is not None and replace(wishes, force=False) == UpWishes():
        return again
    wishes = completed(spec, wishes)
    chosen = chosen_plan(spec, wishes, options)
    found = startable(chosen, wishes)
    start, where, ranks = found.start, found.where, chosen.placement.ranks
    look = found.contained and wishes.accelerators is None
    nodes = _nodes(found.machines, wishes, options, look)
    return Exported(
        model=chosen.model,
        build=chosen.build,
        engine=chosen.engine,
        version=chosen.version,
        placement=chosen.placement,
        options=chosen.options,
        start=Start(start.processes, start.placeholders),
        where=where,
        sites=tuple(site(node, ranks, wishes.accelerators, found.contained) for node in nodes),
        addresses=_addresses(start.placeholders, nodes, form),
        given=given_to(chosen.model, where, wishes),
        state=absolute(wishes.state, "the folder of claims"),
    )


def _nodes(names: Sequence[str], wishes: UpWishes, options: Options, look: bool) -> tuple[Node, ...]:
    """The plan's machines, whether they can be reached or not. Raises SpecError for one that nobody named."""
    targets = wishes.on or names
    profiles = [target for target in targets if target.lower().startswith(PREFIX)]
    others = [target for target in targets if target not in profiles]
    if look:
        found = named(targets, options, look=True)
    else:
        found = (
            *named(others, options, look=False),
            *(replace(bare(name, name, None), address=None) for name in profiles),
        )
    return of_plan(names, found)


def _addresses(placeholders: Mapping[str, str], nodes: Sequence[Node], form: str) -> dict[str, str]:
    """Of those that the plan names and does not know. A form whose machines are chosen later needs none."""
    known = {Host(node.name).placeholder: node.ip for node in nodes if node.ip is not None}
    for name, what in placeholders.items():
        if name not in known and form not in CLUSTERED:
            raise SpecError(
                f"not known: {what}", 'write ip = "..." in a cluster file, and name that with --on'
            )
    return {name: known[name] for name in placeholders if name in known}


def put_down(files: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """Write the files below a folder; what is there under another text is not written over. Raises SpecError."""
    paths = {folder / name: text for name, text in files.items()}
    for path, text in paths.items():
        if path.is_symlink() or (path.exists() and not _same(path, text)):
            raise SpecError(
                f"{path} is there already, and holds something else", "name another folder with --out"
            )
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tuple(paths)


def _same(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (UnicodeDecodeError, IsADirectoryError):
        return False
