"""``poolbook q -better-analyze``: why jobs do not run, in the format of condor_q -better-analyze.

For a rejected job, it prints the expected result of the next negotiation cycle: how many slots remain after each
condition of Requirements, how many slots reject the job, and how many are in use. If that cycle would match the job, it
prints the counts of the last rejection instead, with its time. ``-better-analyze:summary`` matches jobs with the
current slots. Source of its tables: HTCondor's queue.cpp and jobmatch.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ...replay.why.job import RejectionAnalysis as RejectionAnalysis
from .autocluster_table import Signing, group_jobs
from .cells import (
    HELD,
    IDLE,
    RUNNING,
    SUSPENDED,
    TRANSFERRING_OUTPUT,
    CellContext,
    has_flag,
    hold_reason,
    job_id,
    number,
    text,
    value_text,
)
from .options import Arguments, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression
    from ...domain.events import Unmatched

WIDTH = 80
_INDENT = 4
_UNIT_ATTRIBUTES = {"requestmemory": " (mb)", "requestdisk": " (kb)", "imagesize": " (kb)", "diskusage": " (kb)"}
_STEP_REFERENCE = 7


class AnalysisStep(NamedTuple):
    """A part of an expression: its text, with other steps in brackets. A condition that must be true also has the text
    that identifies it in a cycle's result."""

    text: str
    condition: str


def analysis(ad: ClassAd, judge: Callable[[int, int], RejectionAnalysis] | None, display: CellContext) -> Iterator[str]:
    """Yield the analysis of one job.

    :param judge: returns the log's record of a job, given its cluster and proc
    """
    cluster, proc = int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)
    name, short_id = f"{cluster:03d}.{proc:03d}", f"{cluster}.{proc:03d}"
    judged = RejectionAnalysis() if judge is None else judge(cluster, proc)
    requirements = ad.get("Requirements")
    analysis_steps = [] if requirements is None else steps(requirements)
    if requirements is not None:
        yield from _expression(ad, requirements, analysis_steps, short_id)
    refused_at = judged.refusal
    refusal = None if refused_at is None else judged.reason or refused_at[1]
    if refused_at is not None and refusal is not None:
        if judged.now and judged.reason is None:
            yield f"The negotiation cycle at {_moment(refused_at[0], display)} found this result; now {judged.now}.\n\n"
        yield from _conditions(refusal, analysis_steps, short_id)
        yield from _summary(refusal, name)
        if judged.lacking:
            yield f"WARNING:  Be advised:\n   {judged.lacking[0].upper()}{judged.lacking[1:]}.\n\n"
    yield from _status(ad, refusal, name)
    yield from _last_match_and_rejection(judged, number(ad, "JobStatus") == IDLE, display)


def wrap_expression(source: str, indent: int = _INDENT, width: int = WIDTH) -> str:
    """Split an expression into lines after && and ||, indented by the nesting of its brackets."""
    lines, line, depth, begin, quoted = [], " " * indent, 0, 0, False
    pieces: list[tuple[str, int]] = []
    for at, char in enumerate(source):
        if char == '"' and source[at - 1 : at] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {"(": 1, ")": -1}.get(char, 0)
        if source[at - 1 : at + 1] in ("&&", "||"):
            pieces.append((source[begin : at + 1].lstrip(), depth))
            begin = at + 1
    pieces.append((source[begin:].lstrip(), depth))
    deep = 0
    for piece, after in pieces:
        is_blank = bool(line.strip())
        if is_blank and len(line) + 1 + len(piece) >= width:
            lines.append(line)
            line, is_blank = " " * (indent + 2 * deep), False
        line += f" {piece}" if is_blank else piece
        deep = after
    return "\n".join([*lines, line])


def steps(requirements: Expression) -> list[AnalysisStep]:
    """Return the conditions of an expression and their combinations by && and ||, in the order of evaluation."""
    from ...domain.classad import unparse
    from ...domain.classad.tree import Binary, Parentheses

    parts: list[AnalysisStep] = []
    numbers: list[int] = []
    pending_nodes: list[tuple[Expression, bool, bool]] = [(requirements, False, True)]
    while pending_nodes:
        node, are_parts_done, is_needed = pending_nodes.pop()
        while isinstance(node, Parentheses):
            node = node.inner
        if not isinstance(node, Binary) or node.op not in ("&&", "||"):
            source = unparse(node)
            parts.append(AnalysisStep(source, source if is_needed else ""))
        elif are_parts_done:
            right_step, first = numbers.pop(), numbers.pop()
            parts.append(AnalysisStep(f"[{first}] {node.op} [{right_step}]", unparse(node) if is_needed else ""))
        else:
            both = is_needed and node.op == "&&"
            pending_nodes += [(node, True, is_needed and not both), (node.right, False, both), (node.left, False, both)]
            continue
        numbers.append(len(parts) - 1)
    return parts


