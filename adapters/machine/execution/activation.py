"""The messages between the pool and its supervisor: one start of a job, and its reports.

Times are integer microseconds since the epoch, UTC; CPU times integer microseconds; sizes KiB (HTCondor's unit for
ImageSize, ResidentSetSize and DiskUsage) unless a name says otherwise.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import Attribute, field, frozen

# The containers that a job may run in, as the supervisor needs them: docker's and apptainer's.


@frozen(kw_only=True)
class DockerSettings:
    """A docker container."""

    command: Sequence[str]  #: the command that runs docker
    name: str  #: the container's name, without the supervisor's suffix
    image: str
    annotated: str  #: the tag that records that it was pulled for this user; equal to ``image``: no tag
    program: str  #: the command; empty: the image's default
    entrypoint: bool = False  #: whether the program replaces the image's entrypoint
    first: Sequence[str] = ()  #: arguments of docker create before those for the job
    logs: Sequence[str] = ()  #: arguments for docker's own logs
    last: Sequence[str] = ()  #: arguments after those for the job
    under_scratch: Sequence[str] = ()  #: directories of the container that are in the scratch directory
    volumes: Sequence[str] = ()  #: further volumes, SOURCE:TARGET
    images: int = 8  #: maximum number of images to keep
    architecture: bool = True  #: whether the image must match the machine's architecture
    seconds: int = 5  #: seconds between two measurements of its usage
    runtime: str = "docker"


@frozen(kw_only=True)
class Apptainer:
    """An apptainer or singularity container."""

    command: str
    image: str
    program: str  #: the command; empty: the image's default
    brought: bool = False  #: whether the program is one of the job's input files
    beside: bool = True  #: whether an image with a relative name is in the job's directory
    target: str = ""  #: where the container mounts the job's directory; empty: at the same path
    verbosity: Sequence[str] = ()
    containment: Sequence[str] = ()
    under_scratch: Sequence[str] = ()
    gpus: Sequence[str] = ()
    binds: Sequence[str] = ()
    only_present: bool = False  #: whether to omit a bind mount whose target is missing in an image directory
    extra: Sequence[str] = ()
    test: bool = True  #: whether to test the image before the job
    prefix: str = "APPTAINERENV_"  #: the prefix of the variables that are passed into the container
    allowed: Sequence[str] = ()  #: further variables of the runtime that jobs may set
    prompt: str = ""
    name: str = ""
    runtime: str = "apptainer"


# The key names files, so it must not contain characters with a meaning in a path.
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

# For a job that was killed for a limit: HoldReasonCode (the manual's table in "Job ClassAd Attributes") and the
# HoldReasonSubCode of the policies HOLD_IF_MEMORY_EXCEEDED and HOLD_IF_DISK_EXCEEDED.
VIOLATION_HOLD_CODES: Mapping[str, tuple[int, int]] = {
    "memory": (34, 102),  # JobOutOfResources
    "disk": (34, 104),  # JobOutOfResources
}

CPU_COUNTS = (
    "CUBACORES", "GOMAXPROCS", "JULIA_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "PYTHON_CPU_COUNT", "ROOT_MAX_THREADS", "TF_LOOP_PARALLEL_ITERATIONS",
    "TF_NUM_THREADS",
)  # fmt: skip
"""HTCondor's STARTER_NUM_THREADS_ENV_VARS: variables that set a program's number of threads."""

SCRATCH_DIRECTORY = "#CoNdOrScRaTcHdIr#"  #: its placeholder in a slot's ad and in a job's variables

UNATTENDED = "unattended"  #: the reason for killing an attended job while no pool was connected
EXPIRED = "lease"  #: the reason for killing a job whose deadline the pool did not renew in time

# HoldReasonCode of a job that could not be started, by the part that failed; the subcode is the errno.
FAILURE_HOLD_CODES: Mapping[str, int] = {
    **dict.fromkeys(("claim", "scratch", "executable", "container"), 6),  # FailedToCreateProcess
    "image": 35,  # InvalidDockerImage
    "singularity": 45,  # SingularityTestFailed
    **dict.fromkeys(("stdout", "stderr"), 7),  # UnableToOpenOutput
    "stdin": 8,  # UnableToOpenInput
    **dict.fromkeys(("stdout_stream", "stderr_stream"), 9),  # UnableToOpenOutputStream
    "iwd": 14,  # IwdError
    "input": 13,  # TransferInputError
    "dataflow": 0,  # SKIPPED: not a failure
}

# VacateReasonCode of a job that could not be started because of the machine.
FAILURE_VACATE_CODES: Mapping[str, int] = {
    **dict.fromkeys(FAILURE_HOLD_CODES, 1003),  # JobNotStarted
    **dict.fromkeys(("claim", "scratch"), 1024),  # ScratchDirError
}


@frozen
class Chirp:
    """What a job may do with condor_chirp besides accessing files and reading its ad."""

    updates: bool = False  #: whether it may set attributes immediately, and write to its log
    delayed: Sequence[str] = ()  #: patterns of the names that it may set with a delay
    most: int = 0  #: maximum number of attributes that it may set
    refused: Sequence[str] = ()  #: the attributes, in lower case, that no job may set


@frozen
class Write:
    """What a job wrote with condor_chirp: an attribute, ``set`` immediately or ``delayed``, or a log ``note``."""

    number: int  #: counted from 1 in each run
    kind: str
    name: str  #: the attribute's name; empty for a note
    text: str


SKIPPED = "dataflow"  #: the part of `Failed` if a job need not run, because its outputs are newer than its inputs


@frozen
class ResourceLimits:
    """The limits whose violation kills a job; None means no limit."""

    memory_mb: int | None = None  #: limit on the total resident memory of all its processes
    disk_kb: int | None = None  #: limit on the size of its scratch directory plus the growth of its output files


def _is_key(_: object, _attribute: Attribute[str], value: str) -> None:
    if not _KEY.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a valid activation key: it names files, so use at most 200 letters, digits, '_', '.' and"
            " '-', and no '.' or '-' first; take the position of the event that started it"
        )


def _is_absolute(_: object, attribute: Attribute[str], value: str) -> None:
    if not value.startswith("/"):
        raise ValueError(
            f"{attribute.name} {value!r} is relative, but the supervisor runs elsewhere; give an absolute path"
        )


@frozen
class UnixAccount:
    """A user of this machine, whose rights a process takes."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  #: all groups of the user
    home: str = "/"
    dedicated: bool = False  #: whether all its processes belong to the job and are killed with it


