"""A build is hostile text: whatever stands in it, reading ends in facts, never in an exception."""

from __future__ import annotations

import sys
from textwrap import dedent

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm_builds import BUILD, REGISTRY, built

from canserve.facts import Known, Missing

QUANTIZATION = "vllm/model_executor/layers/quantization/__init__.py"
FILES = {
    **{path: dedent(text) for path, text in BUILD.items()},
    QUANTIZATION: "QUANTIZATION_METHODS = ['fp8']\ndef get_quantization_config(q):\n    return {'fp8': A}[q]\nclass A: ...",
    "vllm/v1/attention/backends/registry.py": "class AttentionBackendEnum(Enum):\n    A = 'vllm.v1.a.A'",
    "vllm/reasoning/__init__.py": "_REASONING_PARSERS_TO_REGISTER = {'a': ('b', 'C')}",
    "vllm/config/cache.py": "CacheDType = Literal['auto']",
    "vllm/plugins/__init__.py": "DEFAULT_PLUGINS_GROUP = 'vllm.general_plugins'",
    "more.dist-info/entry_points.txt": "[vllm.general_plugins]\nx = y:z",
}
ODD_LINES = st.sampled_from(
    [
        "from . import *",
        "x = {**x}",
        "class A(A, *B, metaclass=C): ...",
        "def __getattr__(name): return __getattr__(name)",
        "_VLLM_MODELS = {1: 2, None: (), 'a': ('b',)}",
        "_VLLM_MODELS.update(_VLLM_MODELS)",
        "QUANTIZATION_METHODS = [1, None, {}, ['a']]",
        "_CONFIG_REGISTRY = LazyConfigDict(**{1: 2}, **x)",
        "CacheDType = Literal[CacheDType, CacheDType]",
        "class _ModelInfo(_ModelInfo):\n    from_model_cls = lambda model: model(model)",
        "@f(*g)\nclass LlamaForCausalLM(LlamaForCausalLM): ...",
        "supports_pp = supports_pp",
        "for _VLLM_MODELS in _VLLM_MODELS: pass",
        "\x00",
        "\ufeff",
        "é\u202e",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_nothing_that_a_file_says_raises(data: st.DataObject) -> None:
    files = dict(FILES)
    for path in data.draw(st.lists(st.sampled_from(sorted(FILES)), min_size=1, max_size=4)):
        lines = files[path].split("\n")
        cut = data.draw(st.integers(0, len(lines)))
        odd = data.draw(st.lists(ODD_LINES | st.text(max_size=40), max_size=4))
        files[path] = "\n".join([*lines[:cut], *odd, *(lines[cut:] if data.draw(st.booleans()) else [])])
    build = built(files)
    assert isinstance(build.registry, Known | Missing)
    assert not isinstance(build.registry, Known) or build.registry.value, "an empty table is never read"


def test_absurdly_nested_files() -> None:
    for text in ("x = " + "(" * 5000 + ")" * 5000, "if a:\n" * 99, "[" * 100000, "-" * 20000 + "1"):
        build = built({REGISTRY: text})
        assert isinstance(build.registry, Missing)


WATCHED = ("exec", "import", "open", "os.", "socket.", "subprocess.", "ctypes.", "shutil.", "urllib.")
EVENTS: list[str] = []
WATCHING = False


def _watch(event: str, args: tuple[object, ...]) -> None:
    if WATCHING and event.startswith(WATCHED):
        EVENTS.append(f"{event} {args!r}"[:200])


def test_nothing_is_run_imported_or_opened() -> None:
    global WATCHING  # noqa: PLW0603 - an audit hook stays for the life of the process
    evil = "import os\nos.system('touch /nowhere')\nopen('/nowhere', 'w')\n__import__('socket')\n"
    files = {path: evil + text for path, text in FILES.items()}
    built(files)  # the reader's own lazy imports are done
    sys.addaudithook(_watch)
    WATCHING = True
    try:
        build = built(files)
    finally:
        WATCHING = False
    assert isinstance(build.registry, Known)
    assert EVENTS == []
