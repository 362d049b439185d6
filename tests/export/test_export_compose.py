"""Compose files: the Compose Specification's schema, Compose itself, and the words of ``up``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from canserve.commands import serving
from canserve.plan.export.exported import Exported, ExportError
from canserve.plan.export.forms import written
from canserve.subjects.deployment import Image
from exported_cases import CASES

SPECIFICATION = json.loads(
    (files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text()
)
CONTAINED = [name for name, case in CASES.items() if isinstance(case.where, Image)]


def services(it: Exported) -> Iterator[tuple[int, dict[str, Any]]]:
    for text in written(it, "compose").files.values():
        for name, one in yaml.safe_load(text)["services"].items():
            yield int(name.removeprefix("process-")), one


def option(words: list[str], name: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == name]


def plain(text: str) -> str:
    assert "$" not in text.replace("$$", "")
    return text.replace("$$", "$")


@pytest.mark.parametrize("name", CONTAINED)
def test_the_specifications_schema(name: str) -> None:
    for text in written(CASES[name], "compose").files.values():
        jsonschema.validate(yaml.safe_load(text), SPECIFICATION)


def test_the_schema_would_find_a_fault() -> None:
    text = next(iter(written(CASES["one"], "compose").files.values()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text.replace("network_mode:", "network_mod:")), SPECIFICATION)


@pytest.mark.parametrize("name", CONTAINED)
def test_each_service_is_the_container_of_up(name: str) -> None:
    it = CASES[name]
    one = it.deployment
    for number, service in services(it):
        words = list(serving.start(one, number))
        at = words.index("--entrypoint")
        assert [*service["entrypoint"], service["image"], *map(plain, service["command"])] == words[at + 1 :]
        words = words[:at]
        assert [service["container_name"]] == option(words, "--name")
        told = service.get("environment", {})
        assert [
            name if value is None else f"{name}={plain(value)}" for name, value in told.items()
        ] == option(words, "--env")
        assert [each["path"] for each in service.get("env_file", [])] == option(words, "--env-file")
        assert [f"{name}={plain(value)}" for name, value in service["labels"].items()] == option(
            words, "--label"
        )
        assert [f"{name}={value}" for name, value in service["ulimits"].items()] == option(words, "--ulimit")
        assert [service[key] for key in ("shm_size",) if key in service] == option(words, "--shm-size")
        assert service["network_mode"] == option(words, "--network")[0]
        devices = [path.rpartition(":")[2] if path[0] == "/" else path for path in service.get("devices", [])]
        assert devices == option(words, "--device")
        assert service.get("cap_add", []) == option(words, "--cap-add")
        assert service.get("group_add", []) == option(words, "--group-add")
        for key, flag in (("ipc", "--ipc"), ("pid", "--pid")):
            shared = service.get(key, "").replace("service:process-", f"container:canserve-{one.run}-")
            assert [shared] * bool(shared) == option(words, flag)
        asked = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
        assert [f"device={','.join(each['device_ids'])}" for each in asked] == [
            value.strip('"') for value in option(words, "--gpus")
        ]
        binds = [each for each in service.get("volumes", []) if each["type"] == "bind"]
        assert all(each["bind"] == {"create_host_path": False} for each in binds)
        assert [
            f"type=bind,source={each['source']},target={each['target']}" + ",readonly" * ("read_only" in each)
            for each in binds
        ] == option(words, "--mount")
        kept = [each for each in service.get("volumes", []) if each["type"] == "volume"]
        assert [f"{each['source']}:{each['target']}" for each in kept] == option(words, "--volume")


@pytest.mark.parametrize("name", [name for name in CONTAINED if not CASES[name].given.secret_files])
def test_compose_itself_reads_the_same_words(name: str, tmp_path: Path) -> None:
    """Debian's release of it, 1.29, which knows neither the project's name in the file nor ``format: raw``."""
    compose = shutil.which("docker-compose")
    if compose is None:
        pytest.skip("docker-compose is not installed: ./dev test does that")
    for path, text in written(CASES[name], "compose").files.items():
        file = tmp_path / path
        file.parent.mkdir()
        file.write_text(text.replace(f"name: canserve-{CASES[name].run}\n", "", 1))
        done = subprocess.run(
            [compose, "-f", str(file), "config"], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        read = yaml.safe_load(done.stdout)["services"]
        for service, one in yaml.safe_load(text)["services"].items():
            # What it prints could be read again: dollars stay doubled.
            assert read[service]["command"] == one["command"]
            assert read[service].get("environment", {}) == one.get("environment", {})
            assert read[service]["entrypoint"] == one["entrypoint"]


def test_a_server_over_ray_waits_until_all_have_joined() -> None:
    found = dict(services(CASES["ray"]))
    assert found[2]["depends_on"] == {"process-0": {"condition": "service_healthy"}}
    assert (
        plain(found[0]["healthcheck"]["test"][1])
        == 'ray status --address 10.0.0.1:6379 | grep -q "/2\\.0 GPU"'
    )
    assert "healthcheck" not in found[1] and "healthcheck" not in found[2]


def test_what_runs_in_no_container_is_no_service() -> None:
    with pytest.raises(ExportError, match="an environment: /srv/venv"):
        written(CASES["folder"], "compose")