@frozen(kw_only=True)
class FileTransfer:
    """How a job's files are transferred to where it runs, and back. Paths are relative to its ``iwd`` or to its scratch
    directory, as in the job."""

    executable: bool = True  #: whether its program is transferred
    inputs: tuple[str, ...] = ()  #: files and directories; with a trailing slash, a directory's contents
    outputs: tuple[str, ...] | None = None  #: the same, in its scratch directory, or None for all new or changed files
    remaps: Mapping[str, str] = field(factory=dict)  #: destinations of outputs, by their names
    preserve: bool = False  #: whether outputs keep the directories in their names
    brought: tuple[str, ...] = ()  #: the streams that are copied: stdin, stdout, stderr
    streamed: tuple[str, ...] = ()  #: the streams that are written directly to their destination
    max_input_mb: int | None = None  #: size above which the transfer fails; None or negative: no limit
    max_output_mb: int | None = None
    plugins: Mapping[str, Sequence[str]] = field(factory=dict)
    """By URL scheme: the plugin's command line. A program name without a slash refers to an input file."""
    plugin_seconds: int = 0  #: maximum run time of a plugin, in seconds
    destination: str = ""  #: a URL below which outputs go, except the streams; empty: they go to ``iwd``
    success: int | None = None  #: the exit code that outputs require; None: they are always transferred back
    spool: str = ""  #: the job's spool directory; empty: nothing is kept, so the job restarts from the beginning
    on_evict: bool = False  #: whether outputs are kept in the spool directory when the job is evicted
    checkpoint: Mapping[str, int] | None = (
        None  #: the ``code`` or ``signal`` with which it exits after it took a checkpoint
    )
    checkpoint_files: tuple[str, ...] | None = None  #: the files of a checkpoint; None: the job's outputs
    checkpoint_url: str = ""  #: where checkpoints are stored, each below its number; empty: in the spool directory
    checkpoint_number: int = -1  #: the number of the last checkpoint of earlier runs that the log knows
    kept_checkpoints: int = 2  #: how many checkpoints remain at the URL
    appends: bool = False  #: whether output and error of its earlier runs are kept


