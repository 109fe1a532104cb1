"""The real world: jobs are processes of this machine under a supervisor that outlives the pool."""

from __future__ import annotations

import os
import pwd
import re
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from attrs import evolve

from ...domain.classad import ClassAd, EvaluationError, parse
from ...domain.config import ConfigError, Configuration
from ...domain.events import Ad
from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.ports.stimuli import (
    BackfillEnded,
    BackfillRunning,
    BenchmarksDone,
    Ended,
    Measured,
    Started,
    Stimulus,
)
from ...domain.ports.world import ClientLaunch, How, Launch
from ...domain.startd.public_ad import shown
from ...domain.state.expression_cache import ad_of
from ..machine import execution
from ..machine.host import user_name
from ..machine.sensors import CondorLoad, Sensors, benchmarks, machine_load
from ..machine.sensors.children import Child
from ..machine.sensors.cron import Cron, cron_jobs
from ..machine.starter import Starter

SOFT_KILL = int(signal.SIGTERM)
_CLIENT = ""  #: what stands for a slot's name with the load of the machine's backfill client
PLAIN = Starter()  #: without a configuration jobs run beside the log, with the pool's own niceness
NO_ACCOUNT = 23  #: HoldReasonCode of a job whose user's account cannot be used: FailedToAccessUserAccount
NOT_STARTED = 1003  #: VacateReasonCode of a job before whose start something failed: JobNotStarted
AGAIN = 1_000_000  #: microseconds until a supervisor that could not be reached is tried again
WARM_UP = 2_000_000  #: microseconds that a pool waits at its start, at most, for its sensors' first readings


def _ticker() -> int:
    """Return microseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1000


class _Read:
    """An ad whose values are read. Plain numbers and strings are read as text; the ad is parsed when an attribute is an
    expression."""

    def __init__(self, texts: Ad) -> None:
        self._texts = texts
        self._ad: ClassAd | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def value(self, expression: str) -> object:
        """Return the value of an expression over the ad; None if it has none."""
        if self._ad is None:
            self._ad = ad_of(self._texts)
        try:
            return parse(expression).evaluate(self._ad)
        except EvaluationError:
            return None

    def text(self, name: str) -> str:
        found = self._texts.get(name, "")
        if _PLAIN_STRING.fullmatch(found):
            return found[1:-1]
        value = self.value(name) if found else ""
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        found = self._texts.get(name, "")
        if found.isdecimal():
            return int(found)
        value = self.value(name) if found else None
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_PLAIN_STRING = re.compile(r'"[^"\\]*"', re.ASCII)


def arguments(job: _Read) -> tuple[str, ...]:
    """Return a job's arguments: ``Arguments`` in the new syntax, or ``Args`` in the old one, which knows no quotes."""
    if "Arguments" in job:
        found = job.value("argsToList(Arguments)")
        return tuple(str(value) for value in found) if isinstance(found, Sequence) else ()
    return tuple(job.text("Args").split())


def environment(job: _Read) -> dict[str, str]:
    """Return a job's environment: ``Environment`` in the new syntax, or ``Env`` in the old one."""
    if "Environment" in job:
        if job.text("Environment") == "":
            return {}
        found = job.value("argsToList(Environment)")
        entries = [str(value) for value in found] if isinstance(found, Sequence) else []
    else:
        entries = job.text("Env").split(job.text("EnvDelim") or ";")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries) if name}


def kill_signals(job: _Read) -> dict[str, int]:
    """Return the signals that end a job softly: ``HoldKillSig`` for a hold, ``RemoveKillSig`` for a removal, else or in
    their absence ``KillSig``; SIGTERM unless given."""
    soft = _signal(job, "KillSig") or SOFT_KILL
    return {"soft": soft, "hold": _signal(job, "HoldKillSig") or soft, "remove": _signal(job, "RemoveKillSig") or soft}


def _signal(job: _Read, attribute: str) -> int:
    """Return an ad's signal, given by name or number; 0 if there is none."""
    number = job.number(attribute)
    if number is not None:
        return number if 0 < number < signal.NSIG else 0
    name = job.text(attribute).upper()
    found = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else 0


def _old_form(ad: Ad) -> str:
    return "".join(f"{name} = {ad[name]}\n" for name in sorted(ad, key=str.lower))


