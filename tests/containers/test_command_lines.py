"""golden: the command lines of container runtimes are the same as in HTCondor's starter."""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict

from poolbook.adapters.machine.containers import Containers
from poolbook.adapters.machine.execution.activation import Apptainer, DockerSettings
from poolbook.adapters.machine.execution.supervisor.apptainer import command as apptainer_command
from poolbook.adapters.machine.execution.supervisor.apptainer import environment
from poolbook.adapters.machine.execution.supervisor.docker import DockerContainer as Running
from poolbook.adapters.machine.execution.supervisor.rights import UserIds
from poolbook.adapters.runtime.job_containers import container_of
from poolbook.domain.config import read
from poolbook.domain.ports.world import Launch

from ..together import together
from .conftest import HERE

DATA = Path(__file__).parent.parent / "data" / "containers"
MARKS = {"_POOLBOOK_EXECUTE": "/p", "_POOLBOOK_ACTIVATION": "9"}
JOB = {
    "ClusterId": "12", "ProcId": "3", "User": '"alice@example.org"', "Cmd": '"/home/alice/fit.py"',
    "WantDocker": "true", "DockerImage": '"debian"',
}  # fmt: skip
SLOT = {"Cpus": "2", "Memory": "512", "Machine": '"node1"', "HasDocker": "true", "HasPidNamespaces": "true",
        "SingularityVersion": '"apptainer version 1.4.5"'}  # fmt: skip
PLAIN = " ".join(
    [
        "create --cpu-shares=200 --memory=512m --cap-drop=all --cap-add=SYS_PTRACE --security-opt no-new-privileges",
        "--init --name HTCJob12_3_slot1_1_PID7 --label=org.poolbook.pool=/p",
        "--label=org.poolbook.activation=9 --log-driver none -e _POOLBOOK_EXECUTE=/p -e _POOLBOOK_ACTIVATION=9",
        "--volume /s:/s --volume /s/tmp/:/tmp --volume /s/var/tmp/:/var/tmp --workdir /s --user 1000:1001",
        "--group-add 1001 --group-add 27 --hostname alice-12.3-node1 debian:latest ./fit.py -x",
    ]
)


def container(job: dict[str, str], config: str, transfers: bool = True) -> DockerSettings | Apptainer | None:
    settings = Containers.from_configuration(read(f"DOCKER = {HERE}/docker\nSINGULARITY = {HERE}/apptainer\n{config}"))
    ad = {name: text for name, text in {**JOB, **job}.items() if text}
    return container_of(Launch("9", 12, 3, "slot1_1@node1", ad, SLOT, "alice"), settings, transfers, None)


def docker_command(job: dict[str, str], config: str) -> str:
    docker = container(job, config)
    assert isinstance(docker, DockerSettings)
    spec = {**asdict(docker), "name": f"{docker.name}_PID7"}
    order: dict[str, Any] = {"container": spec, "iwd": "/s", "run_in_iwd": True, "stdin": "", "arguments": ["-x"]}
    with socket.socket() as talk:
        return " ".join(Running(order, "/s", MARKS, [], talk, UserIds(1000, 1001, (1001, 27))).command())


@together(
    ("job", "config", "replacement"),
    [
        ({}, "", ()),
        ({"DockerNetworkType": '"host"'}, "", ("--hostname alice-12.3-node1", "--network=host")),
        ({"DockerNetworkType": '"none"'}, "", ("--hostname", "--network=none --hostname")),
        ({"DockerNetworkType": '"nat"'}, "", ()),
        ({"DockerImage": '"docker://a/b:1"'}, "", ("debian:latest", "a/b:1")),
        ({"DockerImage": '"r:5000/b"'}, "", ("debian:latest", "r:5000/b:latest")),
        ({"DockerImage": '"b@sha256:0"'}, "", ("debian:latest", "b@sha256:0")),
        ({"DockerOverrideEntrypoint": "true"}, "", ("debian:latest ./fit.py", "--entrypoint ./fit.py debian:latest")),
        ({"TransferExecutable": "false"}, "", ("./fit.py", "/home/alice/fit.py")),
        ({"Cmd": '""', "TransferExecutable": "false"}, "", ("./fit.py -x", "-x")),
        ({"DockerPullPolicy": '"Always"'}, "", ("debian:latest", "--pull always debian:latest")),
        ({"DockerPullPolicy": '"sometimes"'}, "", ()),
        ({"ContainerServiceNames": '"a, b"', "a_ContainerPort": "80", "b_ContainerPort": "22"}, "",
         ("debian:latest", "-p 80 -p 22 debian:latest")),
        ({"MountUnderScratch": '"/data"'}, "MOUNT_UNDER_SCRATCH =", ("/s/tmp/:/tmp --volume /s/var/tmp/:/var/tmp",
                                                                     "/s/data/:/data")),
        ({}, "DOCKER_EXTRA_ARGUMENTS = --ulimit core=0", ("debian:latest", "--ulimit core=0 debian:latest")),
        ({}, "DOCKER_SHM_SIZE = 1024 * TARGET.ProcId", ("debian:latest", "--shm-size 3072 debian:latest")),
        ({}, "DOCKER_DROP_ALL_CAPABILITIES = TARGET.ProcId != 3",
         (" --cap-drop=all --cap-add=SYS_PTRACE --security-opt no-new-privileges", "")),
        ({}, "DOCKER_RUN_UNDER_INIT = false", (" --init", "")),
        ({}, "DOCKER_LOG_DRIVER_NONE = false", (" --log-driver none", "")),
        ({}, "DOCKER_MOUNT_VOLUMES = A, B, C\nDOCKER_VOLUME_DIR_A = /a\nDOCKER_VOLUME_DIR_B = /b:/c:ro\n"
             "DOCKER_VOLUME_DIR_C = /c\nDOCKER_VOLUME_DIR_C_MOUNT_IF = TARGET.ProcId == 4",
         ("/var/tmp --workdir", "/var/tmp --volume /a:/a --volume /b:/c:ro --workdir")),
    ],
)  # fmt: skip
def test_docker_has_the_same_arguments_as_in_htcondor(
    job: dict[str, str], config: str, replacement: tuple[str, str] | tuple[()]
) -> None:
    assert docker_command(job, config) == (PLAIN.replace(*replacement) if replacement else PLAIN)


