"""``poolbook submit``: queue the jobs of a submit file or of standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..condor_tools.options import Arguments, UsageError, command_table, parse
from ..runtime import commands
from ..runtime.commands import is_served
from ..runtime.requests import Refused, SubmitDescription, Submitted, Terms, new_id
from .common import log_of, log_option

SUBMIT = command_table("submit")
BY_POLICY = ("Failed to commit job submission", "Failed to create proc", "MAX_JOBS_SUBMITTED exceeded")
"""How refusals begin that the schedd's policy gives, which are told in condor_submit's words."""


def description_of(arguments: Arguments) -> SubmitDescription:
    """Return the submit file that the command line names, with the command line's additions. Raise `UsageError` if no
    file is named, or it cannot be read."""
    macros = {"max_materialize": "0"} if arguments.has("factory") else {}
    files: list[str] = []
    for word in arguments.words:
        name, equals, value = word.partition("=")
        if equals and name and "/" not in name:
            macros[name] = value
        else:
            files.append(word)
    if len(files) > 1:
        raise UsageError(f"one submit file at a time, not {' and '.join(files)}")
    name = files[0] if files else "-"
    if name == "-":
        if not files and sys.stdin.isatty():
            raise UsageError("no submit file is named: poolbook submit FILE, or - for standard input")
        text = sys.stdin.buffer.read().decode("utf-8", errors="surrogateescape")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise UsageError(f"submit file {name}: {error.strerror}") from None
    queue = arguments.last("queue")
    return SubmitDescription(
        id=new_id(),
        text=text,
        file=name,
        folder=os.getcwd(),
        macros=macros,
        append=arguments.values("append"),
        queue=None if queue is None else " ".join(queue.values),
        environment=dict(os.environ),
    )


def print_warnings(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def submit(argv: Sequence[str]) -> int:
    arguments = parse(SUBMIT, argv)
    dry = arguments.last("dry-run")
    if dry is not None and not arguments.words and Path(dry.values[0]).is_file():
        # `submit --dry-run job.sub`: its value is the submit file, and the output goes to standard output.
        return _dry_run(arguments, description_of(arguments._replace(words=dry.values)), "-")
    description = description_of(arguments)
    if dry is not None:
        return _dry_run(arguments, description, dry.values[0])
    try:
        done = commands.submit(log_of(arguments), description, keep=arguments.has("verbose"))
    except Refused as refused:
        if not str(refused).startswith(BY_POLICY):
            raise
        print_warnings([*refused.warnings, refused_by_policy(str(refused))])
        return 1
    print_warnings([*done.warnings, *warned_by_policy(done.warning)])
    print(announced(arguments, done), end="")
    if not is_served(log_of(arguments)):
        ending = log_option(log_of(arguments))
        ways = f"`poolbook resume{ending}` runs the jobs and ends, `poolbook serve{ending}` goes on running"
        print(f"The pool is not running: {ways}.", file=sys.stderr)
    return 0


def refused_by_policy(refusal: str) -> str:
    """Return what condor_submit says of a submission that the schedd refuses."""
    return f"ERROR: {refusal.rstrip()}"


def warned_by_policy(warning: str) -> list[str]:
    """Return what condor_submit says of one that the schedd takes with a warning: the heading, then the words."""
    return [f"WARNING: {line}" for line in warning.split("\n", 1) if line]


def announced(arguments: Arguments, done: Submitted) -> str:
    """Return the message about submitted jobs."""
    cluster, count = done.cluster, done.jobs
    if arguments.has("json"):
        import json

        return json.dumps([{"ClusterId": cluster, "FirstProcId": 0, "LastProcId": count - 1}], indent=2) + "\n"
    if arguments.has("terse"):
        return f"{cluster}.0 - {cluster}.{count - 1}\n"
    text = "Submitting job(s)"
    if arguments.has("verbose"):
        text += "\n" + "".join(_verbose(done.parsed, proc) for proc in range(count))
    else:
        text += "." * min(count, 20) + "\n"
    return text + f"{count} job(s) submitted to cluster {cluster}.\n"


def _verbose(parsed: Any, proc: int) -> str:
    ad = parsed.ad_of(proc)
    lines = "".join(f"{name} = {ad[name]}\n" for name in sorted(ad, key=str.lower))
    return f"** Proc {ad['ClusterId']}.{proc}:\n{lines}\n"


def _terms(url: str, own: Mapping[str, str]) -> Terms:
    """Return the submission terms of the pool, or those of the pool that would be begun; nothing is submitted."""
    from ...domain.ports.log import LogMissing
    from ...domain.state.evolve import fold
    from ...domain.state.settings import DOMAINS
    from ..machine.host import host_name
    from ..stores import open_log

    try:
        log = open_log(url, create=False, read_only=True)
    except LogMissing:
        return Terms(1, {**dict.fromkeys(DOMAINS, host_name()), **{name: own[name] for name in DOMAINS if name in own}})
    try:
        return Terms.of(fold(log.read_stream("pool")), 1)
    finally:
        log.close()


def _dry_run(arguments: Arguments, description: SubmitDescription, path: str) -> int:
    from ...domain.submit import dry_run
    from ..runtime.submission import Reading

    url, reading = log_of(arguments), Reading(description)
    own, warnings = reading.configured()
    if not is_served(url):  # a server has printed them
        print_warnings(f"poolbook submit: warning: {warning}" for warning in warnings)
    parsed, lines = reading.parsed(_terms(url, own), own)
    print_warnings(lines)
    text = "".join(dry_run(parsed))
    if path == "-":
        print("Dry-Run job(s)" + "." * min(parsed.count, 20))
        print(f"{parsed.count} job(s) dry-run to cluster 1.")
        sys.stdout.write(text)
        return 0
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise UsageError(f"-dry-run {path}: {error.strerror}") from None
    print(f"Dry-Run job(s){'.' * min(parsed.count, 20)}\n{parsed.count} job(s) dry-run to cluster 1.")
    return 0
