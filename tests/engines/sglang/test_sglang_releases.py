"""Real releases, read from the package index: what was counted in each, and that none is unreadable.

The counts were looked through by hand: every step up or down has its classes, parsers or flags in the
release's own files. A count that changes without the release changing is a fault of the reader.
"""

from __future__ import annotations

import pytest

from canserve.engines.sglang import SGLang
from canserve.facts import Cause, Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from releases import counts_in, releases_of, size

pytestmark = [pytest.mark.network, pytest.mark.slow]

OPTIONS = BuildOptions(engines=(SGLang(),))
COUNTED = """
    release        arch    pp multi hybrid shims quant cache reas tools spec drafts flags attn
    0.1.3             4     0     0     0     0     1     1     0     0     0     0    15     -
    0.1.9             5     0     0     0     0     1     1     0     0     0     0    18     -
    0.1.10            6     0     0     0     0     1     1     0     0     0     0    19     -
    0.1.16           12     0     0     0     0     3     1     0     0     0     0    28     -
    0.1.18           19     0     0     0     0     -     1     0     0     0     0    35     -
    0.1.24           25     0     0     0     0    11     1     0     0     0     0    39     -
    0.2.12           28     0     0     0     0     -     1     0     0     0     0    47     -
    0.2.15           30     0     4     0     3     -     2     0     0     0     0    52     -
    0.3.1.post3      36     0     4     0     3    17     2     0     0     0     0    59     2
    0.3.6            46     0     6     0     4    16     2     0     0     0     0    79     2
    0.4.0.post1      47     0     6     0     4    16     2     0     0     0     0    84     3
    0.4.1.post5      50     0     6     0     4    17     2     0     0     2     0    88     3
    0.4.3.post3      57     0     8     0     4    19     3     1     3     5     0   108     3
    0.4.4.post2      64     0    12     0     5    20     3     1     3     7     0   114     4
    0.4.6.post1      72     0    14     0     5    22     3     2     4     7     0   124     6
    0.4.7            81    13    19     0     7    23     3     2     5     8     2   150     8
    0.4.10.post2     99    14    24     0     8    25     3     6     9     9     3   185    10
    0.5.1.post2     108    19    26     0     8    27     3     8    10    10     4   199    13
    0.5.2           113    20    26     2    10    27     3     8    11    13     6   210    14
    0.5.4           130    26    34     3    16    28     5     8    13    15     8   273    17
    0.5.6.post1     144    36    38     7    20    21     6    11    15    16     8   290    17
    0.5.7           149    41    41     7    20    21     6    13    18    17     9   313    17
    0.5.8           154    43    41     8    21    24     6    13    19    18    11   328    17
    0.5.9           178    55    49    13    29    25     6    14    23    22    18   331    17
    0.5.10          193    71    51    13    30    26     6    16    23    22    18   354    17
    0.5.11          204    75    57    14    33    26     6    18    25    26    20   374    17
    0.5.15          225    85    64    17    46    30     6    23    31    32    26   437    22
    0.5.17          241    94    66    20    56    29     9    26    34    37    29   474    23
    0.5.20          273   111    73    25    80    28     9    32    40    44    35   494    24
    0.5.23          290   124    79    25    94    29     8    37    45    50    37   531    25
"""
"""``-``: the release leaves it to its vLLM, or states it nowhere."""


def counts() -> dict[str, dict[str, str]]:
    return counts_in(COUNTED)


def built(target: str, want: Want) -> Build:
    found = read_build(target, want, OPTIONS).build
    assert isinstance(found, Build), found
    return found


@pytest.mark.parametrize("release", counts())
def test_counts_of_a_release(release: str) -> None:
    build = built(f"sglang=={release}", Want.everything())
    classes = [fact.value for fact in build.classes.values() if isinstance(fact, Known) and fact.value]
    assert len(classes) == len(build.classes)
    assert [found for found in classes if found.broken] == []

    def able(interface: str) -> str:
        return str(sum(found.interfaces[interface] is True for found in classes))

    assert {
        "release": release,
        "arch": size(build.registry),
        "pp": able("supports_pp"),
        "multi": able("supports_multimodal"),
        "hybrid": able("is_hybrid"),
        "shims": size(build.config_shims),
        "quant": size(build.quantization),
        "cache": size(build.kv_cache_dtypes),
        "reas": size(build.reasoning_parsers),
        "tools": size(build.tool_parsers),
        "spec": size(build.speculative),
        "drafts": size(build.draft_classes),
        "flags": size(build.flags),
        "attn": size(build.attention_backends),
    } == counts()[release]


def test_every_release_on_the_index_is_read() -> None:
    """No fact of any release has a form that is not understood, and no registry shrinks by a tenth."""
    before = 0
    releases = releases_of("sglang", OPTIONS.cache)
    assert len(releases) >= 160
    for release in releases:
        build = built(f"sglang=={release}", Want(flags=True))
        for name in READ:
            fact = getattr(build, name)
            assert isinstance(fact, Known) or fact.cause is Cause.UNAVAILABLE, (release, name, fact)
        assert isinstance(build.registry, Known)
        assert len(build.registry.value) >= 0.9 * before, release
        before = len(build.registry.value)


READ = (
    "registry",
    "plugins",
    "fallback",
    "config_shims",
    "config_fixups",
    "architecture_types",
    "architecture_rewrites",
    "quantization",
    "vendor_quantization",
    "kv_cache_dtypes",
    "reasoning_parsers",
    "tool_parsers",
    "speculative",
    "draft_classes",
    "flags",
    "flag_syntax",
    "launchers",
    "load_formats",
    "gguf_architectures",
)


@pytest.mark.parametrize(
    ("release", "transformers"),
    [
        ("0.4.0", ""),  # left to vLLM
        ("0.4.7", "==4.52.3"),  # in an extra of an extra
        ("0.5.6.post1", "==5.0.0rc0"),
        ("0.5.9", "==4.57.1"),
        ("0.5.23", "==5.19.0"),
    ],
)
def test_the_transformers_that_a_release_demands(release: str, transformers: str) -> None:
    assert built(f"sglang=={release}", Want()).transformers.requirement == Known(
        transformers, built(f"sglang=={release}", Want()).transformers.requirement.evidence
    )


@pytest.mark.parametrize(
    ("architecture", "first", "before"),
    [
        ("Qwen3_5MoeForConditionalGeneration", "0.5.9", "0.5.8.post1"),
        ("Glm4MoeLiteForCausalLM", "0.5.8", "0.5.7"),
        ("DeepseekV3ForCausalLM", "0.4.1", "0.4.0.post2"),
        ("GptOssForCausalLM", "0.5.0rc0", "0.4.10.post2"),
        ("KimiLinearForCausalLM", "0.5.4.post2", "0.5.4.post1"),
        ("MiniMaxM2ForCausalLM", "0.5.4.post1", "0.5.4"),
    ],
)
def test_the_first_release_that_lists_an_architecture(architecture: str, first: str, before: str) -> None:
    for release, there in ((first, True), (before, False)):
        registry = built(f"sglang=={release}", Want(frozenset({architecture}))).registry
        assert isinstance(registry, Known)
        assert (architecture in registry.value) is there
