"""The founding case, end to end, on real releases. It must stay true for ever."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import canserve
from canserve.subjects.build import Build
from canserve.verdict import Finding, word
from made_images import Layout

ROOT = Path(__file__).parent.parent
FOUNDING = ROOT / "examples" / "founding"
MODEL = str(FOUNDING / "model")
ARCHITECTURE = "Qwen3_5MoeForConditionalGeneration"

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def report() -> canserve.Report:
    builds = ["vllm==0.14.0", "vllm==0.17.1", "sglang==0.5.9"]
    return canserve.check(MODEL, builds, on=str(FOUNDING / "cluster.toml"))


def finding(build: canserve.BuildReport, check: str) -> Finding:
    return next(found for found in build.findings if found.check == check)


def test_the_old_release_lacks_class_and_model_type(report: canserve.Report) -> None:
    old = report.builds[0]
    assert word(old.verdict) == "no"
    registered = finding(old, "architecture-registered").verdict
    assert isinstance(registered, canserve.No)
    assert "Qwen3VLMoeForConditionalGeneration" in registered.because, "near names are listed"
    assert "vllm>=0.17.0" in registered.fix, "the first release that has the class"
    assert isinstance(finding(old, "config-parsable").verdict, canserve.No)


def test_the_newer_release_brings_its_own_config(report: canserve.Report) -> None:
    new = report.builds[1]
    assert isinstance(new.build, Build)
    shims = new.build.config_shims
    assert isinstance(shims, canserve.Known)
    assert "qwen3_5_moe" in shims.value
    for check in ("architecture-registered", "config-parsable", "quantization-registered"):
        assert isinstance(finding(new, check).verdict, canserve.Yes)
    assert word(new.verdict) == "yes"


def test_the_other_engine_is_judged_on_its_own_files(report: canserve.Report) -> None:
    registered = finding(report.builds[2], "architecture-registered")
    assert isinstance(registered.verdict, canserve.Yes)
    assert any(look.how.startswith("sglang/srt/") for look in registered.evidence)


def test_parameters_come_from_the_headers_not_from_the_name(report: canserve.Report) -> None:
    parameters = report.model.parameters
    assert isinstance(parameters, canserve.Known)
    assert 122e9 < parameters.value.by_dtype["F8_E4M3"] < 124e9


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The community image's layout: engine under /opt/vllm, transformers 4.57.3 in site-packages."""
    root = tmp_path_factory.mktemp("community") / "image"
    subprocess.run([sys.executable, str(FOUNDING / "community_image.py"), str(root)], check=True, timeout=600)
    return root


def test_the_community_image_is_a_yes(image: Path) -> None:
    (build,) = canserve.check(MODEL, [str(image)]).builds
    assert word(build.verdict) == "yes"
    assert isinstance(build.build, Build)
    assert build.build.transformers.installed == canserve.Known(
        "4.57.3", build.build.transformers.installed.evidence
    )
    parsable = finding(build, "config-parsable")
    assert any("opt/vllm" in look.how or "vllm/transformers_utils" in look.how for look in parsable.evidence)


def test_the_same_image_saved_in_layers_is_a_yes(image: Path, tmp_path: Path) -> None:
    """As an archive that an engine saved: packages below, the engine's source tree above."""
    layout = Layout(tmp_path / "layout")
    source, packages = io.BytesIO(), io.BytesIO()
    for out, chosen in ((packages, "usr"), (source, "opt")):
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.add(image / chosen, chosen)
    layout.add(layout.image([packages.getvalue(), source.getvalue()]), "vllm:community")
    target = f"oci:{layout.root}:vllm:community"
    report = canserve.check(MODEL, [target], on="profile:dgx-spark", options=canserve.Options(offline=True))
    assert word(report.verdict) == "yes"
    build = report.builds[0].build
    assert isinstance(build, Build)
    assert build.identity.content == canserve.Known(
        layout.manifests[0]["digest"], build.identity.content.evidence
    )


@pytest.mark.parametrize("folder", ["opt/vllm/vllm/model_executor/models", "opt/vllm", "opt"])
def test_the_same_image_with_an_unreadable_folder_is_unknown(image: Path, folder: str) -> None:
    plainly = []
    if os.geteuid() == 0:  # root reads everything unless these two rights are given up
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed, and root cannot be kept from reading")
        plainly = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    command = [
        str(Path(sys.executable).with_name("canserve")),
        "check",
        MODEL,
        "--build",
        str(image),
        "--quiet",
    ]
    (image / folder).chmod(0)
    try:
        done = subprocess.run([*plainly, *command], capture_output=True, text=True, check=False, timeout=300)
    finally:
        (image / folder).chmod(0o755)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Permission denied" in done.stdout
