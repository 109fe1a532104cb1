"""Print a report as lines or as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from poolbook.replay.narration.formatting import counted

from .accountant import ComparedSample
from .compare import DIGITS, REASONS, Report, off
from .recording import clock


def lines(report: Report) -> Iterator[str]:
    """Yield the report's lines: first what was excused, how often, and which share of the cycles that is. Every cycle,
    sample and match that was not compared has its reason."""
    verdict = "nothing differs without a reason" if report.agrees else "something differs"
    yield f"{report.name}: {counted(report.cycles, 'cycle')} compared: {verdict}"
    for name, count in _excused(report).items():
        yield f"  excused, {counted(count, 'cycle')} ({count / report.cycles:.1%}): {name}: {REASONS[name].why}"
    for why, count in report.left_out.items():
        yield f"  left out, {counted(count, 'cycle')}: {why}"
    yield f"  priorities in samples: {_agreement(report.samples)}"
    if report.named:
        yield f"  priorities in the negotiator's log: {_agreement(report.named)}"
    if report.started:
        yield f"  {counted(report.started, 'sample')} told where an account goes on of which the records did not"
    for why, count in _whys(report).items():
        yield f"  not compared, {counted(count, 'sample')}: {why}"
    yield (
        f"  matches: {report.matches}; the same by user and number {report.users}, by slot {report.slots}"
        f" ({report.share:.1%} were compared by slot), by the job's cluster {report.jobs}"
    )
    for one in (*report.samples, *report.named):
        if one.why is None and one.off >= DIGITS:
            told = one.sample
            really, here = (f"{number:.6g}" for number in (told.effective, one.effective))
            yield f"  different: {clock(told.at)}, {told.where}: really {told.submitter} has {really}; here {here}"
    for difference in report.differences:
        yield f"  {difference.reason or 'different'}: {difference}"
    for words in report.submissions:
        yield f"  not submitted here: {words}"


def _excused(report: Report) -> Counter[str]:
    return Counter(one.reason for one in report.differences if one.reason)


def _agreement(some: tuple[ComparedSample, ...]) -> str:
    known = sum(1 for one in some if one.why is None)
    return f"{known} of {len(some)} compared, off by at most {off(some):.1e}"


def _whys(report: Report) -> Counter[str]:
    return Counter(str(one.why) for one in (*report.samples, *report.named) if one.why is not None)


def as_dict(report: Report) -> dict[str, object]:
    """Return the report as data."""
    return {
        "folder": report.name,
        "agrees": report.agrees,
        "excused": {
            name: {"cycles": count, "share": count / report.cycles} for name, count in _excused(report).items()
        },
        "cycles": report.cycles,
        "left_out": dict(report.left_out),
        "samples": len(report.samples),
        "samples_compared": sum(1 for one in report.samples if one.why is None),
        "samples_off": off(report.samples),
        "named": len(report.named),
        "named_compared": sum(1 for one in report.named if one.why is None),
        "named_off": off(report.named),
        "not_compared": dict(_whys(report)),
        "matches": report.matches,
        "same_users": report.users,
        "same_slots": report.slots,
        "same_clusters": report.jobs,
        "compared_by_slot": report.share,
        "exceptions": [
            {
                "at": one.at // 1_000_000,
                "real": list(map(str, one.real)),
                "ours": list(map(str, one.ours)),
                "same_numbers": one.numbers,
                "reason": one.reason,
                "why": REASONS[one.reason].why if one.reason else "",
                "against": list(one.against),
            }
            for one in report.differences
        ],
        "not_submitted": list(report.submissions),
    }
