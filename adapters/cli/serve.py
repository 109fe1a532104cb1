"""``poolbook run, resume, serve``: serve a pool on this machine for one submission, for the jobs left, or until
stopped."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..condor_tools.options import Arguments, ToolError, ToolSyntax, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import folded, is_live, rewrite, width_of
from .common import log_of, safe_url
from .submit import description_of, print_warnings, warned_by_policy

if TYPE_CHECKING:
    from ...domain.decide.pool_configuration import Load
    from ..runtime.pool_server import PoolServer

RUN = command_table("run")
RESUME = command_table("resume")
SERVE = command_table("serve")
_LOADED_AHEAD = ("sqlite_utils", "poolbook.projections.projector", "poolbook.domain.negotiator.cycle")
"""What the first jobs need. It takes half a second to load, more on a busy machine: no request is to wait for it."""


def open_server(
    command: ToolSyntax, arguments: Arguments, create: bool = True, *, measured: bool = False
) -> PoolServer:
    """Become the writer of the log that the arguments name, and recover its jobs.

    :param create: begin a log if there is none
    :param measured: measure this machine's speed unless a configuration decides that
    """
    from ...domain.state_machines import DEFAULT_DIALECT
    from ..runtime.open_pool import open_pool_log
    from ..runtime.pool_server import PoolServer, ServedUsers
    from ..stores.log_paths import share_with_group, show_to_all

    url = log_of(arguments)
    whose = ServedUsers.ALL if arguments.has("users") else ServedUsers.EACH
    if whose is ServedUsers.ALL:
        _check_users()
    settings = {}
    for given in arguments.values("set"):
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"-set {given}: write NAME=value")
        settings[name] = value
    _check_enforced(settings, arguments)
    dialect = arguments.value("dialect", DEFAULT_DIALECT)
    server = PoolServer(
        url,
        lambda: open_pool_log(url, create=create, settings=settings, dialect=dialect),
        lost=arguments.has("lost"),
        whose=whose,
    )
    try:
        if arguments.has("group"):
            share_with_group(url)
        if whose is ServedUsers.ALL:
            _check_place(server.paths.base)
            show_to_all(url)
        _warn_of_kept_settings(server, settings, dialect if arguments.has("dialect") else "")
        for name in ("execute", "log", "spool"):  # EXECUTE, LOG and SPOOL unless a configuration says otherwise
            (server.paths.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        _offer(command, server, arguments, measured)
        server.begin()
    except BaseException:
        server.close()
        raise
    return server


def _check_place(log: Path) -> None:
    """Refuse to serve all users from a place that is not root's alone."""
    from ..runtime.config_sources import why_not_own

    why = why_not_own(log) if log.exists() else ""
    if why:
        raise ToolError(
            f"poolbook: {log} cannot serve all users: {why}, and so another user could put another log there; keep it "
            "in a folder of root's alone (-log /var/lib/poolbook/pool.db)"
        )


def _check_users() -> None:
    """Refuse to serve all users without root's rights."""
    if os.geteuid() != 0:
        raise UsageError(
            "-users: only root can run each user's jobs as that user; serve the pool as root, or leave it out: then it "
            "takes your own jobs alone"
        )


def _check_enforced(settings: Mapping[str, str], arguments: Arguments) -> None:
    """Refuse settings of a new log that Poolbook does not enforce."""
    from ...domain.coverage.settings import unenforced

    for name in settings:
        about = unenforced(name)
        if about is not None and not arguments.has("ignore-unenforced"):
            raise UsageError(
                f"-set {name}: Poolbook does not enforce {about} yet, and would let in what they keep out. "
                "Leave it out, or say -ignore-unenforced"
            )


def _warn_of_kept_settings(server: PoolServer, settings: Mapping[str, str], dialect: str) -> None:
    """Warn of the settings that an existing log does not take over."""
    state = server.engine.state
    given_options = {f"-set {name}={value}": state.settings.get(name) != value for name, value in settings.items()}
    given_options[f"-dialect {dialect}"] = dialect not in ("", state.dialect.name)
    for given in (name for name, differs in given_options.items() if differs):
        print(f"WARNING: {given} is for a new pool; this one keeps what it was begun with", file=sys.stderr)


