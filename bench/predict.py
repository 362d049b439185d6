"""What would have been refused before launch: the recorded failures as inputs of `check` and `plan`.

    python bench/predict.py [--each] [--jobs N]

A case is asked where its facts suffice: an engine that is read statically, a release (or a month, which stands for
the newest release of it), and a model whose config is known, or at least its class. The machine and the parallel
sizes are taken along where the case names them. Prints, per kind, how many would have been refused, called unknown
or let through, and by which check ("otherwise": refused for another reason than what failed); then the kinds of case that no check is asked about.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from cases import QUANT_CONFIGS, SHARED
from packaging.version import Version

from canserve.index import release_history as history
from canserve.rules.failures import KINDS
from canserve.rules.machines import every_name

CANSERVE = [str(Path(sys.executable).with_name("canserve"))]
ENGINES = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "tensorrt-llm": "tensorrt-llm"}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ANY_MACHINE = "profile:h200"
"""For cases of layouts that name no machine: heads divide or do not, whatever the card."""
SIZES = {
    "--tp": r"(?:--tensor-parallel-size|--tp-size|--tp|-tp|tensor_parallel_size)[ =](\d+)|\bTP ?= ?(\d+)",
    "--pp": r"(?:--pipeline-parallel-size|--pp-size|-pp|pipeline_parallel_size)[ =](\d+)|\bPP ?= ?(\d+)",
}
ONE_EACH = ("dgx-spark", "gb10", "strix-halo", "gfx1151")
"""Machines with one accelerator; of the others a case's ranks fill eight at a time."""
OWN = {
    "architecture-not-in-registry": ("architecture-", "remote-code-", "gguf-"),
    "config-model_type": ("config-", "transformers-", "architecture-registered", "remote-code-"),
    "tokenizer-template-parser": ("tokenizer-", "chat-template-", "parsers-", "processor-"),
    "quantisation-vs-gpu": ("quantization-", "kv-cache-", "attention-", "gpu-code-"),
    "parallel-layout": (
        "heads-",
        "kv-heads-",
        "vocabulary-",
        "mlp-",
        "expert-",
        "quantization-blocks-",
        "vision-",
        "pipeline-",
        "layers-",
    ),
    "memory": ("weights-fit", "cache-fits", "state-fits", "graphs-fit", "device-holds", "host-memory-"),
    "gpu-code-arch": (
        "gpu-code-",
        "triton-",
        "jit-",
        "attention-",
        "quantization-capability-",
        "combination-",
    ),
    "driver-cuda-libc-cpu": ("driver-", "libc-", "cpu-arch-", "cuda-libraries-"),
    "weights": ("weights-", "disk-"),
    "image-probing-and-logs": ("entrypoint-", "launcher-"),
}
"""Beginnings of the checks that refuse for what the kind is about; any other refusal is for another reason."""
FLAGS = ("--tool-call-parser", "--reasoning-parser", "--quantization", "--kv-cache-dtype", "--dtype")
SECONDS = 300


@dataclass(frozen=True)
class Question:
    """A case as a command."""

    id: str
    kind: str
    check: str
    arguments: tuple[str, ...]
    config: str


@dataclass(frozen=True)
class Answer:
    """What canserve said of it."""

    question: Question
    said: str
    by: tuple[str, ...]

    @property
    def own(self) -> bool:
        """Whether one of the refusing checks is about what failed."""
        return any(name.startswith(OWN.get(self.question.kind, ("none",))) for name in self.by)


def release(engine: str, text: str) -> str | None:
    """The release a case is about: as written, or the newest of the month it names."""
    known = sorted(Version(each) for each in history().releases(engine))
    if (written := re.match(r"(\d+\.\d+(?:\.\d+)*(?:rc\d+)?(?:\.?post\d+)?)\b", text)) is not None:
        wanted = Version(written[1])
        return next((str(each) for each in known if each == wanted), None)
    month = re.search(rf"({'|'.join(MONTHS)})\w* (20\d\d)", text)
    if month is None:
        return None
    last = f"{month[2]}-{MONTHS.index(month[1]) + 1:02}-31"
    shelf = history().shelf(engine)
    dated = [
        (str(row["date"])[:10], Version(str(row["version"]))) for row in (shelf.releases if shelf else ())
    ]
    until = sorted(each for date, each in dated if date and date <= last and not each.is_prerelease)
    return str(until[-1]) if until else None


