"""Explain why a job, a cluster or a slot is where it is: in at most five lines, with evidence, for readers who do not
know the log.

``answer`` is the entry point. ``own_job`` reads the facts of a job from a pool's own events, ``imported_job`` from an
HTCondor pool's records; ``job_facts`` makes the answer. ``slot`` explains both kinds of slots, ``cluster`` summarizes
jobs. ``rejections`` finds what a cycle's rejection means for a job, and what the next cycle would decide;
``select_events`` selects the events to read. The sentences are in ``narration``. Expressions are evaluated only to find
requests that no slot can fulfil, and to repeat a cycle: all other statements come from events.
"""

from ..narration.sentences import Answer, Sentence, UnknownThingError, dated_line
from .job import RejectionAnalysis, analyze_rejection, why_job
from .rejections import NextCycle
from .select_events import job_events, slot_events
from .slot import why_slot

__all__ = [
    "Answer", "NextCycle", "RejectionAnalysis", "Sentence", "UnknownThingError", "analyze_rejection", "dated_line",
    "job_events", "slot_events", "why_job", "why_slot",
]  # fmt: skip
