"""What an engine stands on in its environment or image: CUDA, NCCL, Ray, compilers, and how an image starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.facts import Cause, Fact, Known, Missing

_NOT_ASKED = Missing(Cause.UNREACHED, "not asked for")


@dataclass(frozen=True, slots=True)
class Release:
    """A release of something, where it says so itself."""

    version: str
    path: str
    """File or folder, or the variable of an image (``CUDA_VERSION``)."""

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


@dataclass(frozen=True, slots=True)
class Tool:
    """A program or library with a version that may not have been read."""

    path: str
    version: Fact[str]

    def __str__(self) -> str:
        said = self.version.value if isinstance(self.version, Known) else "version not read"
        return f"{self.path}: {said}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The copy of a library that the loader takes."""

    path: str | None
    """None: no folder of the loader has one."""
    version: Fact[str]
    because: str
    """What leads there: ``RPATH of torch/lib/libtorch_cuda.so``."""
    certain: bool = True
    """False: variables of whoever starts it come before."""

    def __str__(self) -> str:
        said = self.version.value if isinstance(self.version, Known) else "version not read"
        return f"{self.path} ({said}), by {self.because}" if self.path else self.because


@dataclass(frozen=True, slots=True)
class Triton:
    """Triton, and the assemblers that it brings."""

    version: Fact[str]
    assemblers: tuple[Tool, ...]
    """``ptxas`` and, in newer releases, ``ptxas-blackwell``."""
    named: Mapping[str, Tool]
    """By variable of an image, the assembler that it names instead (``TRITON_PTXAS_PATH``)."""
    by_torch: Tool | None
    """One in torch's package, which torch's compiler takes instead where no variable names another."""
    newer_from: Fact[int | None]
    """Compute capability, times ten, from which it takes ``ptxas-blackwell``; ``Known(None)``: it never does."""
    compiles: Fact[bool]
    """Whether it compiles C code with the system's compiler when its first kernel starts."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels compiled ahead, or what was kept of compiling at run time."""

    name: str
    path: str
    version: Fact[str | None]
    """Of a package; ``Known(None)``: a folder of kept files has none."""
    kept: bool
    """Whether it is a folder that compiling at run time fills."""
    files: int
    targets: tuple[str, ...]
    """GPUs that names of its folders speak of: ``90a``."""

    def __str__(self) -> str:
        version = self.version.value if isinstance(self.version, Known) else "version not read"
        made = f" for {', '.join(self.targets)}" if self.targets else ""
        return f"{self.name} {version or 'kept files'} in {self.path}{made}: {self.files} files"


@dataclass(frozen=True, slots=True)
class Started:
    """How an image starts, as its config says."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    script: Fact[str | None]
    """What the entrypoint's script runs in its own place at last (the words after ``exec``); None: the entrypoint
    is no script, or its script ends otherwise."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Facts about everything around the engine. Filled by whoever found the build, not by the engine's reader."""

    torch_cuda: Fact[str | None] = _NOT_ASKED
    """CUDA that torch was built with, by its own version file; ``Known(None)``: none, or no torch."""
    torch_requires_nccl: Fact[str | None] = _NOT_ASKED
    """The release of NCCL that torch's package requires."""
    cuda: Fact[tuple[Release, ...]] = _NOT_ASKED
    """CUDA's runtime and toolkits."""
    cuda_compat: Fact[str | None] = _NOT_ASKED
    """Driver release of NVIDIA's compatibility package in the image; ``Known(None)``: not there."""
    nccl: Fact[tuple[Tool, ...]] = _NOT_ASKED
    """Every copy."""
    nccl_loaded: Fact[Loaded | None] = _NOT_ASKED
    """The copy that torch gets; ``Known(None)``: torch links against none."""
    ray: Fact[str | None] = _NOT_ASKED
    triton: Fact[Triton | None] = _NOT_ASKED
    nvcc: Fact[tuple[Tool, ...]] = _NOT_ASKED
    c_compiler: Fact[str | None] = _NOT_ASKED
    """Where it lies; ``Known(None)``: certainly not in the image."""
    python_header: Fact[str | None] = _NOT_ASKED
    ninja: Fact[str | None] = _NOT_ASKED
    kernels: Fact[tuple[Kernels, ...]] = _NOT_ASKED
    system: Fact[str | None] = _NOT_ASKED
    """The distribution's own name for itself."""
    libc: Fact[str | None] = _NOT_ASKED
    """Version of GNU libc in the image; ``musl`` for the other one."""
    started: Fact[Started] = _NOT_ASKED
    pins: Fact[Mapping[str, str]] = _NOT_ASKED
    """Variables set in an image that decide on addresses, interfaces, NCCL, libraries or compilers."""
