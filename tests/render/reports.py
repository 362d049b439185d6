"""Reports made by hand: every verdict, every kind of missing, and names that try to break the output."""

from __future__ import annotations

from canserve.api import BuildReport, Report
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.subjects.build import (
    Build,
    ConfigShim,
    Fallback,
    Flag,
    Identity,
    ModelClass,
    QuantMethod,
    Registered,
    Site,
    Transformers,
)
from canserve.subjects.model import Model, Parameters, Quantization, Tokenizer
from canserve.trees.tree import Cost
from canserve.verdict import Finding, No, Skipped, Unknown, Yes

ARCH = "Qwen3_5MoeForConditionalGeneration"
HOSTILE = "evil\x1b[2J\x1b]0;owned\x07 \u202eline\nbreak [red]x[/red] <script> | `tick` @someone #12 \udc80"
REGISTRY = "vllm/model_executor/models/registry.py"
CONFIG = "vllm/transformers_utils/config.py"


def model(subject: str = "Qwen/Qwen3.5-122B-A10B-FP8") -> Model:
    def look(saw: str) -> tuple[Evidence, ...]:
        return (Evidence(subject, "config.json", saw),)

    return Model(
        subject=subject,
        origin="folder",
        revision=Known(None),
        files=Known(("config.json",)),
        config=Known({"architectures": [ARCH]}),
        architectures=Known((ARCH,), look(f"architectures: {ARCH}")),
        model_type=Known("qwen3_5_moe", look("model_type: qwen3_5_moe")),
        nested=Known(()),
        auto_map=Known({}),
        parameters=Known(Parameters({"F8_E4M3": 122_890_000_000, "BF16": 2_270_000_000}, 125_090_000_000,
                                    127_460_000_000, 78_000, 39)),
        quantization=Known(Quantization("fp8", "fp8", "config.json: quantization_config", (), (), None, {})),
        tokenizer=Known(Tokenizer(("tokenizer.json",), "Qwen2Tokenizer", {}, "fast")),
        processor=Known(None),
        chat_template=Known("{{ messages }}"),
        mtp_layers=Known(1),
        weight_format=Known("safetensors"),
        gguf_architecture=Known(None),
    )  # fmt: skip


def build(subject: str = "vllm==0.14.0") -> Build:
    def look(path: str, saw: str, line: int) -> tuple[Evidence, ...]:
        return (Evidence(subject, f"{path}:{line}", saw),)

    def site(line: int) -> Site:
        return Site(REGISTRY, line)

    qwen2 = "Qwen2ForCausalLM"
    return Build(
        identity=Identity(
            subject=subject,
            engine="vllm",
            version=Known("0.14.0"),
            origin="wheel on the package index",
            content=Known("sha256:00"),
            platforms=Known(("manylinux1_x86_64",)),
            requires_python=Known(">=3.10,<3.14"),
            requires=Known(("transformers<5,>=4.56.0", "torch==2.9.1")),
        ),
        transformers=Transformers(
            installed=Missing(Cause.UNREACHED, "not an environment"),
            requirement=Known("<5,>=4.56.0"),
            table=Missing(Cause.UNREACHED, "not loaded"),
        ),
        registry=Known(
            {
                qwen2: Registered(qwen2, "vllm.models.qwen2", qwen2, "text_generation", site(10)),
                "GoneForCausalLM": Registered(
                    "GoneForCausalLM", "vllm.models.gone", "Gone", "pooling", site(11)
                ),
                "OddForCausalLM": Registered("OddForCausalLM", "vllm.models.odd", "Odd", "pooling", site(12)),
            },
            look(REGISTRY, "3 architectures in _VLLM_MODELS", 9),
        ),
        classes={
            qwen2: Known(
                ModelClass("vllm.models.qwen2_impl", qwen2, site(1), {"supports_pp": True, "x": None})
            ),
            "GoneForCausalLM": Known(None),
            "OddForCausalLM": Missing(Cause.UNREADABLE, "odd.py: not parseable as Python"),
        },
        fallback=Known(Fallback(("TransformersForCausalLM",), ("exists",), True, False, {}, True, site(400))),
        config_shims=Known({"qwen3_next": ConfigShim("qwen3_next", "Qwen3NextConfig", Site(CONFIG, 30))}),
        config_fixups=Known({"deepseek_v32": Site(CONFIG, 80)}),
        quantization=Known({"fp8": QuantMethod("fp8", "Fp8Config", Known(80), Site("q.py", 1))}),
        kv_cache_dtypes=Known(("auto", "fp8")),
        reasoning_parsers=Known(("qwen3",)),
        tool_parsers=Missing(Cause.UNREADABLE, "unknown form of parser table", ask="report it"),
        flags=Known({"--port": Flag("--port", None, Site("cli.py", 3), ("-p",))}),
        launchers=Known(("ray", "mp")),
    )


