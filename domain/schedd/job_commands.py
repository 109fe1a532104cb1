"""What users do with jobs: submit, hold, release, remove, vacate, suspend, continue, edit.

A command over many jobs is one event for each group of them in the same status. Each job that the command does not
apply to keeps its status, and the answer says why. Users act on their own jobs, QUEUE_SUPER_USERS on all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from attrs import Factory, frozen

from ..classad import ERROR, UNDEFINED, ClassAd, ClassAdSyntaxError, EvaluationError, Expression, parse
from ..classad.match import accepts
from ..decision.command_results import answer
from ..decision.draft import Draft, Refusal, ranges
from ..events import Ad, ClusterSubmitted, JobsEdited
from ..negotiator.accounting import first_factor
from ..negotiator.match_evidence import job_ad
from ..ports.stimuli import Act, ContinueClaim, Edit, Selection, Submit, SuspendClaim, VacateSlot
from ..startd.vacating import continue_claim, suspend_claim
from ..state.cluster import Cluster
from ..state.expression_cache import expression
from ..state.job_ad import LIVED, count_hold, quoted, seconds
from ..state.proc_ads import pack, unpack
from ..state.settings import super_users
from ..state.state import RUNS, Slot
from .accounting_group import GROUP, submitter_of
from .claims import signal, stop, vacate, withdraw_better_matches

HELD_BY_USER = 1
NUMBERS_GIVEN_OUT = 10_000
"""Numbers of clusters that may have been given out at one time and not yet used."""


@frozen
class Outcome:
    """What became of a range of jobs: ``done``, or the reason why not (``not found``, ``permission denied``, or the
    status that the command does not apply to). ``changes``: what an edit set."""

    cluster: int
    first: int
    last: int
    result: str
    changes: Ad = Factory(dict)


# Submitting


def submit(draft: Draft, command: Submit) -> None:
    state = draft.state
    number = command.cluster or state.next_cluster
    if number < state.next_cluster and number not in state.unused_cluster_ids:
        raise Refusal(f"cluster {number} exists already; the next number is {state.next_cluster}")
    if number > state.next_cluster + NUMBERS_GIVEN_OUT:
        raise Refusal(f"cluster {number} was never given out; the next number is {state.next_cluster}")
    if command.count < 1:
        raise Refusal("nothing to submit: the queue statement yields no job")
    columns = _check(command)
    submitter = submitter_of(draft, command, columns)
    ad, packed, on_hold = _held_from_the_start(command, columns)
    held = ad.get("JobStatus") == "5"
    status = draft.tables.job.fire("Unsubmitted", "submit_on_hold" if held else "submit")
    now = seconds(draft.now)
    if held:
        ad |= _first_hold(ad)
    ad = {**ad, "QDate": now, "EnteredCurrentStatus": now, "ClusterId": str(number)}
    ad["Owner"] = quoted(command.user)
    ad["User"] = quoted(f"{command.user}@{state.uid_domain}")
    ad["TotalSubmitProcs"] = str(command.count)
    factor = first_factor(state, submitter)
    draft.emit(ClusterSubmitted(*draft.why("submitted"), number, submitter, ad, command.count, packed, status, factor))
    for changes, procs in on_hold:
        draft.move_jobs(state.clusters[number], ranges(procs), "hold", "submitted", "Idle", changes)
    answer(draft, command, "submit", command.file, {"cluster": number, "count": command.count})


_INITIALLY_HELD = {"InitialJobStatus": "5"}
_ON_HOLD = "15"
"""HoldReasonCode of a job that its submission holds."""


def _first_hold(ad: Ad) -> Ad:
    """What the ads of jobs say that all are held from the start."""
    changes: Ad = {}
    code = ad.get("HoldReasonCode", "0")
    count_hold(changes, ad, code)
    return changes | (_INITIALLY_HELD if code == _ON_HOLD else {})


_OF_A_HOLD = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")


def _held_from_the_start(
    command: Submit, columns: Mapping[str, Sequence[str]]
) -> tuple[Ad, tuple[bytes, ...], list[tuple[Ad, list[int]]]]:
    """The ad and the columns of what is submitted, and the jobs that are to be held at once where only some are: by
    what their ads say of the hold."""
    if "JobStatus" not in columns:
        return command.ad, command.columns, []
    ad = {name: text for name, text in command.ad.items() if name not in _OF_A_HOLD}
    rest = {name: texts for name, texts in columns.items() if name not in ("JobStatus", *_OF_A_HOLD)}
    groups: dict[tuple[str, ...], list[int]] = {}
    for proc, status in enumerate(columns["JobStatus"]):
        if status == "5":
            said = [columns[name][proc] if name in columns else command.ad.get(name, "") for name in _OF_A_HOLD]
            groups.setdefault(tuple(said), []).append(proc)
    known = (dict(zip(_OF_A_HOLD, said, strict=True)) for said in groups)
    said_ones = [{name: text for name, text in one.items() if text not in ("", "undefined")} for one in known]
    changes = [(_INITIALLY_HELD if one.get("HoldReasonCode") == _ON_HOLD else {}) | one for one in said_ones]
    return {**ad, "JobStatus": "1"}, pack(rest), list(zip(changes, groups.values(), strict=True))


# Texts that need no parser to be known as expressions: numbers and strings without an escape.
_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|\"[^\"\\\\]*\"", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _check(command: Submit) -> Mapping[str, Sequence[str]]:
    """What differs between the jobs. Ads that are none are refused: whatever is in the log must be readable for ever.

    :raises Refusal: a name or a text that no ad can have, or columns that do not fit the number of jobs
    """
    try:
        columns = unpack(command.columns)
    except Exception:
        raise Refusal(
            "the jobs' own attributes cannot be read: they are packed as poolbook submit packs them"
        ) from None
    for name, texts in columns.items():
        if len(texts) != command.count:
            raise Refusal(f"{name} has {len(texts)} values for {command.count} jobs")
    for name, texts in [*((name, [text]) for name, text in command.ad.items()), *columns.items()]:
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name")
        for text in texts:
            if not _PLAIN.fullmatch(text) and expression(text) is None:
                raise Refusal(f"{name} = {text[:200]}: this is no ClassAd expression")
    return columns


# Selecting


def selected(draft: Draft, selection: Selection) -> Iterator[tuple[Cluster, list[int]]]:
    """Each cluster that the command means, with its processes."""
    state = draft.state
    constraint = _constraint(selection.constraint)
    wanted: dict[int, set[int] | None] = dict.fromkeys(selection.clusters)
    for number, proc in selection.jobs:
        procs = wanted.setdefault(number, set())
        if procs is not None:
            procs.add(proc)
    only_constraint = constraint is not None and not (wanted or selection.owners)
    for cluster in list(state.clusters.values()):
        if cluster.id in wanted:
            named = wanted[cluster.id]
            procs_ = list(cluster.procs()) if named is None else sorted(p for p in named if p in cluster)
        elif selection.everything or only_constraint or state.owner(cluster) in selection.owners:
            procs_ = list(cluster.procs())
        else:
            continue
        if constraint is not None:
            procs_ = [proc for proc in procs_ if _meets(draft, constraint, job_ad(cluster, proc))]
        if procs_:
            yield cluster, procs_


def _constraint(text: str) -> Expression | None:
    if not text:
        return None
    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise Refusal(f"invalid constraint {text!r}: {error}") from None


def _meets(draft: Draft, constraint: Expression, job: ClassAd) -> bool:
    try:
        value = constraint.evaluate(job, None, draft.context)
    except EvaluationError:
        return False
    return value not in (UNDEFINED, ERROR) and accepts(value)


def _missing(draft: Draft, selection: Selection) -> list[Outcome]:
    clusters = draft.state.clusters
    gone = [Outcome(number, 0, -1, "not found") for number in selection.clusters if number not in clusters]
    for number, proc in selection.jobs:
        if number not in clusters or proc not in clusters[number]:
            gone.append(Outcome(number, proc, proc, "not found"))
    return gone


def _allowed(draft: Draft, user: str, cluster: Cluster) -> bool:
    return user in super_users(draft.state.settings) or user == draft.state.owner(cluster)


# Acting


def act_on_jobs(draft: Draft, command: Act) -> None:
    """Do with each selected job what the command says, and answer what became of each."""
    rule = _ACTIONS.get(command.action)
    if rule is None:
        raise Refusal(f"{command.action!r} is nothing that can be done with jobs; there are {', '.join(_ACTIONS)}")
    outcomes = _missing(draft, command.selection)
    for cluster, procs in list(selected(draft, command.selection)):
        if not _allowed(draft, command.user, cluster):
            outcomes += _outcomes(cluster, procs, "permission denied")
            continue
        for (status, running), group in _groups(draft, cluster, procs).items():
            done = rule(draft, command, cluster, group, status, running)
            outcomes += _outcomes(cluster, group, "done" if done else status)
    arguments = msgspec.json.encode(command.selection).decode()
    answer(draft, command, command.action, arguments, outcomes)


def _groups(draft: Draft, cluster: Cluster, procs: list[int]) -> dict[tuple[str, bool], list[int]]:
    groups: dict[tuple[str, bool], list[int]] = {}
    running = draft.state.by_job
    for proc in procs:
        groups.setdefault((cluster.status_of(proc), (cluster.id, proc) in running), []).append(proc)
    return groups


def _outcomes(cluster: Cluster, procs: list[int], result: str) -> list[Outcome]:
    return [Outcome(cluster.id, first, last, result) for first, last in ranges(procs)]


def _reason(command: Act, verb: str) -> str:
    how = command.reason or f"via condor_{verb}"
    return quoted(f"{how} (by user {command.user})")


def _stop_all(draft: Draft, cluster: Cluster, procs: list[int], cause: str) -> None:
    for proc in procs:
        activation = draft.state.by_job.get((cluster.id, proc))
        if activation is not None:
            stop(draft, activation, cause)


def _hold(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status in ("Held", "Removed", "Completed"):
        return False
    changes = {
        "HoldReason": _reason(command, "hold"),
        "HoldReasonCode": str(HELD_BY_USER),
        "HoldReasonSubCode": str(command.subcode),
    }
    draft.move_jobs(cluster, ranges(procs), "hold", "user_hold", status, changes)
    withdraw_better_matches(draft, cluster.id, procs)
    _stop_all(draft, cluster, procs, "user_hold")
    return True


def _release(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status != "Held":
        return False
    by_held: dict[tuple[str, ...], list[int]] = {}
    for proc in procs:
        by_held.setdefault(tuple(cluster.value(proc, name) for name in _OF_A_HOLD), []).append(proc)
    for held, group in by_held.items():
        changes: Ad = {f"Last{name}": text for name, text in zip(_OF_A_HOLD, held, strict=True) if text}
        changes |= dict.fromkeys(_OF_A_HOLD, "")
        changes["ReleaseReason"] = _reason(command, "release")
        draft.move_jobs(cluster, ranges(group), "release", "user_release", status, changes)
    return True


def _remove(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status == "Removed":
        return False
    changes = {"RemoveReason": _reason(command, "rm")}
    draft.move_jobs(cluster, ranges(procs), "remove", "user_remove", status, changes)
    withdraw_better_matches(draft, cluster.id, procs)
    if running:
        _stop_all(draft, cluster, procs, "user_remove")
    return True


def _remove_now(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    """Do not wait for jobs that are being removed: what runs of them is killed, and of which nothing runs, those leave
    the queue whatever their LeaveJobInQueue says."""
    if status != "Removed":
        return False
    if not running:
        draft.move_jobs(cluster, ranges(procs), "remove_x", "user_remove", status, {})
        return True
    for proc in procs:
        signal(draft, draft.state.by_job[cluster.id, proc], "hard", "user_remove")
    return True


def _vacate(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    """Its user gives up a retirement time that the job may have: condor_vacate_job deactivates the claim."""
    if status not in RUNS:
        return False
    for proc in procs:
        activation = draft.state.by_job[cluster.id, proc]
        slot = draft.state.slots.get(activation.slot)
        if slot is not None:
            vacate(draft, slot, command.fast, "user_vacate")
        if slot is None or not command.fast:
            signal(draft, activation, "hard" if command.fast else "soft", "user_vacate")
    return True


def _suspend(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    return status == "Running" and _pause(draft, cluster, procs, ("Claimed/Busy", "Claimed/Retiring"), suspend_claim)


def _continue(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    return status == "Suspended" and _pause(draft, cluster, procs, ("Claimed/Suspended",), continue_claim)


def _pause(
    draft: Draft, cluster: Cluster, procs: list[int], pairs: tuple[str, ...], rule: Callable[[Draft, Slot], bool]
) -> bool:
    """Suspend or continue the slots of these jobs, if all of them are where that can be."""
    if cluster.local:
        return False  # without a slot there is nobody to suspend it
    slots = [draft.state.slots[draft.state.by_job[cluster.id, proc].slot] for proc in procs]
    if any(slot.state_activity not in pairs for slot in slots):
        return False
    done = [rule(draft, slot) for slot in slots]
    return all(done)


_ACTIONS: dict[str, Callable[[Draft, Act, Cluster, list[int], str, bool], bool]] = {
    "hold": _hold,
    "release": _release,
    "remove": _remove,
    "remove now": _remove_now,
    "vacate": _vacate,
    "suspend": _suspend,
    "continue": _continue,
}


# Editing

IMMUTABLE = frozenset({"clusterid", "procid", "owner", "user", "qdate", "jobstatus", "mytype", "globaljobid"})


def edit_jobs(draft: Draft, command: Edit) -> None:
    """Set attributes of jobs, or add to numbers."""
    for name, text in command.changes.items():
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name: letters, digits and _, and no digit first")
        if name.lower() in IMMUTABLE or name.lower() in LIVED:
            raise Refusal(f"{name} cannot be changed: the pool itself keeps it")
        if name.lower() == GROUP.lower():
            words = "it says for whom the jobs count from the start; remove them and submit them again"
            raise Refusal(f"{name} cannot be changed: {words}")
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"{name} = {text}: {error}") from None
    outcomes = _missing(draft, command.selection)
    for cluster, procs in list(selected(draft, command.selection)):
        if not _allowed(draft, command.user, cluster):
            outcomes += _outcomes(cluster, procs, "permission denied")
            continue
        for changes, group in _edits(command, cluster, procs):
            draft.emit(JobsEdited(*draft.why("user_edit"), cluster.id, ranges(group), changes))
            withdraw_better_matches(draft, cluster.id, group)
            outcomes += [Outcome(cluster.id, first, last, "done", changes) for first, last in ranges(group)]
    answer(draft, command, "edit", msgspec.json.encode(command.changes).decode(), outcomes)


def _edits(command: Edit, cluster: Cluster, procs: list[int]) -> list[tuple[Ad, list[int]]]:
    spelled = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names)}
    wanted = {spelled.get(name.lower(), name): text for name, text in command.changes.items()}
    if not command.add:
        return [(wanted, procs)]
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for proc in procs:
        sums = tuple((name, _sum(cluster.value(proc, name, "0"), more)) for name, more in wanted.items())
        groups.setdefault(sums, []).append(proc)
    return [(dict(changes), group) for changes, group in groups.items()]


def _sum(text: str, more: str) -> str:
    """Two numbers' sum; for what is no plain number, the sum as an expression."""
    try:
        return str(int(text) + int(more))
    except ValueError:
        return f"({text}) + ({more})"


