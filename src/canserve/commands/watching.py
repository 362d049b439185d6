"""What is asked of a machine while a deployment starts on it: scripts that change nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

MOST_PROCESSES = 512
"""Of one deployment on one machine that are looked at."""
_DETACHED_LOG = "[ -f {log} ] || exit 3\ntail -c +{first} -- {log} | head -c {limit}"
_CONTAINER_LOG = "within 10 {program} logs --timestamps {since} {name} 2>&1 | head -c {limit}"
_TREE = r"""printf 'clock %%s\npage %%s\n' "$(getconf CLK_TCK 2>/dev/null || echo 100)" "$(getconf PAGESIZE 2>/dev/null || echo 4096)"
roots=
%(roots)s
[ -n "$roots" ] || exit 0
cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$roots" -v most=%(most)s '
{ c = $0; sub(/^[0-9]+ \(/, "", c); n = split(c, part, /\) /); rest = part[n]; sub(/\) [^)]*$/, "", c)
  if (split(rest, f, " ") < 22) next
  up[$1] = f[2]; session[$1] = f[4]; comm[$1] = substr(c, 1, 15); gsub(/[ \t]/, "_", comm[$1])
  told[$1] = f[1] " " f[12] + f[13] " " f[22] " " f[10] }
END {
  m = split(roots, pair, " ")
  for (i = 1; i <= m; i++) { split(pair[i], one, ":"); of[one[2]] = one[1]; first[one[2]] = 1 }
  for (p in up) { q = p; for (d = 0; d < 64 && q > 1; d++) { if (q in first) { mine[p] = of[q]; break }
      if (session[q] in first) { mine[p] = of[session[q]]; break }
      if (!(q in up)) break; q = up[q] } }
  for (p in mine) if (k++ < most) print mine[p], p, up[p], told[p], comm[p] }' | while read -r n p rest; do
  r=; b=; w=; o=
  { while read -r k v; do case $k in rchar:) r=$v;; read_bytes:) b=$v;; wchar:) w=$v;; write_bytes:) o=$v;; esac
  done <"/proc/$p/io"; } 2>/dev/null
  printf '%%s %%s %%s %%s %%s %%s %%s\n' "$n" "$p" "${r:--}" "${b:--}" "${w:--}" "${o:--}" "$rest"
done
for one in $roots; do  # of another user's only its group tells
  { read -r group <"/proc/${one#*:}/cgroup"; } 2>/dev/null || continue
  stat=/sys/fs/cgroup${group#0::}/io.stat
  [ "$group" != "0::/" ] && [ -r "$stat" ] && awk -v n="${one%%%%:*}" '{ for (i = 2; i <= NF; i++) {
    if (split($i, f, "=") == 2) s[f[1]] += f[2] } } END { printf "group %%s %%.0f %%.0f\n", n, s["rbytes"], s["wbytes"] }' "$stat"
done; :
"""
_DETACHED_ROOT = (
    '{{ read -r p <{pid}; }} 2>/dev/null && case $p in *[!0-9]*|"") ;; *) roots="$roots {number}:$p";; esac'
)
_CONTAINER_ROOT = (
    "p=$(within 10 {program} container inspect --format '{{{{.State.Pid}}}}' {name} 2>/dev/null) && "
    'case $p in *[!0-9]*|""|0) ;; *) roots="$roots {number}:$p";; esac'
)
ACCELERATORS = (
    "command -v nvidia-smi >/dev/null 2>&1 && "
    "within 10 nvidia-smi --query-gpu=memory.used,utilization.gpu,utilization.memory "
    "--format=csv,noheader,nounits\n"
    "for f in /sys/class/drm/card*/device/mem_info_vram_used /sys/class/drm/card*/device/mem_info_gtt_used; do\n"
    '  value "$f"; [ -z "$v" ] || printf \'bytes %s\\n\' "$v"\ndone; :'
)
"""Memory in use, MiB and percent of each accelerator, or bytes."""
_ANSWER = r"""if command -v curl >/dev/null 2>&1; then curl -sSk -o /dev/null -m 5 --noproxy '*' -w '%%{http_code}\n' %(url)s
elif command -v python3 >/dev/null 2>&1; then python3 -I -c %(program)s %(url)s '' 5 | tail -n 1
elif [ %(scheme)s = http ] && command -v bash >/dev/null 2>&1; then within 6 bash -c 'exec 3<>"/dev/tcp/$0/$1"; printf "GET %%s HTTP/1.0\r\nHost: %%s\r\n\r\n" "$2" "$0" >&3; read -r v c r <&3; echo "$c"' %(host)s %(port)s %(path)s
elif command -v wget >/dev/null 2>&1; then wget -q --no-check-certificate -T 5 -t 1 -O /dev/null %(url)s && echo 200
else exit 3; fi"""
_REQUEST = r"""if command -v curl >/dev/null 2>&1; then
  curl -sSk -m %(seconds)s --noproxy '*' %(data)s -w '\n%%{http_code}\n' %(url)s
