"""Golden and property: job_queue.log and Accountantnew.log as events, transaction by transaction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.daemon_table_reader import TableReader
from poolbook.domain.events import Event, SourceGap, SourceRefused, TableWritten
from poolbook.replay.forensics.daemon_tables import DaemonTable, jobs_of

from ..together import together
from .feeding import DATA, content, read, read_in_pieces, traced

HEAD = "107 1 CreationTimestamp 1795214023\n"


def ads_of(text: str) -> list[dict[str, str]]:
    """The ads of a listing, names in lower case; what is no attribute is passed over."""
    blocks = (block.splitlines() for block in text.split("\n\n"))
    ads = [dict(line.split(" = ", 1) for line in block if " = " in line and line[0] != "#") for block in blocks]
    return [{name.lower(): text for name, text in ad.items()} for ad in ads if ad]


def folded(kind: str, events: list[Event]) -> DaemonTable:
    table = DaemonTable(kind)
    for event in events:
        if isinstance(event, SourceGap):
            table.torn = True
        elif isinstance(event, TableWritten):
            table.take(event)
    return table


# What a file holds, and what is told of it: the lines of transactions and their operations, the lines that are
# refused, the gaps, and how many bytes are left.
CASES: dict[str, tuple[str, list[tuple[int, list[int]]], list[int], list[int], int]] = {
    "an operation outside is a transaction": (HEAD + "101 0.0 Job Machine\n", [(1, [107]), (2, [101])], [], [], 0),
    "a transaction": ("105 \n103 1.0 A 1\n104 1.0 A\n106 \n", [(1, [105, 103, 104, 106])], [], [], 0),
    "a transaction with a comment": ("105\n102 1.0\n106 # by bob\n", [(1, [105, 102, 106])], [], [], 0),
    "an empty transaction": ("105 \n106 \n", [(1, [105, 106])], [], [], 0),
    "line ends of another system": ("105 \r\n103 1.0 A 1\r\n106 \r\n", [(1, [105, 103, 106])], [], [], 0),
    "a transaction that is being written": ("102 1.0\n105 \n103 1.0 A 1\n", [(1, [102])], [], [], 17),
    "an end that is being written": ("105 \n103 1.0 A 1\n106 ", [], [], [], 21),
    "a line that is being written": ("102 1.0\n102 2.", [(1, [102])], [], [], 6),
    "a transaction that was never finished": (
        "105 \n103 1.0 A 1\n105 \n103 1.0 B 2\n106 \n",
        [(3, [105, 103, 106])],
        [1],
        [],
        0,
    ),
    "a bad line within": ("105 \n103 1.0 A\n103 1.0 B 2\n106 \n", [(1, [105, 103, 106])], [2], [], 0),
    "a bad line outside": ("103 1.0\n102 1.0\n", [(2, [102])], [1], [], 0),
    "a bad line that nothing follows yet": ("103 1.0\n", [], [], [], 8),
    "an operation that is none": ("108 1.0 x\n999\n102 1.0\n", [(3, [102])], [1, 2], [], 0),
    "an end without a beginning": ("106 \n102 1.0\n", [(2, [102])], [1], [], 0),
    "a table that begins twice": (HEAD + HEAD + "102 1.0\n", [(1, [107]), (3, [102])], [2], [], 0),
    "blank lines": ("\n102 1.0\n\n102 2.0\n", [(2, [102]), (4, [102])], [], [], 0),
    "a cut within a transaction": (
        "105 \n103 1.0 A 1\n103 1.\n...... trimmed: 9 bytes in all ......\nor B 2\n103 1.0 C 3\n106 \n105 \n106 \n",
        [(6, [103]), (8, [105, 106])],
        [],
        [4],
        0,
    ),
    "a cut outside": ("103 1.\n## trimmed here\n1.0\n102 1.0\n", [(4, [102])], [], [2], 0),
}


@together("name", CASES)
def test_what_is_a_transaction(name: str) -> None:
    text, transactions, refused, gaps, left = CASES[name]
    events, rest = read(TableReader, "queue", text.encode())
    told = [event for event in events if isinstance(event, TableWritten)]
    lines = [int(event.stimulus.split(":")[1]) for event in told]
    assert [(line, [o[0] for o in event.operations]) for line, event in zip(lines, told, strict=True)] == transactions
    assert [event.number for event in told] == list(range(1, len(told) + 1))
    assert [event.line for event in events if isinstance(event, SourceRefused)] == refused
    assert [event.line for event in events if isinstance(event, SourceGap)] == gaps
    assert rest == left


def test_keys_attributes_and_texts_are_kept_as_they_stand_there() -> None:
    text = '101 02.-1 Job Machine\n103 02.-1 Note  "a  b" \n103 Resource.s@<h:1?a=b> X {1, 2}\n'
    events, _ = read(TableReader, "queue", text.encode())
    assert [event.operations[0] for event in events if isinstance(event, TableWritten)] == [
        (101, "02.-1", "", "Job Machine"),
        (103, "02.-1", "Note", ' "a  b" '),
        (103, "Resource.s@<h:1?a=b>", "X", "{1, 2}"),
    ]


def test_an_event_has_the_latest_instant_that_was_stated() -> None:
    text = HEAD + (
        "103 1.0 QDate 1795214030\n103 1.0 JobPrio 1795219999\n103 1.0 EnteredCurrentStatus 1795214029\n"
        "103 1.0 QDate 9999999999\n103 1.0 QDate undefined\n103 1.0 LastMatchTime 1795214031\n"
    )
    events, _ = read(TableReader, "queue", text.encode())
    assert [event.at // 1_000_000 - 1795214000 for event in events] == [23, 30, 30, 30, 30, 30, 31]


def test_secrets_are_dropped_when_they_are_read() -> None:
    events, _ = read(TableReader, "queue", content(DATA / "queue" / "spool" / "job_queue.log.1.gz"))
    (text,) = {repr(events)}
    assert "PublicClaimId" in text
    assert "'ClaimId'" not in text
    assert "5ec2e7" not in text
    secret, _ = read(TableReader, "queue", b'103 1.0 Note "<h:1>#1795214023#1#[x]5ec2e7"\n103 1.0 ClaimId "y"\n')
    assert [e.operations for e in secret if isinstance(e, TableWritten)] == [
        ((103, "1.0", "Note", '"<h:1>#1795214023#1#..."'),),
        (),
    ]


@together("path", traced("job_queue.log"))
def test_the_queue_at_the_end_of_a_trace_is_what_condor_q_said(path: Path) -> None:
    events, left = read(TableReader, "queue", content(path))
    assert left == 0
    assert {type(event) for event in events} == {TableWritten}
    jobs = jobs_of(folded("queue", events))
    mine = {ad["GlobalJobId"]: {name.lower(): text for name, text in ad.items()} for ad in jobs}
    (said,) = path.parent.glob("q-end.ads*")
    theirs = {ad["globaljobid"]: ad for ad in ads_of(content(said).decode())}
    for ad in theirs.values():
        del ad["servertime"]
    assert {job: ad for job, ad in mine.items() if job in theirs} == theirs
    left_out = re.findall(r"(\d+) records left out", content(said).decode())
    assert len(mine) - len(theirs) == sum(map(int, left_out))


SUBMITTER = {
    "accumulatedusage": "AccumulatedUsage",
    "weightedaccumulatedusage": "WeightedAccumulatedUsage",
    "priorityfactor": "PriorityFactor",
    "beginusagetime": "BeginUsageTime",
    "lastusagetime": "LastUsageTime",
    "resourcesused": "ResourcesUsed",
    "weightedresourcesused": "WeightedResourcesUsed",
}


def agrees(ad: dict[str, str], held: dict[str, str]) -> bool:
    """Whether a table's submitter is as condor_userprio shows it: its priority there is multiplied by its factor, and
    no real priority is better than 0.5."""
    said = [(float(ad[there]), float(held[here])) for there, here in SUBMITTER.items() if there in ad and here in held]
    priority = max(0.5, float(held.get("Priority", 0.5))) * float(held["PriorityFactor"])
    said.append((float(ad["priority"]), priority))
    return all(theirs == pytest.approx(mine, rel=1e-4, abs=1e-6) for theirs, mine in said)


def compared(path: Path) -> tuple[int, list[str]]:
    """How many submitters of the samples beside a table were compared with the table of the instant at which the
    negotiator had brought it up to date, and those that are different there."""
    transactions: list[TableWritten] = []
    for event in read(TableReader, "accountant", content(path))[0]:
        if isinstance(event, SourceGap):
            break  # what lies behind it is not whole
        assert isinstance(event, TableWritten)
        transactions.append(event)
    wanted: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for sample in sorted(path.parent.glob("userprio-*")):
        for ad in ads_of(content(sample).decode()):
            if ad.get("mytype") == '"Accounting"':
                key = "Customer." + ad["name"].strip('"')
                wanted.setdefault(ad.get("lastupdate", ad["lastheardfrom"]), []).append((key, ad))
    table = DaemonTable("accountant")
    agreed: dict[tuple[str, str], bool] = {}
    for event in transactions:
        table.take(event)
        now = table.held["Accountant."].get("lastupdatetime", ("", ""))[1] if "Accountant." in table.held else ""
        for key, ad in wanted.get(now, []):
            if key in table.held:
                held = table.held[key].ad()
                same = "PriorityFactor" in held and agrees(ad, held)
                agreed[key, now] = agreed.get((key, now), False) or same
    return len(agreed), [f"{key} at {now}" for (key, now), same in agreed.items() if not same]


def test_the_accountant_agrees_with_condor_userprio() -> None:
    counts = {path.parent.name: compared(path) for path in traced("Accountantnew.log")}
    assert {name: different for name, (_, different) in counts.items() if different} == {}
    assert sum(count for count, _ in counts.values()) > 100


LINES = st.lists(
    st.sampled_from(
        [
            b"105 \n",
            b"106 \n",
            b"106 # why\n",
            b"101 1.0 Job Machine\n",
            b"102 1.0\n",
            b"103 1.0 QDate 1795214030\n",
            b'103 02.-1 ClaimId "x"\n',
            b"104 1.0 A\n",
            b"103 1.0\n",
            b"nonsense\n",
            b"\n",
            b"...... trimmed ......\n",
            HEAD.encode(),
            b"\xff\x00 \r\n",
        ]
    ),
    max_size=30,
).map(b"".join)


@given(LINES, st.lists(st.integers(0, 1000), max_size=4))
def test_where_the_pieces_are_cut_does_not_matter(data: bytes, cuts: list[int]) -> None:
    assert read_in_pieces(TableReader, "queue", data, cuts) == read(TableReader, "queue", data)


@settings(max_examples=25)
@given(st.binary(max_size=200), st.integers(0, 20_000), st.lists(st.integers(0, 20_000), max_size=3))
def test_rubbish_within_a_file_stops_nothing(rubbish: bytes, place: int, cuts: list[int]) -> None:
    honest = content(DATA / "queue" / "spool" / "job_queue.log.2.gz")
    data = honest[:place] + rubbish + honest[place:]
    events, left = read(TableReader, "queue", data)
    folded("queue", events)
    assert read_in_pieces(TableReader, "queue", data, cuts) == (events, left)
