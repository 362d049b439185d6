"""cuda-libraries-linked and libc-new-enough: every branch."""

from __future__ import annotations

import doctest
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quant_world import gpu, judged, listing, machine, skipped
from small_world import case, model, seen

from canserve.checks.case import Case
from canserve.checks.machine import libc
from canserve.checks.machine.cuda_libraries import CUDA_LIBRARIES
from canserve.checks.machine.libc import LIBC
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import NOT_ASKED, CudaLibrary, Extension
from canserve.verdict import Finding, No, Unknown, Yes

UNREADABLE = Missing(Cause.UNREADABLE, "eng/_C.so: it ends before its size")
ALONE = Missing(Cause.UNREACHED, "not an environment, so torch is not beside it")
THERE = CudaLibrary(("eng/_C.so",), "nvidia/cu13/lib/libcudart.so.13")
ABSENT = CudaLibrary(("eng/_C.so",), None, ("libcudart.so.12",))
NOWHERE = replace(ABSENT, everywhere=True)


def linking(
    needed: Fact[Mapping[str, CudaLibrary]] | Mapping[str, CudaLibrary],
    origin: str = "virtual environment",
    torch: Fact[str | None] = Known("2.14.1", seen()),  # noqa: B008 - frozen
    requires: str = "torch==2.14.0",
) -> Case:
    build = listing()
    identity = replace(build.identity, origin=origin, requires=Known((requires,), seen(requires)))
    fact = needed if isinstance(needed, Known | Missing) else Known(needed, seen("linked"))
    own: Fact[Extension] = Known(Extension("eng", "x86_64"), seen("its headers"))
    files: Mapping[str, Fact[Extension]] = {"eng/_C.so": own}
    build = replace(build, identity=identity, cuda_needed=fact, torch=torch, gpu_code=Known(files, seen()))
    return case(model(), build, machine=gpu("9.0", cpu_arch="x86_64"))


def test_all_of_them_lie_in_it() -> None:
    verdict = judged(CUDA_LIBRARIES, linking({"libcudart.so.13": THERE}))
    assert isinstance(verdict, Yes) and "libcudart.so.13" in verdict.because


def test_a_runtime_that_an_image_does_not_have_is_a_no() -> None:
    absent = linking({"libcudart.so.13": NOWHERE}, "image on disk: Python environment")
    verdict = judged(CUDA_LIBRARIES, absent)
    assert isinstance(verdict, No)
    assert (
        "eng/_C.so links against libcudart.so.13, which is not in it; libcudart.so.12 is" in verdict.because
    )
    assert "CUDA 13" in verdict.fix


def test_a_runtime_that_only_a_package_beside_wants_is_not_certain() -> None:
    absent = {"libcudart.so.12": CudaLibrary(("xformers/_C.so",), None, (), True)}
    found = linking(absent, "image on disk")
    fact = Known({"xformers/_C.so": Known(Extension("xformers", "x86_64"), seen())}, seen())
    found = replace(found, build=replace(found.build, gpu_code=fact))  # type: ignore[arg-type]
    assert isinstance(judged(CUDA_LIBRARIES, found), Unknown)


def test_a_library_under_its_long_name_may_get_the_short_one() -> None:
    longer = replace(NOWHERE, others=("libcudart.so.13.0.88",))
    assert isinstance(judged(CUDA_LIBRARIES, linking({"libcudart.so.13": longer}, "image on disk")), Unknown)


def test_elsewhere_the_machine_may_have_it() -> None:
    verdict = judged(CUDA_LIBRARIES, linking({"libcudart.so.13": ABSENT}))
    assert isinstance(verdict, Unknown) and "ldconfig" in verdict.ask


def test_another_library_may_serve_what_is_not_used() -> None:
    found = {
        "libnvshmem_host.so.3": CudaLibrary(("torch/lib/x.so",), None, (), True),
        "libcudart.so.13": THERE,
    }
    verdict = judged(CUDA_LIBRARIES, linking(found, "image on disk"))
    assert isinstance(verdict, Unknown) and "libnvshmem_host.so.3" in verdict.because


def test_a_wheel_runs_with_the_libraries_of_its_torch() -> None:
    wheel = linking({"libcudart.so.13": ABSENT}, "wheel", ALONE)
    assert isinstance(judged(CUDA_LIBRARIES, wheel), Yes)
    older = linking({"libcudart.so.13": ABSENT}, "wheel", ALONE, "torch==2.9.1")
    verdict = judged(CUDA_LIBRARIES, older)
    assert isinstance(verdict, Unknown) and "CUDA 12.8" in verdict.because and "CUDA 13" in verdict.ask
    assert "elsewhere" in skipped(CUDA_LIBRARIES, linking({"libnvrtc.so.13": ABSENT}, "wheel", ALONE))


