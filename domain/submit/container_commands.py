"""Compute the attributes of jobs in containers: the image, how it is transferred, and the ports.

A job runs in a container if its universe is docker or container, or if it names an image. Its JobUniverse is then
vanilla or local. Source, also of the error messages: HTCondor 25.14's ``SetUniverse``, ``SetExecutable``,
``SetContainerSpecial`` and ``process_container_input_files`` (``submit_utils.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..classad.old_form import is_true, literal_string
from ..macros.functions import evaluate_text
from .job_sections import Action, Section, SubmitJob, strip_quotes

CONTAINER_FLAGS = ("WantDocker", "WantContainer")
"""The attributes of a job that runs in a container."""
IMAGES = ("docker_image", "dockerimage", "container_image", "containerimage")
_PORT, _LAST_PORT = "_container_port", 65535
_UNSUPPORTED_SOURCES = ("instance://", "library://", "shub://")
_RUNTIME_SOURCES = ("docker://", "oras://")
_IMAGE_KINDS = {"WantDockerImage": "HasDockerURL", "WantSIF": "HasSIF", "WantSandboxImage": "HasSandboxImage"}
"""The job attribute for each kind of image, and the attribute of slots that can run such images."""
_STANDARD_NETWORKS = frozenset({"host", "none", "nat"})  #: the networks that every Docker installation has


def wants_container(job: SubmitJob) -> bool:
    """Check whether a job's universe or image requires a container; as in HTCondor, ``+WantDocker`` does not."""
    return any(is_true(job.attribute(name)) and job.value(f"my.{name.lower()}") is None for name in CONTAINER_FLAGS)


def set_container_flags(job: SubmitJob, universe: str) -> None:
    """Set WantDocker or WantContainer by the job's universe and images; raise SubmitError if these conflict."""
    docker, container = job.spelling(*IMAGES[:2]), job.spelling(*IMAGES[2:])
    if universe == "docker":
        if job.value(container) is not None:
            raise job.error(container, "docker universe does not allow use of container_image; name a docker_image")
        job.result["WantDocker"] = "true"
        return
    if job.value(docker) is not None and job.value(container) is not None:
        raise job.error(container, "cannot declare both docker_image and container_image; leave one of them out")
    if universe == "container" or job.value(docker, container) is not None:
        job.result["WantContainer"] = "true"
        if job.value(docker) is not None:
            job.result["WantDockerImage"] = "true"


def _image(job: SubmitJob) -> None:
    if not wants_container(job):
        return
    docker, container = job.spelling(*IMAGES[:2]), job.spelling(*IMAGES[2:])
    _check_credentials(job)
    wants_docker = is_true(job.attribute("WantDocker"))
    if job.value(docker) is not None:
        name = strip_quotes(job.values[docker])
        if not name.strip('"'):
            universe = "" if wants_docker else " for container universe"
            raise job.error(docker, f"it is not a valid docker_image{universe}")
        job.set_string("DockerImage", name)
    elif wants_docker:
        raise job.error("universe", "docker jobs require a docker_image")
    elif job.value(container) is None:
        raise job.error("universe", "container jobs require a container_image or docker_image")
    else:
        name = strip_quotes(job.values[container])
        if not name.strip('"') or name.startswith(_UNSUPPORTED_SOURCES):
            raise job.error(container, "it is not a valid container image; name a file, a directory, or docker://image")
        job.set_string("ContainerImage", name)
        job.result[_image_attribute(name)] = "true"


def _check_credentials(job: SubmitJob) -> None:
    command = job.spelling("docker_send_credentials", "dockersendcredentials")
    path = f"{job.facts.environment.get('HOME', '')}/.docker/config.json"
    if job.boolean(command) and job.files.size(path) is None:
        message = f"Cannot locate docker credentials file {path}: No such file or directory"
        raise job.error(command, f"{message}; run docker login")


def _image_attribute(image: str) -> str:
    if image.startswith("docker:"):
        return "WantDockerImage"
    return "WantSIF" if image.endswith(".sif") else "WantSandboxImage"


def check_mounts(job: SubmitJob) -> None:
    """Warn the user if a job outside of containers sets mount_under_scratch."""
    if job.attribute("MountUnderScratch") is not None and not wants_container(job):
        job.warn("mount_under_scratch has no effect: Poolbook implements it only for jobs in containers")


def image_files(job: SubmitJob) -> list[str]:
    """Set the source of the container image and its name on the machine. Return the image if it is an input file."""
    value = job.value(*IMAGES[2:])
    if value is None or not is_true(job.attribute("WantContainer")):
        return []
    image = strip_quotes(value)
    scheme = next((prefix for prefix in _RUNTIME_SOURCES if image.startswith(prefix)), "")
    shared_directories = job.facts.setting("CONTAINER_SHARED_FS").split(",")
    if job.attribute("TransferContainer") == "false" or any(
        image.startswith(directory.strip()) for directory in shared_directories if directory.strip()
    ):
        job.set_string("ContainerImageSource", "local")
        return []
    if scheme:
        job.set_string("ContainerImageSource", scheme.removesuffix("://"))
        return []
    name = image.removesuffix("/")
    job.set_string("ContainerImage", name.rpartition("/")[2])
    job.set_string("ContainerImageFullPath", image)
    job.set_string("ContainerImageSource", name.partition(":")[0] if ":" in name else "cedar")
    return [image]


IMAGE_FILES = ("ContainerImage", "ContainerImageFullPath", "ContainerImageSource")
"""The attributes that ``image_files`` sets."""


def container_clauses(job: SubmitJob) -> Iterator[str]:
    """Yield the Requirements clauses of a container job, which replace the clause for the operating system."""
    if is_true(job.attribute("WantDocker")):
        yield "TARGET.HasDocker"
        network = literal_string(job.attribute("DockerNetworkType")) or ""
        if network and network not in _STANDARD_NETWORKS:
            yield "StringListMember(My.DockerNetworkType, TARGET.DockerNetworks)"
        return
    yield "TARGET.HasContainer"
    image = literal_string(job.attribute("ContainerImage"))
    if job.attribute("DockerImage") is not None:
        yield "TARGET.HasDockerURL"
    elif image is not None:
        yield f"TARGET.{_IMAGE_KINDS[_image_attribute(image)]}"


def service_sections(commands: Iterable[str]) -> list[Section]:
    """Return the section of ``container_service_names`` and of the given commands that set ports."""
    ports = [name for name in commands if name.endswith(_PORT) and name != _PORT]
    return [Section(_services, ("container_service_names", "containerservicenames", *ports), ("ContainerServiceNames",),
                    reads=CONTAINER_FLAGS)]  # fmt: skip


def _services(job: SubmitJob) -> None:
    if not wants_container(job):
        return
    command = job.spelling("container_service_names", "containerservicenames")
    value = job.value(command)
    if value is None:
        return
    job.set_string("ContainerServiceNames", value)
    for service in filter(None, re.split(r"[,\s]+", value)):
        port = evaluate_text(job.value(f"{service.lower()}{_PORT}") or "")
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= _LAST_PORT:
            message = f"Requested container service '{service}' was not assigned a port"
            advice = f"write {service}{_PORT} = 8080"
            raise job.error(command, f"{message}, or the assigned port was not valid; {advice}")
        job.result[f"{service}_ContainerPort"] = str(port)


_IMAGE: Action = _image
IMAGE = Section(
    _IMAGE,
    (*IMAGES, "universe", "docker_send_credentials", "dockersendcredentials"),
    ("DockerImage", "ContainerImage", *_IMAGE_KINDS),
    reads=(*CONTAINER_FLAGS, "WantDockerImage"),
)
