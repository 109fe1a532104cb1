"""Golden: the formats in which daemons write times and flags. Property: cuts change nothing, and no bytes raise."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_files.daemon_log_lines import GAP, LONGEST, MAX_UNTIMED_LINES, LogLines
from poolbook.adapters.condor_files.log_times import KNOWN, compile_format
from poolbook.domain.events import Event, SourceGap, SourceRefused

from ..together import together
from .reading import NOON, records, source, start_logs

S = 1_000_000
BERLIN = ZoneInfo("Europe/Berlin")

AT_NOON = [
    # the text before the message, DEBUG_TIME_FORMAT (empty: recognized), microseconds after noon
    ("11/20/26 12:00:00", "", 0),
    ("11/20/26 12:00:00.250", "", 250_000),
    ("11/20 12:00:00", "", 0),
    ("11/20/2026 12:00:00", "", 0),
    ("2026-11-20T12:00:00", "", 0),
    ("2026-11-20 12:00:00", "", 0),
    ("2026-11-20T13:00:00+01:00", "", 0),
    ("2026-11-20T13:00:00+0100.007", "", 7_000),
    ("2026-11-20 06:30:00 -0530", "", 0),
    ("2026-11-20T12:00:00Z", "", 0),
    (f"{NOON}", "", 0),
    (f"{NOON}.999", "", 999_000),
    (f"({NOON})", "", 0),
    ("20261120-120000", "%Y%m%d-%H%M%S", 0),
    ("Fri Nov 20 12:00:00 2026", "%c", 0),
    ("Fri Nov 20 12:00:00 UTC 2026", "%a %b %e %T %Z %Y", 0),
    ("12:00:00 PM 324 26", "%r %j %y", 0),
    ("20.November 26, 12:00", '"%d.%B %y, %H:%M"', 0),
    ("100% 11/20/26 12:00:00", "100%% %x %X", 0),
    (f"t{NOON}", "t%s", 0),
]
FLAGS = [
    "",
    "(pid:1234) ",
    "(fd:7) (pid:1234) (tid:2) (cid:18446744073709551615) (bt:a3f0:7) (D_ALWAYS:2) ",
    "(D_ALWAYS) ",
    "(D_FULLDEBUG:2|D_FAILURE) ",
]


@pytest.mark.parametrize(("stamp", "form", "after"), AT_NOON)
@pytest.mark.parametrize("flags", FLAGS)
def test_a_line_is_split_into_instant_and_message(stamp: str, form: str, after: int, flags: str) -> None:
    found_records, events = records(f"{stamp} {flags}slot1: (x) says\n".encode(), source(time_format=form))
    assert found_records == [(1, NOON * S + after, "slot1: (x) says")]
    assert events == []


@pytest.mark.parametrize(
    ("form", "explanation"),
    [
        ("%H:%M:%S", "no day"),
        ("%m/%d/%y", "no time of day"),
        ("%m/%d/%y %Q", "%Q"),
        ("%m/%d %H:%M %", "%"),
        ("", "no day"),
    ],
)
def test_an_unsupported_time_format_is_named(form: str, explanation: str) -> None:
    with pytest.raises(ValueError, match="invalid time format") as error:
        compile_format(form)
    assert explanation in str(error.value)


def test_lines_without_a_time_continue_the_previous_message() -> None:
    text = "11/20/26 12:00:00 WithinResourceLimits = \n  slot1: Changing state: Owner -> Claimed\n12 apples\n)\n\n"
    found_records, events = records(text.encode() + b"11/20/26 12:00:01 next\n")
    assert [(line, message) for line, _, message in found_records] == [(1, "WithinResourceLimits = "), (6, "next")]
    assert events == []


def test_an_incomplete_line_is_left_for_the_next_read() -> None:
    data = b"11/20/26 12:00:00 one\n11/20/26 12:00:01 tw"
    assert [text for _, _, text in records(data)[0]] == ["one"]
    assert [text for _, _, text in records(data + b"o\n", cuts=(30,))[0]] == ["one", "two"]


def test_a_log_may_change_its_format_between_two_lines() -> None:
    lines = [
        "11/20/26 12:00:00 a",
        f"{NOON + 1} b",
        "2026-11-20T12:00:02 c",
        "  1795176003 no time",
        "17951760 no time",
        "11/20/26 12:00:03.500 d",
        "99/99/99 12:00:00 no time",
        "11/20/26 12:00:04 e",
    ]
    found_records, events = records("\n".join([*lines, ""]).encode())
    assert [(at - NOON * S, text) for _, at, text in found_records] == [
        (0, "a"), (S, "b"), (2 * S, "c"), (3_500_000, "d"), (4 * S, "e"),
    ]  # fmt: skip
    assert [(type(event), getattr(event, "line", 0)) for event in events] == [(SourceRefused, 7)]


def test_the_repeated_hour_is_resolved_by_the_order_of_the_lines() -> None:
    stamps = ["10/25/26 01:59:00", "10/25/26 02:30:00", "10/25/26 02:59:59", "10/25/26 02:00:01", "10/25/26 02:59:59"]
    found_records, _ = records(
        "".join(f"{stamp} x\n" for stamp in [*stamps, "10/25/26 03:00:00"]).encode(), source(BERLIN)
    )
    begin = int(datetime(2026, 10, 24, 23, 59, tzinfo=UTC).timestamp())
    assert [at // S - begin for _, at, _ in found_records] == [0, 1860, 3659, 3661, 7259, 7260]


def test_a_late_second_does_not_restart_the_repeated_hour() -> None:
    found_records, _ = records(b"10/25/26 02:30:05 x\n10/25/26 02:30:04 x\n", source(BERLIN))
    assert found_records[1][1] - found_records[0][1] == -S


def test_the_skipped_hour_and_named_zones_are_read() -> None:
    found_records, events = records(b"03/29/26 02:30:00 x\n03/29/26 03:30:00 x\n", source(BERLIN))
    assert (found_records[1][1], events) == (found_records[0][1], [])
    with_zones = b"10/25/26 02:10:00 CET x\n10/25/26 02:10:00 CEST x\n"
    found_records, _ = records(with_zones, source(BERLIN, "%m/%d/%y %H:%M:%S %Z"))
    assert found_records[0][1] - found_records[1][1] == 3600 * S


@pytest.mark.parametrize(
    ("modified", "stamps", "years"),
    [
        ("2027-01-02", ["12/31 23:59:59", "01/01 00:00:00", "01/02 00:00:00"], [2026, 2027, 2027]),
        ("2026-11-20", ["11/19 00:00:00", "11/20 00:00:00"], [2026, 2026]),
        ("2026-11-20", ["12/01 00:00:00", "11/20 00:00:00"], [2025, 2026]),
        ("2026-11-20", ["02/29 00:00:00", "03/01 00:00:00"], [2024, 2024]),
        ("2026-11-20", ["11/20 10:00:00", "11/20 09:59:59"], [2026, 2026]),
    ],
)
def test_a_time_without_a_year_has_the_last_possible_year(modified: str, stamps: list[str], years: list[int]) -> None:
    source_file = source(modified=datetime.fromisoformat(modified).replace(tzinfo=UTC).timestamp())
    found_records, _ = records("".join(f"{stamp} x\n" for stamp in stamps).encode(), source_file)
    assert [datetime.fromtimestamp(at // S, UTC).year for _, at, _ in found_records] == years


@pytest.mark.parametrize(
    "marker", ["## trimmed here: 60043 bytes and 713 records in all", "...... trimmed: 5 bytes ......", "[...]", "... "]
)
def test_a_marker_of_removed_lines_is_a_gap(marker: str) -> None:
    data = f"11/20/26 12:00:00 a\n  rest\n{marker}\nrest of a message\n11/20/26 12:00:09 b\n".encode()
    for cuts in ((), (25,), (len(data) - 25,)):
        found_records, events = records(data, cuts=cuts)
        assert found_records == [(1, NOON * S, "a"), (5, (NOON + 9) * S, GAP), (5, (NOON + 9) * S, "b")]
        assert events == [
            SourceGap(NOON * S, "read", "1:5", 1, 5, "lines were taken out of the file", NOON * S, (NOON + 9) * S)
        ]


def test_a_continuation_of_a_missing_message_is_accepted_and_a_file_without_times_is_refused() -> None:
    assert records(b"  and the rest of it\n11/20/26 12:00:00 a\n")[1] == []
    _, events = records(b"this is\nno log\n" * 500)
    assert [getattr(event, "line", 0) for event in events] == [1, MAX_UNTIMED_LINES]
    _, events = records(b" this is no log\n" * 500)
    assert [getattr(event, "line", 0) for event in events] == [MAX_UNTIMED_LINES]


def test_invalid_bytes_zeros_and_endless_lines_are_harmless() -> None:
    long_line = b"11/20/26 12:00:01 " + b"x" * LONGEST
    data = b"11/20/26 12:00:00 \xff\xfe\r\n" + long_line + b"\n\0\0\0\x0011/20/26 12:00:02 c\n"
    for cuts in ((), (LONGEST // 2,), (LONGEST + 30,), (LONGEST + 40, LONGEST + 45)):
        found_records, events = records(data, cuts=cuts)
        assert found_records == [(1, NOON * S, "\\xff\\xfe"), (3, (NOON + 2) * S, "c")]
        assert [(event.line, len(event.text)) for event in events if isinstance(event, SourceRefused)] == [(2, 200)]


@together(
    ("end", "begin", "missing"),
    [
        ("00 Saving log file to x", "00 Now in new log file y", False),
        ("00 Saving log file to x", "01 Now in new log file y", False),
        ("00 Saving log file to x", "03 Now in new log file y", True),
        ("00 a", "00 Now in new log file y", True),
        ("00 a", "07 b", False),
        ("00 Saving log file to x", "07 b", False),
    ],
)
def test_a_lost_rotated_part_is_detected(end: str, begin: str, missing: bool) -> None:
    first = LogLines(source(), None, 0)
    assert len(list(first.split(f"11/20/26 12:00:{end}\n".encode(), []))) == 1
    for position in (0, 6, 100):
        data, events = f"11/20/26 12:00:{begin}\n11/20/26 12:00:08 c\n".encode(), list[Event]()
        second = LogLines(source(number=2), first.state(), 0)
        found_records = list(second.split(data[:position], events))
        rest_lines = LogLines(source(number=2), second.state(), second.line)
        found_records += rest_lines.split(data[second.consumed :], events)
        assert [text == GAP for _, _, text in found_records] == [True] * missing + [False, False]
        assert [type(event) for event in events] == [SourceGap] * missing


ODD = st.sampled_from(
    [
        "11/20/26 12:00:00 a", "11/20/26 12:00:01.123 (pid:7) b", "11/20 12:00:02 c", "2026-11-20T12:00:03Z d",
        f"{NOON} e", "...... trimmed ......", "  rest", "", "13/13/13 13:13:13 f", "\0\0\0", "(1795176000) g", "é\r",
        "10/25/26 02:30:00 h", "11/20/27 12:00:00 i", "1 j",
    ]
)  # fmt: skip


@given(st.lists(ODD, max_size=14), st.data())
def test_wherever_a_log_is_cut_its_records_are_the_same(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines).encode()
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=3))
    assert records(text, cuts=tuple(cuts)) == records(text)


@given(st.binary(max_size=60), st.integers(0, 3000), st.sampled_from(sorted(KNOWN)))
def test_no_bytes_raise_and_distant_lines_after_them_are_read(noise: bytes, at: int, form: str) -> None:
    log = start_logs_of_one()
    found_records, _ = records(log[:at] + noise + log[at:], source(time_format=form))
    assert found_records[-1][2] == records(log)[0][-1][2]


def start_logs_of_one() -> bytes:
    return start_logs()["18"][:8000].rpartition(b"\n")[0] + b"\n"
