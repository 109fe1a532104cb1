"""A pool whose cycles have much to decide: equal ranks, slots that prefer a user, better priorities."""

from __future__ import annotations

from .virtual_pool import Pool

STORY = """
machine a kind=static slots=4 Cpus=1 Memory=1024 Rank=TARGET.Owner=="carol"
machine b kind=static slots=4 Cpus=1 Memory=2048 Rank=TARGET.Owner=="carol"
machine c kind=partitionable Cpus=4 Memory=8192 Rank=undefined
submit alice 10 seconds=3000 grace=0
submit alice 4 seconds=500 grace=0 cpus=2 Rank=TARGET.Memory
run 10 min
submit bob 12 seconds=700 grace=0 differ
submit carol 3 seconds=200 grace=0 Rank=(SlotID==2)+(SlotID==3)
run 5 min
grant bob@example.org factor 20
submit dan 8 seconds=300 grace=0 Rank=0-TARGET.Memory
submit dan 3 seconds=300 memory=90000
run 1 h
""".strip().splitlines()
SETTINGS = {
    "PREEMPTION_REQUIREMENTS": "RemoteUserPrio > SubmitterUserPrio * 1.2",
    "PREEMPTION_RANK": "RemoteUserPrio * 1000 - ifThenElse(isUndefined(TotalJobRunTime), 0, TotalJobRunTime)",
    "NEGOTIATOR_PRE_JOB_RANK": "TARGET.JobPrio",
}


def contested_pool(dialect: str = "manual") -> Pool:
    """Return the pool at the end of its story: 40 jobs of four users on 12 cores."""
    pool = Pool(dialect, **SETTINGS)
    for line in STORY:
        pool.say(line)
    return pool
