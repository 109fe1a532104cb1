"""The configuration of the daemons' logs: where each one is, which lines it has, and when it is rotated.

Source: the manual's "Configuration Macros", and HTCondor's behaviour for debug categories and sizes with units.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from attrs import evolve, field, frozen

from ....domain.config import Configuration
from ....domain.coverage.settings import DAEMON_LIST, is_manager_option, parse_daemon_list
from ....domain.units import DAY, HOUR
from .fold import LogLine, LogName
from .line_table import ALWAYS, MATCH, STATUS

CATEGORIES: Final = frozenset({ALWAYS, "D_ERROR", STATUS, MATCH})
"""The categories of lines that the logs have; HTCondor's other categories have no lines."""
HEADERS: Final = frozenset({"D_PID", "D_CAT", "D_SUB_SECOND", "D_TIMESTAMP"})
"""The flags that add a field to each line."""
_LOGS: Final = (
    "MASTER_LOG", "COLLECTOR_LOG", "NEGOTIATOR_LOG", "NEGOTIATOR_MATCH_LOG", "DEFRAG_LOG", "SCHEDD_LOG", "SHADOW_LOG",
    "STARTD_LOG", "STARTER_LOG",
)  # fmt: skip
"""The settings with the paths of the logs. A name begins with that of the daemon."""
_SYNONYMS: Final = {"D_LEVEL": "D_CAT", "D_CATEGORY": "D_CAT", "D_FAILURE": "D_ERROR"}
_DEFAULT: Final = CATEGORIES - {MATCH}
_SIZE: Final = re.compile(r"\s*(-?\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_SIZES: Final = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TIMES: Final = {"S": 1, "MIN": 60, "H": HOUR, "D": DAY, "W": 7 * DAY}  #: in seconds
_BAD_SIZE: Final = "is not a size or duration; write a number with B, KB, MB, GB, TB, min, hours, days or weeks"
Load = Callable[[str], Configuration]
"""Reads the configuration of a daemon."""


@frozen
class DebugFlags:
    """The categories of lines, those with verbose lines too, and the flags of the header."""

    basic: frozenset[str] = _DEFAULT
    verbose: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()

    def merged(self, text: str, unknown: Callable[[str], None]) -> DebugFlags:
        """Return these flags merged with a setting, such as ``D_PID D_ALWAYS:2 -D_MATCH``. Call `unknown` with each
        flag that has no effect."""
        flags = self
        for word in re.split(r"[|,\s]+", text.strip()):
            name, _, level_text = word.lstrip("+-").upper().partition(":")
            level = int(level_text[:1]) if level_text[:1].isdigit() else int(not word.startswith("-"))
            if name:
                flags = flags._with(_SYNONYMS.get(name, name), level, unknown)
        return flags

    def _with(self, name: str, level: int, unknown: Callable[[str], None]) -> DebugFlags:
        if name == "D_FULLDEBUG":
            name, level = ALWAYS, 2 * level
        if name in ("D_ALL", "D_ANY"):
            headers = {"D_PID", "D_CAT"} if name == "D_ALL" else set()
            categories = CATEGORIES
        elif name in HEADERS:
            headers, categories = {name}, frozenset()
        else:
            headers, categories = set(), CATEGORIES & {name}
            if not categories:
                unknown(name)
        if not level:
            return evolve(self, verbose=self.verbose - categories, headers=self.headers - headers)
        verbose = self.verbose | categories if level > 1 else self.verbose
        return DebugFlags(self.basic | categories, verbose, self.headers | headers)


@frozen
class LogFile:
    """One file of a daemon: its path, its lines, and its rotation. `largest` is a size in bytes or a time in seconds
    (0: no limit); `rotations` is the number of older files."""

    path: str
    flags: DebugFlags = DebugFlags()
    accepts_all: bool = True  #: it has all D_ALWAYS lines
    largest: int = 0
    by_time: bool = False
    rotations: int = 1
    is_truncated: bool = False  #: it is emptied when the pool starts

    def accepts(self, line: LogLine) -> bool:
        """Return True if the file has this line."""
        if line.category in self.flags.verbose:
            return True
        if line.is_verbose:
            return False
        return line.category in self.flags.basic or (line.category == ALWAYS and self.accepts_all)


@frozen
class LogSettings:
    """The files of each daemon, of further daemons by their names in DAEMON_LIST, and the format of times in them."""

    files: dict[str, tuple[LogFile, ...]]
    time_format: str
    folder: str  #: LOG
    appends: str = "slot"  #: what the names of starters' logs end with: slot, job, cluster, or nothing (empty)
    warnings: list[str] = field(factory=list)

    def files_of(self, log: LogName) -> Iterator[LogFile]:
        """Yield the files of a log. Another machine's logs are in a directory with the machine's name."""
        own = self.files.get(log.local)  # None if the configuration does not list the further daemon any more
        for file in self.files.get(log.daemon, ()) if own is None else own:
            folder, name = os.path.split(file.path)
            if log.local and own is None and file.accepts_all:
                name = _local_log(log.local)
            suffix = {"slot": log.slot, "job": log.job, "cluster": log.job.partition(".")[0]}.get(self.appends, "")
            if log.daemon == "STARTER" and suffix:
                name = f"{name}.{quote(suffix, safe='')}"
            machine = quote(log.machine, safe="").lstrip(".")
            yield evolve(file, path=os.path.join(folder, machine, name))


def log_settings(load: Load, folder: str = "") -> LogSettings | None:
    """Return the settings of the logs in a pool's configuration, or None if the user's configuration sets neither LOG
    nor the path of a daemon's log: only then are logs written. With `folder`, all logs are there, and are not rotated.

    :raises ConfigError: a value is invalid
    """
    if not folder and not any(name.upper().endswith("LOG") for name in load("STARTD").names()):
        return None
    warnings: list[str] = []
    files: dict[str, tuple[LogFile, ...]] = {}
    for setting in _LOGS:
        daemon = setting.partition("_")[0]
        configuration = load(daemon)
        is_written, kind = bool(folder) or _is_set(configuration, "LOG"), setting.removesuffix("_LOG")
        of_daemons = {daemon: _log_file(configuration, kind, warnings, is_written)}
        for further in filter(is_manager_option, parse_daemon_list(configuration.get(DAEMON_LIST))):
            if further != daemon and further.startswith(daemon):
                of_daemons[further] = _further_file(configuration, further, kind, warnings, is_written)
        for name, file in of_daemons.items():
            if folder:
                file = evolve(file, path=os.path.join(folder, os.path.basename(file.path)), largest=0)
            files[name] = (*files.get(name, ()), *([file] if file.path else []))
    if not any(files.values()):
        return None
    time_format = configuration.get("DEBUG_TIME_FORMAT", "%m/%d/%y %H:%M:%S").strip('"')
    appends = _appends(load("STARTD").get("STARTER_LOG_NAME_APPEND"))
    return LogSettings(files, time_format, folder or configuration.get("LOG"), appends, warnings)


def _appends(text: str) -> str:
    names = {"clusterid": "cluster", "cluster": "cluster", "jobid": "job", "false": "", "0": ""}
    return names.get(text.lower(), "slot")


def _is_set(configuration: Configuration, name: str) -> bool:
    return configuration.is_defined(name) and configuration.source(name).kind not in ("default", "detected")


def _further_file(
    configuration: Configuration, daemon: str, name: str, warnings: list[str], is_written: bool
) -> LogFile:
    """Return the log `name`_LOG of a further daemon, such as DEFRAG2. As in HTCondor, it does not share that log: the
    path is LOCALNAME.DEFRAG_LOG, or its local name in the directory LOG."""
    local_name = configuration.local_name(daemon)
    file = _log_file(configuration.as_local(local_name), name, warnings, is_written)
    if not file.accepts_all:
        return file
    default_path = os.path.join(configuration.get("LOG"), _local_log(local_name)) if is_written else ""
    return evolve(file, path=configuration.get(f"{local_name}.{name}_LOG") or default_path)


def _local_log(name: str) -> str:
    return f"{name.title().replace('_', '')}Log"


def _log_file(configuration: Configuration, name: str, warnings: list[str], is_written: bool) -> LogFile:
    """Return the log `name`_LOG. If it is not written, because neither all logs are nor its path is set, the path is
    empty."""
    daemon, _, category = name.partition("_")
    flags, unknown = DebugFlags(), list[str]()
    for text in (
        configuration.get("ALL_DEBUG"),
        configuration.get(f"{daemon}_DEBUG") or configuration.get("DEFAULT_DEBUG"),
    ):
        flags = flags.merged(text, unknown.append)
    if unknown and not category:
        warnings.append(f"{daemon}_DEBUG: {', '.join(unknown)} has no effect, because no line of the logs has it")
    if configuration.boolean("LOGS_USE_TIMESTAMP", False):
        flags = evolve(flags, headers=flags.headers | {"D_TIMESTAMP"})
    largest, by_time = _size(
        configuration, f"MAX_{name}_LOG", _size(configuration, "MAX_DEFAULT_LOG", (10 << 20, False))
    )
    return LogFile(
        configuration.get(f"{name}_LOG") if is_written or _is_set(configuration, f"{name}_LOG") else "",
        DebugFlags(frozenset({f"D_{category}"})) if category else flags,
        not category,
        largest,
        by_time,
        configuration.integer(f"MAX_NUM_{name}_LOG", 1),
        configuration.boolean(f"TRUNC_{name}_LOG_ON_OPEN", False),
    )


def _size(configuration: Configuration, name: str, default: tuple[int, bool]) -> tuple[int, bool]:
    """Return a size in bytes, or a duration in seconds and True."""
    text = configuration.get(name)
    match = _SIZE.fullmatch(text) if text else None
    if match is None:
        if text:
            raise configuration.error(name, f"{name}: {text} {_BAD_SIZE}")
        return default
    number, unit = int(match[1]), match[2]
    is_minutes = unit == "m" or (unit.upper().startswith("MI") and not unit.upper().startswith("MIB"))
    key = "MIN" if is_minutes else unit.upper()[:1]
    if number < 0 or key not in _SIZES | _TIMES:
        raise configuration.error(name, f"{name}: {text} {_BAD_SIZE}")
    return number * (_TIMES.get(key) or _SIZES[key]), key in _TIMES
