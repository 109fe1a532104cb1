"""Real: cat prints a job's output wherever it is; serve and log show what happens in a pool as it happens."""

from __future__ import annotations

import json
import os
import select
import time

import pytest

from .. import forked
from .real import PATIENCE, POOLBOOK, Folder, environment

SCRIPT = "#!/bin/sh\necho first\necho wrong >&2\ntouch started\nuntil [ -e $1 ]; do sleep 0.05; done\necho last\n"
SUBMIT = "executable = j.sh\narguments = {path}/go\noutput = j.out\nerror = j.err\n{more}\nqueue\n"


def submit(folder: Folder, more: str = "") -> None:
    (folder.path / "j.sh").write_text(SCRIPT)
    (folder.path / "j.sh").chmod(0o700)
    folder.write("j.sub", SUBMIT.format(path=folder.path, more=more))
    folder.call("submit", *(["-spool"] if more.startswith("#spool") else []), "j.sub")


@pytest.mark.parametrize("transfer", ["yes", "no"])
def test_output_is_printed_while_a_job_runs_and_when_it_has_ended(transfer: str, folder: Folder) -> None:
    submit(folder, f"should_transfer_files = {transfer}")
    out = folder.call("cat", "1.0", code=1)
    assert "job 1.0 waits, and has no output yet" in " ".join(out.split())
    with folder.served():
        folder.wait_for(lambda: folder.call("cat", "1", code=None) == "first\n")
        folder.wait_for(lambda: folder.call("cat", "1.0", "-err", code=None) == "wrong\n")
        follower = folder.start("cat", "1.0", "-follow")
        (folder.path / "go").touch()
        assert follower.communicate(PATIENCE)[0] == "first\nlast\n"
        folder.call("wait", "1", "-timeout", "100")
        assert folder.call("cat", "1.0") == "first\nlast\n"
        assert folder.call("cat", "1.0", "-err") == "wrong\n"
    (folder.path / "j.out").unlink()
    gone = " ".join(folder.call("cat", "1.0", code=1).split())
    assert gone == f"poolbook cat: the output of job 1.0 is no longer in {folder.path}/j.out"


def test_output_is_printed_from_the_spool(folder: Folder) -> None:
    (folder.path / "go").touch()
    submit(folder, "#spool")
    with folder.served():
        folder.call("wait", "1", "-timeout", "100")
        assert folder.call("cat", "1.0") == "first\nlast\n"
        folder.call("condor_transfer_data", "1.0")
        folder.wait_for(lambda: folder.call("q", "-af", "ProcId") == "")
        assert folder.call("cat", "1.0") == "first\nlast\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["9.0"], "the pool has no job 9.0; `poolbook q -all` and `poolbook history` list jobs"),
        (["x"], "specify one job: poolbook cat 12.3"),
        (["1.0"], "job 1.0 discards this output: its submit file has no `output = FILE`"),
        (["1.0", "-err"], "job 1.0 discards this output: its submit file has no `error = FILE`"),
    ],
)
def test_output_that_does_not_exist_is_explained(words: list[str], text: str, folder: Folder) -> None:
    folder.write("s.sub", "executable = /bin/sleep\narguments = 1\nqueue\n")
    folder.call("submit", "s.sub")
    assert text in " ".join(folder.call("cat", *words, code=None).split())


def test_the_log_is_followed_in_the_format_of_the_listing(folder: Folder) -> None:
    folder.write("s.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "s.sub")
    lines = folder.start("log", "1", "-follow")
    objects = folder.start("log", "1", "-follow", "-json")
    assert lines.stdout is not None and objects.stdout is not None
    first = lines.stdout.readline()
    with folder.served():
        folder.call("wait", "1", "-timeout", "100")
    listed = folder.call("log", "1").splitlines(keepends=True)
    assert [first, *(lines.stdout.readline() for _ in listed[1:])] == listed
    assert json.loads(objects.stdout.readline())["what"] == "submit"
    for process in (lines, objects):
        process.kill()
        process.wait(PATIENCE)


def terminal_output(folder: Folder, *options: str) -> str:
    """Return what a server prints on its terminal while job 1.0 runs and ends."""
    master, slave = os.openpty()
    with_terminal = {**environment(), "TERM": "xterm"}
    words = [*POOLBOOK, "serve", *options]
    server = forked.start(words, cwd=folder.path, env=with_terminal, stderr=slave, start_new_session=True)
    os.close(slave)
    folder.call("wait", "1", "-timeout", "100")
    text, until = "", time.monotonic() + PATIENCE
    wanted = "1 done" if not options else ""
    while wanted and wanted not in text and time.monotonic() < until:
        if select.select([master], [], [], 0.1)[0]:
            text += os.read(master, 1 << 16).decode()
    server.terminate()
    server.wait(PATIENCE)
    if not wanted and select.select([master], [], [], 0)[0]:
        text = os.read(master, 1 << 16).decode()
    os.close(master)
    return text


def test_a_served_pool_shows_its_progress_on_a_terminal(folder: Folder) -> None:
    folder.write("s.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "s.sub")
    text = terminal_output(folder)
    assert "jobs: 1 done, 0 running, 0 idle, 0 held; slots: " in text and " busy" in text and "\r" in text
