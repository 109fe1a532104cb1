"""A timeline as one HTML page: ``timeline.html`` with its style sheet, script and data.

The data are unsigned numbers of variable length (LEB128), by column and compressed with zlib, because a week of 1,000
slots has hundreds of thousands of intervals. Signed numbers are doubled, with odd numbers for negative ones. Times are
in the page's unit: seconds if all times are whole seconds, otherwise milliseconds. The script requests nothing, and the
table of classes can be read without it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from zlib import compress

from ...domain.names import JobId
from ...domain.package_data import get_data
from ...domain.units import SECOND
from ..narration.formatting import interval
from ..runs.run_end_causes import CAUSES
from .intervals import SlotInterval
from .timeline import ALL_CLASSES, TimelineRow

MILLISECOND = SECOND // 1000


def page(rows: Sequence[TimelineRow], subject: str) -> str:
    """Return the HTML page of a timeline."""
    parts = [part for row in rows for part in row.intervals]
    is_whole = all(at % SECOND == 0 for part in parts for at in (part.begin, part.end))
    is_of_job = bool(rows) and any(part.job == rows[0].name for part in rows[0].intervals)  # other rows repeat its runs
    unit = SECOND if is_whole else MILLISECOND
    begin = min((part.begin // unit for part in parts), default=0)
    kinds = list(ALL_CLASSES)
    codes: dict[tuple[object, ...], int] = {}
    columns: tuple[list[int], ...] = ([], [], [], [], [])
    gaps, lengths, shown_codes, clusters, procs = columns
    for row in rows:
        previous_end, previous_job = begin, JobId(0, 0)
        for part in row.intervals:
            part_begin, part_end = part.begin // unit, part.end // unit
            fields = (kinds.index(part.kind), part.state, part.activity, part.user, part.group, part.cause, part.cores)
            job = JobId.parse(part.job) if part.job else JobId(0, 0)
            gaps.append(part_begin - previous_end)
            lengths.append(part_end - part_begin)
            shown_codes.append(codes.setdefault(fields, len(codes)))
            clusters.append(_unsigned(job.cluster - previous_job.cluster if part.job else 0))
            procs.append(_unsigned(job.proc - previous_job.proc) + 1 if part.job else 0)
            previous_end, previous_job = part_end, job if part.job else previous_job
    head = {
        "subject": subject, "unit": unit // MILLISECOND, "begin": begin, "kinds": ALL_CLASSES,
        "rows": [[row.name, len(row.intervals)] for row in rows], "codes": list(codes),
        "causes": {name: cause.clause for name, cause in CAUSES.items()},
    }  # fmt: skip
    texts = {
        "TITLE": escape(f"Timeline of {subject}"),
        "SUMMARY": _summary(rows[0].intervals if is_of_job else parts),
        "STYLE": _file("timeline.css"),
        "HEAD": json.dumps(head, separators=(",", ":")).replace("<", "\\u003c"),
        "DATA": b64encode(compress(_packed(columns), 9)).decode(),
        "SCRIPT": _file("timeline.js"),
    }
    template, *marked = _file("timeline.html").split("@@")
    return template + "".join(texts.get(text, text) for text in marked)


def _file(name: str) -> str:
    return get_data(__package__, name).decode()


def _unsigned(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _packed(columns: Iterable[Sequence[int]]) -> bytes:
    packed = bytearray()
    for column in columns:
        for number in column:
            while number > 127:
                packed.append(number & 127 | 128)
                number >>= 7
            packed.append(number)
    return bytes(packed)


def _summary(parts: Sequence[SlotInterval]) -> str:
    """Return the rows of the table of classes: the total time of each class and its share."""
    times = {kind: sum(part.end - part.begin for part in parts if part.kind == kind) for kind in ALL_CLASSES}
    total = sum(times.values()) or 1
    return "\n".join(
        f'<tr data-kind="{kind}"><td><i class="key" style="background:var(--{kind})"></i>{kind}</td>'
        f"<td>{escape(interval(time))}</td><td>{time / total:.1%}</td><td>{escape(ALL_CLASSES[kind])}</td></tr>"
        for kind, time in times.items()
        if time
    )
