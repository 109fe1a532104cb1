"""Golden: the ad of a claimed slot names the accounting groups of its claim, as recorded from HTCondor 25.14."""

from __future__ import annotations

from poolbook.domain.classad import Context
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches

from ..domain.pools import TestPool
from ..together import together

NAMES = ("AccountingGroup", "RemoteGroup", "RemoteNegotiatingGroup", "RemoteAutoregroup")
GROUPS = {"GROUP_NAMES": "MC, MC.sub", "GROUP_QUOTA_MC": "8", "GROUP_QUOTA_MC.sub": "4"}


def attributes_of_claimed_slots(pool: TestPool, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    """Return these attributes of the claimed slots' ads."""
    slots_published = PublishedSlots(pool.state, Caches(), pool.world.clock, Context(now=pool.world.clock // 1_000_000))
    ads = [slots_published.ad(slot) for slot in pool.state.slots.values() if slot.claim is not None]
    return [tuple(None if ad.get(name) is None else ad.eval(name) for name in names) for ad in ads]


@together(
    ("settings", "group", "expected"),
    [
        (GROUPS, "MC.zed", ("MC.zed@example.org", "MC", "MC", False)),
        (GROUPS, "mc.SUB.zed", ("mc.SUB.zed@example.org", "MC.sub", "MC.sub", False)),
        (GROUPS, "MC.none.zed", ("MC.none.zed@example.org", "MC", "MC", False)),
        (GROUPS, "", (None, "<none>", "<none>", False)),
        (GROUPS, "nice-user.alice", ("nice-user.alice@example.org", "<none>", "<none>", False)),
        (GROUPS, "nosuch.alice", ("nosuch.alice@example.org", "<none>", "<none>", False)),
        ({}, "MC.zed", ("MC.zed@example.org", None, "<none>", False)),
        ({}, "", (None, None, "<none>", False)),
    ],
)
def test_a_claimed_slot_names_its_groups(settings: dict[str, str], group: str, expected: tuple[object, ...]) -> None:
    pool = TestPool(settings=settings)
    pool.machine(cpus=8)
    pool.submit(1, **({"AccountingGroup": f'"{group}"'} if group else {}))
    pool.advance(10)
    assert attributes_of_claimed_slots(pool, NAMES) == [expected]


def test_a_slot_negotiated_by_autoregroup_reports_false_and_keeps_its_group() -> None:
    """HTCondor's negotiator copies SubmitterAutoregroup from the wrong ad: RemoteAutoregroup is always false."""
    regroups = GROUPS | {"GROUP_QUOTA_MC": "1", "GROUP_QUOTA_MC.sub": "0", "GROUP_AUTOREGROUP": "true"}
    pool = TestPool(settings=regroups)
    pool.machine(cpus=4)
    pool.submit(3, AccountingGroup='"MC.zed"', Args='"3000"')
    pool.advance(100)
    assert sorted(attributes_of_claimed_slots(pool, NAMES[1:])) == [
        ("MC", "<none>", False),
        ("MC", "<none>", False),
        ("MC", "MC", False),
    ]


def test_a_claimed_slot_names_its_job_and_the_schedd() -> None:
    pool = TestPool()
    pool.machine()
    pool.submit(1, JobUniverse="5", GlobalJobId='"pool#1.0#1800000000"')
    pool.advance(10)
    names = ("JobId", "GlobalJobId", "JobUniverse", "RemoteScheddName", "IsSplittable")
    assert attributes_of_claimed_slots(pool, names) == [("1.0", "pool#1.0#1800000000", 5, "pool", True)]
    pool.act("hold", "1.0")
    pool.advance(200)
    assert attributes_of_claimed_slots(pool, names) == []
