"""Messages of C++ sources: what is thrown, aborted with or logged as an error, and nothing else."""

from __future__ import annotations

import pytest

from canserve.engines.cpp.messages import messages


@pytest.mark.parametrize(
    ("call", "level", "template"),
    [
        ('throw std::runtime_error("no such tensor: " + name)', "raise", "no such tensor: {}"),
        (
            'throw std::runtime_error(format("%s: key %s not found", __func__, key.c_str()))',
            "raise",
            "key {} not found",
        ),
        ('throw std::runtime_error("a" "b" + c + "d")', "raise", "ab{}d"),
        ('throw std::invalid_argument(prefix + " is wrong")', "raise", "is wrong"),
        ('GGML_ABORT("not %d of %zu", 1, n)', "raise", "not {} of {}"),
        (
            'LLAMA_LOG_ERROR("%s: failed, %" PRIu64 " bytes\\n", __func__, n + 1, "x")',
            "error",
            "failed, {} bytes",
        ),
        ('SRV_ERR("slot \\"%s\\" is 100%% gone", s)', "error", 'slot "{}" is 100% gone'),
        ('TM_LOG_ERROR("[x] {} is wrong", y)', "error", "[x] {} is wrong"),
    ],
)
def test_what_is_said(call: str, level: str, template: str) -> None:
    (found,) = messages(f'void f() {{\n  // throw E("never");\n  {call};\n}}\n')
    assert (found.level, found.template, found.line) == (level, template, 3)


def test_what_is_not() -> None:
    text = 'void f() { LLAMA_LOG_INFO("hello"); throw; puts("throw E(\\"x\\")"); }\n#if 0\nthrow E("dead");\n#endif\n'
    assert messages(text) == ()
    assert messages('void f() { throw E("open); }') == ()
    assert messages("void f() { throw E(message); }") == ()
