"""``poolbook COMMAND ...``: find the command, call it, and turn its errors into a message and an exit code.

Exit codes: 0, done; 1, refused, or the answer is no; 2, wrong usage; 3, it failed in a way that nobody foresaw; 130,
interrupted. No error ends in a traceback: one that was not foreseen is told in a sentence, and its traceback is kept in
a file (``fault_report``). ``poolbook -debug COMMAND`` prints it instead.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Entry(NamedTuple):
    """A command's module, and its purpose in a few words."""

    module: str
    function: str
    words: str


COMMANDS: dict[str, Entry] = {
    "run": Entry("serve", "run", "submit a file and run its jobs on this machine to their end"),
    "resume": Entry("serve", "resume", "continue the jobs of a log after Ctrl-C, a crash or a power cut"),
    "serve": Entry("serve", "serve", "run the pool daemon: execute jobs and serve the other commands"),
    "submit": Entry("submit", "submit", "put jobs into the queue"),
    "q": Entry("queries", "queue", "the jobs in the queue"),
    "status": Entry("queries", "status", "the slots and what they do"),
    "history": Entry("queries", "history", "the jobs that have left the queue"),
    "usage": Entry("usage", "usage", "who used how much, of the jobs that have left the queue"),
    "rm": Entry("job_actions", "remove", "remove jobs"),
    "hold": Entry("job_actions", "hold", "hold jobs: they do not run until they are released"),
    "release": Entry("job_actions", "release", "release held jobs"),
    "userprio": Entry("userprio", "userprio", "the priorities and the usage of users; an administrator sets them"),
    "prio": Entry("prio", "prio", "change the priority of jobs among their owner's"),
    "qedit": Entry("qedit", "qedit", "change attributes of jobs"),
    "vacate": Entry("job_actions", "vacate", "evict running jobs, by job or by slot; they become idle again"),
    "suspend": Entry("job_actions", "suspend", "suspend running jobs, by job or by slot"),
    "continue": Entry("job_actions", "go_on", "continue suspended jobs"),
    "drain": Entry("machine_commands", "drain", "empty a machine of jobs, or open it again"),
    "off": Entry("machine_commands", "off", "take a machine out of the pool once its jobs have ended"),
    "on": Entry("machine_commands", "on", "bring this machine back into the pool"),
    "reconfig": Entry("machine_commands", "reconfig", "reread the configuration of this machine and its pool"),
    "reschedule": Entry("machine_commands", "reschedule", "start a negotiation cycle now"),
    "why": Entry("log_commands", "why", "explain why a job or slot is where it is, or how a cluster fared"),
    "log": Entry("log_commands", "log", "list what happened, one line for each step"),
    "audit": Entry("audit", "audit", "check a log: was every step allowed, do its sources agree"),
    "import": Entry("import_folders", "import_folders", "import the logs and records of a real HTCondor pool"),
    "follow": Entry("import_folders", "follow", "import and audit the records of a real pool while it writes them"),
    "verify": Entry("log_commands", "verify", "check that a log is unaltered and every step in it allowed"),
    "play": Entry("play", "play", "try a policy with machines and jobs in virtual time"),
    "config": Entry("config", "config", "show settings, where they are set, and their values"),
    "views": Entry("log_commands", "views", "rebuild the tables that q, status and history read"),
    "doctor": Entry("doctor", "doctor", "check this machine, its configuration and its log for problems"),
    "doc": Entry("documentation", "doc", "the pages of the documentation, and the examples"),
    "wait": Entry("wait", "wait", "wait until jobs have ended, by their job event log"),
    "tools-path": Entry("tools", "tools_path", "print a folder with HTCondor's own names of the commands, for PATH"),
    "shell": Entry("tools", "shell", "start a pool, and print what puts HTCondor's names on a shell's PATH"),
    "completion": Entry(
        "documentation", "completion", "print a shell script that completes commands, options and files"
    ),
    "man": Entry("documentation", "man", "the manual's page of a command"),
}

