"""Real releases, read whole through the package index: what was counted in each, and nothing left unread.

Every step up or down has its rows in the release's own files: flags fell when they moved into one
``--speculative-config`` (0.8.5), names were dropped in 0.24.0 and 0.29.0, config shims in 0.33.0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from canserve.engines.vllm import VLLM
from canserve.facts import Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, ModelClass, Want

pytestmark = [pytest.mark.network, pytest.mark.slow]

COUNTED = """
    release  arch  pp multi hybrid needs outside drop else shims quant minima cache load reas tools spec drafts flags attn rules
    0.1.0       4   0     0      0     4       1    0    0     0     0      0     1    1    0     0    0      0    17    0     0
    0.1.7      16   0     0      0    10       1    0    0     0     0      0     1    5    0     0    0      0    19    0     0
    0.2.4      24   0     0      0    12       2    0    0     0     2      2     1    5    0     0    0      0    35    0     0
    0.2.7      25   0     0      0    13       2    0    0     0     3      3     1    5    0     0    0      0    39    0     0
    0.4.0      40   0     0      0    18       3    0    0     0     4      4     2    5    0     0    0      0    69    0     0
    0.4.3      45   0     0      0    19       2    0    0     0    10     10     4    7    0     0    0      0    86    4     0
    0.5.5      64   0    10      0    53      13    0    0    12    17     16     4    9    0     0    3      0   103    4     0
    0.6.3      81  70    20      0    69       9    0    0    17    19     17     4   10    0     4    3      0   113    5     0
    0.6.6     106  90    25      2    83      10    0    0    19    20     18     4   11    0     8    3      0   126    6     0
    0.7.3     120  99    29      3   118      11    0    0    21    23     21     4   11    1     8    4      2   136    8     0
    0.8.2     127 105    32      4   128      13    0    0    21    24     22     4   12    1     8    4      2   146   10     0
    0.8.5     146 115    40      6   158      11    0    0    22    27     25     4   13    2    10   11      2   137   10     0
    0.9.2     169 131    47     10   180      12    0    0    23    29     27     4   13    3    14   15      3   164   16     0
    0.10.0    177 137    51     12   181      12    1    0    25    30     27     5   13    6    18   15      4   158   16     0
    0.10.2    210 164    68     15   229      14    1    0    18    28     26     5   13    8    22   21      8   176   21     0
    0.11.2    238 191    78     16   230      15    9    0    23    29     27     7   13   15    27   30     12   196   13    12
    0.13.0    247 199    81     16   237      16   10    0    26    31     29     7   14   16    29   32     13   195   12    11
    0.14.1    262 205    87     17   245      17   10    0    27    29     28     7   14   16    31   34     15   204   13    12
    0.17.1    305 236   113     21   253      17   10    0    37    23     23     7   14   18    32   47     23   222   14    13
    0.19.1    323 247   120     24   265      18    6    4    39    23     23     8   15   19    34   50     24   231   14    13
    0.20.2    344 258   129     26   271      17    6    4    44    29     29    15   15   22    37   58     28   239   15    14
    0.22.1    362 270   137     28   274      18    6    4    51    30     30    15   16   25    42   68     33   261   15    14
    0.24.0    359 267   142     24   281      17   21    4    54    30     30    15   15   27    43   72     41   266   20    19
    0.26.0    362 262   141     24   261      20   35    4    60    31     31    16   15   28    44   81     47   274   22    21
    0.29.0    376 267   144     31   252      20   50    4    66    30     30    17   14   32    49   98     58   292   24    23
    0.33.0    415 296   162     39   297      19   50    5    53    30     30    22   15   42    58  106     65   320   34    33
"""
"""``needs``: names taken from transformers; ``minima``: methods whose minimum capability is read (the others
raise, as they are not made for CUDA); ``rules``: attention back ends whose capabilities are read (the other
one names a file that the release does not contain)."""


def counts() -> dict[str, list[int]]:
    _, *lines = COUNTED.strip().splitlines()
    return {line.split()[0]: [int(word) for word in line.split()[1:]] for line in lines}


def whole(version: str) -> Build:
    build = read_build(f"vllm=={version}", Want.everything(), BuildOptions(engines=(VLLM(),))).build
    assert isinstance(build, Build), build
    return build


def classes(build: Build) -> Iterator[ModelClass]:
    for name, fact in build.classes.items():
        assert isinstance(fact, Known) and fact.value is not None, (name, fact)
        yield fact.value


def size(build: Build, name: str) -> int:
    fact = getattr(build, name)
    assert isinstance(fact, Known), (name, fact)
    return len(fact.value)


@pytest.mark.parametrize("version", counts())
def test_counts_of_a_release(version: str) -> None:
    build = whole(version)
    read = list(classes(build))
    assert [found.name for found in read if found.broken] == []
    assert {key for found in read for key, value in found.interfaces.items() if value is None} == set()
    assert isinstance(build.quantization, Known) and isinstance(build.attention_backends, Known)
    methods, backends = build.quantization.value.values(), build.attention_backends.value.values()
    able = [
        sum(found.interfaces.get(key) is True for found in read)
        for key in ("supports_pp", "supports_multimodal", "is_hybrid")
    ]
    assert [
        size(build, "registry"),
        *able,
        len({(need.module, need.name) for found in read for need in found.imports}),
        len({need.module for found in read for need in found.outside}),
        *(size(build, name) for name in ("dropped", "elsewhere", "config_shims", "quantization")),
        sum(isinstance(method.min_capability, Known) for method in methods),
        *(size(build, name) for name in ("kv_cache_dtypes", "load_formats", "reasoning_parsers")),
        *(size(build, name) for name in ("tool_parsers", "speculative", "draft_classes", "flags")),
        len(backends),
        sum(isinstance(backend.capabilities, Known) for backend in backends),
    ] == counts()[version]


OTHERS = {
    "auto_map_rule", "converter", "cuda_needed", "engine_flags", "gguf_projectors", "gguf_types", "gguf_vocabularies",
    "gpu_code", "kv_cache_engines", "libc_needed", "literal_methods", "moe_backends", "plain_config", "rpc_worker",
    "trusts_code",
}  # fmt: skip
"""Facts that this engine's source does not hold (of compiled files, of engines made otherwise), and the kernels for fused
experts, which are read where one is named."""


def test_no_fact_of_a_release_is_left_unread() -> None:
    build = whole("0.17.1")
    every = {field.name for field in dataclasses.fields(build)}
    of_engine = every - {"identity", "transformers", "torch"} - OTHERS
    assert {name for name in of_engine if isinstance(getattr(build, name), Missing)} == set()


def test_a_release_with_a_module_that_cannot_be_imported() -> None:
    build = read_build("vllm==0.19.0", Want(None), BuildOptions(engines=(VLLM(),))).build
    assert isinstance(build, Build)
    assert {name.name: name.broken for name in classes(build) if name.broken} == {
        "MusicFlamingoForConditionalGeneration": (
            "vllm.multimodal.inputs.MultiModalDataDict (vllm/model_executor/models/musicflamingo.py:36)",
        )
    }
