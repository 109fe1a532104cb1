"""Run one seed's story: ``python -m tests.simulation.tell SEED [sqlite]``, from the repository's root."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .story import Story


def main(seed: int, sqlite: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(seed, Path(folder) if sqlite else None, verbose=True)
        try:
            story.tell()
        except AssertionError as error:
            verdict = str(error)
        else:
            verdict = "nothing is wrong"
        print(*story.machine.story, verdict, sep="\n")
    return verdict != "nothing is wrong"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), "sqlite" in sys.argv[2:]))
