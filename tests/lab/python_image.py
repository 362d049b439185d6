"""Images in which Python programs run: this machine's own Python with its libraries, as the lowest layer.

Nothing is fetched: what lies below is what Debian's packages put on this machine. ``docker import`` reads the archive as it
is written, so that an image of some gigabytes needs no file beside it.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lab.hosts import Host
from lab.spaces import LabError

PYTHON = Path("/usr/bin/python3")
BESIDE = (
    "libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libnuma.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",
    "libutil.so.1",
)  # fmt: skip
"""What compiled packages expect of a system, beside what Python itself needs."""
TOOLS = ("/usr/bin/lscpu",)
"""Programs of the system that engines ask."""
LEFT_OUT = frozenset({
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data",
    "dist-packages",
})  # fmt: skip
_FOUND = re.compile(r"(\S+) => (/\S+) \(|^\s*(/\S+) \(", re.MULTILINE)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/python3": ""}
_FOLDERS = (
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "tmp",
    "proc",
    "sys",
    "dev",
    "etc",
    "run",
    "root",
    "opt",
)
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": b"root:x:0:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
_APPLETS = ("sh", "dirname", "readlink", "env", "uname", "cat", "sleep", "tail", "rm", "mkdir", "ls", "id")


class Layer:
    """A layer that is being written."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self.archive = archive

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """A file of these bytes."""
        info = tarfile.TarInfo(path)
        info.size, info.mode = len(data), mode
        self.archive.addfile(info, io.BytesIO(data))

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        info = tarfile.TarInfo(path)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self.archive.addfile(info)

    def folder(self, path: str, mode: int = 0o755) -> None:
        """An empty folder."""
        info = tarfile.TarInfo(path)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self.archive.addfile(info)

    def tree(self, source: Path, path: str, left_out: Callable[[str], bool]) -> None:
        """A folder of this machine, but for what is left out (by its path in it)."""

        def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if left_out(info.name[len(path) + 1 :]):
                return None
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            return info

        self.archive.add(source, path, filter=kept)


def system(layer: Layer) -> None:
    """A root that Python programs run on: the interpreter, its standard library, a shell."""
    version = PYTHON.resolve().name
    library = Path("/usr/lib", version)
    for path in _FOLDERS:
        layer.folder(path, 0o1777 if path == "tmp" else 0o755)
    for path, target in _LINKS.items():
        layer.link(path, target or version)
    for path, data in _FILES.items():
        layer.file(path, data)
    layer.file("usr/bin/busybox", Path("/bin/busybox").read_bytes(), 0o755)
    for name in _APPLETS:
        layer.link(f"usr/bin/{name}", "busybox")
    for tool in (f"/usr/bin/{version}", *TOOLS):
        layer.file(tool[1:], Path(tool).read_bytes(), 0o755)
    layer.tree(library, f"usr/lib/{version}", lambda path: bool(LEFT_OUT & set(path.split("/"))))
    for path, source in sorted(_libraries(library).items()):
        layer.file(path.lstrip("/"), source.read_bytes(), 0o755)


def _libraries(library: Path) -> dict[str, Path]:
    """Path in the image -> file here: what the interpreter and its modules are linked with."""
    asked = [PYTHON, *TOOLS, *sorted((library / "lib-dynload").glob("*.so"))]
    said = subprocess.run(["ldd", *map(str, asked)], capture_output=True, text=True, check=True).stdout
    found: dict[str, Path] = {}
    for match in _FOUND.finditer(said):
        path = match[2] or match[3]
        found[path.replace("/lib", "/usr/lib", 1) if path.startswith("/lib") else path] = Path(path).resolve()
    folder = Path(next(path for path in found if path.endswith("/libc.so.6"))).parent
    for name in BESIDE:
        if not (folder / name).exists():
            raise LabError(f"no {folder / name} (Debian: libgomp1 libnuma1 libstdc++6)")
        found[str(folder / name)] = (folder / name).resolve()
    return found


def written(fill: Iterable[Callable[[Layer], None]]) -> bytes:
    """A small layer, in memory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each in fill:
            each(Layer(archive))
    return out.getvalue()


def import_image(
    host: Host, tag: str, fill: Sequence[Callable[[Layer], None]], environment: Mapping[str, str]
) -> None:
    """An image of one layer in a host's docker, written straight into it."""
    changes = [f"ENV {name}={value}" for name, value in environment.items()]
    words = ["docker", "import", *(word for change in changes for word in ("--change", change)), "-", tag]
    process = subprocess.Popen(
        host.space.entering(words), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stdin is not None and process.stderr is not None
    try:
        with tarfile.open(fileobj=process.stdin, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for each in fill:
                each(Layer(archive))
    except BrokenPipeError:
        pass  # docker says why
    finally:
        process.stdin.close()
    said = process.stderr.read().decode(errors="replace")
    if process.wait() != 0:
        raise LabError(f"{host.name}: docker import: {said[-1000:]}")


def build_image(
    host: Host, tag: str, base: str, files: Mapping[str, str], environment: Mapping[str, str]
) -> None:
    """An image of one more layer than its base; files are programs."""
    folder = f"/tmp/build-{tag.replace('/', '-').replace(':', '-')}"
    lines = [f"FROM {base}", *(f"ENV {name}={value}" for name, value in environment.items())]
    if files:
        lines.append("COPY files/ /")
    for path, text in files.items():
        host.write(f"{folder}/files{path}", text, "755")
    host.write(f"{folder}/Dockerfile", "\n".join(lines) + "\n")
    host.docker("build", "-q", "--network", "none", "-t", tag, folder)
    host.run("rm", "-rf", folder)
