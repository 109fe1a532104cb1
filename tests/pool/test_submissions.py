"""Submit files that a server reads for its clients: the same jobs and messages as if the client read them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.runtime import slow_requests
from poolbook.adapters.runtime.pool_client import is_served, submit
from poolbook.adapters.runtime.requests import LONGEST_DESCRIPTION, SubmitDescription, SubmitTerms, view_of_disk
from poolbook.adapters.runtime.slow_requests import DescriptionReader, FinishedReading

from .. import forked
from .real import POOLBOOK, Folder, environment

HELD = "executable = /bin/true\nrequest_memory = 16\nhold = true\n"
ACCEPTED = {
    "plain": (HELD + "queue 3\n", ()),
    "macros": (HELD + "arguments = $(what) $(Process) $ENV(DINNER)\nqueue 2\n", ("what=soup",)),
    "environment": (HELD + "getenv = DINNER, HOME\nqueue\n", ()),
    "appended": (HELD, ("-append", "arguments = 7", "-append", "+Colour = \"red\"", "-queue", "2")),
    "items of a file": (HELD + "arguments = $(item)\nqueue item from items.txt\n", ()),
    "matching files": (HELD + "arguments = $(item)\nqueue item matching *.dat\n", ()),
    "input files": (HELD + "transfer_input_files = one.dat, whole\nshould_transfer_files = yes\nqueue\n", ()),
    "warned of": (HELD + "nosuchcommand = 1\nrequest_cpu = 2\nqueue\n", ()),
    "held for its log": (HELD.replace("hold = true\n", "log = nowhere/job.log\n") + "queue\n", ()),
    "a program that cannot be run": (HELD.replace("/bin/true", "one.dat") + "queue\n", ()),
    "a program that is elsewhere": (HELD.replace("/bin/true", "/no/such") + "transfer_executable = false\nqueue\n", ()),
    "relative paths": (HELD + "initialdir = inner\noutput = out.txt\nlog = job.log\nqueue\n", ()),
    "no text": (HELD + "arguments = \udce9\nqueue\n", ()),
}  # fmt: skip
REFUSED = {
    "no executable": "queue\n",
    "an executable that is not there": "nosuchcommand = 1\nexecutable = nothing.sh\nqueue\n",
    "a wrong expression": "executable = /bin/true\nrequirements = (((\nqueue\n",
    "a file that is not there": "executable = /bin/true\nqueue item from nothing.txt\n",
}
OF_THE_MOMENT = {"QDate", "EnteredCurrentStatus", "GlobalJobId", "ServerTime"}


def call(
    folder: Folder, *arguments: str, more: Mapping[str, str] | None = None, **options: Any
) -> tuple[int, str, str]:
    """Return the exit code of a command, and its output."""
    environment_variables = environment() | {"DINNER": "soup"} | dict(more or {})
    completed = forked.run([*POOLBOOK, *arguments], cwd=folder.path, env=environment_variables, **options)
    return completed.returncode, completed.stdout, completed.stderr.replace(_hint(completed.stderr), "")


def _hint(text: str) -> str:
    """Remove the line about a pool that is not running."""
    return next((line + "\n" for line in text.splitlines() if line.startswith("The pool is not running")), "")


@pytest.fixture
def filled(folder: Folder) -> Folder:
    """Return a directory with the files that the submit files name."""
    folder.write("items.txt", "a\nb c\n")
    for name in ("inner", "whole"):
        (folder.path / name).mkdir()
    for name in ("one.dat", "two.dat", "whole/three.dat"):
        folder.write(name, "x" * 3000)
    for number, (text, _) in enumerate(ACCEPTED.values()):
        (folder.path / f"accepted{number}.sub").write_text(text, errors="surrogateescape")
    for number, text in enumerate(REFUSED.values()):
        folder.write(f"refused{number}.sub", text)
    return folder


def submission_answers(folder: Folder, *more: str, **options: Any) -> list[tuple[int, str, str]]:
    """Return the answer to each submit file."""
    outputs = [
        call(folder, "submit", f"accepted{number}.sub", *arguments, *more, **options)
        for number, (_, arguments) in enumerate(ACCEPTED.values())
    ]
    outputs += [call(folder, "submit", f"refused{number}.sub", *more, **options) for number in range(len(REFUSED))]
    return outputs


def ads(folder: Folder) -> list[dict[str, Any]]:
    """Return the ads of the jobs in the queue without their cluster, whose numbers have gaps where files were
    rejected."""
    report = json.loads(call(folder, "q", "-json")[1])
    return [{name: value for name, value in ad.items() if name not in OF_THE_MOMENT} for ad in report]


@contextmanager
def log(folder: Folder, name: str) -> Iterator[None]:
    """Return another log in the same directory."""
    for path in folder.path.glob("pool.db*"):
        path.rename(path.with_name(f"{name}-{path.name}"))
    yield


def test_a_server_reads_submit_files_as_their_users_would(filled: Folder) -> None:
    still = submission_answers(filled)
    at_rest = ads(filled)
    assert len(at_rest) == 19
    assert [code for code, _, _ in still] == [0] * len(ACCEPTED) + [1] * len(REFUSED)
    with log(filled, "still"), filled.served():
        served_outputs = submission_answers(filled)
        assert served_outputs == still
        assert ads(filled) == at_rest
        calls: dict[str, dict[str, Any]] = {"another umask": {"umask": 0o077}}
        if os.geteuid() == 0:
            calls["other groups"] = {"groups": [4, 24]}
        for options in calls.values():  # the client reads them: it would make other files, or see others
            call(filled, "rm", "-all")
            assert [line[0] for line in submission_answers(filled, "-terse", **options)] == [line[0] for line in still]
            for ad_at_rest, ad in zip(ads(filled), at_rest, strict=True):
                assert ad_at_rest == {**ad, "ClusterId": ad_at_rest["ClusterId"]}


def test_a_user_with_their_own_configuration_gets_the_same_messages_from_a_server(filled: Folder) -> None:
    (filled.path / "own").mkdir()
    filled.write("own/more.conf", "JOB_DEFAULT_REQUESTDISK = 77\n")
    filled.write("own/pool.conf", "JOB_DEFAULT_REQUESTCPUS = 2\ninclude : own/more.conf\n")
    filled.write("own/wrong.conf", "JOB_DEFAULT_REQUESTCPUS = 2\nelif\n")
    wrong_configuration = {"POOLBOOK_CONFIG": "own/wrong.conf"}
    own_configuration = {"POOLBOOK_CONFIG": "own/pool.conf", "_CONDOR_JOB_DEFAULT_REQUESTGPUS": "1"}

    def answers() -> list[object]:
        both_outputs = [
            call(filled, "submit", "accepted0.sub", more=configuration)
            for configuration in (own_configuration, wrong_configuration)
        ]
        return [*both_outputs, ads(filled)]

    still = answers()
    assert "RequestGPUs" in still[2][0] and still[1][0] == 1  # type: ignore[index]
    with log(filled, "still"), filled.served():
        assert answers() == still


def test_a_file_that_only_the_client_can_read_is_read_by_the_client(filled: Folder) -> None:
    filled.write("items.sub", HELD + "arguments = $(item)\nqueue item from /dev/stdin\n")
    filled.write("long.sub", HELD + "#" * LONGEST_DESCRIPTION + "\nqueue\n")
    filled.write("many.txt", "word\n" * (LONGEST_DESCRIPTION // 5 + 1))
    filled.write("many.sub", HELD + "queue item from many.txt\n")
    filled.write("run.conf", "include : echo JOB_DEFAULT_REQUESTCPUS = 3 |\n")
    with filled.served():
        code, out, _ = call(filled, "submit", "items.sub", "-terse", typed="a\nb\n")
        assert (code, out) == (0, "1.0 - 1.1\n")
        assert call(filled, "submit", "long.sub", "-terse")[1] == "2.0 - 2.0\n"
        assert call(filled, "submit", "many.sub", "-terse")[1] == f"3.0 - 3.{LONGEST_DESCRIPTION // 5}\n"
        call(filled, "submit", "accepted0.sub", more={"POOLBOOK_CONFIG": "run.conf"})
        assert call(filled, "q", "1", "4", "-af", "Args", "RequestCpus")[1] == "a 1\nb 1\n" + 3 * "undefined 3\n"


def description(folder: Path, text: str) -> SubmitDescription:
    return SubmitDescription("the-id", text, "job.sub", str(folder), {}, [], None, {})


def test_a_submit_file_that_is_sent_again_gets_the_first_answer(folder: Folder) -> None:
    request = description(folder.path, HELD + "queue 2\n").as_request()
    with folder.served(), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder.path / "pool.db.sock"))
        stream = connection.makefile("rwb")

        def ask(**other: object) -> Any:
            stream.write(json.dumps({**request, **other}).encode() + b"\n")
            stream.flush()
            return json.loads(stream.readline())

        first = ask()
        assert first == {"answer": {"cluster": 1, "count": 2, "warnings": []}}
        assert ask() == first
        assert ask(text="nonsense") == first
        assert ask(id="another", view=["elsewhere"])["answer"]["terms"]["cluster"] == 2
        assert "malformed" in ask(id="another", text=7)["refusal"]
        assert ask(id="another", text="queue\n")["refusal"].startswith("line 1: No 'executable'")
        stream.close()
        assert len(folder.json("q")) == 2


def test_a_submission_to_an_unserved_log_returns_the_parsed_jobs(folder: Folder) -> None:
    url = str(folder.path / "pool.db")
    submission_answers = submit(url, description(folder.path, HELD + "queue 2\n"))
    assert (submission_answers.cluster, submission_answers.jobs, submission_answers.parsed.count) == (1, 2, 2)
    resubmitted = submit(url, description(folder.path, HELD + "queue 5\n"))
    assert (resubmitted.cluster, resubmitted.jobs) == (1, 2)  # the id was answered before
    assert not is_served(url)


def test_the_number_of_submit_files_read_at_the_same_time_is_limited(tmp_path: Path) -> None:
    reader = DescriptionReader(lambda: None)
    terms = SubmitTerms(1, {"UID_DOMAIN": "here", "FILESYSTEM_DOMAIN": "here"})
    text = description(tmp_path, HELD + "queue\n")
    begun_requests = [reader.start_reading(None, text, terms) for _ in range(slow_requests.MOST_AT_ONCE + 2)]
    assert begun_requests == [True] * slow_requests.MOST_AT_ONCE + [False] * 2
    lines: list[FinishedReading] = []
    while len(lines) < slow_requests.MOST_AT_ONCE:
        lines += reader.finished()
    assert all(line.description is not None and line.description.request.count == 1 for line in lines)
    assert reader.start_reading(None, text, terms)


def test_two_processes_see_the_same_disk_if_their_folder_umask_and_groups_are_equal(tmp_path: Path) -> None:
    assert view_of_disk(str(tmp_path)) == view_of_disk(f"{tmp_path}/.") != view_of_disk(str(tmp_path.parent))
    assert view_of_disk(f"{tmp_path}/nothing") != view_of_disk(f"{tmp_path}/nothing")
    before = view_of_disk(str(tmp_path))
    mask = os.umask(0o077)
    try:
        assert (view_of_disk(str(tmp_path)) == before) == (mask == 0o077)
    finally:
        os.umask(mask)


@pytest.mark.parametrize("configured", [False, True])
def test_sending_a_submit_file_to_a_server_loads_no_parser(folder: Folder, configured: bool) -> None:
    folder.write("job.sub", HELD + "arguments = $(Process)\nqueue 2\n")
    if configured:
        folder.write("poolbook.conf", "RUNBENCHMARKS = false\nJOB_DEFAULT_REQUESTCPUS = 2\n")
    code = (
        "import sys; from poolbook.adapters.cli.main import main; done = main(sys.argv[1:]);"
        "slow = ['attr', 'attrs', 'numpy', 'msgspec', 'eventsourcing', 'transitions', 'poolbook.domain.classad',"
        "'poolbook.domain.decide', 'poolbook.domain.submit', 'poolbook.domain.events', 'poolbook.domain.config'];"
        "print(done, [name for name in slow if name in sys.modules])"
    )
    with folder.served():
        for arguments in (["submit", "job.sub"], ["hold", "1"], ["rm", "1.1"]):
            completed = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                cwd=folder.path,
                env=environment(),
                capture_output=True,
                text=True,
            )
            assert completed.stdout.splitlines()[-1].partition(" ")[2] == "[]", completed.stderr
        assert call(folder, "q", "-af", "ProcId", "RequestCpus")[1] == f"0 {1 + configured}\n"


SPARED = {
    "numpy", "sqlite_utils", "psutil", "pcre2", "argparse", "asyncio", "poolbook.domain.config",
    "poolbook.replay.listing", "poolbook.adapters.runtime.engine", "poolbook.adapters.runtime.pool_server",
    "poolbook.adapters.runtime.userlog.fold",
}  # fmt: skip


def test_a_command_on_an_unserved_log_loads_neither_numpy_nor_the_engine(folder: Folder) -> None:
    folder.write("job.sub", HELD + "arguments = $(Process)\nqueue 2\n")
    folder.call("submit", "job.sub")
    code = (
        "import sys; from poolbook.adapters.cli.main import main; done = main(sys.argv[1:]);"
        "print(done, *(name for name in sys.modules))"
    )
    for arguments in (["submit", "job.sub"], ["release", "1"], ["rm", "1.1"]):
        completed = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=folder.path, env=environment(), capture_output=True, text=True
        )
        summary, *loaded = completed.stdout.splitlines()[-1].split()
        assert (summary, SPARED & set(loaded)) == ("0", set()), (arguments, completed.stderr)


def test_listing_the_slots_of_a_served_pool_loads_no_log_reader(folder: Folder) -> None:
    folder.write("poolbook.conf", "RUNBENCHMARKS = false\n")  # their news would change the views
    code = (
        "import sys; from poolbook.adapters.cli.main import main; done = main(sys.argv[1:]);"
        "slow = ['numpy', 'eventsourcing', 'transitions', 'sqlite_utils', 'poolbook.domain.decide'];"
        "print(done, [name for name in slow if name in sys.modules])"
    )
    with folder.served():
        folder.wait_for(lambda: folder.call("status", "-af", "LoadAvg").strip())  # the last event of its start
        folder.call("status")
        completed = subprocess.run(
            [sys.executable, "-c", code, "status"], cwd=folder.path, env=environment(), capture_output=True, text=True
        )
    assert completed.stdout.splitlines()[-1] == "0 []", completed.stderr
