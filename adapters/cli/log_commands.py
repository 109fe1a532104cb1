"""The ``why``, ``log``, ``verify`` and ``views`` commands, which inspect a log."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING

from ...replay.listing import members as listing
from ...replay.narration.formatting import counted, instant
from ..condor_tools.options import ToolError, UsageError, command_table, last_number, parse
from ..condor_tools.terminal import OUTCOMES, STATES, ProgressLine, as_one_line, print_colored, width_of, wrap_text
from ..machine.local_time import local_time
from ..stores.location import safe_url
from .common import selected_log, suggested_commands
from .time_window import Window, instant_of, window_of

if TYPE_CHECKING:
    from ...domain.events import Event
    from ...domain.ports.log import EventStore
    from ...replay.narration.sentences import Explanation
    from ...replay.recheck_cycles import RecheckedCycles
    from ..runtime.log_verification import Verification
    from ..runtime.queries import Queries

WHY = command_table("why")
LOG_COMMAND = command_table("log")
VERIFY = command_table("verify")
VIEWS = command_table("views")


def _print_json_list(items: Iterable[object]) -> None:
    write = sys.stdout.write
    separator = "[\n"
    for item in items:
        write(separator + json.dumps(item))
        separator = ",\n"
    write("\n]\n" if separator != "[\n" else "[]\n")


def why(argv: Sequence[str]) -> int:
    arguments = parse(WHY, argv)
    if len(arguments.words) != 1:
        raise UsageError("poolbook why: specify one job (12.3), cluster (12) or slot (slot1@host)")
    from ...replay.narration.sentences import UnknownThingError
    from ..runtime.queries import Queries

    name, url = arguments.words[0], selected_log(arguments, "name", "pool")
    with Queries(url) as queries:
        try:
            at = instant_of("why", arguments, "at", queries.log)
            answer, log_id = queries.why(name, at, local_time(), arguments.values("with")), queries.log.id
            is_cluster = name.isascii() and name.isdigit() and not arguments.has("verbose")
            useful_calls = _suggested_commands(queries.log, name, at) if is_cluster else []
        except ValueError as error:
            raise UsageError(f"poolbook why: {error}") from None
        except UnknownThingError as error:
            raise ToolError(f"poolbook why: {error.args[0]}") from None
    if arguments.has("json"):
        parts = {"answer": answer.lines, "life": answer.life}
        sentences_by_part = ((part, sentence) for part, sentences in parts.items() for sentence in sentences)
        _print_json_list({"part": part, "log": log_id, **sentence.as_dict()} for part, sentence in sentences_by_part)
        return 0
    for text in (line.text for line in answer.lines if line.code != "see_life" or not arguments.has("verbose")):
        print_colored(wrap_text(as_one_line(text), width_of(), LINE_INDENT), OUTCOMES if useful_calls else STATES)
    if arguments.has("verbose"):
        _print_history(answer)
    if useful_calls:
        print(f"\n{suggested_commands(useful_calls, url)}")
    return 0


LINE_INDENT = 4
"""The indentation of continuation lines."""


def _print_history(answer: Explanation) -> None:
    from ...replay.narration.sentences import dated_line

    print()
    for sentence in answer.life:
        indent = len(instant(sentence.at, local_time())) + 2
        print_colored(wrap_text(as_one_line(dated_line(sentence, local_time())), width_of(), indent), STATES)


def _suggested_commands(log: EventStore, cluster: str, at: int | None) -> list[tuple[str, str]]:
    from ...replay.why.cluster import outcomes

    results = outcomes(log, int(cluster), at)
    first_procs = [(results.first_job(status), description) for status, description in _FIRST_LINES.items()]
    command = f"why -verbose {int(cluster)}"
    calls = [(f"{command}.{proc}", f"the first that {what}") for proc, what in first_procs if proc is not None]
    if not results.status:  # the submission was rejected
        return []
    first_call = (f"{command}.{min(results.status)}", "the history of the first")
    return calls or [first_call, (f"log {int(cluster)}", "all events")]


_FIRST_LINES = {"failed": "failed: its history", "held": "is held: its history", "idle": "is idle: its history"}


def log(argv: Sequence[str]) -> int:
    arguments = parse(LOG_COMMAND, argv)
    if len(arguments.words) > 1:
        raise UsageError("poolbook log: specify only one job, cluster, slot or stream")
    from ..runtime.queries import Queries

    zone = local_time()
    try:
        stream = listing.parse_filter(arguments.words[0]) if arguments.words else None
    except ValueError as error:
        raise UsageError(f"poolbook log: {error}") from None
    with Queries(selected_log(arguments, "name", "pool")) as queries:
        window = window_of("log", arguments, "since", "until", queries.log)
        if arguments.has("evicted"):
            from .usage import print_evictions

            return print_evictions(queries, stream, window, zone, arguments.has("json"))
        members, place, width = queries.entries(stream, *window), queries.places(), width_of()
        is_followed, log_id = arguments.has("follow"), queries.log.id
        if is_followed:
            members = chain(members, _later_entries(queries, stream, window))
        dicts = ({"log": log_id, **listing.as_dict(member, place(member.stimulus))} for member in members)
        if not arguments.has("json"):
            for member in members:
                print_line(member, zone, width, place(member.stimulus), flush=is_followed)
        elif is_followed:
            for member_dict in dicts:
                print(json.dumps(member_dict), flush=True)
        else:
            _print_json_list(dicts)
        return 0


_FOLLOW_PAUSE = 0.2  #: seconds between two reads of the log's head


def _later_entries(queries: Queries, stream: listing.StreamFilter | None, window: Window) -> Iterator[listing.Member]:
    """Yield the members of the events that are appended from now on, as they are; without end."""
    log, position = queries.log, queries.log.head.position
    sys.stdout.flush()
    while True:
        if log.refresh().position == position:
            time.sleep(_FOLLOW_PAUSE)
            continue
        if stream is None:
            yield from listing.members_between(log.read(position), window.since, end=window.until)
        else:
            events = log.read_stream(stream.stream, position)
            yield from listing.members_between(events, window.since, stream.proc, window.until)
        position = log.head.position


def verify(argv: Sequence[str]) -> int:
    arguments = parse(VERIFY, argv)
    if arguments.words:
        raise UsageError(f"poolbook verify: {arguments.words[0]!r} is not an option; specify the log with -log")
    from ..runtime.queries import Queries

    url = selected_log(arguments)
    progress = ProgressLine(PROGRESS_INTERVAL)

    def tell(position: int, taken_rows: int, last: int) -> None:
        if progress.is_due():
            progress.show_text(f"{taken_rows} cycles repeated, up to event {position} of {last}")

    workers, scheduler = last_number(VERIFY, arguments, "workers", least=1) or 0, arguments.value("scheduler")
    verification = Queries(url).verify(arguments.has("decisions"), tell, workers, scheduler)
    progress.end()
    if verification.unreadable:
        print(f"poolbook: {verification.unreadable}", file=sys.stderr)
    if arguments.has("json"):
        print(json.dumps(_verdict_json(url, verification), indent=2))
    else:
        _print_verdict(url, verification)
        for line in _repeated_cycle_lines(verification.decisions) if verification.decisions is not None else ():
            print(line)
        if verification.imported:
            print("  its events were imported from an HTCondor pool; `poolbook audit` checks them")
    return 0 if verification.sound else 1


PROGRESS_INTERVAL = 2.0
"""Seconds between two messages about the progress of the cycles on a terminal."""


def _repeated_cycle_lines(recheck: RecheckedCycles) -> Iterator[str]:
    polls = f" and {counted(recheck.polls, 'poll of the defragmentation', 'polls of the defragmentation')}"
    verb = "was" if recheck.taken == 1 and not recheck.polls else "were"
    repeated_text = f"{counted(recheck.taken, 'negotiation cycle')}{polls if recheck.polls else ''} {verb} repeated"
    if not recheck.differing:
        yield f"  {repeated_text}{', with the same results' if recheck.taken + recheck.polls else ''}"
    else:
        differ = "differs" if recheck.differing == 1 else "differ"
        yield f"\n{repeated_text}: {recheck.differing} {differ} from the log:"
    for difference in recheck.differences:
        where = f"at {difference.position}, {instant(difference.at, local_time())}"
        yield f"  {where}: {difference.what} is {difference.logged} in the log, and {difference.again} now"
    if recheck.differing > len(recheck.differences):
        yield f"  and {recheck.differing - len(recheck.differences)} more"
    if recheck.others:
        yield f"  {counted(recheck.others, 'cycle')} cannot be repeated: a version with other rules decided them"
    if recheck.stopped:
        yield f"  the remaining cycles were not repeated: {recheck.stopped}"


def _verdict_json(url: str, verification: Verification) -> dict[str, object]:
    from attrs import asdict

    verdict, decisions = verification.verdict, verification.decisions
    return {
        "log": safe_url(url),
        "id": verification.id,
        "imported": verification.imported,
        "seal": [problem._asdict() for problem in verification.seal],
        "events": verdict.events,
        "dialect": verdict.dialect,
        "transitions": verdict.slots,
        "violations": [asdict(violation) for violation in verdict.violations],
        **({} if decisions is None else {"decisions": asdict(decisions)}),
    }


def _print_verdict(url: str, verification: Verification) -> None:
    verdict = verification.verdict
    move_count = sum(verdict.slots.values()) + sum(verdict.jobs.values())
    print_colored(f"{safe_url(url)}: {'sound' if verification.sound else 'NOT SOUND'}")
    if verification.id:
        print(f"  the log's id is {verification.id}")
    if verification.seal:
        print(f"\nThe seal is broken in {len(verification.seal)} place{'s' * (len(verification.seal) > 1)}:")
        for problem in verification.seal:
            where = f"at {problem.position}" if problem.position is not None else "as a whole"
            print(f"  {where}: {problem.text}")
    else:
        print(f"  the seal holds: {counted(verdict.events, 'event')}, unaltered and complete")
    if verdict.violations:
        print(f"\n{len(verdict.violations)} events were not allowed (dialect {verdict.dialect}):")
        for violation in verdict.violations[:20]:
            print(f"  at {violation.position}, {violation.thing}: {violation.words}")
            for line in violation.story:
                print(f"      {line}")
    elif verdict.events and verdict.dialect:
        row_counts = ", ".join(f"{number}: {count}" for number, count in verdict.slots.items() if count)
        print(f"  all {move_count} transitions are allowed by the dialect {verdict.dialect}")
        print(f"  slot transitions by number: {row_counts or 'none'}")


def views(argv: Sequence[str]) -> int:
    arguments = parse(VIEWS, argv)
    from ..runtime.views import rebuild, views_path

    url = selected_log(arguments)
    position = rebuild(url)
    if arguments.has("json"):
        print(json.dumps({"position": position, "file": views_path(url)}))
    else:
        print(f"The views of {safe_url(url)} were rebuilt, up to event {position}.")
    return 0


INDENT = 10
"""The indentation of continuation lines: the width of the position column."""
MAX_PRINTED_JOBS = 20
"""The number of jobs of one event that are printed live; the others are only counted."""
LIVE_KINDS = frozenset({"match", "no match", "exit"})
"""Kinds of lines that are printed live although they are no transitions."""


def print_line(
    member: listing.Member, zone: tzinfo, width: int | None, place: str = "", *, flush: bool = False
) -> None:
    """Print a line of the log, folded to the terminal's width. `place`: where its imported record is."""
    text = as_one_line(listing.line(member, zone, place))
    if width is not None and len(text) > width:  # columns are of no use in lines that are folded
        text = text[:INDENT] + re.sub(r" {2,}", "  ", text[INDENT:])
    print_colored(wrap_text(text, width, INDENT), STATES)
    if flush:
        sys.stdout.flush()


ROUTINE_KINDS = frozenset({"found", "read", "began", "ended", "rejected"})
"""Lines of an import that are not printed as it reads them: each cycle has some."""


def print_live_lines(first: int, events: Sequence[Event], place: Callable[[str], str] | None = None) -> None:
    """Print the transitions and decisions in `events`, from position `first` on.

    :param place: for an import, the location of a record, as `Queries.places` returns it; routine lines are omitted
    """
    zone, width = local_time(), width_of()
    for position, event in enumerate(events, first):
        members = (
            member
            for member in listing.members(position, event)
            if (member.what not in ROUTINE_KINDS if place is not None else member.target or member.what in LIVE_KINDS)
        )
        for member in islice(members, MAX_PRINTED_JOBS):
            print_line(member, zone, width, "" if place is None else place(member.stimulus))
        more_count = sum(1 for _ in members)
        if more_count:
            print(f"{'':{INDENT}}... and {more_count:,} more like this")
    sys.stdout.flush()
