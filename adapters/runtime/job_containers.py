"""Choose the container of a job from its ad, the slot's ad and the machine's configuration.

Source: HTCondor 25.14's starter: ``SpawnJob`` (``starter.cpp``) chooses, ``DockerAPI::createContainer`` and
``Singularity::setup`` call the runtime.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from attrs import evolve

from ...domain.classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ...domain.classad.argument_syntax import QuotingError, split
from ...domain.events import Ad
from ...domain.ports.world import Launch
from ...domain.state.caches import ad_from_attributes
from ...domain.state.job_ad import unquoted
from ..machine.containers import Containers, isolation_options
from ..machine.execution import activation as execution
from ..machine.execution.activation import Apptainer, DockerSettings

_LONGEST_NAME = 63  #: maximum length of a host name that docker accepts
_PLAIN_NETWORKS = {"host": ["--network=host"], "none": ["--network=none"], "nat": [], "": []}
_NO_RUNTIME = "this machine has no runtime that could run the job's container"


class _Ads:
    """The ads in which settings are evaluated. MY is the slot, and TARGET is the job."""

    def __init__(self, job: Ad, slot: Ad) -> None:
        self._job, self._slot = ad_from_attributes(job), ad_from_attributes(slot)

    def value(self, text: str) -> object:
        return _value(text, self._slot, self._job)

    def of_job(self, text: str) -> object:
        return _value(text, self._job)

    def of_slot(self, text: str) -> object:
        return _value(text, self._slot)

    def text(self, name: str) -> str:
        value = self.of_job(name)
        return value if isinstance(value, str) else ""


def _value(text: str, ad: ClassAd, target: ClassAd | None = None) -> object:
    """Evaluate an expression. Return None if it is invalid or has no value."""
    try:
        return parse(text).evaluate(ad, target)
    except (ClassAdSyntaxError, EvaluationError):
        return None


def container_of(
    launch: Launch, settings: Containers, transfers: bool, account: execution.UnixAccount | None
) -> DockerSettings | Apptainer | None:
    """Return the container for a job, or None if the job uses none. ``transfers`` is true if its files are transferred.
    Raise `ValueError` if it requests a container that this machine does not support."""
    wants = ("WantDocker", "WantContainer", "WantSIF", "WantSandboxImage", "WantDockerImage")
    if not any(name in launch.job_ad for name in wants) and not (settings.docker or settings.singularity):
        return None
    ads = _Ads(launch.job_ad, launch.slot_ad)
    flags = {name: ads.of_job(name) is True for name in wants}
    image = ads.text("DockerImage") or ads.text("ContainerImage")
    runs_image = flags["WantContainer"] and flags["WantDockerImage"] and ads.of_slot("HasDocker") is True
    docker = flags["WantDocker"] or runs_image
    if not (docker or flags["WantContainer"]) and ads.value(settings.texts.get("USE_DEFAULT_CONTAINER", "")) is True:
        usual = ads.value(settings.texts.get("DEFAULT_CONTAINER_IMAGE", ""))
        if isinstance(usual, str):
            image, docker = usual, usual.startswith("docker:") and ads.of_slot("HasDocker") is True
            flags["WantSIF"] = not docker
    program = ads.text("Cmd")
    brought = transfers and bool(program) and ads.of_job("TransferExecutable") is not False
    if docker:
        if not settings.docker:
            raise ValueError(f"{_NO_RUNTIME}: the program in DOCKER does not exist")
        return _docker(launch, settings, ads, image, f"./{os.path.basename(program)}" if brought else program, account)
    requested = any(flags[name] for name in wants[1:]) or ads.value(settings.texts.get("SINGULARITY_JOB", "")) is True
    if not requested:
        return None
    if not settings.singularity:
        raise ValueError(f"{_NO_RUNTIME}: the program in SINGULARITY does not exist")
    return _apptainer(launch, settings, ads, image, transfers, brought)


def with_image(transfer: execution.FileTransfer | None, job: Ad) -> execution.FileTransfer | None:
    """Return the job's file transfer with the name of its image. As in HTCondor, ``image/``, the contents of a
    directory, is not treated as a name."""
    path = unquoted(job.get("ContainerImageFullPath", ""))
    if transfer is None or not path.endswith("/"):
        return transfer
    return evolve(transfer, inputs=tuple(name.rstrip("/") if name == path else name for name in transfer.inputs))


def _under_scratch(settings: Containers, ads: _Ads) -> list[str]:
    """Return the directories to mount under the scratch directory, from the configuration and the job."""
    text = settings.texts.get("MOUNT_UNDER_SCRATCH", "")
    value = ads.of_job(text)
    configured, job_value = value if isinstance(value, str) else text, ads.text("MountUnderScratch")
    return [name for name in re.split(r"[,\s]+", f"{configured} {job_value}") if name]


def _words(text: str) -> list[str]:
    """Split arguments: in the new syntax if they are in double quotes, otherwise at spaces."""
    if text.strip().startswith('"'):
        try:
            return split(text.strip()[1:-1].replace('""', '"'))
        except QuotingError as error:
            raise ValueError(f"{text}: {error}") from None
    return text.split()


def _docker(
    launch: Launch, settings: Containers, ads: _Ads, image: str, program: str, account: execution.UnixAccount | None
) -> DockerSettings:
    name = _with_tag(image.removeprefix("docker://").removeprefix("docker:"))
    owner = ads.text("User").replace("@", "_at_") or launch.owner
    slot = re.sub(r"[^A-Za-z0-9_.-]", "_", launch.slot.partition("@")[0])
    return DockerSettings(
        command=settings.docker,
        name=f"HTCJob{launch.cluster}_{launch.proc}_{slot}",
        image=name,
        annotated=name if settings.trusts else f"htcondor.org/{owner}/{name}",
        program=program,
        entrypoint=ads.of_job("DockerOverrideEntrypoint") is True,
        first=_limits(settings, ads),
        logs=["--log-driver", "none"] if settings.silent else [],
        last=_surroundings(launch, settings, ads),
        under_scratch=_under_scratch(settings, ads),
        volumes=[
            volume.mount for volume in settings.volumes if not volume.condition or ads.value(volume.condition) is True
        ],
        images=settings.images,
        architecture=settings.architecture,
        seconds=settings.seconds,
    )


def _with_tag(image: str) -> str:
    """Return an image's name, with docker's default tag if it has none."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"


