"""Every log of the test data: imports of recordings, logs of releases, and logs of the scenarios."""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import NamedTemporaryFile

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import EventStore

from ..golden.make import GOLDEN
from ..golden.test_golden import POOLS
from ..play.test_transcripts import CASES, play_transcript
from ..runs.test_accounts_agree import RECORDINGS, log_of

IMPORTS = {f"{path.parent.name}-{path.name}": path for path in RECORDINGS}
OWN = {**{f"golden-{name}": name for name in POOLS}, **{f"play-{name}-{dialect}": name for name, dialect in CASES}}
NAMES = [*IMPORTS, *OWN]


def open_named(name: str) -> EventStore:
    """Return a log by its name in ``NAMES``."""
    if name in IMPORTS:
        return log_of(IMPORTS[name])
    if name.startswith("golden-"):
        with NamedTemporaryFile(suffix=".db") as file:
            Path(file.name).write_bytes(gzip.decompress((GOLDEN / f"{OWN[name]}.db.gz").read_bytes()))
            return open_log(file.name, create=False, read_only=True)
    return play_transcript(OWN[name], name.removeprefix(f"play-{OWN[name]}-"))[0].log
