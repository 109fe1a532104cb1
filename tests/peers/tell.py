"""Tell the story of a seed, with what each role wrote to its log: ``python -m tests.peers.tell SEED``, and after
the number ``hurried`` for the stories of planted faults, and ``standby`` for those with two managers.

Times are true seconds since the beginning; after each role's name come the position and the time in its log, which
differ if its clock was set. What happened to the machines and the network is marked with ``>>>``. Copies of other
roles' events are left out.
"""

from __future__ import annotations

import sys

from poolbook.domain.events import EvaluationRecorded, Followed, Sent
from poolbook.domain.state.peers import role_of
from poolbook.domain.units import SECOND
from poolbook.replay.listing.members import line, members
from poolbook.replay.validation.transition_rules import owner_of

from .chaos import Story
from .simulated import Node


def _written(node: Node) -> list[tuple[float, str]]:
    """Return what a role has decided, with the true times."""
    lines = []
    for log, disk in zip([*node.past_logs, node.log], [*node.past_disks, node.disk], strict=True):
        times = iter(disk.appended)
        last, at = 0, 0
        for position, event in log.read():
            while position > last:
                last, at = next(times)
            is_copy = owner_of(type(event)) not in ("", role_of(node.name))
            if not (is_copy or isinstance(event, EvaluationRecorded | Followed | Sent)):
                lines += [(at / SECOND, f"{node.name:20} {line(member)}") for member in members(position, event)]
    return lines


def main(seed: int, hurried: bool, managers: int) -> int:
    story = Story(seed, hurried, managers)
    try:
        story.run()
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
    else:
        verdict = "nothing is wrong"
    lines = [(float(text[:10]), f">>> {text[12:]}") for text in story.lines]
    for node in story.pool.nodes.values():
        lines += _written(node)
    print(f"seed {seed}: {verdict}")
    for at, text in sorted(lines, key=lambda each: each[0]):
        print(f"{at:10.3f}  {text}")
    return verdict != "nothing is wrong"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), "hurried" in sys.argv[2:], 2 if "standby" in sys.argv[2:] else 1))
