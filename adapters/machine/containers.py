"""The container runtimes of this machine: their settings, and the attributes that slots advertise for them.

A runtime is tested before a slot advertises it. Source: HTCondor 25.14's ``starter_v61_main.cpp``, ``docker-api.cpp``
and ``singularity.cpp``. HTCondor installs images for the test. Where they are missing, docker passes if its server
answers, and apptainer is tested with a small generated program instead.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.settings_classes import setting
from ...domain.state.job_ad import quoted

_PATIENCE_S, _TRIAL_S = 120, 20
_TRIAL_CODE = 37  #: the exit code that HTCondor's test programs return
_UNSUPPORTED = "20.10.4,"  #: a version of docker that HTCondor does not work with
_EXPRESSIONS: Final = (
    "MOUNT_UNDER_SCRATCH", "DOCKER_DROP_ALL_CAPABILITIES", "DOCKER_SHM_SIZE", "SINGULARITY_JOB",
    "SINGULARITY_IMAGE_EXPR", "SINGULARITY_BIND_EXPR", "SINGULARITY_EXTRA_ARGUMENTS", "USE_DEFAULT_CONTAINER",
    "DEFAULT_CONTAINER_IMAGE",
)  # fmt: skip
"""The settings that are evaluated for each job."""
_TEXTS: Final = (
    "DOCKER_EXTRA_ARGUMENTS", "SINGULARITY_VERBOSITY", "SINGULARITY_TARGET_DIR", "SINGULARITY_USE_PID_NAMESPACES",
    "SINGULARITY_ALLOWED_JOB_ENV_VARS",
)  # fmt: skip


@frozen
class DockerVolume:
    """A volume of DOCKER_MOUNT_VOLUMES: SOURCE:TARGET, and the condition that a job must meet (empty: none)."""

    mount: str
    condition: str = ""


@frozen
class Containers:
    docker: tuple[str, ...] = ()  #: the command that runs docker; empty: there is none
    singularity: str = ""  #: the runtime's program
    texts: Mapping[str, str] = field(factory=dict)  #: settings by name: expressions, and literal texts
    volumes: tuple[DockerVolume, ...] = ()
    init: bool = field(default=True, metadata=setting("DOCKER_RUN_UNDER_INIT", bool))
    silent: bool = field(default=True, metadata=setting("DOCKER_LOG_DRIVER_NONE", bool))
    trusts: bool = field(default=False, metadata=setting("DOCKER_TRUST_LOCAL_IMAGES", bool))
    architecture: bool = True  #: not DOCKER_SKIP_IMAGE_ARCH_CHECK
    images: int = field(default=8, metadata=setting("DOCKER_IMAGE_CACHE_SIZE", int))
    seconds: int = 5  #: POLLING_INTERVAL
    test: bool = field(default=True, metadata=setting("SINGULARITY_RUN_TEST_BEFORE_JOB", bool))
    only_present: bool = field(default=False, metadata=setting("SINGULARITY_IGNORE_MISSING_BIND_TARGET", bool))
    rocm: bool = field(default=False, metadata=setting("SINGULARITY_ADD_ROCM_FLAG", bool))

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> Containers:
        """Read the configuration. Raise `ConfigError` if a number or a Boolean is invalid."""
        names = configuration.get("DOCKER_MOUNT_VOLUMES").replace(",", " ").split()
        return cls(
            **configuration.field_values(cls),
            docker=_docker_command(configuration),
            singularity=_singularity(configuration),
            texts={name: configuration.get(name) for name in (*_EXPRESSIONS, *_TEXTS)},
            volumes=tuple(volume for name in names if (volume := _volume(configuration, name)) is not None),
            architecture=not configuration.boolean("DOCKER_SKIP_IMAGE_ARCH_CHECK", False),
            seconds=max(1, configuration.integer("POLLING_INTERVAL", 5)),
        )


def _volume(configuration: Configuration, name: str) -> DockerVolume | None:
    volume = configuration.get(f"DOCKER_VOLUME_DIR_{name}")
    if not volume:
        return None
    condition = configuration.get(f"DOCKER_VOLUME_DIR_{name}_MOUNT_IF")
    return DockerVolume(volume if ":" in volume else f"{volume}:{volume}", condition)


def container_problems(configuration: Configuration) -> list[str]:
    """Return a sentence for each container setting that has no effect or a limited one."""
    names = configuration.get("DOCKER_MOUNT_VOLUMES").replace(",", " ").split()
    problems = [
        f"DOCKER_MOUNT_VOLUMES names {name}, but DOCKER_VOLUME_DIR_{name} is not set: the volume is ignored"
        for name in names
        if _volume(configuration, name) is None
    ]
    for name, program in (("DOCKER", _docker_command(configuration)), ("SINGULARITY", _singularity(configuration))):
        if not program and configuration.get(name) and configuration.source(name).kind != "default":
            problems.append(f"{name} = {configuration.get(name)}: program not found: no job runs in its containers")
    name = "MOUNT_UNDER_SCRATCH"
    if configuration.source(name).kind != "default":
        problems.append(f"{name} applies only to jobs in containers: other jobs use the machine's own directories")
    return problems


def _docker_command(configuration: Configuration) -> tuple[str, ...]:
    """Return the command that runs docker, possibly through sudo, or an empty tuple if the program does not exist."""
    text = configuration.get("DOCKER")
    program = text.removeprefix("sudo ").strip()
    if not program or not os.path.exists(program):
        return ()
    return ("/usr/bin/sudo", program) if text.startswith("sudo ") else (program,)


def _singularity(configuration: Configuration) -> str:
    program = configuration.get("SINGULARITY")
    return program if program and os.path.exists(program) else ""


def runtime_attributes(configuration: Configuration) -> Ad:
    """Return the attributes of the runtimes for a machine's slots; a missing or broken runtime has none."""
    ad: Ad = {}
    if command := _docker_command(configuration):
        ad |= _docker_ad(command, _docker_test_image(configuration))
    if program := _singularity(configuration):
        ad |= _singularity_ad(
            program,
            os.stat(program).st_mtime_ns,
            configuration.get("SINGULARITY_TEST_SANDBOX"),
            f"{configuration.get('LIBEXEC')}/exit_37.sif",
            configuration.get("SINGULARITY_USE_PID_NAMESPACES", "auto").lower(),
            configuration.integer("SINGULARITY_TEST_SANDBOX_TIMEOUT", _PATIENCE_S),
        )
    for name in configuration.get("DOCKER_VOLUMES").replace(",", " ").split():
        ad[f"HasDockerVolume{name}"] = "true"
    if networks := configuration.get("DOCKER_NETWORKS"):
        ad["DockerNetworks"] = quoted(networks)
    return ad


