"""Tell the story of a seed, with what each role wrote to its log: ``python -m tests.peers.tell SEED``."""

from __future__ import annotations

import sys

from poolbook.domain.units import SECOND
from poolbook.replay.listing.members import line, members
from poolbook.replay.virtual_world import EPOCH

from .chaos import Story


def main(seed: int) -> int:
    story = Story(seed)
    try:
        story.run()
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
    else:
        verdict = "nothing is wrong"
    told_lines = list(story.lines)
    for name, node in story.pool.nodes.items():
        told_lines += [
            f"{(event.at - EPOCH) / SECOND:10.3f}  {name}: {line(member)}"
            for position, event in node.log.read()
            for member in members(position, event)
        ]
    print(*sorted(told_lines), verdict, sep="\n")
    return verdict != "nothing is wrong"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