def vacate_slot(draft: Draft, command: VacateSlot) -> None:
    """Vacate a slot by its name, or every slot of a machine."""
    done = [
        slot.name for slot in _slots(draft, command, "vacate") if vacate(draft, slot, command.fast, "vacate_command")
    ]
    answer(draft, command, "vacate", command.slot, {"vacated": done})


def suspend_slot(draft: Draft, command: SuspendClaim) -> None:
    """Suspend what runs on a slot, or on every slot of a machine."""
    done = [slot.name for slot in _slots(draft, command, "suspend") if suspend_claim(draft, slot)]
    answer(draft, command, "suspend", command.slot, {"suspended": done})


def continue_slot(draft: Draft, command: ContinueClaim) -> None:
    """Let what a request suspended go on."""
    done = [slot.name for slot in _slots(draft, command, "continue") if continue_claim(draft, slot)]
    answer(draft, command, "continue", command.slot, {"continued": done})


def _slots(draft: Draft, command: VacateSlot | SuspendClaim | ContinueClaim, verb: str) -> list[Slot]:
    """Return the slots that a command names, if its user may do so with all of them."""
    slots = [s for s in draft.state.slots.values() if command.slot in (s.name, s.machine)]
    if not slots:
        raise Refusal(f"there is no slot or machine {command.slot}; `poolbook status` lists them")
    if command.user not in super_users(draft.state.settings):
        owners = {slot.user.partition("@")[0] for slot in slots if slot.claim}
        if owners - {command.user}:
            raise Refusal(f"{command.slot} runs jobs of other users: only the pool's owner may {verb} it")
    return slots
