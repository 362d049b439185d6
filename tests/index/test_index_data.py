"""The shipped data: counts that were looked through by hand, its size, and how fast it answers."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

from canserve.facts import Known
from canserve.index import transformers_table
from canserve.index.places import shipped
from canserve.index.shelf import contents
from canserve.subjects.build import TransformersTable

BUDGET = 200_000
"""Bytes that all index data may take in the package."""

COUNTED = {
    # Config types; classes in the auto tables; of these what ``is_backend_compatible`` accepts. The last
    # column was compared with the method's own answers under the really imported library (from 4.51.3 on).
    "4.20.0": (113, 435, 0),
    "4.33.1": (205, 693, 0),
    "4.51.3": (327, 972, 88),
    "4.57.6": (421, 1174, 337),
    "5.0.0rc3": (443, 1178, 526),
    "5.5.4": (499, 1268, 603),
    "5.20.2": (771, 1500, 845),
    "5.24.0": (822, 1571, 905),
}


@pytest.fixture(scope="module")
def table() -> TransformersTable:
    fact = transformers_table()
    assert isinstance(fact, Known)
    return fact.value


@pytest.mark.parametrize("version", COUNTED)
def test_counts(version: str) -> None:
    shelf = shipped("transformers-library")
    at = [row["version"] for row in shelf.releases].index(version)
    classes = {pair.partition(" ")[2] for pair in contents(shelf, "classes")[at]}
    backend = [
        test for test in contents(shelf, "backend")[at] if test.startswith("supports_attention_backend ")
    ]
    assert (len(contents(shelf, "config_types")[at]), len(classes), len(backend)) == COUNTED[version]


def test_withdrawn_releases_are_marked(table: TransformersTable) -> None:
    withdrawn = [version for version in table.versions if table.yanked(version)]
    assert withdrawn == ["4.25.0", "4.46.0", "4.52.0", "4.57.0", "5.10.0"]


def test_nothing_was_left_unread() -> None:
    assert dict(shipped("transformers-library").unread) == {}
    assert all(row["sha256"] and row["date"] for row in shipped("transformers-library").releases)


@pytest.mark.parametrize(
    ("model_type", "first"),
    [
        ("qwen3_5_moe", "5.2.0"),
        ("qwen3_next", "4.57.0"),
        ("deepseek_v3", "4.51.0"),
        ("gpt_oss", "4.55.0"),
        ("glm4_moe_lite", "5.0.0rc3"),
        ("minimax_m2", "5.0.0rc3"),
        ("gemma3", "4.50.0"),
    ],
)
def test_first_release_of_a_type(table: TransformersTable, model_type: str, first: str) -> None:
    assert next(v for v in table.versions if model_type in table.config_types(v)) == first


@pytest.mark.parametrize(
    ("version", "module", "name", "there"),
    [
        ("4.57.6", "transformers", "Jais2Config", False),
        ("5.24.0", "transformers", "Jais2Config", True),
        ("4.57.6", "transformers.models.audioflamingo3", "AudioFlamingo3Config", False),
        ("4.52.4", "transformers.models.whisper.modeling_whisper", "WHISPER_ATTENTION_CLASSES", True),
        ("4.53.2", "transformers.models.whisper.modeling_whisper", "WHISPER_ATTENTION_CLASSES", False),
        ("4.57.6", "transformers", "TokenizersBackend", False),
        ("5.0.0", "transformers", "TokenizersBackend", True),
        ("5.24.0", "transformers", "LlamaTokenizerFast", True),
        ("5.24.0", "transformers.models.llama4.image_processing_llama4_fast", "get_best_fit", True),
        ("4.51.3", "transformers", "Llama4ImageProcessor", False),
        ("4.20.0", "transformers.models.albert.configuration_albert", "AlbertConfig", True),
        ("5.24.0", "transformers.models.afmoe.configuration_afmoe", "AfmoeConfig", True),
        ("5.24.0", "transformers.models.afmoe", "AfmoeConfig", True),
    ],
)
def test_names(table: TransformersTable, version: str, module: str, name: str, there: bool) -> None:
    assert table.has_name(version, module, name) is there


def test_all_data_together_stays_small() -> None:
    folder = files("canserve.index").joinpath("data")
    assert sum(len(entry.read_bytes()) for entry in folder.iterdir()) < BUDGET


@pytest.mark.parametrize(
    ("statement", "seconds"),
    [
        ("transformers_table().value.has_name('5.24.0', 'transformers', 'Qwen2Config')", 0.060),
        ("release_history().releases_with('vllm', 'Qwen2ForCausalLM')", 0.030),
    ],
)
def test_the_first_answer_comes_at_once(statement: str, seconds: float) -> None:
    """Process time in a fresh interpreter, imports aside; the best of three, other programs run too."""
    code = (
        "import time\n"
        "from canserve.index import release_history, transformers_table\n"
        "import canserve.index.history, canserve.index.transformers_releases\n"
        f"start = time.process_time()\n{statement}\nprint(time.process_time() - start)"
    )
    taken = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(3)]
    assert min(taken) < seconds
