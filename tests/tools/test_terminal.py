"""Golden and property: output on a terminal: lines folded at words, colours if requested, and no foreign control
characters."""

from __future__ import annotations

import os
import pty
import struct
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_files.importing.driver import Importer, Options
from poolbook.adapters.condor_tools.terminal import add_colors, as_one_line, columns, has_colour, width_of, wrap_text
from poolbook.adapters.stores.opening import open_log

from .. import forked
from ..importing.folders import TRACES
from ..pool.real import POOLBOOK, environment


@pytest.mark.parametrize(
    ("text", "indent", "lines"),
    [
        ("short", 0, ["short"]),
        (
            "the quick brown fox jumps over the lazy dog again",
            0,
            ["the quick brown fox jumps over the lazy", "dog again"],
        ),
        (
            "12:00  the quick brown fox jumps over the lazy dog",
            7,
            ["12:00  the quick brown fox jumps over", "       the lazy dog"],
        ),
        ("/a/path/that/is/much/longer/than/a/single/line/can/be x", 2, [
            "/a/path/that/is/much/longer/than/a/single/line/can/be", "  x"
        ]),
        ("  deep lines stay deep when they are folded", 0, ["  deep lines stay deep when they are", "  folded"]),
    ],
)  # fmt: skip
def test_lines_are_folded_at_words(text: str, indent: int, lines: list[str]) -> None:
    assert wrap_text(text, 40, indent).split("\n") == lines
    assert wrap_text(text, None, indent) == text


@given(words=st.lists(st.text("abc", min_size=1, max_size=20), max_size=30), width=st.integers(40, 100))
def test_folding_loses_no_word_and_no_line_is_too_wide(words: list[str], width: int) -> None:
    lines = wrap_text(" ".join(words), width, 4)
    assert lines.split() == words
    assert all(len(line) <= width for line in lines.split("\n"))


def test_the_second_of_two_columns_is_folded_next_to_the_first() -> None:
    rows = [("-a", "one two three four five six seven eight nine"), ("-long", "ten")]
    assert "\n".join(columns(rows, 40)).split("\n") == [
        "  -a     one two three four five six",
        "         seven eight nine",
        "  -long  ten",
    ]


@pytest.mark.parametrize(
    ("variables", "colours"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_a_file_has_colours_only_when_they_are_forced(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colours: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colour(StringIO()) == colours
    assert width_of(StringIO()) is None


def test_words_for_outcomes_are_coloured_and_parts_of_other_words_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = add_colors("5 completed, 1 failed (exit 1), 2 idle: /x/failed.txt, slot1@held")
    assert text == (
        "5 \x1b[32mcompleted\x1b[0m, 1 \x1b[31mfailed\x1b[0m (exit 1), 2 \x1b[33midle\x1b[0m: /x/failed.txt, slot1@held"
    )


@pytest.mark.parametrize(
    ("text", "expected"), [("plain ü", "plain ü"), ("\x1b[31mred", "\\x1b[31mred"), ("a\tb\x07", "a    b\\x07")]
)
def test_foreign_control_characters_are_escaped(text: str, expected: str) -> None:
    assert as_one_line(text) == expected


def on_a_terminal(width: int, *arguments: str, **variables: str) -> str:
    """Return a command's output on a terminal of this width."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    variables_set = {**environment(), "TERM": "xterm", **variables}
    process = forked.start([*POOLBOOK, *arguments], stdin=follower, stdout=follower, stderr=follower, env=variables_set)
    os.close(follower)
    output = b""
    try:
        while piece := os.read(leader, 65536):
            output += piece
    except OSError:  # the other side is closed
        pass
    process.wait(60)
    os.close(leader)
    return output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("term", "live"), [("xterm", True), ("dumb", False)])
def test_progress_stays_in_one_line_that_fits_the_terminal(tmp_path: Path, term: str, live: bool) -> None:
    (tmp_path / "job.sub").write_text("executable = /bin/true\nqueue\n")
    output = on_a_terminal(44, "run", f"{tmp_path}/job.sub", "-log", f"{tmp_path}/pool.db", TERM=term)
    lines = [line.partition("\x1b[K")[0] for line in output.replace("\n", "\r").split("\r") if " of 1 done" in line]
    assert lines and ("\x1b" in output) == live
    assert all(len(line) < 44 for line in lines) or not live


@pytest.mark.parametrize("arguments", [("help",), ("help", "status"), ("watch_q",)])
def test_help_and_errors_fit_the_terminal(arguments: tuple[str, ...]) -> None:
    lines = on_a_terminal(64, *arguments).split("\n")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 64


def test_the_table_of_evictions_fits_the_terminal(tmp_path: Path) -> None:
    log = open_log(path := str(tmp_path / "audit.db"), create=True)
    Importer(log, [str(TRACES / "05-prio-preempt")], Options(zone="UTC")).run()
    log.close()
    lines = on_a_terminal(40, "log", "-evicted", "-since", "22:38:30", "-log", path, TZ="UTC").split("\n")
    assert max(map(len, lines)) <= 40
    assert "TIME  JOB  USER  SLOT  LOST  CAUSE" in lines
    assert " ".join(map(str.strip, lines)).count("priority was given the slot") == 3
