"""What a page about one job, cluster, slot, machine, user, group or cycle shows: why it is in its state, facts, its
timeline and a table of related things."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...domain.events import CycleHeld
from ...domain.state.job_ad import STATUS_NAMES, STATUS_NUMBERS
from ...domain.units import SECOND
from ...replay.listing.members import members
from ...replay.narration.formatting import counted, instant
from ...replay.narration.rejection_words import short_reason
from ...replay.narration.sentence_tables import cause_words
from ...replay.narration.sentences import UnknownThingError
from .event_list import kind_of
from .pool import cluster_bars, machines, pool_findings
from .records import ClusterBar
from .shares import shares
from .slot_grid import slot_grid
from .timeline import Timeline, timeline

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import Queries

MOST_ROWS: Final = 500  #: the largest number of rows in a table
_RUNNING: Final = STATUS_NUMBERS["Running"]

Value = str | int | float | None


class Fact(Struct, frozen=True):
    """A labelled value. ``kind`` says how to show it: text, number, time (seconds since 1970), seconds, path, a kind
    of thing that has a page, or thing, for a value such as job/12.3."""

    label: str
    value: Value
    kind: str = "text"


class Step(Struct, frozen=True):
    """A sentence of a history, with the position of its event and the locations of imported records."""

    at: int
    position: int
    text: str
    evidence: str  #: the sentence with its evidence
    places: list[str]


class Table(Struct, frozen=True):
    """Related things. A column is a label and a kind of fact."""

    caption: str
    columns: list[tuple[str, str]]
    rows: list[list[Value]]
    total: int  #: the number of rows without the limit


class Thing(Struct, frozen=True):
    """A job, cluster, slot, machine, user, group or cycle. ``sentences`` answer why it is in its state."""

    kind: str
    name: str
    state: str  #: the status of a job, or the state/activity of a slot; empty for others
    owner: str  #: of a job or cluster
    sentences: list[str]
    facts: list[Fact]
    history: list[Step]
    timeline: Timeline | None
    tables: list[Table]
    bar: ClusterBar | None = None


def thing(queries: Queries, kind: str, name: str, offset: int = 0) -> Thing:
    """Return what a page shows.

    :param offset: the first row of the tables
    :raises UnknownThingError: the log does not contain it at this time
    :raises ValueError: `kind` or `name` is invalid
    """
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of thing; use one of {', '.join(_KINDS)}")
    return _KINDS[kind](queries, name, offset)


def _at(queries: Queries) -> int:
    return queries.views.at if queries.at is None else queries.at


def _why(queries: Queries, name: str) -> tuple[list[str], list[Step]]:
    # The log of a pool ends at the time of the queries; an import has no order of time.
    answer = queries.why(name, queries.at if queries.imported else None, UTC)
    steps = [Step(each.at, each.position, each.text, each.full, list(each.places)) for each in answer.life[-MOST_ROWS:]]
    return [line.text for line in answer.lines if line.code != "see_life"], steps


_JOB_FACTS: Final = (
    ("Owner", "Owner", "user"), ("Batch", "JobBatchName", "text"), ("Submitted", "QDate", "time"),
    ("Started", "JobStartDate", "time"), ("Current run since", "JobCurrentStartDate", "time"),
    ("Completed", "CompletionDate", "time"), ("Runs", "NumJobStarts", "number"), ("Exit code", "ExitCode", "number"),
    ("Priority among its user's jobs", "JobPrio", "number"), ("Cores requested", "RequestCpus", "number"),
    ("Memory requested, MiB", "RequestMemory", "number"), ("Disk requested, KiB", "RequestDisk", "number"),
    ("GPUs requested", "RequestGPUs", "number"), ("Memory used, MiB", "MemoryUsage", "number"),
    ("Command", "Cmd", "path"), ("Arguments", "Args", "text"), ("Arguments", "Arguments", "text"),
    ("Hold reason", "HoldReason", "text"), ("Runs on", "RemoteHost", "slot"), ("Last ran on", "LastRemoteHost", "slot"),
)  # fmt: skip
"""The label, attribute and kind of a job's facts; attributes that the ad lacks are left out."""
_FILES: Final = (("Output file", "Out"), ("Error file", "Err"), ("Job event log", "UserLog"), ("Input file", "In"))


