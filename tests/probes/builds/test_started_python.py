"""Images with several Pythons: the engine is read from the one that is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_engine import CODE, SmallEngine

from archives import wheel_files
from canserve.facts import Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from made_images import Layout, Member, link

SYSTEM = "usr/local/lib/python3.12/dist-packages"
VENV = "opt/venv/lib/python3.12/site-packages"
OWN = "srv/own"
PATH = "PATH=/opt/venv/bin:/usr/local/bin:/usr/bin"


def installed(site: str, version: str) -> dict[str, Member]:
    files = wheel_files("vllm", version, {f"vllm/{name}": text for name, text in CODE.items()})
    return {f"{site}/{path}": text.encode() for path, text in files.items()}


FILES: dict[str, Member] = {
    "usr/bin/python3.12": b"",
    "usr/bin/python3": link("python3.12"),
    "usr/local/bin/vllm": b"#!/usr/bin/python3\n",
    "opt/venv/pyvenv.cfg": b"home = /usr/bin\n",
    "opt/venv/bin/python3": link("/usr/bin/python3.12"),
    **installed(SYSTEM, "1.0"),
    **installed(VENV, "2.0"),
}


def version(tmp_path: Path, files: dict[str, Member], **config: Any) -> str:
    layout = Layout(tmp_path / "image").started(files, config)
    options = BuildOptions(cache=Cache(tmp_path / "cache"), engines=(SmallEngine("vllm"),), offline=True)
    reading = read_build(f"oci:{layout.root}", Want(), options)
    assert isinstance(reading.build, Build), reading.build
    assert any("also found" in note for note in reading.notes)
    found = reading.build.identity.version
    assert isinstance(found, Known)
    return found.value


@pytest.mark.parametrize(
    ("config", "runs"),
    [
        ({"Entrypoint": ["/usr/bin/python3", "-m", "vllm"], "Env": [PATH]}, "1.0"),
        ({"Entrypoint": ["python3", "-m", "vllm"], "Env": [PATH]}, "2.0"),
        ({"Entrypoint": ["python3", "-m", "vllm"], "Env": ["PATH=/usr/bin:/opt/venv/bin"]}, "1.0"),
        ({"Entrypoint": ["/opt/venv/bin/python3"], "Env": ["PATH=/usr/bin"]}, "2.0"),
        # The command lies in another folder of PATH than the first Python.
        ({"Entrypoint": ["vllm", "serve"], "Env": [PATH]}, "1.0"),
        ({"Entrypoint": ["tini", "--"], "Cmd": ["/usr/bin/python3.12", "x.py"], "Env": [PATH]}, "1.0"),
        ({"Cmd": ["/bin/bash"], "Env": [PATH]}, "2.0"),
        ({"Cmd": ["/bin/bash"], "Env": ["PATH=/usr/bin"]}, "1.0"),
        ({"Entrypoint": ["/usr/bin/../../etc/python3"]}, "2.0"),
    ],
)
def test_the_one_that_is_started(config: dict[str, Any], runs: str, tmp_path: Path) -> None:
    assert version(tmp_path, FILES, **config) == runs


def test_what_pythonpath_names_comes_before_what_is_installed(tmp_path: Path) -> None:
    beside = {f"{OWN}/other-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: other\nVersion: 1.0\n"}
    files = FILES | installed(OWN, "3.0") | beside
    environment = ["PYTHONPATH=/srv/own/", "PATH=/usr/bin"]
    assert version(tmp_path, files, Entrypoint=["python3"], Env=environment) == "3.0"
