"""An image brought to machines: looked for, fetched or copied, only the layers that an engine lacks, and verified."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canserve.commands import images
from canserve.plan.roads import Leg, Room, Stand, held, legs, sizes
from canserve.probes.container.naming import Held
from canserve.probes.live import Way, asked
from canserve.run.transfer_hands import Carried, Hands, Job, carried_over
from canserve.run.transfer_talk import TransferError
from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look
from canserve.trees.fanout import fanout
from canserve.units import Bytes

PROGRAMS = ("docker", "podman")
_DISTINCT = "{{.Id}} {{json .RootFS.Layers}}"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PULLING = 7200.0


@dataclass(frozen=True, slots=True)
class Engine:
    """What a machine's container engine is and holds."""

    machine: str
    program: str
    store: str
    """Folder of its images."""
    partial: bool
    """It takes archives without the layers that it has: docker, where it keeps layers itself."""
    id: str | None
    """Of the wanted image; None: it is not there."""
    layers: tuple[str, ...]
    sizes: tuple[Bytes, ...] | None
    size: Bytes | None
    architecture: str
    """As images name it; empty: not told."""
    others: Mapping[str, tuple[str, ...]]
    """Layers of every image that it holds, by identifier."""


def looked(name: str, machine: str, hands: Hands, programs: Sequence[str] = PROGRAMS) -> Engine:
    """One script. Raises TransferError: the machine is not reached, or has no engine that this user may use."""
    sections = [each for program in programs for each in _sections(program, shlex.quote(name))]
    look = asked(hands.nodes[machine], hands.nodes, sections, Way(), Limits(whole=120.0, output=16 << 20))
    if look.trouble is not None:
        raise TransferError(look.trouble.why, "Unreached")
    whys = []
    for each in programs:
        info = look.answers[f"info_{each}"]
        found = _document(info.text) if info.status == 0 else None
        if found is not None:
            return _engine(machine, each, found, look)
        whys.append(f"{each}: {info.complaint}")
    raise TransferError(f"{machine}: no container engine can be used: {'; '.join(whys)}")


def _sections(program: str, image: str) -> tuple[Section, ...]:
    """Of the second engine only where the first gives no answer."""
    before = "ENGINE=; INFO="
    asks = f"INFO=$(within 20 {program} info --format '{{{{json .}}}}') && ENGINE={program}"
    own = f'[ "$ENGINE" = {program} ] || exit 1; within 40 {program}'
    ids = f"ids=$(within 20 {program} image ls -aq --no-trunc | sort -u) || exit 1"
    return (
        Section(
            f"info_{program}",
            f'[ "$ENGINE" = {program} ] && printf "%s\\n" "$INFO" && exit 0\n{program} info >/dev/null || exit 1; echo "no answer" >&2; exit 1',
            before=f'[ -n "${{ENGINE-}}" ] || {{ {before}; {asks}; }}',
        ),
        Section(f"image_{program}", f"{own} image inspect --format '{{{{json .}}}}' {image}", 1 << 20),
        Section(
            f"steps_{program}", f"{own} history --no-trunc --human=false --format '{{{{.Size}}}}' {image}"
        ),
        Section(
            f"held_{program}",
            f'[ "$ENGINE" = {program} ] || exit 1\n{ids}\n'
            f'[ -z "$ids" ] || within 40 {program} image inspect --format {shlex.quote(_DISTINCT)} $ids',
            4 << 20,
        ),
    )


