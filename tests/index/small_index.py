"""A package index in a folder, with small releases of transformers that are really read."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from canserve.index.places import SUFFIX
from canserve.index.shelf import Shelf, unpack

AUTO = "transformers/models/auto/"
LIBRARY = "small-library"
"""The project's name: no index of it is shipped."""
Files = list[dict[str, object]]


@dataclass
class SmallIndex:
    """The index, and a user's folder of its own."""

    root: Path
    files: Files = field(default_factory=list)

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True)

    @property
    def project(self) -> Path:
        return self.root / "simple" / "transformers"

    @property
    def mine(self) -> Path:
        """The user's index folder."""
        return self.root / "cache" / "index"

    @property
    def path(self) -> Path:
        return self.mine / f"{LIBRARY}{SUFFIX}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": (self.root / "simple").as_uri(),
            "CANSERVE_CACHE": str(self.root / "cache"),
        }

    def wheel(self, version: str, types: str, broken: bool = False) -> None:
        """Publish a release; one of the same version is replaced."""
        path = self.project / f"transformers-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("transformers/__init__.py", "class MothModel: ...\n")
            archive.writestr(AUTO + "configuration_auto.py", f"CONFIG_MAPPING_NAMES = {types}\n")
            archive.writestr(AUTO + "modeling_auto.py", 'MODEL_MAPPING_NAMES = {"moth": "MothModel"}\n')
        if broken:
            path.write_bytes(path.read_bytes()[:-40])
        self.files = [one for one in self.files if one["filename"] != path.name]
        self.files.append(
            {
                "filename": path.name,
                "url": path.name,
                "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
                "size": path.stat().st_size,
                "upload-time": "2026-01-02T03:04:05Z",
                "yanked": version == "4.50.0",
            }
        )
        self.publish()

    def publish(self) -> None:
        page = {"meta": {"api-version": "1.1"}, "name": "transformers", "files": self.files}
        (self.project / "index.json").write_text(json.dumps(page))

    def command(self, *arguments: str) -> Sequence[str]:
        return [sys.executable, str(Path(__file__).with_name("index_command.py")), *arguments]

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``canserve index VERB`` of the small library alone."""
        return subprocess.run(
            self.command(verb, *arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def shelf(self) -> Shelf:
        """What lies in the user's folder."""
        return unpack(self.path.read_bytes())

    def versions(self) -> list[str]:
        return [str(row["version"]) for row in self.shelf().releases]
