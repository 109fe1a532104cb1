"""Count the outcomes of a cluster's jobs, and find the first job that failed or was held."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from ..domain import events as e
from ..domain.state.job_ad import unquoted
from ..domain.state_machines import HOLD_CODES, LEFT

KINDS_OF_FAILURES = 3  #: the number of kinds of failures that are listed separately


@frozen
class ProcessEnd:
    """The end of a job's own process: an exit code, or a signal."""

    code: int | None = None
    signal: int | None = None

    @property
    def failed(self) -> bool:
        return bool(self.code) or self.signal is not None

    @property
    def text(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"exit {self.code or 0}"


@frozen
class HoldReason:
    """The reason of a job's hold: HTCondor's codes and a text."""

    code: str
    subcode: str
    reason: str

    @property
    def text(self) -> str:
        """Return the text or, if it is empty, the meaning of the code."""
        code = HOLD_CODES.get(int(self.code)) if self.code.isascii() and self.code.isdigit() else None
        return self.reason or (code.meaning if code else "no reason was given")


@define
class Outcomes:
    """The outcomes of a cluster's jobs, by process number; ``failed`` and ``held`` are in chronological order."""

    status: dict[int, str] = field(factory=dict)
    failed: dict[int, ProcessEnd] = field(factory=dict)
    held: dict[int, HoldReason] = field(factory=dict)

    def set_status(self, procs: Iterable[int], status: str, hold: HoldReason | None = None) -> None:
        for proc in procs:
            self.status[proc] = status
            self.held.pop(proc, None)
            if hold is not None:
                self.held[proc] = hold

    def add_end(self, proc: int, end: ProcessEnd) -> None:
        self.set_status((proc,), "failed" if end.failed else "completed")
        if end.failed:
            self.failed[proc] = end

    def first_job(self, status: str) -> int | None:
        """Return the first job with a status: the earliest failed or held job, or else the lowest number."""
        procs_by_status: dict[str, Iterable[int]] = {"failed": self.failed, "held": self.held}
        return next((proc for proc in procs_by_status.get(status, self.status) if self.status[proc] == status), None)

    @property
    def have_same_reason(self) -> bool:
        """Return True if all held jobs have the same reason. The texts may differ in the job's id and in the slot's
        name at the beginning."""
        first_hold, *other_holds = self.held.items()
        return all(_is_same_hold(first_hold, other_hold) for other_hold in other_holds)


_FROM_SLOT = re.compile(r"\AError from [^ ]+: ")


def _is_same_hold(first_item: tuple[int, HoldReason], second: tuple[int, HoldReason]) -> bool:
    (first_proc, first_hold), (second_proc, second_hold) = first_item, second
    if (first_hold.code, first_hold.subcode) != (second_hold.code, second_hold.subcode):
        return False
    first_parts, others = (re.split(r"([0-9]+)", _FROM_SLOT.sub("", hold.reason)) for hold in (first_hold, second_hold))
    return len(first_parts) == len(others) and all(
        part == other or (part.isdigit() and other.isdigit() and (int(part), int(other)) == (first_proc, second_proc))
        for part, other in zip(first_parts, others, strict=True)
    )


_ORDER = ("completed", "failed", "removed", "held", "suspended", "running", "idle")


def outcome_text(results: Sequence[Outcomes]) -> str:
    """Return the outcomes of some clusters: "5 completed, 1 failed (exit 1), 3 held, 2 idle"."""
    totals = Counter(status for result in results for status in result.status.values())
    end_counts = Counter(end.text for result in results for end in result.failed.values())
    count_texts = []
    for status in [*_ORDER, *sorted(totals.keys() - set(_ORDER))]:
        if status == "failed" and 0 < len(end_counts) <= KINDS_OF_FAILURES:
            count_texts += [f"{count:,} failed ({outcome})" for outcome, count in end_counts.most_common()]
        elif totals[status]:
            count_texts.append(f"{totals[status]:,} {status}")
    return ", ".join(count_texts) or "no jobs"


def outcomes_of(events: Iterable[e.Event]) -> Outcomes:
    """Return the outcomes of a cluster in a pool's own log, from the events of its stream."""
    results = Outcomes()
    for event in events:
        if isinstance(event, e.ClusterSubmitted):
            results.set_status(range(event.count), event.status.lower(), _hold_reason(event.status, event.ad))
        elif isinstance(event, e.JobsTransitioned):
            if event.target != LEFT:  # leaving the queue is not an outcome: the previous one remains
                procs = (proc for first, last in event.procs for proc in range(first, last + 1))
                results.set_status(procs, event.target.lower(), _hold_reason(event.target, event.changes))
        elif isinstance(event, e.JobActivated):
            results.set_status((event.proc,), "running")
        elif isinstance(event, e.JobExited) and event.target == "Completed":
            results.add_end(event.proc, ProcessEnd(event.code, event.signal))
        elif isinstance(event, e.JobExited) and event.target:
            results.set_status((event.proc,), event.target.lower(), _hold_reason(event.target, event.changes))
    return results


def _hold_reason(status: str, ad: e.Ad) -> HoldReason | None:
    if status != "Held":
        return None
    return HoldReason(ad.get("HoldReasonCode", ""), ad.get("HoldReasonSubCode", ""), unquoted(ad.get("HoldReason", "")))