def _limits(settings: Containers, ads: _Ads) -> list[str]:
    cpus, memory = ads.of_slot("Cpus"), ads.of_slot("Memory")
    options = [f"--cpu-shares={100 * int(cpus) if isinstance(cpus, int | float) else 100}"]
    if isinstance(memory, int | float):
        options.append(f"--memory={int(memory)}m")
    if ads.value(settings.texts.get("DOCKER_DROP_ALL_CAPABILITIES", "")) is not False:
        options += ["--cap-drop=all", "--cap-add=SYS_PTRACE", "--security-opt", "no-new-privileges"]
    if settings.init:
        options.append("--init")
    return options


def _surroundings(launch: Launch, settings: Containers, ads: _Ads) -> list[str]:
    """Return the arguments for the network, the ports, the image and the machine owner's options."""
    network = ads.text("DockerNetworkType")
    options = list(_PLAIN_NETWORKS.get(network, [f"--network={network}"]))
    if network != "host":
        machine = ads.of_slot("Machine")
        where = machine if isinstance(machine, str) else "host"
        host = f"{launch.owner or 'unknown'}-{launch.cluster}.{launch.proc}-{where}"
        options += ["--hostname", host[:_LONGEST_NAME]]
    allowed = ads.of_slot("DockerNetworks")
    allowed_networks = re.split(r"[,\s]+", allowed) if isinstance(allowed, str) else [""]
    if network not in (*_PLAIN_NETWORKS, *allowed_networks):
        raise ValueError(f"docker_network_type = {network}: DOCKER_NETWORKS of this machine does not allow it")
    for service in filter(None, re.split(r"[,\s]+", ads.text("ContainerServiceNames"))):
        options += ["-p", str(ads.of_job(f"{service}_ContainerPort"))]
    if ads.text("DockerPullPolicy").lower() == "always":
        options += ["--pull", "always"]
    options += _words(settings.texts.get("DOCKER_EXTRA_ARGUMENTS", ""))
    shared = ads.value(settings.texts.get("DOCKER_SHM_SIZE", ""))
    return [*options, *(["--shm-size", str(shared)] if isinstance(shared, int) else [])]


def _apptainer(
    launch: Launch, settings: Containers, ads: _Ads, image: str, transfers: bool, brought: bool
) -> Apptainer:
    texts: Mapping[str, str] = settings.texts
    chosen = ads.value(texts.get("SINGULARITY_IMAGE_EXPR", ""))
    image = chosen if isinstance(chosen, str) else image
    if not transfers and not isinstance(chosen, str):
        image = ads.text("ContainerImageFullPath") or image
    if not image:
        raise ValueError(
            "the job must run in a container, but neither its ad nor SINGULARITY_IMAGE_EXPR names an image"
        )
    namespaces = {"true": True, "false": False}.get(texts.get("SINGULARITY_USE_PID_NAMESPACES", "").lower())
    binds = ads.value(texts.get("SINGULARITY_BIND_EXPR", "") or "SingularityBind")
    extra = texts.get("SINGULARITY_EXTRA_ARGUMENTS", "")
    evaluated = ads.value(extra)
    version = ads.of_slot("SingularityVersion")
    return Apptainer(
        command=settings.singularity,
        image=image,
        program=ads.text("Cmd"),
        brought=brought,
        beside=not transfers,
        target=texts.get("SINGULARITY_TARGET_DIR", "") or ads.text("ContainerTargetDir"),
        verbosity=shlex.split(texts.get("SINGULARITY_VERBOSITY", "")),
        containment=isolation_options(ads.of_slot("HasPidNamespaces") is True if namespaces is None else namespaces),
        under_scratch=_under_scratch(settings, ads),
        gpus=_gpus(settings, ads),
        binds=re.split(r"[,\s]+", binds.strip()) if isinstance(binds, str) and binds.strip() else [],
        only_present=settings.only_present,
        extra=_words(evaluated if isinstance(evaluated, str) else extra),
        test=settings.test,
        prefix="APPTAINERENV_" if isinstance(version, str) and "apptainer" in version else "SINGULARITYENV_",
        allowed=texts.get("SINGULARITY_ALLOWED_JOB_ENV_VARS", "").replace(",", " ").split(),
        prompt=f"{launch.slot}$ ",
    )


def _gpus(settings: Containers, ads: _Ads) -> list[str]:
    if not isinstance(ads.of_slot("AssignedGPUs"), str):
        return []
    rocm = ads.of_slot("GPUs_Rocm")
    newer = settings.rocm or (isinstance(rocm, int) and rocm > 0)
    return [*(["--nv"] if isinstance(ads.of_slot("GPUs_NvidiaDriver"), str) else []), *(["--rocm"] if newer else [])]