TOOLS: dict[str, Entry] = {
    "check_userlogs": Entry("check_userlogs", "check_userlogs", "whether job event logs make sense"),
    "chirp": Entry("chirp", "chirp", "what a job at work asks of its files and of its ad"),
    "config_val": Entry("config", "config_val", "settings, in the words of HTCondor's tool"),
    "evicted_files": Entry("evicted_files", "evicted_files", "what is kept of evicted jobs for their next run"),
    "htcondor": Entry("htcondor", "htcondor", "submit a job, and tell of it, in the words of HTCondor's newer tool"),
    "now": Entry("now", "now", "run an idle job at once in place of running ones"),
    "ping": Entry("ping", "ping", "whether the pool can be reached, and what this user may ask of it"),
    "qedit": Entry("qedit", "condor_qedit", "change attributes of jobs, in the words of HTCondor's tool"),
    "qsub": Entry("qsub", "qsub", "submit a script as SGE's and PBS's qsub do"),
    "run": Entry("condor_run", "condor_run", "submit a shell's command, wait for it, and print what it wrote"),
    "ssh_to_job": Entry("ssh_to_job", "ssh_to_job", "a shell in the directory and the environment of a job at work"),
    "submit": Entry("submit", "condor_submit", "queue the jobs of a submit file, in the words of HTCondor's tool"),
    "tail": Entry("tail", "tail", "the end of what a job at work has written"),
    "transfer_data": Entry("transfer_data", "transfer_data", "fetch the output of jobs that were submitted remotely"),
    "version": Entry("tools", "condor_version", "the version of HTCondor whose behaviour is followed"),
    "wait": Entry("wait", "condor_wait", "wait until jobs have ended, in the words of HTCondor's tool"),
    "watch_q": Entry("watch_q", "watch_q", "follow jobs by their job event logs"),
    "who": Entry("who", "who", "the jobs that run on this machine, with their processes"),
}
"""The tools that there are under HTCondor's names (condor_tail). A command of the same name, as wait, does the same in
Poolbook's own words."""


def tool_name(name: str) -> str:
    """Return HTCondor's name of a tool: all but one begin alike."""
    return name if name == "htcondor" else f"condor_{name}"


_FIRST = """\
poolbook: runs HTCondor jobs, and writes every step to an append-only log

usage: poolbook COMMAND [options]        poolbook help COMMAND tells more

"""
_LAST = (
    "",
    "What is about a pool takes -log URL: a file's name (pool.db in the current folder unless POOLBOOK_LOG or the "
    "option says otherwise), sqlite:///file.db or postgresql://...; and -json where it prints something. HTCondor's "
    "own names are understood too: poolbook condor_q; by these alone there are "
    + ", ".join(map(tool_name, TOOLS))
    + ".",
    "",
    "Try:  poolbook run job.sub        then  poolbook history,  poolbook why 1.0,  poolbook verify",
    "",
)
_WIDTH = 118
"""Columns of the help where no terminal has a width."""


def overview() -> str:
    """Return the help of the whole command."""
    from ..condor_tools.terminal import columns, folded, width_of

    width = width_of()
    lines = columns([(name, entry.words) for name, entry in COMMANDS.items()], width)
    return folded(_FIRST, width) + "\n".join(lines) + "\n" + folded("\n".join(_LAST), width or _WIDTH)


_NO_POOL = "No pool in this folder yet. `poolbook run job.sub` or `poolbook serve` starts one; -log FILE names another."
_DEBUG = "-debug"
UNFORESEEN = 3  #: the exit code of a command that failed in a way that nobody foresaw
_HELPS = ("-h", "-help", "--help", "help")
_VERSIONS = ("-version", "--version", "version")
_TOOLS_FAILED = 1  #: the exit code of HTCondor's tools for whatever fails


