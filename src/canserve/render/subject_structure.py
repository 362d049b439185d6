"""What was read of builds, models and machines, as the shapes of the JSON output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from canserve.api.machines import MachinesReport
from canserve.facts import Evidence, Fact, Known, Missing, derive
from canserve.render.plain import filled
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
    return filled(
        BuildFactsShape,
        build.identity,
        build,
        engine_version=build.identity.version,
        architectures=derive(
            build.registry, lambda rows: {n: _architecture(build, r) for n, r in rows.items()}
        ),
        model_types=_model_types(build),
        gpu_targets=derive(build.gpu_code, _targets),
        transformers=TransformersShape(
            build.transformers.installed, build.transformers.requirement, build.transformers.candidates()
        ),
        quantization=derive(build.quantization, lambda known: {n: _method(m) for n, m in known.items()}),
        speculative=derive(build.speculative, lambda known: tuple(sorted(known))),
        flags=derive(build.flags, _flag_names),
        flag_details=build.flags,
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
