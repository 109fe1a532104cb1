"""Golden and property: what is read of starters' and shadows' logs, and that a changed exit status there is found."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.daemon_log import MasterLogReader
from poolbook.adapters.condor_files.job_daemon_logs import ShadowLogReader, StarterLogReader
from poolbook.domain import events as e
from poolbook.replay.forensics.audit.examine import examine
from poolbook.replay.why.answer import why

from .feeding import DATA, content, read, read_in_pieces
from .folders import imported, recorded, write

RUN = DATA / "runs" / "starters-and-shadows"
READERS = {"ShadowLog": ShadowLogReader, "StarterLog.slot2": StarterLogReader, "MasterLog": MasterLogReader}


def said(reader: type[ShadowLogReader | StarterLogReader], *lines: str) -> list[tuple[str, str, dict[str, str]]]:
    text = "".join(f"11/22/26 22:09:52 {line}\n" for line in lines)
    events, left = read(reader, "log", text.encode())
    assert left == 0
    return [(f"{it.cluster}.{it.proc}", it.said, it.facts) for it in events if isinstance(it, e.JobReported)]


BEGUN = ("Starting a VANILLA universe job with ID: 1.1", "About to exec /bin/sh x", "Create_Process succeeded, pid=7")
# What a starter writes behind the beginning of a process -> what is said of its end.
EXITS: dict[tuple[str, ...], list[dict[str, str]]] = {
    ("Process exited, pid=7, status=3",): [{"pid": "7", "code": "3"}],
    ("Process exited, pid=7, signal=11",): [{"pid": "7", "signal": "11"}],
    ("Got vacate code=1009 subcode=0 reason=Claim deactivated", "Process exited, pid=7, signal=15"): [
        {"pid": "7", "signal": "15", "told": "true"}
    ],
    ("ShutdownFast all jobs.", "Process exited, pid=7, status=0"): [{"pid": "7", "code": "0", "told": "true"}],
    ("Process exited, pid=8, status=1",): [],  # of a PostCmd
    ("** condor_starter (CONDOR_STARTER) STARTING UP", "Process exited, pid=7, status=3"): [],
}


@pytest.mark.parametrize("lines", EXITS)
def test_a_starter_tells_how_the_process_of_its_job_exited(lines: tuple[str, ...]) -> None:
    begun, *ended = said(StarterLogReader, *BEGUN, *lines)
    assert begun == ("1.1", "process_began", {"pid": "7"})
    assert ended == [("1.1", "process_ended", facts) for facts in EXITS[lines]]


def test_of_a_containers_command_and_of_a_parallel_jobs_nodes_a_starter_tells_nothing() -> None:
    exited = "Process exited, pid=7, status=3"
    assert said(StarterLogReader, BEGUN[0], "About to exec docker:run x", BEGUN[2], exited) == []
    assert said(StarterLogReader, BEGUN[0].replace("VANILLA", "PARALLEL"), *BEGUN[1:], exited) == []


# A line of a ShadowLog -> what is said of the job.
ENDS: dict[str, tuple[str, dict[str, str]]] = {
    "Job 1.1 terminated: exited with status 3": ("terminated", {"code": "3"}),
    "Job 1.1 terminated: killed by signal 11": ("terminated", {"signal": "11"}),
    "Job 1.1 is being evicted from slot1@h": ("evicting", {"slot": "slot1@h"}),
    "Job 1.1 going into Hold state (code 3,0): why": ("holding", {"code": "3", "subcode": "0", "reason": "why"}),
    "Job 1.1 is being put back in the job queue: why": ("requeuing", {"reason": "why"}),
    "Job 1.1 is being removed: why": ("removing", {"reason": "why"}),
}


@pytest.mark.parametrize("line", ENDS)
def test_a_shadow_tells_how_its_job_ended_and_why_it_left(line: str) -> None:
    what, facts = ENDS[line]
    assert said(ShadowLogReader, f"(1.1) (20007): {line}") == [("1.1", what, {"shadow": "20007"} | facts)]
    assert said(ShadowLogReader, line) == []  # no shadow says so of itself


@given(name=st.sampled_from(sorted(READERS)), cuts=st.lists(st.integers(0, 1 << 20), max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_log_in_pieces_is_the_log(name: str, cuts: list[int]) -> None:
    folder = RUN if name != "MasterLog" else DATA / "runs" / "killed-daemons"
    data = content(folder / f"{name}.gz")
    assert read_in_pieces(READERS[name], name.lower(), data, cuts) == read(READERS[name], name.lower(), data)


def test_of_a_real_pool_each_run_has_its_process_and_each_end_of_a_job_its_shadows_word() -> None:
    log, _ = recorded(RUN)
    told = Counter(event.said for _, event in log.read() if isinstance(event, e.JobReported))
    entries = Counter(entry[4] for _, event in log.read() if isinstance(event, e.JobsLogged) for entry in event.entries)
    assert told["process_began"] == told["process_ended"] == entries[1] // 2 - 1  # one could not be executed
    assert told["terminated"] == entries[5] // 2  # in a user's log and in the EventLog
    assert told["holding"] + told["requeuing"] == 3


def test_an_honest_pools_starters_and_shadows_are_not_accused() -> None:
    found = examine(recorded(RUN)[0])
    assert found.sound
    assert found.contradictions == []


# A log, and what is changed in its only line that fits -> the job, and what both sides say.
LIES = {
    ("StarterLog.slot2", r"(pid=20013, )status=3", r"\1status=0"): ("1.1", "code 3", "code 0"),
    ("StarterLog.slot2", r"(pid=20028, )signal=11", r"\1status=0"): ("2.0", "signal 11", "code 0"),
    ("ShadowLog", r"(Job 1\.1 terminated: exited with) status 3", r"\1 status 0"): ("1.1", "code 3", "code 0"),
    ("ShadowLog", r"Job 2\.0 terminated: killed by signal 11", "Job 2.0 terminated: exited with status 0"): (
        "2.0", "signal 11", "code 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("beside", ["alice-job.log", "history"])
def test_an_exit_status_that_was_changed_is_found(lie: tuple[str, str, str], beside: str, tmp_path: Path) -> None:
    """By the user's log, and by the history alone."""
    name, what, instead = lie
    job, honest, false = LIES[lie]
    for kept in (name, beside):
        text = gzip.decompress((RUN / f"{kept}.gz").read_bytes()).decode()
        changed, count = re.subn(what, instead, text) if kept == name else (text, 1)
        assert count == 1
        write(tmp_path / kept, changed)
    found = examine(imported(tmp_path)[0]).contradictions
    assert [(one.thing, one.fact, {stated.value for stated in one.stated}) for one in found] == [
        (job, "exit", {honest, false})
    ]


