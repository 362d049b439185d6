"""``./dev test`` installs the real engines and makes the models before it runs the tests: ``python tests/real/install.py``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from real.environments import InstallError, place
from real.models import small, sources, tiny
from real.recipes import LLAMA, SGLANG, VLLM
from real.tiny_models import KINDS


def main() -> int:
    """Whatever is not there yet; 1: something could not be made, and the tests that need it say why."""
    began = time.monotonic()
    try:
        vllm = place(VLLM)
        for recipe in (SGLANG, LLAMA):
            place(recipe)
        for kind in KINDS:
            tiny(kind, vllm)
        small()
        sources()
    except InstallError as error:
        sys.stderr.write(f"dev: {error}\n")
        return 1
    if (seconds := time.monotonic() - began) > 1:
        sys.stderr.write(f"dev: real engines installed in {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
