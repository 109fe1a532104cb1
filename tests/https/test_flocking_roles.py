"""property: an access point that is a separate process runs its jobs in two pools."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ..ports import free_port
from .roles import PATIENCE, Roles, role_processes
from .test_role_commands import EXECUTION_POINT

AP = ("-role", "access-point", "-name", "ap")
CMB = "cmb.poolb.example"


def start_both_pools(roles: Roles) -> list[str]:
    """Start the managers of two pools and their execution points, and return the URLs of the managers. The tokens are
    in the files ``ours`` and ``theirs``."""
    roles.start_manager()
    urls = [roles.url]
    (roles.path / "ours").write_bytes((roles.path / roles.token()).read_bytes())
    roles.port, roles.broker_port = free_port(), free_port()
    roles.url = f"https://127.0.0.1:{roles.port}"
    urls.append(roles.url)
    roles.start_manager(log="mb.db", host=CMB)
    (roles.path / "theirs").write_bytes((roles.path / roles.token("mb.db", CMB)).read_bytes())
    roles.start("e.db", "join", urls[0], "ours", *EXECUTION_POINT, "-name", "ep1")
    roles.start("eb.db", "join", urls[1], "theirs", *EXECUTION_POINT, "-name", "epb")
    return urls


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process another host name")
def test_an_access_point_flocks_to_the_managers_in_flock_to_that_it_has_joined() -> None:
    with TemporaryDirectory() as folder, role_processes(tmp_path := Path(folder)) as roles:
        tmp_path.chmod(0o711)  # the other pool's jobs run there as nobody
        urls = start_both_pools(roles)
        (tmp_path / "config").write_text(f"FLOCK_TO = {CMB}\n")
        roles.start("a.db", "join", urls[0], "ours", *AP, "-config", "config")
        assert f"FLOCK_TO lists {CMB}, which this access point has not joined: call `poolbook join" in roles.output(
            "a.db"
        )
        roles.stop("a.db")
        roles.start("a.db", "join", urls[1], "theirs", "-name", "ap", "-flock")
        assert f"no jobs flock to {CMB}, since FLOCK_TO does not list it" in roles.output("a.db")
        roles.stop("a.db")
        roles.start("a.db", "join", "-config", "config")
        assert "FLOCK_TO" not in roles.output("a.db")
        (tmp_path / "job.sh").write_text("sleep 10; id -un\n")
        job = "executable = /bin/sh\ntransfer_executable = false\narguments = job.sh\ntransfer_input_files = job.sh\n"
        (tmp_path / "job.sub").write_text(f"{job}should_transfer_files = YES\noutput = out.$(Process)\nqueue 2\n")
        roles.call("submit", "job.sub", "-log", "a.db")
        hosts = ("q", "-af", "RemoteHost", "RemotePool", "-log", "a.db")
        end = time.monotonic() + PATIENCE
        expected = {"slot1_1@ep1 undefined", f"slot1_1@epb {CMB}"}
        seen, flocked = set[str](), set[str]()
        while not (expected <= seen and "1" in flocked):
            assert time.monotonic() < end, roles.call("log", "-log", "a.db")
            seen |= {*roles.call(*hosts).splitlines()}
            flocked.add(roles.call("status", "-schedd", "-af", "TotalFlockedJobs", "-log", "a.db").strip())
        roles.wait_for(lambda: not roles.call("q", "-af", "ProcId", "-log", "a.db"))
        history = roles.call("history", "-af", "LastRemoteHost", "LastRemotePool", "-log", "a.db")
        assert {*history.splitlines()} == expected
        assert {(tmp_path / f"out.{proc}").read_text() for proc in (0, 1)} == {"root\n", "nobody\n"}
        for log in ("m.db", "mb.db", "a.db", "e.db", "eb.db"):
            assert f"{log}: sound" in roles.call("verify", "-log", log)