@frozen(kw_only=True)
class AccessPoint:
    """The access point that has a job's files, if it is another machine. The files there belong to the access point; on
    this machine, the files of a job that runs as another user belong to that user, so ``LaunchRequest.files`` is equal
    to ``account``."""

    urls: tuple[str, ...]  #: the base URLs of its files to try in order, https://HOST:PORT/PATH
    activation: str  #: the name of the activation at the access point
    key: str = field(repr=False)  #: the transfer key
    ca: str = ""  #: the certificates (PEM) that certify the hosts; empty: this machine's certificates
    patience_s: int = 2400
    """How long a transfer is retried without progress; a lease that ends earlier ends the transfer as well."""


@frozen(kw_only=True)
class LaunchRequest:
    """One start of one job. The variables that HTCondor's starter sets are added to its environment (manual,
    "Environment and services for a running job")."""

    key: str = field(validator=_is_key)  #: unique in the log: the position of the event that started it
    job: str
    slot: str
    executable: str  #: may be relative to ``iwd``, like the three streams
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)  #: the job's own variables
    inherited: Mapping[str, str] = field(factory=dict)  #: variables of the pool's process; the job's override them
    counts: tuple[str, ...] = CPU_COUNTS  #: variables set to the number of cores unless the job sets them
    added: Mapping[str, str] = field(factory=dict)  #: variables that override the job's
    sets_home: bool = True  #: whether HOME is one of these variables
    iwd: str = field(validator=_is_absolute)
    stdin: str = ""  #: empty: /dev/null
    stdout: str = ""
    stderr: str = ""  #: if equal to ``stdout``, both share one descriptor
    append_stdout: bool = False
    append_stderr: bool = False
    job_ad: str = ""  #: the text of .job.ad in its scratch directory
    machine_ad: str = ""  #: the text of .machine.ad in its scratch directory
    cpus: int = 1  #: cores provisioned by the slot; memory and disk likewise
    memory_mb: int = 0
    disk_kb: int = 0
    limits: ResourceLimits = field(factory=ResourceLimits)  #: the enforced limits
    kill_signals: Mapping[str, int] = field(
        factory=lambda: dict.fromkeys(("soft", "hold", "remove"), int(signal.SIGTERM))
    )  #: the signal for each kind of soft kill
    nice: int = 0  #: added to the processes' nice value
    execute: str = ""  #: the parent of its scratch directory; empty: the supervisor's folder
    run_in_iwd: bool = False  #: whether it runs in ``iwd``; otherwise in its scratch directory
    remote_iwd: str = ""  #: the directory on this machine in which it runs instead of ``iwd``
    dataflow: Mapping[str, Sequence[str]] | None = None
    """The job's ``inputs`` and ``outputs``, if it is skipped when all outputs are newer; None: it always runs."""
    wrapper: str = ""  #: the program that is started with the job's command line as its arguments; empty: none
    account: UnixAccount | None = None  #: the user that it runs as, if not the pool's; needs root
    files: UnixAccount | None = None  #: the owner of the files where it was submitted, if not the pool's user
    core_bytes: int = 0  #: the largest core file; negative: as large as the pool's may be
    stack_bytes: int = 0  #: the largest stack; 0 or negative: as large as the machine allows
    transfer: FileTransfer | None = None  #: how its files are transferred; None: they are not transferred
    chirp: Chirp | None = None  #: what its condor_chirp may do; None: nothing
    container: DockerSettings | Apptainer | None = None  #: the container that it runs in
    access_point: AccessPoint | None = None  #: where its files are; None: on this machine
    attended: bool = False  #: whether it is killed when no pool has been connected for some seconds
    deadline: int = 0  #: when it is killed unless the pool renews this, in microseconds of CLOCK_BOOTTIME (0: never)
    waits: bool = False  #: whether only its input files are transferred, until it is started again without this


def _by_protocol(rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in rows)


@frozen
class Move:
    """A transfer of a job's files."""

    way: str  #: input, checkpoint or output
    began: int
    ended: int = 0  #: 0: it is in progress, or was stopped
    listed: int = 0  #: how many files and directories to move
    files: int = 0  #: how many files were moved, including those in directories
    size: int = 0  #: their total bytes
    failed: bool = False  #: whether some files were not moved
    urls: tuple[tuple[str, int, int, int], ...] = field(default=(), converter=_by_protocol)
    """For each protocol that plugins used: how many files to move, how many were moved, their bytes."""
    number: int = 0  #: number of a checkpoint, counted in each activation
    kept: bool = False  #: whether the files were copied to the job's spool directory
    names: str | None = None  #: the transferred files and directories, without output, error and URLs


