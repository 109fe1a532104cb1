"""Golden: the lives of jobs, in the manual's words, in a real pool's event logs, and in HTCondor's numbers."""

from collections.abc import Sequence

import htcondor2
import pytest

from poolbook.domain.state_machines import (
    DIALECTS,
    HOLD_CODES,
    HTCONDOR_25,
    LEFT,
    MANUAL,
    UNSUBMITTED,
    VACATE_CODES,
    NotAllowed,
    goes_on_hold,
    job_machine,
)

from ..together import together
from .startlog import DATA

# The manual's diagram of a job's life (Managing a Job, The Job Lifecycle), with the rows for each arrow.
DIAGRAM = [
    (UNSUBMITTED, "Idle", ["submit"]),
    ("Idle", "Running", ["activate"]),
    ("Running", "Completed", ["complete"]),
    ("Running", "Idle", ["requeue", "evict"]),
    ("Running", "Held", ["hold"]),
    ("Idle", "Held", ["hold"]),
    ("Held", "Idle", ["release"]),
    ("Idle", "Removed", ["remove"]),
    ("Running", "Removed", ["remove"]),
    ("Held", "Removed", ["remove"]),
    ("Completed", LEFT, ["leave"]),
    ("Removed", LEFT, ["remove_x", "leave"]),
]


@together(("source", "target", "rows"), DIAGRAM)
def test_the_table_draws_the_manuals_picture(source: str, target: str, rows: list[str]) -> None:
    assert [row.number for row in MANUAL.job_rows if (source, target) in row.steps] == rows


def test_a_status_has_htcondors_number() -> None:
    htcondors = {int(status): status.name.replace("_", "").lower() for status in htcondor2.JobStatus}
    assert {number: name.lower() for name, number in MANUAL.job_status_numbers.items()} == htcondors
    own_numbers = dict(HTCONDOR_25.job_status_numbers)
    assert {name: own_numbers.pop(name) for name in ("Failed", "Blocked", "Preparing")} == {
        "Failed": 8,
        "Blocked": 9,
        "Preparing": 10,
    }
    assert own_numbers == MANUAL.job_status_numbers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_table_moves_a_job_only_between_its_statuses_and_the_two_ends(dialect: str) -> None:
    assert set(job_machine(dialect).states) == {*DIALECTS[dialect].job_status_numbers, UNSUBMITTED, LEFT}


LIVES = [
    ("manual", "submit activate complete leave", LEFT),
    ("manual", "submit activate suspend continue transfer_output complete", "Completed"),
    ("manual", "submit activate evict activate requeue activate", "Running"),
    ("manual", "submit_on_hold release activate hold remove leave", LEFT),
    ("manual", "submit activate suspend evict hold", "Held"),
    ("manual", "submit activate complete remove leave", LEFT),
    ("manual", "submit remove remove_x", LEFT),
    ("manual", "submit_on_hold activate", None),
    ("manual", "submit suspend", None),
    ("manual", "submit complete", "Completed"),
    ("manual", "submit activate activate", None),
    ("manual", "submit activate complete hold", None),
    ("manual", "submit remove release", None),
    ("manual", "submit remove hold_removed", None),
    ("manual", "submit remove leave submit", None),
    ("htcondor-25", "submit_preparing prepared:Idle block unblock activate", "Running"),
    ("htcondor-25", "submit_preparing prepared:Held release", "Idle"),
    ("htcondor-25", "submit activate remove hold_removed release_removed leave", LEFT),
    ("htcondor-25", "submit activate remove hold_removed remove_x", LEFT),
    ("htcondor-25", "submit complete", "Completed"),
    ("htcondor-25", "submit block activate", None),
]


@together(("dialect", "rows", "end"), LIVES)
def test_a_life_ends_at_its_last_rows_target_or_is_refused(dialect: str, rows: str, end: str | None) -> None:
    machine = job_machine(dialect)
    status = machine.initial
    *before, last = (entry.split(":") for entry in rows.split())
    for entry in before:
        status = machine.fire(status, *entry)
    if end is None:
        with pytest.raises(NotAllowed):
            machine.fire(status, *last)
    else:
        assert machine.fire(status, *last) == end


