"""Property: several negotiators share a pool's slots, each slot has one negotiator, and each negotiator its own
accounting."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Pool as Live
from poolbook import Refusal
from poolbook.domain import events as e
from poolbook.domain.config import ConfigError, read
from poolbook.domain.negotiator.cycle import CycleResult, hold_cycle
from poolbook.domain.negotiator.negotiator_settings import configured_settings
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.negotiators import negotiator_names, settings_for, slot_constraint
from poolbook.replay.recheck_cycles import recheck

from ..domain.pools import TestPool
from ..together import together
from .pools import SECOND, Pool, random_pool, run_random_events

GPU = "NEGOTIATOR_GPU"
BOTH = "DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR NEGOTIATOR_GPU SCHEDD STARTD\n"
ON_GPUS = "NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = GPUs > 0\n"
ON_THE_MACHINE = 'NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = Machine == "gpu"\n'
PLAIN = "NUM_SLOTS = 1\nSLOT_TYPE_0_PARTITIONABLE = false\nRUNBENCHMARKS = False\n"
JOB = {"executable": "/bin/sleep", "arguments": "100"}


def configured(text: str) -> dict[str, str]:
    return configured_settings(read(text, subsystem="NEGOTIATOR"))


# Reading a configuration


@together(
    ("text", "configured_settings"),
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
        # as soon as one of the pace settings is set, the log has all three
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
def test_daemon_list_names_negotiators_and_each_has_its_own_settings(
    text: str, configured_settings: dict[str, str]
) -> None:
    assert configured(text) == configured_settings


@together(
    ("text", "message"),
    [
        (BOTH, "NEGOTIATOR and NEGOTIATOR_GPU have no NEGOTIATOR_SLOT_CONSTRAINT"),
        (BOTH + "NEGOTIATOR_SLOT_CONSTRAINT = Cpus > 1", r"the same NEGOTIATOR_SLOT_CONSTRAINT \(Cpus > 1\)"),
        (BOTH + "NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = 1 +", "NEGOTIATOR_SLOT_CONSTRAINT = 1 +"),
        (BOTH + ON_GPUS + "NEGOTIATOR_GPU_ARGS = -f", "only -local-name NAME is implemented"),
    ],
)
def test_settings_that_give_two_negotiators_the_same_slots_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(text)


# Which negotiator has a slot


def several(pool_settings: dict[str, str] | None = None, /) -> Pool:
    """Return a pool in which one negotiator has the GPUs, one the large slots and the last one all other slots."""
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
    return hold_cycle(
        pool.state,
        pool.caches,
        PublishedSlots,
        lambda cause: (pool.now, cause, "cycle"),
        pool.context(),
        negotiator=whose,
    )


def test_each_slot_belongs_to_the_first_negotiator_whose_constraint_accepts_it_or_to_the_default() -> None:
    pool = several()
    pool.slot("slot1@h", GPUs="1", Memory="2048")
    pool.slot("slot2@h", GPUs="1")
    pool.slot("slot3@h", Memory="2048")
    pool.slot("slot4@h")
    pool.submit("ann", 9)
    slots_by_negotiator = {
        negotiator: {slot for _, slot in pool.matched(cycle_of(pool, negotiator))}
        for negotiator in (GPU, "NEGOTIATOR_BIG", "")
    }
    assert slots_by_negotiator == {GPU: {"slot1@h", "slot2@h"}, "NEGOTIATOR_BIG": {"slot3@h"}, "": {"slot4@h"}}


_CONSTRAINTS = (
    "Memory > 512", "Special =!= 1", "-1", "1", "Arch =?= undefined", "Special", "undefined", "Cpus < 3", '"yes"',
    "true", "SlotID % 2 == 0", "State == \"Unclaimed\"", "error",
)  # fmt: skip


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(0, 2**32), st.lists(st.sampled_from(_CONSTRAINTS), min_size=1, max_size=3, unique=True), st.booleans()
)
def test_no_slot_is_matched_by_two_negotiators_whatever_their_constraints(
    seed: int, texts: list[str], has_default: bool
) -> None:
    pool = random_pool(seed)
    names = [f"NEGOTIATOR_{number}" for number in range(len(texts))]
    constraints = {f"{name}.NEGOTIATOR_SLOT_CONSTRAINT": text for name, text in zip(names, texts, strict=True)}
    all_names = (
        ["NEGOTIATOR"] if has_default and "NEGOTIATOR_SLOT_CONSTRAINT" not in pool.state.settings else []
    ) + names
    pool.tell(e.PoolConfigured, "reconfigured", {"NEGOTIATORS": " ".join(all_names), **constraints})
    dice = random.Random(seed)
    for _ in range(2):
        matched_by: dict[str, str] = {}
        parts: dict[str, str] = {}
        for name in all_names:
            cycle = cycle_of(pool, "" if name == "NEGOTIATOR" else name).held
            for match in () if cycle is None else cycle.matches:
                parent, _, host = match.slot.partition("@")
                slot = match.slot if match.slot in pool.state.slots else f"{parent.split('_')[0]}@{host}"
                assert matched_by.setdefault(match.slot, name) == name
                assert parts.setdefault(slot, name) == name
        run_random_events(pool, dice, 5)


def test_a_slot_or_job_matched_by_one_negotiator_is_not_matched_by_another() -> None:
    """A job that waits for both gets one slot."""
    pool = several()
    pool.slot("slot1@h", GPUs="1")
    pool.slot("slot2@h")
    pool.submit("ann")
    first = cycle_of(pool, GPU).held
    assert first is not None and [match.slot for match in first.matches] == ["slot1@h"]
    pool.append(first)
    assert {name: [job.negotiator for job in jobs.values()] for name, jobs in pool.state.matches.items()} == {
        "slot1@h": [GPU]
    }
    assert cycle_of(pool, "").held is None


def test_each_negotiator_reports_a_rejection_once() -> None:
    pool = several()
    pool.slot("slot1@h", GPUs="1")
    pool.slot("slot2@h")
    pool.submit("ann", RequestMemory="5000", Requirements="TARGET.Memory > 5000")
    for negotiator in (GPU, "", GPU, ""):
        cycle = cycle_of(pool, negotiator).held
        if cycle is not None:
            pool.append(cycle)
    negotiators = [event.negotiator for event in pool.log if isinstance(event, e.CycleHeld)]
    assert negotiators == [GPU, ""]


# Accounting


def test_each_negotiator_has_its_own_accounting() -> None:
    configuration = "NEGOTIATOR_GPU.DEFAULT_PRIO_FACTOR = 10\nNEGOTIATOR_GPU.PRIORITY_HALFLIFE = 60"
    with Live.open(config=PLAIN + BOTH + ON_THE_MACHINE + configuration) as pool:
        pool.add_machine("gpu")
        pool.submit(JOB, user="alice")
        pool.advance(50)
        gpu, default_accounting = (pool.submitters(negotiator=name) for name in (GPU, "NEGOTIATOR"))
        assert [(submitter.name.split("@")[0], submitter.slots, submitter.factor) for submitter in gpu] == [
            ("alice", 1, 10.0)
        ]
        assert [
            (submitter.name.split("@")[0], submitter.slots, submitter.used) for submitter in default_accounting
        ] == [("alice", 0, 0.0)]
        pool.add_machine("cpu")
        pool.submit(JOB, user="alice")
        pool.submit(JOB, user="bob")
        pool.advance(70)
        gpu, default_accounting = (pool.submitters(negotiator=name) for name in (GPU, "NEGOTIATOR"))
        used = {
            (negotiator, submitter.name.split("@")[0]): submitter.slots
            for negotiator, all in ((GPU, gpu), ("", default_accounting))
            for submitter in all
        }
        assert used == {(GPU, "alice"): 0, (GPU, "bob"): 1, ("", "alice"): 1, ("", "bob"): 0}
        assert next(submitter.priority for submitter in gpu if submitter.name.startswith("alice")) > 0.6
        assert pool.run() and pool.judge() == []
        rechecked = recheck(pool.events())
        assert rechecked.sound and rechecked.taken
        claims = [event for _, event in pool.events() if isinstance(event, e.ClaimMade)]
        assert {(event.slot.split("@")[1], event.negotiator) for event in claims} == {("gpu", GPU), ("cpu", "")}


def test_accounting_commands_must_name_one_of_several_negotiators() -> None:
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
        assert [(submitter.name, submitter.factor) for submitter in pool.submitters(negotiator=GPU)] == [("alice@x", 2)]
        assert pool.submitters(negotiator="negotiator") == []
        pool.negotiate(negotiator=GPU)
        assert pool.judge() == []


def test_a_pool_with_one_negotiator_may_name_it() -> None:
    with Live.open(config=PLAIN) as pool:
        assert pool.submitters(negotiator="NEGOTIATOR") == pool.submitters() == []
        with pytest.raises(Refusal, match="there is no negotiator NEGOTIATOR_GPU; the pool has NEGOTIATOR"):
            pool.submitters(negotiator=GPU)


def test_outside_claims_are_charged_by_the_slots_negotiator() -> None:
    configuration = {"NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": 'Machine == "gpu"'}
    pool = TestPool(settings=configuration)
    for name in ("gpu", "cpu"):
        pool.machine(name, 1, 1024, 1)
        ad = {"Owner": '"carol"', "RequestCpus": "1", "RequestMemory": "1"}
        claim = s.RequestClaim(pool.id(), f"slot1@{name}", f"claim-{name}", "out", "carol@x", "1.0", ad)
        assert not pool.handle(claim).refusal
    negotiator_of_slot = {event.slot: event.negotiator for event in pool.events() if isinstance(event, e.ClaimMade)}
    assert negotiator_of_slot == {"slot1@gpu": GPU, "slot1@cpu": ""}
    accounts = {name: submitter.slots for name, submitter in pool.state.submitters.items()}
    assert accounts == {f"{GPU} carol@x": 1, "carol@x": 1}


# When cycles are held


def test_each_negotiator_has_its_own_pace() -> None:
    pace = "NEGOTIATOR_GPU.NEGOTIATOR_INTERVAL = 10\nNEGOTIATOR_GPU.NEGOTIATOR_CYCLE_DELAY = 0\n"
    config = PLAIN + BOTH + ON_GPUS + pace + "NEGOTIATOR_INTERVAL = 100\nNEGOTIATOR_CYCLE_DELAY = 50\n"
    with Live.open(config=config) as pool:
        pool.add_machine("h")
        pool.submit({**JOB, "requirements": "Never"}, user="alice")
        pool.submit({**JOB, "arguments": "500"}, user="bob")
        pool.advance(300)
        aged: dict[str, list[int]] = {"": [], GPU: []}
        (_, founded_at), *events = pool.events()
        for _, event in events:
            if isinstance(event, e.PrioritiesUpdated):
                aged[event.negotiator].append((event.at - founded_at.at) // SECOND)
        assert len(aged[""]) >= 2 and all(
            later - at >= 100 for at, later in zip(aged[""][1:], aged[""][2:], strict=False)
        )
        assert aged[GPU] == []  # no one uses any of its slots
        assert pool.judge() == []


# Adding and removing negotiators


def test_a_pool_may_get_several_negotiators_and_return_to_one() -> None:
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
        rechecked = recheck(pool.events())
        assert rechecked.sound and rechecked.taken


def test_a_removed_negotiators_accounting_belongs_to_no_one() -> None:
    with Live.open(config=PLAIN + BOTH + ON_THE_MACHINE) as pool:
        pool.add_machine("gpu")
        pool.submit(JOB, user="alice")
        pool.advance(61)
        pool.configure(PLAIN)
        pool.submit(JOB, user="bob")
        assert pool.run() and pool.judge() == []
        aged = [event for _, event in pool.events() if isinstance(event, e.PrioritiesUpdated) and not event.negotiator]
        assert aged and not [name for event in aged for name in event.priorities if GPU in name]


def test_settings_of_one_negotiator_override_those_of_all() -> None:
    configuration = {
        "NEGOTIATORS": f"NEGOTIATOR {GPU}", f"{GPU}.NEGOTIATOR_SLOT_CONSTRAINT": "GPUs > 0", "PREEMPTION_RANK": "1",
        f"{GPU}.PREEMPTION_RANK": "2",
    }  # fmt: skip
    assert negotiator_names(configuration) == ("NEGOTIATOR", GPU)
    assert settings_for(configuration, GPU)["PREEMPTION_RANK"] == "2"
    assert settings_for(configuration, "NEGOTIATOR")["PREEMPTION_RANK"] == "1"
    assert slot_constraint(configuration, GPU) == "(GPUs > 0)"
    assert slot_constraint(configuration, "NEGOTIATOR") == "(((GPUs > 0) ? true : false) =!= true)"
