"""Golden: the output and exit codes of condor_wait and condor_version. Real: a wait for jobs that end meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools.job_log_entries import UnreadableEntry, take_entries
from poolbook.adapters.condor_tools.tool_options import usage_of

from .captures import capture

HOST = "<127.0.0.1:9618?addrs=127.0.0.1-9618+[--1]-9618&alias=localhost&noUDP&sock=startd_22366_cb4d>"
SUBMITTED = "000 (062.{proc:03}.000) 11/20 22:36:13 Job submitted from host: <127.0.0.1:9618>\n...\n"
EXECUTING = "001 (062.{proc:03}.000) 11/20 22:36:28 Job executing on host: " + HOST + "\n\tSlotName: slot1\n...\n"
TERMINATED = "005 (062.{proc:03}.000) 11/20 22:36:28 Job terminated.\n\t(1) Normal termination (return value 0)\n...\n"
HELD = (
    "012 (062.{proc:03}.000) 11/20 22:36:20 Job was held.\n\tvia condor_hold (by user alice)\n\tCode 1 Subcode 0\n...\n"
)
ABORTED = "009 (062.{proc:03}.000) 11/20 22:36:30 Job was aborted.\n\tvia condor_rm (by user alice)\n...\n"
THREE = "".join(form.format(proc=proc) for form in (SUBMITTED, EXECUTING, TERMINATED) for proc in range(3))


def wait_output(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, int]:
    code = main(["condor_wait", *arguments])
    output, err = capsys.readouterr()
    return output, err, code


@pytest.mark.parametrize(
    "name",
    ["wait_badid", "wait_cluster", "wait_debug", "wait_done", "wait_job", "wait_nofile", "wait_num", "wait_status"],
)
def test_output_and_exit_code_equal_htcondors(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.log").write_text(THREE)
    expected = capture(name)
    arguments = [
        word for word in expected.argv if name != "wait_debug" or word != "-debug"
    ]  # these lines come from the daemons
    assert wait_output(arguments, capsys) == (expected.out, expected.err, expected.exit_code)


def test_the_entries_are_echoed_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = capture("wait_echo")
    Path("short.log").write_text(expected.out.removesuffix("All jobs done.\n"))
    assert wait_output(expected.argv, capsys) == (expected.out, expected.err, expected.exit_code)


def test_time_expires_with_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "plain.log"
    log.write_text(SUBMITTED.format(proc=0) + HELD.format(proc=0))
    expected = capture("wait_timeout")
    assert wait_output(["-wait", "1", str(log)], capsys) == (
        expected.out.split("\n", 1)[1],
        expected.err,
        expected.exit_code,
    )


@pytest.mark.parametrize(
    ("arguments", "expected", "code"),
    [
        (["-wait", "0"], "", 0),  # it ends at the end of the log, whatever became of the jobs
        (["-wait", "0", "-status"], "62.0.0 submitted\n62.1.0 submitted\n62.1.0 aborted\n", 0),
        (["-num", "1"], "Specifed number of jobs (1) done.\n", 0),
        (["-event-id", "12"], "Got 1 events of id 12\n", 0),
        (["-event-id:2", "12", "-wait", "1"], "Time expired.\n", 1),
        (["-allevents", "-status"], "62.0.0 submitted\n62.1.0 submitted\n62.1.0 aborted\n", 0),
    ],
)
def test_wait_ends_when_the_requested_jobs_end(
    arguments: list[str], expected: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text(SUBMITTED.format(proc=0) + SUBMITTED.format(proc=1) + HELD.format(proc=0) + ABORTED.format(proc=1))
    assert wait_output([*arguments, str(log)], capsys) == (expected, "", code)
    assert wait_output([str(log), "62.1"], capsys) == ("All jobs done.\n", "", 0)


@pytest.mark.parametrize(
    ("arguments", "message", "helps"),
    [
        (["job.log", "x"], "Couldn't understand job number: x\n", False),
        (["job.log", "1", "2"], "Extra argument: 2\n\n", True),
        (["-num", "1", "-allevents", "job.log"], "-allevents cannot be used with -num\n", True),
        (["-num"], "-num requires an argument\n", True),
        (["-num", "x", "job.log"], "-num must be greater than zero\n", True),
        (["-wait"], "-wait requires an argument\n", True),
    ],
)
def test_an_invalid_wait_is_refused(
    arguments: list[str], message: str, helps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wait_output(arguments, capsys) == ("", message + usage_of("wait") * helps, 1)


def test_an_end_written_in_pieces_during_the_wait_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text(SUBMITTED.format(proc=0))
    end_entry = TERMINATED.format(proc=0)

    def write() -> None:
        for piece in (end_entry[:30], end_entry[30:-5], end_entry[-5:]):
            time.sleep(0.15)
            with log.open("a") as file:
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    assert wait_output(["-wait", "60", str(log)], capsys) == ("All jobs done.\n", "", 0)
    writer.join()


def test_entries_in_json_and_xml_are_read() -> None:
    submission = (
        b'{\n"MyType": "SubmitEvent", "EventTypeNumber": 0, "EventTime": "2026-11-20T22:36:13", "Cluster": 7,\n'
        b'"Proc": 1, "Subproc": 0\n}\n'
    )
    end_entry = (
        b'<c>\n<a n="EventTypeNumber"><i>9</i></a><a n="EventTime"><s>2026-11-20T22:36:14</s></a>'
        b'<a n="Cluster"><i>7</i></a><a n="Proc"><i>1</i></a><a n="Subproc"><i>0</i></a>\n</c>\n'
    )
    entries, bytes_read = take_entries(submission + end_entry + end_entry[:-9])
    assert [(entry.number, entry.job) for entry in entries] == [(0, (7, 1, 0)), (9, (7, 1, 0))]
    assert bytes_read == len(submission + end_entry)


def test_a_file_that_is_not_a_job_event_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnreadableEntry, match="nonsense"):
        take_entries(b"nonsense\n...\n")
    log = tmp_path / "job.log"
    log.write_text("nonsense\n...\n")
    message = f"poolbook wait: {log} is not a valid job event log: nonsense\n"
    assert wait_output([str(log)], capsys) == ("", message, 1)


def test_the_version_has_the_format_that_programs_expect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["condor_version"]) == 0
    our_lines, expected = capsys.readouterr().out.splitlines(), capture("version").out.splitlines()
    assert our_lines[0].split()[:2] == expected[0].split()[:2]
    assert [line.split()[0] for line in our_lines] == [line.split()[0] for line in expected]
    assert main(["condor_version", "-help"]) == 0
    assert capsys.readouterr().err == capture("version_more").err


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of a pool: cluster 1 has ended, cluster 2 has an ended, a running and an idle job."""
    monkeypatch.chdir(tmp_path)
    with Pool.open("pool.db", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=1, memory=4096)
        pool.submit({"executable": "/bin/sleep", "arguments": 5}, count=2)
        pool.submit({"executable": "/bin/sleep", "arguments": 40}, count=3)
        pool.remove("1.1")
        pool.advance(70)
    return tmp_path / "pool.db"