def activation(launch: Launch, starter: Starter = PLAIN) -> execution.Activation:
    """Return what the supervisor needs to start a job, from its ads and the machine's configuration."""
    job, slot = _Read(launch.job_ad), _Read(launch.slot_ad)
    memory, disk = slot.number("Memory") or 0, slot.number("Disk") or 0
    dynamic = launch.slot_ad.get("DynamicSlot") == "true"
    wall, duration = job.number("AllowedExecuteDuration"), job.number("AllowedJobDuration")
    return execution.Activation(
        key=launch.key,
        job=f"{launch.cluster}.{launch.proc}",
        slot=launch.slot,
        executable=job.text("Cmd"),
        arguments=arguments(job),
        environment=environment(job),
        iwd=job.text("Iwd") or "/",
        stdin=job.text("In"),
        stdout=job.text("Out"),
        stderr=job.text("Err"),
        job_ad=_old_form(launch.job_ad),
        machine_ad=_old_form({name: text for name, text in launch.slot_ad.items() if shown(name)}),
        cpus=slot.number("Cpus") or 1,
        memory_mb=memory,
        disk_kb=disk,
        # A static slot's share is an estimate; what was carved for the job is what the job asked for.
        limits=execution.Limits(
            memory_mb=memory if dynamic else None,
            disk_kb=disk if dynamic else None,
            wall_us=wall * 1_000_000 if wall is not None else None,
            duration_us=duration * 1_000_000 if duration is not None else None,
        ),
        kill_signals=kill_signals(job),
        nice=starter.nice(launch.job_ad),
        execute=starter.directory(slot.number("SlotID") or 0),
        run_in_iwd=True,
    )


def client_activation(launch: ClientLaunch, starter: Starter = PLAIN) -> execution.Activation:
    """Return what the supervisor needs to start a backfill client. It is killed when nobody attends to it: nobody would
    end it for the machine's owner."""
    client, slot = launch.client, _Read(launch.slot_ad)
    variables = (entry.partition("=") for entry in client.get("Environment", "").split(";"))
    return execution.Activation(
        key=launch.key,
        job="backfill",
        slot=launch.slot,
        executable=client.get("Executable", ""),
        arguments=tuple(client.get("Arguments", "").split()),
        environment={name: value for name, _, value in variables if name},
        iwd=client.get("InitialDir", ""),
        stdout=client.get("Output", ""),
        stderr=client.get("Error", ""),
        machine_ad=_old_form({name: text for name, text in launch.slot_ad.items() if shown(name)}),
        cpus=slot.number("Cpus") or 1,
        memory_mb=slot.number("Memory") or 0,
        disk_kb=slot.number("Disk") or 0,
        nice=starter.nice({}),
        execute=starter.directory(slot.number("SlotID") or 0),
        run_in_iwd=True,
        owner=client.get("Owner", "") if os.geteuid() == 0 else "",
        attended=True,
    )


def _check_owner(configuration: Configuration) -> None:
    """Refuse a backfill without a user that its client could run as."""
    system = configuration.get("BACKFILL_SYSTEM").upper()
    if os.geteuid() != 0 or not configuration.boolean("ENABLE_BACKFILL", False):
        return
    name = f"{system}_Owner"
    owner, source = configuration.get(name), configuration.source(name)
    if not owner:
        raise ConfigError(
            f"{name} is not set: a pool of root's has to be told the user that its backfill client runs as",
            source.file, source.line,
        )  # fmt: skip
    try:
        pwd.getpwnam(owner)
    except KeyError:
        words = f"{name} = {owner}: there is no such user on this machine; name one who may write {system}_InitialDir"
        raise ConfigError(words, source.file, source.line) from None


_LIMITS = {
    "memory": "The job used more memory than the {memory} MiB that it was given",
    "disk": "The job used more disk than the {disk} KiB that it was given",
    "wall": "The job exceeded allowed execute duration of {wall}",
    "duration": "The job exceeded allowed job duration of {duration}",
}
_STREAMS = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


def _held_for_limit(limit: str, given: execution.Activation | None) -> str:
    """Return why a job is held that was beyond a limit, in the words of the reference for those that it has."""
    limits = execution.Limits() if given is None else given.limits
    return _LIMITS.get(limit, "").format(
        memory=given.memory_mb if given else "?",
        disk=given.disk_kb if given else "?",
        wall=_short(limits.wall_us),
        duration=_short(limits.duration_us),
    )