def _expression(ad: ClassAd, requirements: Expression, analysis_steps: list[AnalysisStep], name: str) -> Iterator[str]:
    from ...domain.classad import unparse

    yield f"The Requirements expression for job {name} is\n\n{wrap_expression(unparse(requirements))}\n\n"
    for at, step in enumerate(analysis_steps):
        label = f"[{at}]"
        yield f"    {label:<{_STEP_REFERENCE}}: {step.text}\n"
    read_names = sorted(_referenced_job_attributes(ad, requirements), key=str.lower)
    if read_names:
        yield f"\nJob {name} defines the following attributes:\n\n"
        for attribute in read_names:
            yield f"    {attribute} = {value_text(ad[attribute])}{_UNIT_ATTRIBUTES.get(attribute.lower(), '')}\n"
    yield "\n"


def _referenced_job_attributes(ad: ClassAd, requirements: Expression) -> list[str]:
    from ...domain.classad import unparse
    from ...domain.classad.tree import Attribute, children

    names: dict[str, str] = {}
    pending_nodes = [requirements]
    while pending_nodes:
        node = pending_nodes.pop()
        if isinstance(node, Attribute):
            scope = "" if node.base is None else unparse(node.base).lower()
            if scope in ("", "my") and node.name in ad:
                names.setdefault(node.name.lower(), node.name)
        pending_nodes.extend(children(node))
    return list(names.values())


def _conditions(refusal: Unmatched, analysis_steps: list[AnalysisStep], name: str) -> Iterator[str]:
    from ...replay.narration.evaluation_texts import without_brackets

    yield f"The Requirements expression for job {name} reduces to these conditions:\n\n"
    yield "        Slots\nStep   Matched  Condition\n----- --------- ---------\n"
    numbers = {step.condition: at for at, step in reversed(list(enumerate(analysis_steps)))}
    for clause in refusal.clauses:
        condition = without_brackets(clause.text)
        at = numbers.get(condition)
        label = "" if at is None else f"[{at}]"
        text = condition if at is None else analysis_steps[at].text
        yield f"{label:<5} {clause.alone:9d}  {text}\n"
    yield "\n\n"


def _summary(refusal: Unmatched, name: str) -> Iterator[str]:
    slots_left = refusal.clauses[-1].left if refusal.clauses else refusal.slots
    fitting_count = max(0, slots_left - refusal.refused_by_slot)
    denied = refusal.denied
    own_count = 0 if denied is None else min(fitting_count, denied.own)
    other_count = 0 if denied is None else denied.policy + denied.rank + denied.priority + denied.never
    other_count = min(fitting_count - own_count, other_count + refusal.taken)
    yield f"{name}:  Run analysis summary ignoring user priority.  Of {refusal.slots} slots,\n"
    yield f"  {refusal.slots - slots_left:5d} slots are rejected by your job's requirements\n"
    yield f"  {refusal.refused_by_slot:5d} slots reject your job because of their own requirements\n"
    if own_count:
        yield f"  {own_count:5d} slots match and are already running your jobs\n"
    if other_count:
        yield f"  {other_count:5d} slots match but are serving other users\n"
    yield f"  {fitting_count - own_count - other_count:5d} slots match and are willing to run your job\n\n"
    if not slots_left:
        yield "WARNING:  Be advised:\n   No machines matched the job's constraints\n\n"


_RESULT_TEXTS = {RUNNING: "Job is running.", HELD: "Job is held."}


def _status(ad: ClassAd, refusal: Unmatched | None, name: str) -> Iterator[str]:
    status = number(ad, "JobStatus")
    message = _RESULT_TEXTS.get(int(status or 0))
    if message is not None:
        yield f"\n{name}:  {message}\n\n"
    if status == HELD:
        yield f"Hold reason: {hold_reason(ad) or ''}\n\n"
    if status == IDLE and refusal is None:
        yield f"\n{name}:  Job has not yet been considered by the matchmaker.\n\n"


def _last_match_and_rejection(judged: RejectionAnalysis, is_waiting: bool, display: CellContext) -> Iterator[str]:
    """Yield when the job was last matched and rejected. If the job is not idle, a rejection after its match was of
    another job in its autocluster."""
    from ...domain.negotiator.reported_rejections import rejection_reason

    refused_at = judged.refusal[0] if judged.refusal is not None else 0
    if judged.matched:
        yield f"Last successful match: {_moment(judged.matched, display)}\n"
    elif refused_at:
        yield "No successful match recorded.\n"
    if judged.refusal is not None and refused_at > judged.matched and is_waiting:
        yield f"Last failed match: {_moment(refused_at, display)} from {judged.pool}\n"
        yield f"Reason for last match failure: {rejection_reason(judged.refusal[1])}\n"
        yield from (f"    {limit}\n" for limit in judged.limits)
        if judged.now:
            yield f"Now {judged.now}.\n"


