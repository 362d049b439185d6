"""environment-pins-no-address: variables of an image name no address or interface that the machine does not have.

An address that was right where the image was made makes ranks elsewhere wait for one another for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_around
from canserve.checks.reader import Check, Reader
from canserve.facts import Known
from canserve.rules import stack as rules
from canserve.subjects.addresses import is_inner
from canserve.verdict import No, Unknown, Verdict, Yes

if TYPE_CHECKING:
    from canserve.subjects.host import Interface


NOWHERE = frozenset({"", "auto", "local", "localhost", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


def pins_none(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``environment-pins-no-address``."""
    pins = read_around(reader, case.build.stack.pins)
    pinned = _bound(pins, case.build.identity.engine)
    if not pinned:
        return Yes("its variables bind it to no address and to no network interface")
    again = _set_anew(reader, case)
    bound = {name: what for name, what in pinned.items() if name not in again}
    if not bound:
        return Yes(f"its commands set anew what its variables bind it to: {', '.join(pinned)}")
    from canserve.subjects.machine import NOT_LOOKED

    machine = machine_of(case)
    known = reader.read(machine.interfaces) if isinstance(machine.interfaces, Known) else None
    looked = machine.interfaces is not NOT_LOOKED
    needs: list[str] = []
    doubts: list[Unknown] = []
    for name, (kind, value) in bound.items():
        verdict = (
            _address(name, value, known) if kind == "address" else _interface(name, value, known, looked)
        )
        match verdict:
            case No():
                return verdict
            case Unknown():
                doubts.append(verdict)
            case str():
                needs.append(verdict)
            case None:
                pass
    shown = ", ".join(f"{name}={value}" for name, (_, value) in bound.items())
    if doubts:
        return Unknown("; ".join(each.because for each in doubts), doubts[0].ask)
    if looked:
        return Yes(f"what its variables bind it to is on the machine: {shown}", tuple(needs))
    return Yes(f"its variables bind it, and whoever starts it can bind it otherwise: {shown}", tuple(needs))


def _bound(pins: Mapping[str, str], engine: str) -> Mapping[str, tuple[str, str]]:
    """The variables that count, with what they bind."""
    found = {}
    for name, value in pins.items():
        row = rules.bound(name)
        if row is not None and rules.heeded(row, engine) and row.text("binds") in {"address", "interface"}:
            found[name] = (row.text("binds"), value)
    return dict(sorted(found.items(), key=lambda item: item[1][0]))  # addresses before interfaces


def _set_anew(reader: Reader, case: Case) -> frozenset[str]:
    """The variables that every process of the deployment is started with; none where no commands were written."""
    found = None if case.deployment is None else case.deployment.start
    if not isinstance(found, Known) or not found.value.processes:
        return frozenset()
    reader.cite(found.evidence)
    return frozenset.intersection(*(frozenset(one.environment) for one in found.value.processes))


def _override(name: str) -> str:
    return f"start it with -e {name}= and a value of the machine's own"


def _address(name: str, value: str, interfaces: Iterable[Interface] | None) -> No | Unknown | str | None:
    """What is wrong with an address; a string: what the user must see to, None: nothing."""
    host = value.rpartition("://")[2]
    host = host.partition("]")[0].lstrip("[") if host.startswith("[") else host
    host = host.rpartition(":")[0] if host.count(":") == 1 else host
    if host in NOWHERE:
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return Unknown(
            f"the image sets {name}={value}, a name that is resolved where it starts", _override(name)
        )
    if address.is_loopback:
        return f"one machine only, for the image sets {name}={value}: otherwise {_override(name)}"
    own = _addresses(interfaces)
    if own is None:
        return Unknown(
            f"the image sets {name}={value}; whether that is this machine is not known", _override(name)
        )
    if str(address) in own:
        return f"this machine only, for the image sets {name}={value}: on any other {_override(name)}"
    return No(
        f"the image sets {name}={value}, which is no address of this machine: ranks would wait for it for ever",
        _override(name),
    )


def _addresses(interfaces: Iterable[Interface] | None) -> frozenset[str] | None:
    """The machine's own addresses; None: not all of them are known."""
    if interfaces is None:
        return None
    found: set[str] = set()
    for each in interfaces:
        if each.addresses is None:
            return None
        for text in each.addresses:
            try:
                found.add(str(ip_address(text.partition("/")[0].partition("%")[0])))
            except ValueError:
                return None
    return frozenset(found)


def _interface(
    name: str, value: str, interfaces: Sequence[Interface] | None, looked: bool
) -> No | Unknown | str | None:
    """The same of an interface.

    Of a machine that nobody looked at a condition can be told that whoever starts it can see to; what could not be
    read of one that was looked at stays unknown.
    """
    if not value:
        return None
    if not looked:
        return f"an interface that {name}={value} picks on each machine, or -e {name}= and one that it has"
    if interfaces is None:
        return Unknown(
            f"the image sets {name}={value}; whether the machine has such an interface is not known",
            _override(name),
        )
    up = [each.name for each in interfaces if each.up]
    fits = _fitting(name, value, up)
    if fits is None:
        return Unknown(
            f"the image sets {name}={value}, of which it was not told what it picks", _override(name)
        )
    if not fits:
        own = [each.name for each in interfaces if each.up and not is_inner(each)]
        return No(
            f"the image sets {name}={value}, and no interface of the machine that is up has such a name: on the "
            "machine's network (--network=host) nothing would connect",
            f"start it with -e {name}={' or '.join(own)}" if own else _override(name),
        )
    if fits == ["lo"]:
        return f"one machine only, for the image sets {name}={value}: otherwise {_override(name)}"
    # A container's network of its own has one interface, which engines call so.
    return None if _fitting(name, value, ["eth0"]) else "the machine's own network (--network=host)"


def _fitting(name: str, value: str, names: Sequence[str]) -> list[str] | None:
    """Those of these interfaces that a variable lets be used; None: it may pick by something else than names."""
    from canserve.checks.machines.pinned import allows  # with it come all checks of machines

    if "/" in value:  # OpenMPI takes networks as well
        return None
    return [each for each in names if allows(name, value, each)]


ENVIRONMENT = Check(
    "environment-pins-no-address",
    "The image's variables bind it to no address and no network interface that the machine does not have.",
    pins_none,
    needs_machine=True,
)