def test_docker_create_has_the_arguments_in_a_recorded_starter_log() -> None:
    recorded = shlex.split((DATA / "docker_create.txt").read_text())[1:]
    scratch = "/var/lib/condor/execute/dir_352267/scratch"
    job = {**JOB, "ClusterId": "12", "ProcId": "0", "DockerImage": '"poolbook-test:1"', "DockerNetworkType": '"none"',
           "Cmd": '"/bin/sh"', "TransferExecutable": "false"}  # fmt: skip
    slot = {**SLOT, "Cpus": "1", "Memory": "128", "Machine": '"localhost"'}
    settings = Containers.from_configuration(read(f"DOCKER = {HERE}/docker"))
    docker = container_of(Launch("9", 12, 0, "slot1_2@localhost", job, slot, "alice"), settings, True, None)
    assert isinstance(docker, DockerSettings)
    spec = {**asdict(docker), "name": f"{docker.name}_PID352267"}
    order: dict[str, Any] = {"container": spec, "iwd": scratch, "run_in_iwd": True, "stdin": ""}
    order["arguments"] = ["-c", "id; pwd; exit 7"]
    with socket.socket() as talk:
        ours = Running(order, scratch, MARKS, [], talk, UserIds(1000, 1000, (1000,))).command()
    assert _comparable(ours) == _comparable(recorded)


def _comparable(arguments: list[str]) -> list[str]:
    """Return the arguments without variables, labels, and the mount of the slot's directory."""
    pairs = list(zip(arguments, [*arguments[1:], ""], strict=True))
    omitted = {n for n, pair in enumerate(pairs) if pair[0] == "-e" or pair == ("--volume", _SLOT_DIRECTORY)}
    omitted |= {n + 1 for n in omitted}
    return [
        argument for n, argument in enumerate(arguments) if n not in omitted and not argument.startswith("--label=")
    ]


_SLOT_DIRECTORY = "/var/lib/condor/execute/dir_352267:/var/lib/condor/execute/dir_352267"


@together(
    ("job", "config", "image"),
    [
        ({}, "", "htcondor.org/alice_at_example.org/debian:latest"),
        ({}, "DOCKER_TRUST_LOCAL_IMAGES = true", "debian:latest"),
    ],
)
def test_an_image_exists_if_it_was_pulled_for_this_user_or_local_images_are_trusted(
    job: dict[str, str], config: str, image: str
) -> None:
    docker = container(job, config)
    assert isinstance(docker, DockerSettings) and docker.annotated == image


SIF = {"WantDocker": "", "DockerImage": "", "WantContainer": "true", "WantSIF": "true", "ContainerImage": '"a.sif"',
       "ContainerImageFullPath": '"/images/a.sif"'}  # fmt: skip
EXEC = "exec -S /tmp -S /var/tmp -W /s --pwd /s -B /s --home /s -C a.sif /s/fit.py -x"


