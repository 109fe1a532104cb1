"""Golden: condor_chirp, called by a running job, prints and exits as HTCondor's did in such a job; it uses the job's
own server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools.tool_options import usage_of

from .bench import Bench
from .test_chirp import Client, job

__all__ = ["job"]

DATA = Path(__file__).resolve().parent.parent / "data" / "execution" / "chirp.txt"
Call = Callable[..., tuple[str, str, int]]


@pytest.fixture
def call(
    bench: Bench, job: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Call:
    """Return the tool's output and exit code within the job."""
    monkeypatch.setenv("_CONDOR_CHIRP_CONFIG", str(bench.folder / "execute/dir_1/scratch/.chirp.config"))
    local = tmp_path / "here"
    local.mkdir()
    monkeypatch.chdir(local)
    (bench.home / "iwd/there.txt").write_text("there it is\n")
    (local / "here.txt").write_text("local\n")

    def called(*arguments: str) -> tuple[str, str, int]:
        capfd.readouterr()
        code = main(["condor_chirp", *arguments])
        out, err = capfd.readouterr()
        return out, err, code

    return called


def recorded() -> list[tuple[list[str], tuple[str, str, int]]]:
    """Return the calls of a job in an HTCondor pool, in their order, and what each printed."""
    transcripts = re.findall(r"^\$ condor_chirp(.*)\n((?s:.*?))^--- rc=(\d+) ---\n", DATA.read_text(), re.MULTILINE)
    calls = []
    for arguments, printed_output, code in transcripts:
        out, _, err = printed_output.partition("--- stderr ---\n")
        calls.append((arguments.split(), (out, err, int(code))))
    return calls


def test_a_jobs_calls_are_answered_as_in_htcondor(call: Call) -> None:
    for arguments, real in recorded():
        assert call(*arguments) == real, arguments


def test_files_are_put_in_several_modes(call: Call, bench: Bench) -> None:
    iwd = bench.home / "iwd"
    assert call("put", "-perm", "600", "here.txt", "put.txt") == ("", "", 0)
    assert call("put", "-mode", "wa", "here.txt", "put.txt") == ("", "", 0)
    assert ((iwd / "put.txt").read_text(), (iwd / "put.txt").stat().st_mode & 0o777) == ("local\nlocal\n", 0o600)
    assert call("link", "-s", "put.txt", "l") == ("", "", 0)
    assert call("readlink", "l", "99") == ("put.txt\n", "", 7)
    assert "size: 12\n" in call("stat", "put.txt")[0]
    assert "f_bsize: " in call("statfs", ".")[0]
    assert [
        call(*arguments)[2]
        for arguments in (("truncate", "put.txt", "3"), ("chmod", "put.txt", "644"), ("utime", "put.txt", "1", "2"))
    ] == [0, 0, 0]
    assert ((iwd / "put.txt").read_text(), (iwd / "put.txt").stat().st_mtime) == ("loc", 2)
    assert call("fetch", "put.txt", "-") == ("loc", "", 0)
    assert call("rmdir", "-r", "folder") == ("", "", 0)


@pytest.mark.parametrize(
    ("arguments", "transcript", "code"),
    [
        (["-h"], usage_of("chirp"), 255),
        (["write", "a", "b"], "condor_chirp write is not supported: ", 255),
        (["whoareyou", "x"], "condor_chirp whoareyou is not supported: ", 255),
        (["access", "a", "q"], "invalid mode char 'q'", 255),
        (["access", "a", "x"], "\tError: 13 (Permission denied)\n", 255),
        (["chmod", "a", "x"], "condor_chirp chmod remotepath mode\n", 255),
        (["stat", "../secret"], "\tError: 13 (Permission denied)\n", 255),
    ],
)
def test_failures_are_reported(arguments: list[str], transcript: str, code: int, call: Call) -> None:
    out, err, exit_code = call(*arguments)
    assert (transcript in out + err, exit_code) == (True, code), out + err


def test_without_a_server_the_file_that_names_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("_CONDOR_CHIRP_CONFIG", raising=False)
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", str(tmp_path))
    assert main(["condor_chirp", "whoami"]) == 255
    assert f"Can't open {tmp_path}/.chirp.config file" in capfd.readouterr().err
