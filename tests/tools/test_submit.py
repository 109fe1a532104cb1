"""Golden: condor_submit has the same output and exit code as HTCondor's."""

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
MACHINE_ATTRIBUTES = re.compile(
    r"^((?:Condor|Submit)(?:Platform|Version)|QDate|EnteredCurrentStatus|DiskUsage|ExecutableSize|ImageSize"
    r"|FileSystemDomain|Iwd|UserLog|ClusterId|Requirements)(?: = |=).*$",
    re.MULTILINE,
)
"""Attributes that depend on where and when a job is submitted."""
NOT_SERVED_MESSAGE = re.compile(r"The pool is not running: .*\n")
"""The additional message, as the log here is not being served."""


def comparable_output(output: str, err: str) -> tuple[str, str]:
    """Return the output, without clusters' numbers."""
    output, err = (
        re.sub(r"((?:to cluster|-clusters|Proc|-) |^)\d+(?=\.|$)", r"\1N", text, flags=re.M) for text in (output, err)
    )
    return MACHINE_ATTRIBUTES.sub(r"\1", output), NOT_SERVED_MESSAGE.sub("", err)


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
def test_output_equals_htcondors(
    name: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FILES.get(typed, typed).encode())))
    expected = capture(name)
    arguments = [word for word in expected.argv if word not in ("<", "|")]
    arguments = arguments[arguments.index("condor_submit") + 1 :] if "condor_submit" in arguments else arguments
    code = main(["condor_submit", *(arguments if typed != "min.sub" else [])])
    printed = capsys.readouterr()
    assert (*comparable_output(printed.out, printed.err), code) == (
        *comparable_output(expected.out, expected.err),
        expected.exit_code,
    )


def test_a_dry_run_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sleep.sub").write_text(FILES["sleep.sub"])
    expected = capture("submit_dryrun_file")  # condor_submit -dry-run dry.txt sleep.sub; echo "== dry.txt"; cat dry.txt
    code = main(["condor_submit", "-dry-run", "dry.txt", "sleep.sub"])
    printed = f"{capsys.readouterr().out}== dry.txt\n{Path('dry.txt').read_text()}"
    assert (*comparable_output(printed, ""), code) == (*comparable_output(expected.out, ""), expected.exit_code)


@together(
    ("name", "arguments", "out", "err"),
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
def test_output_that_differs_from_htcondors(
    name: str, arguments: str, out: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["condor_submit"])
    for file, text in FILES.items():
        Path(file).write_text(text)
    assert main(["condor_submit", *arguments.split()]) == capture(name).exit_code
    printed = capsys.readouterr()
    assert re.fullmatch(out, printed.out) and re.fullmatch(err, NOT_SERVED_MESSAGE.sub("", printed.err)), printed


COMMAND_LINES = json.loads((Path(__file__).parents[1] / "data" / "submit" / "command-lines.json").read_text())
"""The output of condor_submit 25.14 for these command lines, in a folder that HOME represents."""


@pytest.mark.parametrize("case", COMMAND_LINES, ids=lambda case: case["name"])
def test_a_command_line_has_htcondors_output_and_exit_code(
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
    out, err = comparable_output(*(text.replace(str(tmp_path), "HOME") for text in capsys.readouterr()))
    real = comparable_output(case["out"], case["err"])
    assert (out.strip(), err.strip(), code) == (real[0].strip(), real[1].strip(), case["rc"])
