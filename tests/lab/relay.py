"""A slow cable in user space: ``relay.py PORT PORT MILLISECONDS LOSS``.

Copies Ethernet frames between two interfaces with a delay and a loss in each direction, where the kernel has no
netem. Run by path, without the project's packages.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time
from collections import deque

PACKET, IGNORE_OUTGOING, ANY = 263, 23, 3
QUEUE = 2000
"""Frames that are held in one direction; beyond it they are lost, as in a real queue."""


def port(name: str) -> socket.socket:
    """Everything that arrives at an interface, and nothing that leaves by it."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    found.setsockopt(PACKET, IGNORE_OUTGOING, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    found.bind((name, ANY))
    found.setblocking(False)
    return found


class Direction:
    """Frames on their way from one port to the other."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.held: deque[tuple[float, bytes]] = deque()

    def take(self, delay: float, loss: float, dice: random.Random) -> None:
        """What has arrived."""
        for _ in range(64):
            try:
                frame = self.source.recv(1 << 16)
            except OSError:
                return
            if dice.random() >= loss and len(self.held) < QUEUE:
                self.held.append((time.monotonic() + delay, frame))

    def pass_on(self) -> float | None:
        """Send what is due; when the next is."""
        while self.held and self.held[0][0] <= time.monotonic():
            frame = self.held.popleft()[1]
            try:
                self.target.send(frame)
            except OSError:
                continue  # the interface is down: lost, as on a wire
        return self.held[0][0] if self.held else None


def relay(first: str, second: str, delay: float, loss: float) -> None:
    """Until it is killed."""
    one, two = port(first), port(second)
    ways = {one.fileno(): Direction(one, two), two.fileno(): Direction(two, one)}
    dice = random.Random(1)
    ready = select.poll()
    for number in ways:
        ready.register(number, select.POLLIN)
    while True:
        due = [when for when in (way.pass_on() for way in ways.values()) if when is not None]
        wait = max(0.0, min(due) - time.monotonic()) * 1000 if due else None
        for number, _ in ready.poll(wait):
            ways[number].take(delay, loss, dice)


if __name__ == "__main__":
    relay(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000, float(sys.argv[4]))
