"""First releases that others wrote down, against the index, row by row; every disagreement has its reason.

Usage: python bench/first_seen.py [--verbose]
`vllm_first_seen.json` holds what sampled source distributions list, `min_versions_claimed.csv` what people
claim. The index is read from every release's code; nothing here is tuned to either file. Kinds of reason
that follow from the index itself are found here; the others stand in `first_seen_notes.toml`, a row each.
Exit 1 when a row differs for no known reason.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cases import SHARED, rows
from packaging.version import Version

from canserve.api.released import UnknownNameError, since
from canserve.index import release_history
from canserve.index.since import Since

ENGINE = "vllm"
NOTES = tomllib.loads((Path(__file__).parent / "first_seen_notes.toml").read_text())
TABLES = {
    "architectures": "architectures",
    "tool_call_parsers": "tool_parsers",
    "reasoning_parsers": "reasoning_parsers",
    "config_shim_model_types": "config_types",
    "quantization_methods": "quantization",
}
"""Kinds of names in the file, and the index's table of each."""
METHODS = {"fp8": "fp8", "nvfp4": "modelopt_fp4", "mxfp4": "mxfp4"}
"""A variant's precision, and the method that its checkpoints most plainly name."""


@dataclass(frozen=True)
class Row:
    """One claim against the index."""

    file: str
    name: str
    claimed: str
    indexed: str
    kind: str
    """``agrees``, or why not; empty: nobody knows."""
    detail: str = ""


@cache
def listed(table: str, name: str) -> tuple[str, ...]:
    """Releases whose table has the name, oldest first."""
    shelf = release_history().shelf(ENGINE)
    assert shelf is not None
    return tuple(shelf.version(at) for at in shelf.positions(table, name))


def by_hand(file: str, name: str) -> tuple[str, str] | None:
    """Kind and detail of a row that is explained by hand."""
    for note in NOTES["row"]:
        if note["file"] == file and name in note["names"]:
            return note["kind"], note["reason"]
    return None


# -- sampled releases ------------------------------------------------------------------------------


def sampled() -> Iterator[Row]:
    """Each name of the sampled file: in (absent, present], and in each sampled release or not."""
    file = "vllm_first_seen.json"
    claims = json.loads((SHARED / "cases" / file).read_text())
    for kind, table in TABLES.items():
        checked = claims[kind]["lists_found_in"]
        for name, claim in claims[kind]["names"].items():
            yield sampled_row(file, table, name, claim, checked)


def sampled_row(file: str, table: str, name: str, claim: Mapping[str, Any], checked: list[str]) -> Row:
    releases = listed(table, name)
    first = releases[0] if releases else "never"
    said = f"in ({claim['absent'] or 'before'}, {claim['present']}]"
    if claim.get("removed_after"):
        said += f", gone after {claim['removed_after']}"
    wrong = [v for v in checked if expected(claim, v) not in (None, v in releases)]
    inside = releases and Version(first) <= Version(claim["present"])
    inside = inside and (claim["absent"] is None or Version(first) > Version(claim["absent"]))
    if inside and not wrong:
        return Row(file, name, said, first, "agrees")
    if note := by_hand(file, name):
        return Row(file, name, said, first, *note)
    came_back = inside and len(spans(releases)) > 1
    return Row(
        file, name, said, first, "came back" if came_back else "", f"{table}: {', '.join(spans(releases))}"
    )


def expected(claim: Mapping[str, Any], version: str) -> bool | None:
    """Whether the file says that this release has the name; None: it does not say."""
    here = Version(version)
    if here < Version(claim["present"]):
        return None if claim["absent"] is None else False
    return not (claim.get("removed_after") and here > Version(claim["removed_after"]))


def spans(releases: tuple[str, ...]) -> list[str]:
    """Runs of neighbours among all releases, as texts."""
    every = release_history().releases(ENGINE)
    positions = [every.index(version) for version in releases]
    starts = [at for at in positions if at - 1 not in positions]
    ends = [at for at in positions if at + 1 not in positions]
    return [every[a] if a == b else f"{every[a]} to {every[b]}" for a, b in zip(starts, ends, strict=True)]


# -- what people claim -----------------------------------------------------------------------------


