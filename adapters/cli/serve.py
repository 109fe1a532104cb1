"""``poolbook run, resume``: serve a pool on this machine for one submission, or for the remaining jobs; and what
``poolbook serve`` (``roles``) has in common with them."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..condor_tools.options import Arguments, ToolError, ToolSyntax, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import ProgressLine, is_live, rewrite_line, width_of, wrap_text
from .common import selected_log
from .submit import description_of, policy_warning_lines, print_warnings
from .view import origins

if TYPE_CHECKING:
    from ...domain.decide.pool_configuration import Load
    from ..runtime.companions import Companions
    from ..runtime.pool_server import PoolServer
    from ..stores.log_paths import WriterLock

RUN = command_table("run")
RESUME = command_table("resume")
SERVE = command_table("serve")
_PRELOADED_MODULES = ("poolbook.projections.projector", "poolbook.domain.negotiator.cycle")
"""Modules that the first jobs need. Loading them takes half a second or more, and no request should wait for it."""


PROGRESS_INTERVAL = 0.5  #: seconds between two updates of the progress of a served pool


def preload_modules() -> None:
    for module in _PRELOADED_MODULES:
        import_module(module)


class SeparateRole(NamedTuple):
    """A role of a pool whose roles have separate logs, and what its new log begins with."""

    role: str
    name: str  #: of the pool for a manager; else the role's name in the pool
    dialect: str = ""
    uid_domain: str = ""
    settings: Mapping[str, str] = {}


def open_server(
    command: ToolSyntax, arguments: Arguments, create: bool = True, *, is_measured: bool = False, url: str = "",
    separate: SeparateRole | None = None, lock: WriterLock | None = None,
) -> PoolServer:  # fmt: skip
    """Become the writer of the log that the arguments name, and recover its jobs.

    :param create: create the log if it does not exist
    :param is_measured: measure this machine's speed, unless the configuration disables it
    :param url: use this log instead
    :param separate: the only role of the log; then the caller connects it to its peers, and starts serving
    :param lock: the log's lock, if this process already has it
    """
    from ...domain.state_machines import DEFAULT_DIALECT
    from ..runtime.open_pool import open_pool_log
    from ..runtime.pool_server import PoolServer, ServedUsers
    from ..stores.log_paths import share_with_group, show_to_all

    url = url or selected_log(arguments)
    served_users = ServedUsers.ALL if arguments.has("users") else ServedUsers.EACH
    if served_users is ServedUsers.ALL:
        _check_is_root()
    settings = {} if separate is None else dict(separate.settings)
    for setting_text in arguments.values("set"):
        name, equals, value = setting_text.partition("=")
        if not equals:
            raise UsageError(f"-set {setting_text}: use NAME=value")
        settings[name] = value
    _check_settings_enforced(settings, arguments)
    dialect = arguments.value("dialect", (separate and separate.dialect) or DEFAULT_DIALECT)
    role, name, uid_domain = (separate.role, separate.name, separate.uid_domain) if separate else ("", "", "")
    server = PoolServer(
        url,
        lambda: open_pool_log(
            url, create=create, settings=settings, dialect=dialect, name=name, uid_domain=uid_domain, role=role
        ),
        lost=arguments.has("lost"),
        served_users=served_users,
        lock=lock,
    )
    try:
        if arguments.has("group"):
            share_with_group(url)
        if served_users is ServedUsers.ALL:
            _check_log_directory(server.paths.base)
            show_to_all(url)
        _warn_of_kept_settings(server, settings, dialect if arguments.has("dialect") else "")
        for name in ("execute", "log", "spool"):  # EXECUTE, LOG and SPOOL, unless the configuration sets them
            (server.paths.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        _offer_machine(command, server, arguments, is_measured, separate)
        if separate is None:
            server.start_serving()
    except BaseException:
        server.close()
        raise
    return server


def _check_log_directory(log: Path) -> None:
    """Raise an error if a pool for all users is to be served from a directory that other users can write."""
    from ..runtime.config_sources import why_not_own

    why = why_not_own(log) if log.exists() else ""
    if why:
        raise ToolError(
            f"poolbook: {log} cannot serve all users: {why}, so another user could replace the log; put it in a "
            f"folder that only root can write (-log /var/lib/poolbook/pool.db)"
        )


def _check_is_root() -> None:
    if os.geteuid() != 0:
        raise UsageError(
            "-users: only root can run jobs as their owners; serve the pool as root, or omit -users to accept only "
            "your own jobs"
        )


def _check_settings_enforced(settings: Mapping[str, str], arguments: Arguments) -> None:
    from ...domain.coverage.settings import restriction

    for name in settings:
        problem = restriction(name)
        if problem is not None and not arguments.has("ignore-unenforced"):
            raise UsageError(
                f"-set {name}: Poolbook does not enforce {problem} yet, so jobs that it forbids could run. Remove "
                f"it, or use -ignore-unenforced"
            )


def _warn_of_kept_settings(server: PoolServer, settings: Mapping[str, str], dialect: str) -> None:
    state = server.engine.state
    changed_settings = {f"-set {name}={value}": state.settings.get(name) != value for name, value in settings.items()}
    changed_settings[f"-dialect {dialect}"] = dialect not in ("", state.dialect.name)
    for setting_text in (name for name, is_different in changed_settings.items() if is_different):
        print(f"WARNING: {setting_text} only applies to a new pool; this one keeps its setting", file=sys.stderr)


def _offer_machine(
    command: ToolSyntax, server: PoolServer, arguments: Arguments, is_measured: bool, separate: SeparateRole | None
) -> None:
    """Add this machine to the pool, or replace its old slots by the requested ones. A role without a machine only reads
    the configuration."""
    from ...domain.config import ConfigError
    from ...domain.startd.slot_types import SlotTypeError
    from ...domain.state.peers import EXECUTION_POINT
    from ...domain.state.pool_settings import UID_DOMAIN
    from ..machine.host import host_name
    from ..runtime.startd import ExecutionPoint, RoleWithoutMachine

    amounts = {name: last_number(command, arguments, name.lower(), least=1) for name in _DETECTED}
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    static = last_number(command, arguments, "slots", least=1) or 0
    load = _configuration_loader(arguments, given)
    if load is not None and static:
        raise UsageError("-slots: the configuration defines the slots; remove -slots, or set NUM_SLOTS in it")
    ignores = arguments.has("ignore-unenforced")
    folder, warn = server.paths.folder, server.warn
    has_machine = separate is None or separate.role == EXECUTION_POINT
    name = host_name() if separate is None else separate.name
    if separate is not None and has_machine:
        server.world.uid_domain = server.engine.state.settings[UID_DOMAIN]
    kind = ExecutionPoint if has_machine else RoleWithoutMachine
    point = kind(server.engine, server.world, folder, warn, load, static, given, ignores, is_measured, name)
    try:
        point.join()
    except ConfigError as error:
        raise ToolError(f"poolbook: {error}") from None
    except SlotTypeError as error:
        raise (UsageError(f"-slots: {error}") if static else ToolError(f"poolbook: {error}")) from None
    server.point = point


def _configuration_loader(arguments: Arguments, amounts: Mapping[str, int]) -> Load | None:
    """Return the function that loads the configuration at each reconfig, or None without a configuration. The
    configuration treats `amounts` as the detected resources."""
    from ..runtime.config_sources import config_files, environment_settings
    from ..runtime.configuration import load

    files = [path.absolute() for path in config_files(arguments.values("config"))]
    if not files and not environment_settings():
        return None
    detected_amounts = {_DETECTED[name]: str(amount) for name, amount in amounts.items()}
    local_name = arguments.value("local-name")
    return lambda daemon: load(files, detected=detected_amounts, subsystem=daemon, local_name=local_name)


_DETECTED = {"Cpus": "DETECTED_CPUS", "Memory": "DETECTED_MEMORY"}


def run(argv: Sequence[str]) -> int:
    arguments = parse(RUN, argv)
    if not arguments.words:
        raise UsageError("poolbook run: specify a submit file: poolbook run FILE.sub")
    description = description_of(arguments)
    server = _open_to_submit(arguments)
    try:
        from ..runtime.requests import SubmitTerms
        from ..runtime.submit_request import Reading

        server.catch_signals()  # after the submission, jobs may run
        server.world.prepare()
        number = server.engine.state.next_cluster
        request = Reading(description).request(SubmitTerms.from_state(server.engine.state, number), {})
        print_warnings(request.warnings)
        preload_modules()
        (answer,) = server.engine.handle([request.request])
        if answer.refusal:
            print_warnings([f"ERROR: {answer.tool}" if answer.tool else f"poolbook: {answer.refusal}"])
            return 1
        print_warnings(policy_warning_lines(answer.value.get("warning", "")))
        return _run_to_end(server, arguments, (number,))
    finally:
        server.close()


def _open_to_submit(arguments: Arguments) -> PoolServer:
    from ...domain.ports.log import AlreadyServed

    try:
        return open_server(RUN, arguments)
    except AlreadyServed as error:
        call = f"poolbook submit {shlex.join(arguments.words)}"
        raise AlreadyServed(f"{error}. `{call}` submits the jobs to it") from None


def resume(argv: Sequence[str]) -> int:
    arguments = parse(RESUME, argv)
    server = open_server(RESUME, arguments, create=False)
    try:
        if not server.found:
            print("[]" if arguments.has("json") else "There are no jobs in the queue.")
            return 0
        server.catch_signals()
        return _run_to_end(server, arguments, server.found)
    finally:
        server.close()


def serve_until_stopped(
    server: PoolServer, arguments: Arguments, description: str,
    end: str = "its jobs are vacated, and run again when the pool restarts",
) -> int:  # fmt: skip
    """Serve until a signal stops the server; ``description`` names what is served, and ``end`` the consequence."""
    server.catch_signals()
    print(f"poolbook: serving {description}; Ctrl-C stops it", flush=True)
    if arguments.has("verbose"):
        from .log_commands import print_live_lines

        server.engine.subscribe(print_live_lines)
    progress = None if arguments.has("quiet", "verbose") or not is_live(sys.stderr) else PoolProgress(server)
    with closing(_companions(server, arguments)) as companions:
        while not server.stopping:
            due = companions.check()
            if progress is not None:
                shows_at = server.world.now() + round(progress.show() * 1_000_000)
                due = shows_at if due is None else min(due, shows_at)
            server.step(due)
    server.before_warning()
    print(f"poolbook: stopping; {end}", flush=True)
    server.shut_down()
    return 0


def _companions(server: PoolServer, arguments: Arguments) -> Companions:
    from ...domain.config import ConfigError
    from ...domain.master.master_settings import read_policy
    from ...domain.state.state import Manager, acts_as
    from ..runtime.companions import Companions, companion_commands
    from ..runtime.config_sources import config_files
    from ..runtime.configuration import load

    files = [path.absolute() for path in config_files(arguments.values("config"))]
    master, address = load(files, subsystem="MASTER"), arguments.value("http")
    sites = origins(arguments)
    if sites and not address:
        raise UsageError("poolbook serve: -origin needs the HTTP API; use -http HOST:PORT as well")
    http = ["-listen", address, *(word for site in sites for word in ("-origin", site))] if address else []
    is_manager = acts_as(server.engine.state, Manager)
    try:
        commands = companion_commands(server.url, master, [str(file) for file in files], http, is_manager)
        return Companions(commands, read_policy(master, [*filter(str.isupper, commands)], gives_up=False), server)
    except ConfigError as error:
        raise ToolError(f"poolbook serve: {error}") from None


def _run_to_end(server: PoolServer, arguments: Arguments, clusters: tuple[int, ...]) -> int:
    from .run_report import report

    progress = JobProgress(server, clusters, is_quiet=arguments.has("quiet"))
    while not server.stopping:
        unfinished_count = _count_unfinished(server, clusters)
        if not unfinished_count or progress.is_stuck():
            break
        server.step(server.world.now() + 250_000)
        progress.show()
    if server.stopping:
        progress.say("stopping: ending the running jobs")
        server.shut_down()
    progress.end()
    url, as_json = selected_log(arguments), arguments.has("json")
    report(server.engine, url, clusters, progress.seconds(), as_json, was_interrupted=server.stopping)
    if server.stopping:
        return 130
    return 0 if not _count_unfinished(server, clusters, with_held=True) and not _has_failed_job(server, clusters) else 1


def _has_failed_job(server: PoolServer, clusters: Sequence[int]) -> bool:
    from ...domain.events import JobExited
    from ...replay.outcomes import ProcessEnd

    events = (event for number in clusters for _, event in server.log.read_stream(f"cluster/{number}", server.opened))
    exits = (event for event in events if isinstance(event, JobExited) and event.target == "Completed")
    return any(ProcessEnd(event.code, event.signal).failed for event in exits)


def _count_unfinished(server: PoolServer, clusters: Sequence[int], with_held: bool = False) -> int:
    """Return the number of jobs that can run without a user's action; held jobs count only if `with_held`."""
    state = server.engine.state
    living_count = sum(1 for activation in state.activations.values() if activation.cluster in clusters)
    status_counts = [state.clusters[number].status_counts for number in clusters if number in state.clusters]
    return living_count + sum(counts[1] + (counts[5] if with_held else 0) for counts in status_counts)


