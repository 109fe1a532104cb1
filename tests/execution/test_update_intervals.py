"""STARTER_UPDATE_INTERVAL and STARTER_INITIAL_UPDATE_INTERVAL decide when a job's usage is logged."""

from __future__ import annotations

from pathlib import Path

from poolbook.adapters.machine.starter import Starter
from poolbook.adapters.runtime.configuration import load
from poolbook.domain.events import JobMeasured
from poolbook.domain.ports.stimuli import ActivationMeasured
from poolbook.domain.units import SECOND

from ..slots.machines import new_pool


def test_usage_is_logged_after_the_first_interval_and_then_at_least_once_in_each_interval() -> None:
    pool = new_pool("")
    pool.submit(Args='"1000"')
    pool.advance(1)
    (activation,) = pool.state.activations.values()
    for second in (10, 21, 60, 81, 82):
        pool.advance((activation.began + second * SECOND - pool.world.now()) / SECOND)
        pool.handle(ActivationMeasured(pool.id(), activation.key, 5_000, 1_000, 10, second, 0, every=60, first=20))
    measured = [event.user_cpu for event in pool.events() if isinstance(event, JobMeasured)]
    assert measured == [21, 81]


def test_the_starter_reads_its_intervals(tmp_path: Path) -> None:
    text = "STARTER_UPDATE_INTERVAL = 2 * 60\nSTARTER_INITIAL_UPDATE_INTERVAL = 8\n"
    starter = Starter.from_configuration(load(text=text, environment={}), tmp_path)
    assert (starter.update_every, starter.first_update) == (120, 8)