def test_a_wheel_that_requires_the_runtime_itself() -> None:
    """lmdeploy 0.18.0 links against CUDA 12 and requires it, whatever its torch is made for."""
    twelve = {"libcudart.so.12": CudaLibrary(("eng/_C.so",), None)}
    verdict = judged(CUDA_LIBRARIES, linking(twelve, "wheel", ALONE, "nvidia-cuda-runtime-cu12"))
    assert isinstance(verdict, Yes) and "nvidia-cuda-runtime-cu12" in verdict.because
    other = linking(twelve, "wheel", ALONE, "nvidia-cuda-runtime-cu12; extra == 'cuda'")
    assert not isinstance(judged_or_skipped(other), Yes)


def judged_or_skipped(found: Case) -> object:
    one = CUDA_LIBRARIES.judge(found)
    return one.verdict if isinstance(one, Finding) else one


def test_links_that_nobody_read_or_that_cannot_be_read() -> None:
    assert "not read" in skipped(CUDA_LIBRARIES, linking(NOT_ASKED))
    assert "no extension" in skipped(CUDA_LIBRARIES, linking({}))
    assert isinstance(judged(CUDA_LIBRARIES, linking(UNREADABLE)), Unknown)


# libc-new-enough -------------------------------------------------------------------------------------


def needing(libcs: Mapping[str, str | None], origin: str = "virtual environment", **facts: Any) -> Case:
    build = listing()
    files = {
        f"{name}/_C.so": Known(Extension(name, "x86_64", libc=version), seen(name))
        for name, version in libcs.items()
    }
    newest = max((v for v in libcs.values() if v), default=None)
    build = replace(
        build,
        identity=replace(build.identity, origin=origin),
        gpu_code=Known(files, seen()),
        libc_needed=facts.pop("fact", Known(newest, seen())),
    )
    return case(model(), build, machine=machine(**({"libc": "2.35"} | facts)))


def test_a_libc_that_has_all_symbols() -> None:
    verdict = judged(LIBC, needing({"eng": "2.28", "torch": "2.34"}))
    assert isinstance(verdict, Yes) and "2.34" in verdict.because
    assert isinstance(judged(LIBC, needing({"eng": "2.35"})), Yes)
    assert isinstance(judged(LIBC, needing({"eng": "2.9"}, libc="2.17")), Yes)


def test_an_older_libc_is_a_no() -> None:
    verdict = judged(LIBC, needing({"eng": "2.28", "torch": "2.34"}, libc="2.31"))
    assert isinstance(verdict, No) and "torch/_C.so needs libc 2.34" in verdict.because


def test_a_package_beside_may_not_be_used() -> None:
    verdict = judged(LIBC, needing({"eng": "2.28", "xformers": "2.38"}))
    assert isinstance(verdict, Unknown) and "xformers" in verdict.because
    both = judged(LIBC, needing({"deep_ep": "2.39", "xformers": "2.38", "eng": "2.40"}))
    assert isinstance(both, No)


def test_needs_that_could_not_be_read() -> None:
    assert isinstance(judged(LIBC, needing({}, fact=UNREADABLE)), Unknown)
    assert isinstance(judged(LIBC, needing({"eng": "2.40"}, fact=UNREADABLE)), No)
    assert isinstance(judged(LIBC, needing({"eng": "2.28"}, libc="recent")), Unknown)


def test_where_nothing_is_to_be_judged() -> None:
    assert "its own libc" in skipped(LIBC, needing({"eng": "2.99"}, "image on disk"))
    assert "no extension" in skipped(LIBC, needing({"eng": None}))
    unstated = replace(needing({"eng": "2.28"}), machine=machine())
    assert "states no libc" in skipped(LIBC, unstated)


def test_tags_where_no_file_was_read() -> None:
    def tagged(*tags: str) -> Case:
        found = needing({}, fact=NOT_ASKED, libc="2.31")
        identity = replace(found.build.identity, platforms=Known(tags, seen()))
        return replace(found, build=replace(found.build, identity=identity))

    verdict = judged(LIBC, tagged("manylinux_2_34_x86_64"))
    assert isinstance(verdict, No) and "pip installs it from libc 2.34 on" in verdict.because
    assert "not read" in skipped(LIBC, tagged("manylinux_2_28_x86_64"))
    assert "not read" in skipped(LIBC, tagged("manylinux2014_x86_64", "manylinux_2_34_x86_64"))
    assert "not read" in skipped(LIBC, tagged("linux_x86_64"))
    assert doctest.testmod(libc).failed == 0
