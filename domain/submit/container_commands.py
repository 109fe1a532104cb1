"""Make the attributes of jobs that run in containers: which image, how it comes there, which ports are reached.

A job is in a container by its universe, docker or container, or by an image that it names; its universe is vanilla (or
local) then. Source: HTCondor 25.14's ``SetUniverse``, ``SetExecutable``, ``SetContainerSpecial`` and
``process_container_input_files`` (``submit_utils.cpp``), in whose words a wrong combination is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..classad.old_form import is_true, literal_string
from ..macros.functions import evaluated
from .job_sections import Action, Job, Section, stripped

WANTED = ("WantDocker", "WantContainer")
"""The attributes that say that a job runs in a container."""
IMAGES = ("docker_image", "dockerimage", "container_image", "containerimage")
_PORT, _LAST_PORT = "_container_port", 65535
_REFUSED_SOURCES = ("instance://", "library://", "shub://")
_LEFT_TO_THE_RUNTIME = ("docker://", "oras://")
_KINDS = {"WantDockerImage": "HasDockerURL", "WantSIF": "HasSIF", "WantSandboxImage": "HasSandboxImage"}
"""What is wanted of the kinds of images, and what a slot has that can run one."""
_ANY_NETWORK = frozenset({"host", "none", "nat"})  #: what each docker has


def wants_container(job: Job) -> bool:
    """Return whether a job's universe or image has it run in a container; ``+WantDocker`` does not, as in HTCondor."""
    return any(is_true(job.attribute(name)) and job.value(f"my.{name.lower()}") is None for name in WANTED)


def want(job: Job, universe: str) -> None:
    """Say whether the job wants a container, for its universe and the images that it names. Raise SubmitError."""
    docker, container = job.given(*IMAGES[:2]), job.given(*IMAGES[2:])
    if universe == "docker":
        if job.value(container) is not None:
            raise job.wrong(container, "docker universe does not allow use of container_image; name a docker_image")
        job.made["WantDocker"] = "true"
        return
    if job.value(docker) is not None and job.value(container) is not None:
        raise job.wrong(container, "cannot declare both docker_image and container_image; leave one of them out")
    if universe == "container" or job.value(docker, container) is not None:
        job.made["WantContainer"] = "true"
        if job.value(docker) is not None:
            job.made["WantDockerImage"] = "true"


def _image(job: Job) -> None:
    if not wants_container(job):
        return
    docker, container = job.given(*IMAGES[:2]), job.given(*IMAGES[2:])
    _credentials(job)
    in_docker = is_true(job.attribute("WantDocker"))
    if job.value(docker) is not None:
        name = stripped(job.values[docker])
        if not name.strip('"'):
            universe = "" if in_docker else " for container universe"
            raise job.wrong(docker, f"it is not a valid docker_image{universe}")
        job.set_string("DockerImage", name)
    elif in_docker:
        raise job.wrong("universe", "docker jobs require a docker_image")
    elif job.value(container) is None:
        raise job.wrong("universe", "container jobs require a container_image or docker_image")
    else:
        name = stripped(job.values[container])
        if not name.strip('"') or name.startswith(_REFUSED_SOURCES):
            raise job.wrong(container, "it is not a valid container image; name a file, a directory, or docker://image")
        job.set_string("ContainerImage", name)
        job.made[_kind(name)] = "true"


def _credentials(job: Job) -> None:
    """Raise SubmitError if the job's credentials for docker are to be sent, and there are none."""
    command = job.given("docker_send_credentials", "dockersendcredentials")
    path = f"{job.facts.environment.get('HOME', '')}/.docker/config.json"
    if job.boolean(command) and job.files.size(path) is None:
        problem = f"Cannot locate docker credentials file {path}: No such file or directory"
        raise job.wrong(command, f"{problem}; docker login makes it")


def _kind(image: str) -> str:
    if image.startswith("docker:"):
        return "WantDockerImage"
    return "WantSIF" if image.endswith(".sif") else "WantSandboxImage"


def check_mounts(job: Job) -> None:
    """Warn of what is asked for of a container by a job that is in none."""
    if job.attribute("MountUnderScratch") is not None and not wants_container(job):
        job.warn("mount_under_scratch counts for jobs in containers alone here: this one finds the machine's own")


def image_files(job: Job) -> list[str]:
    """Return the image if it is transferred with the job's input files; and say where a container's image comes from,
    and what it is called where the job runs."""
    value = job.value(*IMAGES[2:])
    if value is None or not is_true(job.attribute("WantContainer")):
        return []
    image = stripped(value)
    scheme = next((prefix for prefix in _LEFT_TO_THE_RUNTIME if image.startswith(prefix)), "")
    shared = job.facts.setting("CONTAINER_SHARED_FS").split(",")
    if job.attribute("TransferContainer") == "false" or any(
        image.startswith(base.strip()) for base in shared if base.strip()
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
"""The attributes that ``image_files`` makes."""


def clauses(job: Job) -> Iterator[str]:
    """Yield what a container's slot must have, instead of the clause for its operating system."""
    if is_true(job.attribute("WantDocker")):
        yield "TARGET.HasDocker"
        network = literal_string(job.attribute("DockerNetworkType")) or ""
        if network and network not in _ANY_NETWORK:
            yield "StringListMember(My.DockerNetworkType, TARGET.DockerNetworks)"
        return
    yield "TARGET.HasContainer"
    image = literal_string(job.attribute("ContainerImage"))
    if job.attribute("DockerImage") is not None:
        yield "TARGET.HasDockerURL"
    elif image is not None:
        yield f"TARGET.{_KINDS[_kind(image)]}"


def services(commands: Iterable[str]) -> list[Section]:
    """Return the section of ``container_service_names``, with the given commands that name ports."""
    ports = [name for name in commands if name.endswith(_PORT) and name != _PORT]
    return [Section(_services, ("container_service_names", "containerservicenames", *ports), ("ContainerServiceNames",),
                    reads=WANTED)]  # fmt: skip


def _services(job: Job) -> None:
    if not wants_container(job):
        return
    command = job.given("container_service_names", "containerservicenames")
    value = job.value(command)
    if value is None:
        return
    job.set_string("ContainerServiceNames", value)
    for service in filter(None, re.split(r"[,\s]+", value)):
        port = evaluated(job.value(f"{service.lower()}{_PORT}") or "")
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= _LAST_PORT:
            problem = f"Requested container service '{service}' was not assigned a port"
            way_out = f"write {service}{_PORT} = 8080"
            raise job.wrong(command, f"{problem}, or the assigned port was not valid; {way_out}")
        job.made[f"{service}_ContainerPort"] = str(port)


_IMAGE: Action = _image
IMAGE = Section(
    _IMAGE,
    (*IMAGES, "universe", "docker_send_credentials", "dockersendcredentials"),
    ("DockerImage", "ContainerImage", *_KINDS),
    reads=(*WANTED, "WantDockerImage"),
)