def _offer(command: ToolSyntax, server: PoolServer, arguments: Arguments, measured: bool) -> None:
    """Add this machine to the pool, or replace its former slots by the requested ones."""
    from ...domain.config import ConfigError
    from ...domain.startd.slot_types import SlotTypeError
    from ..runtime.startd import ExecutionPoint

    amounts = {name: last_number(command, arguments, name.lower(), least=1) for name in _DETECTED}
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    static = last_number(command, arguments, "slots", least=1) or 0
    load = _configured(arguments, given)
    if load is not None and static:
        raise UsageError("-slots: the configuration says which slots there are: NUM_SLOTS = n, or -slots alone")
    point = ExecutionPoint(
        server.engine,
        server.world,
        server.paths.folder,
        server.warn,
        load,
        static,
        given,
        arguments.has("ignore-unenforced"),
        measured,
    )
    try:
        point.join()
    except ConfigError as error:
        raise ToolError(f"poolbook: {error}") from None
    except SlotTypeError as error:
        raise (UsageError(f"-slots: {error}") if static else ToolError(f"poolbook: {error}")) from None
    server.point = point


def _configured(arguments: Arguments, given: Mapping[str, int]) -> Load | None:
    """Return the loader of the configuration, called at each reconfig; None without one. It takes ``given`` amounts as
    detected."""
    from ..runtime.config_sources import config_files, environment_settings
    from ..runtime.configuration import load

    files = [path.absolute() for path in config_files(arguments.values("config"))]
    if not files and not environment_settings():
        return None
    detected = {_DETECTED[name]: str(amount) for name, amount in given.items()}
    return lambda daemon: load(files, detected=detected, subsystem=daemon)


_DETECTED = {"Cpus": "DETECTED_CPUS", "Memory": "DETECTED_MEMORY"}


def run(argv: Sequence[str]) -> int:
    arguments = parse(RUN, argv)
    if not arguments.words:
        raise UsageError("poolbook run: no submit file is named: poolbook run FILE.sub")
    description = description_of(arguments)
    server = _open_to_submit(arguments)
    try:
        from ..runtime.requests import SubmitTerms
        from ..runtime.submit_request import Reading

        server.catch_signals()  # from the submission on, jobs may run
        server.world.prepare()
        number = server.engine.state.next_cluster
        read = Reading(description).request(SubmitTerms.of(server.engine.state, number), {})
        print_warnings(read.warnings)
        (answer,) = server.engine.handle([read.request])
        if answer.refusal:
            print_warnings([f"ERROR: {answer.tool}" if answer.tool else f"poolbook: {answer.refusal}"])
            return 1
        print_warnings(warned_by_policy(answer.value.get("warning", "")))
        return _to_the_end(server, arguments, (number,))
    finally:
        server.close()


def _open_to_submit(arguments: Arguments) -> PoolServer:
    from ...domain.ports.log import AlreadyServed

    try:
        return open_server(RUN, arguments)
    except AlreadyServed as error:
        call = f"poolbook submit {shlex.join(arguments.words)}"
        raise AlreadyServed(f"{error}. `{call}` gives the jobs to it") from None


def resume(argv: Sequence[str]) -> int:
    arguments = parse(RESUME, argv)
    server = open_server(RESUME, arguments, create=False)
    try:
        if not server.found:
            print("[]" if arguments.has("json") else "There are no jobs in the queue.")
            return 0
        server.catch_signals()
        return _to_the_end(server, arguments, server.found)
    finally:
        server.close()


def serve(argv: Sequence[str]) -> int:
    arguments = parse(SERVE, argv)
    for module in _LOADED_AHEAD:
        import_module(module)
    server = open_server(SERVE, arguments, measured=True)
    try:
        server.catch_signals()
        print(f"poolbook: serving {safe_url(log_of(arguments))}; Ctrl-C stops it", flush=True)
        if arguments.has("verbose"):
            from .log_commands import tell_as_it_happens

            server.engine.subscribe(tell_as_it_happens)
        while not server.stopping:
            server.step()
        print("poolbook: stopping; jobs are vacated and run again when the pool is back", flush=True)
        server.shut_down()
        return 0
    finally:
        server.close()


# One submission to its end


