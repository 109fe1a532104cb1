"""Send metrics to Ganglia, as packets that gmond receives from gmetric.

Source: Ganglia's protocol (``gm_protocol.x``, XDR over UDP); HTCondor's ``GangliaD`` (src/gangliad/gangliad.cpp).
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections.abc import Iterable, Iterator

from attrs import define, field, frozen

from ...domain.config import ConfigError
from ..bounded_text import read_text
from .evaluation import Metric

_METADATA, _TEXT_VALUE = 128, 133
_CHANNEL = re.compile(r"\budp_send_channel\s*\{(.*?)\}", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|#[^\n]*", re.DOTALL)
_ENTRY = re.compile(r'\b(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')
_BOTH, _DERIVATIVE = 3, 5  #: Ganglia's slopes


@frozen
class Destination:
    """An address to which gmetric would send packets: a host or a multicast group."""

    host: str
    port: int
    ttl: int = 1


def destinations(path: str) -> list[Destination]:
    """Return the ``udp_send_channel`` entries of a gmond.conf.

    :raises ConfigError: if the file cannot be read or has none
    """
    try:
        text = _COMMENT.sub("", read_text(path))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. GANGLIA_CONFIG names gmond's configuration"
        ) from None
    channels = []
    for channel in _CHANNEL.findall(text):
        entries = {name: quoted or plain for name, quoted, plain in _ENTRY.findall(channel)}
        host = entries.get("host") or entries.get("mcast_join") or "127.0.0.1"
        try:
            channels.append(Destination(host, int(entries.get("port", 8649)), int(entries.get("ttl", 1))))
        except ValueError:
            raise ConfigError(f"{path}: the port and ttl of an udp_send_channel must be numbers") from None
    if not channels:
        raise ConfigError(f"{path} has no udp_send_channel; add one with the host and port of a gmond")
    return channels


@define
class GangliaSender:
    """Sends metrics to Ganglia.

    ``interval``: seconds between two updates. ``min_lifetime``: seconds after which Ganglia forgets a metric that is no
    longer updated, unless its definition has a Lifetime. ``hosts``: the hosts that Ganglia monitors (None: send data
    for all hosts). ``destinations`` is empty with GANGLIA_LIB = NOOP.
    """

    destinations: list[Destination]
    interval: int
    min_lifetime: int = 86400
    hosts: frozenset[str] | None = None
    _sockets: dict[Destination, socket.socket] = field(factory=dict)
    _spoofed: set[str] = field(factory=set)

    def send(self, metrics: Iterable[Metric]) -> int:
        """Send metrics, and a heartbeat for each host that has metrics; return the number of metrics."""
        count = 0
        for metric in metrics:
            text = metric.text()
            if not text or not self._is_monitored(metric.machine):
                continue
            for packet in self.packets(metric, text):
                self._send(packet)
            count += 1
        self.send_heartbeats()
        return count

    def send_heartbeats(self) -> None:
        """Tell Ganglia that the hosts are up which it does not monitor itself."""
        for host in sorted(self._spoofed):
            extra = {"SPOOF_HOST": host, "SPOOF_HEARTBEAT": "yes"}
            self._send(_metadata(host, "heartbeat", "uint32", "", 0, 0, 0, extra))
            self._send(_value(host, "heartbeat", "0"))

    def packets(self, metric: Metric, text: str) -> Iterator[bytes]:
        """Yield a metric's packets: its description, then its value."""
        host = spoofed_host(metric)
        if host and self.hosts is None:
            self._spoofed.add(host)
        tmax = 2 * self.interval
        lifetime = metric.lifetime if metric.lifetime is not None else max(3 * tmax, self.min_lifetime)
        extra = {
            "GROUP": metric.group, "TITLE": metric.title, "DESC": metric.desc, "SPOOF_HOST": host,
            "CLUSTER": metric.cluster,
        }  # fmt: skip
        extra = {name: value for name, value in extra.items() if value}
        slope = _DERIVATIVE if metric.derivative else _BOTH
        of_type = "int8" if metric.type == "boolean" else metric.type
        yield _metadata(host, metric.name, of_type, metric.units, slope, tmax, lifetime, extra)
        yield _value(host, metric.name, text)

    def _is_monitored(self, machine: str) -> bool:
        return not machine or self.hosts is None or machine in self.hosts

    def _send(self, packet: bytes) -> None:
        for destination in self.destinations:
            if destination not in self._sockets:
                self._sockets[destination] = _open(destination)
            with contextlib.suppress(ConnectionRefusedError):  # gmond is not running; the next update may reach it
                self._sockets[destination].send(packet)

    def close(self) -> None:
        for open_socket in self._sockets.values():
            open_socket.close()
        self._sockets.clear()


def spoofed_host(metric: Metric) -> str:
    """Return the host to which Ganglia is to assign a metric, as ``address:name``. Other characters than letters,
    digits, ``-`` and ``_`` in the name become dots, which Ganglia's web pages need."""
    if not metric.machine:
        return ""
    return f"{metric.ip or metric.machine}:{re.sub('[^A-Za-z0-9_-]', '.', metric.machine)}"


def hosts_in_gstat(output: str) -> frozenset[str]:
    """Return the hosts with processors in the output of ``gstat --mpifile``."""
    lines = (line.rpartition(":") for line in output.splitlines())
    return frozenset(host for host, _, count in lines if count.strip().isdigit() and int(count) > 0)


def _open(destination: Destination) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_DGRAM)[
        0
    ]
    opened = socket.socket(family, kind, protocol)
    if family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, destination.ttl)
    opened.connect(address)
    return opened


def _text(text: str) -> bytes:
    data = text.encode(errors="replace")
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _metadata(
    host: str, name: str, of_type: str, units: str, slope: int, tmax: int, dmax: int, extra: dict[str, str]
) -> bytes:
    header = struct.pack(">I", _METADATA) + _text(host) + _text(name) + struct.pack(">I", bool(host))
    body = _text(of_type) + _text(name) + _text(units) + struct.pack(">IIII", slope, tmax, dmax, len(extra))
    return header + body + b"".join(_text(key) + _text(value) for key, value in extra.items())


def _value(host: str, name: str, text: str) -> bytes:
    header = struct.pack(">I", _TEXT_VALUE) + _text(host) + _text(name) + struct.pack(">I", bool(host))
    return header + _text("%s") + _text(text)
