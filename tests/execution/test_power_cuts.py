"""Property: whenever the power fails while a job's files are stored or returned, each file is complete, in its old or
new version; and everything that was reported as done is done."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution import client
from poolbook.adapters.machine.execution.activation import FileTransfer, LaunchRequest
from poolbook.adapters.machine.execution.supervisor import copying, output_staging, spool, transfer
from poolbook.adapters.machine.execution.supervisor import url_plugin as plugin
from poolbook.adapters.machine.execution.supervisor.chirp_requests import Session
from poolbook.adapters.machine.execution.supervisor.chirp_writes import Sender
from poolbook.adapters.machine.execution.supervisor.records import Journal
from poolbook.adapters.machine.spool import Spool
from poolbook.adapters.runtime import spooled_files

from ..simulation.power_cuts import cuts, folder_in_memory
from .test_transfers import files

FEW = {"state": "2\n", "result": "42\n"}
IN_A_DIRECTORY = {"state": "2\n", "d/deep": "deep\n"}
MANY = {f"f{number}": f"{number}\n" for number in range(4)}
TREE = {f"d/f{number}": f"{number}\n" for number in range(4)}


def fill(folder: Path, contents: Mapping[str, str]) -> None:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


class Job:
    """The directories of a job that has run, and the supervisor's order about it."""

    def __init__(self, folder: Path, outputs: Mapping[str, str], **transfer: Any) -> None:
        self.disk = folder / "disk"
        self.iwd, self.scratch = self.disk / "iwd", self.disk / "execute/dir_1/scratch"
        self.spool = self.disk / "spool/1/0/cluster1"
        self.names = tuple(sorted({name.partition("/")[0] for name in outputs}))
        file_transfer = FileTransfer(
            executable=False, outputs=self.names, spool=str(self.spool), on_evict=True, **transfer
        )
        activation = LaunchRequest(
            key="1", job="1.0", slot="s", executable="/bin/true", iwd=str(self.iwd), transfer=file_transfer
        )
        self.order = json.loads(client._line_of(client._start(activation, "1")))["order"]

    def runs(self, outputs: Mapping[str, str]) -> None:
        """Write the job's outputs, which are not synced."""
        self.iwd.mkdir(parents=True, exist_ok=True)
        fill(self.scratch, outputs)


