"""The rules about jobs: a function for each kind of event. A range of processes is judged as a whole, by bytes, and
looked into only if it is not as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...domain import events as e
from ...domain.schedd.job_commands import IMMUTABLE
from ...domain.state.job_ad import TERMINAL, unquoted
from ...domain.state.proc_ads import CHUNK
from ...domain.state.state import RUNS
from ...domain.state_machines import LEFT, UNSUBMITTED
from . import accounting
from .evidence import own_policy
from .judged_pool import MOST_JOBS, NAMES, NUMBERS, Books, Cluster, Run, Slot, Stay, Stop, wishes
from .rules import JOB_POLICY, NEEDS, OUTCOMES

IDLE, _RUNNING = NUMBERS["Idle"], NUMBERS["Running"]


def leaves(books: Books, slot: Slot) -> None:
    """The slot's job is gone: one that a drain ended was counted by it."""
    stay, claim = slot.stay, slot.claim
    slot.stay = None
    if stay is not None and claim is not None and "drained" in claim.marks and not stay.charged:
        books.blame_slot(slot.name, "drain", f"job {stay.job} ended because of a drain, which was not charged for it")


READY = ("Claimed/Idle", "Claimed/Busy")
"""Where a slot is when a job begins: row 11 comes with it."""
_RUNNING_NUMBERS = frozenset(NUMBERS[name] for name in RUNS)
_NONE = 255


