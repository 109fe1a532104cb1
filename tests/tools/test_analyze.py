"""Golden: `poolbook q -better-analyze` prints a cycle's findings as condor_q -better-analyze does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.adapters.condor_tools.analyze import AnalyzedSlots, RejectionAnalysis, steps, wrap_expression
from poolbook.adapters.condor_tools.autocluster_table import signature_from_ad
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, parse, unparse
from poolbook.domain.negotiator.reported_rejections import rejection_reason

from ..replay.contested_pool import contested_pool
from ..together import together
from .captures import MINUTE, capture, captured_ads, printed, surroundings_at

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
AD = {"ProcId": 0, "FileSystemDomain": "localhost", "RequestDisk": 10240, "RequestMemory": 128, "Owner": "alice"}
SECOND = 1_000_000


def job(cluster: int, status: int, **more: object) -> ClassAd:
    ad = ClassAd(AD | {"ClusterId": cluster, "JobStatus": status} | more)
    ad["Requirements"] = parse(REQUIREMENTS[cluster])
    if cluster == 63:
        ad["RequestCpus"] = 500
    return ad


def analysis_of(ad: ClassAd, verdict: RejectionAnalysis, second: int = 26) -> str:
    query = queue_table.parse_arguments(["-better-analyze", f"{ad.eval('ClusterId')}.0"])
    verdict = verdict._replace(pool="localhost")
    return printed(queue_table.render([ad], query, surroundings_at(second), judge=lambda *_: verdict))


def verdict_of(*clauses: e.Clause, slots: int = 1, **more: object) -> e.Unmatched:
    return e.Unmatched("63.0", 1, slots, clauses, **more)  # type: ignore[arg-type]


UNMATCHABLE = verdict_of(
    e.Clause('(OpSys == "WINDOWS")', 0, 0),
    e.Clause("(Memory > 1000000)", 0, 0),
    e.Clause('(TARGET.Arch == "X86_64")', 1, 0),
    e.Clause('(versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk))', 1, 0),
    e.Clause("(TARGET.Memory >= RequestMemory)", 1, 0),
    e.Clause("(TARGET.Cpus >= RequestCpus)", 0, 0),
    e.Clause("((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer))", 1, 0),
)


def parts(text: str) -> tuple[str, str, str]:
    """Return the expression with the job's attributes, the conditions, and the remainder, without the parts about slots
    only."""
    head, _, remainder = text.partition(" reduces to these conditions:\n\n")
    conditions, _, last_part = remainder.partition("\n\n\n")
    expression = head.rpartition("\n\nThe Requirements")[0].partition("\nslot1@localhost has")[0].rstrip("\n")
    return expression, conditions, last_part.replace(" on 1 machines,", ",")


@pytest.mark.parametrize(("name", "second"), [("q_analyze_unmatchable", 54), ("q_better_analyze_unmatchable", 52)])
def test_a_job_that_fits_nowhere_is_analyzed_as_by_condor_q(name: str, second: int) -> None:
    expected = capture(name)
    assert queue_table.parse_arguments(expected.argv).view == "analysis"
    analysis = analysis_of(job(63, 1), RejectionAnalysis(((MINUTE + second) * SECOND, UNMATCHABLE), 0))
    expression, conditions, last_part = parts(analysis)
    assert (expression, last_part) == (parts(expected.out)[0], parts(expected.out)[2])
    rows = [
        line for line in parts(expected.out)[1].splitlines() if "versionGE" not in line and "FileSystem" not in line
    ]
    assert set(rows) < set(conditions.splitlines())
    assert "[7]           1  [5] || [6]" in conditions


@pytest.mark.parametrize(
    ("name", "ad", "matched"),
    [
        ("q_better_analyze_running", job(65, 2), MINUTE + 50),
        ("q_analyze_held", job(65, 5, HoldReason="via condor_hold (by user alice)"), MINUTE + 60),
    ],
)
def test_a_job_that_no_cycle_rejected_is_analyzed_without_counts(name: str, ad: ClassAd, matched: int) -> None:
    expected = capture(name).out
    analysis = analysis_of(ad, RejectionAnalysis(None, matched * SECOND))
    expression = parts(expected)[0]
    assert analysis.startswith(expression)
    status = re.search(r"\n065.000:  Job is .*?Last successful match: [^\n]+\n", expected, re.DOTALL)
    assert status is not None
    assert analysis.removeprefix(expression).strip() == status[0].strip()


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
    why = verdict_of(e.Clause("true", 9, 8), slots=9, refused_by_slot=1, taken=2, denied=e.Denied(own=3, rank=1))
    output = analysis_of(job(63, 1), RejectionAnalysis((MINUTE * SECOND, why), 0))
    assert re.findall(r"^ +(\d+) slots", output, re.MULTILINE) == ["1", "1", "3", "3", "1"]


def test_a_job_that_no_cycle_considered_is_reported_so() -> None:
    assert "063.000:  Job has not yet been considered by the matchmaker.\n" in analysis_of(
        job(63, 1), RejectionAnalysis(None, 0)
    )


def test_an_expression_is_split_only_after_operators() -> None:
    source = unparse(parse(" && ".join([f'(A{n} == "&& ( ||")' for n in range(20)])))
    lines = wrap_expression(source).splitlines()
    assert " ".join(line.strip() for line in lines) == source
    assert all(line.startswith("    (") and len(line) < 80 for line in lines)


def test_steps_follow_the_steps_that_they_combine() -> None:
    assert [step.text for step in steps(parse("(a && (b || !c)) && d"))] == [
        "a", "b", "!c", "[1] || [2]", "[0] && [3]", "d", "[4] && [5]",
    ]  # fmt: skip


def test_only_conditions_that_must_hold_are_recognized_by_their_text() -> None:
    conditions = [step.condition for step in steps(parse("(a && (b || c)) && b"))]
    assert conditions == ["a", "", "", "b || c", "", "b", ""]


def test_an_expression_of_any_length_is_split_into_steps() -> None:
    assert len(steps(parse(" && ".join(["a"] * 3000)))) == 5999


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


SLOTS = AnalyzedSlots(captured_ads("status_long"), signature_from_ad)


def test_a_summary_counts_the_slots_for_each_kind_of_jobs() -> None:
    expected = capture("q_better_analyze_summary")
    query = queue_table.parse_arguments(expected.argv)
    ads = [ad for ad in captured_ads("q_long") if "AutoClusterId" in ad]
    assert query.analysis == {"summary"}
    assert printed(queue_table.render(ads, query, surroundings_at(), slots=SLOTS)) == expected.out


def test_or_the_jobs_for_each_slot() -> None:
    query = queue_table.parse_arguments(["-analyze:sum,rev"])
    head, *_, line = (
        printed(queue_table.render(captured_ads("q_long"), query, surroundings_at(), slots=SLOTS))
        .strip()
        .split("\n")[1:]
    )
    assert head == "Analyzing matches for 15 jobs"
    assert line.split() == ["slot1@localhost", "Part", "0", "14", "0.00"]


@together(
    ("option", "message"),
    [
        ("-analyze:nosuch", "unknown analysis; use priority, summary, reverse"),
        ("-better-analyze:reverse", "`poolbook why SLOT` explains why"),
    ],
)
def test_an_unsupported_analysis_is_refused(option: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        queue_table.parse_arguments([option])
