"""Confusion table of `check` over the public cases, per class of reason.

Usage: python bench/verdicts.py [--every N] [--verbose]
Every row that names an engine we read, a release and a class is put to `canserve.check` as a user would
put it. A row stated to work must not be called no by a check whose subject lies in the row's claim scope;
an arch, config or version row stated to fail, with an exact version and a known class, must be called no.
Rows whose data is wrong are listed in `verdict_notes.toml` with the reason, and counted all the same.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from cases import SHARED, Row, config_of, rows
from packaging.version import Version

from canserve.api import BuildReport, Options, check
from canserve.facts import Known
from canserve.index import release_history as history
from canserve.index import transformers_table
from canserve.rules.machines import every_name
from canserve.verdict import No, word

SCOPE = {
    "quantization": ("quantization-registered", "quantization-scheme-known", "quantization-capability-met"),
    "gpu": (
        "quantization-capability-met",
        "cpu-arch-matches",
        "driver-new-enough",
        "attention-backend-available",
        "combination-not-known-broken",
    ),
    "flags": ("flags-accepted", "parsers-known", "kv-cache-dtype-supported", "speculative-class-present"),
}
"""Which checks judge which part of a claim; all others judge `model`."""
STATIC = ("arch", "config", "version")
NOTES = Path(__file__).parent / "verdict_notes.toml"


def releases(engine: str) -> list[Version]:
    """Every indexed release of an engine."""
    return sorted(Version(v) for v in history().releases(engine))


def release_for(one: Row) -> str | None:
    """The release that stands for a row's version: itself, or the first one made from newer source."""
    assert one.engine is not None
    known = releases(one.engine)
    if not known:  # an engine whose releases are not indexed: the row's own release is judged
        return one.version
    if one.version is None:
        return str(known[-1])
    wanted = Version(one.version)
    if one.data.get("engine_version_kind") == "nightly":
        later = [v for v in known if v > wanted]
        return str(later[0] if later else known[-1])
    base = Version(wanted.base_version) if wanted.is_prerelease else wanted
    return next((str(v) for v in known if v >= base), None)


def engine_flags(one: Row) -> tuple[str, ...]:
    """The row's flags as an argv, without the model itself and without shell variables."""
    if one.version is None or "flags" not in one.data.get("claim_scope", ("flags",)):  # flags come and go
        return ("--trust-remote-code",) if "--trust-remote-code" in one.flags else ()
    ours = ("--model", "--model-path", "--host", "--port", "--served-model-name")
    kept = [flag.split(" ", 1) for flag in one.flags if flag.startswith("-") and "$" not in flag]
    return tuple(word for words in kept if words[0] not in ours for word in words)


def profile_of(gpu: str | None) -> str | None:
    """The machine profile of a row's accelerator; None where there is none."""
    words = re.findall(r"[^()]+", gpu or "")
    known = set(every_name())
    slugs = [re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in [gpu or "", *words]]
    return next((f"profile:{slug}" for slug in slugs if slug in known), None)


def judge(one: Row, folder: Path, model_types: Mapping[str, str]) -> tuple[str, BuildReport | None]:
    """The build's subject and its report."""
    release = release_for(one)
    if release is None or one.engine is None:
        return "none", None
    path = folder / f"{one.id}.json"
    path.write_text(json.dumps(config_of(one, model_types)))
    options = Options(flags=engine_flags(one), transformers=one.transformers)
    report = check(str(path), [f"{one.engine}=={release}"], on=profile_of(one.gpu), options=options)
    return f"{one.engine}=={release}", report.builds[0]


def blamed(report: BuildReport, scope: Sequence[str] | None) -> list[tuple[str, str]]:
    """Checks that say no, of those that judge what the row claims."""
    out = []
    for finding in report.findings:
        if isinstance(finding.verdict, No):
            part = next((p for p, names in SCOPE.items() if finding.check in names), "model")
            if scope is None or part in scope:
                out.append((finding.check, finding.verdict.because))
    return out


