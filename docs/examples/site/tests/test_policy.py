"""Properties of the configuration that must hold for any work and any owner."""

from pathlib import Path

from hypothesis import given, settings

from poolbook.testing import PoolMachine, owner_days, play, pools, scenarios

CONFIG = Path(__file__).parent.parent / "condor_config.d"


@settings(max_examples=10, deadline=None)
@given(scenarios(config="", machines=pools(names=["desk"]), owners=owner_days(earliest=9 * 60, latest=17 * 60)))
def test_no_job_runs_while_the_owner_types(scenario):
    report = play(scenario, config=CONFIG)
    report.within(10, 'slot.Activity != "Busy"', after="KeyboardIdle < 60")


class OurPool(PoolMachine):
    config = CONFIG


TestOurPool = OurPool.TestCase
TestOurPool.settings = settings(max_examples=5, stateful_step_count=15, deadline=None)
