"""Messages of a source: their constant parts, read without running it."""

from __future__ import annotations

from canserve.engines.static.messages import messages

SOURCE = """
import logging, warnings
logger = logging.getLogger(__name__)
def f(a, b):
    logger.warning("low on %s: %d%% left", a, b)
    self.logger.info_once("ready")
    warnings.warn(f"odd {a!r}")
    print.info("no logger")
    text = (
        "split over "
        f"lines with {a}"
    )
    raise ValueError(text)
    raise RuntimeError("one " + str(a) + " two")
    raise KeyError("{} is not {name}".format(a, name=b))
    raise TypeError
    raise OSError(unknown)
"""


def test_every_form_of_a_message() -> None:
    assert [(message.level, message.template) for message in messages(SOURCE)] == [
        ("warning", "low on {}: {}% left"),
        ("info", "ready"),
        ("warning", "odd {}"),
        ("raise", "split over lines with {}"),
        ("raise", "one {} two"),
        ("raise", "{} is not {}"),
    ]


def test_what_cannot_be_parsed_has_none() -> None:
    assert messages("def (") == ()
    assert messages("x = " + "(" * 100_000) == ()
    assert messages("x = " + "-" * 100_000 + "1") == ()
    assert messages("\0") == ()