def _run_program(command: list[str], seconds: int = _PATIENCE_S) -> tuple[int, str]:
    """Return a program's exit code (-1 if it could not be run or took too long) and its output."""
    try:
        completed = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
            check=False, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return -1, str(error)
    return completed.returncode, completed.stdout


def _docker_test_image(configuration: Configuration) -> tuple[str, str] | None:
    """Return the file and the name of the image that tests docker, or None if there is no test."""
    path, name = configuration.get("DOCKER_TEST_IMAGE_PATH"), configuration.get("DOCKER_TEST_IMAGE_NAME")
    is_enabled = configuration.boolean("DOCKER_PERFORM_TEST", True) and path and name and os.path.exists(path)
    return (path, name) if is_enabled else None


def _docker_ad(command: tuple[str, ...], trial: tuple[str, str] | None) -> Ad:
    code, version = _run_program([*command, "-v"])
    version = version.rstrip("\n")
    if code or not version or "\n" in version or len(version) > 1024 or "Jansens" in version:
        return {}
    if _run_program([*command, "info"])[0] or not _docker_runs(command, trial):
        return {}
    ad = {"HasDocker": "true", "HasDockerURL": "true", "HasContainer": "true", "DockerVersion": quoted(version)}
    if _UNSUPPORTED in version:
        ad |= {"HasDocker": "false", "DockerOfflineReason": quoted("Unsupported Docker Version (20.10.4) detected")}
    return ad


