"""The configuration of a pool: which files hold it, what the machine is like, and the commands that files include.

``-config FILE`` names the files, each laid over those before it; else ``POOLBOOK_CONFIG`` names one; else it is
``poolbook.conf`` in the current folder, if there is one; else the defaults alone are in force. ``_CONDOR_NAME`` in
the environment goes before all files, as in HTCondor.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...domain.config import ConfigError, Configuration, is_known, read
from ...domain.submit.quoting import QuotingError, in_new_syntax, split, unquoted
from ..machine.host import architecture, host_name, operating_system, user_name

VARIABLE = "POOLBOOK_CONFIG"
FILE = "poolbook.conf"

_LONGEST_RUN = 60  # seconds that an included command may take; HTCondor waits forever


def config_files(files: Sequence[Path | str] = (), environment: Mapping[str, str] | None = None) -> list[Path]:
    """The files that hold the configuration; none where there are only defaults."""
    if files:
        return [Path(file) for file in files]
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if named:
        return [Path(named)]
    return [Path(FILE)] if Path(FILE).exists() else []


def environment_settings(environment: Mapping[str, str] | None = None) -> list[str]:
    """The variables that set one of HTCondor's settings (``_CONDOR_START``): they count without any file, too.
    What else begins so is of a job's own environment (``_CONDOR_SCRATCH_DIR``)."""
    given = os.environ if environment is None else environment
    return sorted(name for name in given if name[:8].lower() == "_condor_" and is_known(name[8:]))


def load(
    files: Sequence[Path | str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    detected: Mapping[str, str] | None = None,
    subsystem: str = "STARTD",
    local_name: str = "",
    seed: int = 0,
    text: str | None = None,
) -> Configuration:
    """Read the configuration.

    :param files: what ``-config`` named
    :param text: the configuration itself, in place of any file
    :param environment: this process's, unless given
    :param detected: laid over what this machine tells of itself
    :raises ConfigError: for a file that cannot be read, and for what cannot be taken in one
    """
    given = os.environ if environment is None else environment
    disk = Disk()
    sources: list[tuple[str, str]] = []
    if text is not None:
        sources.append(("the configuration", text))
    for path in config_files(files, given) if text is None else ():
        try:
            sources.append((str(path), disk.read(str(path))))
        except OSError as problem:
            words = f"{problem.strerror or problem}; name another with -config or {VARIABLE}"
            raise ConfigError(f"the configuration cannot be read: {words}", str(path)) from None
    root = {"CONFIG_ROOT": str(Path(sources[0][0]).absolute().parent)} if sources and text is None else {}
    return read(
        sources,
        files=disk,
        environment=given,
        detected={**this_machine(), **root, **_with_cores(detected or {})},
        subsystem=subsystem,
        local_name=local_name,
        seed=seed,
    )


def _with_cores(detected: Mapping[str, str]) -> dict[str, str]:
    """Cores that somebody else counted are all that count: neither this machine's nor its environment's limits them."""
    cores = detected.get("DETECTED_CPUS")
    return {"DETECTED_PHYSICAL_CPUS": cores, "DETECTED_CPUS_LIMIT": cores, **detected} if cores else dict(detected)


def this_machine() -> dict[str, str]:
    """What HTCondor detects before it reads a file, under its names."""
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
        "TILDE": str(Path.home()),
    }


class Disk:
    """The real disk, and real commands; see ``domain.config.Files``."""

    def read(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")

    def listing(self, path: str) -> list[str]:
        try:
            return sorted(str(entry) for entry in Path(path).iterdir() if not entry.is_dir())
        except OSError:
            return []

    def run(self, command: str) -> str:
        """What a command prints. No shell reads it, and how it ends does not matter, as in HTCondor.

        :raises OSError: where it cannot be started, or takes too long
        """
        try:
            words = split(unquoted(command)) if in_new_syntax(command) else command.split()
        except QuotingError as problem:
            raise OSError(str(problem)) from None
        if not words:
            raise OSError("there is no command before the |")
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_LONGEST_RUN)
        except subprocess.TimeoutExpired:
            raise OSError(f"it did not end within {_LONGEST_RUN} seconds") from None
        return done.stdout.decode("utf-8", errors="surrogateescape")

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text, encoding="utf-8", errors="surrogateescape")
