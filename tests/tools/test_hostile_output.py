"""Property: no text from an ad, a log or a file controls a terminal, whichever command prints it; and a pipe gets the
bytes unchanged. A table of all commands, on a hostile user's queue and on a hostile imported folder. An unforeseen
error gives a message."""

from __future__ import annotations

import gzip
import os
import pty
import re
import shutil
import struct
import tempfile
from contextlib import suppress
from datetime import UTC
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from poolbook.adapters.cli import queries
from poolbook.adapters.cli.log_commands import print_line
from poolbook.adapters.cli.main import COMMANDS, main
from poolbook.adapters.condor_tools.layout import text_table
from poolbook.domain.events import JobsTransitioned
from poolbook.replay.listing.members import members

from .. import forked
from ..importing.folders import TRACES
from ..pool.real import POOLBOOK, Folder, environment

TITLE = "\x1b]0;owned\x07"  #: sets a terminal's title
HOSTILE = f"{TITLE}\u202egnp\x9b2J"
BYTES = HOSTILE.encode() + b"\xff"
OWN_SEQUENCES = re.compile(r"\x1b\[(?:0|3[123])m|\r[^\r\n\x1b]*\x1b\[K")
"""What Poolbook itself sends: colours, and a line that is rewritten."""
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ESCAPED = r"\x1b]0;owned\x07"


def calls(table: str) -> list[tuple[str, ...]]:
    """Return the calls of a table, separated by semicolons; % represents the hostile text."""
    return [tuple(call.replace("%", TITLE).split()) for call in table.split(";")]


QUEUE_CALLS = calls(r"""
    q -nobatch; q; q -hold; q -long; q -json; q -xml; q -af Args Evil; q -format %s\n Evil;
    q -better-analyze; log; log 1.0 -json; why 1.0; why 1; why 1.0 -verbose; why 1.0 -json; status;
    status -submitters; usage; account; diff today now; timeline 1.0; userprio -all; verify; views; doctor; config;
    metrics -once;
    config EVIL; config -dump EVIL; hold 1.0; release 1.1; prio -p 3 1.1; qedit 1.1 no% 1; vacate 1.0; suspend 1.0;
    continue 1.0; submit job.sub -verbose; submit job.sub -dry-run -; submit no%; run no%; play no%; play evil.play;
    rm 1.1; history; history -long; %q; drain h%; off h%; on h%; reconfig; reschedule; resume -%;
    off -daemon %; master %; restart -daemon %; set_shutdown -exec %;
    cat 1.0; cat %; top -at %; view -%; wait 1 % -timeout 0;
    wait evil.log -echo -status -wait 0; wait no%; shell -%; tools-path;
    export csv - -only runs; export jsonl - -only events; export swf -; export % %;
    token list; token requests; token revoke %; token approve %; token create -identity %;
    sql SELECT/**/*/**/FROM/**/clusters; sql SELECT/**/*/**/FROM/**/clusters -csv; sql %;
    serve -%; serve -role %; join % %; join -name % -role %; doc %; man %; completion %; audit no%.db; import no%;
    follow no% -seconds 0
""")
IMPORT_CALLS = calls(r"""
    import folder; follow folder -seconds 0; audit; audit -all; log; log -evicted; history;
    history -long; q; usage; usage -by user; account; diff 2020-01-01 now; timeline; why 1.0; why 1; verify; status;
    userprio
""")
ESCAPING_COMMANDS = {"q", "log", "why", "submit", "play", "history", "audit", "doc", "config", "usage", "wait"}
"""Commands that print the hostile text, and so have to escape it."""


def on_a_terminal(folder: Path, arguments: tuple[str, ...]) -> str:
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    env = {**environment(), "TERM": "xterm", "PAGER": "cat", "XDG_STATE_HOME": str(folder)}
    process = forked.start(
        [*POOLBOOK, *arguments],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=env,
        start_new_session=True,
    )
    os.close(follower)
    output = b""
    with suppress(OSError):  # the other side is closed
        while piece := os.read(leader, 65536):
            output += piece
    process.wait(60)
    os.close(leader)
    return output.decode().replace("\r\n", "\n")


def hostile_queue(path: Path) -> Path:
    """Create a folder with a queue whose jobs are hostile."""
    folder = Folder(path)
    text = b'executable = /bin/true\nbatch_name = B%b\narguments = A%b\n+Evil = "%b"\n' % (BYTES, BYTES, BYTES)
    (folder.path / "job.sub").write_bytes(text + b"hold = true\nqueue 2\n")
    (folder.path / "poolbook.conf").write_bytes(b"EVIL = %b\n" % BYTES)
    (folder.path / "evil.play").write_bytes(b"machine m%b\n" % TITLE.encode())
    (folder.path / "evil.log").write_bytes(b"001 (1.0.0) 11/20 22:36:13 Job executing on host: %b\n...\n" % BYTES)
    folder.call("submit", "job.sub")
    folder.call("release", "1.0")
    return path


