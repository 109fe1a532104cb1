"""Property: whatever users put into their jobs' ads, the pool decides, folds and continues, or rejects it with a
message."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.domain.events import JobMeasured
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.runtime_attributes import RUNTIME_ATTRIBUTES
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .pools import JOB, TestPool, selection

ODD = [
    '"x"', "1.5", "-1", "undefined", "error", "{}", "{1, 2}", "[a = 1]", 'real("NaN")', 'real("INF")', '-real("INF")',
    "1 / 0", "9" * 18, "JobPrio + 1", "TARGET.Memory", "true", '"\\\\"', "MY.Odd", "Odd", "time()", "random()",
    "1e308 * 10",
    "(((((1)))))", "not an expression", "", "\n", "1\nFoo = 2",
]  # fmt: skip
READ = [
    "Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "JobPrio", "JobMaxVacateTime", "JobUniverse",
    "JobStatus", "QDate", "Owner", "KillSig", "Odd", "", "a b", "1a", "Ü",
]  # fmt: skip
NAMES = st.sampled_from(
    [*READ, "NumJobStarts", "NumShadowStarts", "RemoteWallClockTime", "ResidentSetSize", "ImageSize"]
)
ADS = st.dictionaries(NAMES, st.sampled_from(ODD), max_size=3)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(submitted=ADS, edited=ADS, varied=st.booleans())
def test_odd_values_are_handled_or_rejected(submitted: dict[str, str], edited: dict[str, str], varied: bool) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(50, grace=None), settings={"MachineMaxVacateTime": "5"})
    pool.machine(cpus=4)
    columns = {name: [text, "1"] for name, text in submitted.items()} if varied else {}
    pool.handle(s.Submit("odd", "alice", 0, {**JOB, **({} if varied else submitted)}, 2, pack(columns)))
    pool.submit()
    pool.advance(2)
    for add in (False, True):
        pool.handle(s.Edit(pool.id(), "alice", selection("1"), edited, add))
    for action in ("suspend", "continue", "vacate", "hold", "release", "vacate", "remove"):
        pool.act(action, "1.0")
        pool.advance(7)
    assert fold(pool.log.read()).position == len(pool.events())
    assert list(validate(pool.log.read())) == []
    pool.advance(100)
    assert pool.status("2.0") == "ended", "no other job suffers"


@together("name", sorted(RUNTIME_ATTRIBUTES))
def test_attributes_that_the_pool_counts_cannot_be_edited(name: str) -> None:
    pool = TestPool()
    pool.submit()
    refusal = pool.handle(s.Edit(pool.id(), "alice", selection("1"), {name: "7"}))
    assert "the pool itself keeps it" in refusal.refusal


def test_a_clock_that_is_set_back_makes_no_time_negative_and_no_timer_late() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(10, grace=None), settings={"MachineMaxVacateTime": "5"})
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(4)
    pool.world.clock -= 3_600_000_000
    pool.world._runs.clear()  # its end is reported by hand, by the new clock
    (key,) = pool.state.activations
    pool.handle(s.ActivationEnded("end", key, pool.world.clock, code=0))
    pool.advance(30)
    times = [event.at for event in pool.events()]
    assert times == sorted(times)
    assert pool.status("1.1") == "ended"
    assert 0 < pool.state.usage["alice@example.org"] < 60_000_000_000
    assert list(validate(pool.log.read())) == []


def test_a_job_that_had_ended_before_a_vacate_command_has_ended() -> None:
    """The pool was dead when the job ended, and the command came to the unserved log before the pool was back."""
    pool = TestPool(behave=lambda launch: Behaviour(1000, immortal=True))
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(10)
    (key,) = pool.state.activations
    end_time = pool.world.clock - 1_000_000
    pool.act("vacate", "1.0")
    pool.handle(s.ActivationEnded("end", key, end_time, code=3))
    assert pool.status("1.0") == "ended"
    assert list(validate(pool.log.read())) == []


def test_unchanged_measurements_are_not_logged() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    (key,) = pool.state.activations
    sizes = [10_000] * 60 + [10_500] * 60 + [13_000] * 60
    for size in sizes:
        pool.handle(s.ActivationMeasured(pool.id(), key, size, 5_000, 1, 100, 100))
        pool.world.clock += 1_000_000
    assert [event.image for event in pool.events() if isinstance(event, JobMeasured)] == [10_000, 13_000]
    pool.world.clock += 300_000_000
    pool.handle(s.ActivationMeasured(pool.id(), key, 13_000, 5_000, 1, 100, 100))
    assert sum(isinstance(event, JobMeasured) for event in pool.events()) == 3
