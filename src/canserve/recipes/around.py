"""What surrounds a command of a recipe: its container, variables and folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from canserve.recipes.further import Place
from canserve.subjects.recipe import Said, Shared

CONTAINER = "the container"
"""What holds the files of a command that runs in one."""


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a command."""

    name: str = ""
    environment: Mapping[str, Said] = field(default_factory=dict)
    image: Said | None = None
    machine: str | None = None
    mounts: tuple[Shared, ...] = ()
    depth: int = 0
    spoken: bool = False
    """Whether it stands in a shell's text."""
    elsewhere: str = ""
    """What holds the files that it names: ``the container``, another machine; empty: the recipe's own folder does."""
    inline: Mapping[str, str] = field(default_factory=dict)
    """Files in the container whose text stands in the recipe."""
    folder: str = ""
    """In which it runs; empty: the recipe's own."""
    file: str = ""
    """The further script that it stands in; empty: the recipe itself."""

    @property
    def place(self) -> Place:
        """Where files are looked for that it names."""
        return Place(self.folder, self.elsewhere, self.mounts, self.inline)

    def inside(self, assigned: Mapping[str, Said]) -> Around:
        """The same with more variables."""
        return replace(self, environment={**self.environment, **assigned}) if assigned else self
