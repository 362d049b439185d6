"""Real releases, read from the package index: what was counted in each.

The classes of 4.57.6 (218) and 5.20.2 (309) and their quantizers were compared with the really imported tables
(``transformers.models.auto.modeling_auto``, ``quantizers.auto``): equal. So were the flags of 5.20.2 with those
that ``transformers serve --help`` prints, but for four that huggingface_hub adds to every command.
"""

from __future__ import annotations

import pytest

from canserve.engines.hf import HuggingFace
from canserve.facts import Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want

pytestmark = [pytest.mark.network, pytest.mark.slow]

OPTIONS = BuildOptions(engines=(HuggingFace(),))
WANT = Want(frozenset({"LlamaForCausalLM"}), quantization=None, flags=True)
COUNTED = """
    4.0.0   25   0   .                              8   0  pt
    4.23.1  65   -   -                              8   0  safetensors+pt
    4.30.2  83   -   -                              8   0  safetensors+pt
    4.37.2  103  -   -                              8   0  safetensors+pt
    4.38.2  105  6   .                              8   0  safetensors+pt
    4.41.2  120  10  .                              8   0  safetensors+pt+gguf
    4.44.2  126  11  fbgemm_fp8:90                  8   0  safetensors+pt+gguf
    4.49.0  156  18  fbgemm_fp8:90,fp8:90           8   0  safetensors+pt+gguf
    4.51.3  168  19  fbgemm_fp8:90,fp8:89           8   0  safetensors+pt+gguf
    4.53.3  184  20  fbgemm_fp8:90,fp8:89           8   0  safetensors+pt+gguf
    4.54.1  198  21  fbgemm_fp8:90,fp8:89           15  1  safetensors+pt+gguf
    4.55.0  200  22  fbgemm_fp8:90,fp8:89,mxfp4:90  16  1  safetensors+pt+gguf
    4.55.4  200  22  fbgemm_fp8:90,fp8:89           16  1  safetensors+pt+gguf
    4.57.6  218  22  fbgemm_fp8:90,fp8:89           18  1  safetensors+pt+gguf
    5.0.0   230  24  fbgemm_fp8:90                  15  1  safetensors+pt+gguf
    5.3.0   243  27  fbgemm_fp8:90                  15  1  safetensors+pt+gguf
    5.10.2  269  27  fbgemm_fp8:90                  21  1  safetensors+pt+gguf
    5.16.0  293  30  fbgemm_fp8:90                  21  1  safetensors+pt+gguf
    5.20.2  309  30  fbgemm_fp8:90                  22  1  safetensors+pt+gguf
    5.24.0  328  30  fbgemm_fp8:90                  22  1  safetensors+pt+gguf
"""
"""Release, classes, quantization methods, their minima, flags, launchers, weight files; ``-``: not stated."""


def built(release: str) -> Build:
    found = read_build(f"transformers=={release}", WANT, OPTIONS).build
    assert isinstance(found, Build), found
    return found


def minima(build: Build) -> str:
    if isinstance(build.quantization, Missing):
        return "-"
    found = sorted(build.quantization.value.items())
    known = [(name, one.min_capability.value) for name, one in found if isinstance(one.min_capability, Known)]
    return ",".join(f"{name}:{least}" for name, least in known if least) or "."


@pytest.mark.parametrize("line", COUNTED.strip().splitlines(), ids=lambda line: line.split()[0])
def test_counts_of_a_release(line: str) -> None:
    release, *expected = line.split()
    build = built(release)
    assert isinstance(build.registry, Known)
    assert isinstance(build.flags, Known)
    assert isinstance(build.launchers, Known)
    assert isinstance(build.load_formats, Known)
    quantization = build.quantization
    assert [
        str(len(build.registry.value)),
        "-" if isinstance(quantization, Missing) else str(len(quantization.value)),
        minima(build),
        str(len(build.flags.value)),
        str(len(build.launchers.value)),
        "+".join(build.load_formats.value),
    ] == expected
    assert all(isinstance(fact, Known) and fact.value for fact in build.classes.values())
