"""``poolbook submit`` and condor_submit: queue the jobs of a submit file or of standard input.

Source of the tool's messages: HTCondor's submit.cpp, and recordings of its output.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...domain.errors import PoolbookError
from ..bounded_text import read_input, read_text
from ..condor_tools.options import (
    Arguments,
    GivenOption,
    Help,
    NotHere,
    ToolError,
    UsageError,
    command_table,
    last_number,
    parse,
)
from ..condor_tools.tool_options import ToolEnded, htcondor_message, number_message, usage_of
from ..runtime import pool_client
from ..runtime.elsewhere import is_elsewhere
from ..runtime.pool_client import is_served
from ..runtime.requests import NO_JOBS, POLICY, RequestRefused, SubmitDescription, Submitted, new_id
from .common import log_option, selected_log

if TYPE_CHECKING:
    from ...domain.submit import Submission
    from ..runtime.requests import SubmitTerms

POOL_OPTIONS = ("name", "pool", "remote", "address")
"""Options that name a schedd or pool; it must be this one."""
SUBMIT = command_table("submit")
STANDARD_INPUT: Final = "-"
_NAME = r"(?a)[\w./]+"
_QUEUE = r"(?i)\s*(?:queue|itera?t?e?)(?=\s|$)"


def submit(argv: Sequence[str]) -> int:
    arguments = parse(SUBMIT, argv)
    try:
        if requests_output_only(arguments):
            return print_requested_output(arguments)
        submitted, message = submit_jobs(arguments)
    except (PoolbookError, RequestRefused) as error:
        if error.code == NO_JOBS:
            print_warnings([f"WARNING: {error}"])
            return 0
        if isinstance(error, PoolbookError) or error.code != POLICY:
            raise
        print_warnings([*error.warnings, f"ERROR: {error.tool}"])
        return 1
    print_warnings([*submitted.warnings, *policy_warning_lines(submitted.warning)])
    print(message, end="", flush=True)
    return finish_submission(arguments, submitted)


def requests_output_only(arguments: Arguments) -> bool:
    """Return True if the command line requests output (-dry-run, -dump or -capabilities) instead of a submission."""
    return arguments.has("capabilities", "dry-run", "dump")


def print_requested_output(arguments: Arguments) -> int:
    selected_log(arguments, *POOL_OPTIONS)
    if arguments.has("capabilities"):
        from ..machine.host import host_name

        print(f"Schedd {host_name()}\n Has Late Materialization enabled")
        return 0
    return dry_run(arguments)


def submit_jobs(arguments: Arguments) -> tuple[Submitted, str]:
    """Queue the jobs, and return the message about them. Raise the errors of ``commands.submit``, and `UsageError` or
    `ToolError` if the command line is invalid."""
    url = selected_log(arguments, *POOL_OPTIONS)
    if arguments.has("interactive") and is_elsewhere(url):
        raise ToolError("ERROR: -interactive needs a pool on this machine; submit the job on the access point")
    if arguments.has("interactive") and not is_served(url):
        advice = f"run `poolbook serve{log_option(url)}` to serve it and run its jobs"
        raise ToolError(f"ERROR: -interactive waits for its job to run, and the log is not being served; {advice}")
    description = description_of(arguments)
    if is_elsewhere(url):
        description = description._replace(spool=True, elsewhere=True)
    is_verbose = _prints_ads(arguments, description)
    submitted = pool_client.submit(url, description, keep=is_verbose)
    if description.spool:
        from .transfer_data import spool_submission

        spool_submission(url, submitted.cluster)
    return submitted, submission_message(arguments, submitted, description.file, is_verbose)


def finish_submission(arguments: Arguments, submitted: Submitted) -> int:
    """Complete a submission and return the exit code: connect the user to an interactive job, or explain on standard
    error how to run the jobs if the log is not being served."""
    if arguments.has("interactive"):
        from .jobs_at_work import run_interactive_job

        return run_interactive_job(selected_log(arguments), submitted.cluster)
    url = selected_log(arguments, *POOL_OPTIONS)
    if not is_served(url):
        log_text = log_option(url)
        ways_text = f"`poolbook resume{log_text}` runs the jobs and ends, `poolbook serve{log_text}` keeps running"
        print(f"The pool is not running: {ways_text}.", file=sys.stderr)
    return 0


def _prints_ads(arguments: Arguments, description: SubmitDescription) -> bool:
    """Check whether to print the jobs' ads: with -verbose, or if the output file is -, unless -terse is given."""
    if arguments.has("json"):
        return False
    return arguments.last_name("verbose", "terse") == "verbose" or (
        not arguments.has("terse") and STANDARD_INPUT in (*arguments.words, *arguments.values("file"))
    )


