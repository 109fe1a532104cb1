"""``poolbook import`` and ``follow``: read the logs, history and spool files of an HTCondor pool into a log."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from attrs import asdict

from ...replay.narration.formatting import counted, instant, shorten_text
from ..condor_tools.options import Arguments, ToolError, ToolSyntax, UsageError, command_table, parse
from ..condor_tools.terminal import ProgressLine
from ..machine.local_time import local_time
from ..stores.location import safe_url
from .common import selected_log
from .log_commands import print_live_lines

if TYPE_CHECKING:
    from ...replay.audit_result import Audit
    from ..condor_files.importing.driver import ImportResult
    from ..condor_files.importing.session import ImportSession

IMPORT = command_table("import")
FOLLOW = command_table("follow")
_PROGRESS_TEXT = {"sound": "sound so far", "not sound": "NOT SOUND", "nothing read": "nothing to check yet"}
SHOWN_REJECTIONS = 10
"""Number of rejected records that are printed; the audit lists all of them."""
_PROGRESS_INTERVAL = 5.0
"""Seconds between two progress messages if the output is not a terminal."""


def import_folders(argv: Sequence[str]) -> int:
    arguments = parse(IMPORT, argv)
    if len(arguments.words) == 1 and _is_exported_log(arguments.words[0]):
        return _restore_log(arguments.words[0], arguments)
    as_json = arguments.has("json")
    line = ProgressLine(0.2, _PROGRESS_INTERVAL)

    def tell(path: str, done_bytes: int, total: int, events: int) -> None:
        if line.is_due():
            line.show_text(f"{100 * done_bytes // max(1, total):3d} %  {events:,} events  {path}")

    with _report_unreadable_input(IMPORT), _open_import(IMPORT, arguments) as session:
        result = session.run(None if as_json else tell)
    line.end()
    if as_json:
        print(json.dumps(_as_dict(session.url, result), indent=2))
    else:
        _print_result(session.url, result)
    return 0 if result.counts else 1


def _is_exported_log(path: str) -> bool:
    from ..exports.restore import is_exported_log

    if not os.path.isfile(path):
        return False
    with _report_unreadable_input(IMPORT), open(path, "rb") as file:
        return is_exported_log(file.readline(1 << 20))


def _restore_log(path: str, arguments: Arguments) -> int:
    """Restore a log from an export of its events into a new log."""
    from ..exports.restore import check_export, restore
    from ..stores.opening import open_log

    url = selected_log(arguments)
    with _report_unreadable_input(IMPORT), open(path, "rb") as file:
        check_export(file)
        file.seek(0)
        with closing(open_log(url, create=True)) as log:
            if log.head.position:
                raise ToolError(
                    f"poolbook import: the log {safe_url(url)} already has events; name a new log with -log"
                )
            count = restore(file, log)
    if arguments.has("json"):
        print(json.dumps({"log": safe_url(url), "events": count}))
    else:
        print(f"{safe_url(url)}: {counted(count, 'event')} restored from {path}")
    return 0


def follow(argv: Sequence[str]) -> int:
    from ...replay.forensics.audit.examine import examine
    from ...replay.forensics.imported_log import PlaceNames

    arguments = parse(FOLLOW, argv)
    interval, seconds = _number(arguments, "interval"), _number(arguments, "seconds")
    reported_keys: set[str] = set()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore it
    verdict, position = "nothing read", 0
    with _report_unreadable_input(FOLLOW), _open_import(FOLLOW, arguments) as session:
        try:
            print(f"Following {', '.join(arguments.words)} into {safe_url(session.url)}; Ctrl-C ends it.", flush=True)
            for result in session.rounds(2.0 if interval is None else interval, seconds):
                audit = examine(session.log)
                verdict = audit.verdict
                _print_new_findings(audit, result, reported_keys)
                if position:  # the initial content of the directories is already in the log, and long
                    events = [event for _, event in session.log.read(position)]
                    print_live_lines(position + 1, events, PlaceNames(session.log).name)
                position = session.log.head.position
        except KeyboardInterrupt:
            print()
    print(f"{safe_url(session.url)}: {_PROGRESS_TEXT[verdict]}; `poolbook audit {safe_url(session.url)}`")
    return 0 if verdict == "sound" else 1


def _number(arguments: Arguments, name: str) -> float | None:
    option = arguments.last(name)
    if option is None:
        return None
    try:
        number = float(option.values[0])
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise UsageError(f"poolbook follow: -{name} takes a number of seconds, not {option.values[0]!r}")
    return number


def _open_import(command: ToolSyntax, arguments: Arguments) -> ImportSession:
    from ..condor_files.importing.driver import Options
    from ..condor_files.importing.session import ImportSession

    name = f"poolbook {command.name}"
    if not arguments.words:
        raise UsageError(f"{name}: specify a directory; `{name} -help` has examples")
    options = Options(*map(arguments.value, ("zone", "machine", "time-format")))
    try:
        return ImportSession(arguments.words, selected_log(arguments), options)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


@contextmanager
def _report_unreadable_input(command: ToolSyntax) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ToolError(f"poolbook {command.name}: {error}") from None
    except OSError as error:
        if error.filename is None:  # no file: the reader of standard output has exited
            raise
        raise ToolError(f"poolbook {command.name}: {error.filename}: {error.strerror}") from None


def _as_dict(url: str, result: ImportResult) -> dict[str, object]:
    return {
        "log": safe_url(url),
        "events": result.events,
        "seconds": round(result.seconds, 3),
        "zone": result.zone,
        "kinds": {kind: asdict(counts) for kind, counts in result.counts.items()},
        "copies": [{"file": file, "repeats": original} for file, original in result.copies],
        "skipped": result.skipped,
        "quarantined": [
            {"file": result.paths.get(event.source, ""), "line": event.line, "words": event.words, "text": event.text}
            for event in result.refused
        ],
    }


def _print_result(url: str, result: ImportResult) -> None:
    from ...domain.imported.record_sources import KINDS
    from ..machine.local_time import local_zone

    print(f"{safe_url(url)}: {counted(result.events, 'event')} in {result.seconds:.1f} s")
    width = max((len(KINDS[kind].name) for kind in result.counts), default=0)
    for kind in KINDS:
        counts = result.counts.get(kind)
        if counts is not None:
            new = f", {counts.new} new" if counts.new != counts.files else ""
            refused_text = f", {counts.refused:,} refused" if counts.refused else ""
            files = f"{counted(counts.files, 'file')}{new}"
            print(f"  {KINDS[kind].name:<{width}}  {files}: {counted(counts.lines, 'line')}{refused_text}")
    if result.zone not in ("", local_zone()):
        print(f"  local times are in {result.zone}")
    if result.copies:
        print(f"  {counted(len(result.copies), 'file')} are copies of other files; not read again")
    if result.skipped:
        print(f"  {counted(len(result.skipped), 'other file')}: not recognized; skipped")
    if result.refused:
        print("\nUnreadable records (`poolbook audit` lists all):")
        for event in result.refused[:SHOWN_REJECTIONS]:
            where = f"{result.paths.get(event.source, '')}:{event.line}"
            print(f"  {where}: {event.words}{': ' if event.text else ''}{shorten_text(event.text, 80)}")
    if not result.counts:
        kinds = ", ".join(kind.name for kind in KINDS.values())
        print(
            "  There are no HTCondor files: name the LOG and SPOOL folders (`condor_config_val LOG SPOOL`)."
            f"\n  Poolbook recognizes these files by their content: {kinds}."
        )
    else:
        print(f"\nNext: poolbook audit {safe_url(url)}")


def _print_new_findings(audit: Audit, result: ImportResult, reported_keys: set[str]) -> None:
    moves = sum(audit.transitions.values())
    now = datetime.now().strftime("%H:%M:%S")
    print(f"{now}  {result.events:,} new events, {moves:,} transitions, {sum(audit.jobs.values()):,} jobs", flush=True)
    news = [(f.at, f"violation: {f.thing}: {f.words} [{f.file}:{f.line}]", f.story) for f in audit.violations]
    news += [(finding.at, f"contradiction: {finding.thing}: {finding.words}", ()) for finding in audit.contradictions]
    for at, text, story in sorted(news):
        if text not in reported_keys:
            reported_keys.add(text)
            print("\n    ".join([f"  {instant(at, local_time())}  {text}", *story]), flush=True)