def _short(microseconds: int | None) -> str:
    """Return an interval as the reference's format_time_short: what is 0 in front is left out, but for minutes."""
    if microseconds is None:
        return "?"
    minutes, seconds = divmod(microseconds // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}+{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def _held_for_failure(failed: execution.Failed, given: execution.Activation | None) -> str:
    """Return why a job is held that could not be started, in the words of the reference's starter; of its initial
    directory, in those of the shadow."""
    if given is None or not failed.errno:
        return failed.reason
    words = os.strerror(failed.errno)
    if failed.part == "iwd":
        return f"Cannot access initial working directory {given.iwd}: {words}"
    advice = failed.reason.partition(words)[2]
    if failed.part in _STREAMS:
        path = os.path.join(given.iwd, getattr(given, failed.part))
        said = f"Failed to open '{path}' as {_STREAMS[failed.part]}: {words} (errno {failed.errno})"
    elif failed.part == "executable":
        path = os.path.join(given.iwd, given.executable)
        said = f"Failed to execute '{path}': {_interpreter(path)}(errno={failed.errno}: '{words}')"
    else:
        said, advice = failed.reason, ""
    return f"Error from {given.slot}: {said}{advice}"


def _not_ours(owner: str) -> str:
    """Return why a job is held that is another user's."""
    return (
        f"this pool runs its jobs as {user_name()}, and this is a job of {owner}: it can run where {owner} serves the "
        "log, or in a pool of their own"
    )


def _interpreter(path: str) -> str:
    """Return the words on a script whose interpreter is not there; empty for any other program."""
    try:
        with open(path, "rb") as file:
            first = file.readline(1024)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    named = os.fsdecode(first[2:]).split()[:1]
    if not named or os.access(named[0], os.X_OK):
        return ""
    return f"invalid interpreter ({named[0]}) specified on first line of script "


class LocalWorld:
    """Jobs as processes of this machine. The supervisor keeps claims, records and scratch directories in ``folder``;
    ``tell`` is called with messages for the machine's administrator. Sensors start when a configuration names them.

    All processes have the rights of this process's user. So only that user's jobs are started, whatever log they are
    in, and those of ``owners``, for whom the program that has the pool vouches."""

    simulated = False

    def __init__(self, folder: Path, tell: Callable[[str], None] = print) -> None:
        self._folder = folder.absolute()
        self._tell = tell
        self.owners = {user_name()}
        self._again_at = 0
        self._complained = False
        self._owed: list[str] = []
        self._supervisor = execution.Supervisor(folder)
        self._selector = selectors.DefaultSelector()
        self._came: list[Stimulus] = []
        self._slots: dict[str, execution.Activation] = {}
        self._clients: set[str] = set()  # the keys of backfill clients
        self._watching = False
        self._starter = PLAIN
        self._sensors: Sensors | None = None
        self._cron = Cron(self.watch, self.unwatch, tell)
        self._load = CondorLoad()
        self._benchmarks: dict[str, Child] = {}

    def now(self) -> int:
        return time.time_ns() // 1000

    # The machine

    def configure(self, configuration: Configuration) -> None:
        """Use the sensors of a configuration, its STARTD_CRON jobs included, and start jobs as it says. Raise
        `ConfigError` as ``check``; then nothing has changed."""
        _check_owner(configuration)
        jobs, sensors = cron_jobs(configuration), Sensors.configured(configuration)
        self._starter = Starter.configured(configuration, self._folder)
        if self._sensors is not None:
            self._sensors.close()
        self._sensors = sensors
        self._cron.configure(jobs, self.now())

    def check(self, configuration: Configuration) -> None:
        """Check whether ``configure`` could take a configuration. Raise `ConfigError` if a sensor cannot be run as it
        says, or jobs or a backfill client cannot be started as it says."""
        _check_owner(configuration)
        cron_jobs(configuration)
        Starter.configured(configuration, self._folder)

    def warm_up(self) -> None:
        """Wait until each of the startd's sensors has given a reading, for at most `WARM_UP`."""
        until = self.now() + WARM_UP
        self._cron.turn(self.now())
        while self._cron.expected() and self.now() < until:
            for key, _ in self._selector.select((until - self.now()) / 1_000_000):
                key.data()

    def sense(self, machine: str) -> Readings:
        if self._sensors is None:
            return NOTHING_READ
        now = self.now()
        loads = dict(self._load.loads(now, machine_load()))
        client = loads.pop(_CLIENT, 0.0)
        readings = self._sensors.read(now, loads)
        attributes = self._cron.attributes()
        return evolve(readings, attributes=attributes, backfill_load=client) if attributes or client else readings

    def changed_machines(self) -> set[str]:
        return set()

    def benchmark(self, slot: str) -> None:
        """Run the benchmarks in a process of their own: the pool goes on meanwhile."""
        if slot in self._benchmarks:
            return
        command, environment = benchmarks.command()
        said: list[str] = []

        def ended() -> None:
            self._benchmarks.pop(slot, None)
            result = benchmarks.result("".join(said))
            self._came.append(BenchmarksDone(f"benchmarks-{slot}-{self.now()}", slot, *result))

        try:
            child = Child(command, self.watch, self.unwatch, said.append, ended, environment=environment)
            self._benchmarks[slot] = child
        except OSError:
            ended()

    # Jobs

    def claimed(self) -> frozenset[str]:
        """Return the activations of this folder: those running under its supervisor, and those whose ends it keeps."""
        return self._supervisor.claimed()

    def prepare(self) -> None:
        """Start the supervisor before the first job needs it."""
        self._supervisor.poll(0.0)
        self._listen()

    def watch(self, fileno: int, called: Callable[[], None]) -> None:
        """End a wait when something can be read there, and call `called`."""
        self._selector.register(fileno, selectors.EVENT_READ, called)

    def unwatch(self, fileno: int) -> None:
        self._selector.unregister(fileno)

    def _wanted(self, launch: Launch | ClientLaunch) -> execution.Activation:
        if isinstance(launch, ClientLaunch):
            self._clients.add(launch.key)
            return client_activation(launch, self._starter)
        return activation(launch, self._starter)

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        wanted = []
        for launch in launches:
            if isinstance(launch, Launch) and launch.owner not in self.owners:
                self._not_started(launch.key, NO_ACCOUNT, _not_ours(launch.owner))
                continue
            try:
                wanted.append(self._wanted(launch))
            except ValueError as error:
                self._not_started(launch.key, 6, f"Failed to start the job: {error}")
        if not wanted:
            return
        try:
            self._supervisor.start(wanted)
        except execution.ReplacedError:
            raise
        except execution.SupervisorError as error:
            for wish in wanted:
                self._not_started(wish.key, NOT_STARTED, str(error))
            return
        self._slots.update((wish.key, wish) for wish in wanted)
        self._listen()

    def _not_started(self, key: str, code: int, reason: str) -> None:
        if key in self._clients:
            self._came.append(BackfillEnded(f"end-{key}", key, self.now(), failure=reason))
            return
        self._came.append(Ended(f"end-{key}", key, self.now(), failed=True, hold_reason=reason, hold_code=code))

    def _listen(self) -> None:
        """Wait on the supervisor, too, once it runs: it begins with the first job."""
        if not self._watching:
            self.watch(self._supervisor.fileno(), self._has_news)
            self._watching = True

    def _has_news(self) -> None:
        """The supervisor says something: there is no need to wait until it is tried again."""
        self._again_at = 0

    def signal(self, key: str, how: How) -> None:
        try:
            self._supervisor.signal(key, how)
        except execution.SupervisorError as error:  # the next supervisor ends what this one left, whatever it was told
            self._complain(error)

    def acknowledge(self, keys: Iterable[str]) -> None:
        done = list(keys)
        for key in done:
            self._slots.pop(key, None)
            self._clients.discard(key)
            self._load.ended(key)
        self._owed += done
        try:
            self._supervisor.acknowledge(self._owed)
        except execution.SupervisorError as error:
            self._complain(error)
        else:
            self._owed = []

    def _complain(self, error: execution.SupervisorError) -> None:
        """Tell once that there is no supervisor, and try again after a while."""
        if isinstance(error, execution.ReplacedError):
            raise error
        self._again_at = _ticker() + AGAIN
        if not self._complained:
            self._complained = True
            self._tell(str(error))

    def _reports(self) -> list[Stimulus]:
        if not self._watching or _ticker() < self._again_at:
            return []
        try:
            reports = self._supervisor.poll(0.0)
        except execution.SupervisorError as error:
            self._complain(error)
            return []
        self._complained, self._again_at = False, 0
        return list(self._heard(reports))

    def wait(self, until: int | None) -> list[Stimulus]:
        due = self._cron.next()
        if due is not None:
            until = due if until is None else min(until, due)
        timeout = None if until is None else max(0.0, (until - self.now()) / 1_000_000)
        if self._watching and self._again_at:
            again = max(0.0, (self._again_at - _ticker()) / 1_000_000)
            timeout = again if timeout is None else min(timeout, again)
        if self._came:
            timeout = 0.0
        for key, _ in self._selector.select(timeout):
            key.data()
        self._cron.turn(self.now())
        came, self._came = self._came, []
        return came + self._reports()

    def _heard(self, reports: Iterable[execution.Report | execution.Running]) -> Iterator[Stimulus]:
        for report in reports:
            said = self._of_client(report) if report.key in self._clients else self._stimulus(report)
            if said is not None:
                yield said

    def _of_client(self, report: execution.Report | execution.Running) -> Stimulus | None:
        """Return what a report on a backfill client says; None of what it uses, which is its load alone."""
        key = report.key
        if isinstance(report, execution.Started | execution.Running):
            self._load.began(key, _CLIENT, report.at)
            return BackfillRunning(f"start-{key}", key, report.pid, report.at)
        if isinstance(report, execution.Usage):
            self._load.measured(key, report.at, report.user_us + report.system_us)
            return None
        if isinstance(report, execution.Failed):
            return BackfillEnded(f"end-{key}", key, report.at, failure=report.reason)
        if isinstance(report, execution.Lost):
            return BackfillEnded(f"end-{key}", key, report.at, lost=True)
        return BackfillEnded(
            f"end-{key}", key, report.at, report.code, report.signal, report.user_us, report.system_us,
            unattended=report.violated == execution.UNATTENDED,
        )  # fmt: skip

    def _stimulus(self, report: execution.Report | execution.Running) -> Stimulus:
        key = report.key
        if isinstance(report, execution.Started | execution.Running):
            if key in self._slots:
                self._load.began(key, self._slots[key].slot, report.at)
            given = self._slots.get(key)
            place = (given.execute if given else "") or f"{self._folder}/execute"
            return Started(f"start-{key}", key, report.pid, f"{place}/dir_{key}/scratch", report.at)
        if isinstance(report, execution.Usage):
            self._load.measured(key, report.at, report.user_us + report.system_us)
            return Measured(
                f"usage-{key}-{report.at}", key, report.image_kb, report.rss_kb, report.disk_kb, report.user_us,
                report.system_us,
            )  # fmt: skip
        if isinstance(report, execution.Failed):
            return Ended(
                f"end-{key}", key, report.at, failed=True,
                hold_reason=_held_for_failure(report, self._slots.get(key)), hold_code=report.hold_code,
                hold_subcode=report.errno,
            )  # fmt: skip
        if isinstance(report, execution.Lost):
            return Ended(f"end-{key}", key, report.at, lost=True)
        return self._ended(report)

    def _ended(self, report: execution.Exited) -> Ended:
        code, subcode = execution.VIOLATION_HOLD_CODES.get(report.violated, (0, 0))
        reason = _held_for_limit(report.violated, self._slots.get(report.key))
        return Ended(
            f"end-{report.key}", report.key, report.at, report.code, report.signal, report.user_us, report.system_us,
            report.peak_kb, report.disk_kb, hold_reason=reason, hold_code=code, hold_subcode=subcode,
        )  # fmt: skip

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        over = sorted(self.claimed().difference(launch.key for launch in launches))
        if not launches and not over:
            return []
        self._supervisor.acknowledge(over)  # a pool that was killed may not have come to say it
        known = self._supervisor.recover([launch.key for launch in launches])
        self._listen()
        self._slots.update((launch.key, self._wanted(launch)) for launch in launches)
        self.start([launch for launch in launches if known[launch.key] == "unknown"])
        return list(self._heard(found for found in known.values() if not isinstance(found, str)))

    def close(self) -> None:
        self._cron.close()
        for child in list(self._benchmarks.values()):
            child.kill()
        if self._sensors is not None:
            self._sensors.close()
        self._supervisor.close()
        self._selector.close()