def no_report(target: str = "vllm==0.14.0") -> BuildReport:
    fix = "use vllm 0.17.0 or newer, the first release that lists it"
    return BuildReport(
        build=build(target),
        target=target,
        machine="profile:dgx-spark",
        findings=(
            Finding(
                "tokenizer-loadable", target, Yes("tokenizer.json"), (Evidence("m", "tokenizer.json", "x"),)
            ),
            Finding(
                "architecture-registered",
                target,
                No(f"{ARCH} is not among the 262 architectures it lists; near: Qwen3MoeForCausalLM", fix),
                (
                    Evidence(target, f"{REGISTRY}:507", "262 architectures in _VLLM_MODELS"),
                    Evidence("release index", "vllm", "first listed by 0.17.0", whole=False),
                ),
            ),
            Finding(
                "config-parsable",
                target,
                No(
                    "model type qwen3_5_moe is known neither to transformers nor to its shims",
                    fix,
                ),
                (Evidence(target, f"{CONFIG}:74", "12 model types in _CONFIG_REGISTRY"),),
            ),
        ),
        skipped=(Skipped("driver-new-enough", target, "the profile names no driver"),),
    )


def yes_report(target: str = "vllm==0.17.1", needs: tuple[str, ...] = ()) -> BuildReport:
    seen = (Evidence(target, f"{REGISTRY}:530", f"{ARCH} -> qwen3_5"),)
    return BuildReport(
        build=build(target),
        target=target,
        machine="profile:dgx-spark",
        findings=(
            Finding("architecture-registered", target, Yes("listed", needs), seen),
            Finding("config-parsable", target, Yes("by its own shim"), seen),
        ),
        skipped=(Skipped("driver-new-enough", target, "the profile names no driver"),),
    )


def unknown_report(target: str = "sglang==0.5.9") -> BuildReport:
    verdict = Unknown(
        "the folder models could not be listed: permission denied", "make it readable for this user"
    )
    return BuildReport(
        build=build(target),
        target=target,
        machine=None,
        findings=(
            Finding("architecture-registered", target, verdict, (Evidence(target, "models", "", False),)),
        ),
        skipped=(),
    )


def unread_report(target: str = "vllm==9.9.9") -> BuildReport:
    why = Missing(
        Cause.UNAVAILABLE, "the package index has no such release", ask="name a release: 0.33.0 is newest"
    )
    notes = ("its index was not asked in full",)
    return BuildReport(build=why, target=target, machine=None, findings=(), skipped=(), notes=notes)


def hostile_report() -> BuildReport:
    return BuildReport(
        build=Missing(Cause.UNREADABLE, HOSTILE, (Evidence(HOSTILE, HOSTILE, HOSTILE),), HOSTILE),
        target=HOSTILE,
        machine=HOSTILE,
        findings=(Finding(HOSTILE, HOSTILE, No(HOSTILE, HOSTILE), (Evidence(HOSTILE, HOSTILE, HOSTILE),)),),
        skipped=(Skipped(HOSTILE, HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
    )


def report(*builds: BuildReport) -> Report:
    return Report(model(), builds or (no_report(), yes_report(), unknown_report()), Cost(123_456, 12, 0))
