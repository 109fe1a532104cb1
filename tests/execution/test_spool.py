"""Golden: a job's files are stored in its spool when it is evicted or takes a checkpoint, and its next run finds them:
all new ones, or all of the previous ones."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, FileTransfer, Started
from poolbook.adapters.machine.execution.supervisor import spool as supervisor_spool

from ..pool.test_full_disks import disk
from .bench import Bench, wait
from .test_transfers import files

COUNTS = """
n=$(cat state 2>/dev/null || echo 0); echo "from $n"; cat a; cat a > seen.$n
n=$((n+1)); echo $n > state
test $n -ge {goal} && { echo $n > result; exit 0; }
{ends}
"""
WAITS = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.01; done"
CHECKPOINT = {"code": 85}


@pytest.fixture
def iwd(bench: Bench) -> Path:
    folder = bench.home / "iwd"
    folder.mkdir()
    (folder / "a").write_text("alpha\n")
    return folder


def start(bench: Bench, iwd: Path, key: str, ends: str = WAITS, goal: int = 3, **fields: Any) -> None:
    script = COUNTS.replace("{goal}", str(goal)).replace("{ends}", ends)
    transfer_fields: dict[str, Any] = {"inputs": ("a",), "brought": ("stdout",), "spool": spool(bench), **fields}
    transfer = FileTransfer(executable=False, **transfer_fields)
    bench.sh(key, script, iwd=str(iwd), stdout="out", transfer=transfer)


def spool(bench: Bench) -> str:
    return str(bench.home / "spool/1/0/cluster1.proc0.subproc0")


def spooled_files(bench: Bench) -> dict[str, str]:
    contents = files(Path(spool(bench)))
    contents.pop(supervisor_spool.KEPT, None)
    return contents


def evict(bench: Bench, key: str, how: Any = "soft") -> Exited:
    """Tell a run to end as soon as it waits for that."""
    bench.until(lambda: bench.of(key, Started))
    wait(lambda: (bench.folder / f"execute/dir_{key}/scratch/ready").exists())
    bench.supervisor.signal(key, how)
    end: Exited = bench.end(key)
    bench.supervisor.acknowledge([key])
    return end


def test_the_files_of_an_evicted_job_are_in_its_next_run_and_come_back_at_its_end(bench: Bench, iwd: Path) -> None:
    before = files(iwd)
    start(bench, iwd, "1", on_evict=True)
    end = evict(bench, "1")
    assert (end.code, end.undelivered, end.failure) == (9, False, None)
    assert [(move.way, move.kept, move.files) for move in end.moves] == [("input", False, 1), ("output", True, 4)]
    assert spooled_files(bench) == {
        "_condor_stdout": "from 0\nalpha\n",
        "ready": "",
        "seen.0": "alpha\n",
        "state": "1\n",
    }
    assert files(iwd) == before
    (iwd / "a").write_text("other\n")
    start(bench, iwd, "2", ends="", goal=2, on_evict=True)
    assert bench.end("2").code == 0
    expected = {"seen.0": "alpha\n", "seen.1": "other\n", "state": "2\n", "result": "2\n", "ready": ""}
    assert files(iwd) == {"a": "other\n", "out": "from 1\nother\n", **expected}


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "killed at once": ({"on_evict": True}, "hard"),
    "removed": ({"on_evict": True}, "remove"),
    "evicted, and not on that": ({}, "soft"),
}


@pytest.mark.parametrize("case", ENDS)
def test_nothing_is_stored_for_a_removed_job(bench: Bench, iwd: Path, case: str) -> None:
    fields, how = ENDS[case]
    start(bench, iwd, "1", **fields)
    assert [move.way for move in evict(bench, "1", how).moves] == ["input"]
    assert not Path(spool(bench)).exists()


def test_a_held_job_keeps_its_files(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "1", on_evict=True, outputs=("state", "seen.0"))
    evict(bench, "1", "hold")
    assert spooled_files(bench) == {"_condor_stdout": "from 0\nalpha\n", "seen.0": "alpha\n", "state": "1\n"}


def test_an_eviction_keeps_the_stored_files_if_an_output_is_missing(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "1", on_evict=True, outputs=("state",))
    evict(bench, "1")
    before = spooled_files(bench)
    start(bench, iwd, "2", on_evict=True, outputs=("state", "missing"))
    end = evict(bench, "2")
    assert (end.failure, end.moves[-1].failed, end.undelivered) == (None, True, False)
    assert spooled_files(bench) == before
    assert not Path(spool(bench) + ".tmp").exists()


def test_a_full_disk_leaves_the_stored_files(bench: Bench, iwd: Path) -> None:
    with disk(bench.home / "spool", "size=1m") as place:
        start(bench, iwd, "1", on_evict=True, outputs=("state",))
        evict(bench, "1")
        before = spooled_files(bench)
        large = "dd if=/dev/zero of=large bs=1k count=2000 2>/dev/null; " + WAITS
        start(bench, iwd, "2", large, on_evict=True, outputs=("state", "large"))
        end = evict(bench, "2")
        assert (end.failure, end.moves[-1].failed) == (None, True)
        assert spooled_files(bench) == before
        assert not list(place.rglob("large"))
        checkpoint: dict[str, Any] = {"checkpoint": CHECKPOINT, "checkpoint_files": ("state", "large")}
        start(bench, iwd, "3", large.replace(WAITS, "exit 85"), **checkpoint)
        assert (bench.end("3").failure.code, bench.end("3").failure.errno) == (36, errno.ENOSPC)
        assert spooled_files(bench) == before


def test_directories_and_links_are_stored_and_no_link_leads_out_of_the_scratch_directory(
    bench: Bench, iwd: Path
) -> None:
    makes = "mkdir -p d/e; echo deep > d/e/deep; ln -s /etc/passwd d/out; ln -s ../../state d/e/in; " + WAITS
    start(bench, iwd, "1", makes, on_evict=True, outputs=("d", "state"))
    evict(bench, "1")
    assert spooled_files(bench) == {
        "_condor_stdout": "from 0\nalpha\n",
        "d/e/deep": "deep\n",
        "d/e/in": "1\n",
        "state": "1\n",
    }
    shows = "find d | LC_ALL=C sort; exit 0"
    start(bench, iwd, "2", shows, on_evict=True, outputs=())
    bench.end("2")
    assert (iwd / "out").read_text() == "from 1\nalpha\nd\nd/e\nd/e/deep\nd/e/in\n"


def test_a_checkpoint_is_stored_and_the_job_continues_in_its_scratch_directory_immediately(
    bench: Bench, iwd: Path
) -> None:
    start(bench, iwd, "1", "exit 85", checkpoint=CHECKPOINT, checkpoint_files=("state",), outputs=("result",))
    end = bench.end("1")
    assert (end.code, end.undelivered) == (0, False)
    assert [(move.way, move.number) for move in end.moves] == [("input", 0), ("checkpoint", 2), ("output", 0)]
    assert files(iwd) == {"a": "alpha\n", "out": "from 0\nalpha\nfrom 1\nalpha\nfrom 2\nalpha\n", "result": "3\n"}
    assert spooled_files(bench) == {"_condor_stdout": "from 0\nalpha\nfrom 1\nalpha\n", "state": "2\n"}


@pytest.mark.parametrize(
    ("promised", "ends"), [({"code": 85}, "exit 85"), ({"signal": int(signal.SIGUSR2)}, "kill -USR2 $$")]
)
def test_a_run_starts_where_the_last_checkpoint_was_taken(
    bench: Bench, iwd: Path, promised: dict[str, int], ends: str
) -> None:
    once = f"test $n -eq 1 && {{ {ends}; }}\n{WAITS}"
    fields: dict[str, Any] = {"checkpoint": promised, "checkpoint_files": ("state",), "appends": True}
    start(bench, iwd, "1", once, goal=4, **fields)
    evict(bench, "1", "hard")
    start(bench, iwd, "2", ends, goal=3, outputs=(), **fields)
    assert bench.end("2").code == 0
    assert (iwd / "out").read_text() == "from 0\nalpha\nfrom 1\nalpha\nfrom 2\nalpha\n"


def test_a_checkpoint_that_lacks_a_file_ends_the_run(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "1", "exit 85", checkpoint=CHECKPOINT, checkpoint_files=("state", "missing"))
    end = bench.end("1")
    assert (end.failure.code, end.failure.errno, end.undelivered) == (36, 2, True)
    assert "missing" in end.failure.words
    assert not Path(spool(bench)).exists()


LEFT_BEHIND = {
    "before the first rename": ("", ".tmp"),
    "between the two": (".swap", ".tmp"),
    "behind the second": ("", ".swap"),
}


@pytest.mark.parametrize("moment", LEFT_BEHIND)
def test_a_killed_change_is_undone_or_finished(tmp_path: Path, moment: str) -> None:
    place = str(tmp_path / "spool")
    is_complete, other = LEFT_BEHIND[moment]
    for name, text in ((place + is_complete, "whole"), (place + other, "other")):
        os.makedirs(name)
        (Path(name) / "file").write_text(text)
    assert supervisor_spool.recover(place)
    assert files(tmp_path) == {"spool/file": "whole"}


def test_a_supervisor_killed_while_it_stores_files_leaves_those_stored_before(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "1", on_evict=True, outputs=("state",))
    evict(bench, "1")
    before = spooled_files(bench)
    script = "i=0; while test $i -lt 3000; do echo $i > f$i; i=$((i+1)); done; " + WAITS
    start(bench, iwd, "2", script, on_evict=True)
    bench.until(lambda: bench.of("2", Started))
    wait(lambda: (bench.folder / "execute/dir_2/scratch/ready").exists())
    wait(lambda: (bench.folder / "execute/dir_2/scratch/f2999").exists())
    bench.supervisor.signal("2", "soft")
    wait(lambda: Path(spool(bench) + ".tmp").exists())
    bench.kill_supervisor()
    assert spooled_files(bench) == before
    bench.end("2")
    start(bench, iwd, "3", "exit 0", on_evict=True, outputs=())
    assert bench.end("3").code == 0
    assert (iwd / "out").read_text() == "from 1\nalpha\n"
    assert not Path(spool(bench) + ".tmp").exists()


@pytest.mark.parametrize("how", ["hard", "soft"])
def test_a_job_killed_during_its_checkpoint_does_not_start_again(bench: Bench, iwd: Path, how: Any) -> None:
    script = "i=0; while test $i -lt 2000; do echo $i > f$i; i=$((i+1)); done; exit 85"
    start(bench, iwd, "1", script, checkpoint=CHECKPOINT)
    wait(lambda: Path(spool(bench) + ".tmp").exists())
    bench.supervisor.signal("1", how)
    end = bench.end("1")
    assert len(bench.of("1", Started)) == 1
    file_names = [f"f{number}" for number in range(2000)]
    names = sorted(name for name in spooled_files(bench) if name.startswith("f"))
    assert names == sorted(file_names) or (how == "hard" and not names)
    assert end.failure is None
