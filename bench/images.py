"""What a verdict on an image in a registry costs, by the form of its layers, against pulling it.

A real registry (docker-registry) on loopback holds one engine image in four forms: the Python files of a real vLLM and
a real transformers wheel, noise of the size of the rest. Bytes are counted by a proxy outside of the measured process.
Run as ``python bench/images.py [MEGABYTES]``: the image's size, 1200 when not said. Prints one line a bound, PASS or
FAIL, and exits with 1 when any failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from cost import CANSERVE, MODEL, run
from image_layers import MB, Blob, Content, Noise, pack, record, unpacked
from meter import Meter
from packaging.requirements import Requirement

from canserve.facts import Missing
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import pip_config
from canserve.trees.web.client import Web

ENGINE = "vllm==0.17.1"
LIBRARY = "transformers==4.57.3"
SITE = "usr/local/lib/python3.12/dist-packages"
SEEKABLE = 0.02
"""Of the image's bytes, that a verdict may move where layers have tables of contents."""
PLAIN = 0.9
"""The same where they have none: not all of them are read."""
AGAIN = 100_000
"""Bytes of a second verdict."""
FORMS = ("estargz", "zstd-chunked", "gzip", "zstd")
EXPECTED = 0


def python_files(requirement: str) -> dict[str, Content]:
    """The files of a real wheel, by ranges: sources as they are, everything large as noise a fifth of its size."""
    config = pip_config()
    if isinstance(config, Missing):
        sys.exit(f"bench: {config.why}")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Web(config.settings), Cache(Path(folder)))
        found = Index(config, place).find(Requirement(requirement), "x86_64", requirement)
        if isinstance(found, Missing):
            sys.exit(f"bench: {found.why}")
        file = found.value.file
        tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, requirement)
        entries = tree.listing().entries
        small = [path for path, entry in entries.items() if entry.size < MB]
        read = tree.read_many(small)
        got: dict[str, Content] = {
            path: Noise(entries[path].size // 5) for path in entries.keys() - read.keys()
        }
        for path, data in read.items():
            assert not isinstance(data, Missing), data.why
            got[path] = data
        return {f"{SITE}/{path}": content for path, content in got.items()}


def layers_of(megabytes: int) -> list[dict[str, Content]]:
    """As published engine images have them: system, CUDA, one layer of packages, caches, a script."""
    part = megabytes * MB // 100
    engine = {**python_files(ENGINE), **python_files(LIBRARY)}
    torch: dict[str, Content] = {
        "torch/__init__.py": b"from .version import __version__\n",
        "torch/version.py": b"__version__ = '2.9.1+cu130'\n",
        "torch/lib/libtorch_cuda.so": Noise(16 * part),
        "nvidia/cudnn/lib/libcudnn.so.9": Noise(22 * part),
    }
    packages = {
        **engine,
        **{f"{SITE}/{path}": content for path, content in torch.items()},
        **record("torch==2.9.1+cu130", torch, SITE),
        "usr/local/share/jupyter/lab.bin": Noise(4 * part),
        "usr/local/bin/vllm": b"#!/usr/bin/python3\n",
    }
    return [
        {"etc/os-release": b'ID=ubuntu\nVERSION_ID="22.04"\n', "usr/lib/base.bin": Noise(3 * part)},
        {
            f"usr/local/cuda-13.0/lib64/lib{name}.so.13": Noise(10 * part)
            for name in ("cublas", "cufft", "cusolver")
        },
        packages,
        {"root/.cache/flashinfer/kernels.bin": Noise(6 * part)},
        {"usr/local/bin/entry.sh": b'#!/bin/sh\nexec vllm serve "$@"\n'},
    ]


@dataclass(frozen=True)
class Shop:
    """A registry."""

    url: str

    def put(self, data: bytes | Path, digest: str) -> None:
        """Upload a blob."""
        begun = httpx.post(f"{self.url}/v2/engine/blobs/uploads/", trust_env=False)
        place = begun.raise_for_status().headers["location"]
        place += f"{'&' if '?' in place else '?'}digest={digest}"
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        body = data if isinstance(data, bytes) else data.open("rb")
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        httpx.put(place, content=body, headers=headers, timeout=600, trust_env=False).raise_for_status()

    def image(self, tag: str, layers: list[Blob]) -> None:
        """Upload an image under a tag."""
        told = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/usr/local/bin/entry.sh"], "Env": ["PATH=/usr/local/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [each.unpacked for each in layers]},
        }
        config = json.dumps(told).encode()
        pointer = {"mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config),
                   "digest": f"sha256:{hashlib.sha256(config).hexdigest()}"}  # fmt: skip
        self.put(config, str(pointer["digest"]))
        for each in layers:
            self.put(each.path, each.digest)
        kind = "application/vnd.oci.image.manifest.v1+json"
        pointers = [
            {
                "mediaType": each.kind,
                "digest": each.digest,
                "size": each.size,
                "annotations": each.annotations,
            }
            for each in layers
        ]
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": pointer, "layers": pointers})
        place = f"{self.url}/v2/engine/manifests/{tag}"
        httpx.put(place, content=body, headers={"Content-Type": kind}, trust_env=False).raise_for_status()

    def download(self, layers: list[Blob], folder: Path) -> float:
        """Seconds to fetch every layer and unpack it, as any way that pulls has to, before anything is run."""
        start = time.monotonic()
        for each in layers:
            place = folder / "pulled"
            blob = f"{self.url}/v2/engine/blobs/{each.digest}"
            with httpx.stream("GET", blob, trust_env=False) as answer, place.open("wb") as out:
                for piece in answer.iter_raw():
                    out.write(piece)
            unpacked(place)
            place.unlink()
        return time.monotonic() - start


