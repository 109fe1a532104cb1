"""Golden: deferred jobs of a real HTCondor 25.14 pool, submitted and handled in virtual time as they were there, leave
the same logs: trace 13, and ``recordings/schedules``. Events 001 come in the same second; the times of the others
depend on the real pool. Events 006, the usage and the tables are excluded."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from poolbook.domain.classad import ClassAd
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import Launch
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.submit import SubmitFacts, parse_submit
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behave, Behaviour, VirtualWorld

from ..job_commands import job_command
from .pool import Pool, events_of
from .test_real_log import Disk

DATA = Path(__file__).parents[1] / "data"
TRACE = DATA / "traces" / "13-deferral-crontab"
RECORDED = DATA / "recordings" / "schedules"
SLOT = {"OpSys": '"LINUX"', "FileSystemDomain": '"localhost"', "HasJobDeferral": "true", "Arch": '"X86_64"'}
GROUPS, MAP = (
    "/etc/condor/groups.map",
    "* alice group_physics\n* bob group_atlas\n* carol group_chemistry,group_physics\n",
)
Step = tuple[str, str, str]
"""The clock, the command, its jobs."""


Runs = Mapping[int, float | Behave]
"""Cluster -> for how many seconds its processes run, or how else they behave."""
Snapshots = dict[str, list[ClassAd]]
"""The ads of the queue, by the snapshot's name."""


def behaving(runs: Runs) -> Behave:
    def behave(launch: Launch) -> Behaviour:
        run = runs.get(launch.cluster, 0)
        return run(launch) if callable(run) else Behaviour(run)

    return behave


def play(
    date: str, steps: Sequence[Step], sources: Path, runs: Runs, interval: str, kept: Snapshots | None = None
) -> Pool:
    """Repeat what was done in the real pool. A submission is accepted, unless it is `refused`."""
    began = instant_of(f"{date} {steps[0][0]}")
    pool = Pool(VirtualWorld(behaving(runs), began * SECOND))
    for number, (clock, what, subject) in enumerate(steps):
        pool.until(instant_of(f"{date} {clock}") * SECOND)
        if what == "machine":
            version = f'"{facts(0, "").version}"'
            slots, _, memory = subject.partition(" ")
            size = {"Cpus": "1", "Memory": memory or "3013", "Disk": "9330075"}
            pool.machine("localhost", int(slots), **size, CondorVersion=version, **SLOT)
        elif what == "snapshot":
            if kept is not None:
                kept[subject] = list(pool.views().ads())
        elif what == "configure":
            pool.configure((sources.parent / "scenario.conf").read_text(encoding="utf-8") + subject, {GROUPS: MAP})
        elif what.startswith(("submit", "refused")):
            user, _, description = subject.partition("-")
            name, *append = description.split()
            now = instant_of(f"{date} {clock}")
            submit_file = sources / f"{user}-{name}.sub"
            text = (submit_file if submit_file.exists() else sources / f"{name}.sub").read_text(encoding="utf-8")
            submission = parse_submit(text, facts(now, user, interval, f"{name}.sub"), Disk(), append=append)
            cluster = int(what.partition(" ")[2])
            command = s.Submit(
                f"submit-{number}", user, cluster, submission.ad, submission.count, pack(submission.columns)
            )
            (answer,) = pool.ask(command)
            assert bool(answer.refusal) == what.startswith("refused"), (subject, answer.refusal)
        elif what != "end":
            user, *jobs_named = subject.split()
            jobs = [
                (int(cluster), int(proc)) for cluster, _, proc in (word.partition(".") for word in jobs_named) if proc
            ]
            selected = s.Selection(tuple(int(word) for word in jobs_named if "." not in word), tuple(jobs))
            verb, _, change = what.partition(" ")
            if verb == "edit":
                name, _, value = change.partition("=")
                (answer,) = pool.ask(s.Edit(f"edit-{number}", user, selected, {name: value}))
            else:
                (answer,) = pool.ask(job_command(f"act-{number}", user, what, selected))
    return pool


