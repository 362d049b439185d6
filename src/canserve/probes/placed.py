"""Where a model lies on a machine: asked as its login, in one session, with who will read it in a container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.host.probe import Seen
from canserve.probes.live import Way, asked
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Image, Where
from canserve.subjects.placed import Placed, Who
from canserve.transport.frames import Section
from canserve.transport.reach import Limits, Look

MADE_OF = ("*.safetensors", "*.gguf", "*.bin", "*.pt", "*.pth", "*.json", "*.model", "*.tiktoken", "*.jinja")
_OLDER = (".bin", ".pt", ".pth")
_FEW = 5
_LIMITS = Limits(whole=40)
_PODMAN = "{{.Host.Security.Rootless}} {{.Host.Security.SELinuxEnabled}}"
_STATES = ("absent", "dangling", "barred")
# Names may hold anything but what ends a line: those that do are passed over. Where a shell cannot see a file, it does
# not say why: the nearest folder above that it can see says whether it may be gone through.
_SCRIPT = r"""p=%(path)s; t=$(printf '\t'); nl='
'
while [ "$p" != / ] && [ "${p%%/}" != "$p" ]; do p=${p%%/}; done
case $p in *"$nl"*|*"$t"*|'') exit 3;; esac
top=%(top)s
printf 'user\t%%s\npath\t%%s\n' "$(id -u)" "$p"
mode() { set -- $(ls -ld -- "$1" 2>/dev/null); printf 'mode\t%%s %%s %%s\n' "$1" "$3" "$4"; }
way() {
  q=$1; c=$1
  while [ ! -e "$q" ] && [ "$q" != / ]; do c=$q; q=${q%%/*}; [ -n "$q" ] || q=/; done
  if [ -L "$c" ]; then
    first=${first:-$c}; hops=$((hops+1)); to=$(readlink -- "$c") || exit 3; after=${1#"$c"}
    case $to in *"$nl"*|'') exit 3;; /*) ;; *) to=${c%%/*}/$to;; esac
    if [ "$hops" -gt 16 ]; then printf 'dangling\t%%s\n' "$first"; else way "$to$after"; fi
  elif [ -d "$q" ] && [ ! -x "$q" ]; then printf 'barred\t%%s\n' "$q"; mode "$q"
  else
    said=$(LC_ALL=C ls -d -- "$c" 2>&1 >/dev/null)
    case $said in
      *'No such file'*|*'Not a directory'*) if [ -n "$first" ]; then printf 'dangling\t%%s\n' "$first"; else printf 'absent\t%%s\n' "$c"; fi;;
      *) printf 'odd\t%%s\n' "$said" | head -n 1;;
    esac
  fi
}
first=; hops=0
if [ ! -e "$p" ]; then way "$p"; echo end; exit 0; fi
printf 'system\t%%s\n' "$(within 5 stat -f -c %%T -- "$p" 2>/dev/null)"
d=$p
if [ -d "$p/snapshots" ]; then
  s=$(cat "$p/refs/main" 2>/dev/null); case $s in */*) s=;; esac
  [ -d "$p/snapshots/${s:-none}" ] || s=$(ls -t "$p/snapshots" 2>/dev/null | head -n 1)
  [ -z "$s" ] || d=$p/snapshots/$s
fi
if [ -d "$d" ]; then
  for f in "$p" "$d"; do
    if [ ! -r "$f" ] || [ ! -x "$f" ]; then printf 'barred\t%%s\n' "$f"; mode "$f"; echo end; exit 0; fi
  done
  set --; for f in %(globs)s; do if [ -e "$f" ] || [ -L "$f" ]; then set -- "$@" "$f"; fi; [ $# -le 2000 ] || exit 4; done
else set -- "$d"
fi
for f; do
  case $f in *"$nl"*|*"$t"*) continue;; esac
  if [ ! -e "$f" ]; then printf 'gone\t%%s\n' "${f##*/}"; continue; fi
  [ ! -d "$f" ] || continue
  if [ -r "$f" ]; then printf 'file\t%%s\n' "${f##*/}"; else printf 'closed\t%%s\n' "${f##*/}"; fi
  if [ -L "$f" ]; then printf 'link\t%%s\t%%s\n' "$f" "$(readlink -- "$f" | head -n 1)"; fi
done
own="! -user $(id -u) ! -group $(id -g)"
few() { head -n %(few)d; cat >/dev/null; }
if [ $# -gt 0 ]; then
  find -L "$@" -prune -type f ! -perm -004 -print 2>/dev/null | few | sed "s/^/shy$t/"
  find -L "$@" -prune -type f ! -perm -004 $own -print 2>/dev/null | few | sed "s/^/lent$t/"
fi
q=$d; [ -d "$q" ] || q=${q%%/*}
while :; do
  [ -n "$(find -L "$q" -prune -perm -001 -print 2>/dev/null)" ] || {
    printf 'shy\t%%s\n' "$q"
    [ -z "$(find -L "$q" -prune $own -print 2>/dev/null)" ] || printf 'lent\t%%s\n' "$q"
  }
  case $q in "$top"|/|'') break;; esac
  if [ -L "$q" ]; then printf 'link\t%%s\t%%s\n' "$q" "$(readlink -- "$q" | head -n 1)"; fi
  q=${q%%/*}
done
if find / -prune -perm -001 $own >/dev/null 2>&1; then echo shown; fi
echo end"""


def look(
    names: Sequence[str], nodes: Mapping[str, Node], path: str, top: str | None, where: Where
) -> tuple[dict[str, Fact[Placed]], dict[str, Fact[Who]]]:
    """Where the model lies on each machine, and who reads it there.

    ``path``: a word of a shell. ``top``: the folder above it that a container is given; None: its own.
    """
    from canserve.trees.fanout import fanout

    sections = [Section("placed", script(path, top), 1 << 18), *_of_containers(where)]
    looks = dict(zip(names, fanout(lambda name: asked(nodes[name], nodes, sections, Way(), _LIMITS), names, 32), strict=True))  # fmt: skip
    placed = {name: parsed(_seen(it, "placed", f"the way to {path}")) for name, it in looks.items()}
    return placed, {name: _who(it, where, placed[name]) for name, it in looks.items()}


def script(path: str, top: str | None) -> str:
    """Commands of a POSIX shell that change nothing."""
    globs = " ".join(f'"$d"/{each}' for each in MADE_OF)
    return _SCRIPT % {
        "path": path,
        "top": shlex.quote(top.rstrip("/")) if top else '"$p"',
        "globs": globs,
        "few": _FEW,
    }


def _of_containers(where: Where) -> tuple[Section, ...]:
    if not isinstance(where, Image):
        return ()
    user = shlex.join((where.program, "image", "inspect", "--format", "{{.Config.User}}", where.name))
    form = _PODMAN if where.program == "podman" else "{{json .SecurityOptions}}"
    info = shlex.join((where.program, "info", "--format", form))
    return Section("image_user", f"within 20 {user}"), Section("container_root", f"within 20 {info}")


def _seen(it: Look, name: str, how: str) -> Seen | Missing:
    answer = it.answers.get(name)
    if answer is not None:
        return Seen(it.subject, how, it.when, answer)
    if it.trouble is not None:
        return it.trouble
    return Missing(
        Cause.UNREACHED, f"{it.subject}: no answer", (Evidence(it.subject, how, "nothing", False),)
    )


def parsed(seen: Seen | Missing) -> Fact[Placed]:
    """What the script said."""
    if isinstance(seen, Missing):
        return seen
    rows = [line.split("\t") for line in seen.answer.text.split("\n") if line]
    if seen.answer.status != 0 or not seen.answer.whole or not rows or rows[-1] != ["end"]:
        return seen.missing(Cause.UNREADABLE, f"where the model lies was not said to the end: {seen.answer.complaint}")  # fmt: skip
    told: dict[str, list[list[str]]] = {}
    for word, *rest in rows[:-1]:
        told.setdefault(word, []).append(rest)
    if (odd := told.get("odd")) is not None:
        return seen.missing(Cause.UNAVAILABLE, f"the model cannot be looked at: {odd[0][0][:200]}")
    user, path = _one(told, "user"), _one(told, "path")
    if not re.fullmatch(r"\d{1,10}", user) or not path.startswith("/"):
        return seen.unreadable("where the model lies")
    state = next((each for each in _STATES if each in told), "there")
    placed = Placed(
        path=path,
        state=state,  # type: ignore[arg-type]
        user=int(user),
        at=_one(told, state),
        mode=_one(told, "mode"),
        system=_one(told, "system"),
        files=sum(len(told.get(word, ())) for word in ("file", "closed", "gone")),
        barred=_needed(told, "closed"),
        dangling=_needed(told, "gone"),
        links=tuple((one[0], one[1]) for one in told.get("link", ()) if len(one) == 2 and one[1]),
        shy=_names(told, "shy") if "shown" in told else None,
        lent=_names(told, "lent") if "shown" in told else None,
    )
    return seen.known(placed, f"{state}{f' at {placed.at}' if placed.at else f', {placed.files} files'}")


def _one(told: Mapping[str, list[list[str]]], word: str) -> str:
    rows = told.get(word) or [[""]]
    return rows[0][0] if rows[0] else ""


def _names(told: Mapping[str, list[list[str]]], word: str) -> tuple[str, ...]:
    return tuple(one[0] for one in told.get(word, ()) if one)[:_FEW]


def _needed(told: Mapping[str, list[list[str]]], word: str) -> tuple[str, ...]:
    """Those names that an engine would miss: beside safetensors it reads no weights of an older form."""
    safe = any(one[0].endswith(".safetensors") for one in told.get("file", ()) if one)
    names = (one[0] for one in told.get(word, ()) if one)
    return tuple(name for name in names if not (safe and name.endswith(_OLDER)))[:_FEW]


def _who(it: Look, where: Where, placed: Fact[Placed]) -> Fact[Who]:
    """A container's root is the login's own where the engine runs without root, and somebody else with remapped users."""
    if not isinstance(where, Image):
        own = placed.evidence or (Evidence(it.subject, "a process of the login", "it starts it itself"),)
        return Known("login", own)
    user = _seen(it, "image_user", f"{where.program} image inspect {where.name}: Config.User")
    root = _seen(it, "container_root", f"{where.program} info")
    for seen in (user, root):
        if isinstance(seen, Missing):
            return seen
        if seen.answer.status != 0:
            return seen.failed(where.program)
    assert isinstance(user, Seen) and isinstance(root, Seen)
    found = reads(where.program, user.answer.text.strip(), root.answer.text.strip())
    if found is None:
        return root.unreadable("who root of containers is")
    return Known(found, (user.evidence(), root.evidence()))


def reads(program: str, user: str, said: str) -> Who | None:
    """Who reads in a container: ``user`` is the image's, ``said`` what the container engine says of its own root.

    None: it says so in a form that is not known; docker's ``null`` is what its client says without a daemon.
    """
    if program == "podman":
        words = said.split()
        if len(words) != 2 or not {"true", "false"} >= set(words):
            return None
        rootless, labels, apart = words[0] == "true", words[1] == "true", False
    elif said.startswith("["):
        rootless, labels, apart = (f"name={each}" in said for each in ("rootless", "selinux", "userns"))
    else:
        return None
    if labels:
        return "confined"
    if apart or user.partition(":")[0] not in ("", "0", "root"):
        return "other"
    return "lone" if rootless else "root"
