"""Finding the engine: every way in which it can be installed, unpacked, checked out or copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import pytest
from small_engine import CODE, ENGINES, installed, lay, library, package

from archives import tarred, wheel_files, zipped
from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.discover import Found, discover
from canserve.trees.folder import FolderTree
from canserve.trees.index.opening import open_archive
from canserve.trees.names import printable
from canserve.trees.tree import Tree

T = TypeVar("T")

SITE = "lib/python3.12/site-packages"
DIST = "usr/local/lib/python3.12/dist-packages"
SYSTEM = {"etc/os-release": "ID=debian\n", "var/log/x": "", "usr/bin/true": ""}


def outside(folder: str) -> Tree | None:
    return FolderTree(Path(folder), printable(folder)) if Path(folder).is_dir() else None


def found_in(root: Path, wanted: str | None = None) -> Found:
    got = discover(FolderTree(root, "build"), ENGINES, outside, wanted)
    assert isinstance(got, Found), got
    return got


def missing_in(root: Path) -> Missing:
    got = discover(FolderTree(root, "build"), ENGINES, outside)
    assert isinstance(got, Missing), got
    return got


def known(fact: Fact[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


def code_of(found: Found) -> str:
    return known(found.sources("eng").text("eng/registry.py")) or ""


def test_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "eng-1.2-py3-none-any.whl"
    code = {f"eng/{name}": text for name, text in CODE.items()}
    path.write_bytes(zipped(wheel_files("eng", "1.2", code, ("transformers>=4",))))
    got = discover(open_archive(path, "wheel"), ENGINES)
    assert isinstance(got, Found)
    assert (got.origin, known(got.metadata.version), known(got.metadata.requires)) == (
        "wheel", "1.2", ("transformers>=4",),
    )  # fmt: skip
    assert known(got.metadata.requires_python) == ">=3.9"
    assert "Alpha" in code_of(got)
    assert "eng-1.2.dist-info/METADATA" in got.sources("x").under("", "")
    beside = got.installed_version("transformers")
    assert isinstance(beside, Missing)
    assert beside.cause is Cause.UNREACHED


@pytest.mark.parametrize("inner", ["", "/python", "/src"])
def test_a_source_distribution(tmp_path: Path, inner: str) -> None:
    path = tmp_path / "eng-1.2.tar.gz"
    info = "Metadata-Version: 2.1\nName: eng\nVersion: 1.2\nRequires-Python: >=3.9\n"
    files = {**package(f"eng-1.2{inner}"), f"eng-1.2{inner}/PKG-INFO": info}
    files[f"eng-1.2{inner}/requirements.txt"] = "torch==2.0\ntransformers >= 4.31 # comment\n"
    path.write_bytes(tarred(files))
    got = discover(open_archive(path, "sdist"), ENGINES)
    assert isinstance(got, Found)
    assert (got.origin, known(got.metadata.version)) == ("source distribution", "1.2")
    assert known(got.metadata.requires) == ("torch==2.0", "transformers >= 4.31")
    assert known(got.platforms()) == ("any",)
    assert "Alpha" in code_of(got)


@pytest.mark.parametrize("inner", ["", "python", "src"])
def test_a_checkout(tmp_path: Path, inner: str) -> None:
    lay(tmp_path, {**package(inner), "docs/x.md": "", ".git/HEAD": "ref: x"})
    got = found_in(tmp_path)
    assert got.origin == f"source tree {inner or '.'}"
    assert known(got.metadata.version) == "1.2"
    assert "Alpha" in code_of(got)
    assert isinstance(got.installed_version("transformers"), Missing)


def test_a_virtual_environment(tmp_path: Path) -> None:
    lay(tmp_path, {
        "pyvenv.cfg": "home = /usr/bin\n", **package(SITE), **installed(SITE, "eng", "1.2+cu129", ("transformers<5",)),
        **library(SITE, "transformers", "4.57.3"), **library(SITE, "torch", "2.9.1"),
        f"{SITE}/torch/version.py": "__version__ = '2.9.1+cu130'\n",
        f"{SITE}/extra-1.0.dist-info/entry_points.txt": "[eng.plugins]\nx = y:z\n",
    })  # fmt: skip
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/usr/bin/python3")
    got = found_in(tmp_path)
    assert got.origin == f"virtual environment, installed in {SITE}"
    assert known(got.metadata.version) == "1.2+cu129"
    assert known(got.metadata.requires) == ("transformers<5",)
    assert known(got.platforms()) == ("manylinux_2_28_aarch64", "manylinux_2_28_x86_64")
    assert known(got.installed_version("transformers")) == "4.57.3"
    assert known(got.installed_version("torch")) == "2.9.1+cu130"
    assert known(got.installed_version("flash_attn")) is None
    assert got.notes == ()
    sources = got.sources("x")
    assert sources.under("", ".dist-info/entry_points.txt") == ["extra-1.0.dist-info/entry_points.txt"]
    beside = got.installed_sources("transformers", "transformers")
    assert beside is not None
    assert beside.has("transformers/__init__.py")


def test_the_site_packages_folder_itself(tmp_path: Path) -> None:
    lay(tmp_path, {**package(""), **installed("", "eng", "1.2"), **library("", "transformers", "4.57.3")})
    got = found_in(tmp_path)
    assert known(got.installed_version("transformers")) == "4.57.3"


def test_the_layout_of_the_community_image(tmp_path: Path) -> None:
    """The engine's tree under /opt, nothing of it in dist-packages, transformers there."""
    lay(tmp_path, {**SYSTEM, **package("opt/eng"), **library(DIST, "transformers", "4.57.3"),
                   **library(DIST, "torch", "2.9.1"), "proc/1/x": ""})  # fmt: skip
    got = found_in(tmp_path)
    assert got.origin == "source tree opt/eng"
    assert known(got.installed_version("transformers")) == "4.57.3"
    assert "Alpha" in code_of(got)


