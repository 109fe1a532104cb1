"""Golden: the DefragLog that Poolbook writes equals condor_defrag's, for the polls of four recorded pools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.runtime.daemon_logs.line_table import TABLE
from poolbook.adapters.runtime.daemon_logs.writer import DaemonLogWriter
from poolbook.domain import events as e
from poolbook.domain.config import read
from poolbook.domain.coverage.settings import DEFRAG
from poolbook.domain.defrag.defrag_settings import configured_settings
from poolbook.domain.units import SECOND

from ..daemon_logs.test_recorded_lines import messages
from ..daemon_logs.written import configured
from .recorded import ALL_FOLDERS, _text, logged_polls

# HTCondor's words for a poll -> the reason in the event.
STOPPED = {
    "number": "rate",
    "DEFRAG_DRAINING": "rate",
    "DEFRAG_MAX_CONCURRENT": "concurrent",
    "DEFRAG_MAX_WHOLE": "whole",
}


def settings_of(folder: Path) -> dict[str, str]:
    text = (folder / "scenario.conf").read_text()
    configuration = read(text, detected={"FULL_HOSTNAME": "localhost", "HOSTNAME": "localhost"}, subsystem=DEFRAG)
    return dict(configured_settings(configuration))


def events(folder: Path) -> Iterator[e.Event]:
    """Yield the events of a pool that polled as in the recording."""
    polls = logged_polls(folder)
    yield e.PoolFounded(polls[0].at * SECOND, "founded", "", "pool", "htcondor-25", "x", "1", settings_of(folder))
    log = _text(folder / "DefragLog.gz")
    counts = re.findall(r"currently (\d+) draining and (\d+) whole", log)
    costs = re.findall(r"draining badput = (.*)%\n.*unclaimed = (.*)%", log)
    estimates = iter(re.findall(r"completion time is (-?\d+)s; .* badput is (\d+) cpu", log))
    draining, whole = set[str](), set[str]()
    for poll, (draining_count, whole_count), (badput, unclaimed) in zip(polls, counts, costs, strict=True):
        drains = tuple(
            e.DefragDrain(slot.partition("@")[2], slot, 0.0, int(badput_of_drain), int(seconds), ())
            for slot in poll.drained
            for seconds, badput_of_drain in [next(estimates)]
        )
        stopped = next((name for words, name in STOPPED.items() if poll.stopped.startswith(words)), "")
        yield e.DefragPolled(
            poll.at * SECOND, "polled", "", poll.wanted or 0, int(draining_count), int(whole_count), 0, stopped,
            drains, tuple(e.DefragCancel(slot.partition("@")[2], slot, ()) for slot in poll.canceled),
            tuple(sorted(poll.draining - draining)), tuple(sorted(draining - poll.draining)),
            tuple(sorted(poll.whole - whole)), tuple(sorted(whole - poll.whole)),
            {"AvgDrainingBadput": float(badput) / 100, "AvgDrainingUnclaimed": float(unclaimed) / 100},
        )  # fmt: skip
        draining, whole = poll.draining, poll.whole


def defrag_log(log: Iterator[tuple[int, e.Event]], folder: Path) -> list[str]:
    settings = configured("DEFRAG_DEBUG = D_FULLDEBUG", str(folder))
    assert settings is not None
    DaemonLogWriter(settings, zone=UTC).write(log)
    return (folder / "DefragLog").read_text().splitlines()


def is_written(line: str) -> bool:
    """Return True if the table of lines has a line like this one."""
    texts = [template.text for (kind, _), templates in TABLE.items() if kind == "defrag" for template in templates]
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in texts if not text.startswith("{")]
    return line.startswith(("\t ", "(no machines)")) or any(re.fullmatch(pattern, line) for pattern in patterns)


@pytest.mark.parametrize("folder", ALL_FOLDERS, ids=lambda folder: folder.name)
def test_the_log_of_recorded_polls_equals_condor_defrags(folder: Path, tmp_path: Path) -> None:
    recorded = _text(folder / "DefragLog.gz")
    first_poll = recorded.index("Will evaluate")
    end = re.search(r".*Got SIG(QUIT|TERM|HUP)", recorded)
    text = recorded[recorded.rfind("\n", 0, first_poll) + 1 : end.start() if end else None]
    lines = [message for message in messages(text) if is_written(message)]
    if "D_ALWAYS:2" not in recorded:  # the recording has no verbose lines
        lines = [line for line in lines if not line.startswith(("Evaluating", "Done evaluating"))]
    ours = list(messages("\n".join(defrag_log(enumerate(events(folder), 1), tmp_path))))
    ours = ours[ours.index(lines[0]) :]
    if "D_ALWAYS:2" not in recorded:
        ours = [line for line in ours if not line.startswith(("Evaluating", "Done evaluating"))]
    assert len(lines) > 50
    assert ours[: len(lines)] == lines  # until condor_defrag ends or is reconfigured


def test_a_pool_that_defragments_writes_its_log(tmp_path: Path) -> None:
    settings = {"DEFRAG_NAME": "DEFRAG@h", "DEFRAG_INTERVAL": "60", "DEFRAG_DRAINING_MACHINES_PER_HOUR": "60"}
    with Pool.open(str(tmp_path / "pool.db"), settings=settings) as pool:
        pool.add_machine("h", cpus=4, memory=4096)
        pool.advance(200)
        lines = defrag_log(pool.events(), tmp_path)
    assert sum("Looking for 1 machines to drain." in line for line in lines) >= 2