def _job(queries: Queries, name: str, offset: int) -> Thing:
    sentences, history = _why(queries, name)
    cluster, _, proc = name.partition(".")
    ad = queries.any_job(int(cluster), int(proc))
    status, owner, facts = "", "", [Fact("Cluster", int(cluster), "cluster")]
    if ad is not None:
        number = ad.eval("JobStatus")
        status = STATUS_NAMES.get(number, "") if isinstance(number, int) else ""
        owner = str(ad.eval("Owner"))
        facts += [fact for fact in (_fact(ad, *row) for row in _JOB_FACTS) if fact is not None]
        facts += [Fact(label, path, "path") for label, attribute in _FILES if (path := _path(ad, attribute))]
    return Thing("job", name, status, owner, sentences, facts, history, timeline(queries, name, _at(queries)), [])


def _fact(ad: ClassAd, label: str, attribute: str, kind: str) -> Fact | None:
    if attribute not in ad:
        return None
    value = ad.eval(attribute)
    if not isinstance(value, str | int | float) or value == "" or (kind == "time" and not value):
        return None
    return Fact(label, value, kind)


def _path(ad: ClassAd, attribute: str) -> str:
    """Return the absolute path of a job's file; empty if it has none."""
    value, folder = (ad.eval(name) if name in ad else "" for name in (attribute, "Iwd"))
    if not isinstance(value, str) or value in ("", "/dev/null"):
        return ""
    return value if value.startswith("/") or not isinstance(folder, str) else f"{folder.rstrip('/')}/{value}"


