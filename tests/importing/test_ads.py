"""Golden and property: histories and samples of a real pool, read ad by ad, wherever the file is cut."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC
from pathlib import Path

import classad2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.ads import AdsReader
from poolbook.adapters.condor_files.source_reader import SourceFile, is_private, without_secrets
from poolbook.adapters.condor_tools.xml_form import xml_text
from poolbook.domain.classad import ClassAd
from poolbook.domain.events import AdsKept, DaemonReported, Event, SourceGap, SourceRefused
from poolbook.domain.imported.packed_ads import KeptAd, attributes, unpack

from ..together import together
from .folders import TRACES

NOW = 1_795_300_000_000_000
MODIFIED = 1_795_214_500
KINDS = {
    "history": "history.ads*",
    "epochs": "epoch_history*",
    "startd_history": "startd_history*",
    "job_ads": "q-*.ads*",
    "machine_ads": "machine-ads-*",
    "submitter_ads": "userprio-*",
}
FILES = [(kind, path) for kind, pattern in KINDS.items() for path in sorted(TRACES.glob(f"*/{pattern}"))]
OLD = 'A = 1\nOwner = "x"\nClusterId = 7\n'
END = '*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "x" CompletionDate = 1795214069 CurrentTime = 1795214070\n'


def reader(kind: str, state: dict[str, object] | None = None, line: int = 0) -> AdsReader:
    return AdsReader(SourceFile(3, "f", kind, "h", UTC, MODIFIED, NOW), state, line)


def read(kind: str, data: bytes) -> tuple[list[Event], int]:
    return reader(kind).read(data)


def read_in_pieces(kind: str, data: bytes, cuts: list[int]) -> tuple[list[Event], int]:
    """Return the events of readers that are created for each piece of the data."""
    events: list[Event] = []
    state, line, begin = None, 0, 0
    for end in [*sorted(position % (len(data) + 1) for position in cuts), len(data)]:
        piece_reader = reader(kind, state, line)
        piece_events, bytes_read = piece_reader.read(data[begin:end])
        events += piece_events
        begin += bytes_read
        state, line = json.loads(json.dumps(piece_reader.state())), piece_reader.line
    return events, begin


def ads(events: list[Event]) -> list[KeptAd]:
    return [ad for event in events if isinstance(event, AdsKept) for ad in unpack(event)]


def other_events(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, AdsKept)]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def ad_count(kind: str, text: str) -> int:
    """Return how many complete ads a text has, counting the lines that end or begin them."""
    if kind in ("epochs", "startd_history"):
        return len(re.findall(r"^\*\*\* ", text, re.M))
    blocks = re.split(r"\n\n|^##.*\n", text, flags=re.M)
    if "\n......" in text:
        blocks = [block for block in blocks if "\n......" not in block]
    return sum(1 for block in blocks if re.search(r"^\w+ = .*(\n\w+ = .*){2}", block, re.M))


@together(("kind", "path"), FILES)
def test_all_ads_of_a_recorded_pool_are_kept_unchanged(kind: str, path: Path) -> None:
    data = content(path)
    text = data.decode()
    lines = text.split("\n")
    events, bytes_read = read(kind, data)
    assert bytes_read == len(data)
    assert all(isinstance(event, SourceGap) for event in other_events(events))
    assert len(other_events(events)) == len(re.findall(r"^(?:##|\.{6}) trimmed", text, re.M))
    kept_ads = ads(events)
    assert len(kept_ads) == ad_count(kind, text)
    for ad in kept_ads:
        ad_lines = ad.text.split("\n")
        assert ad_lines == lines[ad.line - 1 : ad.line - 1 + len(ad_lines)]


@pytest.mark.parametrize("kind", ["history", "epochs", "startd_history", "machine_ads"])
def test_a_kept_ad_equals_what_htcondor_reads(kind: str) -> None:
    paths = [path for file_kind, path in FILES if file_kind == kind]
    compared_count = 0
    for path in paths[:3]:
        for ad in ads(read(kind, content(path))[0])[:8]:
            reference_ad = classad2.ClassAd(f"[{ad.text.replace(chr(10), ';' + chr(10))}]")
            our_ad = ClassAd.from_old(ad.text)
            assert sorted(map(str.lower, our_ad)) == sorted(map(str.lower, reference_ad))
            assert {n: our_ad.eval(n) for n in ("ClusterId", "Cpus") if n in our_ad} == {
                n: reference_ad.eval(n) for n in ("ClusterId", "Cpus") if n in reference_ad
            }
            compared_count += 1
    assert compared_count > 5


def test_an_ad_of_a_history_has_the_values_of_its_banner() -> None:
    events, _ = read("history", (OLD + END).encode())
    (ad,) = ads(events)
    assert ad == KeptAd(1, OLD[:-1], ad.head)
    assert ad.head == {
        "Offset": "0", "ClusterId": "7", "ProcId": "0", "Owner": "x", "CompletionDate": "1795214069",
        "CurrentTime": "1795214070",
    }  # fmt: skip
    assert [(event.at, event.stimulus, event.cause) for event in events] == [(1795214070_000000, "3:1", "reported")]


@pytest.mark.parametrize(
    ("end", "head"),
    [
        ('*** SPAWN ClusterId=1 ProcId=0 Owner="a b" CurrentTime=5', {"EpochAdType": "SPAWN", "Owner": "a b"}),
        ("*** EPOCH ClusterId=1", {"EpochAdType": "EPOCH", "ClusterId": "1"}),
        ('*** Offset = 3 Owner = "d e" CurrentTime = 5', {"Offset": "3", "Owner": "d e", "CurrentTime": "5"}),
        ("*** ClusterId=-1", {"ClusterId": "-1"}),
    ],
)
def test_the_banner_of_an_ad_is_read_in_all_its_forms(end: str, head: dict[str, str]) -> None:
    (ad,) = ads(read("epochs", f"{OLD}{end}\n".encode())[0])
    assert ad.head.items() >= head.items()
    assert ("EpochAdType" in ad.head) == ("EpochAdType" in head)


@together(
    ("kind", "attribute", "at"),
    [
        ("job_ads", "ServerTime = 1795000000", 1_795_000_000),
        ("machine_ads", "MyCurrentTime = 1795000001", 1_795_000_001),
        ("submitter_ads", "LastUpdate = 1795000002", 1_795_000_002),
        ("job_ads", "QDate = 1", MODIFIED),
        ("history", "CompletionDate = 1795000003", 1_795_000_003),
        ("epochs", "EpochWriteDate = 1795000004", 1_795_000_004),
    ],
)
def test_an_ad_has_its_own_time_or_that_of_its_file(kind: str, attribute: str, at: int) -> None:
    ((event,), _) = read(kind, f"{OLD}{attribute}\n\n".encode())
    assert event.at == at * 1_000_000


def test_an_incomplete_ad_is_left_unread() -> None:
    data = (OLD + END + OLD).encode()
    events, bytes_read = read("history", data)
    assert (len(ads(events)), data[bytes_read:]) == (1, OLD.encode())
    assert read("history", OLD.encode()) == ([], 0)
    assert read("job_ads", (OLD + "\nB = 2\nC").encode())[1] == len(OLD) + 1


@together(
    ("rubbish", "line"),
    [
        ("what is this\n", 9),
        ("A = 1\nnothing\nB = 2\n" + END, 10),
        ("A = 1\nB = 2\na = 3\n" + END, 11),
        ("# remark\n", 9),
        ("\0\1\2\n" + END, 9),
        (END, 9),
    ],
)
def test_rubbish_is_refused_with_its_line_and_the_next_ad_is_read(rubbish: str, line: int) -> None:
    good = OLD + END
    events, bytes_read = read("history", (good + good + rubbish + "\n" + good).encode())
    assert bytes_read == len((good + good + rubbish + "\n" + good).encode())
    refusals = [event for event in events if isinstance(event, SourceRefused)]
    assert [(event.line, event.stimulus) for event in refusals] == [(line, f"3:{line}")]
    assert [ad.text for ad in ads(events)] == [OLD[:-1]] * 3


def test_two_merged_ads_are_refused() -> None:
    events, _ = read("history", (OLD + OLD + END).encode())
    (refusals,) = events
    assert isinstance(refusals, SourceRefused)
    assert (refusals.line, refusals.text) == (4, "A = 1")


def test_no_secret_leaves_the_reader() -> None:
    secret = "<1.2.3.4:5>#1795214023#7#0123456789abcdef"
    text = f'A = 1\nClaimId = "{secret}"\nOther = "{secret}"\n_condor_priv_X = 2\nB = 2\n'
    for data in (text + "\n", json.dumps({"A": 1, "ClaimId": secret, "Other": secret, "B": 2}) + "\n"):
        (ad,) = ads(read("job_ads", data.encode())[0])
        assert "0123456789abcdef" not in ad.text
        assert sorted(line.partition(" = ")[0] for line in ad.text.split("\n")) == ["A", "B", "Other"]
        assert attributes(ad.text, ("Other",)) == {"Other": '"<1.2.3.4:5>#1795214023#7#..."'}


def test_a_removed_part_is_a_gap_and_a_cut_ad_is_not_kept() -> None:
    with_gap = f"{OLD}\n## trimmed here: 5 bytes\n{OLD}\n"
    with_cut = f"{OLD}\nD = 1\nE = \n...... trimmed: 9 bytes in all ......\nrest\nF = 1\n\n{OLD}\n"
    for text, line in ((with_gap, 5), (with_cut, 7)):
        events, bytes_read = read("machine_ads", text.encode())
        assert bytes_read == len(text)
        assert [ad.text for ad in ads(events)] == [OLD[:-1]] * 2
        assert [(type(event), event.line) for event in other_events(events)] == [(SourceGap, line)]  # type: ignore[attr-defined]


def test_printed_tables_are_skipped() -> None:
    text = f"{OLD}\n### table\nUser Name   Priority\n-----\n\nNumber of users: 0\n### -l\n{OLD}\nUsers\n"
    events, bytes_read = read("submitter_ads", text.encode())
    assert (bytes_read, len(ads(events)), other_events(events)) == (len(text), 2, [])


@pytest.mark.parametrize("form", ["array", "lines", "minified", "xml", "xml in lines", "new"])
@given(cuts=st.lists(st.integers(0, 10**6), max_size=4))
@settings(max_examples=4, deadline=None)
def test_json_xml_and_new_ads_are_read_wherever_they_are_cut(form: str, cuts: list[int]) -> None:
    path = next(path for kind, path in FILES if kind == "history")
    originals = [ClassAd.from_old(ad.text) for ad in ads(read("history", content(path))[0])[:4]]
    texts = [ad.to_json() for ad in originals]
    text = {
        "array": "[\n" + "\n,\n".join(texts) + "\n]\n",
        "lines": "".join(json.dumps(json.loads(json_ad)) + "\n" for json_ad in texts),
        "minified": json.dumps([json.loads(json_ad) for json_ad in texts]) + "\n",
        "xml": '<?xml version="1.0"?>\n<classads>\n' + "".join(xml_text(ad, ad) for ad in originals) + "</classads>\n",
        "xml in lines": "".join("".join(map(str.strip, xml_text(ad, ad).splitlines())) + "\n" for ad in originals),
        "new": "{\n" + ",\n".join(ad.to_new() for ad in originals) + "\n}\n",
    }[form]
    data = text.encode()
    all_events, bytes_read = read("job_ads", data)
    assert bytes_read == len(data)
    assert other_events(all_events) == []
    assert [ClassAd.from_old(ad.text) for ad in ads(all_events)] == originals
    piece_events, bytes_read = read_in_pieces("job_ads", data, cuts)
    assert (ads(piece_events), other_events(piece_events), bytes_read) == (ads(all_events), [], len(data))


def test_invalid_xml_is_refused_and_the_next_ad_is_read() -> None:
    data = b'<c><a n="A"><i>1</i></a></c>\n<c><a n="A">\n<c><a n="A"><i>3</i></a></c>\n'
    events, _ = read("job_ads", data)
    assert [ad.text for ad in ads(events)] == ["A = 1", "A = 3"]
    assert [event.line for event in events if isinstance(event, SourceRefused)] == [2]


def test_invalid_json_is_refused_and_the_next_ad_is_read() -> None:
    data = b'[\n{"A": 1}\n,\n{"A": tru}\n,\n{"A": 3}\n]\n'
    events, bytes_read = read("job_ads", data)
    assert [ad.text for ad in ads(events)] == ["A = 1", "A = 3"]
    assert [(event.line, bytes_read) for event in events if isinstance(event, SourceRefused)] == [(4, len(data))]


@given(
    file=st.sampled_from([file for file in FILES if file[1].stat().st_size > 200]),
    cuts=st.lists(st.integers(0, 10**6), max_size=6),
)
@settings(max_examples=20, deadline=None)
def test_ads_do_not_depend_on_where_a_file_is_cut(file: tuple[str, Path], cuts: list[int]) -> None:
    kind, data = file[0], content(file[1])
    all_events, bytes_read = read(kind, data)
    piece_events, at = read_in_pieces(kind, data, cuts)
    assert (ads(piece_events), other_events(piece_events), at) == (
        ads(all_events),
        other_events(all_events),
        bytes_read,
    )


BITS = st.sampled_from(
    [OLD, END, "\n", "\r\n", "### t\n", "## trimmed here\n", "...... trimmed ......\n", "[", "{", "}"]
)


@given(
    st.lists(st.one_of(st.binary(max_size=40), BITS.map(str.encode)), max_size=12).map(b"".join),
    st.lists(st.integers(0, 10**6), max_size=4),
    st.sampled_from(sorted(KINDS)),
)
@settings(max_examples=120, deadline=None)
def test_no_bytes_stop_a_reader(data: bytes, cuts: list[int], kind: str) -> None:
    events, bytes_read = read_in_pieces(kind, data, cuts)
    assert 0 <= bytes_read <= len(data)
    for ad in ads(events):
        assert without_secrets(ad.text) == ad.text
        assert not any(is_private(line.partition(" = ")[0]) for line in ad.text.split("\n"))


HISTORIES = [(kind, path) for kind, path in FILES if kind in ("history", "startd_history")]


@given(st.data())
def test_a_trimmed_history_causes_no_doubt_wherever_it_was_trimmed(data: st.DataObject) -> None:
    kind, path = data.draw(st.sampled_from(HISTORIES))
    banners = [match.end() for match in re.finditer(rb"^\*\*\* .*\n", content(path), re.M)]
    cuts = sorted(data.draw(st.lists(st.sampled_from([0, *banners]), min_size=2, max_size=6)))
    text, at = b"", 0
    for begin, end in zip(cuts[::2], cuts[1::2], strict=False):
        text += content(path)[at:begin] + b"## trimmed here: 9 bytes and 6 records in all\n"
        at = end
    text += content(path)[at:]
    assert [event for event in other_events(read(kind, text)[0]) if isinstance(event, DaemonReported)] == []