def _say(text: object) -> None:
    from ..condor_tools.terminal import folded, width_of

    print(folded(str(text), width_of(sys.stderr)), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        tool = os.path.basename(sys.argv[0])
        if tool.startswith("condor_") or tool == "htcondor":
            code = main([tool, *sys.argv[1:]])
            exact = tool.removeprefix("condor_") in TOOLS  # which ends as HTCondor's by itself
            return _TOOLS_FAILED if code in (2, UNFORESEEN) and not exact else code
    words = list(sys.argv[1:] if argv is None else argv)
    debug = words[:1] == [_DEBUG]
    words = words[debug:]
    if words[0:1] and words[0] in _HELPS:
        words = [*words[1:2], "-help"]
    if not words or words[0] == "-help":
        print(overview(), end="")
        return 0 if words else 2
    if words[0] in _VERSIONS:
        from ..machine.host import CONDOR_VERSION, VERSION

        print(f"poolbook {VERSION}, with the behaviour of {CONDOR_VERSION}")
        return 0
    entry = COMMANDS.get(words[0]) or TOOLS.get(words[0].removeprefix("condor_"))
    if entry is None:
        from .command_names import meant, unknown

        entry = COMMANDS.get(meant(words[0], COMMANDS))
        if entry is None:
            _say(unknown(words[0], COMMANDS))
            return 2
    try:
        return _called(entry, words, debug)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130


def _called(entry: Entry, words: Sequence[str], debug: bool) -> int:
    try:
        command = getattr(import_module(f".{entry.module}", __package__), entry.function)
        done = int(command(words[1:]))
        sys.stdout.flush()
        return done
    except BrokenPipeError:
        raise
    except Exception as error:
        if debug:
            raise
        code = _explained(error)
        if code is not None:
            return code
        from .fault_report import fault_words

        _say(fault_words(error, words))
        return UNFORESEEN


def _explained(error: Exception) -> int | None:
    """Print an error that is meant for the user and return its exit code; None for any other."""
    from ...domain.errors import PoolbookError
    from ..condor_tools.options import Help, NotHere, Refusal, UsageError, Version, usage
    from .common import called_tool

    if isinstance(error, Help):
        from ..condor_tools.terminal import width_of

        print(usage(error.command, width_of()), flush=True)
        return error.exit_code
    if isinstance(error, Version):
        from ..condor_tools.tool_options import version

        print(version(), end="", flush=True)
        return error.exit_code
    if isinstance(error, NotHere) and called_tool():
        sys.stderr.write(error.of_tool.replace("{tool}", called_tool()))
        return error.tool_code
    if isinstance(error, UsageError) and called_tool():
        from ..condor_tools.tool_options import in_the_tools_words

        words = in_the_tools_words(error)
        if words is not None:
            print(words, file=sys.stderr)
            return error.exit_code
    if isinstance(error, UsageError | Refusal):
        _say(error)
        return error.exit_code
    from ..condor_tools.tool_options import ToolEnded

    if isinstance(error, ToolEnded):
        sys.stdout.write(error.out)
        sys.stderr.write(error.err)
        return error.exit_code
    from ...domain.ports.log import LogMissing
    from ..runtime.requests import Refused
    from .common import DEFAULT_LOG

    if isinstance(error, LogMissing) and error.name == DEFAULT_LOG:
        _say(_NO_POOL)
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        from .fault_report import of_file

        _say(f"poolbook: {of_file(error)}")
        return 1
    if not isinstance(error, PoolbookError | Refused):
        return None
    for line in getattr(error, "warnings", ()):
        print(line, file=sys.stderr)
    _say(f"poolbook: {error}")
    return 1


def entry() -> None:
    from ..condor_tools.terminal import guard_streams

    guard_streams()
    code = main()
    # At its end the interpreter looks twice through all that was imported for cycles. What is frozen is passed over.
    gc.freeze()
    sys.exit(code)
