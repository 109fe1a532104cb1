"""Golden and property: reports from starters' and shadows' logs, and the detection of a changed exit status in them."""

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


def reports_of(reader: type[ShadowLogReader | StarterLogReader], *lines: str) -> list[tuple[str, str, dict[str, str]]]:
    text = "".join(f"11/22/26 22:09:52 {line}\n" for line in lines)
    events, bytes_left = read(reader, "log", text.encode())
    assert bytes_left == 0
    return [
        (f"{event.cluster}.{event.proc}", event.said, event.facts)
        for event in events
        if isinstance(event, e.JobReported)
    ]


BEGUN = ("Starting a VANILLA universe job with ID: 1.1", "About to exec /bin/sh x", "Create_Process succeeded, pid=7")
# A starter's lines after the beginning of a process -> the report of its end.
EXITS: dict[tuple[str, ...], list[dict[str, str]]] = {
    ("Process exited, pid=7, status=3",): [{"pid": "7", "code": "3"}],
    ("Process exited, pid=7, signal=11",): [{"pid": "7", "signal": "11"}],
    ("Got vacate code=1009 subcode=0 reason=Claim deactivated", "Process exited, pid=7, signal=15"): [
        {"pid": "7", "signal": "15", "told": "true"}
    ],
    ("ShutdownFast all jobs.", "Process exited, pid=7, status=0"): [{"pid": "7", "code": "0", "told": "true"}],
    ("Process exited, pid=8, status=1",): [],  # about a PostCmd
    ("** condor_starter (CONDOR_STARTER) STARTING UP", "Process exited, pid=7, status=3"): [],
}


@pytest.mark.parametrize("lines", EXITS)
def test_a_starter_reports_how_its_jobs_process_exited(lines: tuple[str, ...]) -> None:
    start_report, *end_reports = reports_of(StarterLogReader, *BEGUN, *lines)
    assert start_report == ("1.1", "process_began", {"pid": "7"})
    assert end_reports == [("1.1", "process_ended", facts) for facts in EXITS[lines]]


def test_a_starter_reports_no_exit_of_container_commands_and_parallel_nodes() -> None:
    exit_line = "Process exited, pid=7, status=3"
    assert reports_of(StarterLogReader, BEGUN[0], "About to exec docker:run x", BEGUN[2], exit_line) == []
    assert reports_of(StarterLogReader, BEGUN[0].replace("VANILLA", "PARALLEL"), *BEGUN[1:], exit_line) == []


# A line of a ShadowLog -> the report about the job.
ENDS: dict[str, tuple[str, dict[str, str]]] = {
    "Job 1.1 terminated: exited with status 3": ("terminated", {"code": "3"}),
    "Job 1.1 terminated: killed by signal 11": ("terminated", {"signal": "11"}),
    "Job 1.1 is being evicted from slot1@h": ("evicting", {"slot": "slot1@h"}),
    "Job 1.1 going into Hold state (code 3,0): why": ("holding", {"code": "3", "subcode": "0", "reason": "why"}),
    "Job 1.1 is being put back in the job queue: why": ("requeuing", {"reason": "why"}),
    "Job 1.1 is being removed: why": ("removing", {"reason": "why"}),
}


@pytest.mark.parametrize("line", ENDS)
def test_a_shadow_reports_how_its_job_ended_and_why_it_left(line: str) -> None:
    report, facts = ENDS[line]
    assert reports_of(ShadowLogReader, f"(1.1) (20007): {line}") == [("1.1", report, {"shadow": "20007"} | facts)]
    assert reports_of(ShadowLogReader, line) == []  # no shadow writes this about itself


@given(name=st.sampled_from(sorted(READERS)), cuts=st.lists(st.integers(0, 1 << 20), max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_log_read_in_pieces_gives_the_same_events(name: str, cuts: list[int]) -> None:
    folder = RUN if name != "MasterLog" else DATA / "runs" / "killed-daemons"
    data = content(folder / f"{name}.gz")
    assert read_in_pieces(READERS[name], name.lower(), data, cuts) == read(READERS[name], name.lower(), data)


def test_each_run_of_a_real_pool_has_its_process_and_each_end_its_shadows_report() -> None:
    log, _ = recorded(RUN)
    report_counts = Counter(event.said for _, event in log.read() if isinstance(event, e.JobReported))
    entries = Counter(entry[4] for _, event in log.read() if isinstance(event, e.JobsLogged) for entry in event.entries)
    assert (
        report_counts["process_began"] == report_counts["process_ended"] == entries[1] // 2 - 1
    )  # one could not be executed
    assert report_counts["terminated"] == entries[5] // 2  # in a user's log and in the EventLog
    assert report_counts["holding"] + report_counts["requeuing"] == 3


def test_an_honest_pools_starters_and_shadows_are_sound() -> None:
    audit = examine(recorded(RUN)[0])
    assert audit.sound
    assert audit.contradictions == []


# A log, and the change of its only line that matches -> the job, and both sides' values.
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
def test_a_changed_exit_status_is_detected(lie: tuple[str, str, str], beside: str, tmp_path: Path) -> None:
    """By the user's log, and by the history alone."""
    name, pattern, replacement = lie
    job, true_value, false_value = LIES[lie]
    for kept_name in (name, beside):
        text = gzip.decompress((RUN / f"{kept_name}.gz").read_bytes()).decode()
        changed, count = re.subn(pattern, replacement, text) if kept_name == name else (text, 1)
        assert count == 1
        write(tmp_path / kept_name, changed)
    contradictions = examine(imported(tmp_path)[0]).contradictions
    assert [
        (contradiction.thing, contradiction.fact, {stated.value for stated in contradiction.stated})
        for contradiction in contradictions
    ] == [(job, "exit", {true_value, false_value})]


def test_why_cites_the_starter_and_the_shadow_and_reports_their_disagreement(tmp_path: Path) -> None:
    log, _ = recorded(RUN)
    (end_sentence,) = [sentence for sentence in why(log, "1.1").life if sentence.code == "exited"]
    assert end_sentence.places == ("alice-job.log.gz:73", "StarterLog.slot2.gz:45", "ShadowLog.gz:88")
    for name in ("alice-job.log", "StarterLog.slot2"):
        text = gzip.decompress((RUN / f"{name}.gz").read_bytes()).decode()
        write(tmp_path / name, text.replace("pid=20013, status=3", "pid=20013, status=0"))
    assert why(imported(tmp_path)[0], "1.1").texts[1].endswith("; but StarterLog.slot2:45 says code 0.")


def test_a_job_without_a_log_is_explained_from_its_shadow_and_starter(tmp_path: Path) -> None:
    for name in ("ShadowLog", "StarterLog.slot2", "StartLog"):
        write(tmp_path / name, gzip.decompress((RUN / f"{name}.gz").read_bytes()))
    answer = why(imported(tmp_path)[0], "1.1")
    assert answer.texts[:2] == [
        "Job 1.1 completed at 2026-11-22 22:09:55, with code 3.",
        "Its shadow logged that it ended after 3 s on slot2@localhost, with code 3.",
    ]
    assert [sentence.code for sentence in answer.life] == ["started_there", "starter_saw_end", "shadow_saw_end"]
