"""The submit file that a command line names, with what the command line adds to it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from ..bounded_text import read_input, read_text
from ..condor_tools.options import Arguments, UsageError, command_table, last_number
from ..runtime.requests import SubmitDescription, new_id

SUBMIT = command_table("submit")
STANDARD_INPUT: Final = "-"
_NAME = re.compile(r"[\w./]+", re.ASCII)
_QUEUE = re.compile(r"\s*(?:queue|itera?t?e?)(?=\s|$)", re.IGNORECASE)


def description_of(arguments: Arguments) -> SubmitDescription:
    """Return the submit file that the command line names, with the command line's additions. Raise `UsageError` if no
    file is named, or it cannot be read."""
    macros = {"max_materialize": "0"} if arguments.has("factory") else {}
    files = arguments.values("file")
    for word in arguments.words:
        name, equals, value = word.partition("=")
        if equals and name and "/" not in name:
            if not _NAME.fullmatch(name.strip()):
                told = f"condor_submit: invalid attribute name '{name}' for attrib=value assigment\n"
                raise UsageError(f"{word}: '{name}' cannot be a name; for an attribute write MY.{name}", told=told)
            macros[name.strip()] = value
        else:
            files.append(word)
    if len(files) > 1:
        raise UsageError(f"one submit file at a time, not {' and '.join(files)}")
    queue = _queue_of(arguments)
    interactive = arguments.has("interactive")
    if interactive and arguments.has("factory"):
        raise UsageError("-interactive is for one job, which a -factory does not make at once", told=_NOT_LATE)
    if interactive and not files:
        from .ssh_to_job import DESCRIPTION

        name, text, queue = "", DESCRIPTION, queue or "1"
    elif files and files[0] != STANDARD_INPUT:
        name, text = files[0], _text_of(files[0])
    elif not files and queue is not None and (macros or arguments.has("append")):
        name, text = "", ""  # all is said on the command line
    elif not files and sys.stdin.isatty():
        raise UsageError("no submit file is named: poolbook submit FILE, or - for standard input")
    else:
        name, text = STANDARD_INPUT, read_input()
    return SubmitDescription(
        id=new_id(),
        text=text,
        file=name,
        folder=os.getcwd(),
        macros=macros,
        append=[
            *(line for line in arguments.values("append") if not _QUEUE.match(line)),
            *_named(arguments),
            *(_interactive(text) if interactive else ()),
        ],
        queue=queue,
        environment=dict(os.environ),
        most_jobs=last_number(SUBMIT, arguments, "maxjobs", least=-1) or 0,
        toggle_unused=len(list(arguments.every("unused"))) % 2 == 1,
        crlf_scripts=arguments.has("allow-crlf-script"),
        spool=arguments.has("spool", "remote"),
    )


_NOT_LATE = "\nERROR: Interactive jobs cannot be materialized late\n"


def _interactive(text: str) -> Iterator[str]:
    from .ssh_to_job import lines_of

    return lines_of(text)


def _text_of(name: str) -> str:
    try:
        return read_text(name)
    except OSError as error:
        told = f"\nERROR: Failed to open command file ({name}) ({error.strerror})\n"
        raise UsageError(f"submit file {name}: {error.strerror}", told=told) from None


def _queue_of(arguments: Arguments) -> str | None:
    """Return the queue statement that the command line gives, if there is one."""
    given = list(arguments.every("queue", "iterate", "table", "append"))
    given = [one for one in given if one.name != "append" or _QUEUE.match(one.values[0])]
    if len(given) > 1:
        told = "condor_submit: only one -queue command allowed\n"
        raise UsageError("only one of -queue, -iterate, -table and -append 'queue ...', and once", told=told)
    if not given:
        return None
    return " ".join([*(["from table"] if given[0].name == "table" else []), *given[0].values])


def _named(arguments: Arguments) -> Iterator[str]:
    """Yield the lines that name the batch: they win over the file's own."""
    for option, attribute in (("batch-name", "JobBatchName"), ("batch-id", "JobBatchId")):
        if arguments.has(option):
            name = arguments.value(option)
            yield f"MY.{attribute} = " + (name if name.startswith('"') else f'"{name}"')


def print_warnings(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


HEADINGS: Final[dict[bool | None, str]] = {True: "Dry-Run job(s)", False: "Storing job ClassAd(s)"}
"""What comes before the dots of a dry run (True) and of a dump (False)."""


def heading(arguments: Arguments) -> str:
    """Return what condor_submit prints before it reads the submit file."""
    option = arguments.last("dry-run", "dump")
    dumps = option is not None and option.name == "dump" and option.values[0] == STANDARD_INPUT
    quiet = dumps or arguments.has("terse", "json") or STANDARD_INPUT in arguments.words
    return "" if quiet else HEADINGS.get(option and option.name == "dry-run", "Submitting job(s)")
