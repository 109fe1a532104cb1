"""The startd's cron jobs: programs that print attributes, run as STARTD_CRON_JOBLIST specifies.

A program prints lines ``Name = value``; a line that begins with ``-`` ends a record, and so does the exit of the
program. The word after ``-`` is the record's tag. The last record of each program and tag is added to the ads of the
machine's slots, or of those that the record selects. A program with METRICS monitors devices: its records are the use
of each device since its last record. As in the startd, a program runs every PERIOD seconds (Periodic: a program that is
still running is left alone, or killed if KILL is set), PERIOD after it last exited (WaitForExit), once (OneShot), or
not on a schedule (OnDemand)."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, field, frozen

from ...domain.classad import ClassAd, ClassAdSyntaxError, EvaluationError, unparse
from ...domain.classad.argument_syntax import QuotingError, split, strip_double_quotes, uses_new_syntax
from ...domain.config import ConfigError, Configuration
from ...domain.coverage.attributes import is_missing_capability
from ...domain.events import Ad
from ...domain.ports.sensor_readings import SlotRecord
from ...domain.startd.slot_records import RESTRICTIONS
from ...domain.state.caches import ad_from_attributes, parse_cached
from ...domain.units import SECOND
from .children import Child, Unwatch, Watch

MODES = {"periodic": "Periodic", "waitforexit": "WaitForExit", "oneshot": "OneShot", "ondemand": "OnDemand"}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_PERIOD = re.compile(r"([0-9]+)\s*([smh]?)", re.IGNORECASE | re.ASCII)
PROCESSES, FAILED, REASON = "{}Processes", "Failed{}", "Failed{}Reason"
"""A monitor's attributes with the use of each process, the ids of its device if that failed, and why it failed."""
LARGEST = 1 << 20  #: maximum number of characters in a record: a program that prints a larger one is killed
_GPU_MONITOR = "condor_gpu_utilization"
_QUOTED = 60  #: maximum number of characters of an invalid line that a message quotes


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


def cron_jobs(configuration: Configuration) -> list[CronJob]:
    """Return the configured programs. Raise `ConfigError` if one has no executable, no valid period or an unknown
    mode."""
    names = configuration.get("STARTD_CRON_JOBLIST").replace(",", " ").split()
    return [_cron_job(configuration, name) for name in dict.fromkeys(names)]


def _cron_job(configuration: Configuration, name: str) -> CronJob:
    def get(suffix: str) -> str:
        return configuration.get(f"STARTD_CRON_{name}_{suffix}")

    mode = MODES.get((get("MODE") or "Periodic").lower())
    if mode is None:
        raise _error(configuration, name, "MODE", f"unknown mode {get('MODE')}; use {', '.join(MODES.values())}")
    if not get("EXECUTABLE"):
        raise _error(configuration, name, "EXECUTABLE", "the job has no executable: set one or remove the job")
    try:
        arguments = _split_command(get("ARGS"))
        entries = _split_command(get("ENV")) if uses_new_syntax(get("ENV")) else filter(None, get("ENV").split(";"))
    except QuotingError as error:
        raise _error(configuration, name, "ARGS", str(error)) from None
    return CronJob(
        name,
        (get("EXECUTABLE"), *arguments),
        mode,
        _period(configuration, name, get("PERIOD"), mode),
        get("PREFIX"),
        configuration.boolean(f"STARTD_CRON_{name}_KILL", False),
        get("CWD"),
        tuple((key, value) for key, _, value in (entry.partition("=") for entry in entries) if key),
        get("CONDITION"),
        _metrics(get("METRICS"), "SUM"),
        _metrics(get("METRICS"), "PEAK"),
    )


def _metrics(text: str, kind: str) -> tuple[str, ...]:
    pairs = (pair.partition(":") for pair in text.replace(",", " ").split())
    return tuple(resource for written_kind, _, resource in pairs if resource and written_kind.upper() == kind)


def _split_command(text: str) -> list[str]:
    return split(strip_double_quotes(text)) if uses_new_syntax(text) else text.split()


def _period(configuration: Configuration, name: str, text: str, mode: str) -> int:
    if mode in ("OneShot", "OnDemand"):
        return 0
    match = _PERIOD.fullmatch(text)
    seconds = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not match or (mode == "Periodic" and not seconds):
        raise _error(configuration, name, "PERIOD", f"{text!r} is not a valid period: write 30, 30s, 5m or 1h")
    return seconds


def _error(configuration: Configuration, name: str, what: str, problem: str) -> ConfigError:
    setting = f"STARTD_CRON_{name}_{what}"
    return configuration.error(setting, f"{setting}: {problem}")


