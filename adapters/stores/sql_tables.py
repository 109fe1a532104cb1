"""What the stores in SQLite and PostgreSQL ask of their tables, each question in the SQL that both know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...domain.ports.log import Head
from .seal import Row
from .stored_log import Appended

_ROW = "{position}, originator_id, originator_version, topic, state"


class SqlTables(ABC):
    """The reading half of ``Tables``. In a statement ``?`` stands for a parameter, and ``{events}``, ``{appends}``,
    ``{head}`` for the tables; ``{by_stream}`` are the events by their streams, ``{position}`` the column of a position.
    """

    @abstractmethod
    def _select(self, statement: str, *parameters: object) -> list[Any]:
        """Return the rows of a statement."""

    def heads(self) -> list[tuple[int, Head]]:
        found = self._select("SELECT format, epoch, position, digest FROM {head}")
        return [(version, Head(epoch, position, digest)) for version, epoch, position, digest in found]

    def chunk(self, after: int, upto: int, most: int) -> list[Row]:
        where = "{position}>? AND {position}<=? ORDER BY {position} LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{events}} WHERE {where}", after, upto, most)

    def chunk_of(self, stream: str, after: int, upto: int, most: int) -> list[Row]:
        where = "originator_id=? AND {position}>? AND {position}<=? ORDER BY originator_version LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{by_stream}} WHERE {where}", stream, after, upto, most)

    def sealed(self, position: int) -> tuple[int, str] | None:
        found: list[tuple[int, str]] = self._select("SELECT epoch, digest FROM {appends} WHERE position=?", position)
        return found[0] if found else None

    def appends(self, after: int, most: int) -> list[Appended]:
        statement = "SELECT position, format, epoch, digest FROM {appends} WHERE position>? ORDER BY position LIMIT ?"
        return self._select(statement, after, most)

    def last_append(self, upto: int) -> Appended | None:
        statement = (
            "SELECT position, format, epoch, digest FROM {appends} WHERE position<=? ORDER BY position DESC LIMIT 1"
        )
        found: list[Appended] = self._select(statement, upto)
        return found[0] if found else None
