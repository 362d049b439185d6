"""argv by which a deployment claims a machine: who comes second is told who was first."""

from __future__ import annotations

from canserve.subjects.deployment import Site

PROCESSOR = "processor"
_CLAIM = (
    'ln -s -n -- "$0" "$1" 2>/dev/null || { h=$(readlink -- "$1"); '
    '[ "$h" = "$0" ] || { echo "${h:-$1 cannot be made}"; exit 1; }; }'
)
# Only from the run that holds it, and at once: whoever looks meanwhile finds one of both. The name ends as a claim's does
# and the link says the run: what is left of a machine that dies in between goes with the run.
_TAKE_OVER = (
    'h=$(readlink -- "$1"); case $h in "$0") exit 0;; "$2 "*) ;; *) echo "${h:-nobody}"; exit 1;; esac; '
    't=${1%.lock}.$2.lock; ln -s -f -n -- "$0" "$t" && mv -f -T -- "$t" "$1" || { rm -f -- "$t"; exit 1; }'
)
_NOTE = '[ -d "$1" ] || exit 0; umask 022; printf "%s\\n" "$0" >>"$1/audit-$(id -u).log"'
_DESCRIBE = 'umask 022; set -C; printf "%s\\n" "$0" >"$1"'
# Its age stays: what is older than the record of a run was not made for it.
_DESCRIBE_ANEW = (
    '[ -f "$1" ] && [ ! -L "$1" ] || exit 0; umask 022; t=$1.new; rm -f -- "$t"; set -C; '
    'printf "%s\\n" "$0" >"$t" && touch -r "$1" -- "$t" && mv -f -T -- "$t" "$1" || { rm -f -- "$t"; exit 1; }'
)
# Whoever comes later, as whichever user, may make claims; nobody may take away another's.
_PLACE = 'mkdir -p -m 1777 -- "$0" && [ -d "$0" ] && [ ! -L "$0" ] && [ -w "$0" ]'


def names(site: Site) -> tuple[str, ...]:
    """What is claimed on a machine."""
    return tuple(f"accelerator-{device}" for device in site.devices) or (PROCESSOR,)


def place(state: str) -> tuple[str, ...]:
    """Makes the folder of all runs."""
    return ("sh", "-c", _PLACE, state)


def run_folder(folder: str) -> tuple[str, ...]:
    """Makes the folder of a run, or of a process of it. It fails where it is there already."""
    return ("mkdir", "-m", "755", "--", folder)


def said(run: str, program: str, operator: str) -> str:
    """What a claim says; ``read`` understands it."""
    return f"{run} {program} {operator}"


def claim(state: str, name: str, text: str) -> tuple[str, ...]:
    """Makes a link whose target says whose it is: at once, or not at all. It prints who was first."""
    return ("sh", "-c", _CLAIM, text, f"{state}/{name}.lock")


def describe(state: str, run: str, text: str) -> tuple[str, ...]:
    """Writes down what a run is. It never writes through a link, or over what is there."""
    return ("sh", "-c", _DESCRIBE, text, f"{state}/{run}.json")


def take_over(state: str, name: str, run: str, text: str) -> tuple[str, ...]:
    """Lets a claim of a run say something else of it. It prints whose it is where that is not the run."""
    return ("sh", "-c", _TAKE_OVER, text, f"{state}/{name}.lock", run)


def describe_anew(state: str, run: str, text: str) -> tuple[str, ...]:
    """Writes down anew what a run is, where that is written."""
    return ("sh", "-c", _DESCRIBE_ANEW, text, f"{state}/{run}.json")


def note(state: str, line: str) -> tuple[str, ...]:
    """Adds a line to the user's audit; a file of everybody's would be refused by kernels that protect such folders."""
    return ("sh", "-c", _NOTE, line, state)


def listening(port: int) -> tuple[str, ...]:
    """Succeeds where something listens on a TCP port."""
    return ("grep", "-q", "-s", "-i", _listens(port), "/proc/net/tcp", "/proc/net/tcp6")


def free(port: int) -> tuple[str, ...]:
    """Succeeds where nothing listens on a TCP port."""
    return ("sh", "-c", '! grep -q -s -i "$0" /proc/net/tcp /proc/net/tcp6', _listens(port))


def _listens(port: int) -> str:
    """In the kernel's table: the port, nobody on the other side, state 10."""
    return f":{port:04x} [0-9A-F]*:0000 0A"
