"""golden: jobs in containers, from submission to end, with the runtimes of conftest.py."""

from __future__ import annotations

import os
import signal
import tarfile
from pathlib import Path

from .conftest import Machine, image

DOCKER = """
universe = docker
docker_image = $(image)
executable = /bin/sh
transfer_executable = false
should_transfer_files = YES
request_memory = 64
request_disk = 10MB
output = out.$(image)
error = err.$(image)
log = log.$(image)
"""
IMAGES = {
    "good": {}, "broken": {"broken": ""}, "greedy": {"greedy": ""}, "for-arm": {}, "own": {"arguments": "cat /release"},
}  # fmt: skip
CASES = [
    # image, script, hold reason, hold code and subcode, exit code or signal
    ("good", "cat /release; pwd; echo made > made; touch /scratch/x; exit 3", "", "undefined undefined", "3"),
    ("good2", "exit 143", "", "undefined undefined", "signal 15"),
    ("nowhere", "", "Cannot pull image nowhere:latest Error response from daemon: manifest for nowhere", "35 0", ""),
    ("broken", "", "Error running docker job: OCI runtime create failed: the image is broken", "6 0", ""),
    ("greedy", "", "The job used more memory than the 128 MiB that it was given", "34 102", ""),
    ("for-arm", "", "Image Architecture arm64 not compatible with this machine.", "35 0", ""),
]  # fmt: skip


def test_a_docker_job_ends_like_its_program_or_is_held_with_htcondor_s_reason(machine: Machine) -> None:
    for name, files in {**IMAGES, "good2": {}}.items():
        image(machine.docker / "registry" / f"{name}:latest", **files)
    queue = "".join(f"arguments = \"-c '{script}'\"\nimage = {name}\nqueue\n" for name, script, *_ in CASES)
    machine.write("job.sub", DOCKER + queue)
    with machine.served("-config", "pool.conf"):
        machine.call("submit", "job.sub")
        machine.wait_for(lambda: machine.call("q", "-af", "JobStatus").split() == ["5"] * 4)
        for proc, (_, _, hold_reason, codes, end) in enumerate(CASES):
            job = f"1.{proc}"
            if hold_reason:
                reason = machine.attribute(job, "HoldReason")
                assert hold_reason in reason
                assert reason.startswith("Error from slot1_" if codes != "34 102" else hold_reason)
                assert machine.call("q", job, "-af", "HoldReasonCode", "HoldReasonSubCode").strip() == codes
            else:
                by_signal = machine.attribute(job, "ExitBySignal") == "true"
                assert end == (f"signal {machine.attribute(job, 'ExitSignal')}" if by_signal else
                               machine.attribute(job, "ExitCode"))  # fmt: skip
    assert (machine.path / "out.good").read_text().splitlines()[0] == "this is good:latest"
    assert (machine.path / "made").read_text() == "made\n"
    assert machine.containers() == []
    assert not list((machine.path / "pool.db.d" / "containers").iterdir())
    assert "sound" in machine.call("verify")


def test_a_container_can_be_paused_and_is_removed_even_if_the_supervisor_is_killed(machine: Machine) -> None:
    image(machine.docker / "registry" / "good:latest")
    machine.write("job.sub", DOCKER + "image = good\narguments = \"-c 'sleep 1000'\"\nqueue\n")
    with machine.served("-config", "pool.conf"):
        machine.call("submit", "job.sub")
        machine.wait_for(lambda: machine.containers() == ["S"])
        machine.call("suspend", "1.0")
        machine.wait_for(lambda: machine.containers() == ["T"])
        machine.call("continue", "1.0")
        machine.wait_for(lambda: machine.containers() == ["S"])
        machine.wait_for(lambda: machine.attribute("1.0", "ResidentSetSize") in ("8192", "10000"))
        os.kill(int((machine.path / "pool.db.d" / "lock").read_text()), signal.SIGKILL)
        machine.wait_for(lambda: machine.attribute("1.0", "NumJobStarts") == "2")
        machine.wait_for(lambda: machine.containers() == ["S"])
        machine.call("rm", "1.0")
        machine.wait_for(lambda: machine.containers() == [])
    created = [line for line in (machine.docker / "commands").read_text().splitlines() if line.startswith('["create"')]
    assert len(created) == 2


APPTAINER = """
universe = container
executable = /bin/sh
transfer_executable = false
request_memory = 64
request_disk = 10MB
should_transfer_files = YES
output = out.$(Process)
log = log.$(Process)
environment = "MINE=1 APPTAINER_BIND=/etc"
arguments = "-c 'cat /release; pwd; echo $MINE $APPTAINER_BIND $_CONDOR_SCRATCH_DIR; exit 4'"
container_image = packed.sif
queue
container_image = unpacked/
container_target_dir = /srv
queue
container_image = torn.sif
queue
"""


def test_a_container_job_runs_in_a_packed_or_unpacked_image(machine: Machine) -> None:
    image(machine.path / "unpacked")
    image(machine.path / "other")
    machine.write("torn.sif", "not an image")
    with tarfile.open(machine.path / "packed.sif", "w") as file:
        file.add(machine.path / "other", ".")
    machine.write("job.sub", APPTAINER)
    with machine.served("-config", "pool.conf"):
        machine.call("submit", "job.sub")
        machine.wait_for(lambda: machine.call("q", "-af", "JobStatus").split() == ["5"])
        torn = machine.call("q", "1.2", "-af", "HoldReasonCode", "HoldReasonSubCode", "HoldReason")
        assert (
            torn.startswith("45 -1000 Error from slot1_") and "Singularity test failed:FATAL:   could not open" in torn
        )
        assert [machine.attribute(job, "ExitCode") for job in ("1.0", "1.1")] == ["4", "4"]
    packed, unpacked = ((machine.path / f"out.{n}").read_text().splitlines() for n in (0, 1))
    scratch = Path(packed[1])
    assert packed == ["this is other", str(scratch), f"1 {scratch}"] and scratch.name == "scratch"
    assert unpacked == ["this is unpacked", "/srv", "1 /srv"]


def test_a_machine_advertises_its_runtimes_and_a_container_job_waits_if_there_is_none(
    machine: Machine,
) -> None:
    machine.write("none.conf", "DOCKER = /no/docker\n")
    machine.write("job.sub", DOCKER + "image = good\nqueue\n")
    names = ["HasDocker", "HasDockerURL", "HasContainer", "DockerVersion", "DockerNetworks", "HasSingularity", "HasSIF",
             "HasSandboxImage", "SingularityVersion", "HasPidNamespaces"]  # fmt: skip
    with machine.served("-config", "pool.conf"):
        line = machine.call("status", "-af:j", *names).splitlines()[0]
        docker = "true true true Docker version 20.10.24+dfsg1, build 297e128 mine"
        assert line.split(" ", 1)[1] == f"{docker} true true true apptainer version 1.4.5 true"
    with machine.served("-config", "none.conf") as server:
        machine.call("submit", "job.sub")
        assert machine.call("status", "-af", *names).split() == ["undefined"] * len(names)
        machine.wait_for(lambda: "HasDocker" in machine.call("why", "1.0"))
        server.terminate()
        output = server.stdout.read() if server.stdout is not None else ""
    assert "DOCKER = /no/docker: program not found: no job runs in its containers" in output