@contextmanager
def registry(folder: Path) -> Iterator[Shop]:
    """A docker-registry on loopback, which keeps its blobs in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(
        ["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        shop = Shop(f"http://127.0.0.1:{port}")
        for _ in range(100):
            try:
                httpx.get(f"{shop.url}/v2/", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield shop
    finally:
        process.terminate()
        process.wait()


def measured(shop: Shop, form: str, layers: list[Blob], folder: Path) -> list[tuple[bool, str]]:
    """One form: a first verdict, a second one, and pulling instead."""
    size = sum(each.size for each in layers)
    target = f"docker://{shop.url.removeprefix('http://')}/engine:{form}"
    command = [*CANSERVE, "check", str(MODEL), "--build", target, "--format", "json", "--quiet"]
    with Meter() as meter:
        first = run(command, folder / f"cache-{form}", meter)
        second = run(command, folder / f"cache-{form}", meter)
    seconds = shop.download(layers, folder)
    share, bound = first.moved / size, SEEKABLE if form in FORMS[:2] else PLAIN
    found = json.loads(first.stdout)["builds"][0]["verdict"]
    told = (
        f"{form}: {first.moved / MB:.2f} of {size / MB:.0f} MB ({share:.2%}) and {first.wall:.1f} s for a verdict"
        f" ({first.cpu:.1f} s of a processor), {first.peak / MB:.0f} MB of memory; fetched and unpacked {seconds:.1f} s"
    )
    return [
        (share <= bound, f"{told}; at most {bound:.0%}"),
        (
            second.moved < AGAIN,
            f"{form}: {second.moved / 1000:.1f} kB and {second.wall:.1f} s for a second one",
        ),
        (
            first.stdout == second.stdout or found == _verdict(second.stdout),
            f"{form}: the verdict is {found}, both times",
        ),
    ]


def by_engine(shop: Shop, folder: Path) -> str:
    """What a container engine takes to have the plain image and to hand it on, before anything in it is run."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from docker_engine import dockerd, problem

    if why := problem():
        return f"docker pull and save were not measured: {why}"
    image = f"{shop.url.removeprefix('http://')}/engine:gzip"
    with dockerd(folder / "d") as docker:
        environment = {**os.environ, "DOCKER_HOST": docker.host}
        seconds = []
        for words in (("pull", "--quiet", image), ("save", "--output", str(folder / "saved.tar"), image)):
            start = time.monotonic()
            subprocess.run(["docker", *words], check=True, env=environment, stdout=subprocess.DEVNULL)
            seconds.append(time.monotonic() - start)
    return f"docker pull {seconds[0]:.1f} s, docker save {seconds[1]:.1f} s; starting a container and importing come on top"


def _verdict(text: str) -> str:
    return str(json.loads(text)["builds"][0]["verdict"])


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1200
    if shutil.which("docker-registry") is None:
        print("bench: docker-registry is not installed (apt-get install docker-registry)", file=sys.stderr)
        return 4
    for name in ("no_proxy", "NO_PROXY"):  # what is measured goes through a proxy here
        os.environ.pop(name, None)
    results: list[tuple[bool, str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-images-") as name:
        folder = Path(name)
        contents = layers_of(megabytes)
        with registry(folder) as shop:
            for form in FORMS:
                blobs = [pack(folder / f"{number}", form, each) for number, each in enumerate(contents)]
                shop.image(form, blobs)
                results += measured(shop, form, blobs, folder)
                for good, line in results[-3:]:
                    print("PASS" if good else "FAIL", line, flush=True)
            print(by_engine(shop, folder))
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