def instant_of(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def facts(now: int, user: str, interval: str = "5", file: str = "") -> SubmitFacts:
    return SubmitFacts(
        now=now, owner=user, uid_domain="localhost", filesystem_domain="localhost", iwd=f"/home/{user}",
        version="$CondorVersion: 25.14.1 2026-10-16 $", platform="$CondorPlatform: X86_64-Debian_ $",
        settings={"SCHEDD_INTERVAL": interval}, submit_file=file,
    )  # fmt: skip


def events_of_job(log: str, job: int, hours: int = 0) -> list[str]:
    """Return a log's events about a job: an event 001 with its time, the others with their text."""
    texts = []
    for event in events_of(log):
        number, cluster, stamp, remainder = re.match(
            r"(\d+) \((\d+)\.000\.000\) (\S+ \S+) (.*)", event, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        if int(cluster) != job or number == "006":
            continue
        if number == "001":
            at = datetime.fromisoformat(stamp).replace(tzinfo=timezone(timedelta(hours=hours)))
            texts.append(f"001 {at.astimezone(UTC):%H:%M:%S}")
            continue
        text = re.sub(r"\tPartitionable Resources.*", "", remainder, flags=re.DOTALL)
        text = re.sub(r"<[^>]*>|\t+Usr 0.*\n|\t\d+  -  .*\n|\.\.\.\n", "", text)
        texts.append(f"{number} {text.strip()}")
    return texts


# Trace 13

CRON = [
    ("22:43:33", "submit 1", "bob-cron"),
    ("22:43:34", "submit 2", "bob-cron2"),
    ("22:43:34", "submit 3", "alice-deferred"),
    ("22:43:34", "submit 4", "alice-qdate"),
    ("22:43:34", "submit 5", "alice-missed"),
    ("22:43:34", "submit 6", "alice-window"),
    ("22:43:34", "submit 7", "alice-window2"),
    ("22:43:35", "submit 10", "alice-badcron"),
    ("22:43:35", "submit 11", "alice-badcron2"),
    ("22:43:38", "machine", "8"),
    ("22:43:40", "snapshot", "q-1"),
    ("22:44:02", "submit 22", "alice-nosuch"),
    ("22:44:02", "submit 24", "alice-hold"),
    ("22:44:27", "snapshot", "q-2"),
    ("22:44:51", "release", "alice 11 22 24"),
    ("22:46:21", "snapshot", "q-3"),
    ("22:46:21", "remove", "alice 5 7 11 22"),
    ("22:46:21", "remove", "bob 1 2"),
    ("22:46:26", "end", "alice"),
]


def test_the_logs_of_the_trace_equal_the_real_ones() -> None:
    pool = play("2026-11-20", CRON, TRACE / "submit", {}, "5")
    alice = gzip.decompress((TRACE / "alice-job.log.gz").read_bytes()).decode()
    bob = (TRACE / "bob-job.log").read_text(encoding="utf-8")
    for user, log, jobs in (("alice", alice, (3, 4, 5, 6, 7, 10, 11)), ("bob", bob, (1, 2))):
        our_log = pool.files[f"/home/{user}/job.log"].replace(RELEASED, "Job was released.\n...")
        assert {job: events_of_job(our_log, job) for job in jobs} == {job: events_of_job(log, job) for job in jobs}


RELEASED = "Job was released.\n\tvia condor_release (by user alice)\n..."
"""When the real pool writes this for job 11, the next hold has already removed the reason from the ad."""


# The recording

WAITING = [
    ("03:04:22", "submit 74", "alice-susp"),
    ("03:04:23", "submit 75", "alice-hold"),
    ("03:04:23", "submit 76", "alice-rm"),
    ("03:04:23", "submit 78", "alice-missed"),
    ("03:04:23", "submit 80", "alice-local"),
    ("03:04:23", "submit 81", "alice-localmissed"),
    ("03:04:23", "submit 82", "alice-cronhold"),
    ("03:04:23", "submit 83", "alice-cronlocal"),
    ("03:04:23", "submit 84", "alice-cronmissed"),
    ("03:04:23", "submit 85", "alice-longcron"),
    ("03:04:23", "submit 86", "alice-edge"),
    ("03:04:23", "edit Requirements=true", "alice 78 81 84"),
    ("03:04:23", "release", "alice 78 81"),
    ("03:04:28", "machine", "12"),
    ("03:04:33", "suspend", "alice 74"),
    ("03:04:33", "hold", "alice 75 82"),
    ("03:04:33", "remove", "alice 76"),
    ("03:04:40", "release", "alice 75 82"),
    ("03:04:54", "continue", "alice 74"),
    ("03:05:25", "release", "alice 84"),
    ("03:06:30", "end", "alice"),
]
NAMES = {int(what.split()[1]): whom.removeprefix("alice-") for _, what, whom in WAITING if what.startswith("submit")}
RUNS = dict.fromkeys((74, 75, 76, 78, 80, 81, 86), 3.0) | {85: 70.0, 82: 1.0, 83: 1.0, 84: 1.0}


def test_deferred_jobs_leave_the_real_logs() -> None:
    pool = play("2026-11-23", WAITING, RECORDED / "submit", RUNS, "3")
    for job, name in NAMES.items():
        real_log = events_of_job((RECORDED / "logs" / f"{name}.log").read_text(encoding="utf-8"), job, hours=-5)
        if name == "missed":
            real_log = real_log[:4]  # it was released again
        assert (name, events_of_job(pool.files[f"/home/alice/{name}.log"], job)) == (name, real_log)
