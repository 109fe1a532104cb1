"""Golden: each command that reads or writes a file that the user names, with each kind of file that it cannot use. The
command ends, in little memory, with a message and exit code 1 or 2, never with a traceback or exit code 3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..attack import calls
from ..pool.real import Folder

COMMANDS = """
submit FILE
submit ok.sub -spool -append FILE=
submit FILE -dry-run -
q -jobads FILE
q -print-format FILE
q -slotads FILE -better-analyze 1.0
status -ads FILE
status -print-format FILE
history -file FILE
history -print-format FILE
userprio -inputfile FILE
qedit 1.0 -edits FILE
play FILE
play -trace FILE
config -config FILE
import FILE
import ok -log FILE
q -log FILE
log -log FILE
verify -log FILE
hold -log FILE 1.0
submit ok.sub -log FILE
audit -log FILE
doctor -log FILE
views -log FILE
condor_submit FILE
condor_submit -interactive FILE
condor_submit_dag FILE
condor_check_userlogs FILE
condor_qsub FILE
htcondor job submit FILE
htcondor job out 1
htcondor job err 1
htcondor job log 1
condor_transfer_data 1
condor_evicted_files list 1
condor_config_val -config FILE
condor_chirp fetch FILE here
condor_chirp put FILE there
condor_q -userlog FILE
condor_history -userlog FILE
submit ok.sub -dry-run FILE
""".strip().splitlines()
CANNOT_BE_READ = [
    "gone",
    "folder",
    "ok.sub/below",
    "circle",
    "x" * 300,
    "x/" * 3000,
    "bytes\udcff",
    "endless",
    "noise",
    "secret",
]


SMALL = "import poolbook.adapters.bounded_text as bounds\nbounds.LONGEST, bounds.MOST_LINES = 1 << 20, 10_000\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.setattr(calls, "_SCRIPT", SMALL + calls._SCRIPT)
    folder = Folder(tmp_path)
    folder.write("ok.sub", "executable = /bin/true\noutput = o\nerror = e\nlog = l\nhold = true\nqueue\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "ok").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    (tmp_path / "children").write_text("#!/bin/sh\nyes & yes\n")
    (tmp_path / "children").chmod(0o755)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)
    folder.call("submit", "ok.sub")
    yield folder


@pytest.mark.parametrize("name", CANNOT_BE_READ, ids=lambda name: ascii(name)[:12])
def test_an_unusable_file_is_refused_with_a_message(place: Folder, name: str) -> None:
    command_lines = [[word.replace("FILE", name) for word in command.split()] for command in COMMANDS]
    for call in calls.run_calls(place, command_lines, max_seconds=8):
        assert call.code in (0, 1, 2, 4, 255), call


ENDLESS = (
    # the submit file, part of the error
    ("queue x from yes |", "more than 10,000 lines"),
    ("queue x from cat /dev/zero |", "longer than 1 MB"),
    ("queue x from ./children |", "more than 10,000 lines"),
    ("queue x from /dev/zero", "longer than 1 MB"),
    ("include : yes |\nqueue", "more than 10,000 lines"),
    ("include command : yes\nqueue", "more than 10,000 lines"),
    ("include : /dev/zero\nqueue", "longer than 1 MB"),
    ("queue 1000000000000", ""),
    ("N = 1000000000000\nqueue $(N)", ""),
)


@pytest.mark.parametrize("form", ["submit", "condor_submit", "submit -dry-run - -trust", "submit -queue"])
def test_endless_items_and_includes_are_refused_with_the_limit(place: Folder, form: str) -> None:
    command_lines = []
    name, *options = form.split()
    for number, (text, _) in enumerate(ENDLESS):
        *before, queue = text.split("\n")
        lines = ["executable = /bin/true", "hold = true", *before, *([] if options == ["-queue"] else [queue])]
        place.write(f"{number}.sub", "\n".join(lines) + "\n")
        command_lines.append(
            [name, f"{number}.sub", *options, *([queue.removeprefix("queue")] if options == ["-queue"] else [])]
        )
    for call, (text, message) in zip(calls.run_calls(place, command_lines), ENDLESS, strict=True):
        assert call.code in (1, 2) and message in " ".join(call.err.split()), (text, call)
