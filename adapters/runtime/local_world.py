"""The real world: jobs are processes of this machine, under a supervisor that continues without the pool."""

from __future__ import annotations

import os
import pwd
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from attrs import evolve
from msgspec.structs import replace

from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.ports.stimuli import (
    ActivationChirped,
    ActivationEnded,
    ActivationMeasured,
    ActivationStarted,
    BackfillEnded,
    BackfillRunning,
    CheckpointsCleaned,
    DevicesFailed,
    MailHandled,
    ScheddReported,
    SensorsReported,
    Stimulus,
    Transferred,
)
from ...domain.ports.world import ClientLaunch, How, Launch, Mail, World
from ...domain.state.job_ad import SKIPPED, unquoted
from ..machine.benchmark_programs import Benchmarks
from ..machine.cron import FAILED, REASON, Cron, DeviceSample
from ..machine.cron_settings import BENCHMARKS, SCHEDD_CRON, CronList, cron_list
from ..machine.device_use import DeviceUse
from ..machine.execution import activation as execution
from ..machine.execution.client import Known, ReplacedError, Supervisor, SupervisorError
from ..machine.host import user_name
from ..machine.mail import Mailer, MailSettings
from ..machine.sensors import CondorLoad, Sensors, machine_load
from ..machine.spool import Spool, job_of
from ..machine.starter import Starter
from .activations import PLAIN, ReadAd, activation, client_activation, sandbox_attributes
from .hold_reasons import FAILED_CHECKPOINT, held_for_failure, held_for_limit, held_for_transfer, not_ours
from .job_users import NO_ACCOUNT, JobUsers, NotRun, client_account

_CLIENT = ""  #: the key for the load of the machine's backfill client, instead of a slot's name
NOT_STARTED = 1003  #: VacateReasonCode of a job that could not be started: JobNotStarted
AGAIN = 1_000_000  #: microseconds before retrying to connect to the supervisor
WARM_UP = 2_000_000  #: maximum microseconds that a starting pool waits for its sensors' first readings


def _cron_lists(configuration: Configuration) -> tuple[CronList, CronList, CronList]:
    """Return the configured sensors, benchmarks and programs of the schedd. Raise `ConfigError` if one cannot be run as
    configured."""
    return cron_list(configuration), cron_list(configuration, BENCHMARKS), cron_list(configuration, SCHEDD_CRON)


def _ticker() -> int:
    """Return the microseconds of a monotonic clock."""
    return time.monotonic_ns() // 1000


def _check_owner(configuration: Configuration) -> None:
    """Reject a backfill configuration without a user for its client."""
    system = configuration.get("BACKFILL_SYSTEM").upper()
    if os.geteuid() != 0 or not configuration.boolean("ENABLE_BACKFILL", False):
        return
    name = f"{system}_Owner"
    owner = configuration.get(name)
    if not owner:
        why = f"{name} is not set: a pool that root serves needs the user that its backfill client runs as"
        raise configuration.error(name, why)
    try:
        pwd.getpwnam(owner)
    except KeyError:
        why = f"{name} = {owner}: this machine has no such user; name one who may write {system}_InitialDir"
        raise configuration.error(name, why) from None


_MOVELESS = (execution.Usage, execution.Lost)


def _chirp_stimulus(key: str, writes: Sequence[execution.Write]) -> ActivationChirped:
    fields = tuple((write.number, write.kind, write.name, write.text) for write in writes)
    return ActivationChirped(f"chirp-{key}-{fields[-1][0]}", key, fields)


def _transfer_stimulus(key: str, move: execution.Move) -> Transferred:
    number = bool(move.ended) + 2 * (move.way == "output")
    step = f"c{2 * move.number + bool(move.ended)}" if move.number else number
    return Transferred(
        f"transfer-{key}-{step}", key, move.way, move.began, move.ended, move.files, move.size, move.listed,
        move.failed, move.urls, move.number, move.kept,
    )  # fmt: skip