def folder(text: str) -> Path | None:
    """The folder of the model that a text names, by its whole name or the part after the owner."""
    known = [path for path in (SHARED / "models").iterdir() if (path / "config.json").is_file()]
    names = [
        (name, path) for path in known for name in (path.name.replace("__", "/"), path.name.split("__")[-1])
    ]
    for name, path in sorted(names, key=lambda pair: -len(pair[0])):
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\d)", text):
            return path
    return None


def config(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config of the case's model: the real one, or the least that names its class or type."""
    text = f"{case['model']} {case['signature']}"
    if (path := folder(case["model"])) is not None:
        found: dict[str, Any] = json.loads((path / "config.json").read_text())
        return found
    least: dict[str, Any] = {}
    if (class_ := re.search(r"\b[A-Z]\w+(?:For[A-Z]\w+|LMHeadModel|Model)\b", text)) is not None:
        least["architectures"] = [class_[0]]
    if (model_type := re.search(r"model type `(\w+)`|KeyError: '([a-z]\w+)'", text)) is not None:
        least["model_type"] = model_type[1] or model_type[2]
    if (heads := re.search(r"attention heads \((\d+)\)|(\d+) (?:attention )?heads", text)) is not None:
        count = int(heads[1] or heads[2])
        least |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": count}
        least |= {"num_hidden_layers": 2, "hidden_size": count * 128, "intermediate_size": count * 256}
        least |= {"vocab_size": 32000, "num_key_value_heads": count, "torch_dtype": "float16"}
    return least or plain(case)


def plain(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """A common model, for a case that is about flags, quantization or machine and names none (or only a family)."""
    if case["check"] not in ("registry", "gpu-code", "host-env") or case["kind"] in (1, 2):
        return None
    body: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16"
        if "bfloat16" in f"{case['signature']} {case['launch']}".lower()
        else "float16",
    }
    text = f"{case['model']} {case['launch']} {case['signature']}".lower()
    quantized = next((name for name in ("awq", "gptq", "mxfp4", "nvfp4") if name in text), None)
    return body | ({"quantization_config": QUANT_CONFIGS[quantized]} if quantized else {})


def machine(text: str) -> str | None:
    """The profile of the first machine that the case names."""
    slug = re.sub(r"[^a-z0-9.]+", "-", text.lower())
    names = sorted(every_name(), key=len, reverse=True)
    return next(
        (f"profile:{name}" for name in names if re.search(rf"(?:^|-){re.escape(name)}(?:-|$)", slug)), None
    )


def question(case: Mapping[str, Any]) -> Question | str:
    """The case as a command, or why it cannot be one."""
    engine = next((ENGINES[each] for each in ENGINES if case["engine"].lower().startswith(each)), None)
    if engine is None:
        return f"{case['engine']} is not read from a release"
    version = release(engine, case["engine_version"])
    if version is None:
        return "no release of it is named"
    body = config(case)
    if body is None:
        return "no model is named whose config is known"
    asked = f"{case['launch']} {case['model']} {case['signature']}"
    sizes = [
        word
        for option, pattern in SIZES.items()
        if (hit := re.search(pattern, asked)) is not None
        for word in (option, hit[1] or hit[2])
    ]
    at = machine(case["hardware"])
    flags = [
        word
        for flag in FLAGS
        if (hit := re.search(rf"{flag}[ =:]+(?:invalid choice: ')?([\w.-]+)", asked)) is not None
        and hit[1] != "invalid"
        for word in (flag, hit[1])
    ]
    if body == plain(case) and not at and not flags:
        return "no model, machine or flag is named that could be asked about"
    build = ["--build", f"{engine}=={version}"]
    whole = "hidden_size" in json.dumps(body)
    if whole and (sizes or (at and case["check"] == "arithmetic-memory")):
        ranks = prod(map(int, sizes[1::2]))
        each = 1 if at and any(name in at for name in ONE_EACH) else 8
        words = ["plan", "MODEL", *build, "--on", f"{-(-ranks // each)}x{at or ANY_MACHINE}", *sizes]
    else:
        words = ["check", "MODEL", *build, *(["--on", at] if at else []), *(["--", *flags] if flags else [])]
    words[2:2] = ["--format", "json", "--quiet"]
    return Question(case["id"], case["kind_name"], case["check"], tuple(words), json.dumps(body))


def answer(one: Question) -> Answer:
    """Ask it, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(one.config)
        command = [*CANSERVE, *(str(path) if word == "MODEL" else word for word in one.arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Answer(one, "too slow", ())
    said = {0: "yes", 1: "no", 3: "unknown"}.get(done.returncode, "error")
    if said == "error":
        return Answer(one, said, tuple(done.stderr.strip().splitlines()[:1]))
    return Answer(one, said, tuple(dict.fromkeys(_refusing(json.loads(done.stdout)))))


def _refusing(output: object) -> Iterator[str]:
    """The checks that say no, wherever they stand in the output; a layout that is illegal names its constraint."""
    match output:
        case {"check": str(name), "verdict": "no"} | {"check": str(name), "heals": _}:
            yield name
        case dict():
            for value in output.values():
                yield from _refusing(value)
        case list():
            for value in output:
                yield from _refusing(value)
        case _:
            pass


def report(answers: Sequence[Answer], left_out: Sequence[tuple[Mapping[str, Any], str]], each: bool) -> None:
    """The table, and what it does not hold."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    checks: dict[str, Counter[str]] = defaultdict(Counter)
    for one in answers:
        rows[one.question.kind]["other" if one.said == "no" and not one.own else one.said] += 1
        checks[one.question.kind].update(one.by if one.said == "no" else ())
    for case, _ in left_out:
        rows[case["kind_name"]]["not asked"] += 1
    print(
        f"{'kind':<32}{'refused':>8}{'otherwise':>11}{'unknown':>9}{'let through':>13}{'failed':>8}{'not asked':>11}  by"
    )
    for kind in KINDS:
        row, by = rows[kind], ", ".join(f"{name} {count}" for name, count in checks[kind].most_common())
        failed = row["error"] + row["too slow"]
        print(
            f"{kind:<32}{row['no']:>8}{row['other']:>11}{row['unknown']:>9}{row['yes']:>13}{failed:>8}{row['not asked']:>11}  {by}"
        )
    if each:
        for one in sorted(answers, key=lambda answer: answer.question.id):
            words = " ".join(
                word for word in one.question.arguments if word not in ("--format", "json", "--quiet")
            )
            print(
                f"{one.question.id} {one.question.kind} [{one.question.check}] {words}: {one.said} {', '.join(one.by)}"
            )
    print("\nnot asked:")
    for why, count in Counter(
        re.sub(r"^.* is not read", "the engine is not read", why) for _, why in left_out
    ).items():
        print(f"{count:>5}  {why}")
    print("\nchecks of cases that were let through or not asked, as the cases name them:")
    missed = [one.question.check for one in answers if one.said != "no"] + [
        case["check"] for case, _ in left_out
    ]
    for name, count in Counter(missed).most_common():
        print(f"{count:>5}  {name}")


def main() -> int:
    """Ask every case that can be asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", action="store_true", help="every case that was asked")
    parser.add_argument("--jobs", type=int, default=2, help="so many at once")
    given = parser.parse_args()
    with (SHARED / "cases" / "failures.jsonl").open() as lines:
        cases = [json.loads(line) for line in lines]
    asked = [(case, question(case)) for case in cases]
    left_out = [(case, found) for case, found in asked if isinstance(found, str)]
    with ThreadPoolExecutor(given.jobs) as pool:
        answers = list(pool.map(answer, [found for _, found in asked if isinstance(found, Question)]))
    report(answers, left_out, given.each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
