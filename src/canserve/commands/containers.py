"""argv of docker and podman, which take the same words: what they hold is read, and nothing of it is ever started."""

from __future__ import annotations

LABEL = "canserve"
"""Label of the containers that are created to read an image: ``docker ps -a --filter label=canserve`` lists
what a power cut left behind."""


def inspect_container(program: str, name: str) -> tuple[str, ...]:
    """Describes a container as JSON."""
    return (program, "container", "inspect", "--", name)


def inspect_image(program: str, name: str) -> tuple[str, ...]:
    """Describes an image as JSON."""
    return (program, "image", "inspect", "--", name)


def container_names(program: str) -> tuple[str, ...]:
    """Prints a name a line: of everything that runs or ran."""
    return (program, "ps", "--all", "--format", "{{.Names}}")


def image_names(program: str) -> tuple[str, ...]:
    """Prints a name a line: of every image with one."""
    return (program, "images", "--format", "{{.Repository}}:{{.Tag}}")


def create(program: str, image: str, name: str) -> tuple[str, ...]:
    """Makes a container of an image without starting it; nothing is fetched, and it would have no network."""
    return (
        *(program, "create", "--pull", "never", "--network", "none", "--label", f"{LABEL}=reading"),
        *("--name", name, "--entrypoint", "/nothing", "--", image),
    )


def remove(program: str, name: str) -> tuple[str, ...]:
    """Takes a container away, with the volumes that were made for it alone."""
    return (program, "rm", "--force", "--volumes", "--", name)


def archive(program: str, name: str, path: str) -> tuple[str, ...]:
    """Writes a file or folder of a container to stdout, as a tar archive whose names begin with its own."""
    return (program, "cp", "--", f"{name}:/{path}", "-")


def export(program: str, name: str) -> tuple[str, ...]:
    """Writes all files of a container to stdout as a tar archive, those of its volumes left out."""
    return (program, "export", "--", name)


def changes(program: str, name: str) -> tuple[str, ...]:
    """Prints a line for each path of a container that is not as in its image: ``C /usr``, ``A /usr/new``."""
    return (program, "diff", "--", name)