def policy_warning_lines(warning: str) -> list[str]:
    """Return condor_submit's text, with its heading, for a submission that the schedd accepts with a warning."""
    return [f"WARNING: {line}" for line in warning.split("\n", 1) if line]


def submission_message(arguments: Arguments, submitted: Submitted, file: str, is_verbose: bool) -> str:
    """Return the message about the submitted jobs of a file; if ``is_verbose``, with their ads."""
    cluster, count = submitted.cluster, submitted.jobs
    if arguments.has("json"):
        import json

        return json.dumps([{"ClusterId": cluster, "FirstProcId": 0, "LastProcId": count - 1}], indent=2) + "\n"
    if arguments.last_name("verbose", "terse") == "terse":
        return f"{cluster}.0 - {cluster}.{count - 1}\n"
    if is_verbose:
        from ...domain.submit import dry_run as format_full_ads

        ads = "" if submitted.factory else "".join(format_full_ads(submitted.parsed, verbose=True))
        return f"{ads}\n" if file == STANDARD_INPUT else f"Submitting job(s){ads}\n\n"
    dots_text = "" if submitted.factory else "." * min(count, 20)  # a dot for each job
    return f"Submitting job(s){dots_text}\n{count} job(s) submitted to cluster {cluster}.\n"


def description_of(arguments: Arguments) -> SubmitDescription:
    """Return the submit file that the command line names, with the additions from the command line. Raise `UsageError`
    if no file is named, or it cannot be read."""
    macros = {"max_materialize": "0"} if arguments.has("factory") else {}
    files = arguments.values("file")
    for word in arguments.words:
        name, equals, value = word.partition("=")
        if equals and name and "/" not in name:
            if not re.fullmatch(_NAME, name.strip()):
                message = f"condor_submit: invalid attribute name '{name}' for attrib=value assigment\n"
                fix = f"'{name}' is not a valid name; use MY.{name} for an attribute"
                raise UsageError(f"{word}: {fix}", tool_message=message)
            macros[name.strip()] = value
        else:
            files.append(word)
    if len(files) > 1:
        raise UsageError(f"specify only one submit file, not {' and '.join(files)}")
    queue = _queue_statement(arguments)
    if interactive := arguments.has("interactive"):
        from .jobs_at_work import DESCRIPTION, interactive_lines
    if interactive and arguments.has("factory"):
        raise UsageError(
            "use either -interactive or -factory, which may create the job later", tool_message=_LATE_ERROR
        )
    if interactive and not files:
        name, text, queue = "", DESCRIPTION, queue or "1"
    elif files and files[0] != STANDARD_INPUT:
        name, text = files[0], _text_of(files[0])
    elif not files and queue is not None and (macros or arguments.has("append")):
        name, text = "", ""  # the command line contains the whole description
    elif not files and sys.stdin.isatty():
        raise UsageError("specify a submit file: poolbook submit FILE, or - for standard input")
    else:
        name, text = STANDARD_INPUT, read_input()
    return SubmitDescription(
        id=new_id(),
        text=text,
        file=name,
        folder=os.getcwd(),
        macros=macros,
        append=[
            *(line for line in arguments.values("append") if not re.match(_QUEUE, line)),
            *_batch_name_lines(arguments),
            *(interactive_lines(text) if interactive else ()),
        ],
        queue=queue,
        environment=dict(os.environ),
        most_jobs=last_number(SUBMIT, arguments, "maxjobs", least=-1) or 0,
        toggle_unused=len(list(arguments.all_given("unused"))) % 2 == 1,
        crlf_scripts=arguments.has("allow-crlf-script"),
        spool=arguments.has("spool", "remote"),
    )


_LATE_ERROR = "\nERROR: Interactive jobs cannot be materialized late\n"


def _text_of(name: str) -> str:
    try:
        return read_text(name)
    except OSError as error:
        message = f"\nERROR: Failed to open command file ({name}) ({error.strerror})\n"
        raise UsageError(f"submit file {name}: {error.strerror}", tool_message=message) from None


def _queue_statement(arguments: Arguments) -> str | None:
    options = arguments.all_given("queue", "iterate", "table", "append")
    given_options = [option for option in options if option.name != "append" or re.match(_QUEUE, option.values[0])]
    if len(given_options) > 1:
        message = "condor_submit: only one -queue command allowed\n"
        raise UsageError("use only one of -queue, -iterate, -table and -append 'queue ...', once", tool_message=message)
    if not given_options:
        return None
    return " ".join([*(["from table"] if given_options[0].name == "table" else []), *given_options[0].values])


