"""Property: a backfill client of real processes runs alone while no job needs the slot, and ends completely, whatever
process is killed at any time. Golden: this also holds for the real BOINC client."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from poolbook.adapters.stores.opening import open_log, verify_seal
from poolbook.domain.events import BackfillExecuting, BackfillExited, Event, SlotTransitioned
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.state import State
from poolbook.replay.validation import validate

from .. import forked
from .real import ROOT, Folder

CONFIGURATION = """\
NUM_CPUS = 1
NUM_SLOTS = 1
SLOT_TYPE_0_PARTITIONABLE = false
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
ENABLE_BACKFILL = true
BACKFILL_SYSTEM = EXEC
EXEC_Executable = {path}/client.sh
EXEC_InitialDir = {path}/work
EXEC_Output = said
EXEC_Environment = GREETING=hello;NAME=client
EXEC_Arguments = and good bye
EXEC_Owner = {user}
START_BACKFILL = true
"""
CLIENT = """\
#!/bin/sh
# Leaves a daemon behind, in a separate session.
echo "$GREETING $NAME $*"
(setsid sleep 1000 &)
exec sleep 1000
"""
JOB = """\
#!/bin/sh
# Says which processes of the client it finds.
for process in /proc/[0-9]*; do
    [ "$(readlink $process/cwd)" = "$1" ] && echo $process
done
exit 0
"""
FAMILY = 2  #: the processes of a client: its own, and the daemon that it leaves behind


class Filled(Folder):
    """A directory with a pool that has backfill."""

    def prepare(self, text: str = CLIENT) -> None:
        user = pwd.getpwuid(os.getuid()).pw_name
        self.work.mkdir()
        for name, script in (("client.sh", text), ("job.sh", JOB)):
            (self.path / self.write(name, script)).chmod(0o755)
        self.write("poolbook.conf", CONFIGURATION.format(path=self.path, user=user))

    @property
    def work(self) -> Path:
        return self.path / "work"

    @contextmanager
    def filled(self) -> Iterator[forked.Process]:
        with self.served("-config", "poolbook.conf", "-dialect", "htcondor-25") as server:
            yield server

    def events(self) -> list[Event]:
        log = open_log(str(self.path / "pool.db"), create=False, read_only=True)
        try:
            return [event for _, event in log.read()]
        finally:
            log.close()

    def state(self) -> State:
        return fold(enumerate(self.events(), 1))

    def pairs(self) -> list[str]:
        return [slot.state_activity for slot in self.state().slots.values()]

    def clients(self) -> list[int]:
        """Return the processes of all clients that ever ran, according to the log."""
        return [event.pid for event in self.events() if isinstance(event, BackfillExecuting)]

    def living(self) -> list[int]:
        """Return the running client processes: those in the clients' directory."""
        pids = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "cwd") == str(self.work):
                    pids.append(int(entry.name))
            except OSError:
                continue
        return pids

    def supervisor(self) -> int:
        return int((self.path / "pool.db.d" / "lock").read_text())

    def runs(self, clients: int) -> bool:
        """Return True if the slot is Busy with this number of clients started, the last one complete and alone."""
        return self.pairs() == ["Backfill/Busy"] and len(self.clients()) == clients and len(self.living()) == FAMILY

    def check(self) -> None:
        """Check that no client process remains and that the log is sound."""
        self.wait_for(lambda: not self.living())
        assert verify_seal(str(self.path / "pool.db")) == []
        assert list(validate(enumerate(self.events(), 1))) == []


@pytest.fixture
def filled(folder: Folder) -> Filled:
    filled = Filled(folder.path)
    filled.prepare()
    return filled


def test_a_client_runs_until_a_job_comes_and_again_until_the_machine_is_shut_down(filled: Filled) -> None:
    asks = "request_memory = 1\nrequest_disk = 1\n"
    filled.write("job.sub", f"executable = job.sh\narguments = {filled.work}\noutput = found\n{asks}queue\n")
    with filled.filled():
        filled.wait_for(lambda: filled.runs(1))
        assert "  X86_64/LINUX     1     0       0         0       0          0      0        1      0" in (
            filled.call("status").replace(os.uname().machine.upper(), "X86_64")
        )
        assert "Backfill/Busy" in filled.call("why", next(iter(filled.state().slots)))
        filled.call("submit", "job.sub")
        filled.wait_for(lambda: filled.runs(2))
        filled.call("off")
        filled.wait_for(lambda: not filled.state().machines)
        assert filled.living() == []
    assert (filled.path / "found").read_text() == "", "no process of the client beside the job"
    assert (filled.work / "said").read_text() == "hello client and good bye\n"
    rows = [event.row for event in filled.events() if isinstance(event, SlotTransitioned)]
    assert rows == ["1", "7", "26", "28", "29b", "11", "12", "12a", "10", "25", "1", "7", "26", "28", "29a", "1"]
    filled.check()


# Killed processes


def kill_pool(filled: Filled, server: forked.Process) -> None:
    server.send_signal(signal.SIGKILL)
    server.wait()


def kill_supervisor(filled: Filled, server: forked.Process) -> None:
    os.kill(filled.supervisor(), signal.SIGKILL)


def kill_client(filled: Filled, server: forked.Process) -> None:
    os.kill(filled.clients()[-1], signal.SIGKILL)