def test_the_same_with_a_folder_that_leads_out_of_the_tree(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **library(DIST, "transformers", "4.57.3"), "opt/x/y": ""})
    (tmp_path / "opt" / "eng").symlink_to("../../elsewhere/eng")
    got = missing_in(tmp_path)
    assert got.cause is Cause.UNREACHED
    assert "opt/eng" in got.why


def test_nothing_there_is_said_after_looking_everywhere(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **library(DIST, "transformers", "4.57.3")})
    got = missing_in(tmp_path)
    assert got.cause is Cause.UNAVAILABLE
    assert got.why == "no eng or second in it"
    assert got.evidence[0].whole
    assert got.ask


def editable(site: str, style: str, target: str) -> dict[str, str]:
    """The files that each kind of editable installation leaves in a site."""
    info = installed(site, "eng", "1.2")
    match style:
        case "pth":
            return {**info, f"{site}/__editable__.eng-1.2.pth": f"{target}\n"}
        case "hatch":
            return {**info, f"{site}/_eng.pth": target}
        case "finder":
            finder = (
                f"from x import y\nMAPPING: dict[str, str] = {{'eng': '{target}/eng'}}\nNAMESPACES = {{}}\n"
            )
            return {
                **info,
                f"{site}/__editable___eng_1_2_finder.py": finder,
                f"{site}/__editable__.eng-1.2.pth": "import __editable___eng_1_2_finder; __editable___x.install()\n",
            }
        case "direct_url":
            url = {"url": f"file://{target}", "dir_info": {"editable": True}}
            return {**info, f"{site}/eng-1.2.dist-info/direct_url.json": json.dumps(url)}
        case _:
            return {f"{site}/eng.egg-link": f"{target}\n.\n", f"{site}/easy-install.pth": f"{target}\n"}


STYLES = ["pth", "hatch", "finder", "direct_url", "egg-link"]


