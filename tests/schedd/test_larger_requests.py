"""Golden: instead of being held, a job raises its request and waits again, by the transforms that its submission made
(retry_request_memory and similar commands, on_evict_checks), as in HTCondor 25.14."""

from __future__ import annotations

from collections.abc import Mapping

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.job_ad import unquoted
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..domain.pools import TestPool
from ..policy.test_grants_and_drains import preempted
from ..submit.fakes import submit
from ..together import together

MEMORY, DISK = (34, 102), (34, 104)


def commands(lines: str) -> dict[str, str]:
    """Return the request attributes that a submit file's commands set."""
    ad = submit(f"executable = /bin/x\n{lines}\nqueue").ad
    settings_of_job = {
        name: text for name, text in ad.items() if name.startswith(("Retry", "MaxR", "NextR", "Transform"))
    }
    return {**settings_of_job, **{name: ad[name] for name in ("RequestDisk", "RequestMemory") if ad[name].isdecimal()}}


def exceeds(pool: TestPool, code: int, subcode: int, resident: int = 0) -> None:
    """End the running job for its resource usage."""
    pool.advance(100)
    ((key, _),) = pool.state.activations.items()
    if resident:
        pool.handle(s.ActivationMeasured(f"m-{key}", key, resident, resident, 0, 0, 0))
    end = s.ActivationEnded(
        f"end-{key}", key, pool.world.clock, hold_reason="too much", hold_code=code, hold_subcode=subcode
    )
    pool.handle(end)


def pool_of(ad: Mapping[str, str], code: int = 0) -> TestPool:
    pool = TestPool(behave=lambda launch: Behaviour(600 if not code else 5, code=code))
    pool.machine(memory=64_000)
    wide = "TARGET.Memory >= RequestMemory && TARGET.Disk >= RequestDisk"
    pool.submit(1, **{"Requirements": wide, **ad})
    return pool


@together(
    ("lines", "limit", "resident", "expected"),
    [
        ("request_memory = 1G, 2G, 4G", MEMORY, 0, ["2048", "4096", "Held"]),
        ("request_memory = 1G\nretry_request_memory = 2G", MEMORY, 0, ["2048", "Held"]),
        ("request_memory = 1G\nretry_request_memory_increase = 1G\nretry_request_memory_max = 3G", MEMORY, 0,
         ["2048", "3072", "Held"]),
        ("request_memory = 1G\nretry_request_memory_increase = RequestMemory * 3", MEMORY, 0, ["3072", "Held"]),
        ("request_memory = 1G, MemoryUsage * 2", MEMORY, 1500 * 1024, ["3000", "Held"]),
        ("request_memory = 1G\nrequest_disk = 1000\nretry_request_disk = 2000", MEMORY, 0, ["Held"]),
        ("request_memory = 1G", MEMORY, 0, ["Held"]),
        ("request_memory = 1G, 2G", DISK, 0, ["Held"]),
        ("request_memory = 1G, 2G", (34, 0), 0, ["Held"]),
        ("request_memory = 1G, 2G", (12, 102), 0, ["Held"]),
        ("request_memory = 1G, 2G", (21, 102), 0, ["2048", "Held"]),
    ],
)  # fmt: skip
def test_a_job_requests_more_memory_each_time_that_it_used_too_much_and_is_held_at_last(
    lines: str, limit: tuple[int, int], resident: int, expected: list[str]
) -> None:
    pool = pool_of(commands(lines))
    for number, request in enumerate(expected, start=1):
        exceeds(pool, *limit, resident)
        ad = pool.state.clusters[1].attributes(0)
        assert ("HoldReason" in ad, ad.get("NumHolds")) == ((True, "1") if request == "Held" else (False, None))
        assert request in (ad["RequestMemory"], pool.status("1.0"))
        assert ad["NumVacates"] == str(number)
    codes = [event.changes["VacateReasonCode"] for event in pool.events() if isinstance(event, e.JobExited)]
    assert codes == [str(limit[0])] * len(expected)
    assert not examine(pool.log.read()).violations


def test_a_larger_disk_request_is_possible_too() -> None:
    pool = pool_of(commands("request_disk = 1M\nretry_request_disk = 2M, 4M"))
    exceeds(pool, *DISK)
    assert pool.state.clusters[1].attributes(0)["RequestDisk"] == "2048"


def test_a_job_waits_for_a_slot_that_fits_its_new_request() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(600))
    pool.machine(memory=3000)
    pool.submit(1, **commands("request_memory = 1G, 2G, 4G"))
    for expected in ("Running", "Idle"):
        exceeds(pool, *MEMORY)
        pool.advance(100)
        assert pool.status("1.0") == expected


