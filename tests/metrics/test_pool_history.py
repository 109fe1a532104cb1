"""golden, property: the history of a pool, in HTCondor's files and from the log."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.metrics.history_files import HistoryFiles
from poolbook.projections.pool_history import (
    GROUPS,
    LEVELS,
    SLOTS,
    SUBMITTERS,
    USERS,
    Line,
    PoolHistory,
    SlotSample,
    SubmitterSample,
    line,
    values_of,
)

from ..pool.real import Folder
from .recorded import DATA

RECORDED = DATA / "viewhist"


@pytest.mark.parametrize("data_set", [SUBMITTERS, SLOTS, GROUPS, USERS])
def test_recorded_lines_are_written_as_they_were_read(data_set: int) -> None:
    text = (RECORDED / f"viewhist{data_set}.0.new").read_text()
    entries = HistoryFiles(RECORDED).entries(data_set, 0, 1 << 40)
    assert "".join(line(data_set, time, name, map(float, values.split())) for time, name, values in entries) == text


def test_four_samples_are_averaged_and_a_slot_keeps_its_last_state() -> None:
    """As recorded: 0.2 unclaimed and 3.8 claimed slots."""
    history = PoolHistory()
    lines: list[Line] = []
    for sample in range(4):
        slots = [SlotSample(f"slot{n}@a", "X86_64/LINUX", "Claimed", 100 + sample, 1.0) for n in (1, 2, 3)]
        slots.append(SlotSample("slot4@a", "X86_64/LINUX", "Unclaimed" if sample == 0 else "Claimed", 0, 0.1))
        jobs = [SubmitterSample("alice@a", "ap", sample, 1), SubmitterSample("alice@a", "ap2", 1, 1)]
        lines += history.sample(1000 + 10 * sample, values_of(jobs, slots))
    assert [text for data_set, level, text in lines if level == 0 and data_set != SLOTS] == [
        "1030\talice@a/ap\t:\t2\t1\n",
        "1030\talice@a/ap2\t:\t1\t1\n",
        "1030\tTotal\t:\t0.2\t0.0\t3.8\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\n",
        "1030\tX86_64/LINUX\t:\t0.2\t0.0\t3.8\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\n",
        "1030\tTotal\t:\t2\t2\n",
        "1030\talice@a\t:\t2\t2\n",
    ]
    assert [text for data_set, _, text in lines if data_set == SLOTS][3] == "1030\tslot4@a\t:\t0\t  0.100\t3\n"


@given(storage=st.integers(3_000, 30_000), samples=st.integers(1, 300))
def test_the_files_never_exceed_their_storage_by_more_than_what_is_written_at_once(storage: int, samples: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        files, history = HistoryFiles(Path(folder), storage), PoolHistory()
        values = values_of([SubmitterSample("alice@a", "ap", 1, 2)], [SlotSample("slot1@a", "X/L", "Owner", 5, 0.5)])
        for sample in range(samples):
            files.append(history.sample(sample, values))
        assert sum(path.stat().st_size for path in Path(folder).iterdir()) < storage + 4 * LEVELS * 2 * 120
        assert len(files.entries(USERS, 0, 1 << 40)) > 0 or samples < 4


def test_a_year_of_a_pool_with_1000_slots_and_50_users_is_in_less_than_100_MB(tmp_path: Path) -> None:
    """The lines of the last level are repeated for two years, and then all levels are written."""
    slots = [SlotSample(f"slot1_{n % 16}@ep{n // 16:04d}.pool.example", "X86_64/LINUX", "Claimed", 10**8, 1.0)
             for n in range(1000)]  # fmt: skip
    jobs = [SubmitterSample(f"user{n}@pool.example", "ap1.pool.example", 9999, 99_999) for n in range(50)]
    values, history, files = values_of(jobs, slots), PoolHistory(), HistoryFiles(tmp_path, 100_000_000)
    samples, interval, year = 4**LEVELS, 60, 365 * 86400
    lines = [line for n in range(samples) for line in history.sample(2 * year + n * interval, values)]
    last_level = [line for line in lines if line.level == LEVELS - 1]
    for end in range(samples * interval, 2 * year, samples * interval):
        files.append(line._replace(text=f"{end}\t{line.text.partition(chr(9))[2]}") for line in last_level)
    for _, of_sample in groupby(lines, key=lambda line: line.text.partition("\t")[0]):
        files.append(of_sample)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000_000
    now = 2 * year + samples * interval
    for data_set in (SUBMITTERS, SLOTS, GROUPS, USERS):
        entries = files.entries(data_set, now - year, now)
        assert entries[0].time <= now - year + samples * interval


def test_a_query_is_answered_by_the_level_that_reaches_back(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    files.path(USERS, 0, "new").write_text("".join(f"{time}\tTotal\t:\t1\t0\n" for time in (900, 910)))
    files.path(USERS, 1, "old").write_text("500\tTotal\t:\t2\t0\n")
    files.path(USERS, 1, "new").write_text("700\tTotal\t:\t3\t0\n940\tTot")  # cut by a power failure
    assert [entry.values for entry in files.entries(USERS, 900, 1000)] == ["\t1\t0", "\t1\t0"]
    assert [entry.values for entry in files.entries(USERS, 600, 1000)] == ["\t3\t0"]
    assert [entry.values for entry in files.entries(USERS, 100, 1000)] == ["\t2\t0", "\t3\t0"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/sleep\narguments = 60\nqueue 3\n")
    (tmp_path / "history").mkdir()
    folder.write(
        "poolbook.conf",
        f"KEEP_POOL_HISTORY = true\nPOOL_HISTORY_DIR = {tmp_path}/history\nPOOL_HISTORY_SAMPLING_INTERVAL = 1\n"
        "NUM_CPUS = 1\n",
    )
    return folder


def test_a_served_pool_keeps_its_history_and_condor_stats_prints_it(folder: Folder) -> None:
    total = folder.path / "history/viewhist3.0.new"
    with folder.served():
        folder.call("submit", "job.sub")
        deadline = time.monotonic() + 60
        while not (total.exists() and "Total\t:\t1\t2\n" in total.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        slots = folder.call("condor_stats", "-resourcelist").split()
        assert slots[0].startswith("slot1@") and len(slots) == 2
        (owner,) = {name for name in folder.call("condor_stats", "-usergrouplist").split() if name != "Total"}
        last = folder.call("condor_stats", "-lasthours", "1", "-orgformat", "-usergroupquery", owner).splitlines()[-1]
        assert last.split("\t")[1:] == [owner, ":", "1", "2"]
        shown = folder.call("condor_stats", "-resourcequery", slots[1]).splitlines()[-1].split("\t")
        assert float(shown[0]) > 99 and shown[3] == "CLAIMED"


def test_condor_stats_answers_from_the_log_if_no_history_is_kept(folder: Folder) -> None:
    folder.write("poolbook.conf", "NUM_CPUS = 1\n")
    with folder.served():
        folder.call("submit", "job.sub")
        deadline = time.monotonic() + 60
        while not folder.call("condor_stats", "-lasthours", "1", "-usergroupquery", "Total").endswith("\t1\t2\n"):
            assert time.monotonic() < deadline
        assert (
            folder.call("condor_stats", "-resgroupquery", "Total").splitlines()[-1].startswith("100.00\t1.0\t0.0\t1.0")
        )
        (slot, *_) = folder.call("condor_stats", "-resourcelist").split()
        assert "\tUNCLAIMED\n" in folder.call("condor_stats", "-resourcequery", slot)
    assert folder.call("condor_stats", "-userquery", "nobody@a/b") == "No Data.\n"
    assert folder.call("condor_stats", "-ckptlist") == "No Data.\n"
    folder.call("condor_stats", "-f", "out", "-userlist")
    assert (folder.path / "out").read_text().count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["-userlist", "-from", "1", "2"], ["-bad"], ["-resourcequery"], ["-userlist", "-to", "1", "1", "1999"]],
    ids=str,
)
def test_invalid_usage_prints_the_usage_of_condor_stats(folder: Folder, arguments: list[str]) -> None:
    assert folder.call("condor_stats", *arguments, code=1).startswith("Usage: condor_stats [-f filename]")