def program_command(command: Sequence[str]) -> Sequence[str]:
    """Return the command that runs a program. HTCondor's monitor of GPUs is this package's own if it is not
    installed."""
    if os.path.basename(command[0]) != _GPU_MONITOR or os.path.exists(command[0]):
        return command
    return (sys.executable, "-m", "poolbook.adapters.gpus.monitor")


def _is_common(record: SlotRecord) -> bool:
    return not (record.restriction or record.averages or record.peaks)


def _number(ad: ClassAd, name: str) -> float:
    try:
        value = ad.eval(name) if name in ad else 0.0
    except EvaluationError:
        return 0.0
    return float(value) if isinstance(value, int | float) else 0.0


@define
class _ProgramState:
    """One program's state: when it is due (None: not scheduled), its process, and its output so far."""

    job: CronJob
    due: int | None
    child: Child | None = None
    terminating: bool = False
    lines: list[str] = field(factory=list)
    size: int = 0  #: characters in ``lines``; more than LARGEST if the record is too large: its lines are dropped
    published: dict[str, SlotRecord] = field(factory=dict)  #: the last record, by tag
    uptimes: dict[str, dict[str, float]] = field(factory=dict)  #: by tag, the seconds of use of each resource


@frozen
class DeviceSample:
    """What a monitor measured of a device since its previous record."""

    source: tuple[str, str]  #: the program and the tag
    record: SlotRecord
    at: int
    seconds: Mapping[str, float]  #: SUM metrics: seconds of use, by resource
    peaks: Mapping[str, float]  #: PEAK metrics, by resource
    printed: ClassAd  #: the record

    def text(self, name: str) -> str:
        """Return a string of the record; an empty one if it lacks this string."""
        try:
            value = self.printed.eval(name) if name in self.printed else ""
        except EvaluationError:
            return ""
        return value if isinstance(value, str) else ""


