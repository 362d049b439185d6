"""Which names of transformers' deeper modules engines import: the pairs that the index answers for exactly.

``python -m canserve.index.imports ENGINE==VERSION ... FILE`` reads these builds and adds what their model
classes and config shims import to the file. Names are only ever added: older builds keep importing them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from canserve.engines.transformers.names import PACKAGE
from canserve.facts import Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want

WANT = Want(architectures=None, model_types=None)


def deep_imports(build: Build) -> Iterator[str]:
    """``module:name`` of every import that the index has to answer for."""
    classes = (fact.value for fact in build.classes.values() if isinstance(fact, Known))
    shims = build.config_shims.value.values() if isinstance(build.config_shims, Known) else ()
    needs = chain(*(found.imports for found in classes if found is not None), *(s.imports for s in shims))
    for need in needs:
        if need.name is not None and need.module.startswith(f"{PACKAGE}."):
            yield f"{need.module.removeprefix(f'{PACKAGE}.')}:{need.name}"


def collect(targets: Iterable[str], known: Iterable[str]) -> tuple[set[str], list[str]]:
    """The known pairs and those of these builds; and the builds that could not be read."""
    pairs, unread = set(known), []
    options = BuildOptions()
    for target in targets:
        build = read_build(target, WANT, options).build
        if isinstance(build, Missing):
            unread.append(f"{target}: {build.why}")
        else:
            pairs.update(deep_imports(build))
    return pairs, unread


def main(arguments: list[str]) -> int:
    """Add to the file, sorted, what the builds import."""
    *targets, file = arguments
    path = Path(file)
    known = path.read_text().splitlines() if path.exists() else []
    pairs, unread = collect(targets, known)
    path.write_text("".join(f"{pair}\n" for pair in sorted(pairs)))
    for line in unread:
        print(line, file=sys.stderr)
    print(f"{len(pairs)} pairs, {len(pairs) - len(set(known))} of them new")
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