def claimed() -> Iterator[Row]:
    """Each claim of a least release, against the first one that lists, and serves, the model's class."""
    file = "min_versions_claimed.csv"
    known = classes()
    with (SHARED / "cases" / file).open() as lines:
        for claim in csv.DictReader(lines):
            name = f"{claim['variant_model_id']} {claim['precision']}"
            model = claim["model_id"]
            architecture = known.get(claim["variant_model_id"]) or known.get(model)
            if architecture is None:
                note = by_hand(file, model) or ("", "its class is not known")
                yield Row(file, name, claim["min_vllm_version"], "-", *note)
            else:
                yield claimed_row(file, name, claim, architecture)


def classes() -> dict[str, str]:
    """Model -> class: from the recorded cases, from configs, and by hand."""
    found = {
        str(row.data["model"]): row.architecture for row in rows("verdict_works.jsonl") if row.architecture
    }
    for config in sorted((SHARED / "models").glob("*/config.json")):
        try:
            named = json.loads(config.read_text()).get("architectures") or [None]
        except ValueError:
            continue
        if named[0]:
            found[config.parent.name.replace("__", "/")] = named[0]
    return {**found, **NOTES["classes"]}


def claimed_row(file: str, name: str, claim: Mapping[str, str], architecture: str) -> Row:
    wanted = Version(claim["min_vllm_version"])
    releases = listed("architectures", architecture)
    first = releases[0] if releases else None
    row = Row(file, name, str(wanted), f"{architecture} {first or 'never listed'}", "")
    if first is not None and Version(first) == wanted:
        return replaced(row, "agrees")
    note = by_hand(file, claim["model_id"]) or by_hand(file, claim["variant_model_id"])
    if first is None or Version(first) > wanted:
        return (
            replaced(row, *too_early(architecture, wanted, claim, first))
            if not note
            else replaced(row, *note)
        )
    return replaced(row, *too_late(architecture, wanted, claim))


def too_early(
    architecture: str, wanted: Version, claim: Mapping[str, str], first: str | None
) -> tuple[str, str]:
    """Why somebody names a release that does not list the class."""
    if claim["nightly_required"] and first is not None:
        return "nightly", f"built after {wanted}, released with {first}"
    answer = served(architecture)
    for stretch in answer.usable if answer else ():
        inside = Version(stretch.run.first.version) <= wanted <= Version(stretch.run.last.version)
        if inside and stretch.answer.way in ("fallback", "converted"):
            through = f"{stretch.answer.served_by} {', '.join(stretch.answer.needs)}"
            if stretch.answer.ahead:
                return "wrong claim", f"only {through} would serve it, which came out after that release"
            return "through a fallback", through
    return "", "no release up to the claimed one lists or serves it"


def too_late(architecture: str, wanted: Version, claim: Mapping[str, str]) -> tuple[str, str]:
    """Why somebody names a later release than the first that lists the class."""
    answer = served(architecture)
    usable = answer.usable if answer else ()
    tried = [stretch for stretch in usable if stretch.answer.way == "native" and not stretch.answer.ahead]
    if tried and Version(tried[0].run.first.version) == wanted:
        return "listed, not parseable before", f"serves it from {wanted} on"
    method = METHODS.get(claim["precision"])
    first = listed("quantization", method)[0] if method else None
    if first is not None and Version(first) == wanted:
        return "its quantization is younger", f"{method} from {first} on"
    return "a cautious claim", "the class is listed and can be served before"


@cache
def served(architecture: str) -> Since | None:
    """The index's whole answer for a class."""
    try:
        report = since(architecture)
    except UnknownNameError:
        return None
    return next(one for one in report.answers[0].engines if one.column.engine == ENGINE)


def replaced(row: Row, kind: str, detail: str = "") -> Row:
    return replace(row, kind=kind, detail=detail)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verbose", action="store_true", help="print every row that differs")
    given = parser.parse_args()
    every = [*sampled(), *claimed()]
    for file in dict.fromkeys(row.file for row in every):
        mine = [row for row in every if row.file == file]
        counts = collections.Counter(row.kind or "NOT EXPLAINED" for row in mine)
        print(f"\n{file}: {len(mine)} rows")
        for kind, count in sorted(counts.items(), key=lambda item: (item[0] != "agrees", -item[1])):
            print(f"  {count:4}  {kind:30} {NOTES['kinds'].get(kind, '')}".rstrip())
        for row in mine:
            if row.kind == "" or (given.verbose and row.kind != "agrees"):
                print(
                    f"    {row.name}: claimed {row.claimed}; index: {row.indexed}; {row.kind}: {row.detail}"
                )
    unknown = [row for row in every if row.kind not in NOTES["kinds"]]
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