@pytest.mark.parametrize("style", STYLES)
def test_editable_installs_in_a_copied_file_system(tmp_path: Path, style: str) -> None:
    """Absolute paths mean the copy's root, whatever lies there on this machine."""
    lay(tmp_path, {**SYSTEM, **package("opt/eng"), **editable(DIST, style, "/opt/eng"),
                   **library(DIST, "transformers", "4.57.3"), **package("other/place")})  # fmt: skip
    got = found_in(tmp_path)
    assert "editable install of /opt/eng" in got.origin
    assert known(got.metadata.version) == "1.2"
    assert known(got.installed_version("transformers")) == "4.57.3"
    assert got.sources("x").has("eng/registry.py")
    assert got.notes == ("also found, and not read: eng, source tree other/place",)


@pytest.mark.parametrize("style", STYLES)
def test_editable_installs_of_a_folder_of_this_machine(tmp_path: Path, style: str) -> None:
    lay(tmp_path / "code", package("eng-repo/python" if style == "direct_url" else "eng-repo"))
    target = str(tmp_path / "code" / "eng-repo")
    lay(
        tmp_path / "venv",
        {"pyvenv.cfg": "", **editable(SITE, style, target), **library(SITE, "transformers", "5.0.0")},
    )
    got = found_in(tmp_path / "venv")
    assert f"editable install of {target}" in got.origin
    assert known(got.installed_version("transformers")) == "5.0.0"
    assert "Alpha" in code_of(got)


@pytest.mark.parametrize("style", ["pth", "finder", "direct_url"])
def test_a_copied_file_system_does_not_lead_to_this_machine(tmp_path: Path, style: str) -> None:
    lay(tmp_path / "code", package("eng-repo"))
    lay(tmp_path / "copy", {**SYSTEM, **editable(DIST, style, str(tmp_path / "code" / "eng-repo"))})
    got = missing_in(tmp_path / "copy")
    assert got.cause is Cause.UNREACHED
    assert "its files are not in the tree" in got.why


def test_an_installation_that_cannot_be_followed_outweighs_a_stray_source_tree(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **editable(DIST, "pth", "/gone/eng"), **package("home/user/old-eng")})
    got = missing_in(tmp_path)
    assert "may be another one" in got.why


def test_relative_lines_of_pth_files(tmp_path: Path) -> None:
    lay(tmp_path, {"pyvenv.cfg": "", **package("repo"), f"{SITE}/dev.pth": "# comment\n\n../../../repo\n"})
    assert "Alpha" in code_of(found_in(tmp_path))
    lay(tmp_path / "other", {"pyvenv.cfg": "", f"{SITE}/dev.pth": "../../../../../../../etc\n" * 3000})
    assert missing_in(tmp_path / "other").cause is Cause.UNREACHED


def test_relative_lines_that_lead_out_are_followed_on_this_machine_only(tmp_path: Path) -> None:
    lay(tmp_path / "repo", package(""))
    lay(tmp_path / "venv", {"pyvenv.cfg": "", f"{SITE}/dev.pth": "../../../../repo\n"})
    assert "Alpha" in code_of(found_in(tmp_path / "venv"))
    lay(tmp_path / "copy", {**SYSTEM, f"{SITE}/dev.pth": "../../../../repo\n"})
    got = missing_in(tmp_path / "copy")
    assert got.cause is Cause.UNREACHED
    assert "../repo" in got.why


def test_folders_that_were_followed_and_hold_no_engine_are_no_excuse(tmp_path: Path) -> None:
    lay(tmp_path / "code", {"app/main.py": ""})
    site = {f"{SITE}/_app.pth": f"{tmp_path / 'code'}\n", f"{SITE}/rel.pth": "../../../src\n"}
    lay(tmp_path / "venv", {"pyvenv.cfg": "", "src/app.py": "", **site})
    assert missing_in(tmp_path / "venv").cause is Cause.UNAVAILABLE


def test_a_linked_package_is_found(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **package("opt/code"), **installed(DIST, "eng", "1.2")})
    (tmp_path / DIST / "eng").symlink_to("/opt/code/eng")
    got = found_in(tmp_path)
    assert "installed in" in got.origin
    assert "Alpha" in code_of(got)


