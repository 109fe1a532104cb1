"""A slow, lossy link between two TAP devices: `slow_link.py TAP TAP [rate=N] [delay=S] [jitter=S] [loss=P]
[duplicates=P]`. It prints "ready" and then forwards packets until it is killed.

Each direction has its own queue of at most a second, like a router: later packets are lost. A random jitter delays each
packet separately, so that packets overtake each other. The random numbers are the same in each run.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x1002  # IFF_TAP | IFF_NO_PI
_MAX_QUEUE = 1.0  # seconds
_MAX_PACKET = 1 << 16


def open_tap(name: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return tap


def main(names: list[str], settings: dict[str, float]) -> None:
    rate, delay, jitter = settings.get("rate", 0), settings.get("delay", 0), settings.get("jitter", 0)
    loss, duplicates = settings.get("loss", 0), settings.get("duplicates", 0)
    near, far = map(open_tap, names)
    other = {near: far, far: near}
    free_at = {near: 0.0, far: 0.0}  # when the last packet that came from there has passed the link
    waiting: list[tuple[float, int, int, bytes]] = []  # when to send which packet to which device
    draws, count = random.Random(1), 0
    print("ready", flush=True)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([near, far], [], [], timeout)
        now = time.monotonic()
        for tap in readable:
            packet = os.read(tap, _MAX_PACKET)
            if free_at[tap] - now > _MAX_QUEUE or draws.random() < loss:
                continue
            free_at[tap] = max(free_at[tap], now) + (len(packet) / rate if rate else 0)
            for _ in range(2 if draws.random() < duplicates else 1):
                count += 1
                due = free_at[tap] + delay + jitter * draws.random()
                heapq.heappush(waiting, (due, count, other[tap], packet))
        while waiting and waiting[0][0] <= now:
            _, _, tap, packet = heapq.heappop(waiting)
            os.write(tap, packet)


if __name__ == "__main__":
    main(sys.argv[1:3], {name: float(value) for name, _, value in (text.partition("=") for text in sys.argv[3:])})
