"""``poolbook audit``: verify the seal, check every event against the rules, and compare the sources of an import."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from ...replay.narration.formatting import by_row, counted, instant, interval, iso, shorten_text
from ..condor_tools.options import ToolError, UsageError, command_table, parse
from ..condor_tools.terminal import as_one_line, print_colored, width_of, wrap_text
from ..machine.local_time import local_time
from ..stores.location import safe_url
from .common import selected_log

if TYPE_CHECKING:
    from attrs import Attribute

    from ...replay.audit_result import Audit, AuditFinding, Contradiction

_INDENT = 4
"""The number of columns by which continuation lines are indented."""
MAX_FINDINGS = 20
"""The number of findings of each kind that are printed without -all."""

AUDIT = command_table("audit")


def audit(argv: Sequence[str]) -> int:
    arguments = parse(AUDIT, argv)
    if len(arguments.words) > 1 and arguments.has("preemptions"):
        raise UsageError(f"poolbook audit: -preemptions needs only one log, not {' and '.join(arguments.words)}")
    if arguments.words and arguments.has("log"):
        raise UsageError(f"poolbook audit: {arguments.words[0]} and -log both specify a log; use only one of them")
    from ..runtime.queries import Queries

    url, *others = arguments.words or [selected_log(arguments)]
    for folder in filter(os.path.isdir, (url, *others)):
        raise ToolError(
            f"poolbook audit: {folder} is a directory, not a log; `poolbook import {folder} -log audit.db` imports its "
            "files"
        )
    if arguments.has("preemptions"):
        from .usage import print_preemptions

        with Queries(url) as queries:
            return print_preemptions(queries, local_time(), arguments.has("json"))
    results = Queries(url).audit_with(others) if others else [Queries(url).audit()]
    names = [safe_url(each) for each in (url, *others)]
    if arguments.has("json"):
        values = [as_json(name, result) for name, result in zip(names, results, strict=True)]
        print(json.dumps(values if others else values[0], indent=2))
    else:
        for name, result in zip(names, results, strict=True):
            _print_report(name, result, None if arguments.has("all") else MAX_FINDINGS)
    return 0 if all(result.sound for result in results) else 1


def _print_report(name: str, result: Audit, limit: int | None) -> None:
    first, *details = report(name, result, local_time(), limit)
    width = width_of()
    print_colored(wrap_text(first, width))
    for line in details:
        print(wrap_text(as_one_line(line), width, _INDENT))


def report(name: str, audit: Audit, zone: tzinfo, limit: int | None = MAX_FINDINGS) -> Iterator[str]:
    """Yield an audit report's lines, the verdict first. `limit`: the number of findings of each kind; None: all."""
    yield f"{name}: {verdict(audit)}"
    yield from _log_summary_lines(audit, zone)
    yield from _seal_lines(audit)
    # The checks write job histories before the user's time zone is known.
    utc = "" if zone.utcoffset(datetime.now(UTC)) == timedelta(0) else ", with histories in UTC"
    for title, findings in (
        (f"not allowed{utc}", audit.violations),
        ("allowed only if files were cut, or copied at different times", audit.noted),
        ("lost jobs", audit.lost),
        ("duplicate events (harmless)", audit.repeated),
    ):
        yield from _titled_section(title, len(findings), (_finding_lines(finding, zone) for finding in findings), limit)
    contradictions = (_contradiction_lines(contradiction, zone) for contradiction in audit.contradictions)
    yield from _titled_section("contradictions between sources", len(audit.contradictions), contradictions, limit)
    yield from _unreadable_record_lines(audit, zone, limit)
    yield from _slot_transition_lines(audit)


def verdict(audit: Audit) -> str:
    """Return "sound", the number of faults, or a message that the log has nothing to check."""
    if audit.verdict == "nothing read":
        return "no verdict: the log has nothing to check"
    problem_texts = [
        counted(len(audit.violations), "violation") if audit.violations else "",
        "the seal is broken" if audit.seal else "",
        counted(len(audit.contradictions), "contradiction") if audit.contradictions else "",
    ]
    return ", ".join(filter(None, problem_texts)) or "sound"