# The meaning of an event of the job event log for the job's status: one of these rows, or no change from these
# statuses. An eviction is also logged for a job that never began to execute, and twice when its shadow fails.
EVENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "000": (("submit", "submit_on_hold"), ()),
    "001": (("activate",), ()),
    "004": (("evict",), ("Idle",)),
    "005": (("complete",), ()),
    "009": (("remove",), ()),
    "010": (("suspend",), ()),
    "011": (("continue",), ()),
    "012": (("hold",), ()),
    "013": (("release",), ()),
    "021": ((), ("Idle", "Running")),
    "022": ((), ("Running",)),
    "024": ((), ("Running",)),
}


def possible_statuses(events: Sequence[str]) -> set[str]:
    """Return the possible statuses of a job with these events; none if the events are impossible."""
    machine = job_machine(HTCONDOR_25.name)
    now = {machine.initial}
    for event in events:
        rows, unchanged = EVENTS[event]
        targets = {target for status in now for row in rows for target in machine.lookup.get((status, row), ())}
        now = targets | now.intersection(unchanged)
    return now


def recorded() -> list[tuple[int, list[str]]]:
    lines = (DATA / "job-events.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(int(jobs), events.split()) for jobs, events in (line.split("\t") for line in lines)]


def test_the_lives_of_real_jobs_follow_the_table() -> None:
    assert [events for _, events in recorded() if not possible_statuses(events)] == []
    assert sum(jobs for jobs, _ in recorded()) > 450


@together("events", ["000 005 012", "000 001 013", "000 009 001", "001", "000 001 005 012", "000 011"])
def test_an_impossible_life_does_not_follow_the_table(events: str) -> None:
    assert possible_statuses(events.split()) == set()


def test_the_codes_are_all_of_htcondors_codes() -> None:
    assert list(HOLD_CODES) == list(range(0, 50))
    assert list(VACATE_CODES) == list(range(1000, 1038))
    all_codes = [*HOLD_CODES.values(), *VACATE_CODES.values()]
    assert len({code.name for code in all_codes}) == len(all_codes)
    assert all(code.meaning for code in all_codes)


@together(
    ("number", "name"),
    [
        (1, "UserRequest"),
        (3, "JobPolicy"),
        (6, "FailedToCreateProcess"),
        (7, "UnableToOpenOutput"),
        (8, "UnableToOpenInput"),
        (12, "TransferOutputError"),
        (13, "TransferInputError"),
        (14, "IwdError"),
        (15, "SubmittedOnHold"),
        (16, "SpoolingInput"),
        (20, "MissedDeferredExecutionTime"),
        (21, "StartdHeldJob"),
        (26, "SystemPolicy"),
        (34, "JobOutOfResources"),
        (46, "JobDurationExceeded"),
        (48, "HookShadowPrepareJobFailure"),
        (49, "CannotSwitchPrimaryGroup"),
        (1000, "JobPolicyVacate"),
        (1004, "UserVacateJob"),
        (1010, "StartdVacateCommand"),
        (1019, "StartdPreemptingClaimUserPrio"),
        (1023, "JobRemoved"),
        (1037, "StartdRehoming"),
    ],
)
def test_a_code_has_htcondors_name(number: int, name: str) -> None:
    assert (HOLD_CODES | VACATE_CODES)[number].name == name
    assert (HOLD_CODES | VACATE_CODES)[number].number == number


@together(
    ("code", "subcode", "held"),
    [
        (0, 0, False),
        (-1, 0, False),
        (1, 0, True),
        (49, 0, True),
        (999, 0, True),
        (1000, 0, False),
        (1037, 0, False),
        (13, 2, True),
        (13, -999, True),
        (13, -1000, False),
        (13, -1001, False),
    ],
)
def test_a_code_determines_whether_the_job_is_held(code: int, subcode: int, held: bool) -> None:
    assert goes_on_hold(code, subcode) == held
