"""Test a policy with random workloads: large jobs never delay small ones, and a private machine runs only its owner's
jobs.

Run it with pytest. hypothesis searches for a workload that breaks a rule, and reduces it to the smallest one.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Behaviour, Pool
from poolbook.testing import submit_descriptions

LARGE = 6000  # MB; the shared machine has less
SUBMISSIONS = submit_descriptions(max_cpus=1, max_memory=LARGE, options=False)
WORK = st.lists(st.tuples(st.sampled_from(["alice", "bob"]), SUBMISSIONS, st.integers(1, 5)), max_size=8)


@settings(max_examples=30, deadline=None)
@given(work=WORK)
def test_small_jobs_never_wait_for_large_ones_and_a_private_machine_stays_private(work):
    with Pool.open(behave=lambda launch: Behaviour(seconds=120)) as pool:
        pool.add_machine("shared", cpus=8, memory=4096)
        pool.add_machine("hers", cpus=8, memory=8192, attributes={"Start": 'TARGET.Owner == "carol"'})
        for user, description, count in work:
            pool.submit(description, count=count, user=user)
        pool.run()
        assert {job["LastRemoteHost"].partition("@")[2] for job in pool.history()} <= {"shared"}
        assert all(job["RequestMemory"] == LARGE for job in pool.jobs())
        assert not pool.judge()
