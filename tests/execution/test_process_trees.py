"""Golden: how jobs end, and that all processes that a job ever forked end, stop and continue with it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Usage
from poolbook.adapters.machine.execution.supervisor import processes
from poolbook.adapters.machine.execution.supervisor.process_trees import ProcessTrees
from poolbook.domain.ports.world import How

from ..children import child
from .bench import Bench, runs, state, wait


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("exit 255", 255, None),
        ("kill -TERM $$", None, signal.SIGTERM),
        ("kill -KILL $$", None, signal.SIGKILL),
        ("echo x > /dev/full", 1, None),
        ("ulimit -f 1; head -c 1000000 /dev/zero > big", 128 + signal.SIGXFSZ, None),
    ],
)
def test_an_end_is_an_exit_code_or_a_signal(bench: Bench, script: str, code: int | None, number: int | None) -> None:
    bench.sh("1", script)
    end = bench.end("1")
    assert (end.code, end.signal, end.core, end.violated) == (code, number, False, "")


def test_writes_to_a_full_output_fail_in_the_job(bench: Bench) -> None:
    bench.sh("1", "echo x; echo status $? >&2", stdout="/dev/full", stderr="err")
    bench.end("1")
    assert "status 1\n" in (bench.home / "err").read_text()


# A process that sleeps and has left its pid in the file "left"; and the ways to leave it behind.
SLEEPER = "sh -c 'echo $$ > left; exec sleep 1000'"
UNTIL_LEFT = "\nwhile ! [ -s left ]; do sleep 0.005; done"
WAYS = {
    "in the background": f"{SLEEPER} &",
    "in the background of a shell that ends": f"({SLEEPER} &)",
    "in a separate session": f"setsid {SLEEPER} &",
    "as a daemon, by a double fork with setsid": f"(setsid {SLEEPER} &)",
    "as a daemon with an empty environment": f"(env -i setsid {SLEEPER} &)",
    "as the child of a daemon": f'(setsid sh -c "{SLEEPER} & sleep 1000" &)',
    "as a process that ignores all it can": f"(trap '' TERM INT HUP; setsid {SLEEPER} &)",
    "stopped": f"{SLEEPER} &{UNTIL_LEFT}; kill -STOP $!",
}


@pytest.mark.parametrize("way", WAYS)
def test_processes_that_a_job_leaves_behind_die_before_its_end_is_reported(bench: Bench, way: str) -> None:
    bench.sh("1", WAYS[way] + UNTIL_LEFT + "; exit 4", run_in_iwd=True)
    end = bench.end("1")
    assert not runs(int(bench.file("left")))
    assert end.code == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_hard_kill_reaches_them_too(bench: Bench, way: str) -> None:
    bench.sh("1", WAYS[way] + UNTIL_LEFT + "; echo ready > ready; sleep 1000", run_in_iwd=True)
    bench.file("ready")
    bench.supervisor.signal("1", "hard")
    assert bench.end("1").signal == signal.SIGKILL
    assert not runs(int(bench.file("left")))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "stopped"])
def test_suspending_stops_them_too_and_continuing_resumes_them(bench: Bench, way: str) -> None:
    bench.sh("1", WAYS[way] + UNTIL_LEFT + "; echo $$ > main; exec sleep 1000", run_in_iwd=True)
    pids = [int(bench.file("main")), int(bench.file("left"))]
    bench.supervisor.signal("1", "suspend")
    wait(lambda: [state(pid) for pid in pids] == ["T", "T"])
    bench.supervisor.signal("1", "continue")
    wait(lambda: [state(pid) for pid in pids] == ["S", "S"])


def test_a_daemon_that_may_belong_to_either_of_two_jobs_dies_with_the_last_of_them(bench: Bench) -> None:
    bench.sh("other", "while ! [ -e stop ]; do sleep 0.01; done", run_in_iwd=True)
    hidden = f"(env -i prlimit --rttime=unlimited setsid {SLEEPER} &)"
    bench.sh("1", hidden + UNTIL_LEFT, run_in_iwd=True)
    assert bench.end("1").code == 0
    daemon = int(bench.file("left"))
    assert runs(daemon)
    (bench.home / "stop").touch()
    assert bench.end("other").code == 0
    assert not runs(daemon)


def test_the_end_of_one_job_leaves_another_jobs_daemon_alone(bench: Bench) -> None:
    daemon = WAYS["as a daemon with an empty environment"]
    bench.sh("other", daemon + UNTIL_LEFT + "; while ! [ -e stop ]; do sleep 0.01; done", run_in_iwd=True)
    remaining = int(bench.file("left"))
    bench.start("1", "/bin/true")
    assert bench.end("1").code == 0
    assert runs(remaining)
    bench.supervisor.signal("other", "hard")
    assert bench.end("other").signal == signal.SIGKILL
    assert not runs(remaining)


OWN = {"soft": int(signal.SIGUSR1), "hold": int(signal.SIGUSR2), "remove": int(signal.SIGINT)}


@pytest.mark.parametrize(
    ("how", "fields", "script", "code", "number"),
    [
        ("soft", {}, "echo > ready; exec sleep 1000", None, signal.SIGTERM),
        ("soft", {"kill_signals": OWN}, "echo > ready; exec sleep 1000", None, signal.SIGUSR1),
        ("hold", {"kill_signals": OWN}, "echo > ready; exec sleep 1000", None, signal.SIGUSR2),
        ("remove", {"kill_signals": OWN}, "echo > ready; exec sleep 1000", None, signal.SIGINT),
        ("hold", {}, "trap 'exit 7' TERM; echo > ready; sleep 1000 & wait", 7, None),
    ],
)
def test_a_soft_kill_is_the_jobs_own_signal_for_hold_removal_or_vacate(
    bench: Bench, how: How, fields: dict[str, Any], script: str, code: int | None, number: int | None
) -> None:
    bench.sh("1", script, run_in_iwd=True, **fields)
    bench.file("ready")
    bench.supervisor.signal("1", how)
    end = bench.end("1")
    assert (end.code, end.signal) == (code, number)


def test_a_soft_kill_reaches_only_the_jobs_own_process(bench: Bench) -> None:
    child = "sh -c 'trap \"echo term > signals\" TERM; echo > ready; while :; do sleep 0.01; done'"
    bench.sh("1", f"trap 'sleep 0.1; exit 7' TERM; {child} & wait", run_in_iwd=True)
    bench.file("ready")
    bench.supervisor.signal("1", "soft")
    assert bench.end("1").code == 7
    assert not (bench.home / "signals").exists()


def test_a_suspended_job_is_continued_to_receive_its_soft_kill(bench: Bench) -> None:
    bench.sh("1", "echo $$ > ready; exec sleep 1000", run_in_iwd=True)
    pid = int(bench.file("ready"))
    bench.supervisor.signal("1", "suspend")
    wait(lambda: state(pid) == "T")
    bench.supervisor.signal("1", "soft")
    assert bench.end("1").signal == signal.SIGTERM


def test_a_job_gets_one_soft_kill_however_often_the_pool_requests_it(bench: Bench) -> None:
    # In brackets: a shell that waits in vfork for a child that was stopped before its exec never becomes T itself.
    script = "trap 'echo >> signals' TERM; trap 'exit 7' USR1; echo $$ > ready; while :; do (sleep 0.01); done"
    bench.sh("1", script, run_in_iwd=True)
    pid = int(bench.file("ready"))
    bench.supervisor.signal("1", "soft")
    bench.file("signals")
    bench.supervisor.signal("1", "soft")
    bench.supervisor.signal(
        "1", "suspend"
    )  # everything that was sent before is done then, so the soft kill was received
    wait(lambda: state(pid) == "T")
    bench.supervisor.signal("1", "soft")
    os.kill(pid, signal.SIGUSR1)
    assert bench.end("1").code == 7
    assert (bench.home / "signals").read_text() == "\n"


def test_a_job_that_ignores_the_soft_kill_is_killed_by_the_hard_one(bench: Bench) -> None:
    bench.sh("1", "trap 'echo > signals' TERM; echo > ready; while :; do sleep 0.01; done", run_in_iwd=True)
    bench.file("ready")
    bench.supervisor.signal("1", "soft")
    bench.file("signals")
    assert not bench.of("1", Exited)
    bench.supervisor.signal("1", "hard")
    assert bench.end("1").signal == signal.SIGKILL


@pytest.mark.parametrize("number", [999, -1, 35])
def test_an_unnamed_or_unknown_kill_signal_affects_no_other_job(bench: Bench, number: int) -> None:
    bench.start("1", "/bin/sleep", "1000", kill_signals={"soft": number})
    bench.supervisor.signal("1", "soft")
    bench.supervisor.signal("1", "hard")
    assert bench.end("1").signal in (signal.SIGKILL, number)


@pytest.mark.parametrize("how", ["soft", "hard", "suspend", "continue"])
def test_signals_to_a_job_that_has_ended_do_nothing(bench: Bench, how: str) -> None:
    bench.start("1", "/bin/true")
    bench.end("1")
    bench.supervisor.signal("1", how)  # type: ignore[arg-type]
    bench.supervisor.signal("never", how)  # type: ignore[arg-type]
    bench.start("2", "/bin/true")
    assert bench.end("2").code == 0


def test_an_unknown_signal_is_rejected(bench: Bench) -> None:
    with pytest.raises(
        ValueError, match="unknown signal 'gently': use one of soft, hold, remove, hard, suspend, continue"
    ):
        bench.supervisor.signal("1", "gently")  # type: ignore[arg-type]


# About 0.3 s of work, to distinguish such a process from one that did nothing.
WORK = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


@pytest.mark.parametrize(
    "script",
    [WORK, f"sh -c '{WORK}'", f"(setsid sh -c '{WORK}; echo > done' &); while ! [ -e done ]; do sleep 0.01; done"],
    ids=["its own", "a child's", "a daemon's"],
)
def test_cpu_time_includes_all_processes(bench: Bench, script: str) -> None:
    bench.sh("1", script, run_in_iwd=True)
    bench.start("idle", "/bin/sleep", "0.1")
    assert bench.end("1").user_us > 30_000 + bench.end("idle").user_us


def test_peak_memory_is_the_largest_ever_used(bench: Bench) -> None:
    bench.sh("1", "head -c 100000000 /dev/zero | tail -n 1 | wc -c > size", run_in_iwd=True)
    end = bench.end("1")
    assert isinstance(end, Exited)
    assert 100_000_000 // 1024 < end.peak_kb < 200_000_000 // 1024


def test_usage_is_reported_while_the_job_runs(bench: Bench) -> None:
    bench.sh("1", f"{WORK}; head -c 3000000 /dev/zero > file; sleep 1000")
    usage = bench.until(lambda: [use for use in bench.of("1", Usage) if use.disk_kb > 2900])[0]
    assert usage.user_us > 30_000
    assert 0 < usage.rss_kb < usage.image_kb


def test_disk_usage_is_that_of_the_scratch_directory_at_the_end(bench: Bench) -> None:
    bench.sh("1", "mkdir -p a/b; head -c 1000000 /dev/zero > a/b/file; ln -s /etc link")
    assert 976 <= bench.end("1").disk_kb < 1100


@pytest.mark.parametrize("lists_children", [True, False])
def test_all_processes_are_searched_only_for_an_unknown_child(
    monkeypatch: pytest.MonkeyPatch, lists_children: bool
) -> None:
    searches: list[int] = []

    def search() -> set[int]:
        searches.append(1)
        return {os.getpid()}

    trees = ProcessTrees(os.getpid())
    with child(lambda _: signal.pause()) as one:
        present = processes.children(os.getpid())
        assert present is not None and one.pid in present
        for pid in present:
            trees.leave_alone(pid, 0)
        monkeypatch.setattr(processes, "all_pids", search)
        if not lists_children:  # a kernel without /proc/pid/task/tid/children
            monkeypatch.setattr(processes, "children", lambda pid: None)
        trees.refresh_orphans()
        assert len(searches) == (0 if lists_children else 1)
        trees.forget(one.pid)
        trees.refresh_orphans()
        assert len(searches) == (1 if lists_children else 2)