def test_the_next_match_after_an_eviction_honours_the_larger_request_although_the_old_claim_is_free() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(600))
    pool.machine("small", memory=1500)
    pool.submit(1, **commands("request_memory = 1G, 2G"))
    pool.advance(100)
    exceeds(pool, *MEMORY)
    pool.advance(100)
    assert pool.status("1.0") == "Idle"
    pool.machine("large", memory=4000)
    pool.advance(400)
    starts = [event.slot.partition("@")[2] for event in pool.events() if isinstance(event, e.JobActivated)]
    assert starts == ["small", "large"]


CHECKS = """
on_evict_checks = A B
transform_body_A @=end
  REQUIREMENTS VacateReasonCode == 34 || ExitCode == 7
  SET Fruit "apple"
@end
transform_body_B @=end
  EVALSET RequestMemory RequestMemory + 1
  SET Vegetable "leek"
@end
"""


def test_transforms_are_tried_until_one_changes_an_attribute_used_in_matching() -> None:
    pool = pool_of(commands(CHECKS))
    exceeds(pool, *MEMORY)
    edits = [event for event in pool.events() if isinstance(event, e.JobsEdited)]
    assert [(edit.transform, edit.changes, edit.before) for edit in edits] == [
        ("A", {"Fruit": '"apple"'}, {"Fruit": ""}),
        ("B", {"RequestMemory": "129", "Vegetable": '"leek"'}, {"RequestMemory": "128", "Vegetable": ""}),
    ]
    assert next(event for event in pool.events() if isinstance(event, e.JobExited)).target == "Idle"


def test_a_transforms_change_remains_even_if_the_job_is_held() -> None:
    pool = pool_of(commands(CHECKS.replace("EVALSET RequestMemory", "EVALSET Other")))
    exceeds(pool, *MEMORY)
    assert pool.status("1.0") == "Held"
    assert pool.state.clusters[1].attributes(0)["Fruit"] == '"apple"'


def test_a_transform_may_prevent_a_hold_by_the_jobs_own_policy_at_its_end() -> None:
    pool = pool_of({"OnExitHold": "ExitCode == 7 && RequestMemory < 129", **commands(CHECKS)}, code=7)
    pool.advance(60)
    assert pool.status("1.0") == "ended"
    ends = [(event.row, event.target) for event in pool.events() if isinstance(event, e.JobExited)]
    assert ends == [("evict", "Idle"), ("complete", "Completed")]
    assert not examine(pool.log.read()).violations


def test_a_transform_cannot_set_attributes_that_the_pool_maintains() -> None:
    body = 'on_evict_checks = A\ntransform_body_A @=end\n  SET NumHolds 0\n  SET Owner "root"\n  SET Fruit 1\n@end'
    pool = pool_of(commands(body))
    exceeds(pool, *MEMORY)
    (edit,) = [event for event in pool.events() if isinstance(event, e.JobsEdited)]
    assert edit.changes == {"Fruit": "1"}
    assert edit.skipped == ("NumHolds is not a user's to set", "Owner is not a user's to set")


def test_invalid_transforms_do_not_affect_the_hold() -> None:
    attributes = {"TransformOnEvict": '"A B C D"', "TransformBody_A": "17", "TransformBody_B": '"GO home"',
           "TransformBody_D": '"REQUIREMENTS ("'}  # fmt: skip
    pool = pool_of(attributes)
    exceeds(pool, *MEMORY)
    assert pool.status("1.0") == "Held"


@together("dialect", ["manual", "htcondor-25"])
def test_a_job_selected_by_want_hold_raises_its_request_instead(dialect: str) -> None:
    hold = {"WANT_HOLD": "RequestMemory < 200", "WANT_HOLD_REASON": '"too big"', "WANT_HOLD_SUBCODE": "102"}
    point = preempted(dialect, hold, None, **commands("request_memory = 128, 200"))
    ad = point.state.clusters[1].attributes(0)
    assert (ad["RequestMemory"], "HoldReason" in ad) == ("200", False)
    last = next(event for event in point.events() if isinstance(event, e.JobExited))
    assert [unquoted(last.changes[f"VacateReason{part}"]) for part in ("", "Code", "SubCode")] == [
        "Error from slot1@h: too big", "21", "102",
    ]  # fmt: skip
    assert (last.cause, last.row, last.target) == ("held_by_machine", "evict", "Idle")
    assert not examine(point.log.read()).violations


def test_why_reports_which_transform_changed_what() -> None:
    pool = pool_of(commands("request_memory = 1G, 2G"))
    exceeds(pool, *MEMORY)
    (sentence,) = [
        narrated.full for narrated in why_job(pool.log.read(), 1, 0).life if narrated.code == "changed_itself"
    ]
    assert sentence == (
        "The transform RequestMemory changed job 1.0 instead of a hold: RequestMemory = 2048 "
        "(before: 1024); evidence: TransformBody_RequestMemory = (VacateReasonCode == 21 || VacateReasonCode == 34) && "
        "VacateReasonSubCode == 102 was true, with MY.VacateReasonCode = 34, MY.VacateReasonSubCode = 102."
    )
