"""Property: ``TARGET.`` in a machine's policy refers to the job, whatever attributes the slot has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from poolbook import Behaviour, Pool
from poolbook.domain.classad import Context
from poolbook.domain.ports.sensor_readings import no_readings
from poolbook.domain.startd.dynamic_attributes import DYNAMIC_ATTRIBUTES
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.state.caches import Caches
from poolbook.domain.units import SECOND

OF_SLOTS = sorted(DYNAMIC_ATTRIBUTES.keys() - {"jobuniverse"})


@contextmanager
def running(policy: Mapping[str, str]) -> Iterator[Pool]:
    """Return a pool with this policy and a running job that has its own value for each attribute name of the slot."""
    config = "PREEMPT = false\n" + "".join(f"{name} = {text}\n" for name, text in policy.items())
    with Pool.open("memory:", config=config, behave=lambda launch: Behaviour(seconds=60)) as pool:
        pool.add_machine("node", cpus=1, memory=1024)
        pool.submit({"executable": "/bin/work", **{f"+{name}": '"mine"' for name in OF_SLOTS}})
        pool.advance(30)
        yield pool


def test_a_policy_reads_the_jobs_own_attribute_even_if_the_slot_has_one_of_that_name() -> None:
    with running({}) as pool:
        (job,) = pool.jobs()
        names = sorted(name for name in OF_SLOTS if job.get(name) == "mine")
    assert len(names) > 20
    requirements = " && ".join(f'TARGET.{name} =?= "mine"' for name in names)
    with running({"KILL": requirements, "WANT_VACATE": "TARGET.JobUniverse == 5"}) as pool:
        (slot,) = (slot for slot in pool.state.slots.values() if slot.activation is not None)
        now = round(pool.now * SECOND)
        policy = PolicyEvaluation(pool.state, slot, no_readings, now, Context(now=now // SECOND), Caches())
        assert (policy.truth("KILL"), policy.truth("WANT_VACATE")) == (True, True)
