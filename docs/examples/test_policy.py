"""A property of a policy, tested: whatever is submitted and in whatever order, small jobs are never kept waiting by
large ones, and nobody's job ever runs on the machine that its owner keeps for himself.

Run it with pytest. hypothesis looks for the workload that breaks the rule, and shrinks it to the smallest one.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Behaviour, Pool

WORK = st.lists(
    st.tuples(st.sampled_from(["alice", "bob"]), st.sampled_from([512, 6000]), st.integers(1, 5)), max_size=8
)


@settings(max_examples=30, deadline=None)
@given(work=WORK)
def test_small_jobs_run_although_large_ones_wait_and_the_owners_machine_is_his(work):
    with Pool.open(behave=lambda launch: Behaviour(seconds=120)) as pool:
        pool.add_machine("shared", cpus=8, memory=4096)
        pool.add_machine("hers", cpus=8, memory=8192, attributes={"Start": 'TARGET.Owner == "carol"'})
        for user, memory, count in work:
            pool.submit({"executable": "/bin/work", "request_memory": f"{memory} MB"}, count=count, user=user)
        pool.run()
        assert {job["LastRemoteHost"].partition("@")[2] for job in pool.history()} <= {"shared"}
        assert all(job["RequestMemory"] == 6000 for job in pool.jobs())
        assert not pool.judge()
