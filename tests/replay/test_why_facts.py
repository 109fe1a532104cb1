"""Property: at any moment of any pool, each sentence of ``why`` about an idle job is true, by facts that this test
computes from the state and the ads, without the negotiator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, Context, parse
from poolbook.domain.classad.matching import is_satisfied, requirements_met
from poolbook.domain.concurrency_limits import PARTS_PER_UNIT, requested_amounts
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports.log import EventStore
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches, ad_from_attributes
from poolbook.domain.state.records import Slot
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.narration.sentences import Sentence
from poolbook.replay.scenario import PlayError, parse_scenario
from poolbook.replay.why.answer import why

from ..sampling import soak_examples

START = 1_793_606_400  #: when a scenario begins, in seconds

_SETTINGS = [
    (0.4, "use FEATURE : StaticSlots"),
    (0.15, 'START = Owner != "bob"'),
    (0.15, "START = RequestMemory < 600"),
    (0.1, 'START = TARGET.Flavor =?= "x"'),
    (0.1, "START = KeyboardIdle > 120"),
    (0.15, "START = MY.Memory > 500"),
    (0.2, "IS_OWNER = KeyboardIdle < 60"),
    (0.4, "XSW_LIMIT = 1"),
    (0.25, "GROUP_NAMES = g\n    GROUP_QUOTA_g = 2"),
    (0.3, "PREEMPTION_REQUIREMENTS = True"),
    (0.2, 'RANK = (Owner == "cat") * 10'),
    (0.2, "MAX_JOBS_RUNNING = 2"),
    (0.2, "NEGOTIATOR_CONSIDER_PREEMPTION = False"),
    (0.2, "CLAIM_WORKLIFE = 0"),
    (0.2, "MaxJobRetirementTime = 300"),
    (0.2, "SYSTEM_ON_VACATE_COOL_DOWN = 200"),
    (
        0.25,
        "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, NEGOTIATOR_B, SCHEDD, STARTD\n"
        '    NEGOTIATOR_B.NEGOTIATOR_SLOT_CONSTRAINT = Machine == "m1"',
    ),
]
_JOBS = [
    (0.3, ["cpus=1", "cpus=2", "cpus=4", "cpus=8"]),
    (0.5, ["memory=100", "memory=400", "memory=900", "memory=3000", "memory=9000"]),
    (0.2, ["disk=1000", "request_disk=2GB", "request_disk=9GB"]),
    (0.2, ['requirements=(Machine=="m1")', "requirements=(HasThing)", "requirements=(KeyboardIdle>100)"]),
    (0.25, ["concurrency_limits=XSW"]),
    (0.15, ["accounting_group=g"]),
    (0.1, ["hold=true"]),
    (0.1, [f"deferral_time={START + seconds}" for seconds in (200, 700, 1400)]),
]
_STEPS = [
    "drain {m}", "drain {m} fast", "drain {m} resume", 'drain {m} start=(Owner=="cat")', "cancel-drain {m}", "off {m}",
    "off {m} peaceful", "on {m}", "KeyboardIdle=0", "{m} KeyboardIdle=0", "hold 1", "release 1", "remove 1.0",
    "vacate 1", "vacate 2 fast", "edit 1 RequestMemory=300", 'set START = Owner != "ann"', "set XSW_LIMIT = 3",
    "suspend 1", "claim slot1@{m} by dan run=5:00",
]  # fmt: skip


def random_pool(seed: int) -> tuple[str, EventStore]:
    """Return a scenario and its log."""
    dice = random.Random(seed)
    head = ["config", "    NEGOTIATOR_INTERVAL = 60", "    NEGOTIATOR_CYCLE_DELAY = 20"]
    head += [f"    {text}" for chance, text in _SETTINGS if dice.random() < chance]
    machines = [f"m{number}" for number in range(dice.randint(1, 3))]
    head += ["end", f"dialect {dice.choice(('manual', 'htcondor-25'))}"]
    head += [
        f"machine {name} cores={dice.randint(1, 4)} memory={dice.choice((500, 1000, 4000))} "
        f"disk={dice.choice((3000000, 30000000))}"
        for name in machines
    ]
    steps = [(dice.randint(5, 900), _submission(dice)) for _ in range(dice.randint(2, 7))]
    steps += [
        (dice.randint(30, 1100), dice.choice(_STEPS).format(m=dice.choice(machines))) for _ in range(dice.randint(0, 6))
    ]
    steps.sort()
    while True:
        text = "\n".join([*head, *(f"at {seconds}s {line}" for seconds, line in steps), "until 20:00"]) + "\n"
        scenario, log = parse_scenario(text), open_log("memory:", create=True)
        try:
            play(Simulation(scenario, ScenarioMachines(scenario), log, lambda _: None))
        except PlayError as error:  # an impossible step, such as one for a job that is not in the queue
            del steps[error.line - text[: text.index("\nat ")].count("\n") - 2]
        else:
            return text, log


def _submission(dice: random.Random) -> str:
    user, minutes, count = dice.choice(("ann", "bob", "cat")), dice.randint(1, 20), dice.randint(1, 4)
    words = [dice.choice(choices) for chance, choices in _JOBS if dice.random() < chance]
    return " ".join([f"submit {user} run={minutes}:00 count={count}", *words])


@frozen
class SlotFacts:
    """How a slot and a job stand to each other; ``empty``: as if nothing ran on the slot."""

    slot: Slot
    meets: bool  #: the slot meets the job's Requirements
    accepts: bool  #: the slot's published Requirements accept the job
    willing: bool  #: the slot would accept the job, if its machine accepted jobs now
    empty_meets: bool
    empty_willing: bool
    within: bool  #: the empty slot has what the job requests
    closed: str  #: why its machine accepts no jobs now
    taken: bool  #: it has a claim or a match
    free: bool

    @property
    def fits(self) -> bool:
        return self.meets and self.willing


class Moment:
    """The facts about a job of a pool at a moment."""

    def __init__(self, past: list[e.LoggedEvent], job: str, at: int, later: Moment | None = None) -> None:
        self.state: State = fold(past)
        number, proc = map(int, job.split("."))
        cluster = self.state.clusters.get(number)
        if cluster is not None and proc in cluster:
            self.ad, self.submitter = dict(cluster.attributes(proc)), cluster.submitter
        else:  # the job did not exist yet
            assert later is not None
            self.ad, self.submitter = later.ad, later.submitter
        self.context = Context(now=at // SECOND, timezone=UTC)
        published = PublishedSlots(self.state, Caches(), at, self.context)
        self.all = [self._facts(slot, published) for slot in self.state.slots.values()]
        self.slots = [facts for facts in self.all if facts.slot.kind != "dynamic"]

    def _facts(self, slot: Slot, published: PublishedSlots) -> SlotFacts:
        state, job = self.state, ad_from_attributes(self.ad)
        ad, machine = published.ad(slot), state.machines[slot.machine]
        own_start = machine.drain.start if machine.drain is not None else ""
        policy = ClassAd(
            {"Start": parse(own_start or slot.ad["Start"]), "Requirements": parse(slot.ad["Requirements"])}
        )
        willing = ClassAd({name: policy[name] for name in policy}, ad)
        sizes = {name: parse(slot.ad[f"TotalSlot{name}"]) for name in ("Cpus", "Memory", "Disk")}
        empty = ClassAd(sizes if slot.kind == "partitionable" else {}, willing)
        is_taken = slot.claim is not None or slot.queued_claim is not None or slot.name in state.slot_matches
        can_be_claimed = published.is_free(slot)
        closed = "silent" if machine.expired else "ends" if machine.shutdown else ""
        return SlotFacts(
            slot,
            meets=requirements_met(job, ad, self.context),
            accepts=requirements_met(ad, job, self.context),
            willing=requirements_met(willing, job, self.context),
            empty_meets=requirements_met(job, empty, self.context),
            empty_willing=requirements_met(empty, job, self.context),
            within=is_satisfied(empty.eval("WithinResourceLimits", job, self.context)),
            closed=closed or ("" if machine.drain is None or can_be_claimed else "drains"),
            taken=is_taken,
            free=can_be_claimed and not is_taken,
        )

    def belongs_to(self, negotiator: str, slot: Slot) -> bool:
        """Return True if a slot belongs to a negotiator, by the only constraint that these pools have."""
        is_alone = "NEGOTIATORS" not in self.state.settings
        return is_alone or (slot.machine == "m1") == (negotiator == "NEGOTIATOR_B")

    def standing(self, facts: SlotFacts) -> str:
        """Return what prevents a slot from running the job."""
        if not facts.empty_meets:
            return "unmet"
        if not facts.empty_willing:
            return "start" if facts.within else "small"
        if facts.closed:
            return facts.closed
        if facts.taken:
            return "used"
        if not facts.fits:
            return "full"
        return "free" if facts.free else "owner" if facts.slot.state == "Owner" else "used"


_STANDINGS = {
    "unmet": r"do(?:es)? not meet its Requirements", "small": r"(?:is|are) too small for it",
    "start": r"rejects? it by START", "silent": r"ha(?:s an|ve) execution points? that do(?:es)? not respond",
    "ends": r"(?:is|are) shutting down", "drains": r"(?:is|are) draining",
    "owner": r"(?:is|are) used by (?:its|their) owners?",
    "full": r"ha(?:s|ve) too few resources left", "used": r"(?:is|are) in use", "free": r"(?:is|are) free",
}  # fmt: skip


def check_standings(moment: Moment, text: str) -> None:
    counts = {name: int(match[1]) for name, form in _STANDINGS.items() if (match := re.search(rf"(\d+) {form}", text))}
    expected: dict[str, int] = {}
    for facts in moment.slots:
        expected[moment.standing(facts)] = expected.get(moment.standing(facts), 0) + 1
    assert counts == expected
    assert "free" not in expected


def check_all_in_use(moment: Moment, text: str) -> None:
    assert not [facts for facts in moment.all if facts.free and facts.meets and facts.accepts]
    users = [facts.slot.claim.submitter if facts.slot.claim else "" for facts in moment.all if facts.fits]
    assert users
    own = moment.submitter
    if "same submitter" in text:
        assert own in users
    if "not worse" in text:
        assert {*users} - {own}


def check_never(moment: Moment, text: str) -> None:
    assert not [facts for facts in moment.slots if facts.empty_meets and facts.empty_willing]


def check_start(moment: Moment, text: str) -> None:
    check_never(moment, text)
    name = text.split()[0]
    assert next(f for f in moment.slots if f.slot.name.lower() == name.lower()).empty_meets


def check_limits(moment: Moment, text: str) -> None:
    for name, used, most, takes, held in re.findall(
        r"(\w+): (\S+) of (\S+?)(?: \(it takes (\S+)\))?, held by ([^;]*)", text
    ):
        slots, matches = moment.state.slots.values(), moment.state.matches.values()
        limits = [claim.limits for slot in slots for claim in (slot.claim, slot.queued_claim) if claim is not None]
        limits += [match.limits for jobs in matches for match in jobs.values()]
        needs = [need for text in limits for need in requested_amounts(text)]
        holders = [need.units / PARTS_PER_UNIT for need in needs if need.name == name.lower()]
        assert float(used) == sum(holders)
        assert float(used) + float(takes or 1) > float(most)
        assert len(held.rstrip(".").split(", ")) == len(holders)


def check_running(moment: Moment, text: str) -> None:
    assert len(moment.state.by_job) + len(moment.state.slot_matches) >= int(moment.state.settings["MAX_JOBS_RUNNING"])


def check_submitter(moment: Moment, text: str) -> None:
    assert moment.submitter in text


def check_free(moment: Moment, text: str) -> None:
    assert [facts for facts in moment.all if facts.free and facts.meets and facts.accepts]


def check_preemption(moment: Moment, text: str) -> None:
    assert [facts for facts in moment.all if facts.slot.claim is not None and facts.fits]


def check_quota(moment: Moment, text: str) -> None:
    group = text.split("quota of ")[1].split(" ")[0]
    assert moment.submitter.startswith(f"{group}.") or (group == "<none>" and "." not in moment.submitter.split("@")[0])


def check_nothing(moment: Moment, text: str) -> None:
    """A statement about the other jobs."""


CHECKS: dict[str, Callable[[Moment, str], None]] = {
    r"all matching slots are in use": check_all_in_use,
    r"no slot is available for it: ": check_standings,
    r"no slot can run it: ": check_never,
    r"slot\S+ .*would fit it, but": check_start,
    r"concurrency limits? (is|are) reached: |a concurrency limit": check_limits,
    r"MAX_JOBS_RUNNING": check_running,
    r"the fair share of |.* has reached its ceiling": check_submitter,
    r"the quota of ": check_quota,
    r"a slot is free": check_free,
    r"the next cycle preempts": check_preemption,
    r"the next cycle decides|other jobs come before it|.* reached the maximum number of matches": check_nothing,
}


def check_now(moment: Moment, text: str) -> None:
    """Check what an answer says about the present."""
    text = text[:1].lower() + text[1:] if not text.startswith("MAX") else text
    check = next((check for pattern, check in CHECKS.items() if re.match(pattern, text)), None)
    assert check is not None, f"no check for: {text}"
    check(moment, text)


_COUNTS = re.compile(
    r"of (?P<slots>\d+) slots?(?: \(dynamic ones excluded\))?, (?P<meet>none|\d+) meets? its Requirements"
    r"(?:, (?P<rejecting>which|all of which|\d+ of these) rejects? it, by \w+ START or for lack of resources)?"
    r"(?:, (?P<taken>which|all of which|\d+ of these) (?:is|are) not free)?"
)


def check_cycle(moment: Moment, cycle: e.CycleHeld, text: str) -> None:
    """Check the counts of slots in the sentence about a cycle, before which the moment is."""
    own_slots = [facts for facts in moment.slots if moment.belongs_to(cycle.negotiator, facts.slot)]
    if text == "the negotiator had no slots":
        assert not own_slots
        return
    match = _COUNTS.fullmatch(text)
    assert match is not None, f"no check for: {text}"
    meet = 0 if match["meet"] == "none" else int(match["meet"])

    def count(name: str) -> int:
        words = match[name]
        return 0 if words is None else meet if "which" in words else int(words.split()[0])

    meeting = [facts for facts in own_slots if facts.meets]
    assert (int(match["slots"]), meet) == (len(own_slots), len(meeting))
    assert count("rejecting") == sum(not facts.accepts for facts in meeting)
    matched = {f"{match.slot.partition('_')[0]}@{match.slot.partition('@')[2]}" for match in cycle.matches}
    matched |= {match.slot for match in cycle.matches}
    assert count("taken") <= sum(facts.accepts and (not facts.free or facts.slot.name in matched) for facts in meeting)


def check_answer(events: list[e.LoggedEvent], log: EventStore, job: str, at: int) -> None:
    past = [entry for entry in events if entry[1].at <= at]
    moment = Moment(past, job, at)
    lines = why(log, job, at).lines
    codes = {line.code: line for line in lines}
    for line in lines:
        if line.code == "waiting_reason":
            check_now(moment, line.facts["because"])
        elif line.code == "reason_changed":
            check_now(moment, line.facts["now"])
        elif line.code == "refused":
            before = [entry for entry in events if entry[0] < line.position]
            cycle = next(event for position, event in events if position == line.position)
            assert isinstance(cycle, e.CycleHeld)
            if not is_idle(before, job):
                assert line.facts["it"] != "it"
            check_cycle(Moment(before, job, cycle.at, moment), cycle, line.facts["counts"])
        elif line.code == "is_matched":
            check_match(moment, line)
    if "no_cycle" in codes:
        considered = [event for _, event in past if isinstance(event, e.CycleHeld) and job in named_jobs(event)]
        assert not considered or max(event.at for event in considered) <= codes["no_cycle"].at
    if moment.ad.get("JobCoolDownExpiration") and int(moment.ad["JobCoolDownExpiration"]) * SECOND > at:
        assert codes.keys() & {"cools_down", "deferred_until", "time_missed"}


def is_idle(past: list[e.LoggedEvent], job: str) -> bool:
    number, proc = map(int, job.split("."))
    cluster = fold(past).clusters.get(number)
    return cluster is not None and proc in cluster and cluster.attributes(proc).get("JobStatus") == "1"


def check_match(moment: Moment, line: Sentence) -> None:
    slot = moment.state.slots[line.facts["slot"]]
    claimed = slot.claim is not None or slot.queued_claim is not None
    assert claimed or slot.name in moment.state.slot_matches


def named_jobs(cycle: e.CycleHeld) -> set[str]:
    return {match.job for match in cycle.matches} | {reason.job for reason in cycle.unmatched}


def idle_jobs(events: list[e.LoggedEvent], at: int) -> Iterator[str]:
    state = fold([entry for entry in events if entry[1].at <= at])
    for cluster in state.clusters.values():
        for proc in range(4):
            if proc in cluster and cluster.attributes(proc).get("JobStatus") == "1":
                yield f"{cluster.id}.{proc}"
                break


def check_slot(state: State, log: EventStore, slot: Slot, at: int) -> None:
    """Check what ``why`` says about a slot."""
    published = PublishedSlots(state, Caches(), at, Context(now=at // SECOND, timezone=UTC))
    machine, lines = state.machines[slot.machine], why(log, slot.name, at).lines
    codes = {line.code: line for line in lines}
    assert lines[0].facts["pair"] == slot.state_activity
    own_jobs = [f"{cluster}.{proc}" for (cluster, proc), run in state.by_job.items() if run.slot == slot.name]
    assert [lines[0].facts["runs"]] == (own_jobs or ["" if slot.activation is None else slot.activation.job])
    parts = [part for part in machine.slots.values() if part.parent == slot.name]
    if parts:
        facts = codes["dynamic_slots"].facts
        assert facts["parts"].split()[0] == str(len(parts))
        assert facts["left"] == ", ".join(f"{name} {slot.ad[name]}" for name in ("Cpus", "Memory", "Disk"))
    is_full = bool(parts) and any(float(slot.ad[name]) <= 0 for name in ("Cpus", "Memory", "Disk"))
    accepts = published.is_free(slot) and not is_full and not machine.expired and not machine.shutdown
    assert ("see_waiting" not in codes) or accepts
    assert ("wait_for_part" in codes) <= is_full
    assert ("cancel_drain" in codes) <= (machine.drain is not None)
    for code in ("drain_began", "drain_chosen", "row 36", "row 37"):
        assert (code in codes) <= (machine.drain is not None)
    for code in ("row 34", "row 35", "row 35a", "drain cancel"):
        assert (code in codes) <= (machine.drain is None)


def check_pool(seed: int, moments: int) -> None:
    text, log = random_pool(seed)
    events = list(log.read())
    times = sorted({event.at for _, event in events})
    for at in sorted({*random.Random(seed).sample(times, min(moments, len(times))), times[-1]}):
        state = fold([entry for entry in events if entry[1].at <= at])
        for slot in state.slots.values():
            try:
                check_slot(state, log, slot, at)
            except AssertionError as error:
                answer = "\n".join(why(log, slot.name, at).texts)
                error.add_note(f"seed {seed}, {slot.name} at {at // SECOND - START} s, {at}:\n{answer}\n{text}")
                raise
        for job in idle_jobs(events, at):
            try:
                check_answer(events, log, job, at)
            except AssertionError as error:
                answer = "\n".join(why(log, job, at).texts)
                error.add_note(f"seed {seed}, job {job} at {at // SECOND - START} s, {at}:\n{answer}\n{text}")
                raise


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_every_sentence_about_an_idle_job_is_true(seed: int) -> None:
    check_pool(seed, 3)


@pytest.mark.soak
@settings(max_examples=soak_examples(), deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_holds_for_many_pools(seed: int) -> None:
    check_pool(seed, 8)
