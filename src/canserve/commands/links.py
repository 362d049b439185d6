"""Commands by which one machine tries an address of another; they send a few packets and change nothing.

Which tools a machine has decides what can be said: python3, ping of iputils, ip, bash. None of them is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

SECONDS = 3.0
"""How long a connection or an echo may take."""
TRIES = 3
WIDTH = 24
"""Addresses that one machine tries at once."""

# No single quotes in it: it is one quoted word of a shell. It prints lines of the form that the shell prints too.
_PYTHON = r"""
import errno, select, socket, sys, time
address, ports, sizes, limit = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","), float(sys.argv[4])
six = ":" in address
family = socket.AF_INET6 if six else socket.AF_INET
words = {0: "open", errno.ECONNREFUSED: "free", errno.ETIMEDOUT: "silent", errno.EHOSTUNREACH: "away",
         errno.ENETUNREACH: "away", errno.EACCES: "away", errno.EPERM: "away"}
waiting, poll, passed = {}, select.poll(), False
for port in ports:
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setblocking(False)
    began = time.monotonic()
    code = s.connect_ex((address, int(port)))
    if code in (0, errno.ECONNREFUSED):
        passed = True
        print("rtt", (time.monotonic() - began) * 1000)
    if code == errno.EINPROGRESS:
        waiting[s.fileno()] = (s, port, began)
        poll.register(s, select.POLLOUT)
    else:
        print("tcp", port, words.get(code, errno.errorcode.get(code, code)))
        s.close()
end = time.monotonic() + limit
while waiting and time.monotonic() < end:
    for number, _ in poll.poll(max(0, (end - time.monotonic()) * 1000)):
        s, port, began = waiting.pop(number)
        poll.unregister(number)
        code = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        print("tcp", port, words.get(code, errno.errorcode.get(code, code)))
        if code in (0, errno.ECONNREFUSED):
            passed = True
            print("rtt", (time.monotonic() - began) * 1000)
        s.close()
for s, port, began in waiting.values():
    print("tcp", port, "silent")
def whole(size):
    # A datagram that may not be cut: where nobody listens, the machine itself says so, if it arrived.
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        s.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP, 23 if six else 10, 3)
        s.settimeout(0.7)
        s.connect((address, 33434))
        s.send(bytes(size - (48 if six else 28)))
        s.recv(1)
    except ConnectionRefusedError:
        return "ok"
    except socket.timeout:
        return "silent"
    except OSError as error:
        return "large" if error.errno == errno.EMSGSIZE else "silent"
    finally:
        s.close()
    return "ok"
left = [int(size) for size in sizes]
if not passed:
    left = left[-1:]
for _ in range(int(sys.argv[5]) if passed else 1):
    for size in list(left):
        if size not in left:
            continue
        said = whole(size)
        print("udp", size, said)
        if said == "ok":
            left = [other for other in left if other > size]
        elif said == "large":
            left.remove(size)
"""
assert "'" not in _PYTHON

_SHELL = r"""
one() {
  printf '\naddress %s\n' "$1"
  command -v ip >/dev/null 2>&1 && printf 'route %s\n' "$(ip -o route get "$1" 2>&1 | head -n 1)"
  if command -v python3 >/dev/null 2>&1; then
    within 30 python3 -I -c "$PROBE" "$1" "$PORTS" "$SIZES" "$LIMIT" "$TRIES" 2>/dev/null
  elif command -v bash >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then
    for p in $(printf '%s' "$PORTS" | tr , ' '); do
      e=$(timeout "$LIMIT" bash -c ': <>"/dev/tcp/$0/$1"' "$1" "$p" 2>&1); rc=$?
      case $rc,$e in 0,*) w=open;; 124,*) w=silent;; *[Rr]efused*) w=free;; *[Uu]nreachable*|*'No route'*) w=away;; *'timed out'*) w=silent;; *) w=unknown;; esac
      printf 'tcp %s %s\n' "$p" "$w"
    done
  fi
  if command -v ping >/dev/null 2>&1; then
    e=$(within 8 ping -n -q -c "$TRIES" -i 0.3 -W 1 "$1" 2>&1); rc=$?
    case $e in *[Uu]sage*|*invalid*|*unrecognized*|*'not permitted'*) rc=2;; esac
    printf 'ping %s %s\n' "$rc" "$(printf '%s\n' "$e" | sed -n 's/^\(rtt\|round-trip\) .* = \([0-9.]*\).*/\2/p')"
    h=28; case $1 in *:*) h=48;; esac
    [ $rc -ne 0 ] || for s in $(printf '%s' "$SIZES" | tr , ' '); do
      e=$(within 4 ping -n -q -c "$TRIES" -i 0.2 -W 1 -M do -s $((s - h)) "$1" 2>&1); rc=$?
      case $rc,$e in 0,*) w=ok;; *'oo long'*|*oo\ large*) w=large;; 1,*) w=silent;; *) w=unknown;; esac
      printf 'icmp %s %s\n' "$s" "$w"
      [ $w != ok ] || break
    done
  fi
}
n=0
for a in $ADDRESSES; do
  { t=$(one "$a"); printf '%s\n' "$t"; } &
  n=$((n + 1)); [ $((n % WIDTH)) -ne 0 ] || wait
