"""Read what has ended since the last run, and send it to a destination."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ...domain.classad import ClassAd
from ...domain.state.caches import ad_from_attributes
from ...replay.runs.epochs import epochs_with_positions
from ..condor_tools.history import ads_of_file
from ..machine.host import CONDOR_VERSION, condor_platform, host_name, user_name
from ..runtime.queries import Queries
from .destinations import Destination, Identified, StashError
from .documents import document
from .fields import EPOCHS, HISTORY, fields_of

SOURCES: Mapping[str, str] = {"schedd_history": HISTORY, "schedd_job_epoch_history": EPOCHS}
"""The sources that a pool's log has, and the kind of their ads."""
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
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        try:
            temporary.write_text(json.dumps(contents, indent=2))
            os.replace(temporary, self.path)
        except OSError as error:
            raise StashError(f"the checkpoint file {self.path} cannot be written: {error.strerror}") from None


def stash_log(
    url: str, source: str, destination: Destination, checkpoint: Checkpoint, most: int, said: Callable[[str], None]
) -> int:
    """Send the ads of one of `SOURCES` that are new since the last run, and return their number.

    After ``most`` ads it stops, with the rest of the last ad's event: the checkpoint is a position, not a job.

    The id of a document is the log's id, the position of the event that ended the job or run, and the job: a document
    that is sent again replaces itself.
    """
    fields = fields_of(SOURCES[source])
    with Queries(url) as queries:
        log, name = queries.log.id, queries.views.pool().name
        after = checkpoint.position(log, source)
        ads = _ended_jobs(queries, after) if source == "schedd_history" else _ended_runs(queries, after)
        destination.prepare(fields)
        count = 0
        for portion in _portions(_whole_events(ads, most)):
            documents: list[Identified] = []
            for position, ad in portion:
                job = f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}"
                contents = document(ad, fields, int(time.time()))
                documents.append((f"{log}#{position}#{job}", {**contents, "metadata": _metadata(source, name)}))
            destination.send(documents)
            checkpoint.advance(log, source, portion[-1][0])
            count += len(documents)
            said(f"{source}: {count:,} documents sent")
    return count


def stash_file(path: str, kind: str, destination: Destination) -> int:
    """Send the ads in a history file of an HTCondor pool; return their number."""
    fields = fields_of(kind)
    destination.prepare(fields)
    documents: list[Identified] = []
    for ad in ads_of_file("--ad_file", path, "long", f"condor_adstash: {path} cannot be read"):
        contents = document(ad, fields, int(time.time()))
        name = f"{ad.eval('GlobalJobId')}#{contents['RecordTime']}"
        documents.append((name, {**contents, "metadata": _metadata("ad_file", host_name())}))
    destination.send(documents)
    return len(documents)


def _ended_jobs(queries: Queries, after: int) -> Iterator[tuple[int, ClassAd]]:
    return queries.history_views.ended_after(after)


def _ended_runs(queries: Queries, after: int) -> Iterator[tuple[int, ClassAd]]:
    runs = epochs_with_positions(queries.log.read())
    return ((position, ad_from_attributes(ad)) for position, ad in runs if position > after)


def _whole_events(ads: Iterable[tuple[int, ClassAd]], most: int) -> Iterator[tuple[int, ClassAd]]:
    last = 0
    for count, (position, ad) in enumerate(ads):
        if count >= most and position != last:
            return
        yield position, ad
        last = position


def _portions(ads: Iterable[tuple[int, ClassAd]]) -> Iterator[list[tuple[int, ClassAd]]]:
    """Divide ads into portions; those of one event stay together, since the checkpoint is the event's position."""
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