@pytest.fixture
def memory() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def few_are_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make more than three files count as many, which are synced together."""
    for module in (copying, output_staging, spool, transfer):
        monkeypatch.setattr(module, "SYNCED_ALONE", 3)


@pytest.mark.usefixtures("few_are_three")
@pytest.mark.parametrize("outputs", [FEW, IN_A_DIRECTORY, MANY], ids=["few", "in a directory", "many"])
@pytest.mark.parametrize("first", [True, False], ids=["the first time", "again"])
def test_a_power_cut_leaves_the_files_stored_before_or_those_stored_now(
    memory: Path, outputs: Mapping[str, str], first: bool
) -> None:
    job = Job(memory, outputs)
    earlier = {} if first else dict.fromkeys(outputs, "earlier\n")
    results: list[Mapping[str, Any]] = []

    def prepare() -> None:
        if not first:
            job.runs(earlier)
            assert "failure" not in spool.copy_to_spool(job.order, str(job.scratch))

    def act() -> None:
        job.runs(outputs)
        results.append(spool.copy_to_spool(job.order, str(job.scratch)))

    for moment, is_done in cuts(job.disk, prepare, act):
        contents = {}
        if spool.recover(str(job.spool)):
            contents = files(job.spool)
            names = json.loads(contents.pop(spool.KEPT))
            assert {name for name in names if not name.endswith("/")} == set(contents), moment
        assert contents in ([outputs] if is_done else [earlier, outputs]), moment
        assert not Path(f"{job.spool}{spool.NEXT}").exists(), moment
        assert not Path(f"{job.spool}{spool.BEFORE}").exists(), moment
    assert results and all("failure" not in result for result in results)


@pytest.mark.usefixtures("few_are_three")
@pytest.mark.parametrize("outputs", [FEW, MANY, TREE], ids=["few", "many", "a directory with many"])
@pytest.mark.parametrize("moves", [False, True], ids=["copied", "moved"])
@pytest.mark.parametrize("first", [True, False], ids=["the first time", "over earlier ones"])
def test_a_power_cut_leaves_each_output_whole_and_the_recorded_end_of_a_job_has_all_of_them(
    memory: Path, outputs: Mapping[str, str], moves: bool, first: bool
) -> None:
    job = Job(memory, outputs)
    earlier = {} if first else {name: f"earlier {text}" for name, text in outputs.items()}

    def prepare() -> None:
        fill(job.iwd, earlier)

    def act() -> None:
        job.runs(outputs)
        result = transfer.transfer_outputs(job.order, str(job.scratch), False, may_move=moves)
        assert "failure" not in result
        Journal(str(job.disk / "exits"), {"1"}).append([{"say": "exited", "key": "1"}])

    for moment, is_done in cuts(job.disk, prepare, act):
        contents = {name: text for name, text in files(job.iwd).items() if not name.startswith(".poolbook-")}
        for name, text in contents.items():
            assert text in (outputs[name], earlier.get(name)), (moment, name)
        if is_done or "1" in Journal(str(job.disk / "exits"), {"1"}).records:
            assert contents == outputs, moment
        assert contents.keys() >= earlier.keys(), moment


def test_a_power_cut_leaves_every_recorded_end_while_the_journal_is_rewritten(memory: Path) -> None:
    path = memory / "disk/exits"

    def record(key: str) -> dict[str, Any]:
        return {"say": "exited", "key": key, "code": 0}

    def prepare() -> None:
        Journal(str(path), set()).append(map(record, "ab"))

    def act() -> None:
        journal = Journal(str(path), {"b"})  # which is rewritten without the other
        journal.append([record("c")])
        journal.append([record("d")])

    for moment, is_done in cuts(path.parent, prepare, act):
        records = Journal(str(path), set("bcd")).records
        assert records.keys() >= (set("bcd") if is_done else {"b"}), moment
        assert all(records[key] == record(key) for key in records), moment


def test_outputs_on_another_disk_than_the_journal_survive_a_power_cut(memory: Path, tmp_path: Path) -> None:
    if memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the machine has one disk")
    job = Job(memory, FEW)
    job.scratch = tmp_path / "execute/dir_1/scratch"

    def act() -> None:
        job.runs(FEW)
        assert "failure" not in transfer.transfer_outputs(job.order, str(job.scratch), False, may_move=True)
        Journal(str(tmp_path / "exits"), {"1"}).append([{"say": "exited", "key": "1"}])

    for moment, is_done in cuts(job.disk, lambda: None, act):
        if is_done:
            assert files(job.iwd) == FEW, moment
        (tmp_path / "exits").unlink(missing_ok=True)


def test_files_spooled_with_a_submission_survive_a_power_cut(memory: Path) -> None:
    disk = memory / "disk"
    ad = {"Cmd": '"program"', "TransferInput": '"a,d"', "Iwd": f'"{disk}/iwd"'}
    inputs = {"program": "#!/bin/sh\n", "a": "alpha\n", "d/deep": "deep\n"}

    for moment, is_done in cuts(
        disk, lambda: fill(disk / "iwd", inputs), lambda: spooled_files.copy_to_spool(disk / "pool", (1, 0), ad)
    ):
        if is_done:
            place = Spool(disk / "pool").path(1, 0)
            contents = {name: text for name, text in files(Path(place)).items() if not name.startswith(".poolbook-")}
            assert contents == inputs, moment


def test_a_file_that_a_job_puts_with_chirp_is_whole_after_a_power_cut(memory: Path) -> None:
    disk = memory / "disk"

    def act() -> None:
        end, other_end = socket.socketpair()
        with end, other_end:
            end.sendall(b"cookie c\nputfile a 420 4\nnew\n")
            end.shutdown(socket.SHUT_WR)
            desk = Sender("", {"updates": False, "delayed": (), "most": 0, "refused": ()}, other_end)
            Session(other_end, "c", str(disk), desk).run()

    for moment, _ in cuts(disk, lambda: fill(disk, {"a": "earlier\n"}), act):
        assert files(disk)["a"] in (["new\n", "earlier\n"]), moment


def test_a_power_cut_leaves_the_file_of_a_file_url_whole(memory: Path) -> None:
    disk = memory / "disk"

    def prepare() -> None:
        fill(disk, {"from": "new\n", "to": "earlier\n"})

    for moment, _ in cuts(disk, prepare, lambda: plugin._write_file(f"file://{disk}/to", f"{disk}/from")):
        assert (disk / "to").read_text() in ("earlier\n", "new\n"), moment
