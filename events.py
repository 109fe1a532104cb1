"""What can stand in a log: the class of every kind of event, with `TOPICS`, the short name of each in a log, and
`CAUSES`, what their causes mean.

docs/events.md describes each with its fields and their units. What stands there is stable: a kind of event that was
released keeps its name, its fields and their meaning, a new field comes with a default, and logs that hold it stay
readable. New kinds of events come with later versions, so a program passes over those that it does not know.
"""

from .domain.events import *  # noqa: F403
from .domain.events import PUBLIC
from .replay.narration.sentence_tables import CAUSES, CLAIM_FLAGS

__all__ = [*PUBLIC, "CAUSES", "CLAIM_FLAGS"]