@together(
    ("job", "config", "iwd", "expected"),
    [
        ({}, "", "/s", f"-s {EXEC}"),
        ({}, "SINGULARITY_VERBOSITY = -d", "/s", f"-d {EXEC}"),
        ({}, "SINGULARITY_USE_PID_NAMESPACES = false", "/s", f"-s {EXEC.replace('-C', '--contain --ipc --cleanenv')}"),
        ({}, "SINGULARITY_EXTRA_ARGUMENTS = --no-mount cwd", "/s", f"-s {EXEC.replace('-C', '-C --no-mount cwd')}"),
        ({}, 'SINGULARITY_EXTRA_ARGUMENTS = "--x"', "/s", f"-s {EXEC.replace('-C', '-C --x')}"),
        ({}, 'SINGULARITY_BIND_EXPR = "/usr:/u, /no/such, /etc"', "/s",
         f"-s {EXEC.replace('--home', '-B /usr:/u -B /etc --home')}"),
        ({"SingularityBind": '"/usr"'}, "", "/s", f"-s {EXEC.replace('--home', '-B /usr --home')}"),
        ({"SingularityImage": '"/x.sif"'}, "", "/s", f"-s {EXEC.replace('a.sif', '/x.sif')}"),
        ({"ContainerTargetDir": '"/srv"'}, "", "/s",
         f"-s {EXEC.replace('--pwd /s -B /s', '--pwd /srv -B /s:/srv').replace('/s/fit.py', '/srv/fit.py')}"),
        ({}, "SINGULARITY_TARGET_DIR = /t\nMOUNT_UNDER_SCRATCH =", "/s",
         "-s exec -W /s --pwd /t -B /s:/t --home /s -C a.sif /t/fit.py -x"),
        ({"Cmd": '""'}, "", "/s", f"-s {EXEC.replace('exec', 'run').replace(' /s/fit.py', '')}"),
        ({}, "", "/iwd",
         "-s exec -S /tmp -S /var/tmp -B /iwd -W /s --pwd /iwd -B /iwd -C /images/a.sif /home/alice/fit.py -x"),
        ({"ContainerTargetDir": '"/srv"'}, "MOUNT_UNDER_SCRATCH =", "/iwd",
         "-s exec -B /iwd -W /s --pwd /srv -B /s:/condor_scratch -B /iwd:/srv -C /images/a.sif /home/alice/fit.py -x"),
    ],
)  # fmt: skip
def test_apptainer_has_the_same_arguments_as_in_htcondor(
    job: dict[str, str], config: str, iwd: str, expected: str
) -> None:
    apptainer = container({**SIF, **job}, config, transfers=iwd == "/s")
    assert isinstance(apptainer, Apptainer)
    order = {"container": asdict(apptainer), "iwd": iwd, "arguments": ["-x"]}
    before, after = apptainer_command(order, "/s")
    assert " ".join([*before[1:], *after]) == expected


def test_a_job_cannot_configure_the_runtime_and_has_its_variables_in_the_container() -> None:
    apptainer = container(SIF, "SINGULARITY_ALLOWED_JOB_ENV_VARS = APPTAINER_X")
    variables = {"A": "/s/a", "HOME": "/h", "APPTAINER_BIND": "/etc", "APPTAINER_X": "1", "SINGULARITY_Y": "2",
                 "APPTAINER_DOCKER_USERNAME": "u", "APPTAINERENV_Z": "3"}  # fmt: skip
    spec = {**asdict(apptainer), "target": "/t"}  # type: ignore[arg-type]
    result = {name: text for name, text in environment(spec, variables, "/s", "/s").items() if name != "PATH"}
    assert result == {
        "A": "/s/a", "APPTAINERENV_A": "/t/a", "APPTAINER_X": "1", "APPTAINERENV_APPTAINER_X": "1",
        "APPTAINER_DOCKER_USERNAME": "u", "APPTAINERENV_APPTAINER_DOCKER_USERNAME": "u", "APPTAINERENV_Z": "3",
        "APPTAINERENV__CONDOR_SCRATCH_DIR_OUTSIDE_CONTAINER": "/s", "APPTAINER_CACHEDIR": "/s",
        "APPTAINER_TMPDIR": "/s",
        "APPTAINERENV_PS1": "slot1_1@node1$ ",
    }  # fmt: skip


@together(
    ("job", "config", "runtime"),
    [
        ({"WantDocker": ""}, "", None),
        ({"WantDocker": ""}, 'SINGULARITY_JOB = true\nSINGULARITY_IMAGE_EXPR = "/x.sif"', "apptainer"),
        ({"WantDocker": ""}, 'USE_DEFAULT_CONTAINER = true\nDEFAULT_CONTAINER_IMAGE = "docker://x"', "docker"),
        ({"WantDocker": ""}, 'USE_DEFAULT_CONTAINER = true\nDEFAULT_CONTAINER_IMAGE = "/x.sif"', "apptainer"),
        ({"WantDocker": "", "WantContainer": "true", "WantDockerImage": "true"}, "", "docker"),
        (SIF, "", "apptainer"),
        ({}, "", "docker"),
    ],
)
def test_the_runtime_is_the_same_as_in_htcondor(job: dict[str, str], config: str, runtime: str | None) -> None:
    settings = container(job, config)
    assert (settings.runtime if settings else None) == runtime


@together(
    ("job", "config", "message"),
    [
        (
            {"DockerNetworkType": '"other"'},
            "DOCKER_NETWORKS = mine",
            "DOCKER_NETWORKS of this machine does not allow it",
        ),
        ({}, "DOCKER = /no/docker", "the program in DOCKER does not exist"),
        (SIF, "SINGULARITY = /no/apptainer", "the program in SINGULARITY does not exist"),
    ],
)
def test_a_container_that_this_machine_cannot_run_is_rejected(job: dict[str, str], config: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        container(job, config)


def test_the_test_image_runs(tmp_path: Path) -> None:
    from poolbook.adapters.machine.containers import _make_test_image

    program = f"{_make_test_image(str(tmp_path))}/exit_37"
    assert os.waitstatus_to_exitcode(os.spawnv(os.P_WAIT, program, [program]) << 8) == 37
