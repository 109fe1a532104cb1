"""Golden: the corpus's jobs and policies on a table of its slots."""

import pytest

from poolbook.domain.classad import ClassAd, parse
from poolbook.domain.classad.table import SlotTable

from .. import sampling
from . import corpus
from .tables import check_all, check_clauses, check_evaluation, check_matches, check_rank

# Examples: array operations, and slot-by-slot evaluation ---------------------------------------


def real_slots() -> list[ClassAd]:
    """Return a real slot's ad, a hundred times."""
    ad = ClassAd.from_old((corpus.DATA / "slot.ad").read_text(encoding="utf-8"))
    slots = []
    for number in range(100):
        slot = ad.copy()
        slot["Name"] = f"slot{number % 8 + 1}@e{number // 8:02}.example.com"
        slot["Machine"] = f"e{number // 8:02}.example.com"
        slot["Cpus"] = (1, 2, 4, 8, 64)[number % 5]
        slot["Memory"] = 512 * (number % 33)
        slot["State"] = ("Unclaimed", "Claimed", "Owner")[number % 3]
        slots.append(slot)
    return slots


JOBS = [
    "TARGET.Memory >= RequestMemory",
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)'
    " && (TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer)",
    'State != "Claimed" && (Machine == "e03.example.com" || Machine == "E04.example.com")',
    'TARGET.Cpus > 2 && (SiteName ?: "x") != "FNAL" && TARGET.HasDocker =!= true',
    "((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer)) && Memory / Cpus > 256",
    'versionGE(split(TARGET.CondorVersion)[1], "25.0.0") && regexp("^e0[1-5]", TARGET.Machine)',
    'isUndefined(TARGET.Offline) && stringListMember(TARGET.State, "Unclaimed,Owner")',
    "ifThenElse(RequestMemory =!= undefined, TARGET.Memory > RequestMemory, false) && TARGET.Start =!= false",
]


@pytest.mark.parametrize("requirements", JOBS)
def test_plain_policies_on_real_slots_need_no_slot_by_slot_evaluation(requirements: str) -> None:
    slots = real_slots()
    table = SlotTable(slots)
    job = ClassAd.from_new(
        "[RequestCpus = 2; RequestMemory = 2048; RequestDisk = DiskUsage; DiskUsage = 1024;"
        ' Owner = "alice"; FileSystemDomain = "example.com"; Rank = KFlops + 100 * (State == "Unclaimed") - Cpus]'
    )
    job["Requirements"] = parse(requirements)
    assert table.matches(job).any()
    check_matches(table, slots, job)
    check_rank(table, slots, job)
    check_clauses(table, slots, job)
    check_evaluation(table, slots, job, job["Requirements"])
    assert table.scalar_evaluations == 0


def test_slot_by_slot_evaluations_are_counted() -> None:
    slots = [
        ClassAd.from_new(f"[AvailableGPUs = {{GPU_a}}; GPU_a = [Capability = {number / 4}]; Requirements = true]")
        for number in range(40)
    ]
    job = ClassAd.from_new(
        "[RequireGPUs = Capability >= 7.5; Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1]"
    )
    table = SlotTable(slots)
    assert table.matches(job).sum() == 10
    assert table.scalar_evaluations >= 40
    check_all(table, slots, job, ["countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) > 0"])


def test_slots_are_evaluated_one_by_one_only_if_cheaper_clauses_accept_them() -> None:
    slots = [
        ClassAd(
            {
                "Cpus": number,
                "AvailableGPUs": parse("{GPU_a}"),
                "GPU_a": ClassAd({"Capability": 8.0}),
                "Requirements": True,
            }
        )
        for number in range(40)
    ]
    table = SlotTable(slots)
    job = ClassAd.from_new(
        "[RequireGPUs = Capability >= 7.5;"
        " Requirements = TARGET.Cpus >= 38 && countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1]"
    )
    assert table.matches(job).tolist() == [False] * 38 + [True] * 2
    check_matches(table, slots, job)


# The policies of the corpus --------------------------------------------------------------------

POLICIES = [case["expr"] for case in corpus.cases("classad") if case["feature"] == "policy"]


@pytest.mark.parametrize("part", sampling.some(range(8), 2))
def test_the_corpus_policies_have_the_same_values_on_a_table_of_its_slots(part: int) -> None:
    job, slots = corpus.groups()[part].job, corpus.groups()[part].slots
    table = SlotTable(slots)
    for text in dict.fromkeys(POLICIES[part::8]):
        expression = corpus.parsed(text)
        check_evaluation(table, slots, job, expression)
        asking_job = job.copy()
        asking_job.update(Requirements=expression, Rank=expression)
        check_matches(table, slots, asking_job)
        check_rank(table, slots, asking_job)


@pytest.mark.parametrize("part", sampling.some(range(8), 3))
def test_the_corpus_policies_have_the_same_values_in_slots(part: int) -> None:
    job, slots = corpus.groups()[part + 8].job, corpus.groups()[part + 8].slots
    texts = list(dict.fromkeys(POLICIES[part::8]))
    for first in range(0, len(texts), 10):
        some = [corpus.parsed(text) for text in texts[first : first + 10]]
        asking_slots = [slot.copy() for slot in slots]
        for place, slot in enumerate(asking_slots):
            slot.update(Start=some[place % len(some)], Requirements=parse("Start =!= false"), Rank=some[0])
        check_evaluation(SlotTable(asking_slots), asking_slots, job, parse("TARGET.Start"))
        check_evaluation(SlotTable(asking_slots), asking_slots, job, parse("TARGET.Rank"))
        check_matches(SlotTable(asking_slots), asking_slots, job)


def test_the_corpus_jobs_can_be_matched_in_turn_with_one_table() -> None:
    slots = [slot for group in corpus.groups()[:6] for slot in group.slots[:6]]
    table = SlotTable(slots)
    for group in corpus.groups()[::4]:
        check_matches(table, slots, group.job)
        check_rank(table, slots, group.job)
        check_clauses(table, slots, group.job)