def test_why_cites_the_starter_and_the_shadow_and_says_where_they_disagree(tmp_path: Path) -> None:
    log, _ = recorded(RUN)
    (ended,) = [sentence for sentence in why(log, "1.1").life if sentence.code == "exited"]
    assert ended.places == ("alice-job.log.gz:73", "StarterLog.slot2.gz:45", "ShadowLog.gz:88")
    for name in ("alice-job.log", "StarterLog.slot2"):
        text = gzip.decompress((RUN / f"{name}.gz").read_bytes()).decode()
        write(tmp_path / name, text.replace("pid=20013, status=3", "pid=20013, status=0"))
    assert why(imported(tmp_path)[0], "1.1").texts[1].endswith("; but StarterLog.slot2:45 says code 0.")


def test_a_job_without_a_log_is_told_from_its_shadow_and_its_starter(tmp_path: Path) -> None:
    for name in ("ShadowLog", "StarterLog.slot2", "StartLog"):
        write(tmp_path / name, gzip.decompress((RUN / f"{name}.gz").read_bytes()))
    found = why(imported(tmp_path)[0], "1.1")
    assert found.texts[:2] == [
        "Job 1.1 completed at 2026-11-22 22:09:55, with code 3.",
        "Its shadow logged that it ended after 3 s on slot2@localhost, with code 3.",
    ]
    assert [sentence.code for sentence in found.life] == ["started_there", "starter_saw_end", "shadow_saw_end"]
