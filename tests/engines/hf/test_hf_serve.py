"""``transformers serve``: its flags in three forms, and whether it serves chat."""

from __future__ import annotations

import pytest
from hf_builds import FILES, read

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Flag

TYPER = """
    import enum
    from typing import Annotated
    import typer

    class Mode(str, enum.Enum):
        ON = "on"
        OFF = "off"

    class Serve:
        def __init__(
            self,
            force_model: Annotated[str | None, typer.Argument(help="model")] = None,
            continuous_batching: Annotated[bool, typer.Option(help="x")] = False,
            mode: Annotated[Mode, typer.Option(help="x")] = Mode.ON,
            dtype: Annotated[str | None, typer.Option("--dtype", "-d", help="x")] = "auto",
            eager: Annotated[bool, typer.Option("--eager")] = False,
        ) -> None: ...
"""
FIELDS = """
    @dataclass
    class ServeArguments:
        continuous_batching: bool = field(default=False, metadata={"help": "x"})
        dtype: Optional[str] = field(default="auto", metadata={"help": "x", "choices": ["auto", "float16"]})
        port: int = field(default=8000)
        not_a_field = 3

    CHAT = "/v1/chat/completions"
"""
CALLS = """
    class ServeCommand:
        @staticmethod
        def register_subcommand(parser):
            serve_parser = parser.add_parser("serve")
            serve_parser.add_argument("--task", type=str, choices=get_supported_tasks())
            serve_parser.add_argument("--workers", type=int, default=1)
"""


def flags(files: dict[str, str]) -> dict[str, Flag]:
    found = read({**FILES, **files}).flags
    assert isinstance(found, Known), found
    return dict(found.value)


def test_options_of_typer() -> None:
    found = flags({"cli/serve.py": TYPER})
    assert {name: (flag.kind, flag.choices) for name, flag in found.items()} == {
        "--continuous-batching": ("pair", None),
        "--mode": ("value", ("on", "off")),
        "--dtype": ("value", None),
        "--eager": ("switch", None),
    }
    assert found["--dtype"].aliases == ("-d",)


def test_fields_of_a_dataclass_go_by_both_spellings() -> None:
    found = flags({"commands/serving.py": FIELDS})
    assert set(found) == {"--continuous-batching", "--dtype", "--port"}
    assert found["--continuous-batching"].aliases == ("--continuous_batching",)
    assert found["--continuous-batching"].kind is None  # "true" may follow it
    assert found["--dtype"].choices == ("auto", "float16")


def test_calls_of_argparse() -> None:
    found = flags({"commands/serving.py": CALLS})
    assert {name: flag.choices for name, flag in found.items()} == {"--task": None, "--workers": None}


def test_a_release_without_a_server_says_so() -> None:
    build = read(FILES)
    assert isinstance(build.flags, Missing)
    assert build.flags.cause is Cause.UNAVAILABLE
    assert isinstance(build.launchers, Known)
    assert build.launchers.value == ()


@pytest.mark.parametrize(
    "files, launchers",
    [
        ({"commands/serving.py": CALLS}, ()),  # pipelines, over a protocol of its own
        ({"commands/serving.py": FIELDS}, ("serve",)),
        ({"cli/serve.py": TYPER, "cli/serving/server.py": "@app.post('/v1/chat/completions')\n"}, ("serve",)),
    ],
)
def test_serving_means_the_chat_protocol(files: dict[str, str], launchers: tuple[str, ...]) -> None:
    found = read({**FILES, **files}).launchers
    assert isinstance(found, Known)
    assert found.value == launchers


def test_a_server_without_readable_flags_is_an_unknown_form() -> None:
    found = read({**FILES, "cli/serve.py": "app = make()\n"}).flags
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNREADABLE
