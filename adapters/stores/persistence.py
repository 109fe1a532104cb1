"""A persistence module for the ``eventsourcing`` library: its applications and projections can read Poolbook logs.

An application with these settings reads the log at ``LOG_URL``, with Poolbook's event classes:

    PERSISTENCE_MODULE = "poolbook.adapters.stores.persistence"
    LOG_URL = "sqlite:///pool.db"

With the application's name as a prefix (``POOL_PERSISTENCE_MODULE``), they do not affect the views of its projections.
"""

from __future__ import annotations

from typing import Any

from eventsourcing import popo
from eventsourcing.persistence import ApplicationRecorder, Mapper, StoredEvent

from .codec import CODEC
from .opening import open_recorder


class LogMapper(Mapper[str]):
    """Decodes the events of a log. Only ``StoredLog`` can append them, since an event does not have its version."""

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        return CODEC.decode([(0, "", 0, stored_event.topic, stored_event.state)], "the log")[0]


class LogFactory(popo.POPOFactory):
    """Creates the recorder of the log at ``LOG_URL``. All other data of an application is in memory."""

    def mapper(self, *_: Any, **__: Any) -> Mapper[Any]:
        return LogMapper(self.transcoder())

    def application_recorder(self) -> ApplicationRecorder:
        """Return the recorder of the log at ``LOG_URL``. Raise the same exceptions as ``open_log``."""
        self._recorder = open_recorder(self.env.get("LOG_URL", ""))
        return self._recorder

    def close(self) -> None:
        super().close()
        self._recorder.close()
