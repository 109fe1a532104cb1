"""``poolbook q -better-analyze``: why jobs do not run, in the format of condor_q -better-analyze.

The analysis matches each job with the current slots, and counts the slots that each condition of Requirements accepts.
It also shows the job's last match and last rejection. ``:reverse`` matches each slot with the jobs. Source of the
output: HTCondor's queue.cpp, jobmatch.cpp and expr_analyze.cpp.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ...domain.units import SECOND
from ...replay.why.job import RejectionAnalysis as RejectionAnalysis
from .autocluster_table import Signing, group_jobs
from .cells import (
    COMPLETED,
    HELD,
    IDLE,
    REMOVED,
    RUNNING,
    SUSPENDED,
    TRANSFERRING_OUTPUT,
    CellContext,
    evaluate,
    has_flag,
    hold_reason,
    job_id,
    number,
    text,
)
from .formats import parse_expression
from .job_selection import satisfies
from .options import Arguments, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context, References
    from .condition_steps import Step

WIDTH = 80
_INDENT = 4
_UNITS = {"RequestMemory": " (mb)", "RequestDisk": " (kb)", "Memory": " (mb)", "Disk": " (kb)"}
_WITHIN_LIMITS = "WithinResourceLimits"
_SLOT_EXPRESSIONS = ("Start", _WITHIN_LIMITS)
_SLOT_NAME = re.compile(r"[\w.-]+@[\w.@-]*|[\w-]+\.[\w-]+\.[\w.-]*", re.ASCII)
_UNIVERSES_OF_SCHEDD = (7, 12)  # scheduler and local


class AnalyzedSlots(NamedTuple):
    """The slots to analyze, without dynamic slots, unless one is named."""

    ads: Sequence[ClassAd]
    signing: Signing  #: returns a job's significant attributes for the negotiator
    machine: str = ""  #: the slot or machine that -machine names

    @property
    def shows_attributes(self) -> bool:
        return bool(self.machine) or len(self.ads) == 1


def analyzed_slots(ads: Iterable[ClassAd], arguments: Arguments, signing: Signing, context: Context) -> AnalyzedSlots:
    """Return the slots that -machine and -mconstraint select among some ads."""
    machine, constraint = arguments.value("machine"), arguments.value("mconstraint")
    if not machine and _SLOT_NAME.fullmatch(constraint):
        machine, constraint = constraint, ""
    condition = parse_expression("-mconstraint", constraint or "true")
    selected = [
        ad
        for ad in ads
        if (not machine or machine.lower() in ((text(ad, "Name") or "").lower(), (text(ad, "Machine") or "").lower()))
        and ("@" in machine or not has_flag(ad, "DynamicSlot"))
        and satisfies(condition, ad, context)
    ]
    return AnalyzedSlots(selected, signing, machine)


Judge = Callable[["ClassAd"], RejectionAnalysis]
"""A function from a job's ad to the log's record of its matches and rejections."""
AutoclusterOf = Callable[["ClassAd"], Sequence["ClassAd"]]
"""A function from a job's ad to the jobs that the negotiator treats like this one."""


def analysis_lines(
    jobs: Sequence[ClassAd],
    qualifiers: Collection[str],
    slots: AnalyzedSlots,
    judge: Judge | None,
    autocluster_of: AutoclusterOf,
    display: CellContext,
) -> Iterator[str]:
    """Yield the analysis of jobs that the qualifiers request: of each job or slot, or a table."""
    is_table = "summary" in qualifiers or (
        "reverse" in qualifiers and "better" not in qualifiers and len(slots.ads) > 1
    )
    if "reverse" in qualifiers:
        return (slot_match_lines if is_table else slot_analysis)(jobs, slots, display)
    if is_table:
        return job_group_lines(jobs, slots, display)
    judged = ((job, RejectionAnalysis() if judge is None else judge(job)) for job in jobs)
    is_better = "better" in qualifiers
    return (line for job, facts in judged for line in analysis(job, slots, facts, autocluster_of, display, is_better))


