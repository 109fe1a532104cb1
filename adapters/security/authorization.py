"""Authorization as in HTCondor (condor_ipverify.cpp, condor_perms.cpp): who may do what, from which machine.

Each request needs a level, such as READ. The settings ``ALLOW_<level>`` and ``DENY_<level>`` list users and machines:
``user@domain``, ``user@domain/host``, or ``host``; a host is a name, an address or a network; ``*`` is a wildcard. DENY
takes precedence over ALLOW, and a token's scopes limit both. If no entry of a level matches, a level that implies it
may allow the request: WRITE implies READ. The defaults come from ``use security:recommended``.

Entries with host names need DNS, so a decision may wait for it; entries with addresses, networks or ``*`` do not.
Netgroups (``+group``) are not supported: in a DENY list they deny everyone.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

IMPLIED: Final[Mapping[str, str]] = {
    "ALLOW": "", "READ": "", "WRITE": "READ", "NEGOTIATOR": "READ", "ADMINISTRATOR": "WRITE", "CONFIG": "READ",
    "DAEMON": "WRITE", "CLIENT": "", "ADVERTISE_STARTD": "READ", "ADVERTISE_SCHEDD": "READ",
    "ADVERTISE_MASTER": "READ",
}  # fmt: skip
"""The levels, in HTCondor's order, and the level that each implies."""
LEVELS: Final = tuple(IMPLIED)
DEFAULTS: Final[Mapping[str, str]] = {
    "ALLOW_READ": "*", "ALLOW_WRITE": "*", "ALLOW_CLIENT": "*",
    "ALLOW_ADMINISTRATOR": "condor@* condor@password root@*",
    "ALLOW_DAEMON": "condor@* condor@password", "ALLOW_NEGOTIATOR": "condor@* condor@password",
    "SEC_DEFAULT_AUTHENTICATION": "REQUIRED", "SEC_READ_AUTHENTICATION": "OPTIONAL",
    "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
}  # fmt: skip
UNAUTHENTICATED: Final = "unauthenticated@unmapped"
_EVERYONE: Final = ("*", "*/*")
_EQUIVALENT_USERS: Final = (("condor@", "condor_pool@"), ("condor_pool@", "condor@"))
_LOCAL: Final = "{:local_ips:}"
_DNS_LIFETIME: Final = 3600  #: seconds for which answers of DNS are kept

Address = IPv4Address | IPv6Address


class Verdict(NamedTuple):
    """The answer to an authorization request."""

    allowed: bool
    rule: str  #: the setting that decided, with the entry that matched: ``DENY_WRITE: *.lab.example``
    reason: str  #: as HTCondor's daemons log it


class _Entry(NamedTuple):
    user: str
    host: str
    text: str


class _Rule(NamedTuple):
    """The value of a setting, and its name."""

    setting: str
    value: str

    def match(self, user: str, address: Address) -> tuple[_Entry, str] | None:
        """Return the first entry that matches, and what it matches: the address or a host name."""
        for entry in _entries(self.value):
            if entry.text.startswith("+"):
                if self.setting.startswith("DENY"):
                    return entry, f"everyone, because netgroups ({entry.text}) are not supported"
                continue
            if not _matches_user(entry.user, user):
                continue
            if matched := _matching_host(entry.host, address):
                return entry, matched
        return None


def is_authorized(
    settings: Mapping[str, str], identity: str | None, address: str, level: str,
    scopes: Collection[str] | None = None, daemon: str = "",
) -> Verdict:  # fmt: skip
    """Decide whether a user may do what needs ``level``.

    :param settings: the configuration; a missing name has the default, an empty value has no entries
    :param identity: ``user@domain`` (``Identity.name``); None: not authenticated
    :param address: the address of the user's machine
    :param scopes: the levels to which the user's token is limited; None: not limited
    :param daemon: SCHEDD, STARTD, COLLECTOR, ...: ``ALLOW_READ_SCHEDD`` takes precedence over ``ALLOW_READ``
    :raises ValueError: the level is unknown, or the address is invalid
    """
    if level not in IMPLIED:
        raise ValueError(f"{level[:80]!r} is not an authorization level; use one of {', '.join(LEVELS)}")
    machine = _address(address)
    if level == "ALLOW":
        return Verdict(True, "ALLOW", "the level ALLOW is open to everyone")
    need = _rule(settings, "SEC_{}_AUTHENTICATION", level, "")
    if identity is None and need.value.upper() == "REQUIRED":
        reason = "Authentication is required for this authorization but it was not used"
        return Verdict(False, f"{need.setting}: {need.value}", reason)
    if scopes is not None and level not in _with_implied(scopes):
        reason = f"The {level} permission is not included in the authentication bounding set"
        return Verdict(False, f"scope: {' '.join(sorted(scopes))}", reason)
    return _decide(settings, identity or UNAUTHENTICATED, machine, level, daemon)


def _with_implied(scopes: Collection[str]) -> set[str]:
    levels = set(scopes)
    for level in scopes:
        while level := IMPLIED.get(level, ""):
            levels.add(level)
    return levels