def _batch_name_lines(arguments: Arguments) -> Iterator[str]:
    for option, attribute in (("batch-name", "JobBatchName"), ("batch-id", "JobBatchId")):
        if arguments.has(option):
            name = arguments.value(option)
            yield f"MY.{attribute} = " + (name if name.startswith('"') else f'"{name}"')


def print_warnings(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


HEADINGS: Final[dict[bool | None, str]] = {True: "Dry-Run job(s)", False: "Storing job ClassAd(s)"}
"""The text before the dots: of a dry run (True) and of a dump (False)."""


def heading(arguments: Arguments) -> str:
    """Return the text that condor_submit prints before it reads the submit file."""
    option = arguments.last("dry-run", "dump")
    is_dump = option is not None and option.name == "dump" and option.values[0] == STANDARD_INPUT
    is_quiet = is_dump or arguments.has("terse", "json") or STANDARD_INPUT in arguments.words
    return "" if is_quiet else HEADINGS.get(option and option.name == "dry-run", "Submitting job(s)")


DumpForm = Callable[["Submission"], Iterator[str]]
_NO_FILE = (
    "no submit file is named, because '{}' is the output file; use poolbook submit {} {} FILE, or - for standard input"
)


def dry_run(arguments: Arguments) -> int:
    """Print the jobs that would be submitted, without submitting them. Read the submit file as for a submission, and
    write the jobs' ads to the file that the option names."""
    from ...domain.submit import dry_run as format_full_ads

    given_options = list(arguments.all_given("dry-run", "dump"))
    if len({option_given.name for option_given in given_options}) > 1:
        text = "-dump <file> and -dry-run <file> cannot be used together"
        raise UsageError(text, tool_message=f"condor_submit: {text}\n")
    option = given_options[-1]
    path, form = option.values[0], _dump_form(option)
    if not arguments.words and not arguments.has("file"):
        if option.name == "dump" or not Path(path).is_file():
            raise UsageError(_NO_FILE.format(path, option.spelling, path))
        # In `submit --dry-run job.sub`, the option's value is the submit file; complete ads go to standard output.
        arguments, path, form = arguments._replace(words=(path,)), STANDARD_INPUT, format_full_ads
    parsed = _parse_submission(arguments)
    is_dry, terse = option.name == "dry-run", arguments.has("terse")
    if path == STANDARD_INPUT:
        sys.stdout.writelines(_dumped_ads(parsed, form, is_dry, terse, form is format_full_ads))
        return 0
    counted_text = HEADINGS[is_dry] + "." * min(parsed.count, 20) + _footer(parsed, is_dry)
    announcement = _job_ids(parsed) if terse else counted_text
    try:
        with open(path, "w") as file:
            file.writelines(form(parsed))
    except OSError as error:
        print(announcement if form is format_full_ads else "" if terse else HEADINGS[is_dry], end="", flush=True)
        text = "Failed to open file " + ("-dry-run output file" if is_dry else "to dump ClassAds into")
        message = f"\nERROR: {text} ({error.strerror})\n"
        raise UsageError(f"{option.spelling} {path}: {error.strerror}", tool_message=message) from None
    print(announcement)
    return 0


def _footer(submission: Submission, is_dry: bool) -> str:
    return f"\n{submission.count} job(s) {'dry-run' if is_dry else 'submitted'} to cluster 1."


def _job_ids(submission: Submission) -> str:
    return f"1.0 - 1.{submission.count - 1}"


def _dumped_ads(submission: Submission, form: DumpForm, is_dry: bool, terse: bool, is_entire: bool) -> Iterator[str]:
    if not is_dry:
        yield from form(submission)
        yield "" if terse else "\n"
    elif terse:
        yield from form(submission)
        yield _job_ids(submission) + "\n"
    elif is_entire:
        yield f"{HEADINGS[is_dry]}{'.' * min(submission.count, 20)}{_footer(submission, is_dry)}\n"
        yield from form(submission)
    else:
        yield HEADINGS[is_dry]
        yield from (f"{job}." for job in form(submission))
        yield f"{_footer(submission, is_dry)}\n"


def _dump_form(option: GivenOption) -> DumpForm:
    from ...domain.submit import dry_run as format_full_ads
    from ...domain.submit.submission import format_sent_ads

    form = {"": format_sent_ads, "full": format_full_ads}.get(option.qualifier or "")
    if form is None:
        text = f"unknown option {option.qualifier} for -dry-run:<opts>"
        raise UsageError(f"{text}; the only option is full", tool_message=f"{text}\n")
    return form


def _parse_submission(arguments: Arguments) -> Submission:
    from ..runtime.disk import Disk, ReadOnlyDisk
    from ..runtime.submit_request import Reading, check_files

    description, url = description_of(arguments), selected_log(arguments, *POOL_OPTIONS)
    folder = Path(description.folder)
    reading = Reading(description, Disk(folder) if arguments.has("trust") else ReadOnlyDisk(folder))
    own_settings, warnings = reading.user_settings()
    if not is_served(url):  # otherwise the server has printed them
        print_warnings(f"poolbook submit: warning: {warning}" for warning in warnings)
    submission, lines = reading.parse_with_terms(_submit_terms(url, own_settings), own_settings)
    submission = check_files(submission, folder, description.crlf_scripts)
    print_warnings(lines)
    return submission


def _submit_terms(url: str, own: Mapping[str, str]) -> SubmitTerms:
    """Return the submission terms of the pool, or of the pool that would be created, without submitting anything."""
    if is_elsewhere(url):
        from ..runtime.requests import SubmitTerms

        return SubmitTerms(**{**pool_client.ask(url, {"kind": "ReserveCluster"}), "cluster": 1})
    from ...domain.fold.evolve import fold
    from ...domain.ports.log import LogMissing
    from ...domain.state.pool_settings import DOMAINS
    from ..machine.host import host_name
    from ..runtime.queries import Queries
    from ..runtime.requests import SubmitTerms

    try:
        with Queries(url) as queries:
            state = fold(queries.log.read_stream("pool"))
            if not state.settings:
                raise LookupError(f"{url} has no event that founded its pool")
            return SubmitTerms.from_state(state, 1)
    except LogMissing:
        return SubmitTerms(1, {name: own.get(name, host_name()) for name in DOMAINS})


_PLACE = r"( was unused by condor_submit)(?:, line \d+)?\. Is it a typo\?.*"
"""The position of an unused line in a submit file, and the similar names."""


def condor_submit(argv: Sequence[str]) -> int:
    usage = usage_of("submit")
    try:
        arguments = parse(SUBMIT, argv)
    except Help:
        raise ToolEnded(0, usage) from None
    except UsageError as wrong:
        text = str(wrong).removeprefix("poolbook submit: ")
        if wrong.lacks_value:
            text = htcondor_message(wrong) or f"-{wrong.lacks_value} requires another argument"
        raise ToolEnded(1, usage if wrong.option else f"condor_submit: {text}\n") from None
    try:
        if requests_output_only(arguments):
            return print_requested_output(arguments)
        return _submit_as_tool(arguments)
    except UsageError as wrong:
        message = f"{number_message(wrong, 'argument ')}\n" if wrong.number else wrong.tool_message
        raise ToolEnded(1, message or f"\nERROR: {wrong}\n") from None
    except NotHere:
        raise
    except ToolError as refusal:
        raise ToolEnded(1, f"\n{refusal}\n") from None
    except (PoolbookError, RequestRefused) as error:
        beginning = heading(arguments)
        if error.code != NO_JOBS:
            message = f"ERROR: {error.tool}" if error.tool else f"\nERROR: {error}"
            lines = [*map(_without_place, getattr(error, "warnings", ())), message]
            raise ToolEnded(1, "".join(f"{line}\n" for line in lines), beginning) from None
        is_quiet = arguments.has("terse")
        raise ToolEnded(0, "" if is_quiet else f"\nWARNING: {error}\n", f"{beginning}\n" if beginning else "") from None


def _submit_as_tool(arguments: Arguments) -> int:
    submitted, message = submit_jobs(arguments)
    print(message, end="", flush=True)
    if not arguments.has("terse", "json", "interactive") and message.endswith(f" to cluster {submitted.cluster}.\n"):
        print(f"To monitor your job(s), run: condor_watch_q -clusters {submitted.cluster}", file=sys.stderr)
    print_warnings(map(_without_place, (*submitted.warnings, *policy_warning_lines(submitted.warning))))
    return finish_submission(arguments, submitted)


def _without_place(line: str) -> str:
    """Return a warning without the line number and the similar names, which condor_submit does not print."""
    return re.sub(_PLACE, r"\1. Is it a typo?", line)


def submitted_by_tool(path: str) -> str:
    """Submit a file for another tool like ``condor_submit -terse``, and return the cluster's number. Return an empty
    string if the submission is rejected; condor_submit has then printed the reason."""
    from .main import main

    output = io.StringIO()
    with redirect_stdout(output):
        code = main(["condor_submit", "-terse", path])
    match = re.match(r"(\d+)\.\d+ -", output.getvalue(), re.ASCII)
    return "" if code or match is None else match[1]
