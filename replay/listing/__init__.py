"""The log as people read it: a line for each transition, and for everything else in an event.

* An event about many jobs has one member for each job, with its own position: the event's, and the member's number in
  it, from 0. They are made one by one: the first line of a cluster of a million jobs is there at once.
* A slot's transition has the manual's number and letter, a job's the name of its row; source and target are states.
* ``StreamFilter`` names the events to list, as users write them: a slot, a cluster, one job of it, or any stream.
"""

from .event_lines import KINDS, LETTERS, client_end, ending, transition
from .members import (
    Member,
    StreamFilter,
    as_dict,
    entries,
    is_clock,
    line,
    member_of,
    members,
    members_between,
    parse_filter,
    since,
)

__all__ = [
    "KINDS", "LETTERS", "Member", "StreamFilter", "as_dict", "client_end", "ending", "entries", "is_clock", "line",
    "member_of", "members", "members_between", "parse_filter", "since", "transition",
]  # fmt: skip
