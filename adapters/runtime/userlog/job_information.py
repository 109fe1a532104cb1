"""The text of event 028, which shows attributes of a job's ad after each other event (job_ad_information_attrs).

Source: WriteUserLog::writeJobAdInfoEvent (write_user_log.cpp) and ULogEvent::toClassAd of HTCondor.
"""

from __future__ import annotations

from typing import Final

from ....domain.events import Ad, Event, JobExited
from ....domain.state.job_ad import ad_at_exit, quoted
from . import event_text
from .logged_clusters import LoggedCluster, listed_names

NUMBER: Final = 28
ASKED: Final = "JobAdInformationAttrs"
_FOLLOWED_ELSEWHERE: Final = frozenset({"jobstatus", "enteredcurrentstatus", "laststatus"})
"""The user logs do not follow the status of a job, so its value would be the one at submission."""
# The name of each event, and the type of its ad, which remains the type of the ad in event 028.
_EVENTS: Final[dict[int, tuple[str, str]]] = {
    0: ("SUBMIT", "Submit"),
    1: ("EXECUTE", "Execute"),
    4: ("JOB_EVICTED", "JobEvicted"),
    5: ("JOB_TERMINATED", "JobTerminated"),
    6: ("IMAGE_SIZE", "JobImageSize"),
    8: ("GENERIC", "Generic"),
    9: ("JOB_ABORTED", "JobAborted"),
    10: ("JOB_SUSPENDED", "JobSuspended"),
    11: ("JOB_UNSUSPENDED", "JobUnsuspended"),
    12: ("JOB_HELD", "JobHeld"),
    13: ("JOB_RELEASED", "JobRelease"),
    21: ("REMOTE_ERROR", "RemoteError"),
    22: ("JOB_DISCONNECTED", "JobDisconnected"),
    23: ("JOB_RECONNECTED", "JobReconnected"),
    24: ("JOB_RECONNECT_FAILED", "JobReconnectFailed"),
    33: ("ATTRIBUTE_UPDATE", "AttributeUpdate"),
    40: ("FILE_TRANSFER", "FileTransfer"),
    46: ("DATAFLOW_JOB_SKIPPED", "DataflowJobSkipped"),
}


def information_event(cluster: LoggedCluster, proc: int, number: int, event: Event, stamp: str) -> str:
    """Return event 028 after the job's event ``number``; empty if the job asks for no attributes."""
    names = listed_names(cluster.string_value(proc, ASKED))
    if not names or number not in _EVENTS:
        return ""
    event_name, type_name = _EVENTS[number]
    ad = {
        **cluster.values(proc, [n for n in names if n.lower() not in _FOLLOWED_ELSEWHERE], _new_values(event)),
        "Cluster": str(cluster.id), "EventTime": quoted(stamp.replace(" ", "T", 1)), "EventTypeNumber": str(NUMBER),
        "MyType": quoted(f"{type_name}Event"), "Proc": str(proc), "Subproc": "0",
        "TriggerEventTypeName": quoted(f"ULOG_{event_name}"), "TriggerEventTypeNumber": str(number),
    }  # fmt: skip
    lines = "".join(f"{name} = {event_text.one_line(ad[name])}\n" for name in sorted(ad))
    begin, end = event_text.header_parts(NUMBER, cluster.id, stamp)
    return f"{begin}{proc:03d}{end}Job ad information event triggered.\n{lines}{event_text.END}"


def _new_values(event: Event) -> Ad:
    changes: Ad = getattr(event, "changes", {})
    return {**ad_at_exit({}, event), **changes} if isinstance(event, JobExited) else changes
