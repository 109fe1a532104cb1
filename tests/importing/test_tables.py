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
from .feeding import DATA, content, read, read_in_pieces, trace_files

HEAD = "107 1 CreationTimestamp 1795214023\n"


def ads_of(text: str) -> list[dict[str, str]]:
    """Return the ads of a listing, with names in lower case; skip other lines."""
    blocks = (block.splitlines() for block in text.split("\n\n"))
    ads = [dict(line.split(" = ", 1) for line in block if " = " in line and line[0] != "#") for block in blocks]
    return [{name.lower(): text for name, text in ad.items()} for ad in ads if ad]


def folded(kind: str, events: list[Event]) -> DaemonTable:
    table = DaemonTable(kind)
    for event in events:
        if isinstance(event, SourceGap):
            table.torn = True
        elif isinstance(event, TableWritten):
            table.fold_line(event)
    return table


# A file's content and its events: the lines of transactions and their operations, the refused lines, the gaps, and how
# many bytes were left.
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
def test_a_file_is_read_transaction_by_transaction(name: str) -> None:
    text, transactions, refused_lines, gaps, bytes_left = CASES[name]
    events, unread = read(TableReader, "queue", text.encode())
    writes = [event for event in events if isinstance(event, TableWritten)]
    lines = [int(event.stimulus.split(":")[1]) for event in writes]
    assert [
        (line, [operation[0] for operation in event.operations]) for line, event in zip(lines, writes, strict=True)
    ] == transactions
    assert [event.number for event in writes] == list(range(1, len(writes) + 1))
    assert [event.line for event in events if isinstance(event, SourceRefused)] == refused_lines
    assert [event.line for event in events if isinstance(event, SourceGap)] == gaps
    assert unread == bytes_left


def test_keys_attributes_and_texts_are_kept_unchanged() -> None:
    text = '101 02.-1 Job Machine\n103 02.-1 Note  "a  b" \n103 Resource.s@<h:1?a=b> X {1, 2}\n'
    events, _ = read(TableReader, "queue", text.encode())
    assert [event.operations[0] for event in events if isinstance(event, TableWritten)] == [
        (101, "02.-1", "", "Job Machine"),
        (103, "02.-1", "Note", ' "a  b" '),
        (103, "Resource.s@<h:1?a=b>", "X", "{1, 2}"),
    ]


def test_an_event_has_the_latest_stated_instant() -> None:
    text = HEAD + (
        "103 1.0 QDate 1795214030\n103 1.0 JobPrio 1795219999\n103 1.0 EnteredCurrentStatus 1795214029\n"
        "103 1.0 QDate 9999999999\n103 1.0 QDate undefined\n103 1.0 LastMatchTime 1795214031\n"
    )
    events, _ = read(TableReader, "queue", text.encode())
    assert [event.at // 1_000_000 - 1795214000 for event in events] == [23, 30, 30, 30, 30, 30, 31]


def test_secrets_are_dropped_while_reading() -> None:
    events, _ = read(TableReader, "queue", content(DATA / "queue" / "spool" / "job_queue.log.1.gz"))
    (text,) = {repr(events)}
    assert "PublicClaimId" in text
    assert "'ClaimId'" not in text
    assert "5ec2e7" not in text
    secret_events, _ = read(TableReader, "queue", b'103 1.0 Note "<h:1>#1795214023#1#[x]5ec2e7"\n103 1.0 ClaimId "y"\n')
    assert [event.operations for event in secret_events if isinstance(event, TableWritten)] == [
        ((103, "1.0", "Note", '"<h:1>#1795214023#1#..."'),),
        (),
    ]


@together("path", trace_files("job_queue.log"))
def test_the_queue_at_the_end_of_a_trace_equals_condor_qs(path: Path) -> None:
    events, bytes_left = read(TableReader, "queue", content(path))
    assert bytes_left == 0
    assert {type(event) for event in events} == {TableWritten}
    jobs = jobs_of(folded("queue", events))
    our_ads = {ad["GlobalJobId"]: {name.lower(): text for name, text in ad.items()} for ad in jobs}
    (sample_path,) = path.parent.glob("q-end.ads*")
    sample_ads = {ad["globaljobid"]: ad for ad in ads_of(content(sample_path).decode())}
    for ad in sample_ads.values():
        del ad["servertime"]
    assert {job: ad for job, ad in our_ads.items() if job in sample_ads} == sample_ads
    left_out = re.findall(r"(\d+) records left out", content(sample_path).decode())
    assert len(our_ads) - len(sample_ads) == sum(map(int, left_out))


SUBMITTER = {
    "accumulatedusage": "AccumulatedUsage",
    "weightedaccumulatedusage": "WeightedAccumulatedUsage",
    "priorityfactor": "PriorityFactor",
    "beginusagetime": "BeginUsageTime",
    "lastusagetime": "LastUsageTime",
    "resourcesused": "ResourcesUsed",
    "weightedresourcesused": "WeightedResourcesUsed",
}


def submitter_agrees(ad: dict[str, str], held: dict[str, str]) -> bool:
    """Return True if a table's submitter equals condor_userprio's: the priority there is multiplied by the factor, and
    no real priority is better than 0.5."""
    value_pairs = [
        (float(ad[sample_name]), float(held[our_name]))
        for sample_name, our_name in SUBMITTER.items()
        if sample_name in ad and our_name in held
    ]
    priority = max(0.5, float(held.get("Priority", 0.5))) * float(held["PriorityFactor"])
    value_pairs.append((float(ad["priority"]), priority))
    return all(sample_value == pytest.approx(our_value, rel=1e-4, abs=1e-6) for sample_value, our_value in value_pairs)


def compared(path: Path) -> tuple[int, list[str]]:
    """Return how many submitters in the samples next to a table were compared with the table at the instant of its last
    update, and which differ."""
    transactions: list[TableWritten] = []
    for event in read(TableReader, "accountant", content(path))[0]:
        if isinstance(event, SourceGap):
            break  # the transaction after it is incomplete
        assert isinstance(event, TableWritten)
        transactions.append(event)
    samples: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for sample in sorted(path.parent.glob("userprio-*")):
        for ad in ads_of(content(sample).decode()):
            if ad.get("mytype") == '"Accounting"':
                key = "Customer." + ad["name"].strip('"')
                samples.setdefault(ad.get("lastupdate", ad["lastheardfrom"]), []).append((key, ad))
    table = DaemonTable("accountant")
    agreements: dict[tuple[str, str], bool] = {}
    for event in transactions:
        table.fold_line(event)
        now = table.held["Accountant."].get("lastupdatetime", ("", ""))[1] if "Accountant." in table.held else ""
        for key, ad in samples.get(now, []):
            if key in table.held:
                held = table.held[key].ad()
                is_equal = "PriorityFactor" in held and submitter_agrees(ad, held)
                agreements[key, now] = agreements.get((key, now), False) or is_equal
    return len(agreements), [f"{key} at {now}" for (key, now), is_equal in agreements.items() if not is_equal]


def test_the_accountant_agrees_with_condor_userprio() -> None:
    counts = {path.parent.name: compared(path) for path in trace_files("Accountantnew.log")}
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
def test_rubbish_within_a_file_does_not_stop_the_reader(rubbish: bytes, place: int, cuts: list[int]) -> None:
    original = content(DATA / "queue" / "spool" / "job_queue.log.2.gz")
    data = original[:place] + rubbish + original[place:]
    events, bytes_left = read(TableReader, "queue", data)
    folded("queue", events)
    assert read_in_pieces(TableReader, "queue", data, cuts) == (events, bytes_left)