class PoolProgress:
    """Shows the jobs and slots of a served pool on the terminal, as one line that is updated."""

    def __init__(self, server: PoolServer) -> None:
        self._server = server
        self._line = ProgressLine(PROGRESS_INTERVAL)
        self._done_count = 0
        self._last = ""
        server.engine.subscribe(self._events)
        server.before_warning = self._clear

    def _events(self, first: int, events: Sequence[object]) -> None:
        from ...domain.events import JobExited

        self._done_count += sum(isinstance(event, JobExited) and event.target == "Completed" for event in events)

    def _clear(self) -> None:
        self._last = ""
        self._line.end()

    def show(self) -> float:
        """Update the line if it is due and has changed. Return after how many seconds to call this again."""
        state = self._server.engine.state
        if self._line.is_due():
            counts = {
                name: sum(cluster.status_counts[status] for cluster in state.clusters.values())
                for name, status in (("running", 2), ("idle", 1), ("held", 5))
            }
            job_text = ", ".join(f"{count:,} {name}" for name, count in {"done": self._done_count, **counts}.items())
            busy_count = sum(slot.activity == "Busy" for slot in state.slots.values())
            text = f"jobs: {job_text}; slots: {busy_count:,} of {len(state.slots):,} busy"
            if text != self._last:
                self._line.show_text(text)
            self._last = text
        return PROGRESS_INTERVAL