def hostile_import(path: Path) -> Path:
    """Create a folder with a recorded pool whose users, reasons and commands are hostile."""
    shutil.copytree(TRACES / "05-prio-preempt", path / "folder")
    for file in (path / "folder").rglob("*"):
        if file.is_file():
            is_gzipped = file.suffix == ".gz"
            data = gzip.decompress(file.read_bytes()) if is_gzipped else file.read_bytes()
            hostile_content = re.sub(rb"alice|bob|slot1_1@|reason", lambda found: found[0] + TITLE.encode(), data)
            file.write_bytes(gzip.compress(hostile_content) if is_gzipped else hostile_content)
    return path


@pytest.fixture(scope="module")
def queue_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_queue(tmp_path_factory.mktemp("queue"))


@pytest.fixture(scope="module")
def imported_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_import(tmp_path_factory.mktemp("imported"))


def raw_outputs(folder: Path, table: list[tuple[str, ...]]) -> tuple[dict[tuple[str, ...], list[str]], set[str]]:
    """Return the raw text that reached the terminal, by call, and the commands that escaped some."""
    raw, escaping_commands = {}, set()
    for arguments in table:
        output = OWN_SEQUENCES.sub("", on_a_terminal(folder, arguments))
        assert "Traceback" not in output and "not foreseen" not in output, ascii((arguments, output))
        if RAW.search(output):
            raw[arguments] = [ascii(output)]
        if ESCAPED in output:
            escaping_commands.add(arguments[0])
    return raw, escaping_commands


def test_no_command_sends_hostile_text_to_a_terminal(queue_folder: Path, imported_folder: Path) -> None:
    assert {call[0] for call in QUEUE_CALLS} >= set(COMMANDS)
    raw, escaping_commands = raw_outputs(queue_folder, QUEUE_CALLS)
    more_raw, more_spelled = raw_outputs(imported_folder, IMPORT_CALLS)
    assert not raw and not more_raw
    assert escaping_commands | more_spelled >= ESCAPING_COMMANDS


def test_a_pipe_gets_the_bytes_unchanged(queue_folder: Path) -> None:
    output_file = queue_folder / "out"
    with output_file.open("wb") as file:
        process = forked.start(
            [*POOLBOOK, "q", "-allusers", "1.0", "-af", "Evil"],
            cwd=queue_folder,
            env=environment(),
            stdout=file.fileno(),
        )
        process.communicate(60)
    assert output_file.read_bytes() == BYTES + b"\n"


def test_a_foreign_newline_adds_no_line_to_a_table() -> None:
    assert list(text_table(("A", "B"), [("1", "x\n2 forged"), ("3", "y\tz")])) == [
        "A  B", "1  x\\n2 forged", "3  y    z",
    ]  # fmt: skip


def test_a_foreign_newline_adds_no_line_to_a_listing(capsys: pytest.CaptureFixture[str]) -> None:
    held = JobsTransitioned(0, "cluster/1", "x\n   9  forged", 1, ((0, 0),), "hold", "Idle", "Held", {})
    for member in members(1, held):
        print_line(member, UTC, None)
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "poolbook: "),
        (MemoryError(), "poolbook: not enough memory"),
        (KeyError("x"), "poolbook: unexpected error, perhaps a bug in Poolbook: KeyError: 'x'."),
        (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "no"), "poolbook: unexpected error"),
    ],
)
def test_an_unforeseen_error_gives_a_message_and_a_saved_traceback(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(argv: list[str]) -> int:
        raise error

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(queries, "queue", fails)
    assert main(["q", "-all"]) == 3
    errors = capsys.readouterr().err
    traceback_file = tmp_path / "poolbook" / "traceback-q.txt"
    assert (
        errors.startswith(message) and f"The traceback is in {traceback_file}" in errors and "Traceback" not in errors
    )
    assert "in fails" in traceback_file.read_text() and traceback_file.stat().st_mode & 0o077 == 0
    with pytest.raises(type(error)):
        main(["-debug", "q", "-all"])


def test_a_traceback_that_cannot_be_saved_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "full"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(queries, "queue", lambda argv: 1 // 0)
    assert main(["q"]) == 3
    errors = capsys.readouterr().err
    assert "could not be saved" in errors and "Traceback" not in errors