def _cluster(queries: Queries, name: str, offset: int) -> Thing:
    sentences, _ = _why(queries, name)
    cluster = int(name)
    bars = [] if queries.imported else cluster_bars(queries, before=cluster + 1, limit=1)
    bar = bars[0] if bars and bars[0].cluster == cluster else None
    facts = [] if bar is None else [
        Fact("Owner", bar.owner, "user"), Fact("Batch", bar.batch), Fact("Jobs", bar.total, "number"),
        Fact("Submitted", bar.submitted // SECOND, "time"),
    ]  # fmt: skip
    owner = bar.owner if bar is not None else ""
    tables = [] if queries.imported else [_jobs_table(queries, cluster, offset)]
    shown = [fact for fact in facts if fact.value]
    return Thing("cluster", name, "", owner, sentences, shown, [], None, tables, bar)


def _jobs_table(queries: Queries, cluster: int, offset: int) -> Table:
    """Return the jobs of a cluster in the queue and in the history."""
    connection = queries.history_views.connection
    rows: list[list[Value]] = []
    total = 0
    statement = (
        "SELECT first, last, status, slot, 0 FROM jobs WHERE cluster=? UNION ALL "
        "SELECT first, last, status, '', ended_at / 1000000 FROM history WHERE cluster=? ORDER BY 1"
    )
    for first, last, status, slot, ended in connection.execute(statement, (cluster, cluster)):
        begin = max(first, first + offset - total)
        total += last - first + 1
        for proc in range(begin, min(last + 1, begin + MOST_ROWS - len(rows))):
            rows.append([f"{cluster}.{proc}", STATUS_NAMES.get(status, str(status)), slot, ended or None])
    columns = [("Job", "job"), ("Status", "status"), ("Slot", "slot"), ("Left the queue", "time")]
    return Table(f"Jobs of cluster {cluster}", columns, rows, total)


def _slot(queries: Queries, name: str, offset: int) -> Thing:
    sentences, history = _why(queries, name)
    grid = slot_grid(queries)
    names = grid.names()
    state, facts = "", [Fact("Machine", name.partition("@")[2], "machine")]
    if name in names:
        index = names.index(name)
        state = grid.states[grid.state[index]]
        facts.append(Fact("In this state since", grid.base + grid.since[index], "time"))
        if job := grid.job[index]:
            facts.append(Fact("Job", job, "job"))
        if user := grid.users[grid.user[index]]:
            facts.append(Fact("User", user, "user"))
    return Thing("slot", name, state, "", sentences, facts, history, timeline(queries, name, _at(queries)), [])


def _machine(queries: Queries, name: str, offset: int) -> Thing:
    machine = next((each for each in machines(queries) if each.machine == name), None)
    if machine is None:
        raise UnknownThingError(f"the pool has no machine {name} at this time; `poolbook status` lists them")
    grid = slot_grid(queries)
    rows: list[list[Value]] = [
        [slot, grid.states[state], job, grid.users[user], grid.base + since]
        for slot, state, machine_number, job, user, since in zip(
            grid.names(), grid.state, grid.machine, grid.job, grid.user, grid.since, strict=True
        )
        if grid.machines[machine_number] == name
    ]
    columns = [("Slot", "slot"), ("State", "state"), ("Job", "job"), ("User", "user"), ("Since", "time")]
    facts = [
        Fact("Joined", machine.joined // SECOND, "time"), Fact("Cores", machine.cores, "number"),
        Fact("Memory, MiB", machine.memory, "number"),
    ]  # fmt: skip
    state = f"{counted(machine.draining, 'slot')} of {name} {'is' if machine.draining == 1 else 'are'} drained."
    busy = f"{machine.busy} of its {counted(machine.slots, 'slot')} {'is' if machine.busy == 1 else 'are'} busy."
    sentences = [f"{name}: {busy}", *([state] if machine.draining else [])]
    sentences += [finding.sentence for finding in pool_findings(queries) if name in finding.subject][:3]
    shown = [fact for fact in facts if fact.value]
    table = Table(f"Slots of {name}", columns, rows[offset : offset + MOST_ROWS], len(rows))
    return Thing("machine", name, "", "", sentences, shown, [], None, [table])


def _user(queries: Queries, name: str, offset: int) -> Thing:
    return _account(queries, "user", name)


def _group(queries: Queries, name: str, offset: int) -> Thing:
    return _account(queries, "group", name)


def _account(queries: Queries, kind: str, name: str) -> Thing:
    rows = [each for each in shares(queries).shares if each.is_group == (kind == "group")]
    share = next((each for each in rows if name in (each.name, each.name.partition("@")[0])), None)
    owner = name.partition("@")[0]
    bars = cluster_bars(queries, owner, limit=MOST_ROWS) if kind == "user" and not queries.imported else []
    if share is None and not bars:
        raise UnknownThingError(f"the pool has no {kind} {name} at this time; `poolbook userprio -allusers` lists them")
    sentences, facts = [f"{name} has no slots and no priority at this time."], []
    if share is not None:
        entitled = "" if share.entitled is None else f", and is entitled to {share.entitled:.1f}"
        waits = f"{counted(share.waiting, 'job')} {'waits' if share.waiting == 1 else 'wait'}"
        sentences = [f"{share.name} uses {share.used:g} cores{entitled}; {waits}."]
        values: list[tuple[str, Value, str]] = [
            ("Group", share.group or None, "group"), ("Cores used", share.used, "number"),
            ("Cores entitled to", share.entitled, "number"), ("Idle jobs", share.waiting, "number"),
            ("Effective priority (lower is better)", share.priority, "number"),
            ("Preemptions won, 24 h", share.won, "number"), ("Preemptions lost, 24 h", share.lost, "number"),
        ]  # fmt: skip
        facts = [Fact(*value) for value in values if value[1] is not None]
    if kind == "group":
        members: list[list[Value]] = [
            [each.name, each.used, each.entitled, each.waiting] for each in shares(queries).shares if each.group == name
        ]
        columns = [("User", "user"), ("Cores used", "number"), ("Entitled to", "number"), ("Idle jobs", "number")]
        tables = [Table(f"Users of {name}", columns, members, len(members))]
    else:
        tables = [_clusters_table(bars, f"Clusters of {owner}")]
    return Thing(kind, name, "", owner, sentences, facts, [], None, tables)


def _clusters_table(bars: list[ClusterBar], caption: str) -> Table:
    rows: list[list[Value]] = [
        [str(bar.cluster), bar.batch, bar.submitted // SECOND, bar.total, ", ".join(_counts(bar.jobs)), bar.reason]
        for bar in bars
    ]
    columns = [
        ("Cluster", "cluster"), ("Batch", "text"), ("Submitted", "time"), ("Jobs", "number"), ("Status", "text"),
        ("Why", "text"),
    ]  # fmt: skip
    return Table(caption, columns, rows, len(rows))


def _counts(jobs: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {status}" for status, count in jobs.items()]


def _cycle(queries: Queries, name: str, offset: int) -> Thing:
    event = None
    if name.isascii() and name.isdecimal() and 0 < int(name) <= queries.log.head.position:
        event = next((event for _, event in queries.log.read(int(name) - 1, 1)), None)
    if not isinstance(event, CycleHeld):
        raise UnknownThingError(f"event {name} is not a negotiation cycle; `poolbook log negotiator` lists the cycles")
    jobs = sum(each.jobs for each in event.unmatched)
    matched = counted(len(event.matches), "slot was", "slots were")
    rejected = f"; {counted(jobs, 'job')} received none, for a new reason" if jobs else ""
    matches: list[list[Value]] = [[match.job, match.slot, ", ".join(match.preempts)] for match in event.matches]
    reasons: list[list[Value]] = [
        [each.job, each.jobs, each.submitter, short_reason(each, ())] for each in event.unmatched
    ]
    tables = [
        Table("Matches", [("Job", "job"), ("Slot", "slot"), ("Preempts", "text")], matches, len(matches)),
        Table(
            "Rejected jobs", [("First job", "job"), ("Jobs", "number"), ("User", "user"), ("Why", "text")], reasons,
            len(reasons),
        ),
    ]  # fmt: skip
    facts = [Fact("Held", event.at // SECOND, "time"), Fact("Event", int(name), "event")]
    facts += [Fact(label, value, "number") for label, value in event.statistics.items() if label in _STATISTICS]
    tables = [
        Table(table.caption, table.columns, table.rows[offset : offset + MOST_ROWS], table.total)
        for table in tables
        if table.rows
    ]
    return Thing("cycle", name, "", "", [f"{matched} matched with jobs{rejected}."], facts, [], None, tables)


def _event(queries: Queries, name: str, offset: int) -> Thing:
    """Return all events of an event's decision, which have the same stimulus."""
    if not (name.isascii() and name.isdecimal() and 0 < int(name) <= queries.log.head.position):
        last = queries.log.head.position
        raise UnknownThingError(f"the log has no event {name} at this time; use a number from 1 to {last}")
    position = int(name)
    begin = max(0, position - 1 - _DECISION)
    near = list(queries.log.read(begin, position + _DECISION - begin))
    event = next(event for number, event in near if number == position)
    related = [(number, each) for number, each in near if each.stimulus == event.stimulus]
    shown = [member for number, each in related for member in islice(members(number, each), MOST_ROWS)]
    first = next((member for member in shown if member.position == position), None)
    change = f", {first.source} → {first.target}" if first is not None and first.target else ""
    subject = "an event" if first is None else f"{first.thing}: {first.what} {first.letter}".rstrip() + change
    sentence = f"Event {position} at {instant(event.at)}: {subject}."
    details = [first.details] if first is not None and first.details else []
    place = queries.places()(event.stimulus)
    subject_fact = (
        [] if first is None else [Fact("Subject", f"{kind_of(first.stream, first.thing)}/{first.thing}", "thing")]
    )
    facts = [
        *subject_fact,
        Fact("Time", event.at // SECOND, "time"),
        Fact("Cause", first.cause_text if first else cause_words(event.cause)),
        Fact("Stream", event.stream), Fact("Record" if place else "Decided because of", place or event.stimulus),
    ]  # fmt: skip
    rows: list[list[Value]] = []
    for each in shown:
        change = f"{each.source} → {each.target}" if each.target else ""
        subject = f"{kind_of(each.stream, each.thing)}/{each.thing}"
        rows.append([each.position, subject, f"{each.what} {each.letter}", change, each.details or each.cause_text])
    columns = [("Event", "event"), ("Subject", "thing"), ("What", "text"), ("Change", "text"), ("Why", "text")]
    table = Table("Events of the same decision", columns, rows[offset : offset + MOST_ROWS], len(rows))
    return Thing("event", name, "", "", [sentence, *details], facts, [], None, [table])


_DECISION: Final = 500  #: how many events before and after an event may belong to its decision
_STATISTICS: Final = frozenset({"Duration", "TotalSlots", "CandidateSlots", "NumIdleJobs", "ActiveSubmitterCount"})
"""The statistics of a cycle that are facts."""
_KINDS: Final[Mapping[str, Callable[[Queries, str, int], Thing]]] = {
    "job": _job, "cluster": _cluster, "slot": _slot, "machine": _machine, "user": _user, "group": _group,
    "cycle": _cycle, "event": _event,
}  # fmt: skip
