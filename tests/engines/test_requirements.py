"""Requirements of a build: several lines, markers, extras that pull in extras."""

from __future__ import annotations

import pytest

from canserve.engines.requirements import requirement

LAYERED = [
    'transformers==4.51.1; extra == "runtime-common"',
    'torch==2.6.0; extra == "srt"',
    'vllm==0.6.7.dev2; extra == "srt-hip"',
    'app[runtime_common]; extra == "srt"',
    'app[runtime_common]; extra == "srt-hip"',
    'app[srt]; extra == "all"',
    'app[all]; extra == "dev"',
]


def test_several_lines_of_one_package_are_merged() -> None:
    assert requirement(["torch>=2.0", "torch<3"], "torch") == "<3,>=2.0"


def test_any_version_is_not_the_same_as_not_required() -> None:
    assert requirement(["torch"], "torch") == ""
    assert requirement(["torchvision"], "torch") is None


def test_names_are_compared_normalized() -> None:
    assert requirement(["Flash_Attn.Kernels==1"], "flash-attn-kernels") == "==1"


def test_an_extra_counts_only_when_it_is_asked_for() -> None:
    assert requirement(LAYERED, "transformers", project="app") is None
    assert requirement(LAYERED, "transformers", extras=["runtime_common"], project="app") == "==4.51.1"


def test_extras_are_followed_through_the_projects_own_lines() -> None:
    assert requirement(LAYERED, "transformers", extras=["dev"], project="app") == "==4.51.1"
    assert requirement(LAYERED, "torch", extras=["all"], project="app") == "==2.6.0"
    assert requirement(LAYERED, "vllm", extras=["all"], project="app") is None


@pytest.mark.parametrize(("python", "found"), [("3.11", "<2"), ("3.13", ">=2")])
def test_markers_are_evaluated_for_the_given_python(python: str, found: str) -> None:
    lines = ['numpy<2; python_version < "3.12"', 'numpy>=2; python_version >= "3.12"']
    assert requirement(lines, "numpy", python=python) == found


def test_markers_are_evaluated_for_linux_wherever_this_runs() -> None:
    lines = ['uvloop; sys_platform != "win32"', 'pywin32; platform_system == "Windows"']
    assert requirement(lines, "uvloop") == ""
    assert requirement(lines, "pywin32") is None


def test_a_line_that_cannot_be_parsed_still_counts_as_required() -> None:
    assert requirement(["torch >=2.* nonsense ;;"], "torch") == ""
    assert requirement(["%%%"], "torch") is None


def test_a_senseless_marker_does_not_take_the_demand_away() -> None:
    assert requirement(['torch>=2; sys_platform ~= "x"'], "torch") == ">=2"


def test_extras_that_pull_in_each_other_end() -> None:
    lines = ['app[b]; extra == "a"', 'app[a]; extra == "b"', 'torch==1; extra == "b"']
    assert requirement(lines, "torch", extras=["a"], project="app") == "==1"
