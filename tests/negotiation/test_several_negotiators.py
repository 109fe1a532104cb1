"""Property: several negotiators share a pool's slots, none has another's, and each has an accounting of its own."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Pool as Live
from poolbook import Refusal
from poolbook.domain import events as e
from poolbook.domain.config import ConfigError, read
from poolbook.domain.negotiator.cycle import CycleResult, hold
from poolbook.domain.negotiator.negotiator_settings import followed
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.negotiators import names, partition, settings_for
from poolbook.replay.recheck_cycles import recheck

from ..domain.pools import TestPool
from ..together import together
from .pools import SECOND, Pool, drawn, lives_on

GPU = "NEGOTIATOR_GPU"
BOTH = "DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR NEGOTIATOR_GPU SCHEDD STARTD\n"
ON_GPUS = "NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = GPUs > 0\n"
ON_THE_MACHINE = 'NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = Machine == "gpu"\n'
PLAIN = "NUM_SLOTS = 1\nSLOT_TYPE_0_PARTITIONABLE = false\nRUNBENCHMARKS = False\n"
JOB = {"executable": "/bin/sleep", "arguments": "100"}


def configured(text: str) -> dict[str, str]:
    return followed(read(text, subsystem="NEGOTIATOR"))


# What a configuration says


@together(
    ("text", "found"),
    [
        ("DAEMON_LIST = MASTER NEGOTIATOR", {}),
        ("DAEMON_LIST = MASTER", {}),  # a pool has a negotiator, whatever the list says
        (BOTH + ON_GPUS, {"NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0"}),
        ("DAEMON_LIST = negotiator_gpu", {"NEGOTIATORS": GPU}),
        (
            BOTH + ON_GPUS + "PREEMPTION_RANK = 1\nNEGOTIATOR_GPU.PREEMPTION_RANK = 2\n"
            "NEGOTIATOR.DEFAULT_PRIO_FACTOR = 3",
            {
                "NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0",
                "PREEMPTION_RANK": "1", f"{GPU}.PREEMPTION_RANK": "2", "DEFAULT_PRIO_FACTOR": "3",
            },
        ),
        # set to nothing, or to the default, although it is set for all
        (
            BOTH + ON_GPUS + "NEGOTIATOR_JOB_CONSTRAINT = true\nNEGOTIATOR_GPU.NEGOTIATOR_JOB_CONSTRAINT =",
            {
                "NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0",
                "NEGOTIATOR_JOB_CONSTRAINT": "true", f"{GPU}.NEGOTIATOR_JOB_CONSTRAINT": " ",
            },
        ),
        # the name that its arguments give it
        (
            BOTH + "NEGOTIATOR_GPU_ARGS = -local-name G\nG.NEGOTIATOR_SLOT_CONSTRAINT = GPUs > 1",
            {"NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 1"},
        ),
        # as soon as one of the pace is set, the log has all three
        (
            BOTH + ON_GPUS + "NEGOTIATOR_GPU.NEGOTIATOR_INTERVAL = 7",
            {
                "NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0",
                f"{GPU}.NEGOTIATOR_INTERVAL": "7", f"{GPU}.NEGOTIATOR_CYCLE_DELAY": "20",
                f"{GPU}.NEGOTIATOR_MIN_INTERVAL": "5",
            },
        ),
    ],
)  # fmt: skip
def test_daemon_list_names_them_and_each_has_settings_of_its_own(text: str, found: dict[str, str]) -> None:
    assert configured(text) == found


@together(
    ("text", "words"),
    [
        (BOTH, "NEGOTIATOR and NEGOTIATOR_GPU have no NEGOTIATOR_SLOT_CONSTRAINT"),
        (BOTH + "NEGOTIATOR_SLOT_CONSTRAINT = Cpus > 1", r"the same NEGOTIATOR_SLOT_CONSTRAINT \(Cpus > 1\)"),
        (BOTH + "NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = 1 +", "NEGOTIATOR_SLOT_CONSTRAINT = 1 +"),
        (BOTH + ON_GPUS + "NEGOTIATOR_GPU_ARGS = -f", "only -local-name NAME is implemented"),
    ],
)
def test_what_would_give_two_the_same_slots_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configured(text)


# Whose a slot is


def several(pool_settings: dict[str, str] | None = None, /) -> Pool:
    """GPUs are one negotiator's, large slots another's; the last one has the rest."""
    return Pool(
        "htcondor-25",
        **{
            "NEGOTIATORS": "NEGOTIATOR NEGOTIATOR_GPU NEGOTIATOR_BIG",
            "NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0",
            "NEGOTIATOR_BIG.NEGOTIATOR_SLOT_CONSTRAINT": "Memory > 1024",
            "NEGOTIATOR_PRE_JOB_RANK": "",
            **(pool_settings or {}),
        },
    )


def cycle_of(pool: Pool, whose: str) -> CycleResult:
    return hold(
        pool.state, pool.caches, PublishedSlots, lambda cause: (pool.now, cause, "cycle"), pool.context(), whose=whose
    )


def test_each_slot_is_of_the_first_whose_constraint_accepts_it_and_else_of_the_one_without() -> None:
    pool = several()
    pool.slot("slot1@h", GPUs="1", Memory="2048")
    pool.slot("slot2@h", GPUs="1")
    pool.slot("slot3@h", Memory="2048")
    pool.slot("slot4@h")
    pool.submit("ann", 9)
    found = {whose: {slot for _, slot in pool.matched(cycle_of(pool, whose))} for whose in (GPU, "NEGOTIATOR_BIG", "")}
    assert found == {GPU: {"slot1@h", "slot2@h"}, "NEGOTIATOR_BIG": {"slot3@h"}, "": {"slot4@h"}}


_CONSTRAINTS = (
    "Memory > 512", "Special =!= 1", "-1", "1", "Arch =?= undefined", "Special", "undefined", "Cpus < 3", '"yes"',
    "true", "SlotID % 2 == 0", "State == \"Unclaimed\"", "error",
)  # fmt: skip


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(0, 2**32), st.lists(st.sampled_from(_CONSTRAINTS), min_size=1, max_size=3, unique=True), st.booleans()
)
def test_no_slot_is_matched_by_two_whatever_their_constraints(seed: int, texts: list[str], rest: bool) -> None:
    pool = drawn(seed)
    named = [f"NEGOTIATOR_{number}" for number in range(len(texts))]
    given = {f"{name}.NEGOTIATOR_SLOT_CONSTRAINT": text for name, text in zip(named, texts, strict=True)}
    every = (["NEGOTIATOR"] if rest and "NEGOTIATOR_SLOT_CONSTRAINT" not in pool.state.settings else []) + named
    pool.tell(e.PoolConfigured, "reconfigured", {"NEGOTIATORS": " ".join(every), **given})
    dice = random.Random(seed)
    for _ in range(2):
        seen: dict[str, str] = {}
        parts: dict[str, str] = {}
        for name in every:
            held = cycle_of(pool, "" if name == "NEGOTIATOR" else name).held
            for match in () if held is None else held.matches:
                parent, _, host = match.slot.partition("@")
                slot = match.slot if match.slot in pool.state.slots else f"{parent.split('_')[0]}@{host}"
                assert seen.setdefault(match.slot, name) == name
                assert parts.setdefault(slot, name) == name
        lives_on(pool, dice, 5)


def test_what_one_has_given_another_does_not_give_again() -> None:
    """Nor a job: who waits for both gets one slot."""
    pool = several()
    pool.slot("slot1@h", GPUs="1")
    pool.slot("slot2@h")
    pool.submit("ann")
    first = cycle_of(pool, GPU).held
    assert first is not None and [match.slot for match in first.matches] == ["slot1@h"]
    pool.append(first)
    assert {name: [one.negotiator for one in jobs.values()] for name, jobs in pool.state.matches.items()} == {
        "slot1@h": [GPU]
    }
    assert cycle_of(pool, "").held is None


def test_why_a_job_got_nothing_is_news_of_each_of_them_once() -> None:
    pool = several()
    pool.slot("slot1@h", GPUs="1")
    pool.slot("slot2@h")
    pool.submit("ann", RequestMemory="5000", Requirements="TARGET.Memory > 5000")
    for whose in (GPU, "", GPU, ""):
        held = cycle_of(pool, whose).held
        if held is not None:
            pool.append(held)
    told = [event.negotiator for event in pool.log if isinstance(event, e.CycleHeld)]
    assert told == [GPU, ""]


# Accounting


def test_each_has_an_accounting_of_its_own() -> None:
    own = "NEGOTIATOR_GPU.DEFAULT_PRIO_FACTOR = 10\nNEGOTIATOR_GPU.PRIORITY_HALFLIFE = 60"
    with Live.open(config=PLAIN + BOTH + ON_THE_MACHINE + own) as pool:
        pool.add_machine("gpu")
        pool.submit(JOB, user="alice")
        pool.advance(50)
        gpu, plain = (pool.submitters(negotiator=name) for name in (GPU, "NEGOTIATOR"))
        assert [(one.name.split("@")[0], one.slots, one.factor) for one in gpu] == [("alice", 1, 10.0)]
        assert [(one.name.split("@")[0], one.slots, one.used) for one in plain] == [("alice", 0, 0.0)]
        pool.add_machine("cpu")
        pool.submit(JOB, user="alice")
        pool.submit(JOB, user="bob")
        pool.advance(70)
        gpu, plain = (pool.submitters(negotiator=name) for name in (GPU, "NEGOTIATOR"))
        used = {(whose, one.name.split("@")[0]): one.slots for whose, all in ((GPU, gpu), ("", plain)) for one in all}
        assert used == {(GPU, "alice"): 0, (GPU, "bob"): 1, ("", "alice"): 1, ("", "bob"): 0}
        assert next(one.priority for one in gpu if one.name.startswith("alice")) > 0.6
        assert pool.run() and pool.judge() == []
        again = recheck(pool.events())
        assert again.sound and again.taken
        claims = [event for _, event in pool.events() if isinstance(event, e.ClaimMade)]
        assert {(event.slot.split("@")[1], event.negotiator) for event in claims} == {("gpu", GPU), ("cpu", "")}


def test_who_is_asked_of_has_to_be_named_where_there_are_several() -> None:
    with Live.open(config=PLAIN + BOTH + ON_GPUS) as pool:
        for ask in (
            pool.submitters,
            pool.negotiate,
            lambda: pool.set_priority_factor("alice@x", 2),
            lambda: pool.reset_usage(),
            lambda: pool.delete_submitter("alice@x"),
            lambda: pool.submitters(negotiator="NEGOTIATOR_X"),
        ):
            with pytest.raises(Refusal, match="NEGOTIATOR, NEGOTIATOR_GPU"):
                ask()
        pool.set_priority_factor("alice@x", 2, negotiator=GPU)
        assert [(one.name, one.factor) for one in pool.submitters(negotiator=GPU)] == [("alice@x", 2)]
        assert pool.submitters(negotiator="negotiator") == []
        pool.negotiate(negotiator=GPU)
        assert pool.judge() == []


def test_a_pool_with_one_negotiator_may_name_it() -> None:
    with Live.open(config=PLAIN) as pool:
        assert pool.submitters(negotiator="NEGOTIATOR") == pool.submitters() == []
        with pytest.raises(Refusal, match="there is no negotiator NEGOTIATOR_GPU; there is NEGOTIATOR"):
            pool.submitters(negotiator=GPU)


def test_claims_from_outside_count_for_whose_the_slot_is() -> None:
    of = {"NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": 'Machine == "gpu"'}
    pool = TestPool(settings=of)
    for name in ("gpu", "cpu"):
        pool.machine(name, 1, 1024, 1)
        ad = {"Owner": '"carol"', "RequestCpus": "1", "RequestMemory": "1"}
        claim = s.RequestClaim(pool.id(), f"slot1@{name}", f"claim-{name}", "out", "carol@x", "1.0", ad)
        assert not pool.handle(claim).refusal
    found = {event.slot: event.negotiator for event in pool.events() if isinstance(event, e.ClaimMade)}
    assert found == {"slot1@gpu": GPU, "slot1@cpu": ""}
    accounts = {name: one.slots for name, one in pool.state.submitters.items()}
    assert accounts == {f"{GPU} carol@x": 1, "carol@x": 1}


# When cycles are held


def test_each_has_a_pace_of_its_own() -> None:
    pace = "NEGOTIATOR_GPU.NEGOTIATOR_INTERVAL = 10\nNEGOTIATOR_GPU.NEGOTIATOR_CYCLE_DELAY = 0\n"
    config = PLAIN + BOTH + ON_GPUS + pace + "NEGOTIATOR_INTERVAL = 100\nNEGOTIATOR_CYCLE_DELAY = 50\n"
    with Live.open(config=config) as pool:
        pool.add_machine("h")
        pool.submit({**JOB, "requirements": "Never"}, user="alice")
        pool.submit({**JOB, "arguments": "500"}, user="bob")
        pool.advance(300)
        aged: dict[str, list[int]] = {"": [], GPU: []}
        (_, founded), *rest = pool.events()
        for _, event in rest:
            if isinstance(event, e.PrioritiesUpdated):
                aged[event.negotiator].append((event.at - founded.at) // SECOND)
        assert len(aged[""]) >= 2 and all(
            later - at >= 100 for at, later in zip(aged[""][1:], aged[""][2:], strict=False)
        )
        assert aged[GPU] == []  # nobody uses any of its slots
        assert pool.judge() == []


# Coming and going


def test_a_pool_may_come_to_have_several_and_have_one_again() -> None:
    with Live.open(config=PLAIN) as pool:
        pool.add_machine("gpu")
        pool.add_machine("cpu")
        pool.submit(JOB, user="alice")
        pool.advance(10)
        pool.configure(PLAIN + BOTH + 'NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = Machine == "gpu"')
        pool.submit(JOB, user="bob")
        pool.advance(200)
        pool.configure(PLAIN)
        pool.submit(JOB, user="bob")
        assert pool.run() and pool.judge() == []
        again = recheck(pool.events())
        assert again.sound and again.taken


def test_the_account_of_a_negotiator_that_has_gone_is_nobodys() -> None:
    with Live.open(config=PLAIN + BOTH + ON_THE_MACHINE) as pool:
        pool.add_machine("gpu")
        pool.submit(JOB, user="alice")
        pool.advance(61)
        pool.configure(PLAIN)
        pool.submit(JOB, user="bob")
        assert pool.run() and pool.judge() == []
        aged = [event for _, event in pool.events() if isinstance(event, e.PrioritiesUpdated) and not event.negotiator]
        assert aged and not [name for event in aged for name in event.priorities if GPU in name]


def test_settings_of_one_go_before_those_of_all() -> None:
    given = {
        "NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0", "PREEMPTION_RANK": "1",
        f"{GPU}.PREEMPTION_RANK": "2",
    }  # fmt: skip
    assert names(given) == ("NEGOTIATOR", GPU)
    assert settings_for(given, GPU)["PREEMPTION_RANK"] == "2"
    assert settings_for(given, "NEGOTIATOR")["PREEMPTION_RANK"] == "1"
    assert partition(given, GPU) == "(GPUs > 0)"
    assert partition(given, "NEGOTIATOR") == "(((GPUs > 0) ? true : false) =!= true)"