class _Matches:
    """How a job and the slots match: numbers of slots, by the result, and the slots that the job fits if drained."""

    def __init__(self, job: ClassAd, slots: Sequence[ClassAd], context: Context) -> None:
        from ...domain.classad.matching import requirements_met

        self.counts: Counter[str] = Counter()
        self.drained: dict[int, ClassAd] = {}  #: by the slot's index
        user = text(job, "User")
        for at, slot in enumerate(slots):
            drained = _drained_if_needed(job, slot, context)
            if drained is not None:
                self.drained[at] = slot = drained
            if not requirements_met(job, slot, context):
                self.counts["rejected by job"] += 1
                continue
            self.counts["accepted by job"] += 1
            if not requirements_met(slot, job, context):
                self.counts["rejected by slot"] += 1
                continue
            self.counts["matched"] += 1
            self.counts["offline"] += has_flag(slot, "Offline")
            remote_user = text(slot, "RemoteUser")
            if remote_user is not None:
                self.counts["own" if remote_user == user else "others"] += 1
            else:
                self.counts["available" if drained is None else "drained"] += 1


def _drained_if_needed(job: ClassAd, slot: ClassAd, context: Context) -> ClassAd | None:
    """Return the ad of a partitionable slot without its jobs, if the job fits in the slot only then."""
    if not has_flag(slot, "PartitionableSlot") or slot.eval(_WITHIN_LIMITS, job, context) is not False:
        return None
    drained = _drained(slot)
    return None if drained.eval(_WITHIN_LIMITS, job, context) is False else drained


def _drained(slot: ClassAd) -> ClassAd:
    from ...domain.classad import ClassAd, parse

    resources = (text(slot, "MachineResources") or "Cpus Memory Disk").split()
    return ClassAd({resource: parse(f"TotalSlot{resource}") for resource in resources}, chained=slot)


def analysis(
    ad: ClassAd,
    slots: AnalyzedSlots,
    judged: RejectionAnalysis,
    autocluster_of: AutoclusterOf,
    display: CellContext,
    is_better: bool,
) -> Iterator[str]:
    """Yield the analysis of one job.

    :param is_better: whether to explain Requirements although they reject no slot
    """
    cluster, proc = int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)
    name, context = f"{cluster:03d}.{proc:03d}", display.context()
    is_schedds = number(ad, "JobUniverse") in _UNIVERSES_OF_SCHEDD
    matches = _Matches(ad, () if is_schedds else slots.ads, context)
    if (is_better or matches.counts["rejected by job"]) and "Requirements" in ad:
        yield from _requirements(ad, slots, matches, f"{cluster}.{proc:03d}", context)
    if is_schedds:
        yield "\nWARNING: Analysis is not complete for Scheduler or Local universe jobs.\n"
    yield "\n"
    if not is_schedds and slots.ads:
        yield from _summary(slots.ads, matches.counts, name)
        if judged.lacking:
            yield f"   {judged.lacking[0].upper()}{judged.lacking[1:]}.\n"
    yield "\n"
    yield from _status(ad, judged, name)
    yield from _last_match_and_rejection(judged, ad, autocluster_of, display)


def wrap_expression(source: str, indent: int = _INDENT, width: int = WIDTH) -> str:
    """Split a text into lines after && and ||, indented by the nesting of its brackets, as condor_q does: a line break
    that the text already has does not start a new line."""
    buffer, at, last, line_start = source, 0, 0, 0
    column = indent_at_last = indent
    previous, is_quoted, was_operator = "", False, False
    while at < len(buffer):
        char = buffer[at]
        is_quoted ^= char == '"' and previous != "\\"
        is_operator = not is_quoted and char in "&|" and char == previous
        if not is_quoted:
            indent += {"(": 2, ")": -2}.get(char, 0)
        if column >= width and last != line_start:
            blanks = " " * max(indent_at_last, 0)
            buffer = f"{buffer[:last]}\n{blanks}{buffer[last + 1 :]}"
            last = line_start = last + 1
            at += len(blanks)
            column = at - line_start if blanks else 0
            indent_at_last = indent
        if was_operator:
            last, indent_at_last = at, indent
        previous, was_operator = char, is_operator
        at, column = at + 1, column + 1
    return buffer