def _log_summary_lines(audit: Audit, zone: tzinfo) -> Iterator[str]:
    if audit.imported:
        lines = sum(lines for _, _, lines in audit.sources)
        records_text = f"imported: {counted(len(audit.sources), 'file')} with {counted(lines, 'line')}"
    else:
        records_text = f"a Poolbook pool: {counted(audit.events, 'event')}"
    yield f"  {records_text}, checked by the rules of the dialect {audit.dialect or '(none)'}"
    if audit.began:
        yield f"  from {instant(audit.began, zone)} to {instant(audit.ended, zone)}"
    jobs = sum(audit.jobs.values())
    job_counts = ", ".join(f"{count:,} {status}" for status, count in audit.jobs.items() if count)
    yield f"  {counted(jobs, 'job')}{': ' if job_counts else ''}{job_counts}"
    if audit.imported and not audit.judged:
        yield "  to read a pool's records, name its LOG and SPOOL folders: `poolbook import FOLDER -log FILE`"


def _seal_lines(audit: Audit) -> Iterator[str]:
    if audit.seal:
        yield f"  the seal is broken in {len(audit.seal)} place{'s' * (len(audit.seal) > 1)}:"
        for position, text in audit.seal:
            yield f"    {'as a whole' if position is None else f'at {position}'}: {text}"
    elif audit.seal_checked:
        yield f"  the seal holds: {counted(audit.events, 'event')}, unaltered and complete"
    else:
        yield "  the seal was not checked"
    for peer, log in audit.unchecked.items():
        yield f"  not compared with the log of {peer} ({log}), which was not given"


def _slot_transition_lines(audit: Audit) -> Iterator[str]:
    from ...domain.state_machines import DIALECTS, MANUAL
    from ...replay.listing.event_lines import LETTERS

    taken_counts = {number: count for number, count in audit.transitions.items() if count}
    if not taken_counts:
        yield from ("", "slot transitions: none")
        return
    rows = {row.number: row for row in (*MANUAL.slot_rows, *DIALECTS.get(audit.dialect, MANUAL).slot_rows)}
    yield from ("", f"slot transitions: {sum(taken_counts.values()):,}")
    yield "     no.      count  from -> to"
    for number, count in by_row(taken_counts):
        row = rows.get(number)
        row_text = f"{', '.join(row.sources)} -> {' or '.join(row.targets)}" if row else ""
        yield f"    {number:>3} {LETTERS.get(number, ''):<1}  {count:>8,}  {row_text}".rstrip()
    untaken_rows = [number for number, count in audit.transitions.items() if not count]
    if untaken_rows:
        yield f"    never: {', '.join(_joined_number_ranges(untaken_rows))}"
    letters = ", ".join(f"{letter} {count:,}" for letter, count in sorted(audit.letters.items()) if count)
    yield f"    between states: {letters or 'none'}"
    if audit.beyond:
        yield "  of these, only the dialect allows (* has no number in any manual):"
    for number, count in by_row(audit.beyond):
        row = rows.get(number)
        marker = "*" if number in audit.undocumented else ""
        yield f"    {number:>3}{marker:<1}  {count:>8,}  {row.cause if row else ''}".rstrip()


def _joined_number_ranges(numbers: Sequence[str]) -> Iterator[str]:
    """Yield sorted numbers, with consecutive numbers joined as in "26-32"."""
    first = last = ""
    for number in [*numbers, ""]:
        if first and number.isdecimal() and last.isdecimal() and int(number) == int(last) + 1:
            last = number
            continue
        if first:
            yield first if first == last else f"{first}-{last}"
        first = last = number


def _titled_section(title: str, count: int, items: Iterable[list[str]], limit: int | None) -> Iterator[str]:
    if not count:
        return
    yield ""
    yield f"{title} ({count:,}):"
    for number, lines in enumerate(items):
        if number == limit:
            yield f"  ... and {count - number:,} more (use -all)"
            return
        yield from (f"  {line}" for line in lines)


