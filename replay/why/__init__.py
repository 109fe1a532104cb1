"""Why a job, a cluster or a slot is where it is: in at most five lines, and with evidence, for people who know nothing
of the log.

``answer`` asks. The facts of a job are read by ``own_job`` from a pool's own events, by ``imported_job`` from a real
pool's records; ``job_facts`` makes the answer of them. ``slot`` reads and tells both kinds of slots, ``cluster`` sums
jobs up. ``rejections`` finds what a cycle's rejection means for one job, and what the next cycle would decide;
``select_events`` the events that have to be read. The sentences are in ``narration``. Expressions are evaluated only to
find what no slot has, and what the next cycle would decide: else events say it, and where they are silent it says so.
"""

from ..narration.sentences import Answer, Sentence, UnknownThingError, tell
from .job import Judged, judged, why_job
from .rejections import NextCycle
from .select_events import job_events, slot_events
from .slot import why_slot

__all__ = [
    "Answer", "Judged", "NextCycle", "Sentence", "UnknownThingError", "job_events", "judged", "slot_events", "tell",
    "why_job", "why_slot",
]  # fmt: skip
