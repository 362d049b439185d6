"""Stands in for compiled kernels, which the index has for CUDA only: every name is there, and raises when it is called."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn


class _Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{self._name}: there are no compiled kernels here")


class _Stand(ModuleType):
    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")


class _Finder:
    """Modules below this one."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("sgl_kernel.") else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stand(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


if __name__ == "sgl_kernel":
    sys.meta_path.append(_Finder())
    sys.modules[__name__].__class__ = _Stand
