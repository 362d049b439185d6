"""pip's configuration: the same answer as pip's own, and no secret in sight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from canserve.facts import Cause, Missing
from canserve.trees.index.default_index import _from_help, default_index
from canserve.trees.index.pip_config import PipConfig, config_files, pip_config
from canserve.trees.secret import Secret, shown, without_login

INDEX = {"PIP_INDEX_URL": "https://index.invalid/simple"}


def config(env: dict[str, str], *files: Path) -> PipConfig:
    got = pip_config(env, files)
    assert isinstance(got, PipConfig)
    return got


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_later_files_win_and_variables_win_over_all(tmp_path: Path) -> None:
    one = written(
        tmp_path, "one", "[global]\nindex-url = https://one.invalid/simple\ntimeout = 5\ncert = /one.pem\n"
    )
    two = written(tmp_path, "two", "[global]\nindex_url = https://two.invalid/simple\n")
    assert config({}, one, two).indexes == ("https://two.invalid/simple",)
    got = config({**INDEX, "PIP_DEFAULT_TIMEOUT": "7"}, one, two)
    assert got.indexes == ("https://index.invalid/simple",)
    assert (got.settings.timeout, got.settings.certificates) == (7.0, "/one.pem")


def test_sections_of_commands_win_over_global(tmp_path: Path) -> None:
    text = "[install]\nindex-url = https://install.invalid/\n[global]\nindex-url = https://global.invalid/\n"
    assert config({}, written(tmp_path, "c", text)).indexes == ("https://install.invalid/",)
    text = (
        "[freeze]\nindex-url = https://freeze.invalid/\n[download]\nindex-url = https://download.invalid/\n"
    )
    assert config({}, written(tmp_path, "c", text)).indexes == ("https://download.invalid/",)


def test_lists_have_spaces_and_lines(tmp_path: Path) -> None:
    text = """[global]
index-url = https://main.invalid/simple
extra-index-url =
    https://a.invalid/simple
    https://b.invalid/simple  https://main.invalid/simple
find-links = ./wheels file:///more
trusted-host = a.invalid b.invalid:8080
"""
    got = config({}, written(tmp_path, "c", text))
    assert got.indexes == (
        "https://main.invalid/simple", "https://a.invalid/simple", "https://b.invalid/simple",
    )  # fmt: skip
    assert got.find_links == ("./wheels", "file:///more")
    assert got.settings.trusted == {"a.invalid", "b.invalid:8080"}


def test_no_index_leaves_the_folders() -> None:
    got = config({**INDEX, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"})
    assert (got.indexes, got.find_links) == ((), ("/wheels",))
    assert config({**INDEX, "PIP_NO_INDEX": "false"}).indexes


def test_empty_variables_and_nonsense_do_not_count() -> None:
    got = config({**INDEX, "PIP_TIMEOUT": "soon", "PIP_RETRIES": "-4", "PIP_CERT": "", "PIP_PROXY": ""})
    assert (got.settings.timeout, got.settings.retries) == (15.0, 4)
    assert got.settings.certificates is None
    assert got.settings.proxy is None


def test_certificates_that_other_tools_use_count_too() -> None:
    assert config({**INDEX, "REQUESTS_CA_BUNDLE": "/r.pem"}).settings.certificates == "/r.pem"
    assert config({**INDEX, "CURL_CA_BUNDLE": "/c.pem"}).settings.certificates == "/c.pem"
    both = {**INDEX, "REQUESTS_CA_BUNDLE": "/r.pem", "PIP_CERT": "/p.pem"}
    assert config(both).settings.certificates == "/p.pem"


def test_logins_are_taken_out_of_addresses() -> None:
    got = config(
        {"PIP_INDEX_URL": "https://me:s%40cret@index.invalid:8443/simple?x=1", "PIP_PROXY": "http://u:pw@p"}
    )
    assert got.indexes == ("https://index.invalid:8443/simple?x=1",)
    login = got.settings.login("https://index.invalid:8443/simple/x/")
    assert login is not None
    assert [part.reveal() for part in login] == ["me", "s@cret"]
    assert got.settings.login("https://index.invalid/simple/x/") is None
    assert "cret" not in repr(got)
    assert "pw" not in repr(got)


@pytest.mark.parametrize("text", ["index-url = x", "[global\n", "[global]\n  = \n[global]\nindex-url"])
def test_a_file_that_pip_could_not_read_is_missing_not_ignored(tmp_path: Path, text: str) -> None:
    got = pip_config(INDEX, [written(tmp_path, "c", text)])
    assert isinstance(got, Missing)
    assert got.cause is Cause.UNREADABLE


def test_a_file_that_is_not_text_or_too_large_is_missing(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"[global]\nindex-url = \xff\xfe\n")
    assert isinstance(pip_config({}, [tmp_path / "c"]), Missing)
    assert isinstance(pip_config({}, [written(tmp_path, "c", "#" * (2 << 20))]), Missing)


def test_files_that_are_not_there_are_nothing(tmp_path: Path) -> None:
    assert config(INDEX, tmp_path / "none", tmp_path).indexes == ("https://index.invalid/simple",)


def test_the_files_are_those_that_pip_reads(tmp_path: Path) -> None:
    """Compared with ``pip config debug``, which names each file."""
    env = {**os.environ, "PIP_CONFIG_FILE": str(tmp_path / "own.conf")}
    for named in (True, False):
        if named:
            written(tmp_path, "own.conf", "[global]\n")
        else:
            env.pop("PIP_CONFIG_FILE")
        command = [sys.executable, "-m", "pip", "config", "debug"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env)
        said = [
            line.strip().split(", exists:")[0] for line in done.stdout.splitlines() if ", exists:" in line
        ]
        mine = [str(path) for path in config_files(env)]
        assert set(mine) <= set(said)
        exist = {path for path in said if Path(path).is_file()}
        skipped = (
            {str(Path.home() / ".pip" / "pip.conf"), str(Path.home() / ".config/pip/pip.conf")}
            if named
            else set()
        )
        assert exist - skipped <= set(mine)


def test_nothing_is_read_where_pip_is_told_so() -> None:
    assert config_files({"PIP_CONFIG_FILE": os.devnull}) == []


def test_the_default_is_that_of_the_installed_pip() -> None:
    """Asked in two ways, which must agree; no address stands in the code."""
    default = default_index()
    assert isinstance(default, str)
    assert default.startswith("https://")
    assert _from_help(sys.executable) == default
    assert _from_help("/nonexistent/python") is None
    assert config({}).indexes == (default,)


def test_a_secret_does_not_show() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {secret:>10} {[secret]} {{'a': {secret!r}}}"
    assert secret.reveal() == "hunter2"
    assert secret == Secret("hunter2")
    assert shown("https://u:p@h.invalid/x?sig=abc#sha256=1") == "https://h.invalid/x"
    assert without_login("http://[bad")[1] is None
    import pickle

    with pytest.raises(TypeError):
        pickle.dumps(secret)