elif command -v python3 >/dev/null 2>&1; then python3 -I -c %(program)s %(url)s %(body)s %(seconds)s
fi"""
_PROGRAM = r"""
import http.client, ssl, sys, urllib.parse
u, body, kind = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2] or None, {"timeout": float(sys.argv[3])}
if u.scheme == "https":
    c = http.client.HTTPSConnection(u.hostname, u.port, context=ssl._create_unverified_context(), **kind)
else:
    c = http.client.HTTPConnection(u.hostname, u.port, **kind)
c.request("POST" if body else "GET", u.path, body, {"Content-Type": "application/json"})
r = c.getresponse()
sys.stdout.write(r.read(100000).decode("utf-8", "replace") + "\n%d\n" % r.status)
"""
"""Asks this machine itself, whatever its certificate says of its name; prints the body, and the status below it."""


def detached_log(folder: str, size: int, limit: int) -> str:
    """What a process that runs in no container wrote beyond ``size`` bytes."""
    return _DETACHED_LOG.format(log=shlex.quote(f"{folder}/log"), first=size + 1, limit=limit)


def container_log(program: str, name: str, since: str | None, limit: int) -> str:
    """What a container wrote since a moment, that moment's lines included; every line begins with its own."""
    given = "" if since is None else f"--since {shlex.quote(since)}"
    return _CONTAINER_LOG.format(program=program, name=shlex.quote(name), since=given, limit=limit)


def detached_ends(folder: str, begin: int, end: int) -> str:
    """The beginning and the end of what a process that runs in no container wrote."""
    log = shlex.quote(f"{folder}/log")
    return f"[ -f {log} ] || exit 3\nhead -c {begin} -- {log}; echo\ntail -c +{begin + 1} -- {log} | tail -c {end}"


def container_ends(program: str, name: str, begin: int, end: int) -> str:
    """The same of a container: its last lines."""
    logs, quoted = f"within 15 {program} logs", shlex.quote(name)
    return f"{logs} {quoted} 2>&1 | head -c {begin}; echo\n{logs} --tail 200 {quoted} 2>&1 | tail -c {end}"


def detached_root(number: int, folder: str) -> str:
    """Adds the first process of a session to those that are counted."""
    return _DETACHED_ROOT.format(number=number, pid=shlex.quote(f"{folder}/pid"))


def container_root(number: int, program: str, name: str) -> str:
    """Adds the first process of a container to those that are counted."""
    return _CONTAINER_ROOT.format(number=number, program=program, name=shlex.quote(name))


def tree(roots: Sequence[str]) -> str:
    """What the kernel counts of these and of all below them: a line of each process."""
    return _TREE % {"roots": "\n".join(roots), "most": MOST_PROCESSES}


def answer(url: str) -> str:
    """The status of one HTTP answer, by whatever the machine has to ask with; exit status 3: it has nothing."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", str(parts.port)
    told = {
        "url": url,
        "host": host,
        "port": port,
        "path": parts.path,
        "scheme": parts.scheme,
        "program": _PROGRAM,
    }
    return _ANSWER % {name: shlex.quote(value) for name, value in told.items()}


def request(url: str, body: str | None, seconds: int) -> str:
    """The body of an HTTP answer and, in its last line, the status. ``body``: JSON to be posted."""
    data = "" if body is None else f"-H 'Content-Type: application/json' --data-binary {shlex.quote(body)}"
    quoted = {
        name: shlex.quote(value)
        for name, value in (("url", url), ("body", body or ""), ("program", _PROGRAM))
    }
    return _REQUEST % {**quoted, "data": data, "seconds": seconds}


SOCKETS = r"""for p in %(pids)s; do
  ls -l "/proc/$p/fd" 2>/dev/null | sed -n 's/.* -> socket:\[\([0-9]*\)\].*/fd '"$p"' \1/p' | head -n 512
done
for p in %(pids)s; do
  cat "/proc/$p/net/tcp" "/proc/$p/net/tcp6" 2>/dev/null | awk '$4 == "01" || $4 == "02" || $4 == "0A" {print "tcp", $2, $3, $4, $10}' | head -n 4096
  break
done; :"""
"""Of some processes: sockets that they hold, and what the kernel says of TCP where the first of them lives."""


def sockets(pids: Sequence[int]) -> str:
    """Connections of these processes."""
    return SOCKETS % {"pids": " ".join(map(str, pids))}
