"""Submit files that a server reads for its clients: the same jobs and the same words as where the client reads them."""

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


def call(folder: Folder, *words: str, more: Mapping[str, str] | None = None, **options: Any) -> tuple[int, str, str]:
    """The exit code of a command, and what it prints."""
    given = environment() | {"DINNER": "soup"} | dict(more or {})
    done = forked.run([*POOLBOOK, *words], cwd=folder.path, env=given, **options)
    return done.returncode, done.stdout, done.stderr.replace(_hint(done.stderr), "")


def _hint(text: str) -> str:
    """The line that tells of a pool that is not running."""
    return next((line + "\n" for line in text.splitlines() if line.startswith("The pool is not running")), "")


@pytest.fixture
def filled(folder: Folder) -> Folder:
    """A folder with the files that the submit files name."""
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


def submitted(folder: Folder, *more: str, **options: Any) -> list[tuple[int, str, str]]:
    """What is answered to each submit file."""
    said = [
        call(folder, "submit", f"accepted{number}.sub", *words, *more, **options)
        for number, (_, words) in enumerate(ACCEPTED.values())
    ]
    said += [call(folder, "submit", f"refused{number}.sub", *more, **options) for number in range(len(REFUSED))]
    return said


def ads(folder: Folder) -> list[dict[str, Any]]:
    """The ads of the jobs in the queue, but for their cluster, whose numbers have gaps where files were refused."""
    found = json.loads(call(folder, "q", "-json")[1])
    return [{name: value for name, value in ad.items() if name not in OF_THE_MOMENT} for ad in found]


@contextmanager
def log(folder: Folder, name: str) -> Iterator[None]:
    """Another log in the same folder."""
    for path in folder.path.glob("pool.db*"):
        path.rename(path.with_name(f"{name}-{path.name}"))
    yield


def test_a_server_reads_submit_files_as_their_users_would(filled: Folder) -> None:
    still = submitted(filled)
    at_rest = ads(filled)
    assert len(at_rest) == 19
    assert [code for code, _, _ in still] == [0] * len(ACCEPTED) + [1] * len(REFUSED)
    with log(filled, "still"), filled.served():
        served = submitted(filled)
        assert served == still
        assert ads(filled) == at_rest
        calls: dict[str, dict[str, Any]] = {"another umask": {"umask": 0o077}}
        if os.geteuid() == 0:
            calls["other groups"] = {"groups": [4, 24]}
        for options in calls.values():  # the client reads them: it would make other files, or see others
            call(filled, "rm", "-all")
            assert [said[0] for said in submitted(filled, "-terse", **options)] == [said[0] for said in still]
            for again, ad in zip(ads(filled), at_rest, strict=True):
                assert again == {**ad, "ClusterId": again["ClusterId"]}


def test_a_user_with_a_configuration_of_their_own_is_told_the_same_by_a_server(filled: Folder) -> None:
    (filled.path / "own").mkdir()
    filled.write("own/more.conf", "JOB_DEFAULT_REQUESTDISK = 77\n")
    filled.write("own/pool.conf", "JOB_DEFAULT_REQUESTCPUS = 2\ninclude : own/more.conf\n")
    filled.write("own/wrong.conf", "JOB_DEFAULT_REQUESTCPUS = 2\nelif\n")
    wrong = {"POOLBOOK_CONFIG": "own/wrong.conf"}
    own = {"POOLBOOK_CONFIG": "own/pool.conf", "_CONDOR_JOB_DEFAULT_REQUESTGPUS": "1"}

    def said() -> list[object]:
        words = [call(filled, "submit", "accepted0.sub", more=more) for more in (own, wrong)]
        return [*words, ads(filled)]

    still = said()
    assert "RequestGPUs" in still[2][0] and still[1][0] == 1  # type: ignore[index]
    with log(filled, "still"), filled.served():
        assert said() == still


def test_what_only_the_client_can_read_is_read_by_it(filled: Folder) -> None:
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