@pytest.mark.parametrize(
    ("words", "out", "code"),
    [
        (["1"], "All jobs done.", 0),
        (["1.0", "2.0"], "All jobs done.", 0),
        (["1", "-log", "pool.db"], "All jobs done.", 0),
        (["2", "-timeout", "0"], "Time expired: 1 of 3 ended, 1 idle, 1 running.", 1),
        (["1", "2.1", "-timeout", "0"], "Time expired: 2 of 3 ended, 1 running.", 1),
        (["1", "3"], "the pool has no cluster 3; `poolbook q -all` and `poolbook history` list jobs", 1),
        (["2.7"], "the pool has no job 2.7; `poolbook q -all` and `poolbook history` list jobs", 1),
        (["1", "-echo"], "-echo is for a job event log; omit it, or name the log", 2),
    ],
)
def test_jobs_of_a_pool_are_awaited(
    words: list[str], out: str, code: int, pool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wait", *words]) == code
    captured = capsys.readouterr()
    assert out in " ".join((captured.out + captured.err).split())


def test_a_file_that_is_named_like_a_job_is_a_job_event_log(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("62").write_text(THREE)
    assert main(["wait", "62", "-status"]) == 0
    assert "62.0.0 completed" in capsys.readouterr().out


def test_a_wait_ends_when_the_last_job_is_removed(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(main(["wait", "2", "-timeout", "100"])))
    waiting.start()
    with Pool.open(str(pool)) as served:
        served.remove("2")
        served.run(600)
    waiting.join()
    assert codes == [0]


def test_jobs_that_a_removed_factory_never_creates_have_ended(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Pool.open(str(pool)) as served:
        cluster = served.submit({"executable": "/bin/sleep", "arguments": 500, "max_materialize": 1}, count=4)
        assert main(["wait", str(cluster), "-timeout", "0"]) == 1
        assert "0 of 4 ended, 1 idle, 3 unmaterialized" in capsys.readouterr().out
        served.remove(str(cluster))
        served.run(600)
    assert main(["wait", str(cluster)]) == 0
