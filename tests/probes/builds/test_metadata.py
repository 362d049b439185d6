"""What a distribution says of itself, from whichever file says it, and what no file says is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_engine import lay, package

from canserve.facts import Fact, Known, Missing
from canserve.probes.discover.environment import Place, egg_info
from canserve.probes.discover.links import direct_url, egg_link, finder_mapping, joined, pth
from canserve.probes.discover.look import Look
from canserve.probes.discover.metadata import Metadata, core_headers, read_metadata
from canserve.trees.folder import FolderTree

T = TypeVar("T")


def metadata(root: Path, files: dict[str, str], info: str | None = None) -> Metadata:
    look = Look(FolderTree(lay(root, files), "build"))
    place = Place(look, info) if info else egg_info(look, "", "eng")
    return read_metadata(Place(look, "eng"), place)


def value(fact: Fact[T]) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


BARE = package("", version="")


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (
            {"eng/_version.py": "__version__: str\n__version__ = version = '1.3.dev25+gabc'\n"},
            "1.3.dev25+gabc",
        ),
        ({"eng/version.py": '__version__ = "0.5.4"\n'}, "0.5.4"),
        ({"eng/__init__.py": '__version__ = "0.2.1"\n'}, "0.2.1"),
        ({"PKG-INFO": "Name: eng\nVersion: 0.1.0\n"}, "0.1.0"),
        ({"pyproject.toml": '[project]\nname = "eng"\nversion = "0.5.9"\n'}, "0.5.9"),
        (
            {"eng.egg-info/PKG-INFO": "Name: eng\nVersion: 0.7\n", "eng/_version.py": "version = '0.6'\n"},
            "0.7",
        ),
    ],
)
def test_versions(tmp_path: Path, files: dict[str, str], version: str) -> None:
    assert value(metadata(tmp_path, {**BARE, **files}).version) == version


@pytest.mark.parametrize(
    "files",
    [
        {"eng/version.py": "try:\n    from ._version import __version__\nexcept ImportError:\n    __version__ = 'dev'\n"},
        {"eng/version.py": "if True:\n    __version__ = '1.0'\n"},
        {"eng/version.py": "__version__ = get_version()\n"},
        {"eng/version.py": "__version__ = 'dev'\n"},
        {"eng/version.py": "__version__ = '0.0.0'\n"},
        {"eng/version.py": "__version__ = '1.0'\n)("},
        {"pyproject.toml": '[project]\nname = "eng"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'},
        {"setup.cfg": "[options]\nversion = 1.0\n[metadata]\nversion = attr: eng.__version__\n"},
        {"setup.py": "setup(version=get_version())\nother(version='1.0')\nversion = '2.0'\n"},
        {"pyproject.toml": "[project\n"},
        {"pyproject.toml": "a = " + "[" * 5000},
        {"PKG-INFO": "Name: eng\n"},
    ],
)  # fmt: skip
def test_a_version_that_is_not_written_down_is_missing(tmp_path: Path, files: dict[str, str]) -> None:
    got = metadata(tmp_path, {**BARE, **files}).version
    assert isinstance(got, Missing)
    assert got.why.isprintable()


def test_requirements_of_an_installation_are_those_of_its_metadata(tmp_path: Path) -> None:
    info = "Metadata-Version: 2.1\nName: eng\nVersion: 1.2\nRequires-Dist: a>=1\nRequires-Dist: b; extra == 'x'\n"
    got = metadata(
        tmp_path, {**BARE, "eng-1.2.dist-info/METADATA": info, "requirements.txt": "c\n"}, "eng-1.2.dist-info"
    )
    assert value(got.requires) == ("a>=1", "b; extra == 'x'")
    none = metadata(
        tmp_path / "n",
        {**BARE, "eng-1.2.dist-info/METADATA": "Name: eng\nVersion: 1.2\n"},
        "eng-1.2.dist-info",
    )
    assert value(none.requires) == ()
    assert value(none.requires_python) is None


def test_requirements_of_a_project_table(tmp_path: Path) -> None:
    table = """[project]