@frozen
class TransferFailure:
    """Why a job's files could not be transferred."""

    code: int  #: the HoldReasonCode
    errno: int  #: the errno or another HoldReasonSubCode
    end: str  #: the end that failed: sending or receiving
    words: str
    protocol: str = ""  #: the protocol that a plugin used, or empty if no plugin was used


def _moves(moves: Sequence[Move | Mapping[str, Any]]) -> tuple[Move, ...]:
    return tuple(move if isinstance(move, Move) else Move(**move) for move in moves)


def _failure(failure: TransferFailure | Mapping[str, Any] | None) -> TransferFailure | None:
    return failure if failure is None or isinstance(failure, TransferFailure) else TransferFailure(**failure)


def _writes(writes: Sequence[Write | Sequence[Any]]) -> tuple[Write, ...]:
    return tuple(write if isinstance(write, Write) else Write(*write) for write in writes)


@frozen
class Chirped:
    """The job wrote with condor_chirp."""

    key: str
    writes: tuple[Write, ...] = field(converter=_writes)


@frozen
class Transferring:
    """The job's files are being transferred, or have been."""

    key: str
    moves: tuple[Move, ...] = field(converter=_moves)


@frozen
class Started:
    """The job's process runs."""

    key: str
    pid: int
    at: int
    moves: tuple[Move, ...] = field(default=(), converter=_moves)


@frozen
class Failed:
    """The job could not be started."""

    key: str
    part: str  #: a key of FAILURE_HOLD_CODES
    errno: int  #: 0 if no system call failed
    reason: str
    at: int
    machine: bool = False  #: whether the machine is the cause (a full disk): the job should be tried again
    moves: tuple[Move, ...] = field(default=(), converter=_moves)
    failure: TransferFailure | None = field(default=None, converter=_failure)
    writes: tuple[Write, ...] = field(default=(), converter=_writes)  #: what it wrote with condor_chirp

    @property
    def hold_code(self) -> int:
        """Return the reason code of this failure: a VacateReasonCode if the machine is the cause, otherwise a
        HoldReasonCode."""
        if self.failure is not None:
            return self.failure.code
        return FAILURE_VACATE_CODES[self.part] if self.machine else FAILURE_HOLD_CODES[self.part]


@frozen
class Usage:
    """What the job's processes use now: CPU time so far, total resident and virtual size, and the job's disk space."""

    key: str
    user_us: int
    system_us: int
    rss_kb: int
    image_kb: int
    disk_kb: int
    at: int
    sandbox: Mapping[str, int] = field(factory=dict)  #: attributes of the job that describe its scratch directory


@frozen
class Exited:
    """The job's own process and all its descendants have ended; the record is on disk."""

    key: str
    code: int | None  #: the exit code; either this or the signal is None
    signal: int | None
    user_us: int
    system_us: int
    peak_kb: int  #: the largest resident size seen
    disk_kb: int
    core: bool
    at: int
    violated: str = ""
    """Why the supervisor killed the job: a key of VIOLATION_HOLD_CODES, UNATTENDED or EXPIRED; empty if it did not kill
    the job."""
    moves: tuple[Move, ...] = field(default=(), converter=_moves)
    pid: int = 0  #: the process id of the own process of a job with moves
    began: int = 0  #: of a job with moves: when its own process started (0: it never started; code and signal are None)
    undelivered: bool = False  #: whether some of its files were not transferred to their destination
    failure: TransferFailure | None = field(default=None, converter=_failure)
    writes: tuple[Write, ...] = field(default=(), converter=_writes)  #: what it wrote with condor_chirp
    core_file: str = ""  #: the path of its core file
    sandbox: Mapping[str, int] = field(factory=dict)  #: attributes of the job that describe its scratch directory


@frozen
class Lost:
    """The job was started and has ended, but its exit code is unknown."""

    key: str
    why: str  #: a sentence
    at: int


@frozen
class Running:
    """A job that ``recover`` found running: its process, and when it was started."""

    key: str
    pid: int
    at: int
    moves: tuple[Move, ...] = field(default=(), converter=_moves)
    writes: tuple[Write, ...] = field(default=(), converter=_writes)  #: what it wrote with condor_chirp


Report: TypeAlias = Transferring | Started | Chirped | Failed | Usage | Exited | Lost

# By the supervisor's name for the report. A record on disk has the same form.
REPORTS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Transferring, Started, Chirped, Failed, Usage, Exited, Lost, Running)
}
