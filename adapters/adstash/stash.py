"""Read what has ended since the last run, and send it to a destination."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from attrs import frozen

from ...domain.classad import ClassAd
from ...domain.events import PoolFounded
from ...domain.names import global_id
from ...domain.ports.log import EventStore
from ...domain.state.caches import ad_from_attributes
from ...domain.state.peers import ACCESS_POINT
from ...replay.runs.epochs import EPOCHS as EPOCH_BUILDERS
from ...replay.runs.epochs import STARTD_EPOCHS, TRANSFERS, Builders, ads_with_positions
from ..condor_tools.history import ads_of_file
from ..machine.host import CONDOR_VERSION, condor_platform, host_name, user_name
from ..replaced_files import replace_file
from ..runtime.queries import Queries
from .destinations import Destination, Identified, StashError
from .documents import document
from .fields import EPOCHS, HISTORY, Fields
from .fields import TRANSFERS as TRANSFER_EPOCHS


class Source(NamedTuple):
    """A source of ads in a pool's log: the kind of ads, and how events become ads (None: jobs that left the queue)."""

    kind: str
    builders: Builders | None = None


SOURCES: Final[Mapping[str, Source]] = {
    "schedd_history": Source(HISTORY),
    "schedd_job_epoch_history": Source(EPOCHS, EPOCH_BUILDERS),
    "schedd_transfer_epoch_history": Source(TRANSFER_EPOCHS, TRANSFERS),
    "startd_history": Source(HISTORY, STARTD_EPOCHS),
}
_PORTION = 10_000


@frozen
class Checkpoint:
    """A file with the position in the log up to which each source has been sent. A log is identified by its id."""

    path: Path

    def position(self, log: str, source: str) -> int:
        try:
            return int(json.loads(self.path.read_text())[log][source])
        except (FileNotFoundError, KeyError, ValueError, TypeError):
            return 0

    def advance(self, log: str, source: str, position: int) -> None:
        try:
            contents = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            contents = {}
        contents.setdefault(log, {})[source] = position
        try:
            replace_file(self.path, json.dumps(contents, indent=2))
        except OSError as error:
            raise StashError(f"the checkpoint file {self.path} cannot be written: {error.strerror}") from None


def stash_log(
    url: str, source: str, destination: Destination, checkpoint: Checkpoint, most: int, said: Callable[[str], None],
    fields: Fields,
) -> int:  # fmt: skip
    """Send the ads of one of `SOURCES` that are new since the last run, and return their number.

    After ``most`` ads it stops, with the rest of the last ad's event: the checkpoint is a position, not a job.

    The id of a document is the log's id, the position of the event that ended the job or run, and the job: a document
    that is sent again replaces itself.
    """
    builders = SOURCES[source].builders
    with Queries(url) as queries:
        log, name = queries.log.id, queries.views.pool().name
        after = checkpoint.position(log, source)
        _check_has_jobs(queries.log)
        ads, read_to = (queries.history_views.ended_after(after), after)
        if builders is not None:
            ads, read_to = ads_of_events(queries.log, builders, after, most)
        destination.prepare(fields)
        count = 0
        for portion in _portions(_whole_events(ads, most)):
            documents: list[Identified] = []
            for position, ad in portion:
                if "GlobalJobId" not in ad:
                    ids = (int(ad.eval(each)) for each in ("ClusterId", "ProcId", "QDate"))
                    ad["GlobalJobId"] = global_id(name, *ids)
                contents = document(ad, fields, int(time.time()))
                documents.append((_id(source, log, position, ad), {**contents, "metadata": _metadata(source, name)}))
            destination.send(documents)
            checkpoint.advance(log, source, portion[-1][0])
            count += len(documents)
            said(f"{source}: {count:,} documents sent")
        if count < most and read_to > checkpoint.position(log, source):
            checkpoint.advance(log, source, read_to)
    return count


def stash_file(path: str, fields: Fields, destination: Destination) -> int:
    """Send the ads in a history file of an HTCondor pool; return their number."""
    destination.prepare(fields)
    documents: list[Identified] = []
    for ad in ads_of_file("--ad_file", path, None, f"condor_adstash: {path} cannot be read"):
        contents = document(ad, fields, int(time.time()))
        name = f"{ad.eval('GlobalJobId')}#{contents['RecordTime']}"
        documents.append((name, {**contents, "metadata": _metadata("ad_file", host_name())}))
    destination.send(documents)
    return len(documents)


def _check_has_jobs(log: EventStore) -> None:
    """Raise `StashError` for the log of a role without jobs."""
    for _, event in log.read(0, 1):
        if isinstance(event, PoolFounded) and event.roles and ACCESS_POINT not in event.roles:
            raise StashError(f"this is the log of the role {', '.join(event.roles)}; name the log of an access point")


def ads_of_events(
    log: EventStore, builders: Builders, after: int, most: int
) -> tuple[Iterator[tuple[int, ClassAd]], int]:
    """Return the ads of the events after a position, of ``most`` events at the most, and up to where events were read.

    An ad depends on earlier events, but only on those about its cluster.
    """
    clusters: set[int] = set()
    read_to, count = after, 0
    for position, event in log.read(after):
        read_to = position
        if type(event) in builders:
            clusters.add(event.cluster)  # type: ignore[attr-defined]
            count += 1
            if count >= most:
                break
    streams = (ads_with_positions(log.read_stream(f"cluster/{cluster}"), builders) for cluster in sorted(clusters))
    ads = [(at, ad) for stream in streams for at, ad in stream if after < at <= read_to]
    return ((at, ad_from_attributes(ad)) for at, ad in sorted(ads, key=itemgetter(0))), read_to


def _id(source: str, log: str, position: int, ad: ClassAd) -> str:
    """Return the id of a document: the event that ended the job, run or transfer, and what distinguishes its ads."""
    further = {"startd_history": "#startd", "schedd_transfer_epoch_history": f"#{ad.eval('TransferProtocol')}"}
    return f"{log}#{position}#{ad.eval('ClusterId')}.{ad.eval('ProcId')}{further.get(source, '')}"


def _whole_events(ads: Iterable[tuple[int, ClassAd]], most: int) -> Iterator[tuple[int, ClassAd]]:
    last = 0
    for count, (position, ad) in enumerate(ads):
        if count >= most and position != last:
            return
        yield position, ad
        last = position


def _portions(ads: Iterable[tuple[int, ClassAd]]) -> Iterator[list[tuple[int, ClassAd]]]:
    """Divide ads into portions; ads of one event stay together, since the checkpoint is the event's position."""
    portion: list[tuple[int, ClassAd]] = []
    for position, ad in ads:
        if len(portion) >= _PORTION and portion[-1][0] != position:
            yield portion
            portion = []
        portion.append((position, ad))
    if portion:
        yield portion


def _metadata(source: str, schedd: str) -> dict[str, Any]:
    platform, now = condor_platform(), int(time.time())
    return {
        "condor_adstash_hostname": host_name(), "condor_adstash_platform": platform, "condor_adstash_runtime": now,
        "condor_adstash_source": source, "condor_adstash_username": user_name(),
        "condor_adstash_version": CONDOR_VERSION, "condor_history_host_machine": schedd,
        "condor_history_host_name": schedd, "condor_history_host_platform": platform,
        "condor_history_host_version": CONDOR_VERSION, "condor_history_runtime": now,
    }  # fmt: skip
