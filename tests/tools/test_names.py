"""Table: words that are accepted in place of a command's name, and the messages for tools that Poolbook does not have;
the help, completion and man pages that are made from the commands' tables."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from poolbook.adapters.cli.documentation import options_of, table_of
from poolbook.adapters.cli.main import (
    ALTERNATIVES,
    COMMANDS,
    RENAMED_TOOLS,
    UNSUPPORTED,
    WORDS,
    command_named,
    main,
    unknown_command_message,
)
from poolbook.adapters.cli.tools import tools

from ..together import together


@together(
    ("name", "command"),
    [
        ("condor_q", "q"), ("condor_submit", "submit"), ("condor_rm", "rm"), ("condor_hold", "hold"),
        ("condor_release", "release"), ("condor_status", "status"), ("condor_history", "history"),
        ("condor_prio", "prio"), ("condor_userprio", "userprio"), ("condor_vacate", "vacate"),
        ("condor_vacate_job", "vacate"), ("vacate_job", "vacate"), ("condor_suspend", "suspend"),
        ("condor_continue", "continue"), ("condor_drain", "drain"), ("condor_off", "off"), ("condor_on", "on"),
        ("condor_reconfig", "reconfig"), ("condor_reschedule", "reschedule"),
        ("q", "q"), ("wait", "wait"), ("nonsense", ""),
    ],
)  # fmt: skip
def test_htcondors_names_call_poolbooks_commands(name: str, command: str) -> None:
    assert command_named(name) == command


def test_an_htcondor_tool_is_named_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["condor_q", "-help"]) == 0
    assert capsys.readouterr().out.startswith("usage: poolbook q ")
    assert main(["condor_version"]) == 0
    assert capsys.readouterr().out.startswith("$CondorVersion: 25.14")


@pytest.mark.parametrize("arguments", [("help", "q"), ("-help", "q"), ("help", "condor_q"), ("q", "-help")])
def test_the_help_of_a_command_is_its_own(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("usage: poolbook q [job | owner ...] [options]")


@pytest.mark.parametrize("prefix", ["", "condor_"])
@pytest.mark.parametrize("tool", [name for name in ALTERNATIVES if name not in COMMANDS])
def test_a_tool_without_a_counterpart_is_reported_with_an_alternative(
    tool: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([prefix + tool]) == 2
    assert capsys.readouterr().err == f"poolbook: unknown command {prefix}{tool}: {ALTERNATIVES[tool]}\n"


def test_every_program_that_htcondor_installs_is_in_the_tools_folder() -> None:
    names = (Path(__file__).resolve().parent.parent / "data" / "condor_names.txt").read_text(encoding="utf-8").split()
    assert len(names) > 90
    assert set(names) - set(tools()) == set()


@pytest.mark.parametrize("tool", UNSUPPORTED)
def test_an_unsupported_tool_exits_with_1_and_the_tables_message(
    tool: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [f"/somewhere/condor_{tool}", "-verbose", "x"])
    assert main() == 1
    output, err = capsys.readouterr()
    assert (output, err) == ("", f"poolbook: unknown command condor_{tool}: {UNSUPPORTED[tool]}\n")


def test_commands_of_other_batch_systems_are_not_in_the_tools_folder() -> None:
    assert {"squeue", "sbatch", "cancel", "ps", "nodes", "delete"} <= WORDS.keys()
    assert not {f"condor_{word}" for word in WORDS} & set(tools())


def test_every_recommended_command_exists() -> None:
    for recommendation in ALTERNATIVES.values():
        for call in recommendation.split("`poolbook ")[1:]:
            assert call.split("`")[0].split()[0] in COMMANDS, recommendation
    assert set(RENAMED_TOOLS.values()) <= set(COMMANDS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("statsu", "unknown command 'statsu'; did you mean status or restart?"),
        ("condor_statsu", "unknown command 'condor_statsu'; did you mean status or restart?"),
        ("condor_frobnicate", "Poolbook has no counterpart of condor_frobnicate; `poolbook -help` lists its commands"),
        ("xyzzy", "unknown command 'xyzzy'; `poolbook -help` lists the commands"),
    ],
)
def test_an_unknown_word_gives_a_short_message(name: str, message: str) -> None:
    assert unknown_command_message(name) == f"poolbook: {message}"


# Completion


def completed(tmp_path: Path, script: str, *words: str) -> list[str]:
    """Return bash's completions for the last of the words."""
    quoted_words = " ".join(f"'{word}'" for word in words)
    lines = f"""
        source {script}
        COMP_WORDS=(poolbook {quoted_words}); COMP_CWORD={len(words)}
        _poolbook
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    process = subprocess.run(
        ["bash", "--norc", "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30
    )
    return sorted(process.stdout.split())


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    (tmp_path / ".script").write_text(capsys.readouterr().out)
    for name in ("job.sub", "jobs.txt"):
        (tmp_path / name).touch()
    return str(tmp_path / ".script")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("re",), ["reconfig", "release", "reschedule", "restart", "resume"]),
        (("help", "h"), ["help", "history", "hold"]),
        (("run", "jo"), ["job.sub", "jobs.txt"]),
        (("run", "-me"), ["-memory"]),
        (("run", "-config", "jo"), ["job.sub", "jobs.txt"]),
        (("run", "-cpus", ""), []),
        (("q", "-held", "-lo"), ["-log", "-long"]),
        (("q", "jo"), []),
        (("hold", "1.0", "-rea"), ["-reason"]),
        (("doc", "central"), ["central-manager"]),
        (("completion", ""), ["bash", "fish", "zsh"]),
        (("usage", "-by", "m"), ["machine", "month"]),
        (("play", "-dialect", ""), ["htcondor-25", "manual"]),
        (("condor_q", "-no"), ["-nobatch"]),
    ],
)
def test_bash_completes_commands_options_and_files(
    tmp_path: Path, script: str, words: tuple[str, ...], expected: list[str]
) -> None:
    assert completed(tmp_path, script, *words) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_have_every_option(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        for option in options_of(table_of(name)):
            assert (f"'-{option.name}:" if shell == "zsh" else f"{name}' -o {option.name}") in text
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=30)


def test_an_unsupported_shell_is_refused_with_the_supported_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


# Man pages


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_with_all_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", command]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f".TH POOLBOOK-{command.upper()} 1 ")
    for option in options_of(table_of(command)):
        assert f"\n\\fB-{option.name}".replace("-", "\\-") in page
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"):
        assert f".SH {section}\n" in page


def test_the_formatter_accepts_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        main(["man", name])
    pages = capsys.readouterr().out
    if shutil.which("groff"):
        process = subprocess.run(
            ["groff", "-man", "-Tascii", "-ww", "-P-cbou"], input=pages, capture_output=True, text=True, timeout=60
        )
        assert (process.returncode, process.stderr) == (0, "")
        assert all(f"poolbook {name} " in process.stdout for name in COMMANDS)


def test_the_main_page_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    page = capsys.readouterr().out
    assert all("\\fB{}\\fR".format(name.replace("-", "\\-")) in page for name in COMMANDS)
