"""For all tests: neither an example of a property nor its drawing has a time limit, since the machines that run them
are shared; and a property that does not set its number of examples gets 20, so that the suite stays fast. `make soak`
draws more.

Garbage is collected less often than by default: a worker has so many modules, parsed sources and recorded pools in
memory that repeated collections took a tenth of its time.

The slowest files have the mark `long`. They come first (`make test-all` distributes whole files, in the order in which
they are collected), so that no worker still has one of them when the others have ended. Files that read the same
imports are distributed as one.
"""

from __future__ import annotations

import gc
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadFileScheduling

from . import forked
from .sampling import soak_cases, spread

settings.register_profile("poolbook", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("poolbook")

gc.set_threshold(50_000, 20, 100)

LONGEST = (
    "web/test_page_places.py", "web/test_security.py", "web/test_page_use.py", "metrics/test_pool_history.py",
    "network/test_faults.py", "master/test_master_process.py", "audit/test_honest_recordings.py",
    "pool/test_clients.py", "stores/test_log_id.py", "metrics/test_view_server.py", "network/test_two_managers.py",
    "network/test_flocking.py", "pool/test_owner_policy.py", "web/test_events.py", "https/test_role_commands.py",
    "front/test_first_hour.py", "coverage/test_tried.py",
    "daemon_logs/test_writer.py", "audit/test_falsifications.py", "test_docs.py", "kit/test_faults.py",
    "projections/test_past_views.py", "web/test_page_pictures.py", "negotiation/test_golden_cycles.py",
    "accounts/test_account.py", "pool/test_commands.py", "pool/test_backfill.py", "accounts/test_timeline.py",
    "daemon_logs/test_read_back.py", "pool/test_executor.py", "stores/test_failover.py",
    "https/test_flocking_roles.py", "adstash/test_stash.py", "peers/test_one_log_or_three.py",
    "https/test_remote_commands.py", "pool/test_crashes.py", "counters/test_counters.py", "containers/test_runs.py",
    "play/test_transcripts.py", "pool/test_strangers.py", "pool/test_any_moment.py", "pool/test_history_file.py",
    "pool/test_starter.py", "policy/test_golden_traces.py", "stores/test_seal.py", "https/test_several_managers.py",
    "stores/test_contract.py", "pool/test_transfers.py", "pool/test_threads.py", "metrics/test_publishing.py",
    "files/test_relay.py", "fabric/test_second_path.py", "replay/test_row_sentences.py", "network/test_members.py",
    "replay/test_legality_of_edited_logs.py", "simulation/test_stories.py", "classad/test_explosions.py",
    "golden/test_answers.py", "projections/test_views_in_files.py", "replay/test_segments.py",
    "daemon_logs/test_recorded_lines.py", "replay/test_why_imported.py", "golden/test_decided.py",
    "classad/test_table_operators.py", "files/test_interrupted_transfers.py", "domain/test_invariants.py",
    "pool/test_submissions.py", "beside/test_stories.py", "execution/test_transfers.py",
    "negotiation/test_length_of_queue.py", "top/test_app.py", "front/test_package.py", "domain/test_agendas.py",
    "stores/test_processes.py", "pool/test_job_output.py", "runs/test_accounts_agree.py",
    "peers/test_roles_apart.py", "replay/test_cycles_taken_again.py", "audit/test_slots.py",
    "slots/test_drain_estimates.py", "stores/test_readers.py", "pool/test_library.py", "test_layout.py",
    "pool/test_checkpoint_destination.py", "pool/test_deferral.py", "kit/test_strategies.py",
    "replay/test_why_cites.py", "defrag/test_poll.py", "negotiation/test_cycle_by_oracle.py",
    "pool/test_timers.py", "domain/test_allowance.py", "classad/test_corpus.py", "execution/test_cron.py",
    "execution/test_refusing_disk.py", "tools/test_hostile_output.py", "files/test_remote_jobs.py",
    "classad/test_syntax.py", "domain/test_role_folds.py", "defrag/test_limits_and_progress.py",
    "pool/test_tools_of_running_jobs.py", "https/test_rejections.py", "pool/test_checkpoints.py",
    "classad/test_allowance.py", "execution/test_power_cuts.py", "audit/test_contradictions.py",
    "schedd/test_run_now.py", "execution/test_limits.py", "negotiation/test_forged_cycles.py",
    "importing/test_userlog.py", "web/test_openapi.py", "domain/test_joblog.py", "stores/test_library.py",
    "network/test_machines.py", "kit/test_plugin.py", "userlog/test_writer.py", "web/test_views.py",
    "submit/test_language.py", "classad/test_table_scopes.py", "files/test_refused_requests.py",
    "replay/test_legality_of_edited_points.py",
)  # fmt: skip
"""The slowest test files, the slowest first (``pytest --durations=0``). `make test` leaves them out: they take most of
the time of `make test-all`."""

OF_IMPORTS = (
    "audit/test_honest_recordings.py", "replay/test_row_sentences.py", "replay/test_why_cites.py",
    "replay/test_why_imported.py", "runs/test_accounts_agree.py", "runs/test_imported.py",
    "replay/test_why_answers.py", "replay/test_why_deaths.py", "replay/test_why_cluster.py",
    "accounts/test_intervals.py", "accounts/test_account.py",
)  # fmt: skip
"""Files whose tests read imports of the same recordings: one worker runs them, and imports each recording once."""

OF_GROUPS = ("coverage/test_tried.py",)
"""Files whose tests share nothing and take seconds each: any worker runs any of them."""


HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have each worker start its collection at another directory. The first worker to reach a file compiles it for all;
    workers in step would each compile every file of a fresh clone.

    Give the tests a separate directory: each session of pytest that starts closes the usual one to other users,
    also while tests of another session work there with the rights of several users.

    With a seed, draw the same examples each time: not from the constants of those modules that happen to be loaded."""
    if config.getoption("hypothesis_seed") is not None:
        assert "is_local_module_file" in vars(providers)
        vars(providers)["is_local_module_file"] = lambda path: False
    worker = getattr(config, "workerinput", None)
    if worker is None and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="poolbook-tests-")
        config.add_cleanup(partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))
    if worker is not None and [Path(arg).resolve() for arg in config.args] == [HERE]:
        parts = sorted(str(path) for path in HERE.iterdir() if path.is_dir() or path.match("test_*.py"))
        begin = len(parts) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args[:] = parts[begin:] + parts[:begin]


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker all tests of a file, or of the files that share their imports; or one test."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.removeprefix("tests/") in OF_GROUPS:
            return nodeid
        return OF_IMPORTS[0] if file.removeprefix("tests/") in OF_IMPORTS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def left_out_of_a_short_soak(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases that a short soak does not run: of a test with many, it runs an even sample."""
    by_test: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("soak") is not None:
            by_test.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    return {item for cases in by_test.values() for item in {*cases} - {*spread(cases, soak_cases(len(cases)))}}


@pytest.hookimpl(tryfirst=True)  # pytest deselects by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if left_out := left_out_of_a_short_soak(items):
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])
    turns = {HERE / name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (turns.get(item.path, len(turns)), item.path))
    for item in items:
        if item.path in turns:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """When a test exceeds its time limit, kill the processes that it has started, and repeat that and the failure,
    since its cleanup may wait again (`multiprocessing` does, for a child that ignores SIGTERM)."""
    timer = yield
    fail = signal.getsignal(signal.SIGALRM)

    def end(number: int, frame: FrameType | None) -> None:
        for process in psutil.Process().children(recursive=True):
            if process.pid not in forked.SERVERS:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        assert callable(fail)
        fail(number, frame)

    if settings.method == "signal":
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, max(1.0, settings.timeout / 20))
    return timer


@pytest.fixture
def told_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the benchmarks of pools in this process, which would use a core for a second; tests/slots runs them."""
    from poolbook.adapters.machine import cron

    for name, result in (("mips", "Mips = 3000"), ("kflops", "KFlops = 20000")):
        command = "/bin/sh", "-c", f"sleep 0.55; echo '{result}'"
        monkeypatch.setitem(cron.OWN_PROGRAMS, f"condor_{name}", command)