def types_by_architecture() -> dict[str, str]:
    """Architecture -> model type, by the newest release of transformers that has the class."""
    fact = transformers_table()
    assert isinstance(fact, Known), fact
    out: dict[str, str] = {}
    for version in fact.value.versions:
        for model_type in sorted(fact.value.config_types(version), reverse=True):
            out.update(dict.fromkeys(fact.value.architectures_of(version, model_type), model_type))
    return out


def minimum_claims() -> None:
    """Human claims of a first release against the registries: every disagreement is printed."""
    by_model = {r.data["model"]: r.architecture for r in rows("verdict_works.jsonl") if r.architecture}
    agree, other = 0, []
    with (SHARED / "cases" / "min_versions_claimed.csv").open() as lines:
        for claim in csv.DictReader(lines):
            architecture = by_model.get(claim["model_id"]) or by_model.get(claim["variant_model_id"])
            if not architecture or not re.fullmatch(r"[\d.]+", claim["min_vllm_version"] or ""):
                continue
            listed = history().releases_with("vllm", architecture)
            first = listed[0] if listed else "never"
            claimed = Version(claim["min_vllm_version"])
            if listed and Version(first) <= claimed:
                agree += 1
            else:
                other.append((claim["variant_model_id"], str(claimed), architecture, first))
    print(
        f"\nmin_versions_claimed.csv: {agree} claims hold, {len(other)} name a release that lacks the class:"
    )
    for variant, claimed_text, architecture, first in dict.fromkeys(other):
        print(f"  {variant}: claimed {claimed_text}, {architecture} is first listed in {first}")


def main() -> int:
    """Print the tables; exit 1 when a row is called wrongly and not listed as wrong data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="only every Nth row that is stated to work")
    parser.add_argument("--verbose", action="store_true", help="print every judged row")
    given = parser.parse_args()
    model_types = types_by_architecture()
    notes = {
        row: note["reason"] for note in tomllib.loads(NOTES.read_text())["wrong"] for row in note["rows"]
    }
    wrong: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, file in (
            ("stated to work", "verdict_works.jsonl"),
            ("stated to fail", "verdict_fails.jsonl"),
        ):
            counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
            left_out: collections.Counter[str] = collections.Counter()
            works = file == "verdict_works.jsonl"
            for one in list(rows(file))[:: given.every if works else 1]:
                label = "works" if works else str(one.data["reason_class"])
                reason = "" if works and one.why_not == "no exact version" else one.why_not
                if reason or (not works and label not in (*STATIC, "quant", "platform", "kernel/sm")):
                    left_out[f"{label}: {reason or 'class is not judged statically here'}"] += 1
                    continue
                subject, report = judge(one, folder, model_types)
                if report is None:
                    left_out[f"{label}: no such release"] += 1
                    continue
                said: str = word(report.verdict)
                no = blamed(report, one.data["claim_scope"] if works else None)
                if works and said == "no" and not no:
                    said = "no (outside its claim)"
                counts[label][said] += 1
                bad = bool(no) if works else label in STATIC and said != "no"
                if bad:
                    detail = no[0] if no else ("-", said)
                    wrong.append(
                        (one.id, f"{one.data['model']} with {subject}: {said}, {detail[0]}: {detail[1]}")
                    )
                if given.verbose:
                    print(f"{one.id} {subject} {one.architecture or one.model_type}: {said}", *no, flush=True)
            print(f"\n{title}")
            for label, counter in sorted(counts.items()):
                print(f"  {label:12}", "  ".join(f"{k} {v}" for k, v in sorted(counter.items())))
            for reason, count in sorted(left_out.items()):
                print(f"  left out {count:3}  {reason}")
    minimum_claims()
    explained = [w for w in wrong if w[0] in notes]
    print(f"\ncalled wrongly: {len(wrong)}, of which {len(explained)} because the row's data is wrong")
    for identity, text in wrong:
        print(f"  {identity} {text}" + (f"\n      data: {notes[identity]}" if identity in notes else ""))
    return 1 if len(wrong) > len(explained) else 0


if __name__ == "__main__":
    sys.exit(main())
