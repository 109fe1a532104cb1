"""Every log of the test data: imports of recordings, logs of releases, and logs of the scenarios."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import EventStore
from poolbook.replay.accounts.intervals import SlotInterval, slot_intervals

from ..golden.make import GOLDEN
from ..golden.test_golden import POOLS
from ..play.test_transcripts import CASES, play_transcript
from ..runs.test_accounts_agree import CASES as SAMPLE
from ..runs.test_accounts_agree import RECORDINGS, log_of
from ..sampling import spread

IMPORTS = {f"{path.parent.name}-{path.name}": path for path in RECORDINGS}
OWN = {**{f"golden-{name}": name for name in POOLS}, **{f"play-{name}-{dialect}": name for name, dialect in CASES}}
NAMES = [*IMPORTS, *OWN]
OWN_SAMPLE = spread(OWN, 15)
SAMPLES = [*(name for name, path in IMPORTS.items() if path in SAMPLE), *OWN_SAMPLE]
"""The logs that `make test` uses: the same in all tests, which share them."""


@lru_cache(maxsize=100)
def open_named(name: str) -> EventStore:
    """Return a log by its name in ``NAMES``, to read it."""
    if name in IMPORTS:
        return log_of(IMPORTS[name])
    if name.startswith("golden-"):
        with NamedTemporaryFile(suffix=".db") as file:
            Path(file.name).write_bytes(gzip.decompress((GOLDEN / f"{OWN[name]}.db.gz").read_bytes()))
            return open_log(file.name, create=False, read_only=True)
    return play_transcript(OWN[name], name.removeprefix(f"play-{OWN[name]}-"))[0].log


@lru_cache(maxsize=100)
def intervals_of(name: str) -> list[SlotInterval]:
    """Return all intervals of the slots in a log."""
    return [*slot_intervals(open_named(name))]
