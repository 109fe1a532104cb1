"""Describe how the schedd's transforms changed a submission, and why the schedd rejected it."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain import events as e
from ...domain.state.proc_ads import unpack
from ..narration.formatting import shorten_text
from ..narration.sentences import Explanation, Sentence

LONGEST = 120  #: the maximum number of characters of a displayed value


def transform_sentence(position: int, event: e.JobsTransformed, cluster: int, proc: int) -> Sentence:
    """Return a sentence about the changes that a transform made to a job."""
    place = 0
    for first, last in event.procs:
        if proc <= last:
            place += proc - first
            break
        place += last - first + 1
    changes_after, values_before = dict(event.changes), dict(event.before)
    for values, columns in ((changes_after, event.columns), (values_before, event.columns_before)):
        values |= {name: texts[place] for name, texts in unpack(columns).items() if place < len(texts)}
    changes = [_change(name, values_before.get(name, ""), text) for name, text in changes_after.items() if text]
    facts = {
        "job": f"{cluster}.{proc}",
        "transform": event.transform,
        "changes": "; ".join(changes) or "nothing",
        "skipped": "; ".join(event.skipped),
        "evidence": ", ".join(map(str, event.evidence)),
    }
    return Sentence(event.at, position, "transformed", facts, event.cause, event.stimulus)


def _change(name: str, value_before: str, value_after: str) -> str:
    before_text = f" (was {shorten_text(value_before, LONGEST)})" if value_before else ""
    return f"{name} = {shorten_text(value_after, LONGEST)}{before_text}"


def refusal(events: Iterable[e.LoggedEvent], cluster: int) -> Explanation | None:
    """Return why the schedd rejected a submission, or None if it did not."""
    all_events = list(events)
    notes = {position: event for position, event in all_events if isinstance(event, e.EvaluationRecorded)}
    for position, event in all_events:
        if isinstance(event, e.SubmissionRefused) and event.cluster == cluster:
            note = notes.get(event.evidence)
            values_text = "" if note is None else ", ".join(f"{name} = {text}" for name, text in note.read.items())
            facts = {
                "cluster": str(cluster),
                "user": event.user,
                "setting": event.setting,
                "job": event.job,
                "reason": event.reason,
                "expression": "" if note is None else note.expression,
                "values": shorten_text(values_text, 4 * LONGEST),
                "evidence": str(event.evidence or ""),
            }
            sentence = Sentence(event.at, position, "submission_refused", facts, event.cause, event.stimulus)
            return Explanation((sentence,), (sentence,))
    return None
