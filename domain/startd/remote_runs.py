"""Pass on what the processes of an external access point's job report, if they run here (``ClaimActivated.key``).

The end of the processes first moves the slot and its claim, as the end of any external job does. The report follows in
the same decision, so the access point learns both together, the slot's state first.
"""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft
from ..events import RunReported, StarterSignalled
from ..ports.run_reports import RunReport, encode_report, ends_run
from ..ports.stimuli import ActivationDue, ActivationEnded, ActivationMeasured, Transferred
from ..state.deferrals import has_missed_time
from ..state.measurements import is_notable
from ..state.records import Slot, Starter, report_name
from ..state.state import ExecutionPoint
from ..units import SECOND
from .activating import end_external_job
from .slot_policy_evaluation import policy_of
from .transitions import fire_trigger

RENEWAL: Final = 5 * SECOND  #: how soon after a restart the leases of claims should be renewed
_CAUSES = {
    "ActivationDue": "deferral_over",
    "ActivationStarted": "activated",
    "ActivationMeasured": "measured",
    "ActivationChirped": "chirp",
    "ActivationEnded": "job_ended",
    "Transferred input": "activated",
}


def record_report(draft: Draft[ExecutionPoint], report: RunReport) -> None:
    """Record a report for the access point, and the end of the processes. After a restart, a report may repeat what is
    already logged; this is not recorded again."""
    slot = draft.state.slots[draft.state.remote_runs[report.key]]
    starter, claim = slot.activation, slot.claim.id if slot.claim is not None else ""
    assert starter is not None, "a run in remote_runs is the activation of its slot"
    if ends_run(report):
        fire_trigger(draft, slot, "job reported", "job_ended")
        end_external_job(draft, slot)
    elif not _is_new(draft, starter, report):
        return
    kind, text = encode_report(report)
    header = draft.header(_CAUSES.get(_name(report), "exited"))
    draft.emit(RunReported(*header, slot.name, claim, starter.job, starter.remote_key, kind, text))


def _name(report: RunReport) -> str:
    return report_name(type(report).__name__, report.way if isinstance(report, Transferred) else "")


def _is_new(draft: Draft[ExecutionPoint], starter: Starter, report: RunReport) -> bool:
    """Return True if a report differs from the last one of its kind; a measurement must differ notably."""
    if isinstance(report, ActivationMeasured):
        if not starter.measured:
            return draft.now - starter.began >= report.first * SECOND
        measured_at, *sizes = starter.measured
        return is_notable(sizes, (report.image, report.resident, report.disk), draft.now - measured_at, report.every)
    return starter.reports.get(_name(report)) != report.id


# Deferred jobs, whose processes have not been started


def start_time(state: ExecutionPoint, starter: Starter) -> int:
    """Return when to start the processes of a deferred run. After a restart, its lease must be renewed first."""
    renewed = 0 if starter.began > state.served_since else state.served_since + RENEWAL
    return max(starter.deferred, starter.ready, renewed)


def start_deferred_run(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Start a job's processes at their deferral time, or report that the job has missed its deferral window: it or its
    files arrived too late, or the execution point was down."""
    starter = slot.activation
    assert starter is not None, "a timer runs for the activation of a slot"
    window = policy_of(draft, slot).job_number("DeferralWindow") or 0
    missed = has_missed_time(starter, window, draft.state.served_since)
    record_report(draft, ActivationDue(draft.stimulus, starter.key, missed))


def end_signalled_runs(draft: Draft[ExecutionPoint]) -> None:
    """End the deferred runs that were signalled in this decision. A transfer of their input files ends first."""
    for event in [event for event in draft.events if isinstance(event, StarterSignalled)]:
        slot = draft.state.slots.get(event.slot)
        starter = None if slot is None else slot.activation
        if starter is not None and starter.deferred and starter.ready:
            record_report(draft, ActivationEnded(draft.stimulus, starter.key, draft.now))