def _finding_lines(finding: AuditFinding, zone: tzinfo) -> list[str]:
    where = _file_and_line(finding.file, finding.line)
    place = f"  [{where}]" if where else ""
    head = f"{instant(finding.at, zone)}  {finding.thing}: {finding.words} ({finding.rule}){place}"
    return [head, *(f"    {line.strip()}" for line in finding.story)]


def _contradiction_lines(contradiction: Contradiction, zone: tzinfo) -> list[str]:
    from ...domain.imported.record_sources import KINDS

    run = f", run {contradiction.run}" if contradiction.run else ""
    text = f"{contradiction.thing}{run}: {contradiction.words} ({contradiction.fact})"
    lines = [f"{instant(contradiction.at, zone)}  {text}"]
    for source_value in contradiction.stated:
        kind = KINDS[source_value.kind].name if source_value.kind in KINDS else source_value.kind
        lines.append(f"    {source_value.value} in {kind}  [{_file_and_line(source_value.file, source_value.line)}]")
    return lines


def _file_and_line(file: str, line: int) -> str:
    return f"{file}:{line}" if file and line else file or (f"at {line}" if line else "")


def _unreadable_record_lines(audit: Audit, zone: tzinfo, limit: int | None) -> Iterator[str]:
    refused_records = (
        [f"[{_file_and_line(r.file, r.line)}]  {r.words}: {shorten_text(r.text, 80)}"] for r in audit.quarantined
    )
    yield from _titled_section("unreadable records", len(audit.quarantined), refused_records, limit)

    def span(since: int, until: int) -> str:
        times = [instant(at, zone) if at else "?" for at in (since, until)]
        return f"from {times[0]} to {times[1]}"

    gaps = ([f"[{_file_and_line(g.file, g.line)}]  {g.words}, {span(g.since, g.until)}"] for g in audit.gaps)
    yield from _titled_section(
        "gaps: records are missing, and nothing is checked across them", len(audit.gaps), gaps, limit
    )
    total = sum(max(0, gap.until - gap.since) for gap in audit.unaccounted if gap.since and gap.until)
    unknown = ([f"{gap.slot}  {span(gap.since, gap.until)}: {gap.words}"] for gap in audit.unaccounted)
    title = f"slot time without records, {interval(total)} in total"
    yield from _titled_section(title, len(audit.unaccounted), unknown, limit)
    torn_files = ([f"{file}: the last {counted(size, 'byte')}"] for file, size in audit.torn)
    yield from _titled_section("files that end in the middle of a record", len(audit.torn), torn_files, limit)


_KEYS = (
    "log", "id", "verdict", "imported", "dialect", "events", "began", "ended", "sources", "seal", "seal_checked",
    "transitions", "letters", "beyond", "undocumented", "jobs", "violations", "contradictions", "quarantined", "gaps",
    "unaccounted", "noted", "lost", "repeated", "torn", "unchecked",
)  # fmt: skip
_TIME_FIELDS = frozenset({"at", "began", "ended", "since", "until"})


def as_json(name: str, audit: Audit) -> dict[str, object]:
    """Return the whole audit, with times in ISO 8601 (UTC) and null for unknown times."""
    from attrs import asdict

    def as_plain_value(_: object, field: Attribute[Any] | None, value: Any) -> Any:
        if field is None or field.name not in _TIME_FIELDS:
            return value
        return iso(value) if value or field.name == "at" else None

    values = asdict(audit, value_serializer=as_plain_value) | {
        "log": name,
        "verdict": audit.verdict,
        "sources": [{"file": file, "kind": kind, "lines": lines} for file, kind, lines in audit.sources],
        "seal": [{"position": position, "text": text} for position, text in audit.seal],
        "torn": [{"file": file, "bytes": size} for file, size in audit.torn],
    }
    return {key: values[key] for key in _KEYS}
