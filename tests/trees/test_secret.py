"""What looks like a secret in other people's command lines, and what only sounds like one."""

from __future__ import annotations

import pytest

from canserve.trees.secret import HIDDEN, hidden, hidden_words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("exec vllm serve --api-key abc --port 1", f"exec vllm serve --api-key {HIDDEN} --port 1"),
        ("exec vllm serve --api-key='a b' m", f"exec vllm serve --api-key={HIDDEN} m"),
        ('serve --hf-token "a b" m', f"serve --hf-token {HIDDEN} m"),
        ("VLLM_API_KEY=abc vllm serve", f"VLLM_API_KEY={HIDDEN} vllm serve"),
        ("serve --token x", f"serve --token {HIDDEN}"),
        ("ray://me:word@head:10001", f"ray://{HIDDEN}@head:10001"),
        ("serve hf_abcdefghijklmnop", f"serve {HIDDEN}"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert hidden(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "serve --max-num-batched-tokens 8192 --tokenizer ./t --eos-token-id 3",
        'exec vllm serve --api-key "$VLLM_API_KEY" "$@"',
        "serve --api-key --port 1",
        "http://head:8000/v1",
    ],
)
def test_what_only_sounds_like_one_stays(text: str) -> None:
    assert hidden(text) == text
    assert hidden_words(text.split()) == tuple(text.split())


def test_the_value_may_be_the_next_word() -> None:
    words = ["sh", "-c", "serve --api-key abc", "--password", "word", "--port", "1"]
    shown = ("sh", "-c", f"serve --api-key {HIDDEN}", "--password", HIDDEN, "--port", "1")
    assert hidden_words(words) == shown
