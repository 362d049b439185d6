"""argv that bring images from one container engine into another; docker and podman take the same words."""

from __future__ import annotations


def save(engine: str, image: str) -> tuple[str, ...]:
    """Writes an image as an archive to stdout, in the one form that both engines load."""
    form = ("--format", "docker-archive") if engine == "podman" else ()
    return (engine, "save", *form, image)


def load(engine: str) -> tuple[str, ...]:
    """Puts an archive from stdin into the engine."""
    return (engine, "load", "-q")


def pull(engine: str, image: str, architecture: str | None = None) -> tuple[str, ...]:
    """Fetches an image from its registry; ``architecture``: of another kind of machine than the one that fetches it."""
    platform = ("--platform", f"linux/{architecture}") if architecture else ()
    return (engine, "pull", "-q", *platform, "--", image)


def tag(engine: str, image: str, name: str) -> tuple[str, ...]:
    """Gives an image that is there a further name."""
    return (engine, "tag", image, name)


def identify(engine: str, image: str) -> tuple[str, ...]:
    """Prints the identifier of an image: the digest of its configuration, which names every layer."""
    return (engine, "image", "inspect", "--format", "{{.Id}}", "--", image)


def program(python: str, source: str) -> tuple[str, ...]:
    """Runs a program of ours; nothing of it stays there, and nothing of the place it runs in is imported."""
    return (python, "-I", "-c", source)
