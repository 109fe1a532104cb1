"""Load a pool's configuration: files, detected properties of the machine, and commands that files include.

``-config FILE`` names the files, and each of them overrides those before it. Without this option, ``POOLBOOK_CONFIG``
names the only file. Without this variable, the file is ``poolbook.conf`` in the current directory. If it does not
exist, only defaults apply. As in HTCondor, ``_CONDOR_NAME`` in the environment overrides all files."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...domain.config import ConfigError, Configuration, read
from ..machine.host import architecture, host_name, operating_system, user_name
from .config_sources import VARIABLE, config_files
from .disk import Disk


def load(
    files: Sequence[Path | str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    detected: Mapping[str, str] | None = None,
    subsystem: str = "STARTD",
    local_name: str = "",
    text: str | None = None,
    disk: Disk | None = None,
) -> Configuration:
    """Read the configuration from the `files` that ``-config`` named, or from `text`. `environment` is by default the
    environment of this process, `detected` overrides detected properties of this machine, and `disk` resolves paths
    that are relative to another directory. Raise `ConfigError` if a file cannot be read or is invalid."""
    variables = os.environ if environment is None else environment
    disk = disk or Disk()
    sources: list[tuple[str, str]] = []
    if text is not None:
        sources.append(("the configuration", text))
    for path in config_files(files, variables, disk.folder) if text is None else ():
        try:
            sources.append((str(path), disk.read(str(path))))
        except OSError as problem:
            why = f"{problem.strerror or problem}; use -config or {VARIABLE} to name another"
            raise ConfigError(f"the configuration cannot be read: {why}", str(path)) from None
    root = {"CONFIG_ROOT": str((disk.folder / sources[0][0]).absolute().parent)} if sources and text is None else {}
    macros = {**this_machine(variables), **root, **_with_cores(detected or {})}
    return read(sources, files=disk, environment=variables, detected=macros, subsystem=subsystem, local_name=local_name)


def _with_cores(detected: Mapping[str, str]) -> dict[str, str]:
    """Use the given number of cores, without the limits of this machine or its environment."""
    cores = detected.get("DETECTED_CPUS")
    return {"DETECTED_PHYSICAL_CPUS": cores, "DETECTED_CPUS_LIMIT": cores, **detected} if cores else dict(detected)


def this_machine(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties that HTCondor detects before it reads a file, under HTCondor's names."""
    import psutil

    system = platform.uname()
    logical, physical = psutil.cpu_count() or 1, psutil.cpu_count(logical=False) or 1
    return {
        "ARCH": architecture(),
        "OPSYS": operating_system(),
        "UNAME_ARCH": system.machine,
        "UNAME_OPSYS": system.system,
        "UTSNAME_MACHINE": system.machine,
        "UTSNAME_NODENAME": system.node,
        "UTSNAME_RELEASE": system.release,
        "UTSNAME_SYSNAME": system.system,
        "UTSNAME_VERSION": system.version,
        "CondorIsAdmin": "true" if os.getuid() == 0 else "false",
        "DETECTED_CORES": str(logical),
        "DETECTED_CPUS": str(logical),
        "DETECTED_PHYSICAL_CPUS": str(physical),
        "DETECTED_MEMORY": str(psutil.virtual_memory().total // 2**20),
        "HOSTNAME": host_name().partition(".")[0],
        "FULL_HOSTNAME": host_name(),
        "USERNAME": user_name(),
        "REAL_UID": str(os.getuid()),
        "REAL_GID": str(os.getgid()),
        "PID": str(os.getpid()),
        "PPID": str(os.getppid()),
        "TILDE": (environment or {}).get("HOME") or str(Path.home()),
    }
