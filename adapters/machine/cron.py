"""The startd's cron jobs and benchmarks: programs that print attributes, as ``cron_settings`` specifies.

A program prints lines ``Name = value``; a line that begins with ``-`` ends a record, and so does the exit of the
program. The word after ``-`` is the record's tag. The last record of each program and tag is added to the ads of the
machine's slots, or of those the record or SLOTS selects. A program with METRICS monitors devices: its records are
the use of each device since its last record. As in the startd, a program runs every PERIOD seconds (Periodic: a program
that is still running is left alone, or killed and run again if KILL is set), PERIOD after it last exited (WaitForExit),
once (OneShot), or not on a schedule (OnDemand). A program waits if the JOB_LOAD of all running programs would exceed
MAX_JOB_LOAD with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, field, frozen

from ...domain.classad import ClassAd, ClassAdSyntaxError, EvaluationError, unparse
from ...domain.coverage.attributes import is_missing_capability
from ...domain.events import Ad
from ...domain.ports.sensor_readings import SlotRecord
from ...domain.startd.slot_records import RESTRICTIONS
from ...domain.state.caches import ad_from_attributes, parse_cached
from ...domain.units import SECOND
from .children import Child, Unwatch, Watch
from .cron_settings import CronJob, CronList

PROCESSES, FAILED, REASON = "{}Processes", "Failed{}", "Failed{}Reason"
"""A monitor's attributes with the use of each process, the ids of its device if that failed, and why it failed."""
LARGEST = 1 << 20  #: maximum number of characters in a record: a program that prints a larger one is killed
_LONGEST_REPORT = 4096  #: maximum number of characters of a failed program's output that a message quotes
OWN_PROGRAMS: dict[str, tuple[str, ...]] = {
    "condor_gpu_utilization": (sys.executable, "-m", "poolbook.adapters.gpus.monitor"),
    "condor_mips": (sys.executable, "-m", "poolbook.adapters.machine.benchmarks", "mips"),
    "condor_kflops": (sys.executable, "-m", "poolbook.adapters.machine.benchmarks", "kflops"),
}
"""The commands that replace those HTCondor programs which are not installed."""
_QUOTED = 60  #: maximum number of characters of an invalid line that a message quotes
_LAST_UPDATE = "LastUpdate"


def program_command(command: Sequence[str]) -> Sequence[str]:
    """Return the command that runs a program. HTCondor's monitor of GPUs and its benchmarks are this package's own if
    they are not installed."""
    return command if os.path.exists(command[0]) else OWN_PROGRAMS.get(os.path.basename(command[0]), command)


def _is_common(record: SlotRecord) -> bool:
    return not (record.restriction or record.averages or record.peaks or record.slots)


def _update_option(words: Sequence[str]) -> bool | None:
    """Return what the line that ends a record says about its publication: update:true or update:false, if anything."""
    option = None
    for word in words:
        name, colon, value = word.partition(":")
        if name.lower() == "update":
            option = not colon or value.lower() in ("true", "t", "1", "yes")
    return option


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
    ready: bool = False  #: whether it is to start, as soon as MAX_JOB_LOAD allows it
    child: Child | None = None
    errors: int | None = None  #: a descriptor of what it prints to standard error, if that may be reported
    kill_at: int = 0  #: when the program is killed after a SIGTERM that it ignored (0: it was not terminated)
    started: int = 0  #: when it last started
    ended: int = 0  #: when it last exited
    has_output: bool = False  #: whether it has ever completed a record
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


def _apply(state: _ProgramState, job: CronJob, now: int) -> None:
    """Apply changed settings to a program, as HTCondor does at a reconfiguration."""
    old_period, state.job = state.job.period, job
    if job.reruns and state.started:
        state.ready = True
    elif state.child is not None and job.hangs_up and state.has_output:
        state.child.hang_up()
    elif state.child is None and state.due is not None and job.period != old_period:
        last = state.started if job.mode == "Periodic" else state.ended
        state.due = max(now, last + job.period * SECOND)


def _without_time(record: SlotRecord, job: CronJob) -> Ad:
    return {name: text for name, text in record.attributes.items() if name != f"{job.prefix}{_LAST_UPDATE}"}


