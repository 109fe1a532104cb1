"""The classes of events in a log, `TOPICS` (their short names) and `CAUSES` (descriptions of their causes).

docs/events.md describes their fields and units, which are stable: a released kind of event keeps its name, its fields
and their meaning, and a new field has a default. Later versions add kinds, so ignore kinds that you do not know.

>>> [event.slot for position, event in log.events() if isinstance(event, events.JobActivated)]
['slot1_1@node1', 'slot1_2@node1']
"""

from .domain.events import *  # noqa: F403
from .domain.events import PUBLIC
from .replay.narration.sentence_tables import CAUSES, CLAIM_FLAGS

__all__ = [*PUBLIC, "CAUSES", "CLAIM_FLAGS"]
