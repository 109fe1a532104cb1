"""Golden: options are read as HTCondor's tools read them; help and error messages are made from the same tables."""

import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from poolbook import Behaviour, Pool
from poolbook.adapters import cli, condor_tools
from poolbook.adapters.cli import job_actions, machine_commands, main, prio, userprio
from poolbook.adapters.condor_tools import history, queue_table, status
from poolbook.adapters.condor_tools.cells import CellContext
from poolbook.adapters.condor_tools.options import (
    AUTOFORMAT_LETTERS,
    OTHER_COMMANDS_OPTIONS,
    Help,
    ToolSyntax,
    UsageError,
    find_option,
    parse,
    usage,
)

from ..together import together
from .captures import capture

ROOT = Path(__file__).resolve().parent.parent.parent

COMMANDS = {
    command.name: command
    for command in (
        queue_table.COMMAND, status.COMMAND, history.COMMAND, *job_actions.COMMANDS.values(), prio.COMMAND,
        machine_commands.DRAIN, machine_commands.OFF, machine_commands.ON, machine_commands.RECONFIG,
        machine_commands.RESCHEDULE, userprio.COMMAND,
    )
}  # fmt: skip


def tables() -> Iterator[ToolSyntax]:
    """Yield the tables of all commands, in any module."""
    for package in (cli, condor_tools):
        for module in pkgutil.iter_modules(package.__path__):
            for value in vars(import_module(f"{package.__name__}.{module.name}")).values():
                values = value.values() if isinstance(value, dict) else (value,)
                yield from (table for table in values if isinstance(table, ToolSyntax))


TABLES = {command.name: command for command in tables()}


@together(
    ("command", "word", "name", "qualifier"),
    [
        ("q", "-l", "long", None),
        ("q", "-lim", "limit", None),
        ("q", "-li", None, None),
        ("q", "-h", "help", None),
        ("q", "-ho", "hold", None),
        ("q", "-c", "constraint", None),
        ("q", "-cu", None, None),
        ("q", "-curr", "currentrun", None),
        ("q", "-al", "allusers", None),
        ("q", "-all", "allusers", None),
        ("q", "-a", None, None),
        ("q", "-af", "af", None),
        ("q", "-af:jh", "af", "jh"),
        ("q", "-auto", "autocluster", None),
        ("q", "-autof:l", "autoformat", "l"),
        ("q", "-f", "format", None),
        ("q", "-x", None, None),
        ("q", "-xml", "xml", None),
        ("q", "-js", "json", None),
        ("q", "--json", "json", None),
        ("q", "--js", None, None),
        ("q", "-longer", None, None),
        ("q", "-nobatch:x", None, None),
        ("q", "-wide:120", "wide", "120"),
        ("q", "-tot", "totals", None),
        ("q", "-log", "log", None),
        ("status", "-t", "totals", None),
        ("status", "-x", "xml", None),
        ("status", "-st", None, None),
        ("status", "-stat", "state", None),
        ("status", "-start", None, None),
        ("status", "-startd", "startd", None),
        ("status", "-att", "attributes", None),
        ("status", "-co", None, None),
        ("status", "-comp", "compact", None),
        ("status", "-con", "constraint", None),
        ("status", "-slot", "slots", None),
        ("status", "-submitter", "submitters", None),
        ("status", "-n", "negotiator", None),
        ("history", "-m", "match", None),
        ("history", "-forw", "forwards", None),
        ("history", "-for", "format", None),
        ("history", "-jso", None, None),
        ("history", "-json", "json", None),
        ("history", "-jsonl", "jsonl", None),
        ("history", "-com", "completedsince", None),
        ("rm", "-f", "forcex", None),
        ("rm", "-a", "all", None),
        ("submit", "-a", "append", None),
        ("play", "-a", None, None),
        ("rm", "-hel", "held", None),
        ("rm", "-help", "help", None),
        ("hold", "-s", "subcode", None),
        ("vacate", "-f", "fast", None),
        ("userprio", "-s", "setprio", None),
        ("userprio", "-setf", "setfactor", None),
        ("userprio", "-setfl", "setfloor", None),
        ("userprio", "-setc", "setceiling", None),
        ("userprio", "-d", "duration", None),
        ("userprio", "-del", "delete", None),
        ("userprio", "-c", "cancelceilinglease", None),
        ("userprio", "-cancelf", "cancelfloorlease", None),
        ("userprio", "-con", "constraint", None),
        ("userprio", "-col", "collector", None),
        ("userprio", "-r", "resetusage", None),
        ("userprio", "-reseta", "resetall", None),
        ("userprio", "-a", "all", None),
        ("userprio", "-al", "all", None),
        ("userprio", "-allu", "allusers", None),
        ("userprio", "-l", "long", None),
        ("userprio", "-log", "log", None),
        ("userprio", "-m", None, None),
        ("userprio", "-mo", "most", None),
        ("userprio", "-mod", "modular", None),
        ("userprio", "-g", "grouprollup", None),
        ("userprio", "-hi", "hierarchical", None),
        ("userprio", "-pri", None, None),
        ("userprio", "-prio", "priority", None),
    ],
)
def test_an_abbreviation_has_htcondors_meaning(
    command: str, word: str, name: str | None, qualifier: str | None
) -> None:
    if name is None:
        with pytest.raises(UsageError, match="unknown option"):
            find_option(TABLES[command], word)
    else:
        option, given_qualifier = find_option(TABLES[command], word)
        assert (option.name, given_qualifier) == (name, qualifier)


