"""Measure the datagrams between two roles in separate processes, over NATS with TLS.

    python -m tests.bench.bench_fabric

The latency is half of a round trip, from `send` in one process to `receive` in the other. For the rates, a process
sends one way, and the other acknowledges each `ACKNOWLEDGED` bytes, so that nothing is lost. Carriers within one
process are measured too, as the limit of what the roles themselves can do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from poolbook.adapters.fabric.carrier import Carrier

from ..children import child
from ..fabric.local_carriers import LocalCarriers
from ..fabric.pool import BrokerPool, receive, running_pool

ROUND_TRIPS = 2000
RATES = ((100, 50_000), (1000, 50_000), (16_000, 10_000), (900_000, 300))
"""Bytes of a datagram, and how many are sent."""
ACKNOWLEDGED = 2 << 20
WINDOW = 4  #: acknowledgements that the sender is ahead
SENDER, RECEIVER = "manager", "execution-point/ep1"


def answer(carrier: Carrier) -> None:
    """Answer each datagram that begins with ``!`` until one says stop."""
    while True:
        for sender, data in receive(carrier):
            if data == b"stop":
                return
            if data[:1] == b"!":
                carrier.send(sender, b"answer")


def measure_latency(carrier: Carrier, name: str) -> None:
    times = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        carrier.send(RECEIVER, b"!" + bytes(99))
        receive(carrier)
        times.append((time.perf_counter() - began) / 2)
    times.sort()
    half, most = times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000
    print(f"{f'{name}, one way, 100 bytes':40} median {half:6.2f} ms   99 of 100 within {most:6.2f} ms")


def measure_rate(name: str, size: int, count: int, send: Callable[[bytes], None], wait: Callable[[], int]) -> None:
    """Measure `count` datagrams. `wait` returns the number of acknowledgements, at least one."""
    interval = max(1, ACKNOWLEDGED // (size + 256))  # an inbox counts as many bytes for each
    plain, marked = bytes(size), b"!" + bytes(size - 1)
    ahead = 0
    began = time.perf_counter()
    for number in range(1, count + 1):
        is_marked = number % interval == 0 or number == count
        send(marked if is_marked else plain)
        ahead += is_marked
        while ahead >= WINDOW or (number == count and ahead):
            ahead -= wait()
    seconds = time.perf_counter() - began
    print(f"{f'{name}, {size} bytes':40} {count / seconds:9,.0f}/s {size * count / seconds / 1e6:8.1f} MB/s")


def measure_nats(pool: BrokerPool) -> None:
    def work(_: int) -> None:
        answer(pool.join(RECEIVER))

    with child(work) as process:
        carrier = pool.join(SENDER)
        while not carrier.receive():  # until the other process receives
            carrier.send(RECEIVER, b"!")
            time.sleep(0.05)
        time.sleep(0.2)
        carrier.receive()
        measure_latency(carrier, "NATS")
        for size, count in RATES:
            measure_rate("NATS", size, count, lambda data: carrier.send(RECEIVER, data), lambda: len(receive(carrier)))
        carrier.send(RECEIVER, b"stop")
        process.wait()


def measure_local() -> None:
    hub = LocalCarriers()
    sender, receiver = hub.carrier(SENDER), hub.carrier(RECEIVER)

    def wait() -> int:
        return sum(data[:1] == b"!" for _, data in receiver.receive())

    for size, count in RATES[:2]:
        measure_rate("one process", size, count, lambda data: sender.send(RECEIVER, data), wait)


def main() -> int:
    measure_local()
    with tempfile.TemporaryDirectory() as folder, running_pool(Path(folder)) as pool:
        measure_nats(pool)
    return 0


if __name__ == "__main__":
    sys.exit(main())
