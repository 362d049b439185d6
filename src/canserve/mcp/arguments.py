"""What each tool takes. Their JSON Schemas are made from these types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canserve.mcp.asking import Question

Word = Annotated[str, Field(min_length=1, max_length=4000)]
Words = Annotated[list[Word], Field(max_length=64)]
Count = Annotated[int, Field(ge=1, le=1 << 40)]

MODEL = "A Hub id, a folder, a config.json or a GGUF file."
BUILD = (
    "NAME==VERSION, a wheel, a virtual environment or source tree (MACHINE:/PATH elsewhere), "
    "docker-daemon:IMAGE@MACHINE, docker://HOST/REPOSITORY:TAG or container://NAME@MACHINE."
)
MACHINE = "`local`, an ssh destination, a cluster file (.toml), or profile:NAME."
OFFLINE = "Use no network at all: what is neither here nor cached is unknown."


class OfModel(Question):
    """One model."""

    model: Word = Field(description=MODEL)
    offline: bool = Field(False, description=OFFLINE)


class OfBuild(Question):
    """One build."""

    build: Word = Field(description=BUILD)
    arch: Literal["x86_64", "aarch64"] | None = Field(None, description="CPU, where there are several.")
    offline: bool = Field(False, description=OFFLINE)


class OfMachine(Question):
    """One machine, or several."""

    machine: Word = Field(description=MACHINE)
    links: bool = Field(False, description="Try what passes between the machines: addresses, ports, sizes.")
    offline: bool = Field(False, description=OFFLINE)


class Check(Question):
    """A model against builds."""

    model: Word | None = Field(None, description=f"{MODEL} None: the recipe's.")
    offline: bool = Field(False, description=OFFLINE)
    recipe: Word | None = Field(
        None,
        description="The path of a recipe (compose file, server command line, unit, manifest): model, builds and flags "
        "where they are not named. Read, never executed.",
    )

    builds: Words = Field([], description=f"{BUILD} None: the newest suitable release of every engine.")
    on: Word | None = Field(None, description=f"Where it would run: {MACHINE}")
    flags: Words = Field([], description="Flags for the engine, as they would stand on its command line.")
    transformers: Word | None = Field(
        None, description="Judge as if this version were installed beside the engine."
    )
    arch: Literal["x86_64", "aarch64"] | None = Field(None, description="CPU, where no machine says it.")


class Candidates(OfModel):
    """Builds at hand for a model on machines."""

    on: Annotated[Words, Field(min_length=1)] = Field(description=MACHINE)
    builds: Words = Field([], description=f"Further builds: {BUILD}")
    seconds: float = Field(120.0, ge=1, le=3600, description="Begin no further candidate after so many.")


class Plan(OfModel):
    """Layouts of a model on machines."""

    on: Annotated[Words, Field(min_length=1)] = Field(description=f"{MACHINE} Several alike: 2xprofile:NAME.")
    builds: Words = Field([], description=f"{BUILD} None: the newest that suit.")
    context: Count | None = Field(None, description="Tokens of the longest sequence.")
    concurrency: Count | None = Field(None, description="Sequences of that length at once.")
    tp: Count | None = Field(None, description="Tensor parallel; of tp, pp, dp those not named are 1 then.")
    pp: Count | None = Field(None, description="Pipeline stages.")
    dp: Count | None = Field(None, description="Data parallel replicas.")
    engine_args: Words = Field([], description="NAME=VALUE: engine options under the engine's own names.")
    goal: Literal["latency", "throughput", "context"] = Field(
        "latency", description="What plans are ranked for."
    )


class Since(Question):
    """Names whose history is asked."""

    names: Annotated[Words, Field(min_length=1)] = Field(
        description="Architectures, model types, GGUF architectures, or models."
    )


class Diagnose(Question):
    """Logs."""

    path: Word | None = Field(
        None, description="A log, or a folder with the logs and stack dumps of one run."
    )
    text: Annotated[str, Field(max_length=2_000_000)] | None = Field(None, description="Or the log itself.")
    run: Annotated[str, Field(max_length=64)] | None = Field(
        None,
        description="Or a deployment, by its name: its logs are read on its machines, or as they were kept.",
    )


class Verify(Question):
    """An endpoint."""

    url: Word | None = Field(None, description="Of an OpenAI-compatible server, with or without /v1.")
    run: Annotated[str, Field(max_length=64)] | None = Field(
        None,
        description="Or a deployment, by its name: it is asked where it answers, and compared with its plan.",
    )
    model: Word | None = Field(None, description="Its name in requests; None: the first that is listed.")
    plan: Word | None = Field(None, description="A saved plan to compare with: its path.")
    expect: list[Literal["tools", "reasoning", "schema", "logprobs", "metrics", "dummy"]] = Field(
        [], description="What is a no, where it is not offered."
    )
    context: Count | None = Field(
        None, description="Tokens of the longest sequence, where it does not say it."
    )
    key_file: Word | None = Field(
        None, description="The path of a file with the API key; never the key itself."
    )
    thorough: bool = Field(False, description="Up to ten minutes, with load; else two at most.")


STATE = "The folder of claims and logs on the machines, where it is not the usual one."


class Run(Question):
    """A deployment."""

    run: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Its name; None: those of the journal."
    )
    on: Words = Field([], description="Machines to look at; none: as the journal says.")
    state: Word | None = Field(None, description=STATE)


class Logs(Run):
    """What it wrote."""

    tail: int = Field(100, ge=1, le=5000, description="Lines of each process.")


class Explain(Question):
    """A part of an answer."""

    address: Word = Field(
        description="As an answer gives it: canserve://answers/3/builds/0/findings/4/evidence, also with ?from=N."
    )


class Approved(Question):
    """A change: shown first, carried out when the same tool is called with what approves it."""

    approve: Annotated[str, Field(max_length=64)] | None = Field(
        None,
        description="What the call that showed the steps answered; then nothing else is read of the arguments.",
    )


class Up(Approved):
    """A deployment that is to be started."""

    plan: Word | None = Field(None, description="A saved plan's path, or the address of an answer of `plan`.")
    on: Words = Field([], description=f"The machines of the plan: {MACHINE}")
    inside: Word | None = Field(
        None, description="docker-daemon:IMAGE, podman:IMAGE or the absolute path of an environment there."
    )
    mounts: Words = Field([], description="/THERE:/INSIDE[:rw], for containers.")
    hub_cache: Word | None = Field(None, description="The Hub cache on the machines.")
    wait: float = Field(600.0, ge=0, le=7200, description="Seconds until it should answer.")
    tries: int = Field(
        3, ge=1, le=16, description="Plans started at most, one after the other until one serves."
    )
    distribute: bool = Field(True, description="Bring image and weights to machines that lack them.")
    state: Word | None = Field(None, description=STATE)


class Down(Approved):
    """A deployment that is to be taken away."""

    run: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Its name; None: the only one there is."
    )
    on: Words = Field([], description="Its machines; none: as the journal says.")
    state: Word | None = Field(None, description=STATE)


class Adopt(Approved):
    """A deployment that is to be taken over."""

    run: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Its name; None: the only one there is."
    )
    on: Words = Field([], description="The machines that hold it.")
    state: Word | None = Field(None, description=STATE)


class Distribute(Approved):
    """What is to be brought to machines."""

    to: Words = Field([], description=f"Where it has to be: {MACHINE}")
    image: Word | None = Field(None, description="An image that a machine holds, or docker://HOST/NAME:TAG.")
    weights: Word | None = Field(
        None, description="/PATH here or MACHINE:/PATH; also a model of a Hub cache."
    )
    into: Word | None = Field(None, description="Folder of the weights on the other machines.")
