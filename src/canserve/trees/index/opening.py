"""Opening a file of an index as a tree."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from canserve.trees.archive.blob import Blob, FileBlob
from canserve.trees.archive.remote import Place, Remote, RemoteBlob, WholeBlob, download
from canserve.trees.archive.zip import ZipTree
from canserve.trees.tree import Tree


def open_archive(path: Path, subject: str) -> Tree:
    """A wheel or source distribution on this machine. Raises TreeError."""
    blob = FileBlob(path, subject)
    if is_tar(blob):
        return _tar(blob, subject, "source distribution")
    return ZipTree(blob, subject, "wheel" if path.suffix == ".whl" else "zip archive")


def open_remote(remote: Remote, place: Place, subject: str) -> Tree:
    """A wheel by byte ranges, or a source distribution whole, through the cache. Raises TreeError."""
    parts = urlsplit(remote.url)
    if parts.scheme == "file":
        return open_archive(Path(unquote(parts.path)), subject)
    if not remote.name.endswith((".whl", ".zip")):
        return _packed(remote, place, subject)
    ranges = RemoteBlob(remote, place, subject)
    tree = ZipTree(ranges, subject, "")
    kind = "wheel" if remote.name.endswith(".whl") else "source distribution"
    tree.origin = f"{kind} on the package index, read by byte ranges"
    if ranges.refused:
        tree.origin = f"{kind} on the package index, downloaded whole: {ranges.refused}"
    return tree


def _packed(remote: Remote, place: Place, subject: str) -> Tree:
    """A source distribution. Its sources are kept in the cache; the archive itself is not, if they are."""
    from canserve.trees.archive.kept import load
    from canserve.trees.archive.sdist import TarTree

    origin = "source distribution on the package index"
    kept = load(place.cache.get("sources", remote.sha256)) if remote.sha256 else None
    if kept is not None:
        return TarTree(
            WholeBlob(remote, place, subject), subject, f"{origin}, its sources from the cache", kept
        )
    tree = TarTree(download(remote, place, subject), subject, f"{origin}, downloaded whole")
    if remote.sha256 and place.cache.put("sources", remote.sha256, tree.kept.dump()):
        place.cache.drop("files", remote.sha256)
    return tree


def _tar(blob: Blob, subject: str, origin: str) -> Tree:
    from canserve.trees.archive.sdist import TarTree

    return TarTree(blob, subject, origin)


def is_tar(blob: Blob) -> bool:
    """Whether a file begins like a tar archive, packed or not."""
    start = blob.spans([(0, min(blob.size, 262))])[0]
    return start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")) or start[257:262] == b"ustar"
