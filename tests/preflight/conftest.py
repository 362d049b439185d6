"""A virtual environment with a real torch for processors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from preflight.torch_environment import NoTorchError, made

CI = os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.fixture(scope="session")
def torch(root: Path) -> str:
    """Its folder; where there is none tests skip, and in continuous integration they fail."""
    if given := os.environ.get("CANSERVE_TEST_TORCH"):
        return given
    try:
        return made(root)
    except NoTorchError as error:
        if CI:
            pytest.fail(str(error))
        pytest.skip(str(error))
