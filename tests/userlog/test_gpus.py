"""golden: a job's use of GPUs is in its log and in its ad as in an HTCondor pool that was recorded with an H100."""

from __future__ import annotations

import re

from poolbook.domain.classad import parse
from poolbook.domain.ports import stimuli as s
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from ..slots.gpu_pools import gpu_pool, recorded_ads
from .pool import Pool, event_body, events_of

RECORDED = gpu_pool("a")
EVENTS = [event for event in events_of(RECORDED.files["u.log"]) if "(019.001.000)" in event]
"""The events of the second job: its monitor had two complete intervals."""


def recorded_body(number: str) -> str:
    (event,) = [event for event in EVENTS if event.startswith(number)]
    return event[len("000 (001.000.000) 2027-01-15 08:00:00 ") :].removesuffix("...\n")


def run_recorded_job() -> Pool:
    """Run the second recorded job, with its recorded use."""
    pool = Pool(world=VirtualWorld(lambda launch: Behaviour(seconds=60)))
    pool.ask(RECORDED.offer())
    ad = {key: text for key, text in RECORDED.job_ads("one")[1].items() if key != "ClusterId" and text != "undefined"}
    pool.submit({**ad, "UserLog": '"/home/alice/job.log"'})
    pool.run(0.1)
    activation = pool.engine.state.by_job[1, 0]
    begun = pool.world.now()
    usage = {"GPUsAverageUsage": "0.58790625", "GPUsMemoryUsage": "4007.0"}
    pool.ask(s.ActivationMeasured("m", activation.key, 22260, 22260, 31, 10_000_000, 0, usage))
    pool.world.clock = begun + 24_000_000
    end = s.ActivationEnded("e", activation.key, pool.world.now(), 0, None, 14_160_000, 0, 22260, 31, usage=usage)
    pool.ask(end)
    return pool


def resources(event: str) -> str:
    return event[event.index("\tPartitionable Resources") :]


def test_the_table_of_resources_has_the_measured_use_of_the_gpu() -> None:
    assert resources(event_body(run_recorded_job(), "005")) == resources(recorded_body("005"))


def test_the_execute_event_describes_the_gpu() -> None:
    def attributes(body: str) -> dict[str, str]:
        pairs = (line.strip().split(" = ", 1) for line in body.splitlines() if " = " in line)
        texts = {name: text for name, text in pairs if name != "CondorScratchDir"}
        device = texts.pop("GPUs_GPU_5a1c0de0").strip("[ ]").split("; ")  # in HTCondor, its order means nothing
        return {**texts, "device": ", ".join(sorted(device))}

    assert attributes(event_body(run_recorded_job(), "001")) == attributes(recorded_body("001"))


def test_the_job_s_ad_in_the_history_has_its_use_of_the_gpu() -> None:
    recorded = recorded_ads(RECORDED.history[0])[0]
    assert (recorded["ClusterId"], recorded["ProcId"]) == ("19", "1")
    with run_recorded_job().views() as views:
        (ad,) = views.history_ads()
    names = [name for name in recorded if re.search("GPUs", name) and name != "AutoClusterAttrs"]
    assert {name: ad.eval(name) for name in names} == {name: parse(recorded[name]).evaluate(ad) for name in names}
