"""The programs that a daemon runs and whose output it publishes: STARTD_CRON_JOBLIST, SCHEDD_CRON_JOBLIST, and the
benchmarks of BENCHMARKS_JOBLIST."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from ...domain.classad.argument_syntax import QuotingError, split, strip_double_quotes, uses_new_syntax
from ...domain.config import ConfigError, Configuration

STARTD_CRON, SCHEDD_CRON, BENCHMARKS = "STARTD_CRON", "SCHEDD_CRON", "BENCHMARKS"
MODES: Final = {"periodic": "Periodic", "waitforexit": "WaitForExit", "oneshot": "OneShot", "ondemand": "OnDemand"}
_BENCHMARK_PROGRAMS: Final = {"mips": "condor_mips", "kflops": "condor_kflops"}
_AUTOPUBLISH: Final = {
    **dict.fromkeys(("", "never"), "NEVER"),
    "always": "ALWAYS",
    **dict.fromkeys(("ifchanged", "if_changed", "ifdifferent", "if_different"), "IF_CHANGED"),
}
_PUBLISHED_AT_ONCE: Final = {"SCHEDD_CRON_AUTOPUBLISH": "ALWAYS"}  #: which the schedd does not read, unlike the startd
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_PERIOD: Final = re.compile(r"([0-9]+)\s*([smh]?)", re.IGNORECASE | re.ASCII)


@frozen
class CronJob:
    """A configured program; ``period`` is in seconds, ``prefix`` is added to the names of its attributes."""

    name: str
    command: tuple[str, ...]
    mode: str
    period: int = 0
    prefix: str = ""
    kill: bool = False
    folder: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    condition: str = ""  #: CONDITION: the program runs only on machines whose ad meets it
    sums: tuple[str, ...] = ()  #: SUM metrics: the resources whose Uptime<name>Seconds add up
    peaks: tuple[str, ...] = ()  #: PEAK metrics: the resources whose Uptime<name>PeakUsage is a maximum
    load: float = 0.01  #: JOB_LOAD: the load of the running program
    slots: tuple[int, ...] = ()  #: SLOTS: the ids of the slots that have its attributes (empty: all)
    hangs_up: bool = False  #: RECONFIG: a reconfiguration sends SIGHUP to the running program
    reruns: bool = False  #: RECONFIG_RERUN: a reconfiguration runs the program again


@frozen
class CronList:
    """The programs of a list, and its settings."""

    prefix: str = STARTD_CRON
    jobs: tuple[CronJob, ...] = ()
    max_load: float = 0.1  #: MAX_JOB_LOAD: the greatest sum of the loads of running programs
    autopublish: str = "NEVER"  #: AUTOPUBLISH: whether a record is published at once: NEVER, ALWAYS or IF_CHANGED
    logs_failures: bool = False  #: LOG_NON_ZERO_EXIT: the output of a program that failed is reported
    environment: tuple[tuple[str, str], ...] = ()  #: the variables that all programs have


DEFAULT_BENCHMARKS: Final = CronList(
    BENCHMARKS,
    tuple(CronJob(name, (program,), "OnDemand", load=1.0) for name, program in _BENCHMARK_PROGRAMS.items()),
    max_load=1.0,
)


def cron_list(configuration: Configuration, prefix: str = STARTD_CRON) -> CronList:
    """Return the configured programs of a list. Raise `ConfigError` if one has no executable, no valid period or an
    unknown mode."""
    names = configuration.get(f"{prefix}_JOBLIST").replace(",", " ").split()
    setting = f"{prefix}_AUTOPUBLISH"
    autopublish = _PUBLISHED_AT_ONCE.get(setting) or _AUTOPUBLISH.get(configuration.get(setting).strip().lower())
    if autopublish is None:
        raise configuration.error(setting, f"{setting}: use NEVER, ALWAYS or IF_CHANGED")
    daemon, config_val = prefix.partition("_")[0], configuration.get(f"{prefix}_CONFIG_VAL")
    return CronList(
        prefix,
        tuple(_cron_job(configuration, prefix, name) for name in dict.fromkeys(names)),
        configuration.number(f"{prefix}_MAX_JOB_LOAD", 1.0 if prefix == BENCHMARKS else 0.1),
        autopublish,
        configuration.boolean(f"{prefix}_LOG_NON_ZERO_EXIT", False),
        (
            (f"{daemon}_INTERFACE_VERSION", "1"),
            (f"{daemon}_CRON_NAME", daemon),
            *([(f"{prefix}_CONFIG_VAL", config_val)] if config_val else ()),
        ),
    )


def _cron_job(configuration: Configuration, prefix: str, name: str) -> CronJob:
    def get(suffix: str) -> str:
        return configuration.get(f"{prefix}_{name}_{suffix}")

    def error(suffix: str, problem: str) -> ConfigError:
        setting = f"{prefix}_{name}_{suffix}"
        return configuration.error(setting, f"{setting}: {problem}")

    def flag(suffix: str) -> bool:
        return configuration.boolean(f"{prefix}_{name}_{suffix}", False)

    is_benchmark = prefix == BENCHMARKS
    mode = MODES.get((get("MODE") or ("OnDemand" if is_benchmark else "Periodic")).lower())
    if mode is None:
        raise error("MODE", f"unknown mode {get('MODE')}; use {', '.join(MODES.values())}")
    if is_benchmark and mode != "OnDemand":
        raise error("MODE", "benchmarks run when RunBenchmarks is true; use OnDemand, or omit the setting")
    executable = get("EXECUTABLE") or (_BENCHMARK_PROGRAMS.get(name.lower(), "") if is_benchmark else "")
    if not executable:
        raise error("EXECUTABLE", "the job has no executable: set one or remove the job")
    try:
        arguments = _split_command(get("ARGS"))
        entries = _split_command(get("ENV")) if uses_new_syntax(get("ENV")) else filter(None, get("ENV").split(";"))
    except QuotingError as problem:
        raise error("ARGS", str(problem)) from None
    period = _PERIOD.fullmatch("0" if mode in ("OneShot", "OnDemand") else get("PERIOD"))
    seconds = int(period[1]) * _UNITS[period[2].lower()] if period else 0
    if not period or (mode == "Periodic" and not seconds):
        raise error("PERIOD", f"{get('PERIOD')!r} is not a valid period: write 30, 30s, 5m or 1h")
    slots = get("SLOTS").replace(",", " ").split()
    if not all(map(str.isdecimal, slots)):
        raise error("SLOTS", f"{get('SLOTS')!r} is not a list of slot ids: write numbers, such as 1, 2")
    return CronJob(
        name,
        (executable, *arguments),
        mode,
        seconds,
        get("PREFIX"),
        flag("KILL"),
        get("CWD"),
        tuple((key, value) for key, _, value in (entry.partition("=") for entry in entries) if key),
        get("CONDITION"),
        _metrics(get("METRICS"), "SUM"),
        _metrics(get("METRICS"), "PEAK"),
        configuration.number(f"{prefix}_{name}_JOB_LOAD", 1.0 if is_benchmark else 0.01),
        tuple(map(int, slots)),
        flag("RECONFIG"),
        flag("RECONFIG_RERUN") and not is_benchmark,
    )


def _metrics(text: str, kind: str) -> tuple[str, ...]:
    pairs = (pair.partition(":") for pair in text.replace(",", " ").split())
    return tuple(resource for written_kind, _, resource in pairs if resource and written_kind.upper() == kind)


def _split_command(text: str) -> list[str]:
    return split(strip_double_quotes(text)) if uses_new_syntax(text) else text.split()
