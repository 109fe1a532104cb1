"""Golden: no job of a real pool is accused, and each outcome is counted. Property: nor is any job that follows the
rules. A planted fault is found, with its file, its line and its story."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.domain import events as e
from poolbook.domain.imported.packed_ads import KeptAd, pack
from poolbook.replay.audit_result import Audit, AuditFinding
from poolbook.replay.forensics.audit.event_log_rules import ENTRY_RULES, EventLogAuditor
from poolbook.replay.forensics.audit.examine import examine
from poolbook.replay.forensics.imported_log import Sources, single_entries

from ..importing.folders import imported, write
from ..together import together
from .rules_page import RULES

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
RUNS = sorted({path.parent for path in TRACES.glob("*/EventLog*")})
MODIFIED = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


def audit_of(
    *logs: str | bytes, follows: tuple[int, ...] = (), ads: tuple[str, ...] = (), continuation: str = ""
) -> Audit:
    """Return the audit of an EventLog "1.log" and of users' logs "2.log"...; `follows`: the log that each of them
    continues; `ads` are a history's; `again`: the first log's continuation after all were read."""
    audit, sources = Audit(), Sources()
    judge = EventLogAuditor(sources, audit)
    for number, log in enumerate(logs, 1):
        kind = "eventlog" if number == 1 else "userlog"
        path, before = f"{number}.log", (*follows, *[0] * len(logs))[number - 1]
        source_found = e.SourceFound(0, "read", "import", number, path, kind, "h", "UTC", before)
        data = log.encode() if isinstance(log, str) else log
        source = SourceFile(number, path, kind, "h", UTC, MODIFIED, 10**15)
        for position, event in single_entries(
            enumerate([source_found, *JobEventLogReader(source, None, 0).read(data)[0]], 1)
        ):
            sources.fold_event(event)
            judge.process_event(position, event)
    later_events: list[e.Event] = []
    if ads:
        packed_ads, index = pack([KeptAd(1 + 10 * number, text) for number, text in enumerate(ads)])
        later_events.append(e.SourceFound(0, "read", "import", 9, "history", "history", "h", "UTC"))
        later_events.append(e.AdsKept(0, "read", "9:1", "history", len(ads), packed_ads, index))
    if continuation:
        later_events += JobEventLogReader(
            SourceFile(1, "1.log", "eventlog", "h", UTC, MODIFIED, 10**15), None, 100
        ).read(continuation.encode())[0]
    for position, event in single_entries(enumerate(later_events, 1)):
        sources.fold_event(event)
        judge.process_event(position, event)
    judge.finish()
    return audit


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


RESOURCES = "\n\tPartitionable Resources :    Usage  Request Allocated\n\t   TimeExecute (s)      :        6"
TEXTS = {
    0: "Job submitted from host: <10.0.0.1:9618>",
    1: "Job executing on host: <10.0.0.2:9618>\n\tSlotName: {slot}",
    4: "Job was evicted.\n\t(0) CPU times",
    5: "Job terminated.\n\t(1) Normal termination (return value 0)" + RESOURCES,
    6: "Image size of job updated: 5",
    7: "Shadow exception!\n\tlost",
    9: "Job was aborted.\n\tvia condor_rm (by user alice)",
    10: "Job was suspended.\n\tNumber of processes actually suspended: 1",
    11: "Job was unsuspended.",
    12: "Job was held.\n\twhy\n\tCode 1 Subcode 0",
    13: "Job was released.\n\twhy",
    14: "Node 0 executing on host: <10.0.0.2:9618>",
    21: "Error from starter on slot1@h:\n\tno",
    22: "Job disconnected, attempting to reconnect\n    why\n    Trying to reconnect to slot1@h <10.0.0.2:9618>",
    23: "Job reconnected to slot1@h\n    startd address: <10.0.0.2:9618>",
    24: "Job reconnection failed\n    why\n    Can not reconnect to slot1@h, rescheduling job",
    27: "Job submitted to grid resource\n    GridResource: batch",
    28: "Job ad information event triggered.\nA = 1",
    33: "Changing job attribute JobPrio from 0 to 7",
    46: "Dataflow job was skipped.",
}


def entry(number: int, second: float, job: str = "1.0", slot: str = "slot1@h", text: str = "") -> str:
    cluster, _, proc = job.partition(".")
    when = datetime(2026, 11, 20, 12) + timedelta(seconds=second)
    ids = f"{int(cluster):03d}.{int(proc):03d}.000"
    return f"{number:03d} ({ids}) {when:%Y-%m-%d %H:%M:%S} {text or TEXTS[number].format(slot=slot)}\n...\n"


def log(story: str, job: str = "1.0", slot: str = "slot1@h", begin: int = 0) -> str:
    """Return the log of one job, ten seconds from entry to entry."""
    numbers = [int(number) for number in story.split()]
    return "".join(entry(number, begin + 10 * i, job, slot) for i, number in enumerate(numbers))


def broken_rules(findings: list[AuditFinding]) -> list[tuple[str, str, int]]:
    return [(finding.rule, finding.file, finding.line) for finding in findings]


def line_of(text: str, nth: int) -> int:
    """Return the line at which the entry of this number (from 1) begins."""
    return [i for i, line in enumerate(text.split("\n"), 1) if re.match(r"\d{3} \(", line)][nth - 1]


class TestRealLogs:
    @pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
    def test_no_job_is_accused_and_each_is_counted_once(self, run: Path) -> None:
        eventlog = next(iter(run.glob("EventLog*")))
        users = sorted(run.glob("*-job.log*"))
        data = content(eventlog)
        audit = audit_of(data, *map(content, users))
        assert audit.violations == []
        assert audit.lost == []
        ends = Counter(re.findall(rb"(?m)^(\d{3} \(\d+\.\d+)", data))
        submitted = {job[5:] for job in ends if job.startswith(b"000")}
        if b"## trimmed" not in data:
            assert sum(audit.jobs.values()) == len(submitted)
            completed = {job[5:] for job in ends if job.startswith(b"005")}
            assert audit.jobs.get("completed", 0) == len(completed)
            assert audit.jobs.get("removed", 0) == sum(job.startswith(b"009") for job in ends)

    def test_every_recorded_sequence_of_entries_is_legal(self) -> None:
        for line in (TRACES / "job-events.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            assert audit_of(log(line.partition("\t")[2])).violations == [], line


LEGAL = {
    "the lease expired, and it runs again": ("0 1 1 5", 1, "completed"),
    "evicted, then removed": ("0 1 4 9", 0, "removed"),
    "held while it ran": ("0 1 12 4 13 1 5", 0, "completed"),
    "held while it ended": ("0 1 5 12 13 1 5", 0, "completed"),
    "submitted on hold": ("0 13 1 5", 0, "completed"),
    "removed when done": ("0 1 5 9", 0, "removed"),
    "removed by force, and stopped afterwards": ("0 1 9 4", 0, "removed"),
    "removed by force in the moment in which it ended": ("0 1 9 5", 0, "removed"),
    "the connection was lost, and came back": ("0 1 22 23 5", 0, "completed"),
    "the connection was lost for good": ("0 1 22 24 1 5", 0, "completed"),
    "the connection was lost while it was suspended": ("0 1 10 22 23 10 11 5", 0, "completed"),
    "its shadow gave up when all was done": ("0 1 5 7 1 5", 0, "completed"),
    "it failed before it ran": ("0 21 4 12", 0, "held"),
    "its attributes after its end": ("0 1 28 5 28 33 6", 0, "completed"),
    "skipped": ("0 46", 0, "completed"),
    "held twice": ("0 12 12", 1, "held"),
    "its release is logged after its start": ("0 1 4 12 1 13 5", 1, "completed"),
    "held and released while its shadow was there": ("0 1 13 5", 1, "completed"),
    "held and released while its shadow waited to exit": ("0 1 4 13 1 5", 1, "completed"),
    "held and released while its shadow reconnected": ("0 1 22 13 24 1 5", 1, "completed"),
    "its log begins while it runs": ("5", 0, "completed"),
    "its log begins while it is on hold": ("13 1", 0, "running"),
    "its log begins while it is suspended": ("11", 0, "running"),
    "its work is done elsewhere": ("0 27 1 5 1 13 5", 0, "completed"),
    "suspended": ("0 1 10", 0, "suspended"),
    "waiting": ("0 1 4", 0, "idle"),
}


@together("story, repeated, became", LEGAL.values())
def test_the_behaviour_of_real_daemons_is_legal(story: str, repeated: int, became: str) -> None:
    audit = audit_of(log(story))
    assert audit.violations == []
    assert len(audit.repeated) == repeated
    assert audit.jobs == {became: 1}


ILLEGAL = {
    # the story, the rule, the entry's index
    "ended twice": ("0 1 5 5", "ended_twice", 4),
    "ended twice, later": ("0 1 5 33 28 5", "ended_twice", 6),
    "removed twice": ("0 1 4 9 9", "ended_twice", 5),
    "ended after it was removed": ("0 9 5", "ended_twice", 3),
    "runs after its end": ("0 1 5 1", "after_end", 4),
    "runs after its removal": ("0 1 4 9 1", "after_end", 5),
    "evicted after its end": ("0 1 5 4", "after_end", 4),
    "suspended after its end": ("0 1 5 10", "after_end", 4),
    "released after its removal": ("0 9 13", "after_end", 3),
    "runs though it is on hold": ("0 1 4 12 1 5", "held", 5),
    "ends though it is on hold": ("0 12 5", "held", 3),
    "released though it was not on hold": ("0 1 4 33 33 33 33 33 33 13", "not_held", 10),
    "released twice": ("0 12 13 28 13", "not_held", 5),
    "suspended though it did not run": ("0 10", "not_running", 2),
    "continues although it was not suspended": ("0 1 11 5", "not_running", 3),
    "ended though it had not begun": ("0 5", "unbegun", 2),
}


@pytest.mark.parametrize("story, rule, nth", ILLEGAL.values(), ids=ILLEGAL)
def test_an_impossible_entry_is_detected_with_its_line_and_story(story: str, rule: str, nth: int) -> None:
    text = log(story)
    audit = audit_of(text)
    assert broken_rules(audit.violations) == [(rule, "1.log", line_of(text, nth))]
    (finding,) = audit.violations
    assert rule in RULES
    assert finding.thing == "1.0"
    assert finding.story[-1].endswith(f"[1.log:{line_of(text, nth)}]")
    assert len(finding.story) >= 2


def test_an_end_that_a_shadow_rewrites_from_the_jobs_ad_is_a_repetition() -> None:
    text = log("0 1 5") + entry(5, 60, text="Job terminated.\n\t(1) Normal termination (return value 0)")
    audit = audit_of(text)
    assert audit.violations == []
    assert broken_rules(audit.repeated) == [("repeated", "1.log", line_of(text, 4))]


def test_a_doubled_entry_is_a_repetition_unless_it_is_an_end() -> None:
    for number, story in ((0, "0"), (1, "0 1"), (4, "0 1 4"), (13, "0 12 13"), (10, "0 1 10")):
        doubled = log(story) + entry(number, 10 * (len(story.split()) - 1))
        audit = audit_of(doubled)
        assert audit.violations == [], story
        assert len(audit.repeated) == 1, story
    assert len(audit_of(log("0 1 5") + entry(5, 20)).violations) == 1
    assert len(audit_of(log("0 9") + entry(9, 10)).violations) == 1


def test_a_reused_number_is_another_job() -> None:
    audit = audit_of(log("0 1 5") + log("0 1 5", begin=1000) + log("0", begin=2000))
    assert audit.violations == []
    assert audit.lost == []
    assert audit.jobs == {"completed": 2, "idle": 1}


def test_a_job_running_when_its_number_was_reused_is_lost() -> None:
    audit = audit_of(log("0 1") + log("0 1 5", begin=1000))
    assert audit.violations == []
    assert [finding.rule for finding in audit.lost] == ["lost"]
    assert audit.jobs == {"completed": 1, "running": 1}


def test_two_access_points_may_write_one_file() -> None:
    other = entry(0, 5, text="Job submitted from host: <10.9.9.9:9618>")
    assert audit_of(entry(0, 0) + other + log("1 1 5 5", begin=10)).violations == []


def test_a_gap_in_the_log_is_not_a_fault() -> None:
    for gap in ("## trimmed here: 5 bytes\n", "rubbish\n...\n", "005 (001.000.000) 2026-11-20 12:00:00 Job te\n"):
        audit = audit_of(log("0 1 5") + gap + log("5", begin=100) + log("0 1 5", "2.0", begin=200))
        assert audit.violations == [], gap
        assert len(audit_of(log("0 1 5") + gap + log("5 5", begin=100)).violations) == 1


def test_a_rotated_log_is_audited_as_one_and_two_logs_separately() -> None:
    first, second = log("0 1 5"), log("5", begin=100)
    assert audit_of(first, second).violations == []
    assert audit_of(first, second).jobs == {"completed": 1}
    assert broken_rules(audit_of(first, second, follows=(0, 1)).violations) == [("ended_twice", "2.log", 1)]


def test_the_entries_of_a_cluster_belong_to_no_job() -> None:
    cluster = "035 (001.-01.000) 2026-11-20 12:00:00 Cluster submitted from host: <h>\n...\n"
    cluster_removed = (
        "036 (001.-01.000) 2026-11-20 13:00:00 Cluster removed\n\tMaterialized 1 jobs from 1 items.\tComplete\n...\n"
    )
    audit = audit_of(cluster + log("0 1 5") + cluster_removed)
    assert (audit.violations, audit.jobs) == ([], {"completed": 1})


class TestSlots:
    def test_two_simultaneous_jobs_on_a_slot_are_detected_where_the_second_begins(self) -> None:
        first = entry(0, 0) + entry(0, 1, "2.0") + entry(1, 10)
        text = first + entry(1, 30, "2.0") + entry(5, 331)
        audit = audit_of(text)
        assert broken_rules(audit.violations) == [("slot_twice", "1.log", line_of(text, 4))]
        assert audit.violations[0].thing == "slot1@h"
        for job, begun in (("1.0", 3), ("2.0", 4)):
            assert re.search(rf"{job} started at 1.log:{line_of(text, begun)}\b", audit.violations[0].words)
        assert any(f"[1.log:{line_of(text, 5)}]" in line for line in audit.violations[0].story)

    def test_an_end_up_to_five_minutes_late_is_noted_because_a_shadow_may_hang(self) -> None:
        text = entry(0, 0) + entry(0, 1, "2.0") + entry(1, 10) + entry(1, 30, "2.0") + entry(5, 330)
        audit = audit_of(text)
        assert broken_rules(audit.violations) == []
        assert broken_rules(audit.noted) == [("slot_twice", "1.log", line_of(text, 4))]

    @pytest.mark.parametrize(
        "story",
        [
            "its end is logged two seconds late",
            "another slot",
            "its connection was lost",
            "its lease expired",
            "its shadow was killed and it ended elsewhere",
        ],
    )
    def test_similar_stories_are_not_accused(self, story: str) -> None:
        two_jobs = entry(0, 0) + entry(0, 1, "2.0") + entry(1, 10)
        text = {
            "its end is logged two seconds late": two_jobs + entry(1, 30, "2.0") + entry(5, 32),
            "another slot": two_jobs + entry(1, 30, "2.0", "slot2@h") + entry(5, 60),
            "its connection was lost": two_jobs + entry(22, 20) + entry(1, 30, "2.0") + entry(24, 60) + entry(4, 61),
            "its lease expired": two_jobs + entry(1, 3000, "2.0") + entry(1, 3010, slot="slot3@h") + entry(5, 3100),
            "its shadow was killed and it ended elsewhere": two_jobs
            + entry(1, 30, "2.0")
            + entry(22, 40)
            + entry(4, 60),
        }[story]
        assert audit_of(text).violations == []

    def test_a_job_without_an_end_whose_slot_runs_another_job_is_lost(self) -> None:
        two_jobs = entry(0, 0) + entry(0, 1, "2.0") + entry(1, 10) + entry(1, 30, "2.0") + entry(5, 60, "2.0")
        assert audit_of(two_jobs).lost == []
        (lost,) = audit_of(two_jobs + log("0 1 5", "3.0", begin=9000)).lost
        assert (lost.thing, lost.line) == ("1.0", line_of(two_jobs, 3))

    def test_a_disconnected_job_is_lost_when_its_lease_expires(self) -> None:
        text = log("0 1 22")
        assert audit_of(text + log("0", "2.0", begin=2000)).lost == []
        (lost,) = audit_of(text + log("0", "2.0", begin=9000)).lost
        assert lost.thing == "1.0"
        assert audit_of(log("0 1") + log("0", "2.0", begin=90_000)).lost == []


BEGUN = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp())


class TestOtherSources:
    BOTH = log("0 1 5") + log("0 1 5", "2.0", begin=100)
    SHORT = log("0 1") + log("0 1 5", "2.0", begin=100)

    def test_a_job_whose_end_is_missing_in_one_of_two_continuing_logs_is_lost(self) -> None:
        assert audit_of(self.BOTH, self.BOTH).lost == []
        (lost,) = audit_of(self.BOTH, self.SHORT).lost
        assert (lost.thing, lost.rule, lost.file, lost.line) == ("1.0", "lost", "2.log", line_of(self.SHORT, 2))
        assert f"(1.log:{line_of(self.BOTH, 3)})" in lost.words
        before_a_gap = self.SHORT + "...... trimmed ......\n"
        assert audit_of(self.BOTH, before_a_gap).lost == audit_of(self.BOTH, self.SHORT).lost
        (lost,) = audit_of(self.SHORT, self.BOTH).lost
        assert (lost.file, "2.log" in lost.words) == ("1.log", True)

    @pytest.mark.parametrize(
        "other", [log("0 1"), log("0 1") + "...... trimmed ......\n" + log("0 1 5", "2.0", begin=100)]
    )
    def test_a_log_that_ends_earlier_or_has_a_gap_loses_no_job(self, other: str) -> None:
        assert audit_of(self.BOTH, other).lost == []

    def test_a_job_missing_in_an_event_log_that_covers_its_time_is_lost(self) -> None:
        covering_log = log("0 1 5", "3.0", begin=-100) + log("0 1 5", "4.0", begin=200)
        (lost,) = audit_of(covering_log, log("0 1 5")).lost
        assert (lost.thing, lost.file) == ("1.0", "2.log")
        assert "1.log, which covers that time" in lost.words
        assert audit_of(covering_log.replace("10.0.0.1", "10.0.0.7"), log("0 1 5")).lost == []
        assert audit_of(log("0 1 5", "4.0", begin=5), log("0 1 5")).lost == []

    @pytest.mark.parametrize(("queued", "left_at", "is_lost"), [(0, 20, True), (0, 90, False), (-500, 20, False)])
    def test_a_job_whose_end_is_only_in_the_history_is_lost(self, queued: int, left_at: int, is_lost: bool) -> None:
        ad = f"ClusterId = 1\nProcId = 0\nQDate = {BEGUN + queued}\nJobStatus = 4\nCompletionDate = {BEGUN + left_at}"
        lost = audit_of(self.SHORT, ads=(ad,)).lost
        assert [(finding.thing, "history:1" in finding.words) for finding in lost] == [("1.0", True)] * is_lost


class TestTimes:
    def test_an_entry_earlier_than_the_one_above_is_detected(self) -> None:
        text = log("0 1") + entry(12, -600) + log("13 1 5", begin=30)
        assert broken_rules(audit_of(text).violations) == [("backwards", "1.log", line_of(text, 3))]

    @pytest.mark.parametrize(
        "text",
        [
            log("0 1") + entry(12, -10) + log("13 1 5", begin=30),  # the writer may have had to wait
            log("0 1") + log("12 13 1 5", begin=-600),  # the clock was set back
            log("0 1") + entry(12, -600) + entry(0, -599, "2.0") + log("13 1 5", begin=30),
            log("0 1") + entry(12, -600) + "...... trimmed ......\n" + log("13 1 5", begin=30),
            log("0 1") + entry(0, -600, "2.0") + log("5", begin=30),  # another access point's
        ],
    )
    def test_times_explained_by_another_clock_are_not_accused(self, text: str) -> None:
        assert audit_of(text).violations == []

    def test_a_part_that_grows_after_its_successor_was_read_accuses_no_job(self) -> None:
        old, new = log("0 1 12"), log("1 5", begin=100)
        assert broken_rules(audit_of(old, new, follows=(0, 1)).violations) == [("held", "2.log", 1)]
        assert audit_of(old, new, follows=(0, 1), continuation=log("13", begin=50)).violations == []


ALLOWED = {
    (source, step.number, step.target) for step in ENTRY_RULES if not step.rule for source in step.sources.split(", ")
}
NEUTRAL = (6, 21, 28, 33)


@st.composite
def lives(draw: st.DrawFn) -> list[int]:
    """Draw the entries of a job that follows the table."""
    condition, numbers = "Submitted", [0]
    for _ in range(draw(st.integers(0, 14))):
        transitions = sorted(
            (number, target)
            for source, number, target in ALLOWED
            if source == condition and not (number == 5 and condition in ("Submitted", "Idle"))
        )
        number, target = draw(st.sampled_from([*transitions, *((number, condition) for number in NEUTRAL)]))
        condition = target
        numbers.append(number)
    return numbers


@given(st.lists(lives(), min_size=1, max_size=4), st.data())
def test_jobs_that_follow_the_rules_are_never_accused(stories: list[list[int]], data: st.DataObject) -> None:
    remaining = [list(story) for story in stories]
    text, second = "", 0
    while any(remaining):
        index = data.draw(st.sampled_from([i for i, story in enumerate(remaining) if story]))
        text += entry(remaining[index].pop(0), second, f"{index + 1}.0", f"slot{index}@h")
        second += 1
    audit = audit_of(text)
    assert audit.violations == []
    assert sum(audit.jobs.values()) == len(stories)
    cut_at = data.draw(st.integers(0, text.count("\n...\n")))
    parts = text.split("\n...\n")
    halves = ["\n...\n".join(part) + "\n...\n" for part in (parts[:cut_at], parts[cut_at:-1]) if part]
    assert audit_of(*halves, follows=(0, 1)).jobs == audit.jobs
    assert audit_of(halves[-1]).violations == []


@together(
    "story, index, rule",
    [
        ("0 1 4 12 13 1 5", 1, None),
        ("0 1 4 12 13 1 5", 2, None),  # held while it ran: its run's end need not have been logged
        ("0 1 4 12 13 1 5", 3, None),  # a hold that is released before its shadow exits has no entry
        ("0 12 13 12 13 1 5", 3, "not_held"),
        ("0 1 4 12 13 1 5", 4, "held"),
        ("0 1 4 12 13 1 5", 5, "unbegun"),
        ("0 1 4 12 13 1 5", 6, None),
        ("0 1 10 11 5", 0, None),
        ("0 1 10 11 5", 1, "not_running"),
        ("0 1 10 11 5", 2, "not_running"),
        ("0 1 10 11 5", 3, None),
        ("0 1 4 1 5", 2, None),
        ("0 1 22 23 5", 2, None),
    ],
)
def test_a_removed_entry_is_detected_if_the_others_require_it(story: str, index: int, rule: str | None) -> None:
    entries = [entry(int(number), 10 * i) for i, number in enumerate(story.split())]
    violations = audit_of("".join(entries[:index] + entries[index + 1 :])).violations
    assert [finding.rule for finding in violations] == ([] if rule is None else [rule])


def test_a_repeated_end_in_a_real_log_is_detected() -> None:
    parts = content(next((TRACES / "01-plain").glob("EventLog*"))).decode().split("\n...\n")
    ends = [i for i, part in enumerate(parts) if part[:3] in ("005", "009")]
    assert len(ends) == 8
    for i in ends:
        for position in (i + 1, len(parts) - 1):
            planted = "\n...\n".join([*parts[:position], parts[i], *parts[position:]])
            (finding,) = audit_of(planted).violations
            assert (finding.rule, finding.line) == ("ended_twice", line_of(planted, position + 1))


def test_a_start_on_a_busy_slot_in_a_real_log_is_detected() -> None:
    text = content(next((TRACES / "01-plain").glob("EventLog*"))).decode()
    parts = text.split("\n...\n")
    (begin,) = (i for i, part in enumerate(parts) if part.startswith("001 (005.000.000)"))
    other = parts[begin].replace("001 (005.000.000)", "001 (006.000.000)").replace("22:33:59", "22:34:02")
    planted = "\n...\n".join([*parts[: begin + 1], other, *parts[begin + 1 :]])
    assert ("slot_twice", "1.log", line_of(planted, begin + 2)) in broken_rules(audit_of(planted).noted)


QUEUE = (
    "107 1 CreationTimestamp 1795176000\n101 0.0 Job Machine\n101 1.0 Job Machine\n103 1.0 ClusterId 1\n"
    "103 1.0 ProcId 0\n103 1.0 JobStatus {}\n103 1.0 QDate 1795176001\n"
)


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("q.ads", 'MyType = "Job"\nClusterId = 1\nProcId = 0\nQDate = 1\nServerTime = 9\nJobStatus = 5', {"held": 1}),
        ("job_queue.log", QUEUE.format(1), {"idle": 1}),
        ("job_queue.log", QUEUE.format(5), {"held": 1}),
        ("job_queue.log", QUEUE.format(4) + "102 1.0\n", {"completed": 1}),
        (
            "SchedLog",
            "11/20/26 12:00:00 Started shadow for job 1.0 on <1:2> for a, (shadow pid = 3)\n",
            {"of unknown status": 1},
        ),
    ],
)
def test_a_job_in_only_one_kind_of_file_is_counted(
    tmp_path: Path, name: str, text: str, counts: dict[str, int]
) -> None:
    write(tmp_path / name, text)
    assert examine(imported(tmp_path)[0]).jobs == counts
