"""Print a report as lines or as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from poolbook.replay.narration.formatting import counted

from .accountant import ComparedSample
from .compare import DIGITS, REASONS, Report, off
from .recording import clock


def lines(report: Report) -> Iterator[str]:
    """Yield the report's lines: first the excused differences, how often each occurred, and their share of the cycles.
    Every cycle, sample and match that was not compared has its reason."""
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
        yield f"  {counted(report.started, 'sample')} restored an account that the records did not show"
    for why, count in _whys(report).items():
        yield f"  not compared, {counted(count, 'sample')}: {why}"
    yield (
        f"  matches: {report.matches}; the same by user and number {report.users}, by slot {report.slots}"
        f" ({report.share:.1%} were compared by slot), by the job's cluster {report.jobs}"
    )
    for compared in (*report.samples, *report.named):
        if compared.why is None and compared.off >= DIGITS:
            sample = compared.sample
            recorded, replayed = (f"{number:.6g}" for number in (sample.effective, compared.effective))
            yield f"  different: {clock(sample.at)}, {sample.where}: {sample.submitter} has {recorded}; here {replayed}"
    for difference in report.differences:
        yield f"  {difference.reason or 'different'}: {difference}"
    for submission in report.submissions:
        yield f"  not submitted here: {submission}"


def _excused(report: Report) -> Counter[str]:
    return Counter(difference.reason for difference in report.differences if difference.reason)


def _agreement(samples: tuple[ComparedSample, ...]) -> str:
    known_count = sum(1 for sample in samples if sample.why is None)
    return f"{known_count} of {len(samples)} compared, off by at most {off(samples):.1e}"


def _whys(report: Report) -> Counter[str]:
    return Counter(str(sample.why) for sample in (*report.samples, *report.named) if sample.why is not None)


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
        "samples_compared": sum(1 for sample in report.samples if sample.why is None),
        "samples_off": off(report.samples),
        "named": len(report.named),
        "named_compared": sum(1 for sample in report.named if sample.why is None),
        "named_off": off(report.named),
        "not_compared": dict(_whys(report)),
        "matches": report.matches,
        "same_users": report.users,
        "same_slots": report.slots,
        "same_clusters": report.jobs,
        "compared_by_slot": report.share,
        "exceptions": [
            {
                "at": sample.at // 1_000_000,
                "real": list(map(str, sample.real)),
                "ours": list(map(str, sample.ours)),
                "same_numbers": sample.numbers,
                "reason": sample.reason,
                "why": REASONS[sample.reason].why if sample.reason else "",
                "against": list(sample.against),
            }
            for sample in report.differences
        ],
        "not_submitted": list(report.submissions),
    }
