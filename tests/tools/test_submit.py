"""Golden: condor_submit prints, and ends, as HTCondor's did."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.cli.main import main

from ..together import together
from .captures import capture

SLEEP = "executable = /bin/sleep\narguments = 300\nrequest_memory = 128\n"
FILES = {
    "badexe.sub": "executable = /nonexistent/x\nqueue\n",
    "baduniverse.sub": "executable=/bin/sleep\nuniverse=nosuch\nqueue\n",
    "badlog.sub": SLEEP + "log = /nonexistent/log\nqueue\n",
    "badreq.sub": SLEEP + "requirements = (Foo ==\nqueue\n",
    "bigcpu.sub": SLEEP + "requirements = Memory > 1\nqueue\n",
    "cwd.sub": "executable=/bin/sleep\ninitialdir=/nosuch\nqueue\n",
    "fac.sub": "executable=/bin/sleep\narguments=300\nmax_materialize=1\nqueue 5\n",
    "hold.sub": SLEEP + "hold = true\nqueue 2\n",
    "items.sub": "executable = /bin/sleep\narguments = $(X)\nqueue X from (\n a\n b\n c\n)\n",
    "min.sub": "executable = /bin/sleep\narguments = 1\nqueue\n",
    "noexe.sub": "arguments = 1\nqueue\n",
    "noinput.sub": SLEEP + "input = nothing\nqueue\n",
    "noqueue.sub": SLEEP,
    "plain.sub": SLEEP + "queue\n",
    "sleep.sub": SLEEP
    + "request_disk = 10M\noutput = out.$(Cluster).$(Process)\nerror = err.$(Cluster).$(Process)\n"
    + "log = log.$(Cluster)\nbatch_name = bench\nqueue 2\n",
    "near.sub": SLEEP + "foo=bar\nexecutabl=x\nqueue\n",
    "unused.sub": SLEEP + "bogus_key = 1\nqueue\n",
}
OF_THE_MACHINE = re.compile(
    r"^((?:Condor|Submit)(?:Platform|Version)|QDate|EnteredCurrentStatus|DiskUsage|ExecutableSize|ImageSize"
    r"|FileSystemDomain|Iwd|UserLog|ClusterId|Requirements)(?: = |=).*$",
    re.MULTILINE,
)
"""Attributes that depend on where and when a job is submitted."""
UNSERVED = re.compile(r"The pool is not running: .*\n")
"""What is said besides, as nobody serves the log here."""


def told(out: str, err: str) -> tuple[str, str]:
    """What was printed, without clusters' numbers."""
    out, err = (
        re.sub(r"((?:to cluster|-clusters|Proc|-) |^)\d+(?=\.|$)", r"\1N", text, flags=re.M) for text in (out, err)
    )
    return OF_THE_MACHINE.sub(r"\1", out), UNSERVED.sub("", err)


@together(
    ("name", "typed"),
    [
        ("submit_append", ""),
        ("submit_dryrun_full", ""),
        ("submit_dryrun_stdout", ""),
        ("submit_badopt", ""),
        ("submit_error_badexe", ""),
        ("submit_error_badlog", ""),
        ("submit_error_noexe", ""),
        ("submit_error_nofile", ""),
        ("submit_error_noinput", ""),
        ("submit_error_noqueue", ""),
        ("submit_factory", "executable=/bin/sleep\narguments=300\nlog=fac.log\nmax_materialize=1\nqueue 5\n"),
        ("submit_factory_file", ""),
        ("submit_hold", ""),
        ("submit_initialdir_none", ""),
        ("submit_items", ""),
        ("submit_macro_arg", ""),
        ("submit_maxjobs_bad", ""),
        ("submit_maxjobs_none", ""),
        ("submit_plain", ""),
        ("submit_queue_arg", ""),
        ("submit_queue_none", ""),
        ("submit_stdin", "min.sub"),
        ("submit_stdin_dash", "executable=/bin/sleep\narguments=2\nqueue 1\n"),
        ("submit_terse", ""),
        ("submit_universe_unknown", ""),
        ("submit_unmatchable", ""),
        ("submit_verbose", ""),
        ("submit_warn_unused", ""),
        ("submit_warn_unused_near", ""),
    ],
)
def test_what_it_prints(
    name: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FILES.get(typed, typed).encode())))
    meant = capture(name)
    words = [word for word in meant.argv if word not in ("<", "|")]
    words = words[words.index("condor_submit") + 1 :] if "condor_submit" in words else words
    code = main(["condor_submit", *(words if typed != "min.sub" else [])])
    printed = capsys.readouterr()
    assert (*told(printed.out, printed.err), code) == (*told(meant.out, meant.err), meant.exit_code)


def test_a_dry_run_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sleep.sub").write_text(FILES["sleep.sub"])
    meant = capture("submit_dryrun_file")  # condor_submit -dry-run dry.txt sleep.sub; echo "== dry.txt"; cat dry.txt
    code = main(["condor_submit", "-dry-run", "dry.txt", "sleep.sub"])
    printed = f"{capsys.readouterr().out}== dry.txt\n{Path('dry.txt').read_text()}"
    assert (*told(printed, ""), code) == (*told(meant.out, ""), meant.exit_code)


@together(
    ("name", "words", "out", "err"),
    [
        ("submit_capabilities", "-capabilities", r"Schedd \S+\n Has Late Materialization enabled\n", ""),
        ("submit_help", "-help", "", r"Usage: condor_submit \[options\](?s:.*)"),
        (
            "submit_error_badreq",
            "badreq.sub",
            r"Submitting job\(s\)",
            r"\nERROR: line 4: requirements = \(Foo ==: .*\n",
        ),
        (
            "submit_spool",
            "-spool sleep.sub",
            r"Submitting job\(s\)\.\.\n2 job\(s\) submitted to cluster 1\.\n",
            r"To monitor your job\(s\), run: condor_watch_q -clusters 1\n",
        ),
        ("submit_remote", "-remote nowhere min.sub", "", r"condor_submit: unknown host nowhere\n"),
    ],
)
def test_what_differs_from_what_it_prints(
    name: str, words: str, out: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["condor_submit"])
    for file, text in FILES.items():
        Path(file).write_text(text)
    assert main(["condor_submit", *words.split()]) == capture(name).exit_code
    printed = capsys.readouterr()
    assert re.fullmatch(out, printed.out) and re.fullmatch(err, UNSERVED.sub("", printed.err)), printed


COMMAND_LINES = json.loads((Path(__file__).parents[1] / "data" / "submit" / "command-lines.json").read_text())
"""What condor_submit 25.14 printed of these command lines, in a folder that HOME stands for."""


@pytest.mark.parametrize("case", COMMAND_LINES, ids=lambda case: case["name"])
def test_a_command_line_ends_as_it_does_in_htcondor(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    for name, text in {
        "x.sub": case["submit"],
        "list.txt": "a\nb\n",
        "empty.sh": "",
        "crlf.sh": "#!/bin/sh\r\n",
    }.items():
        Path(name).write_bytes(text.encode())
    Path("dir").mkdir()
    code = main(["condor_submit", *case["words"]])
    out, err = told(*(text.replace(str(tmp_path), "HOME") for text in capsys.readouterr()))
    real = told(case["out"], case["err"])
    assert (out.strip(), err.strip(), code) == (real[0].strip(), real[1].strip(), case["rc"])