def _docker_runs(command: tuple[str, ...], trial: tuple[str, str] | None) -> bool:
    if trial is None:
        return True
    path, name = trial
    _run_program([*command, "load", "-i", path], _TRIAL_S)
    code, _ = _run_program([*command, "run", "--rm=true", name, "/exit_37"], _TRIAL_S)
    _run_program([*command, "rmi", name], _TRIAL_S)
    return code == _TRIAL_CODE


@cache
def _singularity_ad(program: str, _changed_ns: int, sandbox: str, sif_path: str, namespaces: str, seconds: int) -> Ad:
    """Return the runtime's attributes after testing it; test it again only after the program has changed."""
    code, output = _run_program([program, "--version"])
    version = output.partition("\n")[0]
    if code or not version:
        return {}
    attempts = {"true": [True], "false": [False]}.get(namespaces, [True, False])
    with tempfile.TemporaryDirectory(prefix="poolbook-") as folder:
        sandbox_image = sandbox if os.path.exists(f"{sandbox}/exit_37") else _make_test_image(folder)
        packed_image = sif_path if os.path.exists(sif_path) else f"{folder}/exit_37.sif"
        if sandbox_image and packed_image != sif_path:
            _run_program([program, "-q", "build", packed_image, sandbox_image], seconds)
        last_output, working = "", {}
        for kind, image in (("HasSandboxImage", sandbox_image), ("HasSIF", packed_image)):
            for flag in list(attempts) if image and os.path.exists(image) else []:
                code, output = _run_program([program, "exec", *isolation_options(flag), image, "/exit_37"], seconds)
                if code == _TRIAL_CODE:
                    working[kind] = "true"
                    attempts = [flag]
                    break
                last_output = next(filter(None, map(str.strip, reversed(output.splitlines()))), last_output)
    ad = {"SingularityVersion": quoted(version)}
    if working:
        abilities = dict.fromkeys(("HasSingularity", "HasContainer", "HasDockerURL"), "true")
        return {**ad, **abilities, **working, "HasPidNamespaces": str(attempts[0]).lower()}
    reason = "Both SIF and Sandbox tests on startup failed" + (f" : {last_output}" if last_output else "")
    return {**ad, "HasSingularity": "false", "SingularityOfflineReason": quoted(re.sub(r"\x1b\[[0-9;]*m", "", reason))}


def isolation_options(namespaces: bool) -> list[str]:
    """Return the options that isolate a container, with or without its own PID namespace."""
    return ["-C"] if namespaces else ["--contain", "--ipc", "--cleanenv"]


def _packed(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


_CODE = {
    "x86_64": (62, bytes.fromhex("bf25000000b83c0000000f05")),  # exit(37)
    "aarch64": (183, bytes.fromhex("a00480d2a80b80d2010000d4")),
}


def _make_test_image(folder: str) -> str:
    """Make a minimal test image: a directory with a program that exits with code 37. Return the image's path, or an
    empty string if this processor is not supported."""
    if platform.machine() not in _CODE:
        return ""
    machine, code = _CODE[platform.machine()]
    root, base, header_size = Path(folder, "image"), 0x400000, 64 + 56
    for name in ("proc", "sys", "dev", "tmp", "etc", "bin"):
        (root / name).mkdir(parents=True)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + _packed(2, 2) + _packed(machine, 2) + _packed(1, 4) + _packed(base + header_size, 8)
    header += _packed(64, 8) + bytes(12) + _packed(64, 2) + _packed(56, 2) + _packed(1, 2) + bytes(6)
    size = header_size + len(code)
    segment = (
        _packed(1, 4) + _packed(5, 4) + bytes(8) + 2 * _packed(base, 8) + 2 * _packed(size, 8) + _packed(0x1000, 8)
    )
    program = root / "exit_37"
    program.write_bytes(header + segment + code)
    program.chmod(0o755)
    return str(root)