def submitted(books: Books, event: e.ClusterSubmitted) -> None:
    name = f"cluster {event.cluster}"
    if not _is_new(books, event.cluster):
        books.blame(name, "reference", f"{name} was submitted before, or is below 1")
    count = event.count
    if not 0 < count <= MOST_JOBS:
        books.blame(name, "value", f"{count} is no number of jobs")
        count = 0
    elif event.columns and len(event.columns) != -(-count // CHUNK):
        books.blame(name, "value", f"{len(event.columns)} chunks do not hold what differs between {count} jobs")
    accounting.appears(books, event.submitter, event.at)
    if event.submitter not in _submitters(event):
        words = f"it counts for {event.submitter}, which is neither its User nor its AccountingGroup"
        books.blame(name, "value", words)
    own = {"ClusterId": str(event.cluster), "TotalSubmitProcs": str(event.count)}
    for attribute, text in own.items():
        if event.ad.get(attribute, text) != text:
            books.blame(name, "value", f"its ad has {attribute} = {event.ad[attribute]}, and the event {text}")
    rows = [row for row, targets in books.job_table.allowed(UNSUBMITTED).items() if event.status in targets]
    if not rows:
        books.blame(name, "row", f"no row of {books.job_table.name} leads from {UNSUBMITTED} to {event.status}")
    cluster = books.clusters[event.cluster] = Cluster(event, count, NUMBERS.get(event.status, _NONE))
    cluster.story.append((books.position, event))
    _count(books, rows[0] if rows else "submit", count)


def _submitters(event: e.ClusterSubmitted) -> tuple[str, ...]:
    """Whom a cluster may count for: its user (in logs of before AccountingGroup counted, always), or what its
    AccountingGroup says. Where that takes the evaluation of an expression, anybody."""
    user = unquoted(event.ad.get("User", "")) or event.submitter
    text = next((text for name, text in event.ad.items() if name.lower() == "accountinggroup"), "")
    domain = user.rpartition("@")[2]
    return (user, f"{unquoted(text)}@{domain}" if _STRING.fullmatch(text) else event.submitter if text else user)


_STRING = re.compile(r"\"[^\"\\]*\"")


def _is_new(books: Books, number: int) -> bool:
    """Whether no cluster had this number: it is the next or a later one, or was left out before."""
    gaps = books.unused_clusters
    for index, (first, last) in enumerate(gaps):
        if first <= number and (last is None or number <= last):
            rest = [(first, number - 1)] if first < number else []
            gaps[index : index + 1] = [*rest, (number + 1, last)] if last is None or number < last else rest
            return True
    return False


def _count(books: Books, row: str, count: int = 1) -> None:
    books.job_moves[row] = books.job_moves.get(row, 0) + count


def _cluster(books: Books, number: int, proc: int) -> Cluster | None:
    cluster = books.clusters.get(number)
    if cluster is None:
        books.blame_job(number, proc, "reference", f"there is no job of cluster {number} left")
    return cluster


def _ranges(books: Books, cluster: Cluster, procs: e.Procs) -> Iterator[tuple[int, int]]:
    """The ranges, each as (first, behind the last) and cut to what the cluster has."""
    before = -1
    if not procs:
        books.blame(f"cluster {cluster.id}", "reference", "the event is about no job")
    for first, last in procs:
        if first <= before or last < first or last >= cluster.count:
            books.blame_job(cluster.id, first, "reference", f"{first} to {last} is no range of its cluster's jobs")
            first, last = max(first, before + 1), min(last, cluster.count - 1)
        if first <= last:
            before = last
            yield first, last + 1


def _first_other(part: bytearray, right: int) -> int:
    return next(index for index, status in enumerate(part) if status != right)


def moved(books: Books, event: e.JobsTransitioned) -> None:
    cluster = _cluster(books, event.cluster, event.procs[0][0] if event.procs else 0)
    if cluster is None:
        return
    if event.target not in books.job_table.lookup.get((event.source, event.row), ()):
        words = f"row {event.row} of {books.job_table.name} does not lead from {event.source} to {event.target}"
        books.blame_job(cluster.id, event.procs[0][0] if event.procs else 0, "row", words)
    source, target = NUMBERS.get(event.source, _NONE), NUMBERS.get(event.target, _NONE)
    left = 0
    for first, behind in _ranges(books, cluster, event.procs):
        part = cluster.status[first:behind]
        if part.count(source) != behind - first:
            _wrong_source(books, cluster, event, first, part, source)
        left += _set(cluster, first, behind, target, _leaves(event, event.target))
        _touch(books, cluster, first, behind)
        if event.target in RUNS:
            idle = [proc for proc in range(first, behind) if proc not in cluster.runs]
            if idle:
                books.blame_job(cluster.id, idle[0], "activation", f"it becomes {event.target}, but nothing of it runs")
        _count(books, event.row, behind - first)
    cluster.story.append((books.position, event))
    if event.evidence or event.row == "leave":
        own_policy(books, cluster, event.procs[0][0] if event.procs else 0, event)
    if event.target == LEFT:
        _leaves_for_good(books, cluster, event)
        cluster.live -= left
        _forget(books, cluster)
    else:
        _leave(books, cluster, left)
        _comes_to_its_end(books, cluster, event.target, event.left)


def _leaves(event: e.JobsTransitioned | e.JobExited, status: str) -> bool:
    """Whether those that do not run leave the queue with an event that makes them this."""
    return event.target == LEFT or (event.left and status in TERMINAL)


def _comes_to_its_end(books: Books, cluster: Cluster, status: str, left: bool) -> None:
    """Jobs that are at their end leave the queue in the same append, unless something keeps them there."""
    if status in TERMINAL and not left:
        books.over[cluster.id] = None


def _leaves_for_good(books: Books, cluster: Cluster, event: e.JobsTransitioned) -> None:
    """Nothing of what leaves the queue runs any more, and its LeaveJobInQueue was asked."""
    for first, last in event.procs:
        runs = next((proc for proc in sorted(cluster.runs) if first <= proc <= last), None)
        if runs is not None:
            books.blame_job(cluster.id, runs, "queue", f"it leaves the queue, and runs on {cluster.runs[runs].slot}")


def settle_queue(books: Books) -> None:
    """An append is over: whoever came to its end in it has left the queue, unless its LeaveJobInQueue may keep it."""
    for number in books.over:
        cluster = books.clusters.get(number)
        if cluster is None or cluster.policy is None or cluster.policy.get("leavejobinqueue", "false") != "false":
            continue
        for name in sorted(TERMINAL):
            proc = cluster.status.find(NUMBERS[name])
            while proc >= 0 and proc in cluster.runs:
                proc = cluster.status.find(NUMBERS[name], proc + 1)
            if proc >= 0:
                words = f"it is {name}, nothing of it runs and nothing keeps it, and it does not leave the queue"
                books.blame_job(number, proc, "queue", words)
    books.over = {}


def _touch(books: Books, cluster: Cluster, first: int, behind: int) -> None:
    """The slots that run jobs of a range, or that these wait for, have to agree with what they are from here on."""
    for proc, run in cluster.runs.items():
        if first <= proc < behind:
            books.touched[run.slot] = None
    for (number, proc), slot in books.matched.items():
        if number == cluster.id and first <= proc < behind:
            books.touched[slot] = None


def _wrong_source(
    books: Books, cluster: Cluster, event: e.JobsTransitioned, first: int, part: bytearray, source: int
) -> None:
    index = _first_other(part, source)
    more = len(part) - part.count(source) - 1
    also = f" (and {more} more are not either)" if more else ""
    words = f"{event.row} begins in {event.source}, but it is {_status(part[index])}{also}"
    books.blame_job(cluster.id, first + index, "source" if part[index] else "reference", words)


def _status(number: int) -> str:
    return NAMES.get(number, "in no status" if number else "not in the queue")


def _set(cluster: Cluster, first: int, behind: int, target: int, ends: bool) -> int:
    """Set the status of a range; return how many left the queue: if it `ends` their lives, those that do not run."""
    if not ends:
        # Those that were gone are back: the event says so.
        back = cluster.status.count(0, first, behind)
        cluster.status[first:behind] = bytes([target]) * (behind - first)
        return -back
    runs = cluster.runs
    stay = [proc for proc in (runs if len(runs) < behind - first else range(first, behind)) if proc in runs]
    stay = [proc for proc in stay if first <= proc < behind]
    left = behind - first - cluster.status.count(0, first, behind) - len(stay)
    cluster.status[first:behind] = bytes(behind - first)
    for proc in stay:
        cluster.status[proc] = target
    return left


def _leave(books: Books, cluster: Cluster, count: int) -> None:
    if count:
        _count(books, "leave", max(0, count))
    cluster.live -= count
    _forget(books, cluster)


def _forget(books: Books, cluster: Cluster) -> None:
    if cluster.live <= 0:
        books.forget_cluster(cluster)


def edited(books: Books, event: e.JobsEdited) -> None:
    cluster = _cluster(books, event.cluster, event.procs[0][0] if event.procs else 0)
    if cluster is None:
        return
    for first, behind in _ranges(books, cluster, event.procs):
        gone = cluster.status.find(0, first, behind)
        if gone >= 0:
            books.blame_job(cluster.id, gone, "reference", "it is edited, but not in the queue")
    cluster.plain = cluster.plain and not wishes(event.changes)
    if cluster.policy is not None and any(name.lower() in JOB_POLICY for name in event.changes):
        cluster.policy = None
    for name in event.changes:
        if name.lower() in IMMUTABLE:
            books.blame(f"cluster {cluster.id}", "immutable", f"{name} is edited")
    cluster.story.append((books.position, event))


# Activations


def activated(books: Books, event: e.JobActivated) -> None:
    number, proc = event.cluster, event.proc
    cluster = _cluster(books, number, proc)
    slot = books.slots.get(event.slot)
    if cluster is None:
        return
    if slot is None and not (cluster.local and event.slot.startswith("local@")):
        books.blame_job(number, proc, "reference", f"there is no slot {event.slot}")
    if not 0 <= proc < cluster.count or not cluster.status[proc]:
        books.blame_job(number, proc, "reference", "it is activated, but not in the queue")
        return
    status = cluster.status[proc]
    if status != IDLE:
        books.blame_job(number, proc, "source", f"activate begins in Idle, but it is {_status(status)}")
    elif "Running" not in books.job_table.lookup.get(("Idle", "activate"), ()):
        books.blame_job(number, proc, "row", f"{books.job_table.name} has no row by which a job is activated")
    if proc in cluster.runs:
        books.blame_job(number, proc, "activation", f"it runs already, on {cluster.runs[proc].slot}")
    cluster.status[proc] = _RUNNING
    run = cluster.runs[proc] = Run(books.position, event.slot)
    run.story.append((books.position, event))
    _count(books, "activate")
    if slot is None:
        return
    books.touched[event.slot] = None
    if slot.stay is not None:
        books.blame_slot(slot.name, "activation", f"it runs job {slot.stay.job} already")
    slot.stay = Stay(books.position, event.at, f"{number}.{proc}", (number, proc), event.vacate)
    slot.stay.plain = cluster.plain
    if slot.pair not in READY:
        words = f"a job is activated in {' or '.join(READY)}, but it is {slot.pair}"
        books.blame_slot(slot.name, "activation", words)
    claim = slot.claim
    if claim is None or claim.id != event.claim:
        books.blame_job(number, proc, "activation", f"{event.claim} is not the claim of {event.slot}")
        return
    if claim.submitter != cluster.submitter:
        words = f"{claim.submitter} holds {event.slot}, but the job is one of {cluster.submitter}"
        books.blame_job(number, proc, "activation", words)
    if claim.expected is not None and claim.expected != (number, proc):
        if waits_for_a_slot(books, *claim.expected):
            books.blame_job(number, proc, "match", f"{event.slot} was claimed for another job, which is to run first")
        if (number, proc) in books.matched:
            books.blame_job(number, proc, "match", f"it begins on {event.slot}, but was given another slot")
    if claim.expected is not None:
        books.matched.pop(claim.expected, None)
    claim.expected = None


def waits_for_a_slot(books: Books, number: int, proc: int) -> bool:
    """Whether a job is Idle, with nothing left of an earlier run."""
    cluster = books.clusters.get(number)
    idle = cluster is not None and 0 <= proc < cluster.count and cluster.status[proc] == IDLE
    return cluster is not None and idle and proc not in cluster.runs


def _run(books: Books, number: int, proc: int) -> Run | None:
    cluster = _cluster(books, number, proc)
    if cluster is None:
        return None
    run = cluster.runs.get(proc)
    if run is None:
        books.blame_job(number, proc, "activation", "nothing of it runs")
    return run


def executing(books: Books, event: e.JobExecuting) -> None:
    run = _run(books, event.cluster, event.proc)
    if run is None:
        return
    if run.executing:
        books.blame_job(event.cluster, event.proc, "activation", "its process began already")
    run.executing = True
    run.story.append((books.position, event))


_MEASURES = ("image", "resident", "disk", "user_cpu", "system_cpu")


def measured(books: Books, event: e.JobMeasured) -> None:
    run = _run(books, event.cluster, event.proc)
    if run is None:
        return
    for name in _MEASURES:
        if getattr(event, name) < 0:
            books.blame_job(event.cluster, event.proc, "value", f"{name} is {getattr(event, name)}, below 0")
    run.story.append((books.position, event))


def signalled(books: Books, event: e.JobSignalled) -> None:
    run = _run(books, event.cluster, event.proc)
    if run is None:
        return
    for words in wrong_order(run.told, event):
        books.blame_job(event.cluster, event.proc, "end", words)
    run.told = Stop(event.how, event.until)
    run.stop, run.stopped = event.how, run.stopped or event.at
    run.story.append((books.position, event))


def wrong_order(before: Stop | None, event: e.JobSignalled | e.StarterSignalled) -> Iterator[str]:
    """What is wrong with the order in which processes are told to end, `before` being what they were told last."""
    if event.how not in ("soft", "hard"):
        yield f"{event.how!r} is no way to end a job: soft or hard"
    elif event.how == "soft" and before is not None:
        yield "it is told to end softly a second time"
    if event.cause == "kill_timeout" and (before is None or event.at < before.until):
        yield "its time to end is said to be over, but it " + ("was told nothing" if before is None else "has more")
    if 0 != event.until < event.at:
        yield "the time that it is given to end is over when it is told so"


def exited(books: Books, event: e.JobExited) -> None:
    number, proc = event.cluster, event.proc
    run = _run(books, number, proc)
    if run is None:
        return
    cluster = books.clusters[number]
    if run.key != event.key:
        books.blame_job(
            number, proc, "activation", f"the activation that ends is {event.key}, but it runs as {run.key}"
        )
    if run.slot != event.slot:
        books.blame_job(number, proc, "activation", f"it ends on {event.slot}, but runs on {run.slot}")
    status = cluster.status[proc]
    _row_of_end(books, event, status)
    _outcome(books, event, run, status)
    del cluster.runs[proc]
    slot = books.slots.get(run.slot)
    if slot is not None:
        if slot.pair in NEEDS and NEEDS[slot.pair].job is False:
            books.blame_slot(slot.name, "activation", f"its job's end comes after it has moved on to {slot.pair}")
        leaves(books, slot)
        books.touched[run.slot] = None
    cluster.story.extend([*run.story, (books.position, event)])
    if event.row:
        _count(books, event.row)
    if event.evidence or event.outcome == "exited":
        own_policy(books, cluster, proc, event)
    after = event.target or _status(status)
    if _leaves(event, after):
        cluster.status[proc] = 0
        _leave(books, cluster, 1)
    else:
        cluster.status[proc] = NUMBERS.get(after, _NONE)
        _comes_to_its_end(books, cluster, after, event.left)


def _row_of_end(books: Books, event: e.JobExited, number: int) -> None:
    status = _status(number)
    if event.source != (status if event.row else ""):
        words = f"its end begins in {event.source or 'nothing'}, but it is {status}"
        books.blame_job(event.cluster, event.proc, "source", words)
    if bool(event.row) != bool(event.target):
        books.blame_job(event.cluster, event.proc, "row", "a row and its target come together, or neither")
    elif event.row and event.target not in books.job_table.lookup.get((status, event.row), ()):
        words = f"row {event.row} of {books.job_table.name} does not lead from {status} to {event.target}"
        books.blame_job(event.cluster, event.proc, "row", words)
    elif not event.row and number in _RUNNING_NUMBERS:
        books.blame_job(event.cluster, event.proc, "row", f"it is {status}, and no row says what it is from here on")


def _outcome(books: Books, event: e.JobExited, run: Run, status: int) -> None:
    job = event.cluster, event.proc
    outcome = OUTCOMES.get((event.outcome, event.cause))
    if outcome is None:
        books.blame_job(*job, "end", f"outcome {event.outcome} does not go with the cause {event.cause}")
        return
    if event.row and event.row not in outcome.rows:
        books.blame_job(*job, "end", f"outcome {event.outcome} is not followed by {event.row}")
    in_time = event.outcome == "exited" and bool(event.ended) and event.ended < run.stopped  # it was over before that
    if outcome.told is not None and outcome.told != bool(run.stop) and not in_time:
        told = "had been told to end" if run.stop else "had not been told to end"
        books.blame_job(*job, "end", f"outcome {event.outcome}, but it {told}")
    if event.outcome == "exited" and (event.code is None) == (event.signal is None):
        books.blame_job(*job, "end", "it ended by itself: with a code or by a signal, one of the two")
    if event.ended > event.at:
        books.blame_job(*job, "order", "it ended later than the log knew of it")
    if min(event.user_cpu, event.system_cpu, event.resident, event.disk, event.ended) < 0:
        books.blame_job(*job, "value", "what it used is below 0")