done
wait; echo end"""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried of each address."""

    addresses: tuple[str, ...]
    ports: tuple[int, ...]
    sizes: tuple[int, ...]
    """Bytes of packets that may not be cut, the largest first."""


def trial(it: Trial) -> str:
    """Commands of a POSIX shell that try all of them; raises ValueError for what is no address."""
    settings = {
        "ADDRESSES": " ".join(str(ip_address(address)) for address in it.addresses),
        "PORTS": ",".join(map(str, it.ports)),
        "SIZES": ",".join(map(str, it.sizes)),
        "LIMIT": f"{SECONDS:g}",
        "TRIES": str(TRIES),
        "WIDTH": str(WIDTH),
        "PROBE": _PYTHON,
    }
    return "\n".join([*(f"{name}='{value}'" for name, value in settings.items()), _SHELL])


def seconds(trials: int) -> float:
    """How long so many addresses may take at most, every one of them silent."""
    return 30.0 * -(-trials // WIDTH) + 10.0


_LISTEN = r"""
import signal, socket, sys, time
signal.alarm(int(sys.argv[3]))
address, peer = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((address, int(sys.argv[4])))
s.listen(1)
s.settimeout(int(sys.argv[3]))
end = time.monotonic() + int(sys.argv[3])
while time.monotonic() < end:
    c, (who, *_) = s.accept()
    if who == peer:
        break
    c.close()
s.close()
c.settimeout(5)
count, began, seconds, buffer = 0, time.monotonic(), 0, bytearray(1 << 20)
while time.monotonic() < end:
    n = c.recv_into(buffer)
    if not n:
        break
    count += n
    seconds = time.monotonic() - began
print("received", count, seconds, flush=True)
"""

_SEND = r"""
import signal, socket, sys, time
signal.alarm(int(sys.argv[5]))
address, port, own, seconds, most = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[6])
s, late = None, time.monotonic() + 8
while s is None:
    try:
        s = socket.create_connection((address, port), 3, (own, 0))
    except ConnectionRefusedError:
        if time.monotonic() > late:
            raise
        time.sleep(0.1)
s.settimeout(5)
piece, sent, end = bytes(1 << 20), 0, time.monotonic() + seconds
while time.monotonic() < end and sent < most:
    s.sendall(piece)
    sent += len(piece)
s.shutdown(socket.SHUT_WR)
s.close()
print("sent", sent, flush=True)
"""
assert "'" not in _LISTEN + _SEND

MEASURED = 1.0
"""Seconds for which a stream is sent."""
MOST_BYTES = 32 << 30
ALARM = 15
"""Seconds after which the kernel ends either side, whatever became of the other or of the connection to it."""


def listen(address: str, port: int, peer: str) -> str:
    """Take one stream of bytes on an address, from one peer alone, and say how much came in how many seconds.

    It ends by itself.
    """
    words = (str(ip_address(address)), str(ip_address(peer)), str(ALARM), str(port))
    return f"command -v python3 >/dev/null 2>&1 || exit 127\nexec python3 -I -c '{_LISTEN}' {' '.join(words)}"


def send(address: str, port: int, own: str) -> str:
    """Send a stream for a second, from one of the machine's own addresses."""
    numbers = (f"{MEASURED:g}", str(ALARM), str(MOST_BYTES))
    words = (str(ip_address(address)), str(port), str(ip_address(own)), *numbers)
    return f"command -v python3 >/dev/null 2>&1 || exit 127\nexec python3 -I -c '{_SEND}' {' '.join(words)}"
