"""Python environments that hold an engine, by the names of metadata folders alone: nothing is imported or run."""

from __future__ import annotations

import re

from canserve.engines import engines
from canserve.facts import Fact
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import Environment

COLLECTIVES = ("nvidia_nccl_cu11", "nvidia_nccl_cu12", "nvidia_nccl_cu13")
"""Distributions that bring the library over which ranks talk."""
_BESIDE = ("torch", "ray", *COLLECTIVES)
"""What engines stand on, worth telling beside them."""
MAX_ENVIRONMENTS = 200


def _script() -> str:
    names = sorted(
        {re.sub(r"[-_.]+", "_", engine.distribution).lower() for engine in engines()} | set(_BESIDE)
    )
    return f"""for s in /usr/lib/python3*/dist-packages /usr/lib/python3*/site-packages \\
  /usr/local/lib/python3*/dist-packages /usr/local/lib/python3*/site-packages \\
  /opt/lib/python3*/site-packages /opt/*/lib/python3*/site-packages /opt/*/envs/*/lib/python3*/site-packages \\
  "$HOME"/lib/python3*/site-packages "$HOME"/.local/lib/python3*/site-packages \\
  "$HOME"/*/lib/python3*/site-packages "$HOME"/.*/lib/python3*/site-packages \\
  "$HOME"/*/*/lib/python3*/site-packages "$HOME"/*/.venv/lib/python3*/site-packages \\
  "$HOME"/*/envs/*/lib/python3*/site-packages "$HOME"/.conda/envs/*/lib/python3*/site-packages; do
  [ -d "$s" ] || continue
  for n in {" ".join(names)}; do
    for d in "$s/$n"-[0-9]*.dist-info; do [ -d "$d" ] && printf '%s\\n' "$d"; done
  done
done; exit 0"""


def environments(seen: Seen) -> Fact[tuple[Environment, ...]]:
    """Those that hold an engine, in the usual places."""
    known = {re.sub(r"[-_.]+", "_", engine.distribution).lower() for engine in engines()}
    found: dict[str, dict[str, str]] = {}
    for row in seen.rows:
        if match := re.fullmatch(
            r"(/.{0,300})/([A-Za-z0-9_.]{1,60})-([A-Za-z0-9_.+!]{1,80})\.dist-info", row
        ):
            found.setdefault(match[1], {})[match[2]] = match[3]
    held = [
        Environment(path, tuple(sorted(packages.items())))
        for path, packages in found.items()
        if any(name.lower() in known for name in packages)
    ]
    return seen.known(tuple(held[:MAX_ENVIRONMENTS]), None if held else "no engine in the usual places")


ENVIRONMENTS = Probe(
    "environments", _script(), "*.dist-info of site-packages and dist-packages", environments
)
