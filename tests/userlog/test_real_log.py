"""Golden: a scenario of a real HTCondor 25.14 pool, repeated in virtual time, leaves the same log. The logs are
compared as one text, after times, addresses and scratch directories are replaced. Events 006 come at each measurement,
which differs between runs: only their form is compared."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from poolbook.adapters.runtime.userlog import event_text
from poolbook.adapters.runtime.userlog.event_text import Resource
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import ClientLaunch, Launch
from poolbook.domain.submit import NoSubmitFiles, SubmitFacts, parse_submit
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from ..together import together
from .pool import DATA, Pool, events_of

REAL = (DATA / "01-plain-job.log").read_text(encoding="utf-8")
BEGINNING = round(datetime(2026, 11, 20, 22, 33, 44, tzinfo=UTC).timestamp()) * SECOND

# The events, in seconds after the first submission. The real negotiator took 6 seconds to begin, so the machine appears
# then.
SCENARIO = (
    (0, "submit", "a.sub"),
    (0, "submit", "b.sub"),
    (0, "submit", "c.sub"),
    (0, "submit", "d.sub"),
    (1, "submit", "e.sub"),
    (1, "submit", "f.sub"),
    (4, "remove 6.0", ""),
    (6, "machine", ""),
    (15, "hold 4.0", "please stop"),
    (19, "release 4.0", ""),
    (22, "remove 5.0", "not needed"),
    (50, "end", ""),
)
BEHAVIOURS = {
    (1, 0): Behaviour(6.2),  # the real one ended last of the three, though within the same second
    (1, 1): Behaviour(6),
    (1, 2): Behaviour(6),
    (2, 0): Behaviour(4, code=3),
    (3, 0): Behaviour(4, signal=11),
    (4, 0): Behaviour(25),
    (5, 0): Behaviour(300, grace=1),
}
DISK = {1: 150, 2: 150, 3: 150, 4: 47, 5: 47}
"""Cluster -> scratch space that the real jobs used."""
FACTS = SubmitFacts(
    now=BEGINNING // SECOND, owner="alice", uid_domain="localhost", filesystem_domain="localhost", iwd="/home/alice",
    version="$CondorVersion: 25.14.1 2026-10-16 $", platform="$CondorPlatform: X86_64-Debian_ $",
)  # fmt: skip


class Disk(NoSubmitFiles):
    """The disk of the real pool, as far as a submission looks at it: programs of some size."""

    def __init__(self) -> None:
        super().__init__("the real pool's files are gone")

    def size(self, path: str) -> int | None:
        return 125_000


class RealWorld(VirtualWorld):
    """Job 1.1 was the last of its cluster to report that it had begun."""

    def wait(self, until: int | None) -> list[s.Stimulus]:
        arrived = super().wait(until)
        return sorted(arrived, key=lambda c: isinstance(c, s.ActivationStarted) and self.jobs[c.key] == (1, 1))

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        jobs = {launch.key: (launch.cluster, launch.proc) for launch in launches if isinstance(launch, Launch)}
        self.jobs = {**getattr(self, "jobs", {}), **jobs}
        super().start(launches)


def measurements() -> list[tuple[int, tuple[int, int], int, int]]:
    """Return the real pool's measurements: the instant, shortly before the log has it; job; image and resident set in
    KiB."""
    form = re.compile(r"006 \((\d+)\.(\d+)\.000\) (\S+ \S+) .*: (\d+)\n.*\n\t(\d+) .*\n\.\.\.\n")
    return [
        (
            round(datetime.fromisoformat(f"{match[3]}+00:00").timestamp() * SECOND) - SECOND // 10,
            (int(match[1]), int(match[2])), int(match[4]), int(match[5]),
        )
        for match in form.finditer(REAL)
    ]  # fmt: skip


def scenario() -> str:
    world = RealWorld(lambda launch: BEHAVIOURS[launch.cluster, launch.proc], BEGINNING)
    pool = Pool(world)
    agenda: list[tuple[int, Callable[[], None]]] = [
        (BEGINNING + at * SECOND, partial(perform, pool, command, options)) for at, command, options in SCENARIO
    ]
    for at, job, image, resident in measurements():
        agenda.append((at, partial(pool.measure, job, image, resident, DISK[job[0]])))
    for at, happen in sorted(agenda, key=lambda row: row[0]):
        pool.until(at)
        happen()
    return pool.log()


def perform(pool: Pool, command: str, options: str) -> None:
    verb, _, job = command.partition(" ")
    if verb == "submit":
        text = (DATA / "submit" / options).read_text(encoding="utf-8")
        submission = parse_submit(text, FACTS, Disk())
        pool.submit(submission.ad, submission.count, submission.columns)
    elif verb == "machine":
        machine_ad = {"OpSys": '"LINUX"', "FileSystemDomain": '"localhost"', "HasFileTransfer": "true"}
        machine_ad["CondorVersion"] = f'"{FACTS.version}"'
        pool.machine("localhost", 3, Cpus="1", Memory="8035", Disk="25404293", **machine_ad)
    elif verb != "end":
        cluster, _, proc = job.partition(".")
        pool.act(verb, (int(cluster), int(proc)), reason=options)


def without_variable_parts(event: str) -> str:
    """Return an event without the parts that differ between any two runs."""
    event = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", event)
    event = re.sub(r"<[^>]*>", "ADDRESS", event)
    return re.sub(r'CondorScratchDir = "[^"]*"', "CondorScratchDir = PATH", event)


def form(event: str) -> str:
    return re.sub(r"\d+", "N", without_variable_parts(event))


def test_the_log_of_the_scenario_equals_the_real_one() -> None:
    our_events, real_events = (
        [without_variable_parts(event) for event in events_of(log) if not event.startswith("006")]
        for log in (scenario(), REAL)
    )
    assert "".join(our_events) == "".join(real_events)


def test_an_event_of_the_image_size_has_the_real_form() -> None:
    our_forms, real_forms = (
        {form(event) for event in events_of(log) if event.startswith("006")} for log in (scenario(), REAL)
    )
    assert our_forms == real_forms
    assert len(real_forms) == 1


# Every event in the logs of 21 scenarios of the real pool, without their ids and times

REAL_EVENTS = events_of(gzip.decompress((DATA / "real-events.log.gz").read_bytes()).decode())
TABLE = re.compile(r"\tPartitionable Resources : .*\n(?:\t   .*\n)+")


def rows(table: str) -> list[Resource]:
    """Return the cells of a table, found by the right edges of its heading."""
    head, *lines = table.splitlines()
    edges = [head.index(heading) + len(heading) for heading in ("Usage", "Request", "Allocated")]
    start = head.index(":") + 1
    spans = list(zip([start, *edges], edges, strict=False))
    cells = []
    for line in lines:
        line = line.replace("\t", "", 1)
        name = line.partition(":")[0].split()[0]
        shift = line.index(":") + 1 - start
        cells.append(Resource(name, *(line[first + shift : last + shift].strip() for first, last in spans)))
    return cells


def test_every_table_of_resources_has_the_real_layout() -> None:
    tables = {table for event in REAL_EVENTS for table in TABLE.findall(event)}
    assert len(tables) > 100
    assert [table for table in sorted(tables) if event_text.partitionable_resources(tuple(rows(table))) != table] == []


HEAD = re.compile(r"^\d{3} \(\d{3,}\.\d{3,}\.000\) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
FIELDS = {
    "004": r"Code (?P<code>\d+) Subcode (?P<subcode>\d+).*?Reason: (?P<reason>[^\n]*)\n(?P<table>.*)",
    "006": r": (?P<image>\d+)\n.*?\n\t(?P<resident>\d+)  -",
    "009": r"\n\t(?P<reason>[^\n]*)\n",
    "010": r"suspended: (?P<count>\d+)",
    "011": r"",
    "012": r"held\.\n\t(?P<reason>[^\n]*)\n\tCode (?P<code>\d+) Subcode (?P<subcode>\d+)",
    "013": r"released\.\n(?:\t(?P<reason>[^\n]*)\n)?",
    "021": r"on (?P<slot>[^\n]*):\n\t(?P<reason>[^\n]*)\n\tCode (?P<code>\d+) Subcode (?P<subcode>\d+)",
    "024": r"failed\n    (?P<reason>[^\n]*)\n    Can not reconnect to (?P<slot>[^\n]*), res",
    "033": r"attribute (?P<name>\S+) from (?P<before>\S+) to (?P<after>\S+)\n",
}
"""The variable parts in the body of each kind of event."""


def written_body(number: str, fields: dict[str, str]) -> str:
    """Return the body that Poolbook writes for the same facts."""
    code, subcode, reason = int(fields.get("code") or 0), int(fields.get("subcode") or 0), fields.get("reason") or ""
    return {
        "004": lambda: event_text.evicted_text(code, subcode, reason, (0, 0), fields["table"]),
        "006": lambda: event_text.image_size(int(fields["image"]), int(fields["resident"])),
        "009": lambda: event_text.aborted_text(reason),
        "010": lambda: event_text.suspended_text(int(fields["count"])),
        "011": lambda: event_text.UNSUSPENDED,
        "012": lambda: event_text.held_text(reason, code, subcode),
        "013": lambda: event_text.released_text(reason),
        "021": lambda: event_text.remote_error(fields["slot"], reason, code, subcode),
        "024": lambda: event_text.reconnect_failed(fields["slot"], reason),
        "033": lambda: event_text.attribute_changed(fields["name"], fields["before"], fields["after"]),
    }[number]()


@together("number", FIELDS)
def test_every_body_equals_the_real_one(number: str) -> None:
    real_events = [event for event in REAL_EVENTS if event.startswith(number) and "trimmed" not in event]
    assert real_events
    for event in real_events:
        body = HEAD.sub("", event).removesuffix(event_text.END)
        if "requeued" in body:
            continue
        match = re.search(FIELDS[number], body, re.DOTALL)
        assert match, event
        assert written_body(number, match.groupdict(default="")) == body


def test_a_requeued_job_leaves_the_real_event() -> None:
    real_bodies = {HEAD.sub("", event).removesuffix(event_text.END) for event in REAL_EVENTS if "requeued" in event}
    reason = "The job attribute OnExitRemove expression 'false' evaluated to FALSE"
    assert real_bodies == {event_text.requeued_text(event_text.ending(0, None), reason, (0, 0))}
