"""Property: the validator detects every edit of a sound log. The edits that it cannot detect are listed here, with the
reason. The forger is careful: positions are renumbered, and so are the keys of activations, which are positions.
Violations are found by comparing events with each other."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.validation import RULES, examine

from ..sampling import SHARE, marked
from ..together import together
from .edits import (
    Edit,
    change,
    drop,
    repeat,
    swap,
    undetected_changes,
    undetected_omissions,
    undetected_repeats,
    violations_after,
)
from .test_legality_of_edited_backfill import OF_BACKFILL
from .test_legality_of_edited_points import OF_POINTS
from .test_legality_of_edited_roles import OF_PEERS
from .test_legality_of_edited_submissions import OF_POLICY
from .virtual_pool import Pool

HISTORY = """
machine h Cpus=3 Memory=4096
machine k Cpus=2 kind=static
submit alice 3 seconds=30 grace=5
run 1 s
measure 1.0 2000
suspend alice 1.0
run 5 s
continue alice 1.0
hold alice 1.1
run 1 min
release alice 1.1
edit alice 1 JobPrio=3
submit bob 2 memory=9000
submit bob 1 hold
release bob 3.0
run 2 min
submit alice 1 end=failure
submit alice 1 seconds=9 end=lost
submit alice 1 seconds=900 grace=-1
submit bob 1 seconds=900
run 10 s
exceed 7.0
vacate root slot1_2@h
remove alice 5
run 11 min
remove bob 2
grant bob@example.org factor 5 60
run 30 s
grant bob@example.org factor 6
grant bob@example.org factor back
grant carol@example.org ceiling 3
reset
forget carol@example.org
submit alice 1 seconds=5 DeferralTime=QDate+600 ShouldTransferFiles="YES"
submit alice 1 seconds=5 CronMinute="*/30" OnExitRemove=NumJobStarts>=2
submit alice 1 DeferralTime=QDate-600
submit alice 4 seconds=5 JobMaterializeLimit=2
hold alice 11
run 1 min
release alice 11
run 1 h
submit alice 1 seconds=30 JobNotification=1 CoolFor=20 TransformOnEvict="A" TransformBody_A="SET\\tRequestMemory\\t130"
run 5 s
exceed 12.0
run 5 s
vacate root slot1_1@h
run 2 min
submit alice 2 seconds=900
run 5 s
submit alice 1 seconds=30 cpus=2 Requirements=false
now alice 14.0 13.0 13.1
run 2 min
remove alice 13
run 1 min
leave k
"""


OF_DEFRAG: frozenset[type[e.Event]] = frozenset({e.DefragPolled})
"""Edited by tests/defrag/test_validation.py."""
OF_GROUPS: frozenset[type[e.Event]] = frozenset({e.QuotasAssigned})
"""Covered by tests/groups/test_quota_reports.py."""
OF_CHECKPOINTS: frozenset[type[e.Event]] = frozenset({e.CheckpointsDeleted})
"""Covered by tests/pool/test_checkpoint_destination.py."""
OF_SCHEDD_CRON: frozenset[type[e.Event]] = frozenset({e.ScheddPublished})
"""Covered by tests/schedd/test_schedd_cron.py."""
OF_HTTPS: frozenset[type[e.Event]] = frozenset({e.RequestsRejected})
"""Covered by tests/https/test_rejections.py."""
OF_MANAGERS: frozenset[type[e.Event]] = frozenset(
    {
        e.HadTransitioned, e.ManagerHeard, e.SettingConflicted, e.SettingWithheld, e.DaemonsSwitched,
        e.FlockingChanged, e.SlotAbsent, e.OfflineMatched,
    }
)  # fmt: skip
"""Covered by tests/peers: test_availability.py, test_switching.py, test_flocking.py and test_absent_ads.py."""


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    pool = Pool(dialect, SYSTEM_ON_VACATE_COOL_DOWN="CoolFor")
    for line in HISTORY.strip().splitlines():
        pool.say(line)
    pool.log.raise_epoch("another", pool.engine.world.now(), "serve")
    pool.log.raise_epoch("a third", pool.engine.world.now(), "serve")
    return tuple(event for _, event in pool.events())


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_unedited_history_is_sound_and_has_every_kind_of_queue_event(dialect: str) -> None:
    log = sound(dialect)
    assert examine(enumerate(log, 1)).violations == []
    other_kinds = OF_POINTS | OF_BACKFILL | OF_DEFRAG | OF_GROUPS | OF_POLICY | OF_PEERS | OF_HTTPS | OF_MANAGERS
    other_kinds |= OF_CHECKPOINTS | OF_SCHEDD_CRON
    missing = set(e.TOPICS.values()) - e.IMPORTED - other_kinds - {type(event) for event in log}
    assert missing <= {e.MatchVoided, e.PoolConfigured}


# Every event in turn: omitted, or repeated

EVENTS_OF_A_KIND = 2
"""How many events of each kind `make test` edits; the soak edits all."""
THOROUGH_DIALECTS = ["manual", "htcondor-25"] if SHARE == 1 else ["htcondor-25"]
"""The dialects in which all events are edited; a short soak uses one."""

UNDETECTED_OMISSIONS: dict[type[e.Event], str] = {
    e.SlotTransitioned: "only transition 1, as the last before a slot's end or while it is partitionable: staying in "
    "Owner is also legal",
    e.SlotAdChanged: "the last of several at one instant counts",
    e.ClaimFlagged: "only the flag that a claim is vacated finally",
    e.CycleHeld: "without a match it changes nothing",
    e.MachineLeft: "a machine may be without slots",
    e.JobsEdited: "no event repeats what a job's ad says",
    e.JobExecuting: "a job may end before the supervisor reports its start",
    e.Mailed: "sending a mail may take long",
    e.JobMeasured: "a job need not be measured",
    e.PrioritiesUpdated: "the next one may give the same result, for example if all priorities are at the minimum",
    **dict.fromkeys((e.SubmitterSet, e.SubmittersReset, e.SubmitterDeleted), "only the answer repeats it, as text"),
    e.WriterBegan: "only the last event: a truncated log is still valid",
}
UNDETECTED_REPEATS: dict[type[e.Event], str] = {
    e.EvaluationRecorded: "any number is legal",
    e.SlotAdChanged: "the values stay the same",
    e.CycleHeld: "without a match it changes nothing",
    e.JobMeasured: "a job may be measured any number of times",
    e.JobsEdited: "the values stay the same",
    e.MailDue: "any number is legal",
    e.JobSignalled: "a killed job may be killed again",
    e.JobsDeferred: "the time stays the same",
    e.SubmitterSet: "the values stay the same",
    e.SubmittersReset: "accounts may be reset again",
}


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_an_omitted_event_is_detected(dialect: str) -> None:
    assert undetected_omissions(sound(dialect), EVENTS_OF_A_KIND) <= set(UNDETECTED_OMISSIONS)


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_repeated_event_is_detected(dialect: str) -> None:
    assert undetected_repeats(sound(dialect), EVENTS_OF_A_KIND) <= set(UNDETECTED_REPEATS)


@pytest.mark.soak
@pytest.mark.parametrize("dialect", THOROUGH_DIALECTS)
def test_every_omitted_or_repeated_event_is_detected(dialect: str) -> None:
    assert undetected_omissions(sound(dialect)) == set(UNDETECTED_OMISSIONS)
    assert undetected_repeats(sound(dialect)) == set(UNDETECTED_REPEATS)


# Every field of every event in turn: another value

OTHER_JOBS = "it is empty for jobs that do not end with the event"
OLDER_ADS = "ads of older logs do not keep former reasons"
NO_BOUND = "any instant between its neighbours' is legal"
ANY_STIMULUS = "a stimulus may have any name; a rule compares the names of related events only if it needs them"
NOT_REPEATED = "no event repeats it"
ANY_MEASUREMENT = "any measurement is legal"
AD_NOT_REPEATED = "no event repeats an ad, except its resources, and what a cluster's ad says about its event"

TRANSFERS = (e.JobTransferBegan, e.JobTransferEnded)

UNDETECTED_CHANGES: dict[tuple[type[e.Event], str], str] = {
    **{(kind, "at"): NO_BOUND for kind in (e.PoolFounded, e.WriterBegan, e.JobExecuting, e.JobMeasured)},
    **{(kind, "at"): NO_BOUND for kind in (e.JobCooledDown, e.Mailed)},
    (e.JobExited, "protocol"): NOT_REPEATED,
    (e.PrioritiesUpdated, "at"): "any instant is legal if all priorities are at the minimum",
    **{
        (kind, "stimulus"): ANY_STIMULUS
        for kind in (
            e.PoolFounded,
            e.WriterBegan,
            e.MachineJoined,
            e.MachineLeft,
            e.SlotCreated,
            e.SlotTransitioned,
            e.SlotDestroyed,
        )
    },
    **{(kind, "stimulus"): ANY_STIMULUS for kind in (e.PrioritiesUpdated, e.CycleHeld, e.JobExecuting, e.JobMeasured)},
    **{(kind, "stimulus"): ANY_STIMULUS for kind in TRANSFERS},
    **{(e.PoolFounded, field): NOT_REPEATED for field in ("name", "uid_domain", "version", "log")},
    (e.WriterBegan, "writer"): NOT_REPEATED,
    **{(e.RequestAnswered, field): "only informs users" for field in ("user", "request", "arguments", "answer")},
    (e.EvaluationRecorded, "name"): "only repeating the decision detects it",
    (e.EvaluationRecorded, "read"): "the value does not depend on it",
    **{(e.ClaimMade, field): NOT_REPEATED for field in ("ad", "holder", "lease", "rank")},
    **dict.fromkeys(((e.JobSignalled, "until"), (e.JobActivated, "vacate")), NOT_REPEATED),
    **{
        (e.CycleHeld, field): "only repeating the decision detects it"
        for field in ("unmatched", "statistics", "offset", "rules")
    },
    **{(e.SubmitterSet, field): NOT_REPEATED for field in ("submitter", "value", "until")},
    (e.MachineJoined, "ad"): AD_NOT_REPEATED,
    (e.SlotCreated, "ad"): AD_NOT_REPEATED,
    (e.SlotAdChanged, "changes"): AD_NOT_REPEATED,
    (e.ClusterSubmitted, "ad"): AD_NOT_REPEATED,
    (e.JobsTransitioned, "changes"): AD_NOT_REPEATED,
    (e.JobsTransitioned, "stimulus"): ANY_STIMULUS,
    **{(kind, "left"): OTHER_JOBS for kind in (e.JobsTransitioned, e.JobExited)},
    **{(kind, "reasons_kept"): OLDER_ADS for kind in (e.JobsTransitioned, e.JobExited)},
    (e.JobActivated, "ad"): AD_NOT_REPEATED,
    (e.JobActivated, "expanded"): AD_NOT_REPEATED,
    (e.JobsEdited, "changes"): AD_NOT_REPEATED,
    (e.JobsDeferred, "until"): "no event repeats it until a job starts at that time",
    **{(kind, "stimulus"): ANY_STIMULUS for kind in (e.JobDue, e.JobCooledDown, e.MailDue, e.Mailed)},
    **{(e.MailDue, field): NOT_REPEATED for field in ("to", "subject", "text")},
    (e.Mailed, "failure"): NOT_REPEATED,
    (
        e.JobsEdited,
        "stimulus",
    ): "a job's own transform depends on its end; a user's edit has an answer",
    (e.JobsMaterialized, "stimulus"): ANY_STIMULUS,
    (e.FactoryTransitioned, "reason"): NOT_REPEATED,
    **{(e.JobTransferEnded, f): ANY_MEASUREMENT for f in ("files", "size", "listed", "failed", "ended")},
    (e.JobTransferBegan, "began"): NOT_REPEATED,
    (e.JobExecuting, "pid"): NOT_REPEATED,
    (e.JobExecuting, "scratch"): NOT_REPEATED,
    (e.JobExecuting, "began"): NOT_REPEATED,
    **{(e.JobMeasured, f): ANY_MEASUREMENT for f in ("image", "resident", "disk", "user_cpu", "system_cpu", "usage")},
    (e.JobMeasured, "proc"): "another running job may also be measured",
    **{(e.JobExited, f): ANY_MEASUREMENT for f in ("user_cpu", "system_cpu", "resident", "disk", "ended")},
    (e.JobExited, "code"): "a job may end with any",
    (e.JobExited, "signal"): "a job may end by any",
    (e.JobExited, "changes"): AD_NOT_REPEATED,
}


CHANGED_KINDS = set(e.TOPICS.values()) - OF_POINTS - OF_BACKFILL - OF_DEFRAG - OF_GROUPS - OF_PEERS - OF_MANAGERS


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_a_changed_field_is_detected(dialect: str) -> None:
    assert undetected_changes(sound(dialect), CHANGED_KINDS, 1) <= set(UNDETECTED_CHANGES)


@pytest.mark.soak
@pytest.mark.parametrize("dialect", THOROUGH_DIALECTS)
def test_every_changed_field_is_detected(dialect: str) -> None:
    assert undetected_changes(sound(dialect), CHANGED_KINDS) == set(UNDETECTED_CHANGES)


def test_a_violation_names_its_thing_and_rule_and_lists_the_story() -> None:
    log = list(sound("manual"))
    index, claim_end = next((i, event) for i, event in enumerate(log) if isinstance(event, e.ClaimEnded))
    log[index] = replace(claim_end, usage=7)
    (violation,) = examine(enumerate(log, 1)).violations
    assert violation.position == index + 1
    assert violation.thing == claim_end.slot
    assert violation.rule == "usage"
    assert violation.words == "the claim used 11000000000, but 7 is charged"
    assert [story.split()[3] for story in violation.story] == [violation.thing] * 8
    assert violation.story[-1].lstrip().startswith(f"{index + 1} ")


# Faults that a forger might plant: the rule that each breaks first


@together(
    ("fault", "edit", "rule"),
    [
        ("the founding event is missing", drop(e.PoolFounded), "founded"),
        ("the dialect is unknown", change(e.PoolFounded, dialect="tarzan"), "reference"),
        ("a writer's epoch is skipped", change(e.WriterBegan, epoch=3), "epoch"),
        ("a cause is unknown", change(e.SlotTransitioned, cause="a whim"), "cause"),
        ("a slot's row is wrong", change(e.SlotTransitioned, 1, row="7"), "row"),
        ("a slot's transition has the wrong source", change(e.SlotTransitioned, 3, source="Owner/Idle"), "source"),
        ("a slot's transition has an impossible target", change(e.SlotTransitioned, 2, target="Drained/Idle"), "row"),
        ("a claim is charged too little", change(e.ClaimEnded, usage=1), "usage"),
        ("a claim is released by another user", change(e.ClaimEnded, submitter="eve@example.org"), "claim"),
        ("a claim goes to another user", change(e.ClaimMade, submitter="eve@example.org"), "activation"),
        ("a claim's start is missing", drop(e.ClaimMade), "activation"),
        ("a claim's end is missing", drop(e.ClaimEnded), "claim"),
        ("a slot is claimed twice", repeat(e.ClaimMade), "claim"),
        ("a match is missing", change(e.CycleHeld, matches=()), "match"),
        ("a job is activated twice", repeat(e.JobActivated), "source"),
        ("a job runs on an unknown slot", change(e.JobActivated, slot="slot9@h"), "reference"),
        ("a job's end is missing", drop(e.JobExited), "activation"),
        ("a completed job is recorded as evicted", change(e.JobExited, 2, outcome="evicted"), "end"),
        ("a job ends by a row with another target", change(e.JobExited, 1, target="Held"), "row"),
        ("a job's signal is missing", drop(e.JobSignalled), "end"),
        ("a job's departure from the queue is missing", drop(e.JobsTransitioned, row="leave"), "queue"),
        ("a running job leaves the queue", change(e.JobsTransitioned, row="leave", target="Left"), "row"),
        ("a held job is held again", repeat(e.JobsTransitioned, row="hold"), "source"),
        ("a job's continuation is missing", drop(e.JobsTransitioned, row="continue"), "activation"),
        ("a transition names an unknown job", change(e.JobsTransitioned, procs=((0, 99),)), "reference"),
        ("a job's own transform changes no job", change(e.JobsEdited, 1, procs=()), "reference"),
        ("the owner of a job is edited", change(e.JobsEdited, changes={"Owner": '"eve"'}), "immutable"),
        ("a cluster has one job too many", change(e.ClusterSubmitted, count=4), "value"),
        ("a cluster is submitted twice", repeat(e.ClusterSubmitted), "reference"),
        ("an answer is missing", drop(e.RequestAnswered), "answer"),
        ("evidence is missing", drop(e.EvaluationRecorded), "evidence"),
        ("a slot keeps resources that it gave to a dynamic slot", drop(e.SlotAdChanged, 2), "resources"),
        ("a slot is carved from an unknown slot", change(e.SlotCreated, 2, parent="slot7@h"), "reference"),
        ("a slot is deleted twice", repeat(e.SlotDestroyed), "reference"),
        ("two transitions are exchanged", swap(e.SlotTransitioned, row="22"), "source"),
        ("a claim starts before its slot is claimed", swap(e.SlotTransitioned, row="9"), "claim"),
        ("a job ends after its slot's next transition", swap(e.JobExited, row="complete"), "activation"),
        ("an event is earlier than the one before", change(e.JobMeasured, at=1), "order"),
    ],
)
def test_a_planted_fault_breaks_its_rule(fault: str, edit: Edit, rule: str) -> None:
    violations = violations_after(sound("manual"), edit)
    assert violations and violations[0].rule == rule
    assert {violation.rule for violation in violations} <= set(RULES)
