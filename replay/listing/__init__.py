"""The readable listing of a log: one line for each transition, and for each other change in an event.

* An event about many jobs has one member for each job, whose position is the event's position and the member's number
  in the event, from 0. Members are created one by one, so the first line for a cluster of a million jobs appears at
  once.
* A slot's transition has the manual's number and letter; a job's has the name of its row. Source and target are states.
* ``StreamFilter`` selects the events to list, as users specify them: a slot, a cluster, a single job, or any stream.
"""
