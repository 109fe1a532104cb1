"""Property: pages of the queue that follow a job id contain each job that stays exactly once, in the order of ids,
whatever enters, leaves or changes between two pages."""

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Pool
from poolbook.adapters.runtime.queries import Queries

JOB = {"executable": "/bin/true", "requirements": "false"}
Id = tuple[int, int]
ACTIONS = st.tuples(st.sampled_from(["submit", "remove", "hold", "edit"]), st.integers(1, 8), st.integers(0, 5))


def next_page(log: str, after: Id, size: int, owners: list[str]) -> list[Id]:
    with Queries(log) as queries:
        return [(ad.eval("ClusterId"), ad.eval("ProcId")) for ad in islice(queries.queue_after(after, owners), size)]


def ids(log: str, owners: list[str]) -> list[Id]:
    with Queries(log) as queries:
        ads = [ad for ad in queries.queue().ads if not owners or ad.eval("Owner") in owners]
        return [(ad.eval("ClusterId"), ad.eval("ProcId")) for ad in ads]


def act(pool: Pool, action: str, cluster: int, proc: int) -> None:
    job = f"ClusterId == {cluster} && ProcId == {proc}"
    if action == "submit":
        pool.submit(JOB, count=proc + 1, user=("ann", "bob")[cluster % 2])
    elif action == "remove":
        pool.remove(constraint=job)
    elif action == "hold":
        pool.hold(constraint=job)
    else:
        pool.edit(constraint=job, JobPrio=cluster)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(st.lists(ACTIONS, max_size=3), max_size=10),
    st.integers(1, 4), st.sampled_from([[], ["ann"], ["ann", "bob"]]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_pages_lose_and_repeat_no_job(
    counts: list[int], changes: list[list[tuple[str, int, int]]], size: int, owners: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        log = str(Path(folder) / "pool.db")
        with Pool.open(log, user="root") as pool:
            for number, count in enumerate(counts):
                pool.submit(JOB, count=count, user=("ann", "bob")[number % 2])
            stayed = set(ids(log, owners))
            pages: list[Id] = []
            remaining = iter(changes)
            while page := next_page(log, pages[-1] if pages else (0, -1), size, owners):
                pages += page
                for action in next(remaining, []):
                    act(pool, *action)
                stayed &= set(ids(log, owners))
    assert pages == sorted(set(pages))
    assert stayed <= set(pages)
