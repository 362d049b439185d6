"""What was read of builds, models and machines, as the shapes of the JSON output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from canserve.api.machines import MachinesReport
from canserve.facts import Evidence, Fact, Known, Missing, derive
from canserve.render.structure import finding_output
from canserve.render.subject_shapes import (
    ArchitectureShape,
    BuildFactsShape,
    BuildShape,
    MachineEntryShape,
    MachineOutputShape,
    ModelOutputShape,
    ModelTypeShape,
    QuantMethodShape,
    TransformersShape,
)
from canserve.subjects.build import NOT_ASKED, Build, Extension, Flag, QuantMethod, Registered
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model


def build_output(target: str, build: Build | Missing) -> BuildShape:
    """Everything read of one build."""
    if isinstance(build, Missing):
        return BuildShape(1, target, build, {"build": build.evidence})
    facts = _facts(build)
    looks = _evidence({**_fields(build), **_fields(build.identity), **_fields(build.stack)})
    return BuildShape(1, target, facts, {_PRINTED_AS.get(name, name): look for name, look in looks.items()})


_PRINTED_AS = {"registry": "architectures", "config_shims": "model_types", "version": "engine_version"}
"""Fields of a build whose names in the output differ."""


def _facts(build: Build) -> BuildFactsShape:
    identity = build.identity
    return BuildFactsShape(
        engine=identity.engine,
        engine_version=identity.version,
        origin=identity.origin,
        content=identity.content,
        platforms=identity.platforms,
        requires_python=identity.requires_python,
        architectures=derive(
            build.registry, lambda rows: {n: _architecture(build, r) for n, r in rows.items()}
        ),
        model_types=_model_types(build),
        architecture_types=build.architecture_types,
        architecture_rewrites=build.architecture_rewrites,
        plain_config=build.plain_config,
        trusts_code=build.trusts_code,
        auto_map_rule=build.auto_map_rule,
        requires=identity.requires,
        torch=build.torch,
        gpu_targets=derive(build.gpu_code, _targets),
        gpu_code=build.gpu_code,
        cuda_needed=build.cuda_needed,
        libc_needed=build.libc_needed,
        stack=build.stack,
        transformers=TransformersShape(
            build.transformers.installed, build.transformers.requirement, build.transformers.candidates()
        ),
        fallback=build.fallback,
        dropped=build.dropped,
        elsewhere=build.elsewhere,
        plugins=build.plugins,
        quantization=derive(build.quantization, lambda known: {n: _method(m) for n, m in known.items()}),
        literal_methods=build.literal_methods,
        vendor_quantization=build.vendor_quantization,
        kv_cache_dtypes=build.kv_cache_dtypes,
        kv_cache_engines=build.kv_cache_engines,
        engine_flags=build.engine_flags,
        reasoning_parsers=build.reasoning_parsers,
        tool_parsers=build.tool_parsers,
        speculative=derive(build.speculative, lambda known: tuple(sorted(known))),
        draft_classes=build.draft_classes,
        flags=derive(build.flags, _flag_names),
        flag_details=build.flags,
        flag_syntax=build.flag_syntax,
        attention_backends=build.attention_backends,
        moe_backends=build.moe_backends,
        launchers=build.launchers,
        rpc_worker=build.rpc_worker,
        load_formats=build.load_formats,
        gguf_architectures=build.gguf_architectures,
        gguf_types=build.gguf_types,
        gguf_vocabularies=build.gguf_vocabularies,
        gguf_projectors=build.gguf_projectors,
        converter=build.converter,
    )


def _architecture(build: Build, row: Registered) -> ArchitectureShape:
    resolved = build.classes.get(row.architecture)
    found = resolved.value if isinstance(resolved, Known) else None
    interfaces: Fact[Mapping[str, bool | str | None] | None]
    match resolved:
        case None:
            interfaces = NOT_ASKED
        case Missing():
            interfaces = resolved
        case Known(value, evidence):
            interfaces = Known(value.interfaces if value else None, evidence)
    return ArchitectureShape(
        module=found.module if found else row.module,
        class_=found.name if found else row.name,
        interfaces=interfaces,
        kind=row.kind,
        at=row.at,
        guards=row.guards,
        broken=found.broken if found else (),
        backends=row.backends,
    )


def _model_types(build: Build) -> Fact[Mapping[str, ModelTypeShape]]:
    shims, fixups = build.config_shims, build.config_fixups
    if isinstance(shims, Missing):
        return shims
    own = {name: ModelTypeShape(shim.name, shim.at, shim.overrides) for name, shim in shims.value.items()}
    rewritten = {} if isinstance(fixups, Missing) else fixups.value
    return Known({**{name: ModelTypeShape(None, at, True) for name, at in rewritten.items()}, **own})


def _method(method: QuantMethod) -> QuantMethodShape:
    return QuantMethodShape(
        min_capability=method.min_capability,
        class_=method.class_name,
        schemes=method.schemes,
        scheme_capabilities=method.scheme_capabilities,
        at=method.at,
        guards=method.guards,
        takers=method.takers,
    )


def _targets(files: Mapping[str, Fact[Extension]]) -> dict[str, tuple[str, ...]]:
    """Files with GPU code and what it is for; those that could not be read are in the whole table."""
    return {
        name: found.value.targets
        for name, found in files.items()
        if isinstance(found, Known) and found.value.units
    }


def _flag_names(flags: Mapping[str, Flag]) -> tuple[str, ...]:
    return tuple(sorted({name for flag in flags.values() for name in (flag.name, *flag.aliases)}))


def model_output(model: Model) -> ModelOutputShape:
    """Everything read of one model."""
    return ModelOutputShape(1, model.subject, model, _evidence(_fields(model)))


def machine_output(report: MachinesReport) -> MachineOutputShape:
    """Everything known of these machines."""
    machines = [node.machine for node in report.cluster.nodes]
    return MachineOutputShape(
        version=1,
        machines=tuple(MachineEntryShape(m.subject, m, _evidence(_fields(m))) for m in machines),
        links=report.cluster.links,
        preflight=report.cluster.preflight,
        findings=tuple(finding_output(finding) for finding in report.findings),
        skipped=report.skipped,
    )


def _fields(record: Build | Model | Machine | object) -> dict[str, object]:
    return {f.name: getattr(record, f.name) for f in fields(record)}  # type: ignore[arg-type]


def _evidence(facts: Mapping[str, object]) -> dict[str, tuple[Evidence, ...]]:
    return {
        n: fact.evidence for n, fact in facts.items() if isinstance(fact, Known | Missing) and fact.evidence
    }
