"""Models on the machine, in the Hub cache or in folders of their own, and whether their weights are all there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from canserve.facts import Cause, Fact
from canserve.probes.host.disks import HUB
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import CachedModel
from canserve.units import Bytes

WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.(?:safetensors|bin|gguf))")
"""As transformers and llama.cpp name the parts of one set of weights."""
_MAX_SHARDS = 1000
_WHOLE = {"model.safetensors", "consolidated.safetensors", "pytorch_model.bin"}
_SCRIPT = rf"""{HUB}files() {{
  for f in "$1"/*; do
    if [ -e "$f" ]; then printf 'have\t%s\n' "${{f##*/}}"; elif [ -L "$f" ]; then printf 'gone\t%s\n' "${{f##*/}}"; fi
  done
  for f in "$1"/*.index.json; do
    [ -f "$f" ] && printf 'index\t%s\n' "${{f##*/}}" && head -c 20000000 "$f" | grep -oE '"[^"/]+\.(safetensors|bin)"' | sort -u | tr -d '"' | sed 's/^/want	/'
  done
}}
# A list without its end is none: of more than so many, nothing is told.
n=0; more() {{ n=$((n+1)); [ $n -le 500 ] || exit 0; }}
if [ -e "$h" ]; then ls "$h" >/dev/null || exit 2; fi
for r in "$h"/models--*; do
  [ -d "$r" ] || continue; more
  printf 'repo\t%s\n' "${{r##*/models--}}"
  k=$(within 2 du -sk "$r/blobs" 2>/dev/null) && printf 'size\t%s\n' "${{k%%[!0-9]*}}"
  for f in "$r"/blobs/*.incomplete; do [ -e "$f" ] && echo part; done
  s=$(cat "$r/refs/main" 2>/dev/null); [ -d "$r/snapshots/${{s:-none}}" ] || s=$(ls -t "$r/snapshots" 2>/dev/null | head -n 1)
  [ -n "$s" ] && [ -d "$r/snapshots/$s" ] || continue
  printf 'snapshot\t%s\n' "$s"
  files "$r/snapshots/$s"
done
for d in "$HOME"/* "$HOME"/*/* "$HOME"/models/*/* /models/* /models/*/* /data/models/* /mnt/*/models/* /opt/models/*; do
  [ -f "$d/config.json" ] || continue
  for f in "$d"/*.safetensors "$d"/*.safetensors.index.json; do [ -e "$f" ] || continue
    more; printf 'folder\t%s\n' "$d"; files "$d"; break
  done
done
echo end"""


@dataclass(slots=True)
class _Repository:
    name: str
    size: int | None = None
    folder: bool = False
    parts: int = 0
    revision: str | None = None
    have: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    want: dict[str, set[str]] = field(default_factory=dict)
    """Weights by the index that names them."""

    def model(self) -> CachedModel:
        """The judgement: what is missing, if anything."""
        why = "no snapshot" if self.revision is None else self._lack()
        size = None if self.size is None else Bytes(self.size * 1024)
        return CachedModel(self.name, None if self.folder else self.revision, size, not why, why)

    def _lack(self) -> str:
        """A repository may hold its weights in several forms, of which one suffices."""
        sets = [each for each in (*self.want.values(), *self._shards()) if each]
        whole = any(each <= self.have for each in sets)
        if whole or any(name.endswith(WEIGHTS) and not _SHARD.fullmatch(name) for name in self._alone()):
            lacking = sorted(self.gone)
        else:
            nearest = max(sets, key=lambda each: len(each & self.have), default=set())
            lacking = sorted((nearest - self.have) | self.gone)
        if lacking:
            return f"{len(lacking)} files missing: {lacking[0]}"
        if not any(name.endswith(WEIGHTS) for name in self.have):
            return "no weights"
        return f"{self.parts} downloads unfinished" if self.parts and not whole else ""

    def _shards(self) -> list[set[str]]:
        """Sets whose index is not there, by the names of their parts."""
        found = {match.groups() for name in self.have if (match := _SHARD.fullmatch(name))}
        numbers = [(stem, total, end) for stem, total, end in found if 0 < int(total) <= _MAX_SHARDS]
        sets = [
            {f"{stem}-{at:05}-of-{total}{end}" for at in range(1, int(total) + 1)}
            for stem, total, end in numbers
        ]
        return [each for each in sets if not any(each & named for named in self.want.values())]

    def _alone(self) -> set[str]:
        """Files that hold all weights by themselves."""
        if not self.want and not any(_SHARD.fullmatch(name) for name in self.have):
            return self.have
        return self.have & _WHOLE | {name for name in self.have if name.endswith(".gguf")}


def cached_models(seen: Seen) -> Fact[tuple[CachedModel, ...]]:
    """Every repository of models in the Hub cache, and folders of weights in the usual places by their path."""
    if seen.answer.status != 0:
        return seen.missing(Cause.UNAVAILABLE, f"the Hub cache cannot be listed: {seen.answer.complaint}")
    rows = seen.rows
    if not seen.answer.whole or not rows or rows[-1] != "end":
        return seen.missing(Cause.UNREADABLE, "the list of the Hub cache is cut")
    found: list[_Repository] = []
    for row in rows[:-1]:
        word, _, rest = row.partition("\t")
        if word == "repo":
            found.append(_Repository(rest.replace("--", "/", 1)))
        elif word == "folder" and rest.startswith("/"):
            found.append(_Repository(rest, revision="", folder=True))
        elif not found:
            return seen.unreadable("the Hub cache")
        else:
            _add(found[-1], word, rest)
    models = tuple(one.model() for one in found)
    return seen.known(models, f"{len(models)} models, {sum(m.complete for m in models)} complete")


def _add(to: _Repository, word: str, rest: str) -> None:
    match word:
        case "size" if re.fullmatch(r"\d{1,15}", rest):
            to.size = int(rest)
        case "part":
            to.parts += 1
        case "snapshot":
            to.revision = rest[:64]
        case "have":
            to.have.add(rest)
        case "gone":
            to.gone.add(rest)
        case "index":
            to.want[rest] = set()
        case "want" if to.want:
            to.want[next(reversed(to.want))].add(rest)
        case _:
            pass


CACHED_MODELS = Probe(
    "cached_models",
    _SCRIPT,
    "the Hub cache (models--*/snapshots), folders with config.json and weights",
    cached_models,
    limit=1_000_000,
)
