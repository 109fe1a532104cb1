"""Golden: `poolbook q -better-analyze` prints a cycle's findings as condor_q -better-analyze does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.adapters.condor_tools.analyze import AnalyzedSlots, RejectionAnalysis, analyzed_slots, wrap_expression
from poolbook.adapters.condor_tools.autocluster_table import signature_from_ad
from poolbook.adapters.condor_tools.condition_steps import decisive_steps, split
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, parse, unparse
from poolbook.domain.negotiator.reported_rejections import rejection_reason

from ..replay.contested_pool import contested_pool
from ..together import together
from .captures import MINUTE, capture, captured_ads, changed, printed, surroundings_at

REQUIREMENTS = {
    63: '((OpSys == "WINDOWS") && (Memory > 1000000)) && (TARGET.Arch == "X86_64") && '
        '(versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk)) && '
        "(TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && "
        "((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer))",
    65: '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && '
        '(versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk)) && '
        "(TARGET.Memory >= RequestMemory) && "
        "((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer))",
}  # fmt: skip
AD = {
    "ProcId": 0, "FileSystemDomain": "localhost", "Owner": "alice",
    "RequestCpus": 1, "RequestDisk": 10240, "RequestMemory": 128,
}  # fmt: skip
SECOND = 1_000_000


def job(cluster: int, status: int, **more: object) -> ClassAd:
    ad = ClassAd(AD | {"ClusterId": cluster, "JobStatus": status} | more)
    ad["Requirements"] = parse(REQUIREMENTS[cluster])
    if cluster == 63:
        ad["RequestCpus"] = 500
    return ad


def slot(**resources: int) -> ClassAd:
    """Return the partitionable slot of the captures, with these resources."""
    return changed(captured_ads("status_long")[0], **resources)


def analyzed(*ads: ClassAd, argv: Sequence[str] = ()) -> AnalyzedSlots:
    query = queue_table.parse_arguments(["-better-analyze", *argv])
    return analyzed_slots(ads, query.arguments, signature_from_ad, surroundings_at().context())


FREE = {"Cpus": 4, "Memory": 7680, "Disk": 80584832}


def analysis_of(
    ad: ClassAd,
    verdict: RejectionAnalysis,
    second: int = 26,
    slots: AnalyzedSlots | None = None,
    alike: Sequence[ClassAd] = (),
    argv: Sequence[str] = ("-better-analyze",),
) -> str:
    query = queue_table.parse_arguments([*argv, f"{ad.eval('ClusterId')}.0"])
    slots, verdict = slots or analyzed(slot(**FREE)), verdict._replace(pool="localhost")
    lines = queue_table.render(
        [ad], query, surroundings_at(second), judge=lambda _: verdict, slots=slots, autocluster_of=lambda _: alike
    )
    return printed(lines)


def verdict_of(*clauses: e.Clause, slots: int = 1, **more: object) -> e.Unmatched:
    return e.Unmatched("63.0", 1, slots, clauses, **more)  # type: ignore[arg-type]


REJECTED = verdict_of(e.Clause("(Memory > 1000000)", 0, 0))
MATCHED = job(65, 2, LastMatchTime=MINUTE + 50)


@pytest.mark.parametrize(
    ("name", "ad", "judged", "slots", "alike"),
    [
        ("q_analyze_unmatchable", job(63, 1), RejectionAnalysis(((MINUTE + 54) * SECOND, REJECTED), 0), FREE, ()),
        ("q_better_analyze_unmatchable", job(63, 1), RejectionAnalysis(((MINUTE + 52) * SECOND, REJECTED)), FREE, ()),
        ("q_better_analyze_running", MATCHED, RejectionAnalysis(None, (MINUTE + 50) * SECOND), FREE, (MATCHED,) * 4),
        (
            "q_analyze_held",
            job(65, 5, HoldReason="via condor_hold (by user alice)"),
            RejectionAnalysis(None, (MINUTE + 60) * SECOND),
            {"Cpus": 6, "Memory": 7936, "Disk": 80605312},
            (),
        ),
    ],
)
def test_a_job_is_analyzed_as_by_condor_q(
    name: str, ad: ClassAd, judged: RejectionAnalysis, slots: dict[str, int], alike: Sequence[ClassAd]
) -> None:
    expected = capture(name)
    output = analysis_of(ad, judged, slots=analyzed(slot(**slots)), alike=alike, argv=expected.argv[:-1])
    assert output == expected.out


def test_a_slot_is_analyzed_as_by_condor_q() -> None:
    expected = capture("q_better_analyze_reverse")
    query = queue_table.parse_arguments(expected.argv)
    slots = analyzed(slot(**FREE), argv=expected.argv[1:3])
    output = queue_table.render([job(63, 1)], query, surroundings_at(), slots=slots, autocluster_of=lambda _: ())
    assert printed(output) == expected.out


def test_a_slot_that_would_fit_a_job_if_drained_is_counted_separately() -> None:
    output = analysis_of(job(65, 1), RejectionAnalysis(), slots=analyzed(slot(Cpus=4, Memory=100)))
    assert "slot1@localhost has the following attributes when drained:" in output
    assert "         Slots      If    \nStep   Matched   Drained  Condition\n" in output
    assert "[7]           0         1  TARGET.Memory >= RequestMemory\n" in output
    assert "      0 slots match and are willing to run your job\n      1 slots would match if drained\n" in output


def test_analyze_without_better_explains_requirements_only_if_they_reject_a_slot() -> None:
    output = analysis_of(job(65, 1), RejectionAnalysis(), argv=["-analyze"])
    assert "The Requirements expression" not in output
    assert "      1 slots match and are willing to run your job\n" in output


@together(
    ("argv", "expected"),
    [
        ([], ["slot1@a", "slot1@b"]),
        (["-machine", "A"], ["slot1@a"]),
        (["-machine", "slot1_1@a"], ["slot1_1@a"]),
        (["-mconstraint", "Cpus > 5"], ["slot1@b"]),
        (["-mconstraint", "slot1@b"], ["slot1@b"]),
    ],
)
def test_the_slots_of_an_analysis_can_be_chosen(argv: list[str], expected: list[str]) -> None:
    ads = [
        ClassAd({"Name": name, "Machine": name[-1], "Cpus": cpus, "DynamicSlot": "_" in name})
        for name, cpus in (("slot1@a", 1), ("slot1_1@a", 2), ("slot1@b", 6))
    ]
    assert [ad.eval("Name") for ad in analyzed(*ads, argv=argv).ads] == expected


@together(
    ("requirements", "expected"),
    [
        ("Cpus > 2 && Cpus > 1", ["[0] 1"]),
        ("Cpus > 9 || Cpus > 1", ["[1] 2"]),
        ("Cpus > 2 || Memory > 9", ["[0] 1", "[1] 1", "[2] 2"]),
        ("false || Cpus > 1", ["[1] 2"]),
        ("true && !(Cpus > 2)", ["[1] 1"]),
        ("1 > 2", ["[0] never"]),
        ("time() > 5 && true", ["[0] now", "[1] always", "[2] now"]),
    ],
)
def test_only_decisive_conditions_remain(requirements: str, expected: list[str]) -> None:
    expression = parse(requirements)
    request = ClassAd({"Requirements": expression})
    targets = [ClassAd({"Cpus": 2, "Memory": 10}), ClassAd({"Cpus": 4, "Memory": 8})]
    context = surroundings_at().context()
    counts = []
    for at, step in decisive_steps(request, split(request, expression), targets, context):
        word = str(step.accepted[0])
        if step.constant is not None:
            word = ("never", "not now", "always", "now")[2 * step.constant + step.depends_on_time]
        counts.append(f"[{at}] {word}")
    assert counts == expected


@together(
    ("why", "expected"),
    [
        (verdict_of(), "no match found"),
        (verdict_of(denied=e.Denied(own=1)), "no match found"),
        (verdict_of(denied=e.Denied(policy=1, priority=1)), "PREEMPTION_REQUIREMENTS == False"),
        (verdict_of(denied=e.Denied(priority=1), limit="share"), "insufficient priority"),
        (verdict_of(limit="share"), "submitter limit exceeded"),
        (verdict_of(limit="ceiling"), "submitter limit exceeded"),
    ],
)
def test_the_reason_is_in_the_negotiators_words(why: e.Unmatched, expected: str) -> None:
    assert rejection_reason(why) == expected


def test_slots_in_use_are_counted_by_user() -> None:
    users = ["alice@localhost", "alice@localhost", "bob@localhost", None]
    slots = [changed(slot(**FREE), PartitionableSlot=None, RemoteUser=user) for user in users]
    rejecting = changed(slot(**FREE), Start=False)
    output = analysis_of(job(65, 1, User=users[0]), RejectionAnalysis(), slots=analyzed(*slots, rejecting))
    assert re.findall(r"^ +(\d+) slots", output, re.MULTILINE) == ["0", "1", "2", "1", "1"]


def test_a_job_that_no_cycle_considered_is_reported_so() -> None:
    assert "063.000:  Job has not yet been considered by the matchmaker.\n" in analysis_of(
        job(63, 1), RejectionAnalysis(None, 0)
    )


def test_an_expression_is_split_only_after_operators() -> None:
    source = unparse(parse(" && ".join([f'(A{n} == "&& ( ||")' for n in range(20)])))
    lines = ("    " + wrap_expression(source)).splitlines()
    assert " ".join(line.strip() for line in lines) == source
    assert all(line.startswith("    (") and len(line) < 80 for line in lines)


def test_steps_follow_the_steps_that_they_combine() -> None:
    assert [step.text for step in split(ClassAd(), parse("(a && (b || !c)) && d"))] == [
        "a", "b", "!c", "[1] || [2]", "[0] && [3]", "d", "[4] && [5]",
    ]  # fmt: skip


def test_an_expression_of_any_length_is_split_into_steps() -> None:
    assert len(split(ClassAd(), parse(" && ".join(["a"] * 3000)))) == 5999


def test_the_command_reports_the_logs_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "pool.db")
    log = open_log(url, create=True)
    log.append([event for _, event in contested_pool().events() if event.at <= (1_800_000_000 + 906) * SECOND])
    log.close()
    assert main(["q", "-better-analyze", "6.0", "-log", url]) == 0
    output = capsys.readouterr().out
    assert "[1]           0  TARGET.Memory >= RequestMemory\n" in output
    assert "    RequestMemory = 90000 (mb)\n" in output
    assert "      9 slots are rejected by your job's requirements\n" in output
    assert "from pool\nReason for last match failure: no match found\n" in output


def test_a_concurrency_limit_that_keeps_a_job_waiting_names_its_holders() -> None:
    reached_limits = (e.ReachedLimit("x.y", 2, 2, 1), e.ReachedLimit("xsw", 3, 3, 1))
    why = verdict_of(limit="concurrency", reached=reached_limits)
    verdict = RejectionAnalysis((MINUTE * SECOND, why), 0, "pool", ["XSW: 3 of 3, held by 1.0, 1.1, 4.2"])
    output = analysis_of(job(63, 1), verdict)
    assert "Reason for last match failure: concurrency limit x.y, xsw reached\n    XSW: 3 of 3, held by 1.0" in output


SLOTS = analyzed(*captured_ads("status_long"))


def test_a_summary_counts_the_slots_for_each_kind_of_jobs() -> None:
    expected = capture("q_better_analyze_summary")
    query = queue_table.parse_arguments(expected.argv)
    ads = [ad for ad in captured_ads("q_long") if "AutoClusterId" in ad]
    assert query.analysis == {"better", "summary"}
    assert (
        printed(queue_table.render(ads, query, surroundings_at(), slots=SLOTS, autocluster_of=lambda _: ()))
        == expected.out
    )


def test_or_the_jobs_for_each_slot() -> None:
    query = queue_table.parse_arguments(["-analyze:sum,rev"])
    head, *_, line = (
        printed(
            queue_table.render(
                captured_ads("q_long"), query, surroundings_at(), slots=SLOTS, autocluster_of=lambda _: ()
            )
        )
        .strip()
        .split("\n")[1:]
    )
    assert head == "Analyzing matches for 15 jobs"
    assert line.split() == ["slot1@localhost", "Part", "0", "14", "0.00"]


@together(
    ("option", "message"),
    [
        ("-analyze:nosuch", "unknown analysis; use priority, summary, reverse"),
    ],
)
def test_an_unsupported_analysis_is_refused(option: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        queue_table.parse_arguments([option])
