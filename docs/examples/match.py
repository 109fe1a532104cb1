"""Find the slots on which a job can run, and count the slots that each of its conditions excludes.

Run it with a Python that has poolbook installed.
"""

from poolbook.domain.classad import ClassAd, explain, parse, unparse
from poolbook.domain.classad.table import SlotTable

SLOT = """\
MyType = "Machine"
Name = "slot1@e{number:03}.example.org"
Arch = "X86_64"
OpSys = "LINUX"
Cpus = {cpus}
Memory = {memory}
LoadAvg = {load}
State = "{state}"
Start = LoadAvg < 0.3 || TARGET.Owner == "alice"
Requirements = Start && TARGET.RequestCpus <= Cpus
"""


def slot_ads(slots: int) -> list[ClassAd]:
    """Return slot ads as ``condor_status -l`` prints them."""
    ads = []
    for number in range(slots):
        cpus = (1, 4, 8, 16)[number % 4]
        state = "Owner" if number % 10 == 0 else "Unclaimed"
        text = SLOT.format(number=number, cpus=cpus, memory=2000 * cpus, load=number % 7 / 10, state=state)
        ads.append(ClassAd.from_old(text))
    return ads


def main() -> None:
    slots = slot_ads(1000)
    job = ClassAd(
        {
            "Owner": "bob",
            "RequestCpus": 4,
            "RequestMemory": parse("RequestCpus * 3000"),
            "Requirements": parse(
                'TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory && TARGET.State == "Unclaimed"'
            ),
            "Rank": parse("TARGET.Memory / 1000 - 10 * TARGET.LoadAvg"),
        }
    )
    table = SlotTable(slots)

    print("The job requires:", job["Requirements"])
    print("simplified:      ", job["Requirements"].simplify(job))

    matches = table.matches(job)
    ranks = table.rank(job)
    best = max((row for row in range(len(table)) if matches[row]), key=lambda row: ranks[row])
    print(f"\n{matches.sum()} of {len(table)} slots match; the best is {table[best].eval('Name')}, rank {ranks[best]}")

    print("\nmatching slots   remaining   condition")
    for clause, matching, remaining in table.count_by_clause(job):
        print(f"{matching:14} {remaining:11}   {clause}")

    print(f"\nWhy {slots[3].eval('Name')} rejects the job:")
    for part in explain(slots[3]["Requirements"], slots[3], job):
        print(f"  {unparse(part.value):5}  {part.expression}")
    for part in explain(slots[3]["Start"], slots[3], job):
        print(f"  {unparse(part.value):5}  {part.expression} (Start)")


if __name__ == "__main__":
    main()
