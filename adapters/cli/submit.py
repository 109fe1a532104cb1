"""``poolbook submit``: from a file, or standard input, to the queue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

from ..condor_tools.options import HELP, LOG, Arguments, Command, Option, Refusal, UsageError, parse
from ..runtime.commands import Terms, ask, is_served, new_id
from .common import log_of, log_option

READING = (
    Option("append", 1, "<line>", "a line to be read after the file's own, before its queue statement", also="a"),
    Option("queue", 1, "<args>...", "what a queue statement would say, for a file that has none: -queue 10"),
)
"""The options that say how a submit file is read."""
OPTIONS = (
    *READING,
    Option("terse", 2, "", "print the ids alone: 12.0 - 12.9"),
    Option("verbose", 1, "", "print the ads of the jobs"),
    Option("json", 2, "", "print the answer as JSON"),
    LOG,
    HELP,
)
_ONE_POOL = "a log is one pool; name another with -log"
_REFUSED = (
    Option("name", 1, refused=_ONE_POOL),
    Option("remote", 1, refused=_ONE_POOL),
    Option("pool", 2, refused=_ONE_POOL),
    Option("addr", 2, refused=_ONE_POOL),
    Option("spool", 1, refused="jobs find their files where they are: nothing is copied into a spool yet"),
    Option("interactive", 1, refused="jobs have no terminal yet; +InteractiveJob = true is what policies ask for"),
    Option("batch-name", 1, refused="say it in the file, or by -append 'batch_name = NAME'"),
    Option("file", 3, refused="name the file: poolbook submit FILE"),
    Option("factory", 3, refused="jobs are made at once, not as they run: late materialization is not there yet"),
    Option("maxjobs", 4, refused="a submission is taken whole or refused"),
    Option("single-cluster", 8, refused="a submission is always one cluster"),
    Option("dump", 2, refused="-dry-run FILE writes the jobs' ads"),
    Option("unused", 2, refused="commands that nothing reads are always told"),
    Option("disable", 3, refused="permissions of files are checked when jobs start"),
    Option("allow-crlf-script", 2, refused="a script with CRLF line ends cannot be run: convert it"),
    Option("debug", 3, refused="what is wrong is printed"),
)
"""Options of condor_submit that are not there, or not yet."""
WORDS = (("job.sub", "a submit file; - is standard input"), ("name=value", "a macro, known before the first line"))
SUBMIT = Command(
    "submit",
    "[FILE] [name=value ...] [options]",
    "Puts jobs into the queue, as a submit description asks for.",
    (
        *OPTIONS,
        Option("dry-run", 3, "<file>", "write the jobs' ads to a file (- prints them), and queue nothing", ":full"),
        *_REFUSED,
    ),
    (
        ("poolbook submit job.sub", ""),
        ("poolbook submit -dry-run - job.sub", "look before"),
    ),
    WORDS,
)


@frozen
class Source:
    """What is submitted: its text, its name, and what the command line adds."""

    text: str
    name: str
    folder: Path
    macros: Mapping[str, str]
    append: Sequence[str]
    queue: str | None
    dry: bool
    """Whether nothing is queued, so that nothing need be there."""
    own: Mapping[str, str] = Factory(dict)
    """What the configuration of whoever submits says to submissions."""

    def parsed(self, terms: Terms) -> Any:
        """The submission, on the pool's terms. Warnings go to standard error."""
        import time

        from ..machine.host import user_name
        from ..runtime.submission import checked, not_followed, submission_of

        found = submission_of(
            self.text, user=user_name(), folder=self.folder, terms=terms, now=int(time.time()), file=self.name,
            macros=self.macros, append=self.append, queue=self.queue, own=self.own,
        )  # fmt: skip
        for warning in (*found.warnings, *not_followed(self.own, terms)):
            print(f"WARNING: {warning}", file=sys.stderr)
        return found if self.dry else checked(found)


def source_of(arguments: Arguments, own: Mapping[str, str] | None = None) -> Source:
    """What the command line names, for whoever has ``own`` settings.

    :raises UsageError: no file, or one that cannot be read
    """
    macros: dict[str, str] = {}
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
    dry = arguments.has("dry-run")
    append = [given.values[0] for given in arguments.every("append")]
    queue = arguments.last("queue")
    return Source(
        text, name, Path.cwd(), macros, append, None if queue is None else " ".join(queue.values), dry, own or {}
    )