def _decide(settings: Mapping[str, str], user: str, address: Address, level: str, daemon: str) -> Verdict:
    allow, deny = (_rule(settings, f"{verb}_{{}}", level, daemon) for verb in ("ALLOW", "DENY"))
    policy = f"{level} authorization policy"
    if deny.value in _EVERYONE:
        return Verdict(False, f"{deny.setting}: {deny.value}", f"{policy} denies all access")
    if not allow.value and level not in ("READ", "WRITE"):
        return Verdict(False, f"{allow.setting}: not set", f"{policy} denies all access")
    if allow.value in _EVERYONE and not deny.value:
        return Verdict(True, f"{allow.setting}: {allow.value}", f"{policy} allows access by anyone")
    if match := deny.match(user, address):
        return Verdict(False, f"{deny.setting}: {match[0].text}", f"{policy} denies {match[1]}")
    if allow.value in _EVERYONE:
        return Verdict(True, f"{allow.setting}: {allow.value}", f"{policy} does not deny, so allowing")
    if match := allow.match(user, address):
        return Verdict(True, f"{allow.setting}: {match[0].text}", f"{policy} allows {match[1]}")
    for higher_level in (name for name in LEVELS if IMPLIED[name] == level):
        verdict = _decide(settings, user, address, higher_level, daemon)
        if verdict.allowed:
            return verdict._replace(reason=f"{level} is implied by {higher_level}; {verdict.reason}")
    reason = f"{policy} contains no matching ALLOW entry for {user} from {address}"
    return Verdict(False, f"{allow.setting}: no entry matches", reason)


def _rule(settings: Mapping[str, str], pattern: str, level: str, daemon: str) -> _Rule:
    """Return the value of the first setting that is not empty: the level's own, DAEMON's for ADVERTISE_*, DEFAULT's."""
    levels = (level, *(("DAEMON",) if level.startswith("ADVERTISE_") else ()), "DEFAULT")
    for name in (pattern.format(each) for each in levels):
        for setting in (f"{name}_{daemon}", name) if daemon else (name,):
            if value := settings.get(setting, DEFAULTS.get(setting, "")).strip():
                return _Rule(setting, value)
    return _Rule(pattern.format(level), "")


@lru_cache(maxsize=1000)
def _entries(text: str) -> tuple[_Entry, ...]:
    return tuple(_Entry(*_split(entry), entry) for entry in re.split(r"[,\s]+", text) if entry)


def _split(entry: str) -> tuple[str, str]:
    """Return the user and the host of an entry: user@domain, user@domain/host, host, user/net/mask."""
    user, _, host = entry.partition("/")
    if not host:
        return (entry, "*") if "@" in entry else ("*", entry)
    if "/" not in host and "@" not in user and not user.startswith("*") and _network(entry) is not None:
        return "*", entry
    return user, host


def _matches_user(pattern: str, user: str) -> bool:
    equivalents = (new + pattern[len(old) :] for old, new in _EQUIVALENT_USERS if pattern.lower().startswith(old))
    return any(_matches_text(each, user) for each in (pattern, *equivalents))


def _matches_text(pattern: str, text: str) -> bool:
    return bool(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.IGNORECASE | re.DOTALL))


def _matching_host(pattern: str, address: Address) -> str:
    """Return what a host pattern matches, in words: the address or one of its names; empty if it does not match."""
    if pattern.lower() == _LOCAL:
        return f"IP address {address}" if str(address) in _local_addresses() else ""
    network = _network(pattern)
    if pattern in _EVERYONE:
        return f"IP address {address}"
    if network is not None:
        return f"IP address {address}" if address in network else ""
    if "*" not in pattern and str(address) in _addresses_of(pattern.lower(), _dns_period()):
        return f"IP address {address}"
    return next(
        (f"hostname {name}" for name in _names_of(str(address), _dns_period()) if _matches_text(pattern, name)), ""
    )


@lru_cache(maxsize=1000)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    """Return the network that a pattern denotes, such as an address, ``10.0.0.0/8``, ``10.0.0.0/255.0.0.0``, ``10.0.*``
    or ``fd00:1:*``; None if it denotes none."""
    if match := re.fullmatch(r"(\d+(?:\.\d+){0,2})\.?\*?", text, re.ASCII):
        parts = match[1].split(".")
        text = f"{'.'.join(parts + ['0'] * (4 - len(parts)))}/{8 * len(parts)}"
    elif (match := re.fullmatch(r"([0-9a-fA-F:]+):\*", text)) and "::" not in match[1]:
        text = f"{match[1]}::/{16 * (match[1].count(':') + 1)}"
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def in_network(pattern: str, address: str) -> bool | None:
    """Return True if an address is in a network, such as ``10.0.0.0/8``; None if the network is invalid."""
    if pattern in _EVERYONE:
        return True
    network = _network(pattern)
    return None if network is None else _address(address) in network


def _address(text: str) -> Address:
    address = ip_address(text.partition("%")[0])  # without the interface of a link-local address
    return getattr(address, "ipv4_mapped", None) or address


def _local_addresses() -> Iterator[str]:
    """Yield the addresses of this machine."""
    import psutil

    for addresses in psutil.net_if_addrs().values():
        yield from (each.address.partition("%")[0] for each in addresses)


def _dns_period() -> int:
    return int(time.monotonic() // _DNS_LIFETIME)


@lru_cache(maxsize=10_000)
def _addresses_of(name: str, period: int) -> frozenset[str]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(str(_address(str(answer[4][0]))) for answer in answers)


@lru_cache(maxsize=10_000)
def _names_of(address: str, period: int) -> tuple[str, ...]:
    """Return the host names of an address. A name counts only if it has this address: the owner of
    an address can give it any name in DNS."""
    try:
        name, aliases, _ = socket.gethostbyaddr(address)
    except OSError:
        return ()
    return tuple(each for each in (name, *aliases) if address in _addresses_of(each.lower(), period))
