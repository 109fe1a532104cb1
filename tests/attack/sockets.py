"""The socket of a pool that is served: garbage, requests that never end, and very many clients."""

from __future__ import annotations

import json
import random
import socket
from contextlib import suppress

from ..pool.test_connections import (
    connected,
    test_a_thousand_connections_are_all_served_beside_one_that_asks_all_the_time,
    test_requests_that_are_never_finished_hold_no_more_memory_than_is_meant,
)
from .attacks import Trial, attack

_KINDS = [
    "Hold",
    "Vacate",
    "Edit",
    "Submit",
    "SubmitDescription",
    "ReserveCluster",
    "Drain",
    "SetSubmitter",
    "VacateSlot",
    "x",
]
_NAMES = [
    "kind",
    "id",
    "user",
    "action",
    "selection",
    "changes",
    "cluster",
    "ad",
    "count",
    "columns",
    "slot",
    "machine",
]


def _value(chance: random.Random, deep: int = 3) -> object:
    kinds: list[object] = [None, True, -1, 2**70, 1e308, "", "\0\ud800", "1 +", "hold", [], {}]
    if deep and chance.random() < 0.4:
        some = range(chance.randint(0, 4))
        if chance.random() < 0.5:
            return [_value(chance, deep - 1) for _ in some]
        return {chance.choice(_NAMES): _value(chance, deep - 1) for _ in some}
    return chance.choice(kinds)


def _request(chance: random.Random) -> bytes:
    """A line that is no request, or nearly one."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randint(0, 300)).replace(b"\n", b"")
    if kind == 1:
        return chance.choice([b"[", b'{"a":', b"\xff\xfe", b"null", b"9" * 5000, b"[" * 100_000, b'"' + b"x" * 10_000])
    request = {name: _value(chance) for name in chance.sample(_NAMES, chance.randint(0, 8))}
    request["kind"] = chance.choice(_KINDS)
    text = json.dumps(request).encode()
    if kind == 2:
        return text
    at = chance.randrange(len(text))
    return text[:at] + chance.randbytes(1).replace(b"\n", b" ") + text[at + 1 :]


@attack(
    "socket-garbage",
    promise="Invalid requests are rejected on their connection; all others are answered.",
    fails="a server that ends, or does not answer the next request",
)
def _socket_garbage(trial: Trial) -> None:
    folder, chance = trial.folder, trial.chance
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    trial.tries = 0
    with folder.served("-slots", "1") as server:
        folder.call("submit", "job.sub")
        for _ in range(20):
            lines = [_request(chance) for _ in range(50)]
            with connected(folder.path) as connection, suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"\n".join(lines) + chance.choice([b"", b"\n"]))
                if chance.random() < 0.5:  # else nobody reads what is answered
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1 << 16)
            trial.tries += len(lines)
        assert server.poll() is None, server.communicate(10)[0][-3000:]
        assert "submitted to cluster" in folder.call("submit", "job.sub")
    assert "sound" in folder.call("verify")


@attack(
    "socket-halves",
    promise="Unfinished requests use limited memory and block no other client.",
    fails="a server that ends or takes 165 MB more, or a client that is not answered",
)
def _socket_halves(trial: Trial) -> None:
    trial.tries = 5
    test_requests_that_are_never_finished_hold_no_more_memory_than_is_meant(trial.folder)


@attack(
    "socket-crowd",
    promise="A thousand clients are answered while another one sends requests continuously.",
    fails="a client that is not answered",
)
def _socket_crowd(trial: Trial) -> None:
    trial.tries = 1000
    test_a_thousand_connections_are_all_served_beside_one_that_asks_all_the_time(trial.folder)