def _to_the_end(server: PoolServer, arguments: Arguments, clusters: tuple[int, ...]) -> int:
    from .run_report import report

    progress = JobProgress(server, clusters, quiet=arguments.has("quiet"))
    while not server.stopping:
        remaining = _count_unfinished(server, clusters)
        if not remaining or progress.stuck():
            break
        server.step(server.world.now() + 250_000)
        progress.show()
    if server.stopping:
        progress.say("stopping: ending the running jobs")
        server.shut_down()
    progress.end()
    url, as_json = log_of(arguments), arguments.has("json")
    report(server.engine, url, clusters, progress.seconds(), as_json, interrupted=server.stopping)
    if server.stopping:
        return 130
    return 0 if not _count_unfinished(server, clusters, held=True) and not _failed(server, clusters) else 1


def _failed(server: PoolServer, clusters: Sequence[int]) -> bool:
    from ...domain.events import JobExited
    from ...replay.outcomes import ended

    events = (event for number in clusters for _, event in server.log.read_stream(f"cluster/{number}", server.opened))
    return any(ended(event).failed for event in events if isinstance(event, JobExited) and event.target == "Completed")


def _count_unfinished(server: PoolServer, clusters: Sequence[int], held: bool = False) -> int:
    """Return the number of jobs that may still run by themselves; held jobs count only with `held`."""
    state = server.engine.state
    living = sum(1 for a in state.activations.values() if a.cluster in clusters)
    here = [state.clusters[number] for number in clusters if number in state.clusters]
    waiting = sum(cluster.counts[1] + (cluster.counts[5] if held else 0) for cluster in here)
    return waiting + living


class JobProgress:
    """Shows progress while jobs run: a line rewritten on a terminal, or a new line for each tenth elsewhere."""

    def __init__(self, server: PoolServer, clusters: Sequence[int], quiet: bool) -> None:
        self._server, self._clusters, self._quiet = server, set(clusters), quiet
        self._terminal = is_live(sys.stderr)
        self._shown = 0.0
        self._begun = time.monotonic()
        self._last = ""
        self._done = 0
        self._judged: set[str] = set()
        """Rejected jobs already checked against all slots."""
        self._unmatchable: set[str] = set()
        """Messages already printed about jobs that no slot can run."""
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
        """Warn once of each job rejected by the last cycles that no slot can ever run."""
        from ...domain.names import JobId
        from ...replay.why.rejections import fits_none
        from .run_report import unmatchable_reason

        state = self._server.engine.state
        for name, reason in ((name, text) for some in state.rejections.values() for name, text in some.items()):
            cluster, proc = JobId.parse(name)
            if self._quiet or name in self._judged or cluster not in self._clusters or not fits_none(reason):
                continue
            self._judged.add(name)
            why = unmatchable_reason(self._server.engine, cluster, proc)
            if why and why not in self._unmatchable:
                self._unmatchable.add(why)
                wait = f" and {reason.jobs - 1:,} like it wait" if reason.jobs > 1 else " waits"
                self.say(f"{name}{wait}: {why}")

    def counts(self) -> tuple[int, int, int]:
        state = self._server.engine.state
        here = [state.clusters[n] for n in self._clusters if n in state.clusters]
        return (sum(c.counts[2] for c in here), sum(c.counts[1] for c in here), sum(c.counts[5] for c in here))

    def show(self, force: bool = False) -> None:
        every = 0.2 if self._terminal else 2.0
        if self._quiet or (not force and time.monotonic() - self._shown < every):
            return
        self._shown = time.monotonic()
        running, idle, held = self.counts()
        done = self._done
        bar = ""
        if self._terminal:
            filled = 24 * done // max(1, self._total)
            bar = f"[{'#' * filled}{'.' * (24 - filled)}] "
        text = f"{bar}{done} of {self._total} done, {running} running, {idle} idle" + (f", {held} held" if held else "")
        if text == self._last:
            return
        self._last = text
        line = f"{text}  ({self.seconds():.0f} s)"
        if self._terminal:
            rewrite(line, sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        line = folded(f"poolbook: {text}", width_of(sys.stderr))
        print(("\n" if self._terminal and self._last else "") + line, file=sys.stderr, flush=True)

    def stuck(self) -> bool:
        """Check whether waiting is useless: no job runs, no idle job fits a slot, and no startd policy can change its
        answer later."""
        engine = self._server.engine
        always = all(slot.ad.get("Start", "true").lower() == "true" for slot in engine.state.slots.values())
        return always and engine.nothing_fits()

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def end(self) -> None:
        self.show(force=True)
        if self._terminal and self._last and not self._quiet:
            print(file=sys.stderr)