name = "eng"
requires-python = ">=3.10"
dependencies = ["a>=1"]
[project.optional-dependencies]
srt = ["transformers==4.57.1", "b ; python_version < '3.12'"]
"""
    got = metadata(tmp_path, {**BARE, "pyproject.toml": table})
    assert value(got.requires) == (
        "a>=1", 'transformers==4.57.1; extra == "srt"', "b; (python_version < '3.12') and extra == \"srt\"",
    )  # fmt: skip
    assert value(got.requires_python) == ">=3.10"


def test_requirements_files_are_followed(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "eng"\ndynamic = ["version", "dependencies"]\n',
        "requirements/common.txt": "transformers >= 4.56.0, < 5 # why\n-r more.txt\n--extra-index-url https://x\n",
        "requirements/more.txt": "-r common.txt\ntokenizers \\\n  >= 0.21\n-e .\nhttps://x/y.whl\n",
        "requirements/cuda.txt": "# x\n-r common.txt\ntorch == 2.9.1 ; platform_system == 'Linux'\n",
        "requirements/rocm.txt": "-r common.txt\ntorch == 2.0\n",
    }
    assert value(metadata(tmp_path, {**BARE, **files}).requires) == (
        "torch == 2.9.1 ; platform_system == 'Linux'", "transformers >= 4.56.0, < 5", "tokenizers    >= 0.21",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["requirements-common.txt", "requirements.txt", "requirements-cuda.txt"])
def test_requirements_files_of_every_era(tmp_path: Path, name: str) -> None:
    assert value(metadata(tmp_path, {**BARE, name: "transformers>=4.40\n"}).requires) == (
        "transformers>=4.40",
    )


def test_requirements_of_an_egg(tmp_path: Path) -> None:
    text = "a>=1\n\n[x]\nb\n\n[:python_version < '3.9']\nc\n\n[y:os_name == 'nt']\nd\n"
    files = {"eng.egg-info/PKG-INFO": "Name: eng\nVersion: 1\n", "eng.egg-info/requires.txt": text}
    assert value(metadata(tmp_path, {**BARE, **files}).requires) == (
        "a>=1", 'b; extra == "x"', "c; (python_version < '3.9')", "d; (os_name == 'nt') and extra == \"y\"",
    )  # fmt: skip


def test_requirements_that_nobody_states_are_missing(tmp_path: Path) -> None:
    assert isinstance(metadata(tmp_path, BARE).requires, Missing)


def test_files_included_do_not_lead_out_or_in_circles(tmp_path: Path) -> None:
    lay(tmp_path, {"secret.txt": "evil\n"})
    files = {"requirements.txt": "-r ../secret.txt\n-r /etc/passwd\n-r requirements.txt\na\n"}
    assert value(metadata(tmp_path / "tree", {**BARE, **files}).requires) == ("a",)


def test_pth_lines_are_read_and_not_run() -> None:
    text = "# no\n/opt/eng\n\nimport os; os.system('touch /tmp/x')\nimport __editable___eng_finder; x.install()\nrel\n"
    assert pth(text).folders == ("/opt/eng", "rel")
    assert pth(text).modules == ("os", "__editable___eng_finder")
    assert pth("\x1b[2J\n").folders == ()


def test_finders() -> None:
    assert finder_mapping("MAPPING = {'eng': '/opt/eng/eng', 'x': f()}\n") == {"eng": "/opt/eng/eng"}
    assert finder_mapping("MAPPING: dict[str, str] = {'a': 'b'}") == {"a": "b"}
    assert finder_mapping("MAPPING = dict(a=1)\nMAPPING = (") == {}
    assert finder_mapping("(" * 100_000) == {}


def test_direct_urls_and_egg_links() -> None:
    assert direct_url('{"url": "file:///opt/a%20b", "dir_info": {"editable": true}}') == "/opt/a b"
    for other in ('{"url": "file:///x", "dir_info": {}}', '{"url": "https://x", "dir_info": {"editable": true}}',
                  "[]", "", "[" * 100_000):  # fmt: skip
        assert direct_url(other) is None
    assert egg_link("/opt/eng\n.\n") == "/opt/eng"
    assert egg_link("") is None


def test_folders_named_in_a_site() -> None:
    assert joined("lib/site-packages", "../../src") == "src"
    assert joined("lib/site-packages", "../..") == ""
    assert joined("lib/site-packages", "../../../x") == "../x"
    assert joined("lib/site-packages", "/opt") == "/opt"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    pth(text)
    finder_mapping(text)
    direct_url(text)
    egg_link(text)


def test_core_headers_are_those_of_the_standard_parser(tmp_path: Path) -> None:
    """On whatever is installed here, compared with the packaging library's reading."""
    import sysconfig

    from packaging.metadata import parse_email

    files = sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info/METADATA"))
    assert len(files) > 20
    for path in files:
        data = path.read_bytes()
        raw, _ = parse_email(data)
        mine = core_headers(data)
        assert mine["version"] == [raw["version"]]
        assert mine.get("requires-python", [None]) == [raw.get("requires_python")]
        assert mine.get("requires-dist", []) == raw.get("requires_dist", [])


def test_core_headers_of_folded_and_broken_files() -> None:
    folded = (
        b"Version: 1.0\nRequires-Dist: a\n        >=1\nLicense: x\n |y\nRequires-Dist: b\n\nVersion: 2.0\n"
    )
    assert core_headers(folded) == {"version": ["1.0"], "requires-dist": ["a >=1", "b"], "license": ["x |y"]}
    assert core_headers(b" continued\nnothing\n\xff: \xff\n") == {"\ufffd": ["\ufffd"]}
