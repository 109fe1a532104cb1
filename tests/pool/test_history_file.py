"""Real: the history file that condor_config_val starts and a pool maintains; its rotation, and its repair."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from poolbook import Behaviour, Pool
from poolbook.adapters.condor_tools.history import ads_of_file
from poolbook.adapters.condor_tools.job_selection import id_of
from poolbook.adapters.runtime.history_file import HistoryFile
from poolbook.adapters.runtime.views import views_current

from .real import Folder
from .test_shell import shell


def jobs(path: Path) -> list[tuple[int, int]]:
    """Return the jobs in a history file. Each banner gives the offset at which its record starts."""
    text, begin = path.read_bytes(), 0
    for banner in re.finditer(rb"^\*\*\* Offset = (\d+) ClusterId = .*\n", text, re.MULTILINE):
        assert int(banner[1]) == begin
        begin = banner.end()
    assert begin == len(text)
    return list(map(id_of, ads_of_file("-file", str(path), "long", "")))


class EndedPool:
    """A pool in virtual time whose jobs have ended, and its history file."""

    def __init__(self, folder: Path, most: int = 0, rotations: int = 2) -> None:
        self.log, self.path = folder / "pool.db", folder / "history"
        self.file = HistoryFile(str(self.path), most, rotations)

    def run(self, count: int) -> None:
        with Pool.open(str(self.log), user="alice", behave=lambda launch: Behaviour(seconds=1)) as pool:
            if not self.path.exists():
                pool.add_machine("node1", cpus=8, memory=8192)
            pool.submit({"executable": "/bin/true"}, count=count)
            pool.advance(120)

    def update(self) -> list[tuple[int, int]]:
        with views_current(str(self.log)) as views:
            self.file.update(views)
        return jobs(self.path)


def test_jobs_that_left_since_the_last_update_are_appended(tmp_path: Path) -> None:
    pool = EndedPool(tmp_path)
    pool.run(3)
    first = pool.update()
    assert sorted(first) == [(1, 0), (1, 1), (1, 2)]
    assert pool.update() == first
    pool.run(2)
    assert pool.update()[:3] == first
    assert sorted(pool.update()[3:]) == [(2, 0), (2, 1)]


@pytest.mark.parametrize("damage", ["lost", "empty", "torn ad", "torn banner", "another log's"])
def test_lost_parts_are_written_again(damage: str, tmp_path: Path) -> None:
    pool = EndedPool(tmp_path)
    pool.run(3)
    history_text = pool.update()
    text = pool.path.read_text()
    if damage == "lost":
        pool.path.unlink()
    else:
        pool.path.write_text(
            {
                "empty": "",
                "torn ad": text + "Owner = ",
                "torn banner": text[: text.rindex("CompletionDate")],
                "another log's": text.replace("ClusterId = 1 ", "ClusterId = 71 "),
            }[damage]
        )
    assert pool.update() == history_text


def test_the_file_is_rotated_at_its_limit_and_older_ones_are_removed(tmp_path: Path) -> None:
    pool = EndedPool(tmp_path, most=6_000, rotations=2)
    pool.run(12)
    with views_current(str(pool.log)) as views:
        all_ids = [id_of(ad) for ad in views.history_ads(forwards=True)]
    newest = pool.update()
    rotated = sorted(tmp_path.glob("history.*"))
    assert len(rotated) == 2
    assert all(re.fullmatch(r"history\.\d{8}T\d{6}", path.name) for path in rotated)
    expected = [job for path in rotated for job in jobs(path)] + newest
    assert 3 <= len(expected) < 12
    assert expected == all_ids[-len(expected) :]
    assert pool.path.stat().st_size <= 6_000
    pool.path.unlink()  # the jobs of the rotated files are not written twice
    assert pool.update() == newest


def test_without_a_limit_there_is_one_file(tmp_path: Path) -> None:
    pool = EndedPool(tmp_path)
    pool.run(12)
    assert len(pool.update()) == 12
    assert list(tmp_path.glob("history.*")) == []


def test_the_paths_that_condor_config_val_prints_exist(folder: Folder) -> None:
    output = shell(folder, "condor_config_val LOCAL_DIR LOG SPOOL EXECUTE LOCK RUN HISTORY")
    paths = output.split()
    assert len(paths) == 7
    assert [path for path in paths if not os.path.exists(path)] == []
    assert paths[0] == str(folder.path / "pool.db.d")


def test_condor_history_reads_the_file_that_condor_config_val_names(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/sh\narguments = \"-c 'exit 3'\"\nlog = job.log\nqueue 2\n")
    output = shell(
        folder,
        "H=$(condor_config_val -schedd history); test ! -s $H\n"
        "condor_submit -terse job.sub; condor_wait job.log >/dev/null\n"
        "for _ in $(seq 1000); do test $(grep -c '^[*]' $H) = 2 && break; sleep 0.1; done\n"  # the pool updates it
        "condor_history -file $H -af:j ExitCode | sort; rm $H\n"
        "condor_history -file $(condor_config_val HISTORY) 1.1 -af ExitCode\n"
        "ls $(condor_config_val SPOOL)/history",
    )
    assert output.splitlines() == ["1.0 - 1.1", "1.0 3", "1.1 3", "3", f"{folder.path}/pool.db.d/spool/history"]


def test_a_configuration_names_another_file(folder: Folder) -> None:
    folder.write("other.conf", f"HISTORY = {folder.path}/kept/history\n")
    (folder.path / "kept").mkdir()
    folder.write("job.sub", "executable = /bin/true\nlog = job.log\nqueue 2\n")
    shell(folder, "condor_submit job.sub; condor_wait job.log; POOLBOOK_CONFIG=other.conf condor_config_val HISTORY")
    assert sorted(jobs(folder.path / "kept" / "history")) == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    "name", ["SCHEDD_LOG", "JOB_QUEUE_LOG", "STARTD_HISTORY", "JOB_EPOCH_HISTORY", "SCHEDD_ADDRESS_FILE"]
)
def test_a_file_that_cannot_be_written_is_reported(name: str, folder: Folder) -> None:
    output = shell(folder, f"condor_config_val {name}")
    assert f"condor_config_val: {name}: Poolbook writes no such file (" in output