def _numbered_steps(steps: Sequence[Step]) -> Iterator[str]:
    for at, step in enumerate(steps):
        yield f"    {f'[{at}]':<6.6} : {step.numbered_text}\n"


def _requirements(ad: ClassAd, slots: AnalyzedSlots, matches: _Matches, name: str, context: Context) -> Iterator[str]:
    from ...domain.classad import unparse
    from ...domain.classad.analysis import references_or_empty
    from .condition_steps import split

    requirements = ad["Requirements"]
    steps = split(ad, requirements)
    yield f"The Requirements expression for job {name} is\n\n    {wrap_expression(unparse(requirements))}\n\n"
    yield from _numbered_steps(steps)
    yield f"\nJob {name} defines the following attributes:\n\n"
    references = references_or_empty(requirements, ad)
    yield from _attributes(ad, references.internal, ("Requirements",))
    names = _names_in_target(references)
    for at, slot in enumerate(slots.ads if slots.shows_attributes else ()):
        yield from _target_attributes(slot, names, text(slot, "Name") or "Target", "", ad, context)
        if at in matches.drained:
            yield from _target_attributes(
                matches.drained[at], names, text(slot, "Name") or "Target", " when drained", ad, context
            )
    yield f"\nThe Requirements expression for job {name} reduces to these conditions:\n\n"
    yield from _decisive_steps(ad, steps, slots.ads, context, list(matches.drained.values()), "Slot")


def _attributes(
    ad: ClassAd, names: Iterable[str], hidden: Sequence[str], context: Context | None = None
) -> Iterator[str]:
    """Yield the attributes in alphabetical order; with a context, their values."""
    from ...domain.classad.unparse import unparse_old

    for name in sorted(set(names) - set(hidden), key=str.lower):
        value = ad[name] if context is None else evaluate(ad, name, context)
        yield f"    {name} = {unparse_old(value)}{_UNITS.get(name, '') if name.startswith('Request') else ''}\n"


def _names_in_target(references: References) -> list[str]:
    names = (name.rpartition(".")[2] for name in references.external)
    return [name for _, name in sorted({name.lower(): name for name in names}.items())]


def _target_attributes(
    target: ClassAd, names: Iterable[str], name: str, state: str, ad: ClassAd, context: Context
) -> Iterator[str]:
    from ...domain.classad.analysis import value_or_error
    from ...domain.classad.unparse import unparse_old

    present = [name for name in names if name in target]
    if present:
        yield f"\n{name} has the following attributes{state}:\n\n"
    for attribute in present:
        value = unparse_old(value_or_error(target[attribute], target, ad, context))
        unit = "" if attribute.startswith("Request") else _UNITS.get(attribute, "")
        yield f"    TARGET.{attribute} = {value}{unit}\n"


def _decisive_steps(
    ad: ClassAd,
    steps: Sequence[Step],
    targets: Sequence[ClassAd],
    context: Context,
    drained: Sequence[ClassAd],
    kind: str,
) -> Iterator[str]:
    from .condition_steps import decisive_steps

    shown_steps = decisive_steps(ad, steps, targets, context, drained)
    yield f"{'':7}{'  Slots      If    ' if drained else f'{kind:>5}s'}\n"
    yield f"Step  {' Matched   Drained ' if drained else ' Matched '} Condition\n"
    yield f"----- {'--------- ---------' if drained else '---------'} ---------\n"
    for at, step in shown_steps:
        matched = f"{step.accepted[0]:9d} {step.accepted[1]:9d}" if drained else f"{step.accepted[0]:9d}"
        if step.constant is not None:
            words = ("not now", "now") if step.depends_on_time else ("never", "always")
            matched = f"{words[step.constant]:>9}"
        yield f"{f'[{at}]':<5.5} {matched}  {step.text}\n"


