"""Plain layers of a registry: read from the top one down, as far as needed, and nothing claimed of the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from canserve.facts import Cause, Missing
from canserve.trees.image.early import Sought
from canserve.trees.image.layer import Order
from canserve.trees.image.opening import Image
from canserve.trees.tree import TreeError
from image_registry import Shop
from made_images import Member, hard, link
from web_server import running

SITE = "usr/local/lib/python3.12/dist-packages"
SOUGHT = Sought(frozenset({"vllm", "sglang"}), frozenset({"torch"}), whole=False)


def noise(name: str, size: int = 3_000_000) -> bytes:
    """Bytes that do not pack."""
    return hashlib.shake_256(name.encode()).digest(size)


def installed(
    name: str, files: Mapping[str, bytes], site: str = SITE, version: str = "1.0"
) -> dict[str, Member]:
    """A wheel, as pip and uv leave it."""
    info = f"{name}-{version}.dist-info"
    inner = {**files, f"{info}/METADATA": f"Name: {name}\nVersion: {version}\n".encode()}
    rows = [f"{path},sha256=x,{len(data)}" for path, data in inner.items()]
    rows += [f"{info}/RECORD,,", f"{name}/__pycache__/__init__.cpython-312.pyc,,", f"../../../bin/{name},,"]
    inner[f"{info}/RECORD"] = "\n".join(rows).encode()
    return {f"{site}/{path}": data for path, data in inner.items()}


VLLM = installed("vllm", {"vllm/__init__.py": b"", "vllm/models.py": b"class A: ...\n"})
TORCH = installed("torch", {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '2.9'\n"})
TAIL: dict[str, Member] = {f"{SITE}/zmq/__init__.py": b"", "var/lib/noise": noise("tail", 12_000_000)}
BASE: dict[str, Member] = {"usr/lib/libcuda.so": noise("cuda"), f"{SITE}/old/__init__.py": b""}


def ordered(*members: Mapping[str, Member]) -> dict[str, Member]:
    """As those who pack folders write them."""
    joined = {name: content for each in members for name, content in each.items()}
    return {name: joined[name] for name in sorted(joined, key=lambda path: path.split("/"))}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running() as site:
        yield Shop(site, tmp_path / "cache", SOUGHT)


def cut(image: Image) -> bool:
    return image.tree.unread is not None


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_what_is_below_a_whole_installation_is_not_read(shop: Shop, how: str) -> None:
    shop.put([BASE, BASE | {"x": noise("x")}, ordered(VLLM, TORCH), {"etc/entry.sh": b"exec vllm"}], how)
    image = shop.open()
    assert image.tree.read(f"{SITE}/vllm/models.py") == b"class A: ...\n"
    assert image.tree.cost.bytes < sum(shop.sizes) / 100
    assert "--deep" in image.notes[0]


def test_within_a_layer_it_stops_behind_the_folder_of_packages(shop: Shop) -> None:
    shop.put([BASE, ordered(VLLM, TORCH, TAIL, {"opt/noise": noise("before")})])
    image = shop.open()
    assert cut(image)
    assert image.tree.read(f"{SITE}/zmq/__init__.py") == b""
    assert 3_000_000 < image.tree.cost.bytes < 7_500_000, "what is before it, and a window more"
    with pytest.raises(TreeError, match="were not read"):
        image.tree.read("var/lib/noise")


def test_absent_is_said_only_where_it_is_known(shop: Shop) -> None:
    shop.put([BASE, ordered(VLLM, TORCH)])
    tree = shop.open().tree
    closed = tree.children(f"{SITE}/vllm")
    assert closed is not None
    assert not closed.holes
    assert not tree.listing(f"{SITE}/vllm").holes
    assert tree.children(f"{SITE}/vllm/nothing") is None
    for folder in ("", "usr", SITE, "nowhere", "nowhere/at/all"):
        found = tree.children(folder)
        assert found is not None, folder
        assert [hole.prefix for hole in found.holes] == [folder]
        assert found.holes[0].missing.cause is Cause.UNREACHED
        assert "--deep" in (found.holes[0].missing.ask or "")
        assert tree.listing(folder).holes
    got = tree.read_many([f"{SITE}/vllm/none.py", "usr/lib/libcuda.so"])
    absent = got[f"{SITE}/vllm/none.py"]
    assert isinstance(absent, Missing)
    assert absent.cause is Cause.UNAVAILABLE
    deeper = got["usr/lib/libcuda.so"]
    assert isinstance(deeper, Missing)
    assert deeper.cause is Cause.UNREACHED


def test_links_into_layers_that_were_not_read(shop: Shop) -> None:
    shop.put(
        [
            BASE,
            ordered(
                VLLM,
                TORCH,
                {"usr/bin/l": link("/usr/lib/libcuda.so"), "usr/bin/h": hard("usr/lib/libcuda.so")},
            ),
        ]
    )
    holes = {hole.prefix: hole.missing.cause for hole in shop.open().tree.listing("usr/bin").holes}
    assert holes["usr/bin/l"] is holes["usr/bin/h"] is Cause.UNREACHED


def test_everything_is_read_where_everything_is_wanted(shop: Shop) -> None:
    shop.put([BASE, ordered(VLLM, TORCH, TAIL)])
    assert cut(shop.open())
    whole = shop.open(Sought(SOUGHT.engines, SOUGHT.beside))
    assert not cut(whole)
    assert whole.tree.children("nowhere") is None
    assert len(whole.tree.read("usr/lib/libcuda.so")) == 3_000_000
    assert not cut(shop.open()), "once it was read, all of it is used"


def test_it_reads_on_until_what_is_beside_the_engine_was_seen(shop: Shop) -> None:
    shop.put([{"bottom": noise("bottom")}, BASE | TORCH, VLLM])
    tree = shop.open().tree
    assert tree.unread is not None
    assert tree.read(f"{SITE}/torch/version.py") == b"__version__ = '2.9'\n"
    assert 3_000_000 < tree.cost.bytes < sum(shop.sizes) - 2_500_000


WITHOUT_MODELS = {path: data for path, data in VLLM.items() if not path.endswith("models.py")}
EDITABLE: dict[str, Member] = {f"{SITE}/sglang-1.0.dist-info/METADATA": b"Name: sglang"}
FOREIGN = installed("vllm", {"vllm/__init__.py": b""}, "opt/venv/lib/python3.12/site-packages")


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([BASE, WITHOUT_MODELS | TORCH], "a file that its RECORD lists is not there"),
        ([BASE, VLLM | TORCH | {f"{SITE}/.wh.vllm-0.9.dist-info": b""}], "an older one was there"),
        ([BASE, VLLM | TORCH | {f"{SITE}/vllm/.wh.old.py": b""}], "an older one left files"),
        ([BASE, VLLM | TORCH | EDITABLE], "another engine was installed too"),
        ([BASE, VLLM | TORCH | {"sgl/python/sglang/__init__.py": b""}], "another engine's source tree"),
        ([BASE, FOREIGN | installed("torch", {"torch/__init__.py": b""}, "opt/venv/lib/python3.12/site-packages")],
         "an environment that was not seen to be one"),
        ([BASE, {path: data for path, data in (VLLM | TORCH).items() if "RECORD" not in path}], "nothing says what belongs to it"),
        ([VLLM | TORCH, {f"{SITE}/.wh.vllm-1.0.dist-info": b""}, BASE], "it was taken away again"),
    ],
)  # fmt: skip
def test_doubt_reads_on(shop: Shop, layers: Sequence[Mapping[str, Member]], why: str) -> None:
    shop.put([{"bottom": b"1"}, *layers])
    image = shop.open()
    assert not cut(image), why
    assert image.tree.read("bottom") == b"1"


def test_an_image_that_speaks_of_another_engine_is_read_whole(shop: Shop) -> None:
    shop.put([BASE, VLLM | TORCH], Entrypoint=["vllm", "serve"])
    assert cut(shop.open())
    shop.put([BASE, VLLM | TORCH], Entrypoint=["python3", "-m", "sglang.launch_server"])
    assert not cut(shop.open())


def test_later_layers_patch_and_take_away(shop: Shop) -> None:
    patch = {f"{SITE}/vllm/models.py": b"class B: ...\n", f"{SITE}/torch/.wh.version.py": b""}
    shop.put([BASE, VLLM | TORCH, patch])
    tree = shop.open().tree
    assert tree.unread is not None
    assert tree.read(f"{SITE}/vllm/models.py") == b"class B: ...\n"
    assert "version.py" not in (tree.children(f"{SITE}/torch") or pytest.fail("no torch")).files


def test_names_out_of_order_are_read_to_the_end(shop: Shop) -> None:
    late: dict[str, Member] = {"usr/zz": noise("z"), f"{SITE}/vllm/models.py": b"class Late: ...\n"}
    shop.put([BASE, {"z/first": b"", **VLLM, **TORCH, **late}])
    tree = shop.open().tree
    assert tree.read(f"{SITE}/vllm/models.py") == b"class Late: ...\n", "unpacking leaves the later one"
    assert tree.cost.bytes < sum(shop.sizes) - 2_000_000, "the layer below was not read"


def test_a_second_verdict_moves_nothing(shop: Shop) -> None:
    shop.put([BASE, ordered(VLLM, TORCH, TAIL)])
    first = shop.open().tree.cost.bytes
    again = shop.open()
    assert again.tree.read(f"{SITE}/vllm/models.py") == b"class A: ...\n"
    assert again.tree.cost.bytes < 5_000 < first
    assert cut(again)
    shop.put([BASE, ordered(VLLM, TORCH, TAIL), {f"{SITE}/vllm/.wh.__init__.py": b"", "etc/x": b"1"}])
    patched = shop.open()
    assert patched.tree.cost.bytes < 5_000, "shared layers are known by their digests"


def test_orders_in_which_folders_are_packed() -> None:
    by_part = [
        "a/lib/site-packages",
        "a/lib/site-packages/vllm",
        "a/lib/site-packages/vllm/x",
        "a/lib/site-packages/vllm-1",
        "b",
    ]
    as_text = ["a/lib/site-packages/vllm", "a/lib/site-packages/vllm-1", "a/lib/site-packages/vllm/x", "b"]
    for names in (by_part, as_text):
        order = Order()
        assert [order.left(name) for name in names] == [False] * (len(names) - 1) + [True]
    order = Order()
    shuffled = ["c", "a/site-packages/x", "a/site-packages/b", "b"]
    assert not any(order.left(name) for name in shuffled)
