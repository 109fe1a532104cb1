"""The other end of a connection: a user of this machine, the holder of a certificate, or an address."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

_TABLES: Final = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}


_ESTABLISHED: Final = "01"


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str
    uid: int | None = None  #: the user id of a process on this machine that uses loopback
    certificate: str = ""  #: the common name in a verified client certificate


def peer_of(transport: Any) -> Peer:
    """Return the other end of an asyncio transport. Reads the kernel's table of connections, so call it once for each
    connection."""
    remote, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not remote:
        return Peer("")
    certificate = (transport.get_extra_info("peercert") or {}).get("subject", ())
    names = [value for part in certificate for name, value in part if name == "commonName"]
    address = ip_address(remote[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    uid = _uid_of(remote, own) if mapped.is_loopback else None
    return Peer(str(mapped), uid, names[0] if names else "")


def _uid_of(remote: tuple[Any, ...], own: tuple[Any, ...]) -> int | None:
    """Return the user id of the process that connected from an address and port of this machine."""
    ends = [_unmapped(place) for place in (remote, own)]
    family = 6 if ":" in ends[0][0] else 4
    expected = [_hex_address(end, family) for end in ends]
    with suppress(OSError), open(_TABLES[family]) as table:
        for line in table:
            fields = line.split()
            if fields[1:3] == expected:
                # The kernel lists a socket that its process has closed as one of user 0, without an inode.
                return int(fields[7]) if fields[3] == _ESTABLISHED and fields[9] != "0" else None
    return None


def _unmapped(place: tuple[Any, ...]) -> tuple[str, int]:
    """Return an address and port, with an IPv4 address as such."""
    address = ip_address(place[0].partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address), place[1]


def _hex_address(place: tuple[str, int], family: int) -> str:
    """Return an address and port as the kernel's tables contain them: words in the machine's byte order."""
    packed = socket.inet_pton(socket.AF_INET6 if family == 6 else socket.AF_INET, place[0])
    words = struct.unpack(f">{len(packed) // 4}I", packed)
    in_order = struct.unpack(f">{len(words)}I", struct.pack(f"={len(words)}I", *words))
    return "".join(f"{word:08X}" for word in in_order) + f":{place[1]:04X}"
