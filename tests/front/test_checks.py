"""Golden: what each of doctor's checks reports for good and for bad facts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from poolbook.adapters.cli.doctor.findings import (
    CHECKS,
    OLDEST_PYTHON,
    DoctorFacts,
    Finding,
    Level,
    LogFacts,
    MachineFacts,
    Program,
    Settings,
    UnmatchedJobs,
    VolumeFacts,
    examine,
)
from poolbook.adapters.cli.doctor.gathering import cgroup_limits

from ..together import together

GOOD = DoctorFacts(
    Program((3, 11, 7), "/opt/venv/bin/poolbook", "/opt/venv/bin/poolbook"),
    MachineFacts(4, 8000, zone="CET"),
    Settings(),
    LogFacts("pool.db", exists=True, position=120, job_counts={1: 2, 2: 3}),
    {
        "log": VolumeFacts("/home/alice", "ext4", 50_000),
        "execute": VolumeFacts("/home/alice/pool.db.d", "ext4", 50_000),
    },
)


def vary(part: str, **changes: Any) -> DoctorFacts:
    """Return the good facts, with some changes in one part."""
    return evolve(GOOD, **{part: evolve(getattr(GOOD, part), **changes)})


def vary_folder(name: str, **changes: Any) -> DoctorFacts:
    """Return the good facts, with one folder changed."""
    return evolve(GOOD, volumes={**GOOD.volumes, name: evolve(GOOD.volumes[name], **changes)})


def findings_of(facts: DoctorFacts, check: str) -> list[Finding]:
    return [finding for finding in examine(facts) if finding.check == check]


def test_good_facts_have_no_problems() -> None:
    findings = examine(GOOD)
    assert {finding.level for finding in findings} == {Level.OK}
    assert set(CHECKS) - {finding.check for finding in findings} == {"environment", "START", "clock"}
    assert all(not finding.remedy for finding in findings)


@together(
    ("facts", "check", "level", "text", "remedy"),
    [
        (vary("program", python=(3, 10, 4)), "python", "problem", "3.10.4; Poolbook needs at least 3.11", "3.11"),
        (vary("program", command=""), "command", "warning", "PATH does not contain", 'PATH="/opt/venv/bin:$PATH"'),
        (vary("program", command="", own=""), "command", "warning", "PATH does not contain", "pip, uv or pipx"),
        (vary("program", command="/usr/bin/poolbook"), "command", "warning",
         "another poolbook, /usr/bin/", "remove one"),
        (vary("machine", granted_cores=1.5), "cores", "warning", "offers 4 cores, .* only 1.5$", "-cpus 1 "),
        (vary("settings", cores=5.0), "cores", "warning",
         "offers 5 cores, but this machine has 4$", "-verbose NUM_CPUS"),
        (vary("settings", memory=9e8), "memory", "warning", "offers 900000000 MiB .* has 8000 MiB", "-verbose MEMORY"),
        (vary("machine", granted_cores=0.5), "cores", "warning", "only 0.5$", "-cpus 1 "),
        (vary("machine", granted_memory=512), "memory", "warning", "8000 MiB of memory, .* 512 MiB", "-memory 512 "),
        (vary("machine", open_files=64), "open files", "warning", "open only 64 files", "ulimit -n 1024"),
        (vary("machine", has_subreaper=False), "processes", "problem", "jobs cannot run", "Linux 3.4"),
        (vary("machine", can_mark_jobs=False), "processes", "warning", "a daemon that a job starts", "ulimit -R"),
        (vary("machine", unknown_time_zone="Europe/Berlni"), "time zone", "warning",
         "TZ=Europe/Berlni is no", "TZ=Europe"),
        (vary("settings", files=("a.conf",), error="line 3: no"), "configuration", "problem",
         "valid: line 3", "fix it"),
        (vary("settings", warnings=("STRAT is no",)), "configuration", "warning", "STRAT is no", "config -verbose"),
        (vary("settings", environment=("_CONDOR_START",)), "environment", "warning", "uses them", "unset"),
        (
            vary("settings", files=("a.conf",), environment=("_CONDOR_START",)),
            *("environment", "warning", "_CONDOR_START: these override all files", "unset"),
        ),
        (vary("settings", constant_starts={"slot1": False}), "START", "problem",
         "never starts a job", "config -verbose START"),
        (vary("settings", constant_starts={"slot1": False, "slot2": None}), "START", "warning",
         "every job on slot1$", "config"),
        (vary_folder("log", writable=False), "folder", "problem", "/home/alice is not writable", "-log FILE"),
        (vary_folder("log", folder="/no/my d", exists=False), "folder", "problem",
         "no/my d does not exist", "-p '/no/my d'"),
        (vary_folder("log", kind="nfs4"), "folder", "warning", r"network file system \(nfs4\)", "a local disk"),
        (vary_folder("log", kind="tmpfs"), "folder", "warning", "lost when the machine stops", "a directory on a disk"),
        (vary_folder("log", free=99), "space", "problem", "99 MiB are free for the log", "free some space"),
        (vary_folder("log", free=1000), "space", "warning", "1000 MiB are free for the log", "free some space"),
        (vary_folder("execute", free=10), "scratch", "problem", "10 MiB are free for jobs", "request_disk"),
        (vary_folder("execute", executable=False), "scratch", "warning", "noexec", "another directory"),
        (vary("log", error="its file is damaged"), "log", "problem", "its file is damaged", "poolbook doc log"),
        (vary("log", has_head_witness=False), "log", "warning", "has no .head file", r"copy its \.head file"),
        (vary("log", ahead_us=90_000_000), "clock", "warning", "90 s later than this machine's clock", "set the clock"),
        (vary("log", holder="77"), "server", "warning", "process 77 writes the log", "wait until it ends"),
        (vary("log", open_claims=3, has_supervisor=True), "server", "warning",
         "jobs continue without a pool", "poolbook resume"),
        (vary("log", open_claims=3), "server", "warning", "3 started jobs are not managed", "poolbook resume"),
        (vary("log", job_counts={5: 2}, held_job=("4.0", "no disk")), "jobs", "warning",
         "hold; 4.0: no disk", "q -hold"),
        (vary("log", unmatched_jobs=(UnmatchedJobs("7.0", 3, 5),)), "jobs", "warning",
         "job 7.0, or 2 more", "-better-analyze 7.0"),
        (vary("log", unmatched_jobs=(UnmatchedJobs("7.0", 1, 5),)), "jobs", "warning",
         r"matches job 7.0 \(5 slots", "-better-analyze 7.0"),
    ],
)  # fmt: skip
def test_a_bad_fact_is_reported_with_its_remedy(
    facts: DoctorFacts, check: str, level: str, text: str, remedy: str
) -> None:
    (problem,) = [finding for finding in examine(facts) if finding.level is not Level.OK]
    assert (problem.check, problem.level) == (check, level)
    assert re.search(text, problem.words), problem.words
    assert re.search(re.escape(remedy) if "$" in remedy else remedy, problem.remedy), problem.remedy


@together(
    ("facts", "check", "text"),
    [
        (vary("machine", granted_cores=8.0, granted_memory=9000), "cores", "4 cores"),
        (vary("settings", files=("a.conf",), named_by="-config"), "configuration", r"from a.conf \(-config\)"),
        (vary("settings", reads_keyboard=True), "sensors", "terminals and of 0 keyboards"),
        (vary("log", exists=False, empty=True), "log", "pool.db is empty: `poolbook run` and"),
        (vary("log", job_counts={2: 1, 1: 1}), "jobs", "^1 job runs, 1 waits$"),
        (vary("log", exists=False), "log", "no log at pool.db yet"),
        (vary("log", imported=True), "log", "120 events, imported records"),
        (vary("log", holder="77", accepts_requests=True, open_claims=4), "server", "process 77 serves the log"),
    ],
)
def test_a_good_fact_is_described(facts: DoctorFacts, check: str, text: str) -> None:
    (finding,) = findings_of(facts, check)
    assert finding.level is Level.OK
    assert re.search(text, finding.words)


def test_sensors_matter_only_to_policies_that_use_the_keyboard() -> None:
    facts = evolve(
        vary("settings", reads_keyboard=True), machine=evolve(GOOD.machine, knows_logins=False, input_devices=(3, 1))
    )
    no_sensor, no_user = findings_of(facts, "sensors")
    assert "2 of 3 keyboards and mice" in no_sensor.words and "group input" in no_sensor.remedy
    assert "every terminal counts" in no_user.words and "STARTD_HAS_BAD_UTMP" in no_user.remedy
    assert findings_of(evolve(facts, settings=Settings()), "sensors")[0].level is Level.OK


GROUPS: list[tuple[str, dict[str, str], tuple[float | None, int | None]]] = [
    ("", {}, (None, None)),
    ("0::/user/job\n", {"cpu.max": "max 100000", "user/job/memory.max": "max"}, (None, None)),
    ("0::/user/job\n", {"user/cpu.max": "150000 100000", "user/job/memory.max": "1073741824"}, (1.5, 1024)),
    ("0::/user/job\n", {"user/job/memory.max": "4194304", "memory.max": "2097152"}, (None, 2)),
    ("0::/elsewhere\n", {"cpu.max": "50000 100000"}, (0.5, None)),
    (
        "5:memory:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/box\n",
        {"memory/box/memory.limit_in_bytes": "3145728", "cpu/cpu.cfs_quota_us": "20", "cpu/cpu.cfs_period_us": "10"},
        (2.0, 3),
    ),
    ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, (None, None)),
]


@pytest.mark.parametrize(("own", "files", "expected"), GROUPS)
def test_the_limit_of_control_groups_is_the_lowest_of_the_enclosing_groups(
    tmp_path: Path, own: str, files: dict[str, str], expected: tuple[float | None, int | None]
) -> None:
    for name, text in {**({"proc/self/cgroup": own} if own else {}), **_below("sys/fs/cgroup", files)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cgroup_limits(tmp_path) == expected


def _below(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": f"{text}\n" for name, text in files.items()}


def test_the_required_python_is_the_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, OLDEST_PYTHON))}"


def test_the_page_names_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    section = page.partition("\n## Check a machine: `poolbook doctor`\n")[2].partition("\n## ")[0]
    rows = [
        line.split("|")[1] for line in section.splitlines() if line.startswith("| ") and not line.startswith("| check ")
    ]
    assert [name.strip() for row in rows for name in row.split(",")] == list(CHECKS)