def names(command: ToolSyntax) -> set[str]:
    """Return the full names of a command's options."""
    return {name for option in command.options if not option.refused for name in (option.name, option.also) if name}


def test_every_command_has_its_table_here() -> None:
    assert TABLES.keys() == main.COMMANDS.keys()


@together("command", TABLES.values())
def test_no_option_is_mistaken_for_another_commands(command: ToolSyntax) -> None:
    for name in set().union(*map(names, TABLES.values())):
        try:
            option, _ = find_option(command, f"-{name}")
        except UsageError:
            continue
        assert name in (option.name, option.also) or option.refused, f"{command.name} -{name} is read as -{option.name}"


def test_a_foreign_option_names_the_commands_that_have_it() -> None:
    foreign_names: dict[str, set[str]] = {}
    for command in TABLES.values():
        own_options = [(option.name, option.least) for option in command.options if not option.refused]
        for other in TABLES.values():
            for name in {
                option_of_other.name for option_of_other in other.options if not option_of_other.refused
            } - names(command):
                if any(len(name) >= least and own_name.startswith(name) for own_name, least in own_options):
                    foreign_names.setdefault(name, set()).add(other.name)
    expected = {name: set(re.split(", | and ", commands)) for name, commands in OTHER_COMMANDS_OPTIONS.items()}
    assert foreign_names == expected


@pytest.mark.parametrize("command", ["q", "status", "history", "userprio", "why"])
def test_at_is_a_time_and_not_an_abbreviation_of_attributes(command: str) -> None:
    arguments = parse(TABLES[command], ["-at", "2026-11-21T14:05:38Z"])
    assert [(option.name, option.values) for option in arguments.options] == [("at", ("2026-11-21T14:05:38Z",))]


def test_an_option_of_another_command_is_reported_as_such() -> None:
    message = "unknown option -sort, an option of status; write -sortkey in full to use that one"
    with pytest.raises(UsageError, match=message):
        parse(userprio.COMMAND, ["-sort"])


@pytest.mark.parametrize(
    ("argv", "given", "words"),
    [
        (["12", "-af", "A", "B", "-", "13"], [("af", ("A", "B"))], ("12", "13")),
        (["-af", "A", "-nobatch"], [("af", ("A",)), ("nobatch", ())], ()),
        (["-constraint", "-1 < A", "alice"], [("constraint", ("-1 < A",))], ("alice",)),
        (["-format", "%d", "A", "1.2"], [("format", ("%d", "A"))], ("1.2",)),
        (["--log", "sqlite:///p.db"], [("log", ("sqlite:///p.db",))], ()),
    ],
)
def test_arguments_belong_to_their_option_or_to_none(
    argv: list[str], given: list[tuple[str, tuple[str, ...]]], words: tuple[str, ...]
) -> None:
    arguments = parse(queue_table.COMMAND, argv)
    assert [(option.name, option.values) for option in arguments.options] == given
    assert arguments.words == words


