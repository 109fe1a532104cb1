"""Golden: with USE_JOBSETS, the clusters of an owner with the same JobSetName have the same JobSetId, as in a recorded
HTCondor pool."""

from __future__ import annotations

from poolbook.domain.config import read
from poolbook.domain.events import ClusterSubmitted
from poolbook.domain.ports.stimuli import Submit
from poolbook.domain.schedd.policy_configuration import schedd_policy
from poolbook.replay.validation import validate

from ..domain.pools import TestPool
from .policy_pool import TextFiles

USED = {"USE_JOBSETS": "true"}


def set_ids(pool: TestPool) -> dict[int, str]:
    return {number: cluster.value(0, "JobSetId") for number, cluster in pool.state.clusters.items()}


def test_clusters_with_the_same_name_in_any_case_and_owner_are_in_one_set() -> None:
    pool = TestPool(settings=USED)
    for user, name in (("alice", "Fit"), ("alice", "Other"), ("alice", "fIT"), ("bob", "Fit")):
        assert not pool.submit(user=user, JobSetName=f'"{name}"').refusal
    pool.submit()
    assert set_ids(pool) == {1: "1", 2: "2", 3: "1", 4: "4", 5: ""}
    assert list(validate(pool.log.read())) == []


def test_a_set_lasts_as_long_as_one_of_its_clusters() -> None:
    pool = TestPool(settings=USED)
    for _ in range(2):
        pool.submit(JobSetName='"Fit"')
    pool.act("remove", "1")
    pool.submit(JobSetName='"Fit"')
    assert set_ids(pool) == {2: "1", 3: "1"}
    pool.act("remove", "2", "3")
    pool.submit(JobSetName='"Fit"')
    assert set_ids(pool) == {4: "4"}


def test_a_user_cannot_choose_the_number_of_a_set() -> None:
    pool = TestPool(settings=USED)
    assert "JobSetId cannot be set" in pool.submit(JobSetName='"Fit"', JobSetId="7").refusal
    pool.submit(JobSetName='"Fit"')
    assert pool.edit("1.0", JobSetId="7").refusal


def test_without_use_jobsets_a_job_has_only_the_name_of_a_set() -> None:
    pool = TestPool()
    pool.submit(JobSetName='"Fit"')
    assert (set_ids(pool), pool.state.clusters[1].value(0, "JobSetName")) == ({1: ""}, '"Fit"')
    assert "USE_JOBSETS" not in schedd_policy(read("", files=TextFiles({})), lambda _: None)
    assert schedd_policy(read("USE_JOBSETS = true\n", files=TextFiles({})), lambda _: None)["USE_JOBSETS"] == "true"


def test_a_cluster_gives_attributes_only_to_a_job_set_of_the_access_point() -> None:
    given = {"Color": '"red"', "owner": '"bob"', "JobSetName": '"Other"', "JobSetId": "9"}
    for settings, ad, expected in (
        (USED, {"JobSetName": '"Fit"'}, {"Color": '"red"'}),
        (USED, {}, {}),
        ({}, {"JobSetName": '"Fit"'}, {}),
    ):
        pool = TestPool(settings=settings)
        pool.handle(Submit("s", "alice", 0, ad, 1, (), job_set=given))
        (submitted,) = (event for event in pool.events() if isinstance(event, ClusterSubmitted))
        assert submitted.job_set == expected


def test_a_job_set_has_only_valid_attributes_that_users_may_set() -> None:
    pool = TestPool(settings={**USED, "SECURE_JOB_ATTRS": "Level"})
    for given, refusal in (
        ({"LEVEL": "1"}, "Failed to submit jobset: only the access point sets LEVEL; leave JOBSET.LEVEL out"),
        ({"Color": "no such"}, "Color = no such: this is not a ClassAd expression"),
        ({"a b": "1"}, "'a b' is not a valid attribute name"),
    ):
        result = pool.handle(Submit("s", "alice", 0, {"JobSetName": '"Fit"'}, 1, (), job_set=given))
        assert result.refusal == refusal
