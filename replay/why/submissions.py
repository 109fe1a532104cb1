"""What the schedd's policy did to a submission: which transforms changed a job, and what refused it."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain import events as e
from ...domain.state.proc_ads import unpack
from ..narration.formatting import shortened
from ..narration.sentences import Answer, Sentence

LONGEST = 120  #: characters of a value that are shown


def transformed(position: int, event: e.JobsTransformed, cluster: int, proc: int) -> Sentence:
    """What a transform changed of a job."""
    place = 0
    for first, last in event.procs:
        if proc <= last:
            place += proc - first
            break
        place += last - first + 1
    after, before = dict(event.changes), dict(event.before)
    for values, columns in ((after, event.columns), (before, event.columns_before)):
        values |= {name: texts[place] for name, texts in unpack(columns).items() if place < len(texts)}
    changes = [_change(name, before.get(name, ""), text) for name, text in after.items() if text]
    facts = {
        "job": f"{cluster}.{proc}",
        "transform": event.transform,
        "changes": "; ".join(changes) or "nothing",
        "skipped": "; ".join(event.skipped),
        "evidence": ", ".join(map(str, event.evidence)),
    }
    return Sentence(event.at, position, "transformed", facts, event.cause, event.stimulus)


def _change(name: str, before: str, after: str) -> str:
    was = f" (was {shortened(before, LONGEST)})" if before else ""
    return f"{name} = {shortened(after, LONGEST)}{was}"


def refusal(events: Iterable[e.LoggedEvent], cluster: int) -> Answer | None:
    """Why a submission never came into the queue; None: the schedd did not refuse it."""
    known = list(events)
    notes = {position: event for position, event in known if isinstance(event, e.EvaluationRecorded)}
    for position, event in known:
        if isinstance(event, e.SubmissionRefused) and event.cluster == cluster:
            note = notes.get(event.evidence)
            read = "" if note is None else ", ".join(f"{name} = {text}" for name, text in note.read.items())
            facts = {
                "cluster": str(cluster),
                "user": event.user,
                "setting": event.setting,
                "job": event.job,
                "reason": event.reason,
                "expression": "" if note is None else note.expression,
                "values": shortened(read, 4 * LONGEST),
                "evidence": str(event.evidence or ""),
            }
            sentence = Sentence(event.at, position, "submission_refused", facts, event.cause, event.stimulus)
            return Answer((sentence,), (sentence,))
    return None