@together(
    ("argv", "message"),
    [
        (["-constrain"], "-constrain needs <expr>: show only jobs for which"),
        (["-conztraint", "A"], r"unknown option -conztraint \(near: -constraint"),
        (["-to"], r"unknown option -to \(near: -totals\). `poolbook q -help` lists"),
        (["--help-me"], "unknown option --help-me"),
        (["-userprios", "12"], "-userprios is not supported: `poolbook why JOB` explains"),
        (["-limit", "many"], "-limit must be a whole number, at least 1, not 'many'"),
        (["-wide:x"], "-wide must be a whole number"),
    ],
)
def test_an_error_names_the_problem_and_the_fix(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        list(queue_table.render([], queue_table.parse_arguments(argv), CellContext(0)))
    assert error.value.exit_code == 2


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_help_shows_every_option_that_is_supported(command: ToolSyntax) -> None:
    with pytest.raises(Help) as help_shown:
        parse(command, ["-help"])
    text = str(help_shown.value)
    assert help_shown.value.exit_code == 0
    for option in command.options:
        if option.refused:
            assert option.name in text.partition("that are not supported: ")[2]
        else:
            assert re.search(rf"^  -{option.name}\b.*  {re.escape(option.help)}$", text, re.MULTILINE)
            assert option.help
    assert ("letters after -af:" in text) == any(option.name == "af" for option in command.options)
    assert max(map(len, text.splitlines()[:-8])) < 600
    assert text == usage(command)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_examples_of_the_help_are_correct(command: ToolSyntax) -> None:
    import shlex

    readers = {
        "q": queue_table.parse_arguments, "status": status.parse_arguments, "history": history.parse_arguments,
        "prio": prio.parse_arguments, "userprio": userprio.parse_arguments,
    }  # fmt: skip
    for example, _ in command.examples:
        program, name, *argv = shlex.split(example)
        assert (program, name) == ("poolbook", command.name)
        if name in readers:
            readers[name](argv)
        elif name in job_actions.COMMANDS:
            job_actions.parse_arguments(name, argv)
        else:
            parse(command, argv)


HELP_OF_HTCONDOR = {
    "q_nodate_help": "q",
    "status_nodate_help": "status",
    "history_help": "history",
    "rm_help": "rm",
    "hold_noargs": "hold",
    "userprio_help": "userprio",
}


@together("name", HELP_OF_HTCONDOR)
def test_every_option_in_htcondors_help_is_known(name: str) -> None:
    help_text = capture(name)
    names = re.findall(r"^\s+-([a-z][a-z-]*)", help_text.out + help_text.err, re.MULTILINE)
    assert len(names) > 10
    for option in names:
        find_option(COMMANDS[HELP_OF_HTCONDOR[name]], f"-{option}")


def test_the_letters_of_autoformat_are_htcondors() -> None:
    letters = re.findall(r"^\t        (\S)   \S", capture("q_nodate_help").out, re.MULTILINE)
    assert sorted(letters) == sorted(AUTOFORMAT_LETTERS)


def loads_no_slow_module(program: str) -> bool:
    """Return True if a program does not load the slow modules."""
    print_slow_modules = (
        "print(*(name for name in ('attr', 'attrs', 'numpy', 'poolbook.domain.classad') if name in sys.modules))\n"
    )
    path = {"PYTHONPATH": str(ROOT / ".path")}
    full_program = "import sys\n" + program + print_slow_modules
    run = subprocess.run([sys.executable, "-c", full_program], env=path, capture_output=True, text=True, check=True)
    return run.stdout.split() == []


def test_reading_a_plain_listing_loads_neither_the_engine_nor_attrs() -> None:
    assert loads_no_slow_module(
        "from poolbook.adapters.condor_tools import formats, queue_table\n"
        "query = queue_table.parse_arguments(['-af', 'ClusterId', 'ProcId'])\n"
        "assert formats.plain_attributes(query.arguments) == ['ClusterId', 'ProcId']\n"
        "assert ''.join(formats.join_lines(query.arguments, [('1', '0')])) == '1 0\\n'\n"
        "totals = queue_table.parse_arguments(['-totals'])\n"
        "assert ''.join(queue_table.render_rows([], totals, queue_table.CellContext(0)))\n"
    )


@pytest.mark.parametrize(("tool", "own"), [("condor_q", ["-all"]), ("condor_status", []), ("condor_history", [])])
def test_at_of_a_tool_of_htcondor_means_attributes(
    tool: str, own: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Pool.open(str(tmp_path / "pool.db"), user="alice", behave=lambda launch: Behaviour(seconds=9)) as pool:
        pool.add_machine("node1")
        pool.submit({"executable": "/bin/work"}, count=2)
        pool.advance(10)
    monkeypatch.setattr(sys, "argv", [tool, *own, "-long", "-at", "MyType", "-log", str(tmp_path / "pool.db")])
    assert main.main() == 0
    lines = set(capsys.readouterr().out.split("\n"))
    assert lines == {'MyType = "Machine"' if tool == "condor_status" else 'MyType = "Job"', ""}