def test_a_linked_package_out_of_the_tree_is_unknown(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **installed(DIST, "eng", "1.2")})
    (tmp_path / DIST / "eng").symlink_to("../../../../../../elsewhere/eng")
    assert missing_in(tmp_path).cause is Cause.UNREACHED


def test_several_engines_and_how_to_ask_for_one(tmp_path: Path) -> None:
    lay(tmp_path, {**package(SITE), **installed(SITE, "eng", "1.2"),
                   **package(SITE, "second"), **installed(SITE, "second", "3.0")})  # fmt: skip
    got = found_in(tmp_path)
    assert got.engine.name == "eng"
    assert "second" in got.notes[0]
    assert found_in(tmp_path, "second").engine.name == "second"
    assert isinstance(discover(FolderTree(tmp_path), ENGINES, None, "third"), Missing)


def test_several_pythons(tmp_path: Path) -> None:
    """Each is told of; the environment's own is read, the newest first, always the same."""
    old, new = "usr/lib/python3.9/site-packages", "usr/lib/python3.12/site-packages"
    lay(tmp_path, {**SYSTEM, **package(old), **installed(old, "eng", "1.0"), **package(new),
                   **installed(new, "eng", "1.2"), **library(old, "transformers", "4.0.0")})  # fmt: skip
    got = found_in(tmp_path)
    assert known(got.metadata.version) == "1.2"
    assert known(got.installed_version("transformers")) is None
    assert old in got.notes[0]


def test_what_the_system_has_counts_only_where_the_environment_sees_it(tmp_path: Path) -> None:
    venv = "opt/venv/lib/python3.12/site-packages"
    for sees, version in (("true", "4.57.3"), ("false", None)):
        root = tmp_path / sees
        cfg = f"home = /usr/bin\ninclude-system-site-packages = {sees}\n"
        lay(root, {**SYSTEM, "opt/venv/pyvenv.cfg": cfg, **package(venv), **installed(venv, "eng", "1.2"),
                   **library(DIST, "transformers", "4.57.3")})  # fmt: skip
        assert known(found_in(root).installed_version("transformers")) == version


def test_debians_two_folders_are_one_environment(tmp_path: Path) -> None:
    common = "usr/lib/python3/dist-packages"
    lay(
        tmp_path,
        {
            **SYSTEM,
            **package(DIST),
            **installed(DIST, "eng", "1.2"),
            **library(common, "transformers", "4.9.0"),
        },
    )
    assert known(found_in(tmp_path).installed_version("transformers")) == "4.9.0"


def test_packages_within_packages_and_namesakes_do_not_count(tmp_path: Path) -> None:
    lay(tmp_path, {
        "router/__init__.py": "", "router/backends/eng/__init__.py": "", "examples/eng/readme.md": "",
        "node_modules/eng/__init__.py": "", f"{SITE}/router/eng/__init__.py": "",
    })  # fmt: skip
    assert missing_in(tmp_path).cause is Cause.UNAVAILABLE


def test_a_very_wide_tree_is_searched_within_bounds_and_says_so(tmp_path: Path) -> None:
    for number in range(2_100):
        (tmp_path / "data" / f"{number:05}").mkdir(parents=True)
    got = missing_in(tmp_path)
    assert "of 2100 folders" in got.why
    assert got.cause is Cause.UNREACHED
    lay(tmp_path, package("opt/eng"))
    assert "Alpha" in code_of(found_in(tmp_path))


def test_unpacked_wheels_lying_about_are_not_environments(tmp_path: Path) -> None:
    lay(tmp_path, {**SYSTEM, **package("work/unpacked"), **installed("work/unpacked", "eng", "9.9"),
                   **package(DIST), **installed(DIST, "eng", "1.2")})  # fmt: skip
    got = found_in(tmp_path)
    assert known(got.metadata.version) == "1.2"
    assert got.notes == ("also found, and not read: eng, unpacked wheel in work/unpacked",)
