"""After a query has failed, distinguish a damaged log or view from a bug in Poolbook."""

from __future__ import annotations

import os
import sqlite3
import zlib
from contextlib import closing

from ...domain.errors import PoolbookError
from ...domain.ports.log import LogDamaged
from ...projections.checkpoint import read_checkpoint
from ..stores.location import safe_url
from ..stores.log_prefix import LogPrefix
from ..stores.opening import open_log, verify_seal
from .views import catch_up, open_tables, raise_if_unreadable, raise_unavailable, views_path

ERRORS_FROM_ALTERED_DATA = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    sqlite3.Error,
    zlib.error,
)
"""Exceptions that altered events or views can cause when they are read or checked."""


def raise_if_damaged(url: str, error: BaseException | None) -> None:
    """Raise `LogDamaged` if the seal of the log at `url` is broken, which explains `error`, or `LogUnavailable` if the
    log's views are wrong. Otherwise return: the error is a bug in Poolbook."""
    if isinstance(error, PoolbookError) or not isinstance(error, ERRORS_FROM_ALTERED_DATA):
        return
    problems = verify_seal(url)
    if problems:
        where = "" if problems[0].position is None else f" at position {problems[0].position}"
        raise LogDamaged(
            f"{safe_url(url)} is damaged{where}: {problems[0].text}. Altered events are not used; `poolbook verify` "
            f"lists them. Restore the log from a backup"
        ) from error
    raise_if_unreadable(url, error)
    path = views_path(url)
    if path is not None and os.path.exists(path) and not _views_equal_log(url, path):
        raise_unavailable(path, "are damaged: they differ from their log; `poolbook views` rebuilds them from it")


def _views_equal_log(url: str, path: str) -> bool:
    with closing(open_log(url, create=False, read_only=True)) as log, closing(open_tables(None)) as rebuilt:
        try:
            with closing(open_tables(path)) as stored:
                if (
                    read_checkpoint(stored).position != log.head.position
                ):  # otherwise the log could be rebuilt before it is examined
                    catch_up(log, stored)
                stored.execute("BEGIN")  # a snapshot, because a server may update the views meanwhile
                position, lines = read_checkpoint(stored).position, sorted(stored.iterdump())
                is_intact = stored.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        except ERRORS_FROM_ALTERED_DATA:
            return False
        log.refresh()
        catch_up(LogPrefix(log, position), rebuilt)
        # Rebuilt rows can be in another order. SQLite's check finds rows that a lookup misses because of theirs.
        return is_intact and lines == sorted(rebuilt.iterdump())
