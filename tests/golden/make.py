"""Write golden logs for future releases: `python tests/golden/make.py RELEASE [LOG.db]`.

 Copies a closed SQLite log to tests/golden/RELEASE.db.gz, with its content (RELEASE.txt.gz, a line per event: position,
stream, topic) and the head in the last line; and with its answers (RELEASE.answers.json.gz: answers.py). Without LOG.db
it makes a log of one event of each kind, RELEASE-kinds, and one of each story, RELEASE-STORY.

 A release's files never change: an existing file is not overwritten.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.golden.answers import answers_of, store_answers  # noqa: E402
from tests.stores.samples import AT, KINDS, sample  # noqa: E402

from poolbook.adapters.stores.opening import open_log, verify_seal  # noqa: E402
from poolbook.adapters.stores.sqlite import open_sqlite  # noqa: E402
from poolbook.domain.ports.log import LogError  # noqa: E402

GOLDEN = Path(__file__).parent


def content_of(log: Path) -> str:
    """Return the content of the log in this file, in the format of RELEASE.txt.gz."""
    tables = open_sqlite(str(log), create=False, read_only=True)
    if tables is None:
        raise LogError(f"there is no log at {log}; look at the name")
    ((_, head),) = tables.head_rows()
    lines = [
        f"{position}\t{stream!r}\t{topic}"
        for position, stream, _, topic, _ in tables.read_rows(0, head.position, head.position)
    ]
    tables.close()
    return "\n".join([*lines, f"head\t{head.epoch}\t{head.position}\t{head.digest}", ""])


def recorded_content(release: str, folder: Path = GOLDEN) -> str:
    """Return the recorded content of the log of `release`, in the same format."""
    return gzip.decompress((folder / f"{release}.txt.gz").read_bytes()).decode()


def one_of_each_kind(path: Path) -> None:
    log = open_log(str(path), create=True)
    log.append([sample(KINDS[0], 0)])
    log.raise_epoch("server", AT, "s-0")
    for number in range(1, len(KINDS)):
        log.append([sample(KINDS[number], 3 * number + i) for i in range(3)])
    log.close()


def store_log(release: str, path: Path, folder: Path = GOLDEN, is_story: bool = True) -> None:
    """Store the log in the file `path` as that of `release`. Raises `LogError` if it is not sound or already stored.

    :param is_story: its events make a story, which has answers
    """
    target = folder / f"{release}.db.gz"
    if target.exists():
        raise LogError(f"{target} is there, and a log once released is not changed; name another release")
    problems = verify_seal(str(path))
    wal = path.with_name(f"{path.name}-wal")
    if problems or (wal.exists() and wal.stat().st_size):
        raise LogError(f"{path} cannot be kept: {problems or 'it is open; close it first'}")
    target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    (folder / f"{release}.txt.gz").write_bytes(gzip.compress(content_of(path).encode(), mtime=0))
    store_answers(folder / f"{release}.answers.json.gz", answers_of(path, is_story))


def main(release: str, *log: str) -> None:
    if log:
        store_log(release, Path(*log))
        return
    from tests.golden.stories import STORIES

    for name, story in {"kinds": one_of_each_kind, **STORIES}.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.db"
            story(path)
            store_log(f"{release}-{name}", path, is_story=name != "kinds")


if __name__ == "__main__":
    main(*sys.argv[1:])