def _summary(slots: Sequence[ClassAd], counts: Counter[str], name: str) -> Iterator[str]:
    machines = len({text(slot, "Machine") for slot in slots})
    rows = (
        ("rejected by job", "are rejected by your job's requirements", True),
        ("rejected by slot", "reject your job because of their own requirements", True),
        ("own", "match and are already running your jobs", False),
        ("others", "match but are serving other users", bool(counts["own"])),
        ("offline", "match but are currently offline", False),
        ("available", "match and are willing to run your job", True),
        ("drained", "would match if drained", False),
    )
    yield f"\n{name}:  Run analysis summary ignoring user priority.  Of {len(slots)} slots on {machines} machines,\n"
    for key, words, is_always_shown in rows:
        if counts[key] or is_always_shown:
            yield f"  {counts[key]:5d} slots {words}\n"
    if not counts["accepted by job"]:
        yield "\nWARNING:  Be advised:\n   No machines matched the job's constraints\n"
    elif not counts["matched"]:
        yield (
            "\nWARNING:  Be advised:\n   Job did not match any machines' constraints\n   To see why, pick a machine "
            "that you think should match and add\n     -reverse -machine <name>\n   to your query.\n"
        )


_RUNNING_STATUSES = (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED)
_RESULT_TEXTS = dict.fromkeys(_RUNNING_STATUSES, "Job is running.") | {
    HELD: "Job is held.", REMOVED: "Job is removed.", COMPLETED: "Job is completed.",
}  # fmt: skip


def _status(ad: ClassAd, judged: RejectionAnalysis, name: str) -> Iterator[str]:
    status = int(number(ad, "JobStatus") or 0)
    message = _RESULT_TEXTS.get(status)
    if status == HELD and (reason := hold_reason(ad)):
        message = f"{message}\n\nHold reason: {reason}"
    if status == IDLE and judged.refusal is None and not judged.matched:
        message = "Job has not yet been considered by the matchmaker."
    if message is not None:
        yield f"\n{name}:  {message}\n\n"


def _last_match_and_rejection(
    judged: RejectionAnalysis, ad: ClassAd, autocluster_of: AutoclusterOf, display: CellContext
) -> Iterator[str]:
    """Yield when the job was last matched and rejected. If the job is not idle, a rejection after its match was of
    another job in its autocluster."""
    from ...domain.negotiator.reported_rejections import rejection_reason

    refused_at = judged.refusal[0] if judged.refusal is not None else 0
    if judged.matched:
        yield f"Last successful match: {_moment(judged.matched, display)}\n"
    elif refused_at:
        yield "No successful match recorded.\n"
    if judged.refusal is not None and refused_at > judged.matched and number(ad, "JobStatus") == IDLE:
        yield f"Last failed match: {_moment(refused_at, display)} from {judged.pool}\n"
        yield f"Reason for last match failure: {rejection_reason(judged.refusal[1])}\n"
        yield from (f"    {limit}\n" for limit in judged.limits)
        if judged.now:
            yield f"Now {judged.now}.\n"
        return
    if number(ad, "JobStatus") == HELD:
        return
    if judged.refusal is not None and refused_at > judged.matched:
        yield f"Last failed match for this autocluster: {_moment(refused_at, display)} from {judged.pool}\n"
        yield f"\tReason: {rejection_reason(judged.refusal[1])}\n"
    autocluster = autocluster_of(ad)
    if last_match := max((int(number(job, "LastMatchTime") or 0) for job in autocluster), default=0):
        yield f"Last successful match for this autocluster: {_moment(last_match * SECOND, display)}\n"
    if running := sum(number(job, "JobStatus") in _RUNNING_STATUSES for job in autocluster):
        yield f"This autocluster currently has {running} running jobs.\n"


