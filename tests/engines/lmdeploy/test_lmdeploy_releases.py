"""Real releases, read from the package index: what was counted in each, and that none is unreadable.

The counts were looked through by hand: every step up or down has its classes, parsers or flags in the
release's own files. A count that changes without the release changing is a fault of the reader.
"""

from __future__ import annotations

import pytest

from canserve.engines.lmdeploy import LMDeploy
from canserve.facts import Cause, Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from releases import counts_in, releases_of, size

pytestmark = [pytest.mark.network, pytest.mark.slow]

OPTIONS = BuildOptions(engines=(LMDeploy(),))
COUNTED = """
    release      arch pytorch turbomind multi dropped shims quant cache reas tools spec drafts flags launch
    0.1.0           -       -         -     -       0     0     -     -    0     0    -      0     -      -
    0.2.0           -       -         -     -       0     0     -     2    0     0    -      0    19      1
    0.2.4           -       -         -     -       0     0     -     2    0     0    -      0    21      1
    0.2.5          14      11         7     0       0     0     -     2    0     0    0      0    21      1
    0.3.0          18      14         9     1       0     0     -     2    0     0    0      0    24      1
    0.4.2          23      15        14     5       0     0     -     3    0     0    0      0    28      1
    0.5.0          29      22        18    10       0     0     -     3    0     0    0      0    30      1
    0.5.3          30      23        18    10       0     0     -     3    0     0    0      0    30      1
    0.6.0a0        31      24        18    10       0     0     -     3    0     0    0      0    29      1
    0.6.0          33      26        18    11       0     0     3     3    0     0    0      0    29      1
    0.6.3          38      30        22    14       0     0     3     3    0     0    0      0    34      1
    0.6.5          38      29        23    14       0     0     3     3    0     0    0      0    34      1
    0.7.0.post1    40      31        24    14       0     0     4     3    0     0    0      0    34      1
    0.7.2          46      37        24    16       0     0     4     3    2     3    0      0    38      2
    0.7.3          49      40        26    17       0     0     4     3    2     3    0      0    38      2
    0.8.0          46      38        25    15       0     0     4     3    2     3    0      0    42      2
    0.9.0          47      39        26    16       0     0     4     3    2     3    0      0    47      2
    0.9.2          47      40        28    17       0     0     4     3    3     6    0      0    50      2
    0.10.0         50      43        29    18       0     0     5     3    3     6    0      0    51      2
    0.10.2         53      46        29    18       0     0     5     3    3     6    0      0    55      2
    0.11.0         59      52        29    20       0     0     5     3    3     6    6      3    62      2
    0.11.1         60      53        29    20       0     1     5     3    3     6    6      4    62      2
    0.12.0         60      53        29    20       0     1     6     3    3     6    6      4    64      3
    0.12.2         66      59        32    23       0     1     6     3    3     7    7      4    64      3
    0.12.3         67      60        32    21       0     1     6     3    3     7    9      6    64      3
    0.13.0         69      62        32    25       0     1     6     4    5     9    9      7    66      3
    0.14.0         63      63        16    22       0     1     6     6    5     9    9      7    69      3
    0.15.0         59      59        16    22       7     2     6     6    8    12    9      7    71      3
    0.16.0         65      65        19    24       7     2     6     6    8    12   12     10    71      3
    0.17.0         68      68        19    26       7     1     6     6    8    14   13      9    73      3
    0.18.0         70      70        19    26       7     1     6     6    8    13   16     10    77      3
"""
"""``-``: the release states it nowhere: the oldest ones go by a name that the user gives."""
FIRST = """
    Qwen3_5MoeForConditionalGeneration  0.12.2  0.12.2
    Qwen3MoeForCausalLM                 0.7.3   0.7.3
    DeepseekV3ForCausalLM               0.7.0   -
    GptOssForCausalLM                   0.10.0  0.10.0
    Glm4MoeForCausalLM                  0.10.1  -
    Glm4MoeLiteForCausalLM              0.12.1  0.12.2
    Gemma3ForConditionalGeneration      0.7.2   -
    Qwen3NextForCausalLM                0.11.0  -
    KimiLinearForCausalLM               -       -
    MiniMaxM2ForCausalLM                -       -
"""
"""First release that lists the class: for PyTorch, for TurboMind."""
READ = (
    "registry", "dropped", "fallback", "config_shims", "plain_config", "trusts_code", "auto_map_rule",
    "quantization", "kv_cache_dtypes", "reasoning_parsers", "tool_parsers", "speculative", "draft_classes",
    "flags", "flag_syntax", "launchers", "load_formats",
)  # fmt: skip


def counts() -> dict[str, dict[str, str]]:
    return counts_in(COUNTED)


def built(release: str, want: Want) -> Build:
    found = read_build(f"lmdeploy=={release}", want, OPTIONS).build
    assert isinstance(found, Build), found
    return found


@pytest.mark.parametrize("release", counts())
def test_counts_of_a_release(release: str) -> None:
    build = built(release, Want.everything())
    rows = build.registry.value if isinstance(build.registry, Known) else None
    classes = [fact.value for fact in build.classes.values() if isinstance(fact, Known) and fact.value]
    assert len(classes) == len(build.classes)
    assert [found for found in classes if found.broken] == []

    def served(backend: str) -> str:
        return "-" if rows is None else str(sum(backend in row.backends for row in rows.values()))

    seeing = sum(found.interfaces["supports_multimodal"] is True for found in classes)
    assert {
        "release": release,
        "arch": size(build.registry),
        "pytorch": served("pytorch"),
        "turbomind": served("turbomind"),
        "multi": "-" if rows is None else str(seeing),
        "dropped": size(build.dropped),
        "shims": size(build.config_shims),
        "quant": size(build.quantization),
        "cache": size(build.kv_cache_dtypes),
        "reas": size(build.reasoning_parsers),
        "tools": size(build.tool_parsers),
        "spec": size(build.speculative),
        "drafts": size(build.draft_classes),
        "flags": size(build.flags),
        "launch": size(build.launchers),
    } == counts()[release]


def test_every_release_on_the_index_is_read_and_first_releases_are_known() -> None:
    """No fact of any release has a form that is not understood, and no registry shrinks by a tenth.

    0.14.0 and 0.15.0 dropped families (TurboMind's rewrite; REMOVED_MODEL_MAP), 6 and 4 rows net.
    """
    first: dict[tuple[str, str], str] = {}
    before = 0
    releases = releases_of("lmdeploy", OPTIONS.cache)
    assert len(releases) >= 58
    for release in releases:
        build = built(release, Want(flags=True))
        for name in READ:
            fact = getattr(build, name)
            assert isinstance(fact, Known) or fact.cause is Cause.UNAVAILABLE, (release, name, fact)
        rows = build.registry.value if isinstance(build.registry, Known) else {}
        assert len(rows) >= 0.9 * before, release
        before = len(rows)
        for row in rows.values():
            for backend in row.backends:
                first.setdefault((row.architecture, backend), release)
    told = {name: (one, other) for name, one, other in map(str.split, FIRST.strip().splitlines())}
    assert {
        name: (first.get((name, "pytorch"), "-"), first.get((name, "turbomind"), "-")) for name in told
    } == told