class Cron:
    """Runs programs and stores the attributes that they publish. ``watch`` and ``unwatch`` are functions of the pool's
    loop. ``report_text`` receives messages for the machine's administrator, ``take_sample`` what monitors measure."""

    def __init__(
        self,
        watch: Watch,
        unwatch: Unwatch,
        report_text: Callable[[str], None],
        take_sample: Callable[[DeviceSample], None] = lambda sample: None,
    ) -> None:
        self._watch, self._unwatch, self._tell, self._take_sample = watch, unwatch, report_text, take_sample
        self.machine_ad: Ad | None = None  #: for CONDITION; None: not known yet
        self._started = time.time_ns() // 1000
        self._states: dict[str, _ProgramState] = {}
        self._reported: set[tuple[str, str]] = set()  #: (program, kind) of the errors already reported

    def configure(self, jobs: list[CronJob], now: int) -> None:
        """Run these programs from now on. Unchanged programs continue; the output of other programs is dropped."""
        previous_states, self._states = self._states, {}
        self._reported.clear()
        for job in jobs:
            previous_state = previous_states.get(job.name)
            if previous_state is not None and previous_state.job == job:
                self._states[job.name] = previous_states.pop(job.name)
            else:
                self._states[job.name] = _ProgramState(job, None if job.mode == "OnDemand" else now)
        for state in previous_states.values():
            if state.child is not None:
                state.child.kill()

    def attributes(self) -> Mapping[str, str]:
        """Return the published attributes of all slots."""
        return {
            name: text for record in self._records() if _is_common(record) for name, text in record.attributes.items()
        }

    def records(self) -> tuple[SlotRecord, ...]:
        """Return the records for some of the slots."""
        return tuple([record for record in self._records() if not _is_common(record)])

    def _records(self) -> Iterator[SlotRecord]:
        return (record for state in self._states.values() for record in state.published.values())

    def next_due_time(self) -> int | None:
        return min((state.due for state in self._states.values() if state.due is not None), default=None)

    def expected(self) -> bool:
        """Return True if a running program has published nothing yet."""
        return any(state.child is not None and not state.published for state in self._states.values())

    def start_due_programs(self, now: int) -> None:
        for state in list(self._states.values()):
            if state.due is not None and state.due <= now:
                if not self._meets_condition(state.job):
                    state.due = now + (1 if self.machine_ad is None else max(1, state.job.period)) * SECOND
                    continue
                is_periodic = state.job.mode == "Periodic"
                state.due = now + state.job.period * SECOND if is_periodic else None
                if state.child is None:
                    self._start(state, now)
                elif state.job.kill:
                    state.child.signal(signal.SIGKILL if state.terminating else signal.SIGTERM)
                    state.terminating = True

    def _meets_condition(self, job: CronJob) -> bool:
        if not job.condition:
            return True
        expression = parse_cached(job.condition)
        try:
            ad = None if self.machine_ad is None else ad_from_attributes(self.machine_ad)
            return ad is not None and expression is not None and expression.evaluate(ad) is True
        except EvaluationError:
            return False

    def _start(self, state: _ProgramState, now: int) -> None:
        job = state.job
        state.lines, state.size = [], 0
        state.terminating = False
        environment = {**os.environ, "STARTD_CRON_NAME": job.name, **dict(job.environment)}
        try:
            state.child = Child(
                program_command(job.command), self._watch, self._unwatch, partial(self._take_line, state),
                partial(self._after_exit, state),
                environment=environment, folder=job.folder or None,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._report_once(job, f"{job.command[0]} cannot be run: {error}", setting="_EXECUTABLE:")
            if job.mode == "WaitForExit":
                state.due = now + max(1, job.period) * SECOND

    def _take_line(self, state: _ProgramState, line: str) -> None:
        if state.size > LARGEST:
            return
        if line.startswith("-"):
            words = line[1:].split()
            self._publish_record(state, words[0] if words and ":" not in words[0] else "")
        elif line.strip():
            state.lines.append(line)
            state.size += len(line)
        if state.size > LARGEST and state.child is not None:
            state.lines = []
            state.child.signal(signal.SIGKILL)
            self._report_once(
                state.job, f"printed a record of more than {LARGEST} characters and was killed; the record is "
                "ignored: print less, and a line with - after each record",
            )  # fmt: skip

    def _after_exit(self, state: _ProgramState) -> None:
        self._publish_record(state)
        state.child = None
        if state.job.mode == "WaitForExit":
            state.due = time.time_ns() // 1000 + max(1, state.job.period) * SECOND

    def _publish_record(self, state: _ProgramState, tag: str = "") -> None:
        """Replace the program's published record with a complete new one. An empty record changes nothing."""
        lines, state.lines, state.size = state.lines, [], 0
        if not lines:
            return
        record: Ad = {}
        for line in lines:
            try:
                ad = ClassAd.from_old(line, strict=True)
            except ClassAdSyntaxError as error:
                bad_line = line.strip()
                shown_line = repr(bad_line[:_QUOTED]) + (" ..." if len(bad_line) > _QUOTED else "")
                reason = str(error).partition("\n")[0]
                problem = f"printed an invalid line {shown_line}; this and any other such line is ignored: {reason}"
                self._report_once(state.job, problem, "line")
                continue
            record |= {state.job.prefix + name: unparse(ad[name]) for name in ad}
        for name in [name for name in record if is_missing_capability(name)]:
            del record[name]
            problem = f"printed {name}, which is ignored: Poolbook's slots do not support it"
            self._report_once(state.job, problem, name)
        self._publish(state, tag, record)

    def _publish(self, state: _ProgramState, tag: str, printed: Ad) -> None:
        names = {name.lower(): name for name in printed}
        restriction = next((name for name in RESTRICTIONS if name.lower() in names), "")
        value = printed[names[restriction.lower()]] if restriction else ""
        job, ad, now = state.job, ad_from_attributes(printed), time.time_ns() // 1000
        seconds = {each: _number(ad, f"{job.prefix}Uptime{each}Seconds") for each in job.sums}
        peaks = {each: _number(ad, f"{job.prefix}Uptime{each}PeakUsage") for each in job.peaks}
        own_names = {name.lower() for name in RESTRICTIONS}
        if job.sums or job.peaks:
            own_names |= {name for name in names if name.startswith(f"{job.prefix}uptime".lower())}
            own_names |= {name.format(each).lower() for each in job.sums for name in (PROCESSES, FAILED, REASON)}
        attributes = {name: text for name, text in printed.items() if name.lower() not in own_names}
        if not (job.sums or job.peaks):
            state.published[tag] = SlotRecord(attributes, restriction, value)
            return
        uptimes = state.uptimes.setdefault(tag, {})
        for resource, number in seconds.items():
            uptimes[resource] = uptimes.get(resource, 0.0) + number
        age = max(now - self._started, SECOND) / SECOND
        averages = {resource: uptime / age for resource, uptime in uptimes.items()}
        earlier = state.published.get(tag)
        greatest = {each: max(peak, earlier.peaks.get(each, 0.0) if earlier else 0.0) for each, peak in peaks.items()}
        record = state.published[tag] = SlotRecord(attributes, restriction, value, averages, greatest)
        self._take_sample(DeviceSample((job.name, tag), record, now, seconds, peaks, ad))

    def _report_once(self, job: CronJob, text: str, kind: str = "", setting: str = "") -> None:
        if (job.name, kind or text) not in self._reported:
            self._reported.add((job.name, kind or text))
            self._tell(f"STARTD_CRON_{job.name}{setting} {text}")

    def close(self) -> None:
        self.configure([], 0)
