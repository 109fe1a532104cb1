"""``poolbook submit -dry-run`` and ``-dump``: print what would be submitted, and submit nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ...domain.submit import Submission
from ...domain.submit import dry_run as whole_ads
from ...domain.submit.printing import sent
from ..condor_tools.options import Arguments, Given, UsageError
from ..runtime.commands import is_served
from ..runtime.disk import Disk, ReadOnlyDisk
from ..runtime.requests import SubmitTerms
from ..runtime.submission import Reading, check_files
from .common import log_of
from .submit import HEADINGS, STANDARD_INPUT, description_of, print_warnings

Form = Callable[[Submission], Iterator[str]]
_FORMATS: dict[str, Form] = {"": sent, "full": whole_ads}
_NO_FILE = (
    "no submit file was named, and '{}' was given as the file to write; write poolbook submit {} {} FILE, or - for "
    "standard input"
)


def dry_run(arguments: Arguments) -> int:
    """Read the submit file as a submission does, and write the jobs' ads to the file that the option names."""
    given = list(arguments.every("dry-run", "dump"))
    if len({one.name for one in given}) > 1:
        words = "-dump <file> and -dry-run <file> cannot be used together"
        raise UsageError(words, told=f"condor_submit: {words}\n")
    option = given[-1]
    path, form = option.values[0], _format(option)
    if not arguments.words and not arguments.has("file"):
        if option.name == "dump" or not Path(path).is_file():
            raise UsageError(_NO_FILE.format(path, option.spelled, path))
        # `submit --dry-run job.sub`: its value is the submit file, and the whole ads go to standard output.
        arguments, path, form = arguments._replace(words=(path,)), STANDARD_INPUT, whole_ads
    parsed = _parsed(arguments)
    dry, terse = option.name == "dry-run", arguments.has("terse")
    if path == STANDARD_INPUT:
        sys.stdout.writelines(_shown(parsed, form, dry, terse))
        return 0
    announcement = _ids(parsed) if terse else HEADINGS[dry] + "." * min(parsed.count, 20) + _foot(parsed, dry)
    try:
        with open(path, "w") as file:
            file.writelines(form(parsed))
    except OSError as error:
        print(announcement if form is whole_ads else "" if terse else HEADINGS[dry], end="", flush=True)
        words = "Failed to open file " + ("-dry-run output file" if dry else "to dump ClassAds into")
        told = f"\nERROR: {words} ({error.strerror})\n"
        raise UsageError(f"{option.spelled} {path}: {error.strerror}", told=told) from None
    print(announcement)
    return 0


def _foot(parsed: Submission, dry: bool) -> str:
    return f"\n{parsed.count} job(s) {'dry-run' if dry else 'submitted'} to cluster 1."


def _ids(parsed: Submission) -> str:
    return f"1.0 - 1.{parsed.count - 1}"


def _shown(parsed: Submission, form: Form, dry: bool, terse: bool) -> Iterator[str]:
    """Yield what is printed where the ads go to standard output, too: in the order in which condor_submit does."""
    if not dry:
        yield from form(parsed)
        yield "" if terse else "\n"
    elif terse:
        yield from form(parsed)
        yield _ids(parsed) + "\n"
    elif form is whole_ads:
        yield f"{HEADINGS[dry]}{'.' * min(parsed.count, 20)}{_foot(parsed, dry)}\n"
        yield from form(parsed)
    else:
        yield HEADINGS[dry]
        yield from (f"{job}." for job in form(parsed))
        yield f"{_foot(parsed, dry)}\n"


def _format(option: Given) -> Form:
    form = _FORMATS.get(option.qualifier or "")
    if form is None:
        words = f"unknown option {option.qualifier} for -dry-run:<opts>"
        raise UsageError(f"{words}; there is full", told=f"{words}\n")
    return form


def _parsed(arguments: Arguments) -> Submission:
    description, url = description_of(arguments), log_of(arguments)
    folder = Path(description.folder)
    reading = Reading(description, Disk(folder) if arguments.has("trust") else ReadOnlyDisk(folder))
    own, warnings = reading.configured()
    if not is_served(url):  # a server has printed them
        print_warnings(f"poolbook submit: warning: {warning}" for warning in warnings)
    parsed, lines = reading.parsed(_terms(url, own), own)
    parsed = check_files(parsed, folder, description.crlf_scripts)
    print_warnings(lines)
    return parsed


def _terms(url: str, own: Mapping[str, str]) -> SubmitTerms:
    """Return the submission terms of the pool, or those of the pool that would be begun; nothing is submitted."""
    from ...domain.fold.evolve import fold
    from ...domain.ports.log import LogMissing
    from ...domain.state.settings import DOMAINS
    from ..machine.host import host_name
    from ..runtime.queries import Queries

    try:
        with Queries(url) as queries:
            state = fold(queries.log.read_stream("pool"))
            if not state.settings:
                raise LookupError(f"{url} has no event that founded its pool")
            return SubmitTerms.of(state, 1)
    except LogMissing:
        return SubmitTerms(
            1, {**dict.fromkeys(DOMAINS, host_name()), **{name: own[name] for name in DOMAINS if name in own}}
        )