class Cron:
    """Runs programs and stores the attributes that they publish. ``watch`` and ``unwatch`` are functions of the pool's
    loop. ``report_text`` receives messages for the machine's administrator, ``take_sample`` what monitors measure, and
    ``update`` the names of attributes that are published at once. ``has_room`` returns False while no program may
    start."""

    def __init__(
        self,
        watch: Watch,
        unwatch: Unwatch,
        report_text: Callable[[str], None],
        take_sample: Callable[[DeviceSample], None] = lambda sample: None,
        update: Callable[[frozenset[str]], None] = lambda names: None,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._watch, self._unwatch, self._tell, self._take_sample = watch, unwatch, report_text, take_sample
        self._update, self._has_room = update, has_room
        self.machine_ad: Ad | None = None  #: for CONDITION; None: not known yet
        self._started = time.time_ns() // 1000
        self._list = CronList()
        self._states: dict[str, _ProgramState] = {}
        self._reported: set[tuple[str, str]] = set()  #: (program, kind) of the errors already reported

    def configure(self, programs: CronList, now: int) -> None:
        """Run these programs from now on. As in HTCondor, a program that runs continues if its mode is the same, and
        its other settings apply to its next run; other programs are killed, and their output is dropped."""
        previous_states, self._states, self._list = self._states, {}, programs
        self._reported.clear()
        for job in programs.jobs:
            state = previous_states.get(job.name)
            if state is not None and state.job.mode == job.mode:
                self._states[job.name] = previous_states.pop(job.name)
                _apply(state, job, now)
            else:
                self._states[job.name] = _ProgramState(job, None if job.mode == "OnDemand" else now)
        for state in previous_states.values():
            if state.child is not None:
                state.child.kill()

    def start_on_demand(self) -> None:
        """Run the programs with the mode OnDemand, and forget their last output."""
        for state in self._states.values():
            if state.job.mode == "OnDemand" and state.child is None:
                state.ready = True
                state.published.clear()

    def is_idle(self) -> bool:
        """Return True if no program runs or is to start."""
        return not any(state.child or state.ready for state in self._states.values())

    def is_running(self) -> bool:
        return any(state.child for state in self._states.values())

    def is_below_max_load(self) -> bool:
        return self._load() < self._list.max_load

    def _load(self) -> float:
        return sum(state.job.load for state in self._states.values() if state.child is not None)

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
        states = self._states.values()
        times = [state.due for state in states if state.due is not None] + [state.kill_at for state in states]
        return min(filter(None, times), default=None)

    def expected(self) -> bool:
        """Return True if a running program has published nothing yet."""
        return any(state.child is not None and not state.published for state in self._states.values())

    def start_due_programs(self, now: int) -> None:
        """Start the programs that are due, if there is room for them, and kill overdue ones."""
        for state in list(self._states.values()):
            if state.child is not None and 0 < state.kill_at <= now:
                state.child.signal(signal.SIGKILL)
                state.kill_at = now + SECOND
            if state.due is not None and state.due <= now:
                state.due = now + state.job.period * SECOND if state.job.mode == "Periodic" else None
                if state.child is None:
                    state.ready = True
                elif state.job.kill and not state.kill_at:
                    state.child.signal(signal.SIGTERM)
                    state.kill_at = now + SECOND
            if state.ready and state.child is None:
                self._start_if_possible(state, now)

    def _start_if_possible(self, state: _ProgramState, now: int) -> None:
        if not self._meets_condition(state.job):
            state.ready = False
            state.due = now + (1 if self.machine_ad is None else max(1, state.job.period)) * SECOND
        elif self._has_room() and round(self._load() + state.job.load - self._list.max_load, 6) <= 0:
            state.ready = False
            self._start(state, now)

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
        state.kill_at, state.started = 0, now
        environment = {**os.environ, **dict(self._list.environment), **dict(job.environment)}
        state.errors = os.memfd_create("errors") if self._list.logs_failures else None
        try:
            state.child = Child(
                program_command(job.command), self._watch, self._unwatch, partial(self._take_line, state),
                partial(self._after_exit, state),
                environment=environment, folder=job.folder or None, errors=state.errors,
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
            has_tag = bool(words) and ":" not in words[0]
            self._publish_record(state, words[0] if has_tag else "", _update_option(words[has_tag:]))
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
        if state.errors is not None:
            self._report_failure(state, state.errors)
        self._publish_record(state)
        was_terminated = state.kill_at > 0
        state.child, state.kill_at, state.ended = None, 0, time.time_ns() // 1000
        if state.job.mode == "WaitForExit":
            state.due = state.ended + max(1, state.job.period) * SECOND
        state.ready = state.ready or (state.job.mode == "Periodic" and was_terminated)

    def _report_failure(self, state: _ProgramState, errors: int) -> None:
        """Report a program that failed, with its output since its last complete record."""
        state.errors = None
        printed = os.pread(errors, _LONGEST_REPORT, 0).decode(errors="replace")
        os.close(errors)
        status = 0 if state.child is None else state.child.exit_status
        if status:
            end = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
            output = "\n".join(state.lines)[:_LONGEST_REPORT]
            texts = [f"{name}:\n{text.rstrip()}" for name, text in (("output", output), ("errors", printed)) if text]
            self._tell("; ".join([f"{self._list.prefix}_{state.job.name} {end}", *(texts or ["it printed nothing"])]))

    def _publish_record(self, state: _ProgramState, tag: str = "", update: bool | None = None) -> None:
        """Replace the program's published record with a complete new one, and publish it at once if the program
        requests that (``update``), or else as AUTOPUBLISH says. An empty record changes nothing."""
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
        old, state.has_output = state.published.get(tag), True
        self._publish(state, tag, record)
        new = state.published[tag]
        if update is None:
            is_changed = old is None or _without_time(old, state.job) != _without_time(new, state.job)
            update = self._list.autopublish == "ALWAYS" or (self._list.autopublish == "IF_CHANGED" and is_changed)
        if update:
            self._update(frozenset(name.lower() for name in new.attributes))

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
            attributes[f"{job.prefix}{_LAST_UPDATE}"] = str(now // SECOND)
            state.published[tag] = SlotRecord(attributes, restriction, value, slots=job.slots)
            return
        uptimes = state.uptimes.setdefault(tag, {})
        for resource, number in seconds.items():
            uptimes[resource] = uptimes.get(resource, 0.0) + number
        age = max(now - self._started, SECOND) / SECOND
        averages = {resource: uptime / age for resource, uptime in uptimes.items()}
        earlier = state.published.get(tag)
        greatest = {each: max(peak, earlier.peaks.get(each, 0.0) if earlier else 0.0) for each, peak in peaks.items()}
        record = state.published[tag] = SlotRecord(attributes, restriction, value, averages, greatest, job.slots)
        self._take_sample(DeviceSample((job.name, tag), record, now, seconds, peaks, ad))

    def _report_once(self, job: CronJob, text: str, kind: str = "", setting: str = "") -> None:
        if (job.name, kind or text) not in self._reported:
            self._reported.add((job.name, kind or text))
            self._tell(f"{self._list.prefix}_{job.name}{setting} {text}")

    def close(self) -> None:
        self.configure(CronList(), 0)
