"""Attacks on a pool's socket: garbage, requests that never end, and very many clients."""

from __future__ import annotations

import json
import random
import socket
from contextlib import suppress

from ..pool.test_connections import (
    connected,
    test_a_thousand_connections_are_all_served_while_one_client_asks_constantly,
    test_unfinished_requests_use_no_more_memory_than_allowed,
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
    "SwitchDaemons",
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


def _value(rng: random.Random, depth: int = 3) -> object:
    leaves: list[object] = [None, True, -1, 2**70, 1e308, "", "\0\ud800", "1 +", "hold", [], {}]
    if depth and rng.random() < 0.4:
        items = range(rng.randint(0, 4))
        if rng.random() < 0.5:
            return [_value(rng, depth - 1) for _ in items]
        return {rng.choice(_NAMES): _value(rng, depth - 1) for _ in items}
    return rng.choice(leaves)


def _request(rng: random.Random) -> bytes:
    """Return an invalid or almost valid request."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 300)).replace(b"\n", b"")
    if kind == 1:
        return rng.choice([b"[", b'{"a":', b"\xff\xfe", b"null", b"9" * 5000, b"[" * 100_000, b'"' + b"x" * 10_000])
    request = {name: _value(rng) for name in rng.sample(_NAMES, rng.randint(0, 8))}
    request["kind"] = rng.choice(_KINDS)
    text = json.dumps(request).encode()
    if kind == 2:
        return text
    position = rng.randrange(len(text))
    return text[:position] + rng.randbytes(1).replace(b"\n", b" ") + text[position + 1 :]


@attack(
    "socket-garbage",
    promise="Invalid requests are rejected on their connection; all others are answered.",
    fails="a server that ends, or does not answer the next request",
)
def _socket_garbage(trial: Trial) -> None:
    folder, rng = trial.folder, trial.rng
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    trial.tries = 0
    with folder.served("-slots", "1") as server:
        folder.call("submit", "job.sub")
        for _ in range(20):
            lines = [_request(rng) for _ in range(50)]
            with connected(folder.path) as connection, suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"\n".join(lines) + rng.choice([b"", b"\n"]))
                if rng.random() < 0.5:  # otherwise the answers are not read
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
    test_unfinished_requests_use_no_more_memory_than_allowed(trial.folder)


@attack(
    "socket-crowd",
    promise="A thousand clients are answered while another one sends requests continuously.",
    fails="a client that is not answered",
)
def _socket_crowd(trial: Trial) -> None:
    trial.tries = 1000
    test_a_thousand_connections_are_all_served_while_one_client_asks_constantly(trial.folder)
