"""Pass on what the processes of an external access point's job report, if they run here (``ClaimActivated.key``).

The end of the processes first moves the slot and its claim, as the end of any external job does. The report follows in
the same decision, so the access point learns both together, the slot's state first.
"""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import RunReported
from ..ports.run_reports import RunReport, encode_report
from ..ports.stimuli import ActivationEnded, ActivationMeasured, Transferred
from ..state.measurements import is_notable
from ..state.records import Starter, report_name
from ..state.state import ExecutionPoint
from .activating import end_external_job
from .transitions import fire_trigger

_CAUSES = {
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
    if isinstance(report, ActivationEnded):
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
        measured_at, *sizes = starter.measured or (0, 0, 0, 0)
        return is_notable(sizes, (report.image, report.resident, report.disk), draft.now - measured_at)
    return starter.reports.get(_name(report)) != report.id