def _moment(at: int, display: CellContext) -> str:
    when = datetime.fromtimestamp(at // 1_000_000, display.timezone)
    return f"{when:%a %b} {when.day:2d} {when:%H:%M:%S %Y}"


_STATUS_TEXTS = (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED)
_QUALIFIERS = ("priority", "summary", "reverse")
_JOB_COLUMNS = (
    ("", " Autocluster", "   Matches  ", "  Machine  ", "  Running  ", "  Serving ", "", ""),
    (" JobId", "Members/Idle", "Requirements", "Rejects Job", " Users Job ", "Other User", "Available", "Owner"),
    ("-" * 13, "-" * 12, "-" * 12, "-" * 11, "-" * 11, "-" * 10, "-" * 9, "-" * 5),
)
_SLOT_COLUMNS = (
    ("", "Slot", "Slot's Req ", "  Job's Req ", "Both   "),
    ("Name", "Type", "Matches Job", "Matches Slot", "Match %"),
    ("-" * 16, "-" * 4, "-" * 12, "-" * 12, "-" * 10),
)


class AnalyzedSlots(NamedTuple):
    ads: Sequence[ClassAd]
    signing: Signing  #: returns a job's significant attributes for the negotiator


def analysis_options(arguments: Arguments, names: Iterable[str]) -> frozenset[str]:
    """Return the analysis qualifiers after the colon: summary, reverse, priority.

    :raises UsageError: a qualifier is unknown
    """
    option = arguments.last(*names)
    qualifiers = [] if option is None or option.qualifier is None else option.qualifier.split(",")
    chosen_names = [next((name for name in _QUALIFIERS if word and name.startswith(word)), "") for word in qualifiers]
    if option is not None and "" in chosen_names:
        raise UsageError(f"{option.spelling}: unknown analysis; use {', '.join(_QUALIFIERS)}")
    if "reverse" in chosen_names and "summary" not in chosen_names:
        raise UsageError("poolbook q: `poolbook why SLOT` explains why a slot has no job; :summary,reverse counts jobs")
    return frozenset(chosen_names)


def job_group_lines(jobs: Iterable[ClassAd], slots: AnalyzedSlots, display: CellContext) -> Iterator[str]:
    """Yield a line for each autocluster: how many slots it accepts and, of these, reject it, run it, or are
    available."""
    static_slots = [ad for ad in slots.ads if not has_flag(ad, "DynamicSlot")]
    yield f"Analyzing matches for {len(static_slots)} slots\n"
    for head in _JOB_COLUMNS:
        yield "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n".format(*head)
    matches = _match_function(display)
    for members in _jobs_by_autocluster(jobs, slots.signing):
        job, states = members[0], [number(member, "JobStatus") for member in members]
        accepted_slots = [slot for slot in static_slots if matches(job, slot)]
        matched_slots = [slot for slot in accepted_slots if matches(slot, job)]
        users = [user for slot in matched_slots if (user := text(slot, "RemoteUser")) is not None]
        own_count = users.count(text(job, "User") or "")
        runs = sum(state in _STATUS_TEXTS for state in states)
        yield "{:<13} {:<12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n".format(
            job_id(job) or "",
            f"{len(members)}/{states.count(IDLE)}",
            len(accepted_slots),
            len(accepted_slots) - len(matched_slots),
            (f"{runs}/" if runs else "") + str(own_count),
            len(users) - own_count,
            len(matched_slots) - len(users),
            text(job, "Owner") or "",
        )


def slot_match_lines(jobs: Iterable[ClassAd], slots: AnalyzedSlots, display: CellContext) -> Iterator[str]:
    """Yield a line for each slot: how many jobs it accepts, how many jobs accept it, and the percentage that match."""
    kinds = _jobs_by_autocluster(jobs, slots.signing)
    total = sum(map(len, kinds))
    yield f"Analyzing matches for {total} jobs\n"
    static = [ad for ad in slots.ads if not has_flag(ad, "DynamicSlot")]
    widths = [max(len(text(ad, "Machine") or "") + 7, len(text(ad, "Name") or "")) for ad in static]
    width = max(16, *widths)
    line = f"{{:<{width}.{width}}} {{:>4}} {{:>12.12}} {{:>12.12}} {{:>10.10}}\n"
    for head in _SLOT_COLUMNS:
        yield line.format(*head)
    matches = _match_function(display)
    for slot in static:
        accepting_counts = [len(kind) if matches(slot, kind[0]) else 0 for kind in kinds]
        accepted_counts = [len(kind) if matches(kind[0], slot) else 0 for kind in kinds]
        matched_count = sum(map(min, accepting_counts, accepted_counts))
        share = f"{100 * matched_count / total:.2f}" if total else "0.00"
        kind = "Part" if has_flag(slot, "PartitionableSlot") else "Stat"
        yield line.format(text(slot, "Name") or "", kind, str(sum(accepting_counts)), str(sum(accepted_counts)), share)


def _jobs_by_autocluster(jobs: Iterable[ClassAd], signing: Signing) -> list[list[ClassAd]]:
    """Return the jobs grouped by autocluster, in the order of their AutoClusterIds, if any."""
    return sorted(group_jobs(jobs, signing).values(), key=lambda own: int(number(own[0], "AutoClusterId") or 0))


def _match_function(display: CellContext) -> Callable[[ClassAd, ClassAd], bool]:
    from ...domain.classad.matching import requirements_met

    context = display.context()
    return lambda my, target: requirements_met(my, target, context)