def request_of(source: Source, keep: Callable[[Any], None] = lambda parsed: None) -> Callable[[Terms], dict[str, Any]]:
    """The request that submits `source`, as a function of the pool's terms; `keep` is given what was parsed."""
    id = new_id()

    def request(terms: Terms) -> dict[str, Any]:
        from ..machine.host import user_name
        from ..runtime.submission import as_json, submit_request

        parsed = source.parsed(terms)
        keep(parsed)
        return as_json(submit_request(parsed, id, user_name(), terms.cluster, source.name))

    return request


def submit(argv: Sequence[str]) -> int:
    arguments = parse(SUBMIT, argv)
    own = _own_settings(log_of(arguments))
    dry = arguments.last("dry-run")
    if dry is not None and not arguments.words and Path(dry.values[0]).is_file():
        # `submit --dry-run job.sub`: its value is what is to be submitted, and there is nowhere to write but here.
        return _dry_run(arguments, source_of(arguments._replace(words=dry.values), own), "-")
    source = source_of(arguments, own)
    if dry is not None:
        return _dry_run(arguments, source, dry.values[0])
    kept: list[Any] = []
    answer = ask(log_of(arguments), request_of(source, kept.append), create=_domains(own))
    print(announced(arguments, answer, kept[-1]), end="")
    if not is_served(log_of(arguments)):
        ending = log_option(log_of(arguments))
        ways = f"`poolbook resume{ending}` runs the jobs and ends, `poolbook serve{ending}` goes on running"
        print(f"The pool is not running: {ways}.", file=sys.stderr)
    return 0


def announced(arguments: Arguments, answer: Mapping[str, int], parsed: Any) -> str:
    """What is printed of jobs that were submitted."""
    cluster, count = answer["cluster"], answer["count"]
    if arguments.has("json"):
        import json

        return json.dumps([{"ClusterId": cluster, "FirstProcId": 0, "LastProcId": count - 1}], indent=2) + "\n"
    if arguments.has("terse"):
        return f"{cluster}.0 - {cluster}.{count - 1}\n"
    text = "Submitting job(s)"
    if arguments.has("verbose"):
        text += "\n" + "".join(_verbose(parsed, proc) for proc in range(count))
    else:
        text += "." * min(count, 20) + "\n"
    return text + f"{count} job(s) submitted to cluster {cluster}.\n"


def _verbose(parsed: Any, proc: int) -> str:
    ad = parsed.ad_of(proc)
    lines = "".join(f"{name} = {ad[name]}\n" for name in sorted(ad, key=str.lower))
    return f"** Proc {ad['ClusterId']}.{proc}:\n{lines}\n"


def _own_settings(url: str) -> dict[str, str]:
    from ...domain.config import ConfigError
    from ..runtime.submission import configured

    try:
        own, warnings = configured()
    except ConfigError as error:
        raise Refusal(f"poolbook: {error}") from None
    if warnings and not is_served(url):  # where one runs, it has told them
        for warning in warnings:
            print(f"poolbook submit: warning: {warning}", file=sys.stderr)
    return own


def _domains(own: Mapping[str, str]) -> dict[str, str]:
    """What a pool is founded with that a submission begins: a server is to find its users where they belong."""
    from ...domain.state.settings import DOMAINS

    return {name: own[name] for name in DOMAINS if name in own}


def _terms(url: str, own: Mapping[str, str]) -> Terms:
    """The terms of the pool to which nothing is submitted; if there is none, those of the one that would be begun."""
    from ...domain.ports.log import LogMissing
    from ...domain.state.evolve import fold
    from ...domain.state.settings import DOMAINS
    from ..machine.host import host_name
    from ..stores import open_log

    try:
        log = open_log(url, create=False, read_only=True)
    except LogMissing:
        return Terms(1, {**dict.fromkeys(DOMAINS, host_name()), **_domains(own)})
    try:
        return Terms.of(fold(log.read_stream("pool")), 1)
    finally:
        log.close()


def _dry_run(arguments: Arguments, source: Source, path: str) -> int:
    from ...domain.submit import dry_run

    parsed = source.parsed(_terms(log_of(arguments), source.own))
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
