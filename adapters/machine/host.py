"""The names of this machine, its user and this program. Imports little, because every command needs one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

VERSION = "0.2.0"
CONDOR_VERSION = f"$CondorVersion: 25.14.1 2026-10-16 BuildID: Poolbook-{VERSION} $"
"""The HTCondor version that Poolbook implements; jobs' Requirements may compare it."""

ARCHITECTURES = {"x86_64": "X86_64", "amd64": "X86_64", "aarch64": "aarch64", "arm64": "aarch64", "ppc64le": "ppc64le"}


def condor_platform() -> str:
    return f"$CondorPlatform: {architecture()}_{os.uname().sysname} $"


def architecture() -> str:
    machine = os.uname().machine
    return ARCHITECTURES.get(machine.lower(), machine)


def operating_system() -> str:
    return os.uname().sysname.upper()


def host_name() -> str:
    return os.uname().nodename


def user_name(uid: int | None = None) -> str:
    """Return a user's name, or the user id as text if it has no name. Default: this process's effective user."""
    import pwd

    uid = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def host_addresses() -> Iterator[str]:
    """Yield the addresses of this machine, the loopback addresses last."""
    import psutil

    families = "AF_INET", "AF_INET6"
    interfaces = sorted(psutil.net_if_addrs().items(), key=lambda interface: interface[0] == "lo")
    for _, addresses in interfaces:
        yield from (each.address for each in addresses if each.family.name in families and "%" not in each.address)
