"""Keep the history of a pool in files, as HTCondor's collector does with KEEP_POOL_HISTORY."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ...domain.classad import ClassAd, Context
from ...domain.config import ConfigError, Configuration
from ...projections.pool_history import PoolHistory, values_of
from ..runtime.queries import Queries
from .history_files import DEFAULT_STORAGE, HistoryFiles
from .history_samples import slot_sample, submitter_sample

AdsAt = Callable[[int], tuple[Iterable[ClassAd], Iterable[ClassAd]]]


def keep_history(ads_at: AdsAt, configuration: Configuration, is_stopped: Callable[[float], bool]) -> None:
    """Sample slots and submitters until ``is_stopped``, which waits for so many seconds, returns True.

    :param ads_at: returns the ads of the submitters and of the slots at a time in seconds
    :raises ConfigError: if POOL_HISTORY_DIR does not exist; HTCondor's collector exits in this case
    """
    files = HistoryFiles(
        history_folder(configuration), configuration.integer("POOL_HISTORY_MAX_STORAGE", DEFAULT_STORAGE)
    )
    if not files.folder.is_dir():
        raise ConfigError(f"POOL_HISTORY_DIR ({files.folder}) does not exist; create the directory")
    interval = max(1, configuration.integer("POOL_HISTORY_SAMPLING_INTERVAL", 60))
    history = PoolHistory()
    while not is_stopped(interval - time.time() % interval):
        now = int(time.time())
        submitters, slots = ads_at(now)
        values = values_of(map(submitter_sample, submitters), (slot_sample(ad, Context(now=now)) for ad in slots))
        files.append(history.sample(now, values))


def ads_of_log(url: str, now: int) -> tuple[list[ClassAd], list[ClassAd]]:
    """Return the ads of the submitters and of the slots of the pool whose log is at ``url``."""
    with Queries(url) as queries:
        return list(queries.ads("Submitter", now)), list(queries.slots(now))


def history_folder(configuration: Configuration) -> Path:
    """Return POOL_HISTORY_DIR, or its default."""
    return Path(configuration.get("POOL_HISTORY_DIR").strip() or Path(configuration.get("LOCAL_DIR"), "ViewHist"))
