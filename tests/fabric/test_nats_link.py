"""property: a connection delivers the same messages in whatever pieces they arrive, and survives any other data."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.fabric.nats_link import NatsLink

NAMES = st.text("abc%2E", min_size=1, max_size=5)
MESSAGES = st.tuples(NAMES, st.sampled_from(["", "reply "]), st.binary(max_size=30))
OTHER_LINES = st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b'INFO {"ldm":true}\r\n', b"-ERR 'Slow'\r\n"])


def deliver(pieces: list[bytes]) -> tuple[list[tuple[str, bytes]], str]:
    """Return the messages in what a server sends in pieces, and the problem that the connection reports."""
    messages: list[tuple[str, bytes]] = []

    async def receive() -> str:
        link = NatsLink(lambda subject, data: messages.append((subject, data)), lambda: None)
        for piece in pieces:
            link.data_received(piece)
        return link.problem

    return messages, asyncio.run(receive())


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(st.lists(MESSAGES | OTHER_LINES, max_size=8), st.lists(st.integers(1, 40), max_size=20))
def test_messages_arrive_whatever_the_pieces(sent: list[tuple[str, str, bytes] | bytes], sizes: list[int]) -> None:
    stream, messages = b"", []
    for part in sent:
        if isinstance(part, bytes):
            stream += part
        else:
            subject, reply, data = part
            stream += f"MSG {subject} 1 {reply}{len(data)}\r\n".encode() + data + b"\r\n"
            messages.append((subject, data))
    assert deliver(split(stream, sizes))[0] == messages


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b"MSG", b" ", b"-1", b"99", b"x", b"\r\n"]), max_size=20))
def test_no_data_of_a_server_raises(pieces: list[bytes]) -> None:
    deliver(pieces)


def test_data_that_is_not_the_protocol_ends_the_connection() -> None:
    for data in (b"HTTP/1.1 200 OK\r\n", b"MSG a 1 -1\r\n", b"MSG a 1 999999999\r\n", b"MSG\r\n", b"x" * 70_000):
        assert deliver([data]) == ([], "the broker sent invalid data; name the URL of a NATS server")
