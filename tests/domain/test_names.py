"""Table: the names of jobs and slots."""

from __future__ import annotations

import pytest

from poolbook.domain.names import JobId, SlotName

from ..together import together


def test_a_job_id_is_its_cluster_and_process_number() -> None:
    job = JobId.parse("12.3")
    assert (job, str(job), job.cluster, job.proc) == ((12, 3), "12.3", 12, 3)
    assert {(12, 3): "known"}[job] == "known"


@pytest.mark.parametrize("text", ["", "12", "12.", ".3", "a.b", "1.2.3"])
def test_an_invalid_job_id_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        JobId.parse(text)


@together(
    ("text", "slot", "machine", "parent", "number"),
    [
        ("slot1@host", "slot1", "host", None, None),
        ("slot1_2@host.org", "slot1_2", "host.org", "slot1@host.org", "2"),
        ("slot1_2", "slot1_2", "", "slot1", "2"),
        ("slot1@a@b", "slot1", "a@b", None, None),
    ],
)
def test_a_slot_name_has_the_slot_and_its_machine(
    text: str, slot: str, machine: str, parent: str | None, number: str | None
) -> None:
    name = SlotName.parse(text)
    assert (str(name), name.slot, name.machine, name.dynamic) == (text, slot, machine, parent is not None)
    if parent is not None:
        assert (str(name.parent), name.number) == (parent, number)