def _document(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _engine(machine: str, program: str, info: Mapping[str, Any], look: Look) -> Engine:
    image = look.answers[f"image_{program}"]
    told = (_document(image.text) if image.status == 0 else None) or {}
    layers = tuple(map(str, (told.get("RootFS") or {}).get("Layers") or ()))
    steps = [int(line) for line in look.answers[f"steps_{program}"].text.split() if line.isdigit()]
    store = info.get("DockerRootDir") or (info.get("store") or {}).get("graphRoot") or "/var/lib/docker"
    machine_kind = str(info.get("Architecture") or (info.get("host") or {}).get("arch") or "")
    status = json.dumps(info.get("DriverStatus") or [])
    others: dict[str, tuple[str, ...]] = {}
    for line in look.answers[f"held_{program}"].text.splitlines():
        known, _, listed = line.partition(" ")
        try:
            others[plain(known)] = tuple(map(str, json.loads(listed) or ()))
        except (ValueError, TypeError):
            continue  # an image whose layers are not told saves nothing
    return Engine(
        machine=machine,
        program=program,
        store=str(store),
        partial=program == "docker" and "io.containerd" not in status,
        id=plain(str(told["Id"])) if "Id" in told else None,
        layers=layers,
        sizes=sizes(steps, layers),
        size=Bytes(int(told["Size"])) if isinstance(told.get("Size"), int) else None,
        architecture=_ARCHITECTURES.get(machine_kind, machine_kind),
        others=others,
    )


def plain(digest: str) -> str:
    """An identifier as both engines can be compared by: podman writes it without the kind of hash."""
    return digest if digest.startswith("sha256:") else f"sha256:{digest}"


def bring_image(it: Held, registry: bool, targets: Sequence[str], hands: Hands) -> tuple[Carried, ...]:
    """The image on every target. Never raises for what machines do: what failed says why."""
    asked_for = list(hands.nodes)

    def look(name: str) -> Engine | TransferError:
        try:
            return looked(it.name, name, hands)
        except TransferError as error:
            return error

    hands.tell(f"looking for {it.name} on {len(asked_for)} machines")
    seen = dict(zip(asked_for, fanout(look, asked_for, 16), strict=True))
    out = [
        Carried(it.name, n, "there", None, problem=str(e))
        for n, e in seen.items()
        if isinstance(e, TransferError)
    ]
    out = [one for one in out if one.machine in targets]
    engines = {name: engine for name, engine in seen.items() if isinstance(engine, Engine)}
    left = [name for name in targets if name in engines]
    work = _Work(it, registry, hands, engines)
    work.targets = tuple(left)
    while left and (rounds := work.rounds(left)):
        for each in rounds if hands.dry else rounds[:1]:  # what failed is no source for the next
            done = hands.together(work.leg, each)
            stuck = {
                one.machine: one.problem for one in done if one.problem is not None and one.road == "pull"
            }
            work.cut_off |= stuck  # another road may lead there
            out += [one for one in done if one.machine not in stuck]
            left = [name for name in left if name in stuck or name not in {leg.to for leg in each}]
    lost = [name for name in targets if name in engines and name not in {one.machine for one in out}]
    return (*out, *(Carried(it.name, name, "there", None, problem=work.nowhere(name)) for name in lost))


class _Work:
    """One image on its way to all machines."""

    def __init__(self, it: Held, registry: bool, hands: Hands, engines: dict[str, Engine]) -> None:
        self.it, self.registry, self.hands, self.engines = it, registry, hands, engines
        self.targets: tuple[str, ...] = ()
        self.cut_off: dict[str, str] = {}
        """Machines that could not fetch it from its registry, and why."""
        holders = [engine for engine in engines.values() if engine.id is not None]
        named = engines.get(it.machine)
        self.wanted = named if named is not None and named.id is not None else next(iter(holders), None)
        """Where it is read how the image is; None: on no machine yet."""

    def nowhere(self, machine: str) -> str:
        """Why no road leads to a machine."""
        if self.cut_off:
            return self.cut_off.get(machine) or "; ".join(self.cut_off.values())
        if self.wanted is not None:
            return "no machine that holds it is reached"
        if self.registry:
            return "no machine holds it, and none that may fetch it has internet"
        return f"no machine holds {self.it.name}"

    def rounds(self, targets: Sequence[str]) -> tuple[tuple[Leg, ...], ...]:
        """See ``legs``."""
        nodes = self.hands.nodes
        stands = [
            Stand(
                name,
                nodes[name].ip,
                False if name in self.cut_off else nodes[name].internet,
                self.has(engine),
            )
            for name, engine in self.engines.items()
        ]
        return legs(stands, targets, self.registry)

    def has(self, engine: Engine) -> bool:
        """Whether all of it is there, under whatever name."""
        wanted = self.wanted
        return wanted is not None and wanted.id is not None and wanted.id in {engine.id, *engine.others}

    def leg(self, leg: Leg) -> Carried:
        """One machine's way to it."""
        begun = time.monotonic()
        done = Carried(self.it.name, leg.to, leg.road, leg.source)
        try:
            match leg.road:
                case "there":
                    done = self.named(done)
                case "pull":
                    done = self.pulled(done)
                case _:
                    done = self.copied(leg, done)
        except TransferError as error:
            done = replace(done, problem=str(error))
        return replace(done, seconds=time.monotonic() - begun)

    def run(self, machine: str, argv: Sequence[str], seconds: float) -> str:
        """One command there. Raises TransferError with what it said."""
        node = self.hands.nodes[machine]
        step = Section("step", f"within {seconds:.0f} {shlex.join(argv)}")
        look = asked(node, self.hands.nodes, [step], Way(), Limits(whole=seconds + 20))
        if look.trouble is not None:
            raise TransferError(look.trouble.why, "Cut")
        answer = look.answers["step"]
        if answer.status != 0:
            raise TransferError(f"{machine}: {shlex.join(argv)}: {answer.complaint}")
        return answer.text.strip()

    def named(self, done: Carried) -> Carried:
        """It is there; at most its name is not."""
        engine, wanted = self.engines[done.machine], self.wanted
        assert wanted is not None
        assert wanted.id is not None
        if engine.id == wanted.id:
            return replace(done, digest=wanted.id)
        if not _may_be_given(self.it.name):
            return replace(done, digest=wanted.id)
        argv = images.tag(engine.program, wanted.id, self.it.name)
        done = replace(done, digest=wanted.id, argv=((done.machine, argv),), note=f"named {self.it.name}")
        if not self.hands.dry:
            self.run(done.machine, argv, 30.0)
        return done

    def pulled(self, done: Carried) -> Carried:
        """The machine fetches it itself."""
        engine = self.engines[done.machine]
        kinds = {self.engines[name].architecture for name in self.targets}
        wanted = next(iter(kinds)) if len(kinds) == 1 and engine.architecture not in kinds else None
        argv = images.pull(engine.program, self.it.name, wanted)
        done = replace(done, argv=((done.machine, argv),))
        if self.hands.dry:
            return done
        self.hands.tell(f"{done.machine} fetches {self.it.name}")
        self.run(done.machine, argv, _PULLING)
        self.engines[done.machine] = engine = looked(self.it.name, done.machine, self.hands)
        if self.wanted is None:
            self.wanted = engine
        return replace(done, digest=engine.id)

    def copied(self, leg: Leg, done: Carried) -> Carried:
        """From another machine, without the layers that are there."""
        assert leg.source is not None
        source, target = self.engines[leg.source], self.engines[leg.to]
        wanted = self.wanted or source
        there = held(wanted.layers, list(target.others.values())) if target.partial else 0
        name = self.it.name if source.id == wanted.id else wanted.id or self.it.name
        save, load = images.save(source.program, name), images.load(target.program)
        note = f"{there} of {len(wanted.layers)} layers are there" if there else ""
        done = replace(done, argv=((leg.source, save), (leg.to, load)), note=note)
        if self.hands.dry:
            return done
        if wanted.id is None:
            raise TransferError(f"{leg.source} does not hold it: see what failed there")
        try:
            told, road, remark = carried_over(self.job(save, load, wanted, target, there), leg, self.hands)
        except TransferError as error:
            if error.kind != "EngineError" or "no space" in str(error).lower():
                raise
            # Layers may have been taken away meanwhile, or what was kept of a cut copy is not what it was.
            note, remark_before = "", f"sent whole, after {error}"
            told, road, remark = carried_over(self.job(save, load, wanted, target, 0), leg, self.hands)
            remark = "; ".join(filter(None, (remark_before, remark)))
        done = replace(
            done, road=road, moved=Bytes(int(told["wire"])), note="; ".join(filter(None, (note, remark)))
        )
        target_id = plain(str(told["holds"])) if told.get("holds") else None
        if target_id == wanted.id:  # asked over there, under the name that it is to have
            self.engines[leg.to] = replace(
                target, id=target_id, others={**target.others, target_id: wanted.layers}
            )
            return replace(done, digest=target_id)
        return self.verified(done, wanted)

    def job(
        self, save: Sequence[str], load: Sequence[str], wanted: Engine, target: Engine, there: int
    ) -> Job:
        """What both programs are told."""
        lacking = _lacking(wanted, there)
        check = images.identify(target.program, self.it.name)

        def settle(
            first: Mapping[str, Any], has: Mapping[str, Any]
        ) -> tuple[dict[str, Any], dict[str, Any], int | None]:
            del first
            came = sum(map(int, has["have"].values()))
            least = lacking.count if lacking is not None else 0
            free = None if has["free"] is None else Bytes(int(has["free"]))
            room = Room(
                Bytes(2 * least),
                free,
                f"{target.store} on {target.machine} (the archive, and what comes out of it)",
            )
            if not room.enough:
                raise TransferError(f"the disk is too small: {room.said}", "Room")
            kept = max(least - came, 0)
            spool = int(has["spool"] or 0) - (room.needed.count if has["one"] else 0)
            keep = spool >= kept
            have = has["have"] if keep else {}  # without room for more, what came before has to go
            send = {"argv": list(save), "layers": list(wanted.layers), "held": there, "have": have}
            whole = (kept if keep else least) if lacking is not None else None
            return send, {"argv": list(load), "keep": keep, "check": list(check)}, whole

        assert wanted.id is not None
        take = {"do": "take-image", "id": wanted.id.partition(":")[2], "store": target.store}
        return Job(self.it.name, {"do": "send-image"}, take, settle)

    def verified(self, done: Carried, wanted: Engine) -> Carried:
        """What the engine over there says that it holds now, and under which name."""
        engine = looked(self.it.name, done.machine, self.hands, (self.engines[done.machine].program,))
        if wanted.id in engine.others and engine.id != wanted.id and _may_be_given(self.it.name):
            self.run(done.machine, images.tag(engine.program, wanted.id or "", self.it.name), 30.0)
            engine = replace(engine, id=wanted.id)
        self.engines[done.machine] = engine
        if engine.id == wanted.id or wanted.id in engine.others:
            return replace(done, digest=wanted.id)
        if engine.id is not None and engine.layers == wanted.layers:
            other = "the same layers; the engine wrote their description in its own form"
            return replace(done, digest=engine.id, note="; ".join(filter(None, (done.note, other))))
        return replace(done, problem=f"what came is not what was sent: {engine.id}, not {wanted.id}")


def _may_be_given(name: str) -> bool:
    """Whether an image can be named so; a digest is what it is."""
    return "@" not in name and not name.startswith("sha256:")


def _lacking(wanted: Engine, there: int) -> Bytes | None:
    """Bytes of the layers that are not there; None: not told apart by the engine."""
    if not there:
        return wanted.size
    if wanted.sizes is None:
        return None
    return Bytes(sum(size.count for size in wanted.sizes[there:]))
