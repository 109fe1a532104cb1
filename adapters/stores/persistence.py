"""Poolbook logs as a persistence module of the ``eventsourcing`` library, whose applications and projections read them.

An application with these settings has the log at ``LOG_URL``, and its events as Poolbook's own classes:

    PERSISTENCE_MODULE = "poolbook.adapters.stores.persistence"
    LOG_URL = "sqlite:///pool.db"

With the application's name before them (``POOL_PERSISTENCE_MODULE``), they leave the views of its projections alone.
"""

from __future__ import annotations

from typing import Any

from eventsourcing import popo
from eventsourcing.persistence import ApplicationRecorder, Mapper, StoredEvent

from .codec import CODEC
from .opening import open_recorder


class LogMapper(Mapper[str]):
    """Decodes the events of a log. They are appended by ``StoredLog``: an event does not know its version."""

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        return CODEC.decode([(0, "", 0, stored_event.topic, stored_event.state)], "the log")[0]


class LogFactory(popo.POPOFactory):
    """Makes the recorder of the log at ``LOG_URL``. Everything else that an application may keep is in memory."""

    def mapper(self, *_: Any, **__: Any) -> Mapper[Any]:
        return LogMapper(self.transcoder())

    def application_recorder(self) -> ApplicationRecorder:
        """Raise as ``open_log``."""
        self._recorder = open_recorder(self.env.get("LOG_URL", ""))
        return self._recorder

    def close(self) -> None:
        super().close()
        self._recorder.close()