class JobProgress:
    """Shows progress while jobs run: on a terminal one line that is updated, elsewhere a new line for each tenth."""

    def __init__(self, server: PoolServer, clusters: Sequence[int], is_quiet: bool) -> None:
        self._server, self._clusters, self._quiet = server, set(clusters), is_quiet
        self._terminal = is_live(sys.stderr)
        self._shown = 0.0
        self._begun = time.monotonic()
        self._last = ""
        self._done = 0
        self._judged: set[str] = set()
        """Rejected jobs that were already compared with all slots."""
        self._unmatchable: set[str] = set()
        """Messages that were already printed about jobs that no slot can run."""
        server.engine.subscribe(self._events)
        state = server.engine.state
        self._total = sum(state.clusters[n].live for n in clusters if n in state.clusters)
        self._warn_of_unmatchable()

    def _events(self, first: int, events: Sequence[object]) -> None:
        from ...domain.events import CycleHeld, JobExited

        for event in events:
            if isinstance(event, CycleHeld) and event.unmatched:
                self._warn_of_unmatchable()
            if isinstance(event, JobExited) and event.cluster in self._clusters and event.target == "Completed":
                self._done += 1

    def _warn_of_unmatchable(self) -> None:
        """Warn once about each job that the last cycles rejected and that no slot can ever run."""
        from ...domain.names import JobId
        from ...replay.why.rejections import fits_none
        from .run_report import unmatchable_reason

        state = self._server.engine.state
        for name, reason in ((name, text) for reasons in state.rejections.values() for name, text in reasons.items()):
            cluster, proc = JobId.parse(name)
            if self._quiet or name in self._judged or cluster not in self._clusters or not fits_none(reason):
                continue
            self._judged.add(name)
            why = unmatchable_reason(self._server.engine, cluster, proc)
            if why and why not in self._unmatchable:
                self._unmatchable.add(why)
                wait_text = f" and {reason.jobs - 1:,} like it are idle" if reason.jobs > 1 else " waits"
                self.say(f"{name}{wait_text}: {why}")

    def counts(self) -> tuple[int, int, int]:
        state = self._server.engine.state
        known_clusters = [state.clusters[n] for n in self._clusters if n in state.clusters]
        return (
            sum(cluster.status_counts[2] for cluster in known_clusters),
            sum(cluster.status_counts[1] for cluster in known_clusters),
            sum(cluster.status_counts[5] for cluster in known_clusters),
        )

    def show(self, force: bool = False) -> None:
        interval = 0.2 if self._terminal else 2.0
        if self._quiet or (not force and time.monotonic() - self._shown < interval):
            return
        self._shown = time.monotonic()
        running_count, idle_count, held_count = self.counts()
        done_count = self._done
        bar = ""
        if self._terminal:
            filled_width = 24 * done_count // max(1, self._total)
            bar = f"[{'#' * filled_width}{'.' * (24 - filled_width)}] "
        held_text = f", {held_count} held" if held_count else ""
        text = f"{bar}{done_count} of {self._total} done, {running_count} running, {idle_count} idle{held_text}"
        if text == self._last:
            return
        self._last = text
        line = f"{text}  ({self.seconds():.0f} s)"
        if self._terminal:
            rewrite_line(line, sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        line = wrap_text(f"poolbook: {text}", width_of(sys.stderr))
        print(("\n" if self._terminal and self._last else "") + line, file=sys.stderr, flush=True)

    def is_stuck(self) -> bool:
        """Return True if waiting is useless: no job runs, no slot matches an idle job, and no policy can change
        this."""
        engine = self._server.engine
        can_always_start = all(slot.ad.get("Start", "true").lower() == "true" for slot in engine.state.slots.values())
        return can_always_start and engine.nothing_fits()

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def end(self) -> None:
        self.show(force=True)
        if self._terminal and self._last and not self._quiet:
            print(file=sys.stderr)
