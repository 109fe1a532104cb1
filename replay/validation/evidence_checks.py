"""Check that the evidence of a decision is an expression that may decide the transition and has the recorded value.

The expression is evaluated again with the recorded values of the attributes that it read, so this needs no state.
Expressions with random numbers, names computed at run time, or local time are skipped, because they do not depend on
the recorded values alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ...domain import events as e
from ...domain.classad import Context, Expression, unparse
from ...domain.classad.analysis import value_or_error
from ...domain.classad.survey import survey
from ...domain.classad.tree import Attribute, Call, children
from ...domain.classad.value_evidence import is_cut
from ...domain.classad.values import truth
from ...domain.schedd.job_policy import PolicyValue, constant_value
from ...domain.state.caches import ad_from_attributes, parse_cached
from ...domain.state.cluster import Cluster
from ...domain.state.records import Slot
from ..narration.sentence_tables import cause_words
from .job_policy_checks import evidence_problem, policies_of_row
from .judged_pool import JudgedPool, normalized_text, policy, rule, truth_of
from .transition_rules import ALWAYS_READ, DECIDED, OWN_POLICY, VARIANT, WITHOUT, DecidingExpressions, Truth

_BEYOND = frozenset(
    {"eval", "unparse", "evalineachcontext", "countmatches", "usermap", "userhome", "abstime", "currenttime", "daytime",
     "timezoneoffset", "splittime", "formattime", "getyear", "getmonth", "getdayofyear", "getdayofmonth",
     "getdayofweek", "gethours", "getminutes", "getseconds"}
)  # fmt: skip
"""Functions whose results also depend on computed names, maps or the time zone, not only on arguments and time."""


@rule(e.EvaluationRecorded)
def check_recorded(pool: JudgedPool, event: e.EvaluationRecorded) -> None:
    pool.notes[pool.position] = event
    text = reevaluation_problem(event)
    if text:
        pool.report(event.name, "decision", text)


def check_slot_evidence(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Check that a slot transition's evidence was recorded by the same stimulus, is the slot's own expression, and has
    a value that leads to the transition. A decision that depends on sensor readings must have evidence."""
    expressions = DECIDED.get(event.cause)
    if event.evidence:
        note = pool.notes.get(event.evidence)
        if note is None:
            text = f"this stimulus recorded no evidence at {event.evidence}"
            pool.report(slot, "evidence", text)
        else:
            _check_note(pool, slot, event, expressions, note)
    elif (
        expressions is not None
        and expressions.always
        and any(_always_reads_attribute(slot, name) for name in expressions.names)
    ):
        pool.report(slot, "evidence", f"it has no evidence that {cause_words(event.cause)}")


def _check_note(
    pool: JudgedPool,
    slot: Slot,
    event: e.SlotTransitioned,
    expressions: DecidingExpressions | None,
    note: e.EvaluationRecorded,
) -> None:
    name = note.name.lower().removesuffix(VARIANT)
    if expressions is None or name not in expressions.names:
        pool.report(slot, "evidence", f"{note.name} does not decide whether {cause_words(event.cause)}")
    elif truth_of(note.value) not in expressions.truths:
        pool.report(slot, "evidence", f"it says that {cause_words(event.cause)}, but {note.name} was {note.value}")
    machine = pool.state.machines.get(slot.machine)
    drain = None if machine is None else machine.drain
    own = drain.start if name == "start" and drain is not None and drain.start else policy(slot, note.name.lower())
    if own is not None and normalized_text(own) != normalized_text(note.expression):
        pool.report(slot, "evidence", f"its evidence is {note.name} = {note.expression}, but its {note.name} is {own}")


def check_job_evidence(pool: JudgedPool, cluster: Cluster, proc: int, event: e.JobsTransitioned | e.JobExited) -> None:
    """Check the evidence of a transition by a job's own policy. Without evidence, the expression must be a constant
    that leads to the transition."""
    truths, policies = OWN_POLICY.get(event.row, {}), policies_of_row(event.row)
    if policies and not evidence_problem(pool, cluster, proc, policies, event.evidence, event.at):
        return  # a periodic policy that was evaluated at the end of the run
    if not event.evidence:
        _check_constants(pool, cluster, proc, event.row, truths)
        return
    note = pool.notes.get(event.evidence)
    name = "" if note is None else note.name.lower()
    if note is None:
        text = f"this stimulus recorded no evidence at {event.evidence}"
    elif name not in truths:
        text = f"{note.name} does not decide {event.row}"
    elif truth_of(note.value) not in truths[name]:
        text = f"{event.row} follows, but {note.name} was {note.value}"
    elif cluster.is_uniform(name) and normalized_text(cluster.requested_value(proc, name)) != normalized_text(
        note.expression
    ):
        value_text = cluster.requested_value(proc, name) or "not there"
        text = f"its evidence is {note.name} = {note.expression}, but its {note.name} is {value_text}"
    else:
        return
    pool.report((cluster.id, proc), "evidence", text)


def _check_constants(
    pool: JudgedPool, cluster: Cluster, proc: int, row: str, wanted_truths: Mapping[str, tuple[Truth, ...]]
) -> None:
    if not wanted_truths or not all(cluster.is_uniform(name) for name in wanted_truths):
        return
    for name, truths in wanted_truths.items():
        text = cluster.requested_value(proc, name)
        value = constant_value(text) if text else PolicyValue(WITHOUT[name], "")
        if value is None or value.truth in truths:
            return
    known_texts = ", ".join(f"{name} = {cluster.requested_value(proc, name) or 'not there'}" for name in wanted_truths)
    pool.report((cluster.id, proc), "evidence", f"{row} follows without evidence, but the job has {known_texts}")


def _always_reads_attribute(slot: Slot, name: str) -> bool:
    texts = [text for key in (name, name + VARIANT) if (text := policy(slot, key))]
    return bool(texts) and all(_text_reads_attribute(text) for text in texts)


def _text_reads_attribute(text: str) -> bool:
    parsed = parse_cached(text)
    return parsed is not None and any(
        node.key in ALWAYS_READ and (node.base is None or unparse(node.base).lower() == "my")
        for node in _nodes(parsed)
        if isinstance(node, Attribute)
    )


def reevaluation_problem(note: e.EvaluationRecorded) -> str:
    """Return an error message if the evidence's expression has another truth value when it is evaluated again. Return
    "" if the value is the same, or if it depends on more than the recorded values."""
    reparsed = parse_cached(note.expression)
    if reparsed is None:
        return f"{note.name} = {note.expression} is not an expression"
    if not _is_determined(note.expression) or any(is_cut(text) for text in note.read.values()):
        return ""
    my_attributes: dict[str, str] = {}
    target: dict[str, str] = {}
    for name, text in note.read.items():
        scope, _, short_name = name.rpartition(".")
        (target if scope.upper() == "TARGET" else my_attributes)[short_name] = text
    second = note.at // 1_000_000
    value = value_or_error(
        reparsed, ad_from_attributes(my_attributes), ad_from_attributes(target), Context(now=second, seed=second)
    )
    if truth(value) == truth_of(note.value):
        return ""
    values_text = ", ".join(f"{name} = {text}" for name, text in note.read.items()) or "nothing"
    return f"{note.expression} is recorded as {note.value}, but with {values_text} it is {unparse(value)}"


@lru_cache(4096)
def _is_determined(text: str) -> bool:
    parsed = parse_cached(text)
    return (
        parsed is not None
        and not survey(parsed).is_random
        and not any(isinstance(node, Call) and node.key in _BEYOND for node in _nodes(parsed))
    )


def _nodes(expression: Expression) -> Iterator[Expression]:
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children(node))
