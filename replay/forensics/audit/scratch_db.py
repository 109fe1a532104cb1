"""Store the statements of all sources until the end of the log, in an SQLite database that spills to an unlinked file.

Records are stored packed: entries as text, ads as in their event. Only the records of jobs that are in two kinds of
sources are unpacked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from attrs import define, field

from ....domain import events as e
from ....domain.imported.packed_ads import index_of_event, select, unquoted
from .audit_statements import StatementSource
from .compared_facts import LETTERS
from .event_log_facts import JobRecord
from .tolerances import ANY

_TABLES: Final = """
create table heard (ord integer, cluster integer, proc integer, letter text, chain integer, source integer,
                    line integer, at integer, what text, body text);
create table kept (ord integer primary key, letter text, source integer, line integer, at integer, count integer,
                   ads blob, ind blob);
create table numbers (cluster integer, proc integer, letter text, ord integer, place integer, line integer, job text,
                      at integer);
create table things (thing text, fact text, at integer, letter text, body text, source integer, line integer);
create table ends (job text, letter text, chain integer, run text, at integer, source integer, line integer);
create table runs (claim text, letter text, begin integer, until integer, job text, source integer, line integer);
"""
_BATCH: Final = 5_000

_Row = tuple[Any, ...]


@define
class ScratchDatabase:
    """The statements in a log. Call the ``add_*`` methods in log order (``order``)."""

    _db: sqlite3.Connection = field(init=False)
    _rows: dict[str, list[_Row]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._db = sqlite3.connect("")
        self._db.executescript("pragma journal_mode = off; pragma synchronous = off;" + _TABLES)

    def _add(self, table: str, row: _Row) -> None:
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _BATCH:
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table, [])
        if rows:
            marks = ",".join("?" * len(rows[0]))
            self._db.executemany(f"insert into {table} values ({marks})", rows)

    def _flush_all(self) -> None:
        for table in list(self._rows):
            self._flush(table)

    def add_record(self, cluster: int, proc: int, record: JobRecord) -> None:
        """Add a record of a job; ignore a job number that exceeds SQLite's integers."""
        if not (0 < cluster < ANY and 0 <= proc < ANY):
            return
        record_order, *record_fields = record
        self._add("heard", (record_order, cluster, proc, *record_fields))

    def add_ads(self, ad_order: int, letter: str, source: int, line: int, event: e.AdsKept) -> None:
        self._add("kept", (ad_order, letter, source, line, event.at, event.count, event.ads, event.index))
        ads = index_of_event(event)
        clusters, procs, jobs = ads.integers("cluster"), ads.integers("proc"), ads.texts("job")
        completion_times, departure_times = ads.microseconds("completed"), ads.microseconds("left")
        for ad_index, ad_line in enumerate(ads.lines):
            job = jobs[ad_index] if letter == "H" else None
            numbers = (
                clusters[ad_index],
                procs[ad_index],
                letter,
                ad_order,
                ad_index,
                ad_line,
                job,
                completion_times[ad_index] or departure_times[ad_index],
            )
            self._add("numbers", numbers)

    def add_fact(self, subject: str, fact: str, origin: StatementSource, body: str) -> None:
        self._add("things", (subject, fact, origin.at, origin.letter, body, origin.source, origin.line))

    def add_run(self, claim: str, letter: str, begin: int, until: int, job: str, source: int, line: int) -> None:
        self._add("runs", (claim, letter, begin, until, job, source, line))

    def add_end(self, job: str, letter: str, chain: int, run: str, at: int, source: int, line: int) -> None:
        """Add the end of a run (`job` is a global id) or of a job. A source should record each end only once."""
        self._add("ends", (job, letter, chain, run, at, source, line))

    def repeated_ends(self) -> Iterator[tuple[str, str, list[tuple[int, int, int]]]]:
        """Yield the ends that one source records several times: job, letter, locations (at, source, line)."""
        self._flush("ends")
        rows = self._db.execute("""
            select e.job, e.letter, e.chain, e.run, at, source, line from ends e join
                (select job, letter, chain, run from ends group by 1, 2, 3, 4 having count(*) > 1) t
                on e.job = t.job and e.letter = t.letter and e.chain = t.chain and e.run = t.run
            order by 1, 2, 3, 4, source, line
        """)
        for (job, letter, _, _), group in groupby(rows, key=lambda row: row[:4]):
            yield job, letter, [row[4:] for row in group]

    def runs_by_claim(self) -> Iterator[tuple[str, str, Iterator[_Row]]]:
        """Yield the runs of each claim by kind of source, sorted by time: (begin, until, job, source, line)."""
        self._flush("runs")
        rows = self._db.execute(
            "select claim, letter, begin, until, job, source, line from runs order by 1, 2, 3, 4, 5, 6, 7"
        )
        for (claim, letter), group in groupby(rows, key=lambda row: row[:2]):
            yield claim, letter, (row[2:] for row in group)

    def records_by_job(self, names: Sequence[str]) -> Iterator[tuple[int, int, list[JobRecord]]]:
        """Yield the records of each job number that is in two kinds of sources, or in neither a job event log nor a
        history, or whose ad in the history has a different number. Ads contain the attributes `names`."""
        self._flush_all()
        self._db.executescript("""
            create temp table wanted as select cluster, proc from
                (select cluster, proc, letter, '' job from heard
                 union all select cluster, proc, letter, job from numbers)
                where cluster > 0 and proc >= 0 group by cluster, proc
                having min(letter) <> max(letter) or max(letter in ('U', 'E', 'H')) = 0
                    or max(instr(nullif(job, ''), '#' || cluster || '.' || proc || '#') = 0);
            create unique index wanted_by_job on wanted (cluster, proc);
        """)
        self._unpack(names)
        rows = self._db.execute("""
            select h.cluster, h.proc, ord, letter, chain, source, line, at, what, body
            from heard h join wanted w on h.cluster = w.cluster and h.proc = w.proc order by 1, 2, ord, line
        """)
        for (cluster, proc), group in groupby(rows, key=lambda row: row[:2]):
            yield cluster, proc, [JobRecord(*row[2:]) for row in group]

    def _unpack(self, names: Sequence[str]) -> None:
        rows = self._db.execute("""
            select n.ord, place, n.line, n.cluster, n.proc
            from numbers n join wanted w on n.cluster = w.cluster and n.proc = w.proc order by 1, 2
        """)
        for order, group in groupby(rows, key=lambda row: row[0]):
            letter, source, _, at, ads = self._read_event(order, names)
            for _, place, line, cluster, proc in group:
                self.add_record(
                    cluster, proc, JobRecord(order, letter, source, source, line, at, "ad", json.dumps(ads[place]))
                )
        self._flush("heard")

    def _read_event(self, order: int, names: Sequence[str]) -> tuple[str, int, int, int, list[dict[str, str]]]:
        letter, source, line, at, count, ads, ad_index = self._db.execute(
            "select letter, source, line, at, count, ads, ind from kept where ord = ?", (order,)
        ).fetchone()
        event = e.AdsKept(at, "", f"{source}:{line}", LETTERS[letter], count, ads, ad_index)
        return letter, source, line, at, select(event, names)

    def ads_of(self, letters: str, names: Sequence[str]) -> Iterator[tuple[str, int, int, dict[str, str]]]:
        """Yield all ads from some kinds of sources: letter, source, line, attributes."""
        self._flush_all()
        for (order,) in self._db.execute("select ord from kept where instr(?, letter) order by ord", (letters,)):
            letter, source, _, _, ads = self._read_event(order, names)
            lines = self._db.execute("select line from numbers where ord = ? order by place", (order,))
            for (line,), ad in zip(lines, ads, strict=True):
                yield letter, source, line, ad

    def repeated_in_histories(self) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
        """Yield the global job ids that are in histories more than once, each with its locations (source, line, at)."""
        self._flush_all()
        rows = self._db.execute("""
            select n.job, k.source, n.line, n.at from numbers n join kept k on k.ord = n.ord
            where n.job in (select job from numbers where job <> '' group by job having count(*) > 1)
            order by n.job, n.ord, n.place
        """)
        for job, group in groupby(rows, key=lambda row: row[0]):
            yield unquoted(job), [row[1:] for row in group]

    def facts_by_subject(self) -> Iterator[tuple[str, str, list[_Row]]]:
        """Yield each subject's statements of a fact that two kinds of sources state, by time: (at, letter, body,
        source, line)."""
        self._flush_all()
        rows = self._db.execute("""
            select t.thing, t.fact, at, letter, body, source, line from things t join
                (select thing, fact from things group by thing, fact having min(letter) <> max(letter)) w
                on t.thing = w.thing and t.fact = w.fact order by 1, 2, at, source, line
        """)
        for (subject, fact), group in groupby(rows, key=lambda row: row[:2]):
            yield subject, fact, [row[2:] for row in group]

    def close(self) -> None:
        self._db.close()