def test_a_submit_file_that_is_handed_over_again_gets_the_first_answer(folder: Folder) -> None:
    request = description(folder.path, HELD + "queue 2\n").as_request()
    with folder.served(), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder.path / "pool.db.sock"))
        stream = connection.makefile("rwb")

        def asked(**other: object) -> Any:
            stream.write(json.dumps({**request, **other}).encode() + b"\n")
            stream.flush()
            return json.loads(stream.readline())

        first = asked()
        assert first == {"answer": {"cluster": 1, "count": 2, "warnings": []}}
        assert asked() == first
        assert asked(text="nonsense") == first
        assert asked(id="another", view=["elsewhere"])["answer"]["terms"]["cluster"] == 2
        assert "malformed" in asked(id="another", text=7)["refusal"]
        assert asked(id="another", text="queue\n")["refusal"].startswith("line 1: No 'executable'")
        stream.close()
        assert len(folder.json("q")) == 2


def test_a_submission_to_a_log_at_rest_returns_what_was_parsed(folder: Folder) -> None:
    url = str(folder.path / "pool.db")
    done = submit(url, description(folder.path, HELD + "queue 2\n"))
    assert (done.cluster, done.jobs, done.parsed.count) == (1, 2, 2)
    again = submit(url, description(folder.path, HELD + "queue 5\n"))
    assert (again.cluster, again.jobs) == (1, 2)  # the id was answered before
    assert not is_served(url)


def test_only_so_many_submit_files_are_read_at_once(tmp_path: Path) -> None:
    reader = DescriptionReader(lambda: None)
    terms = SubmitTerms(1, {"UID_DOMAIN": "here", "FILESYSTEM_DOMAIN": "here"})
    said = description(tmp_path, HELD + "queue\n")
    begun = [reader.begin(None, said, terms) for _ in range(slow_requests.MOST_AT_ONCE + 2)]
    assert begun == [True] * slow_requests.MOST_AT_ONCE + [False] * 2
    found: list[FinishedReading] = []
    while len(found) < slow_requests.MOST_AT_ONCE:
        found += reader.finished()
    assert all(done.found is not None and done.found.request.count == 1 for done in found)
    assert reader.begin(None, said, terms)


def test_two_processes_see_the_disk_alike_if_their_folder_umask_and_groups_are_the_same(tmp_path: Path) -> None:
    assert view_of_disk(str(tmp_path)) == view_of_disk(f"{tmp_path}/.") != view_of_disk(str(tmp_path.parent))
    assert view_of_disk(f"{tmp_path}/nothing") != view_of_disk(f"{tmp_path}/nothing")
    before = view_of_disk(str(tmp_path))
    mask = os.umask(0o077)
    try:
        assert (view_of_disk(str(tmp_path)) == before) == (mask == 0o077)
    finally:
        os.umask(mask)


@pytest.mark.parametrize("configured", [False, True])
def test_handing_a_submit_file_over_loads_nothing_that_reads_it(folder: Folder, configured: bool) -> None:
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
        for words in (["submit", "job.sub"], ["hold", "1"], ["rm", "1.1"]):
            said = subprocess.run(
                [sys.executable, "-c", code, *words], cwd=folder.path, env=environment(), capture_output=True, text=True
            )
            assert said.stdout.splitlines()[-1].partition(" ")[2] == "[]", said.stderr
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
    for words in (["submit", "job.sub"], ["release", "1"], ["rm", "1.1"]):
        said = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=folder.path, env=environment(), capture_output=True, text=True
        )
        done, *loaded = said.stdout.splitlines()[-1].split()
        assert (done, SPARED & set(loaded)) == ("0", set()), (words, said.stderr)


def test_listing_the_slots_of_a_served_pool_loads_nothing_that_reads_a_log(folder: Folder) -> None:
    folder.write("poolbook.conf", "RUNBENCHMARKS = false\n")  # their news would change the views
    code = (
        "import sys; from poolbook.adapters.cli.main import main; done = main(sys.argv[1:]);"
        "slow = ['numpy', 'eventsourcing', 'transitions', 'sqlite_utils', 'poolbook.domain.decide'];"
        "print(done, [name for name in slow if name in sys.modules])"
    )
    with folder.served():
        folder.wait_for(lambda: folder.call("status", "-af", "LoadAvg").strip())  # the last news of its start
        folder.call("status")
        said = subprocess.run(
            [sys.executable, "-c", code, "status"], cwd=folder.path, env=environment(), capture_output=True, text=True
        )
    assert said.stdout.splitlines()[-1] == "0 []", said.stderr
