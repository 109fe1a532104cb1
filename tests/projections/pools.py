"""Pools in virtual time that produce logs with the live pool's own code."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.views import open_tables
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.classad import ClassAd
from poolbook.domain.events import Event
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.state.cluster import Cluster
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.units import SECOND
from poolbook.projections.job_ads import ad_from_texts, attributes
from poolbook.projections.projector import apply
from poolbook.projections.schema import create, schemas
from poolbook.projections.views import Views
from poolbook.replay.virtual_world import VirtualWorld

from ..job_commands import job_command

MACHINE = {
    "MyType": '"Machine"',
    "Machine": '"h"',
    "Start": "true",
    "Requirements": "Start && TARGET.RequestCpus <= MY.Cpus",
    "Arch": '"X86_64"',
}
JOB = {
    "Cmd": '"/bin/sleep"',
    "Args": '"30"',
    "JobBatchName": '"night"',
    "Requirements": 'TARGET.Arch == "X86_64"',
    "RequestCpus": "1",
    "RequestMemory": "ifThenElse(MemoryUsage =!= undefined, MemoryUsage, 128)",
    "RequestDisk": "1024",
    "Rank": "0.0",
    "JobPrio": "0",
    "Note": '"say \\"hello\\""',
    "Own": "ProcId * 2",
}


class Pool:
    """A pool with one machine of `cpus` cores; ``dialect`` manual by default."""

    def __init__(self, log: EventStore | None = None, cpus: int = 2, dialect: str = "manual") -> None:
        self.log = open_log("memory:", create=True) if log is None else log
        self.engine = Engine(self.log, VirtualWorld())
        self.engine.load()
        self._ids = 0
        self.handle(s.FoundPool("found", "pool", dialect, "example.org", "0.1", {}))
        plan = s.SlotPlan("slot1@h", "partitionable", {"Cpus": str(cpus), "Memory": "8192", "Disk": "100000"})
        self.handle(s.AddMachine("machine", "h", MACHINE, (plan,)))

    def handle(self, stimulus: s.Stimulus) -> str:
        """Handle a stimulus; return why it was rejected, or an empty text."""
        return self.engine.handle([stimulus])[0].refusal

    def id(self) -> str:
        self._ids += 1
        return f"command-{self._ids}"

    def submit(self, count: int, owner: str = "alice", texts: Sequence[str] = (), **changes: str) -> int:
        """Submit jobs, each with its own Args if `texts` has one for each; return the cluster's number."""
        columns = pack({"Args": list(texts)}) if texts else ()
        ad = {name: text for name, text in (JOB | changes).items() if not texts or name != "Args"}
        assert not self.handle(s.Submit(self.id(), owner, 0, ad, count, columns))
        return self.engine.state.next_cluster - 1

    def act(self, action: str, selection: s.Selection, fast: bool = False) -> None:
        self.handle(job_command(self.id(), "root", action, selection, fast=fast))

    def edit(self, selection: s.Selection, add: bool = False, **changes: str) -> None:
        self.handle(s.Edit(self.id(), "root", selection, changes, add=add))

    def run(self, seconds: int) -> None:
        """Let this much time pass."""
        until = self.engine.world.now() + seconds * SECOND
        while self.engine.step(until):
            pass

    @property
    def events(self) -> list[tuple[int, Event]]:
        return list(self.log.read())


def busy_pool(dialect: str = "manual") -> Pool:
    """Return a pool in which most things have happened: jobs that ran, are running, idle or held, were removed while
    they ran or before, were vacated, edited, suspended; two submitters, one with jobs that differ."""
    pool = Pool(cpus=3, dialect=dialect)
    first = pool.submit(12)
    second = pool.submit(6, "bob", [f'"{seconds}"' for seconds in range(40, 46)], JobPrio="5")
    pool.run(35)
    pool.act("hold", s.Selection(jobs=((first, 4), (first, 5), (first, 9))))
    pool.edit(s.Selection(clusters=(first,)), Colour='"red"')
    pool.edit(s.Selection(jobs=((first, 7),)), JobPrio="-3", requestcpus="2")
    pool.act("vacate", s.Selection(clusters=(second,)))
    pool.run(20)
    pool.act("suspend", s.Selection(everything=True))
    pool.act("remove", s.Selection(jobs=((second, 0), (second, 5), (first, 11))))
    pool.run(5)
    pool.act("continue", s.Selection(everything=True))
    pool.act("release", s.Selection(jobs=((first, 4),)))
    pool.submit(3, "carol", RequestCpus="64")
    pool.run(90)
    pool.act("hold", s.Selection(jobs=((first, 6),)))
    return pool


def empty_tables() -> sqlite3.Connection:
    """Return views in memory that have folded nothing."""
    connection = open_tables(None)
    create(connection)
    return connection


def folded(events: Sequence[tuple[int, Event]], sizes: Sequence[int] = ()) -> sqlite3.Connection:
    """Return the views of events: folded in one batch, or in batches of these sizes and a last one."""
    connection = empty_tables()
    at = 0
    for size in [*sizes, len(events)]:
        apply(connection, events[at : at + size])
        at += size
    return connection


def dump(connection: sqlite3.Connection, but: str = "") -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables, in a fixed order."""
    return {
        name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
        for name in schemas("table")
        if name != but
    }


def live_ad(cluster: Cluster, proc: int, pool: str) -> ClassAd:
    """Return a job's ad as in the live pool, with its GlobalJobId."""
    texts = cluster.attributes(proc)
    ad = ad_from_texts(attributes(texts))
    ad["GlobalJobId"] = f"{pool}#{cluster.id}.{proc}#{texts['QDate']}"
    return ad


def views_of(pool: Pool) -> Views:
    return Views(folded(pool.events))
