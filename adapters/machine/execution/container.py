"""The containers that a job may run in: what the supervisor needs to know of docker's, and of apptainer's."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen(kw_only=True)
class DockerSettings:
    """A container of docker's."""

    command: Sequence[str]  #: how docker is called
    name: str  #: of the container, but for the supervisor's number
    image: str
    annotated: str  #: the image's other name, which says that it was pulled for this user; the same: none is asked for
    program: str  #: what is run in it; empty: what the image names
    entrypoint: bool = False  #: whether the program stands in the place of the image's own entrypoint
    first: Sequence[str] = ()  #: words of docker create before those about the job
    logs: Sequence[str] = ()  #: those on docker's own logs
    last: Sequence[str] = ()  #: those behind the ones about the job
    under_scratch: Sequence[str] = ()  #: directories of the container that are in the scratch directory
    volumes: Sequence[str] = ()  #: further ones, SOURCE:TARGET
    images: int = 8  #: how many images are kept
    architecture: bool = True  #: whether the image must be of the machine's architecture
    seconds: int = 5  #: between two looks at what it uses
    runtime: str = "docker"


@frozen(kw_only=True)
class Apptainer:
    """A container of apptainer's, or singularity's."""

    command: str
    image: str
    program: str  #: what is run in it; empty: what the image names
    brought: bool = False  #: whether the program is one of the job's files
    beside: bool = True  #: whether an image with a relative name is in the job's directory
    target: str = ""  #: where the container has the job's directory; empty: at the same place
    verbosity: Sequence[str] = ()
    containment: Sequence[str] = ()
    under_scratch: Sequence[str] = ()
    gpus: Sequence[str] = ()
    binds: Sequence[str] = ()
    only_present: bool = False  #: whether a bind is left out for which an image's directory has no place
    extra: Sequence[str] = ()
    test: bool = True  #: whether the image is tried before the job
    prefix: str = "APPTAINERENV_"  #: of the variables that come into the container
    allowed: Sequence[str] = ()  #: variables of the runtime that jobs may set, beside its own
    prompt: str = ""
    name: str = ""
    runtime: str = "apptainer"
