"""Property: a job that condor_now starts runs immediately in a pool of real processes, whenever that is killed."""

from __future__ import annotations

import pytest

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import JobExecuting, JobExited, ReservationEnded
from poolbook.replay.validation import validate

from .real import Folder

CONF = "NUM_CPUS = 2\nMEMORY = 1024\nRUNBENCHMARKS = false\nSCHEDD_NOW_JOB_VACATE_TIMEOUT = 600\n"
VICTIMS = "executable = /bin/sleep\narguments = 600\nrequest_memory = 16\nqueue 2\n"
LARGE = "executable = /bin/true\nrequest_memory = 16\nrequest_cpus = 2\nqueue\n"


@pytest.mark.parametrize("killed", ["before", "after"])
def test_the_job_runs_where_the_others_ran_even_if_the_pool_is_killed_around_the_request(
    killed: str, folder: Folder
) -> None:
    folder.write("pool.conf", CONF)
    folder.write("victims.sub", VICTIMS)
    folder.write("large.sub", LARGE)
    serve = ("-config", "pool.conf", "-dialect", "htcondor-25")
    with folder.served(*serve) as server:
        folder.call("submit", "victims.sub")
        folder.call("submit", "large.sub")
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "2\n2\n1\n")
        if killed == "before":
            server.kill()
            server.wait()
        assert folder.call("condor_now", "2.0", "1.0", "1.1") == ""
        server.kill()
    with folder.served(*serve):
        folder.wait_for(lambda: "2.0" in folder.call("history", "-af:j", "ExitCode"))
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    events = [event for _, event in entries]
    assert [event.cause for event in events if isinstance(event, ReservationEnded)] == ["coalesced"]
    starts = [event for event in events if isinstance(event, JobExecuting) and event.cluster == 2]
    assert len(starts) == 1
    first = {(e.cluster, e.proc): e.outcome for e in reversed(events) if isinstance(e, JobExited)}
    assert first == {(1, 0): "evicted", (1, 1): "evicted", (2, 0): "exited"}