def _must_start(launch: Launch | ClientLaunch, known: Known) -> bool:
    """Return True if a recovered job was not started, or may be waiting with its files although it need not."""
    is_due = isinstance(launch, Launch) and not launch.waits
    return known == "unknown" or (is_due and isinstance(known, execution.Transferring))


class LocalWorld(World):
    """Jobs as processes of this machine. The supervisor stores claims, records and scratch directories in ``folder``,
    separately for each log id ``log``; ``tell`` is called with messages for the machine's administrator. Sensors start
    when a configuration names them.

    All processes have the rights of this process's user. So whatever the log contains, only jobs of this user and of
    ``owners``, for whom the calling program vouches, are started. If root serves the pool (``serve_users``), each job
    runs as its owner instead, or as configured.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None] = print, log: str = "") -> None:
        self._folder = folder.absolute()
        self._tell = tell
        self.owners = {user_name()}
        self.access_point_of: Callable[[Launch], execution.AccessPoint | None] = lambda launch: None
        """Returns how a job of another access point accesses its files."""
        self._users: JobUsers | None = None
        self._again_at = 0
        self._warned = False
        self._owed: list[str] = []
        self._supervisor = Supervisor(folder, log)
        self._selector = selectors.DefaultSelector()
        self._news: list[Stimulus] = []
        self._slots: dict[str, execution.LaunchRequest] = {}
        self._clients: set[str] = set()  # the keys of backfill clients
        self._watching = False
        self._starter = PLAIN
        self.uid_domain = ""  #: of the pool, for an execution point that receives jobs of other pools
        self.spool = Spool(self._folder)
        self._cleanups: SimpleQueue[CheckpointsCleaned] = SimpleQueue()
        self._wake: tuple[socket.socket, ...] = ()  # wakes this world when checkpoints were deleted
        self._sensors: Sensors | None = None
        self._devices = DeviceUse()
        self._benchmarks = Benchmarks(self.watch, self.unwatch, tell, lambda: self._cron.is_below_max_load())
        self._cron = Cron(
            self.watch, self.unwatch, tell, self._take_device_sample, self._publish,
            has_room=lambda: not self._benchmarks.is_running(),
        )  # fmt: skip
        self._schedd_cron = Cron(self.watch, self.unwatch, tell, update=self._report_schedd)
        self._load = CondorLoad()
        self._mailer = Mailer(self.watch, self.unwatch, self._report_mail)

    def now(self) -> int:
        return time.time_ns() // 1000

    def serve_users(self, refuses_root: bool = False) -> None:
        """Run each user's jobs with that user's privileges, if this process runs as root. With ``refuses_root``, root's
        jobs are not run."""
        if os.geteuid() == 0:
            self._users = JobUsers(self._folder, refuses_root)

    def configure(self, configuration: Configuration, has_schedd: bool = True) -> None:
        """Apply a configuration: its sensors, including STARTD_CRON jobs, and its settings for starting jobs. If
        ``check`` raises `ConfigError`, change nothing. Only a world with a schedd runs SCHEDD_CRON jobs."""
        _check_owner(configuration)
        (programs, tests, of_schedd), sensors = _cron_lists(configuration), Sensors.from_configuration(configuration)
        self._starter = Starter.from_configuration(configuration, self._folder)
        self.spool.configure(configuration)
        self._mailer.settings = MailSettings.from_configuration(configuration)
        if self._sensors is not None:
            self._sensors.close()
        self._sensors = sensors
        self._cron.configure(programs, self.now())
        self._benchmarks.configure(tests, self.now())
        printed_before = self._schedd_cron.attributes()
        self._schedd_cron.configure(of_schedd if has_schedd else CronList(SCHEDD_CRON), self.now())
        if self._schedd_cron.attributes() != printed_before:  # without the records of dropped programs
            self._report_schedd(frozenset())

    def check(self, configuration: Configuration) -> None:
        """Check that ``configure`` can apply a configuration. Raise `ConfigError` if a sensor cannot be run as
        configured, or jobs or a backfill client cannot be started."""
        _check_owner(configuration)
        _cron_lists(configuration)
        Starter.from_configuration(configuration, self._folder)

    def warm_up(self) -> None:
        """Wait until each of the startd's sensors has a reading, for at most `WARM_UP`."""
        until = self.now() + WARM_UP
        self._cron.start_due_programs(self.now())
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
        attributes, records = {**self._benchmarks.other_attributes(), **self._cron.attributes()}, self._cron.records()
        if not (attributes or records or client):
            return readings
        use = self._devices.of_slots()
        return replace(readings, attributes=attributes, records=records, slots=use, backfill_load=client)

    def describe(self, ad: Ad) -> None:
        self._cron.machine_ad = ad

    def _take_device_sample(self, sample: DeviceSample) -> None:
        self._devices.take_sample(sample)
        machine = unquoted((self._cron.machine_ad or {}).get("Machine", ""))
        for resource in sample.seconds:
            devices, reason = (sample.printed.text(name.format(resource)) for name in (FAILED, REASON))
            if devices and machine:
                ids = tuple(devices.split(","))
                self._news.append(DevicesFailed(f"device-{ids[0]}-{sample.at}", machine, resource, ids, reason))

    def _publish(self, names: frozenset[str]) -> None:
        machine = unquoted((self._cron.machine_ad or {}).get("Machine", ""))
        self._news.append(SensorsReported(f"sensors-{self.now()}", machine, names))

    def _report_schedd(self, names: frozenset[str]) -> None:
        self._news.append(ScheddReported(f"schedd-{self.now()}", {**self._schedd_cron.attributes()}))

    def benchmark(self, slot: str) -> None:
        self._benchmarks.run(slot, self.now())

    def send(self, mail: Mail) -> None:
        self._mailer.send(mail)

    def _report_mail(self, mail: Mail, failure: str) -> None:
        self._news.append(MailHandled(f"mail-{mail.key}", mail.key, failure))

    def watch_cleanup(self) -> None:
        """Watch the thread that deletes checkpoints."""
        self._wake = socket.socketpair()
        self.watch(self._wake[0].fileno(), self._take_cleanup)
        self.spool.cleanup.report = self._report_cleanup

    def _report_cleanup(self, spool: str, numbers: tuple[int, ...], failure: str) -> None:
        """Pass on, from the thread that deletes checkpoints, what it did."""
        job = job_of(spool)
        self._cleanups.put(CheckpointsCleaned(f"cleanup-{job[0]}.{job[1]}-{self.now()}", *job, numbers, failure))
        with suppress(OSError):  # this world is closed; the next one tries what failed again
            self._wake[1].send(b"\0")

    def _take_cleanup(self) -> None:
        self._wake[0].recv(1)
        self._news.append(self._cleanups.get())

    def claimed_keys(self) -> frozenset[str]:
        """Return the log's activations in this directory: those running under its supervisor, and those whose end it
        has recorded."""
        return self._supervisor.claimed_keys()

    def prepare(self) -> None:
        """Start the supervisor before the first job needs it."""
        self._supervisor.poll(0.0)
        self._listen()

    def watch(self, fileno: int, called: Callable[[], None]) -> None:
        """Call `called` when `fileno` becomes readable; this also ends the current wait."""
        self._selector.register(fileno, selectors.EVENT_READ, called)

    def unwatch(self, fileno: int) -> None:
        self._selector.unregister(fileno)

    def launch_request(self, launch: Launch | ClientLaunch) -> execution.LaunchRequest:
        """Return the supervisor's request for a launch. Raise `NotRun` if the job must not run, `ValueError` if it
        cannot."""
        users = self._users
        if isinstance(launch, ClientLaunch):
            self._clients.add(launch.key)
            return client_activation(launch, self._starter, client_account(launch))
        if users is not None:
            account, files = users.user_of_launch(launch, self._starter.accounts.in_pool_of(self.uid_domain))
            slot = ReadAd(launch.slot_ad).number("SlotID") or 0
            place = users.scratch_parent(self._starter.directory(slot)) if account or files else ""
            if launch.holder:
                return self._with_files(launch, activation(launch, self._starter, account, account, place))
            spool = self.spool.path(launch.cluster, launch.proc, files)
            return self._with_cleanup(activation(launch, self._starter, account, files, place, spool))
        if launch.holder:  # as with HTCondor, the jobs of all users run as the user who serves the machine
            return self._with_files(launch, activation(launch, self._starter))
        if launch.owner not in self.owners:
            raise NotRun(NO_ACCOUNT, not_ours(launch.owner))
        spool = self.spool.path(launch.cluster, launch.proc)
        return self._with_cleanup(activation(launch, self._starter, spool=spool))

    def _with_cleanup(self, request: execution.LaunchRequest) -> execution.LaunchRequest:
        """Prepare the deletion of a job's checkpoints before the first one exists. Raise `ValueError` if that fails."""
        if request.transfer is not None and request.transfer.checkpoint_url:
            try:
                self.spool.cleanup.prepare(request.transfer.spool, request.transfer.checkpoint_url, request.job_ad)
            except OSError as error:
                raise ValueError(f"{error.filename}: {error.strerror}") from None
        return request

    def _with_files(self, launch: Launch, request: execution.LaunchRequest) -> execution.LaunchRequest:
        """Let a job of another access point transfer its files from and to there. Raise `NotRun` if that is unknown
        how."""
        if request.transfer is None:
            return request
        access_point = self.access_point_of(launch)
        if access_point is None:
            raise NotRun(NOT_STARTED, "the access to the job's files at its access point is unknown")
        return evolve(request, access_point=access_point)

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        requests = []
        for launch in launches:
            if isinstance(launch, Launch):
                self._devices.add_run(launch.key, launch.slot, launch.slot_ad)
            try:
                requests.append(self.launch_request(launch))
            except NotRun as error:
                self._not_started(launch.key, error.code, str(error))
            except ValueError as error:
                self._not_started(launch.key, 6, f"Failed to start the job: {error}")
        if not requests:
            return
        try:
            self._supervisor.start(requests)
        except ReplacedError:
            raise
        except SupervisorError as error:
            for request in requests:
                self._not_started(request.key, NOT_STARTED, str(error))
            return
        self._slots.update((request.key, request) for request in requests)
        self._listen()

    def _not_started(self, key: str, code: int, reason: str) -> None:
        if key in self._clients:
            self._news.append(BackfillEnded(f"end-{key}", key, self.now(), failure=reason))
            return
        end = ActivationEnded(f"end-{key}", key, self.now(), failed=True, hold_reason=reason, hold_code=code)
        self._news.append(end)

    def _listen(self) -> None:
        """Also wait for the supervisor once it is running; it starts with the first job."""
        if not self._watching:
            self.watch(self._supervisor.fileno(), self._has_news)
            self._watching = True

    def _has_news(self) -> None:
        """Record that the supervisor has sent a message, so that the next retry need not wait."""
        self._again_at = 0

    def signal(self, key: str, how: How) -> None:
        try:
            self._supervisor.signal(key, how)
        except SupervisorError as error:  # the next supervisor ends what this one left, whatever the signal
            self._complain(error)

    def boot_time(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def renew(self, deadlines: Mapping[str, int]) -> None:
        if not deadlines:
            return
        try:
            self._supervisor.set_deadlines(deadlines)
        except SupervisorError as error:  # the next supervisor ends what this one left
            self._complain(error)

    def acknowledge(self, keys: Iterable[str]) -> None:
        done = list(keys)
        for key in done:
            self._slots.pop(key, None)
            self._clients.discard(key)
            self._load.remove_activation(key)
            self._devices.remove_run(key)
        self._owed += done
        try:
            self._supervisor.acknowledge(self._owed)
        except SupervisorError as error:
            self._complain(error)
        else:
            self._owed = []

    def _complain(self, error: SupervisorError) -> None:
        """Report once that the supervisor cannot be reached, and retry later."""
        if isinstance(error, ReplacedError):
            raise error
        self._again_at = _ticker() + AGAIN
        if not self._warned:
            self._warned = True
            self._tell(str(error))

    def _reports(self) -> list[Stimulus]:
        if not self._watching or _ticker() < self._again_at:
            return []
        try:
            reports = self._supervisor.poll(0.0)
        except SupervisorError as error:
            self._complain(error)
            return []
        self._warned, self._again_at = False, 0
        return list(self._stimuli_of(reports))

    def wait(self, until: int | None) -> list[Stimulus]:
        for programs in (self._cron, self._benchmarks, self._schedd_cron):
            if (due := programs.next_due_time()) is not None:
                until = due if until is None else min(until, due)
        timeout = None if until is None else max(0.0, (until - self.now()) / 1_000_000)
        if self._watching and self._again_at:
            again = max(0.0, (self._again_at - _ticker()) / 1_000_000)
            timeout = again if timeout is None else min(timeout, again)
        mailing = self._mailer.seconds_to_deadline()
        if mailing is not None:
            timeout = mailing if timeout is None else min(timeout, mailing)
        self._news += self._benchmarks.results(self.now())
        if self._news:
            timeout = 0.0
        for key, _ in self._selector.select(timeout):
            key.data()
        for programs in (self._cron, self._benchmarks, self._schedd_cron):
            programs.start_due_programs(self.now())
        self._news += self._benchmarks.results(self.now())
        self._mailer.end_overdue_program()
        came, self._news = self._news, []
        return came + self._reports()

    def _stimuli_of(self, reports: Iterable[execution.Report | execution.Running]) -> Iterator[Stimulus]:
        for report in reports:
            if report.key in self._clients:
                stimulus = self._of_client(report)
                if stimulus is not None:
                    yield stimulus
                continue
            if isinstance(report, execution.Chirped):
                yield _chirp_stimulus(report.key, report.writes)
                continue
            moves = {} if isinstance(report, _MOVELESS) else {move.way: move for move in report.moves}
            if "input" in moves:
                yield _transfer_stimulus(report.key, moves["input"])
            if isinstance(report, execution.Exited) and report.began:
                yield self._started_stimulus(report.key, report.pid, report.began)
            if isinstance(report, execution.Started | execution.Running):
                yield self._started_stimulus(report.key, report.pid, report.at)
            for direction in ("checkpoint", "output"):
                if direction in moves:
                    yield _transfer_stimulus(report.key, moves[direction])
            if isinstance(report, execution.Running | execution.Failed | execution.Exited) and report.writes:
                yield _chirp_stimulus(report.key, report.writes)
            if not isinstance(report, execution.Started | execution.Running | execution.Transferring):
                yield self._stimulus(report)

    def _of_client(self, report: execution.Report | execution.Running) -> Stimulus | None:
        """Return the stimulus for a report about a backfill client, or None for a usage report, which only sets the
        client's load."""
        key = report.key
        if isinstance(report, execution.Started | execution.Running):
            self._load.add_activation(key, _CLIENT, report.at)
            return BackfillRunning(f"start-{key}", key, report.pid, report.at)
        if isinstance(report, execution.Usage):
            self._load.record_cpu_time(key, report.at, report.user_us + report.system_us)
            return None
        if isinstance(report, execution.Transferring | execution.Chirped):
            return None  # backfill clients have no files and no condor_chirp
        if isinstance(report, execution.Failed):
            return BackfillEnded(f"end-{key}", key, report.at, failure=report.reason)
        if isinstance(report, execution.Lost):
            return BackfillEnded(f"end-{key}", key, report.at, lost=True)
        return BackfillEnded(
            f"end-{key}", key, report.at, report.code, report.signal, report.user_us, report.system_us,
            unattended=report.violated == execution.UNATTENDED,
        )  # fmt: skip

    def _started_stimulus(self, key: str, pid: int, at: int) -> ActivationStarted:
        slot = self._slots.get(key)
        if slot is not None:
            self._load.add_activation(key, slot.slot, at)
        self._devices.set_pid(key, pid)
        place = (slot.execute if slot else "") or f"{self._folder}/execute"
        return ActivationStarted(f"start-{key}", key, pid, f"{place}/dir_{self._supervisor.name(key)}/scratch", at)

    def _stimulus(self, report: execution.Usage | execution.Failed | execution.Lost | execution.Exited) -> Stimulus:
        key = report.key
        if isinstance(report, execution.Usage):
            self._load.record_cpu_time(key, report.at, report.user_us + report.system_us)
            return ActivationMeasured(
                f"usage-{key}-{report.at}", key, report.image_kb, report.rss_kb, report.disk_kb, report.user_us,
                report.system_us, {**self._devices.usage(key), **sandbox_attributes(report)},
                self._starter.update_every, self._starter.first_update,
            )  # fmt: skip
        if isinstance(report, execution.Failed) and report.part == execution.SKIPPED:
            return ActivationEnded(f"end-{key}", key, report.at, 0, usage={SKIPPED: "true"})
        if isinstance(report, execution.Failed):
            return ActivationEnded(
                f"end-{key}", key, report.at, failed=True,
                hold_reason=held_for_failure(report, self._slots.get(key)), hold_code=report.hold_code,
                hold_subcode=report.errno, protocol=report.failure.protocol if report.failure else "",
            )  # fmt: skip
        if isinstance(report, execution.Lost):
            return ActivationEnded(f"end-{key}", key, report.at, lost=True)
        return self._activation_ended(report)

    def _activation_ended(self, report: execution.Exited) -> ActivationEnded:
        code, subcode = execution.VIOLATION_HOLD_CODES.get(report.violated, (0, 0))
        slot = self._slots.get(report.key)
        given = (slot.limits.memory_mb or slot.memory_mb, slot.disk_kb) if slot else ("?", "?")
        reason, protocol = held_for_limit(report.violated, *given), ""
        if report.failure is not None and not code:
            code, subcode = report.failure.code, report.failure.errno
            subcode = -1 if code == FAILED_CHECKPOINT else subcode
            reason, protocol = held_for_transfer("output", report.failure, slot), report.failure.protocol
        return ActivationEnded(
            f"end-{report.key}", report.key, report.at, report.code, report.signal, report.user_us, report.system_us,
            report.peak_kb, report.disk_kb, hold_reason=reason, hold_code=code, hold_subcode=subcode,
            undelivered=report.undelivered, protocol=protocol, core=report.core_file,
            expired=report.violated == execution.EXPIRED,
            usage={**self._devices.usage(report.key), **sandbox_attributes(report)},
        )  # fmt: skip

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        keys = {launch.key for launch in launches}
        over = sorted(self.claimed_keys() - keys)
        if not launches and not over:
            return []
        # The supervisor's answer replaces a failed start that was not reported yet.
        ends = (ActivationEnded, BackfillEnded)
        self._news = [item for item in self._news if not (isinstance(item, ends) and item.key in keys)]
        self._supervisor.acknowledge(over)  # a killed pool may not have acknowledged them
        recovered = self._supervisor.recover([launch.key for launch in launches])
        self._listen()
        for launch in launches:
            if isinstance(launch, Launch):
                self._devices.add_run(launch.key, launch.slot, launch.slot_ad)
            with suppress(NotRun, ValueError):  # if it must be started after all, ``start`` reports the reason
                self._slots[launch.key] = self.launch_request(launch)
        self.start([launch for launch in launches if _must_start(launch, recovered[launch.key])])
        return list(self._stimuli_of(report for report in recovered.values() if not isinstance(report, str)))

    def close(self) -> None:
        self._cron.close()
        self._schedd_cron.close()
        self._mailer.close()
        self._benchmarks.close()
        if self._sensors is not None:
            self._sensors.close()
        self._supervisor.close()
        for end in self._wake:
            end.close()
        self._selector.close()