def _moment(at: int, display: CellContext) -> str:
    when = datetime.fromtimestamp(at // 1_000_000, display.timezone)
    return f"{when:%a %b} {when.day:2d} {when:%H:%M:%S %Y}"


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


def analysis_options(arguments: Arguments, names: Iterable[str]) -> frozenset[str]:
    """Return the analysis qualifiers after the colon: summary, reverse, priority; and better, for -better-analyze.

    :raises UsageError: a qualifier is unknown
    """
    option = arguments.last(*names)
    qualifiers = [] if option is None or option.qualifier is None else option.qualifier.split(",")
    chosen_names = {next((name for name in _QUALIFIERS if word and name.startswith(word)), "") for word in qualifiers}
    if option is not None and "" in chosen_names:
        raise UsageError(f"{option.spelling}: unknown analysis; use {', '.join(_QUALIFIERS)}")
    if option is not None and option.name.startswith("b"):
        chosen_names.add("better")
    return frozenset(chosen_names | ({"reverse"} if arguments.has("reverse-analyze") else set()))


def slot_analysis(jobs: Iterable[ClassAd], slots: AnalyzedSlots, display: CellContext) -> Iterator[str]:
    """Yield the analysis of each slot: which of its conditions the jobs satisfy."""
    kinds = _jobs_by_autocluster(jobs, slots.signing)
    for slot in slots.ads:
        yield from _one_slot(slot, kinds, display)


def _one_slot(slot: ClassAd, kinds: Sequence[Sequence[ClassAd]], display: CellContext) -> Iterator[str]:
    from ...domain.classad import unparse
    from ...domain.classad.analysis import references_or_empty
    from .condition_steps import split

    name, context, total = text(slot, "Name") or "", display.context(), sum(map(len, kinds))
    if has_flag(slot, "Offline"):
        yield f"{name:<24.24}  is offline\n"
        return
    jobs = [kind[0] for kind in kinds]
    is_full = has_flag(slot, "PartitionableSlot") and any(
        slot.eval(_WITHIN_LIMITS, job, context) is False for job in jobs
    )
    drained = _drained(slot) if is_full else None
    yield f"\n-- Slot: {name} : Analyzing matches for {total} Jobs in {len(kinds)} autoclusters\n"
    if "Requirements" in slot:
        description = wrap_expression(unparse(slot["Requirements"]))
        for attribute, heading in zip(_SLOT_EXPRESSIONS, ("START", _WITHIN_LIMITS), strict=True):
            if attribute in slot:
                description = wrap_expression(f"{description}\n\n  {heading} is\n    {unparse(slot[attribute])}")
        yield f"\nThe Requirements expression for this slot is\n\n    {description}\n\n"
        steps = split(slot, slot["Requirements"], {attribute.lower() for attribute in _SLOT_EXPRESSIONS})
        yield from _numbered_steps(steps)
        yield "\nThis slot defines the following attributes:\n\n"
        references, hidden = references_or_empty(slot["Requirements"], slot), ("Requirements", *_SLOT_EXPRESSIONS)
        yield from _attributes(slot, references.internal, hidden)
        if drained is not None:
            yield "When drained, this slot has the following attributes:\n\n"
            yield from _attributes(
                drained, references_or_empty(slot["Requirements"], drained).internal, hidden, context
            )
        if len(jobs) == 1:
            names = _names_in_target(references)
            yield from _target_attributes(jobs[0], names, f"Job {job_id(jobs[0])}", "", slot, context)
        yield "\nThe Requirements expression for this slot reduces to these conditions:\n\n"
        yield from _decisive_steps(slot, steps, jobs, context, (), "Cluster")
    accepting, accepted, matched = _match_counts(slot, kinds, display)
    yield f"\n{name}: Run analysis summary of {total} jobs.\n"
    yield f"{matched:5d} ({100 * matched / total if total else 0:.2f} %) match both slot and job requirements.\n"
    yield f"{accepting:5d} match the requirements of this slot.\n"
    yield f"{accepted:5d} have job requirements that match this slot.\n"
    if drained is not None:
        accepting, accepted, matched = _match_counts(drained, kinds, display)
        yield f"{matched:5d} would match both slot and job requirments if the slot was drained.\n"
        yield f"{accepting:5d} would match the requirements of this slot when drained.\n"
        yield f"{accepted:5d} would have job requirements that match this slot when drained\n"


def _match_counts(slot: ClassAd, kinds: Sequence[Sequence[ClassAd]], display: CellContext) -> tuple[int, int, int]:
    """Return how many jobs the slot accepts, how many accept the slot, and how many do both."""
    matches = _match_function(display)
    results = [(len(kind), matches(slot, kind[0]), matches(kind[0], slot)) for kind in kinds]
    return (
        sum(size for size, accepts, _ in results if accepts),
        sum(size for size, _, is_accepted in results if is_accepted),
        sum(size for size, accepts, is_accepted in results if accepts and is_accepted),
    )


def autoclusters(jobs: Callable[[], Iterable[ClassAd]], signing: Signing) -> AutoclusterOf:
    """Return a function from a job to the jobs in its autocluster, which reads all jobs when it is first called."""
    groups = cache(lambda: group_jobs(jobs(), signing))
    return lambda job: groups().get(next(iter(group_jobs([job], signing))), [])


def job_group_lines(jobs: Iterable[ClassAd], slots: AnalyzedSlots, display: CellContext) -> Iterator[str]:
    """Yield a line for each autocluster: how many slots it accepts and, of these, reject it, run it, or are
    available."""
    of_machine = f"{slots.machine}: " if slots.machine else ""
    yield f"{of_machine}Analyzing matches for {len(slots.ads)} slots\n"
    for head in _JOB_COLUMNS:
        yield "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n".format(*head)
    matches = _match_function(display)
    for members in _jobs_by_autocluster(jobs, slots.signing):
        job, states = members[0], [number(member, "JobStatus") for member in members]
        accepted_slots = [slot for slot in slots.ads if matches(job, slot)]
        matched_slots = [slot for slot in accepted_slots if matches(slot, job)]
        users = [user for slot in matched_slots if (user := text(slot, "RemoteUser")) is not None]
        own_count = users.count(text(job, "User") or "")
        runs = sum(state in _RUNNING_STATUSES for state in states)
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
    widths = [max(len(text(ad, "Machine") or "") + 7, len(text(ad, "Name") or "")) for ad in slots.ads]
    width = max(16, *widths)
    line = f"{{:<{width}.{width}}} {{:>4}} {{:>12.12}} {{:>12.12}} {{:>10.10}}\n"
    for head in _SLOT_COLUMNS:
        yield line.format(*head)
    for slot in slots.ads:
        accepting, accepted, matched = _match_counts(slot, kinds, display)
        share = f"{100 * matched / total:.2f}" if total else "0.00"
        kind = "Part" if has_flag(slot, "PartitionableSlot") else "Stat"
        yield line.format(text(slot, "Name") or "", kind, str(accepting), str(accepted), share)


def _jobs_by_autocluster(jobs: Iterable[ClassAd], signing: Signing) -> list[list[ClassAd]]:
    """Return the jobs grouped by autocluster, in the order of their AutoClusterIds, if any."""
    return sorted(group_jobs(jobs, signing).values(), key=lambda own: int(number(own[0], "AutoClusterId") or 0))


def _match_function(display: CellContext) -> Callable[[ClassAd, ClassAd], bool]:
    from ...domain.classad.matching import requirements_met

    context = display.context()
    return lambda my, target: requirements_met(my, target, context)