@pytest.mark.parametrize(
    ("kill", "outcomes"),
    [(kill_pool, []), (kill_supervisor, ["lost"]), (kill_client, ["exited"])],
)
def test_a_process_killed_while_the_slot_is_busy_is_replaced_and_one_client_runs(filled, kill, outcomes) -> None:  # type: ignore[no-untyped-def]
    with filled.filled() as server:
        filled.wait_for(lambda: filled.runs(1))
        kill(filled, server)
        if kill is not kill_pool:
            filled.wait_for(lambda: filled.runs(2))
            vacated(filled)
    if kill is kill_pool:
        with filled.filled():  # the client survived, and belongs to the pool again
            filled.wait_for(lambda: filled.runs(1))
            vacated(filled)
    assert [event.outcome for event in filled.events() if isinstance(event, BackfillExited)] == [*outcomes, "killed"]
    filled.check()


def vacated(filled: Filled) -> None:
    """Shut the machine down and check that the client is gone."""
    filled.call("off")
    filled.wait_for(lambda: not filled.state().machines)
    assert filled.living() == []


@pytest.mark.parametrize("kill", [kill_pool, kill_supervisor, kill_client])
def test_a_process_killed_while_the_client_is_ending_leaves_nothing_behind(filled, kill) -> None:  # type: ignore[no-untyped-def]
    """A supervisor that is stopped keeps the slot in Backfill/Killing."""
    with filled.filled() as server:
        filled.wait_for(lambda: filled.runs(1))
        supervisor = filled.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        filled.call("off")
        assert filled.pairs() == ["Backfill/Killing"]
        kill(filled, server)
        if kill is not kill_supervisor:
            os.kill(supervisor, signal.SIGCONT)
        if kill is not kill_pool:
            filled.wait_for(lambda: not filled.state().machines)
            assert filled.living() == []
    if kill is kill_pool:
        with filled.filled():
            filled.wait_for(lambda: not filled.state().machines)
    filled.check()


def test_a_client_that_cannot_be_started_is_retried_and_a_killed_pool_continues_that(
    filled: Filled,
) -> None:
    (filled.path / "client.sh").rename(filled.path / "client.not")
    with filled.filled() as server:
        filled.wait_for(lambda: any(isinstance(event, BackfillExited) for event in filled.events()))
        kill_pool(filled, server)
    (filled.path / "client.not").rename(filled.path / "client.sh")
    with filled.filled():
        filled.wait_for(lambda: filled.runs(1))
        vacated(filled)
    first = next(event for event in filled.events() if isinstance(event, BackfillExited))
    assert first.outcome == "failed"
    assert first.reason == f"executable {filled.path}/client.sh: No such file or directory"
    filled.check()


def test_a_client_ends_when_its_pool_and_supervisor_are_gone(filled: Filled) -> None:
    """No pool would end it for the machine's owner."""
    with filled.filled() as server:
        filled.wait_for(lambda: filled.runs(1))
        kill_pool(filled, server)
    filled.check()
    with filled.filled():
        filled.wait_for(lambda: filled.runs(2))
    assert [event.outcome for event in filled.events() if isinstance(event, BackfillExited)] == ["unattended"]


# The real BOINC client

BOINC = """\
NUM_CPUS = 1
NUM_SLOTS = 1
SLOT_TYPE_0_PARTITIONABLE = false
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
ENABLE_BACKFILL = true
BACKFILL_SYSTEM = BOINC
BOINC_Executable = {executable}
BOINC_InitialDir = {home}
BOINC_Universe = vanilla
BOINC_Owner = {owner}
BOINC_Arguments = --no_gui_rpc --allow_multiple_clients
BOINC_Output = {home}/out
BOINC_Error = {home}/err
START_BACKFILL = true
"""


@pytest.fixture
def boinc() -> str:
    """Return the path of the real client. If it is missing, root installs it with its user."""
    script = ["bash", str(ROOT / "tests" / "execution" / "boinc.sh")]
    return subprocess.run(script, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def home(boinc: str) -> Iterator[Path]:
    """Return a directory that BOINC's own user may enter and write."""
    folder = Path(tempfile.mkdtemp(prefix="poolbook-boinc-", dir="/var/tmp"))
    if os.getuid() == 0:
        shutil.chown(folder, "boinc")
    yield folder
    shutil.rmtree(folder)


def test_the_real_boinc_client_makes_way_for_a_job_and_comes_back(filled: Filled, boinc: str, home: Path) -> None:
    owner = "boinc" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    text = BOINC.format(executable=boinc, home=home, owner=owner)
    filled.write("poolbook.conf", text)
    filled.write("job.sub", "executable = /bin/true\nrequest_memory = 1\nrequest_disk = 1\nqueue\n")
    with filled.filled():
        filled.wait_for((home / "client_state.xml").exists)
        assert (home / "client_state.xml").stat().st_uid == pwd.getpwnam(owner).pw_uid
        filled.wait_for(lambda: "Starting BOINC client" in (home / "out").read_text())
        filled.wait_for(lambda: filled.pairs() == ["Backfill/Busy"])
        filled.call("submit", "job.sub")
        filled.wait_for(lambda: len(filled.clients()) == 2)
        vacated(filled)
    first, second = (event for event in filled.events() if isinstance(event, BackfillExited))
    assert (first.outcome, first.signal, second.outcome) == ("killed", 9, "killed")
    filled.check()
