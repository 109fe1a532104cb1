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

# The containers that a job may run in: what the supervisor needs to know of docker's, and of apptainer's.


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


# The key names files, so it may not hold characters with a meaning in a path.
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

# Of a job that was killed for a limit: HoldReasonCode (the manual's table in "Job ClassAd Attributes") and the
# HoldReasonSubCode that HTCondor's policies HOLD_IF_MEMORY_EXCEEDED and HOLD_IF_DISK_EXCEEDED give.
VIOLATION_HOLD_CODES: Mapping[str, tuple[int, int]] = {
    "memory": (34, 102),  # JobOutOfResources
    "disk": (34, 104),  # JobOutOfResources
}

CPU_COUNTS = (
    "CUBACORES", "GOMAXPROCS", "JULIA_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "PYTHON_CPU_COUNT", "ROOT_MAX_THREADS", "TF_LOOP_PARALLEL_ITERATIONS",
    "TF_NUM_THREADS",
)  # fmt: skip
"""HTCondor's STARTER_NUM_THREADS_ENV_VARS: variables that tell a program how many threads to have."""

SCRATCH_DIRECTORY = "#CoNdOrScRaTcHdIr#"  #: stands for it in a slot's ad, and in a job's variables

UNATTENDED = "unattended"  #: the end of what is attended, and no pool was connected

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
}

# VacateReasonCode of a job that could not be started for a fault of the machine's.
FAILURE_VACATE_CODES: Mapping[str, int] = {
    **dict.fromkeys(FAILURE_HOLD_CODES, 1003),  # JobNotStarted
    **dict.fromkeys(("claim", "scratch"), 1024),  # ScratchDirError
}


@frozen
class Chirp:
    """What a job may do with condor_chirp beside reaching files and reading its ad."""

    updates: bool = False  #: whether it may set attributes at once, and write into its log
    delayed: Sequence[str] = ()  #: patterns of the names that it may set with delay
    most: int = 0  #: how many attributes it may set, at most
    refused: Sequence[str] = ()  #: in small letters the attributes that no job may set


@frozen
class Write:
    """What a job wrote with condor_chirp: an attribute, ``set`` at once or ``delayed``, or a ``note`` for its log."""

    number: int  #: counted from 1 in each run
    kind: str
    name: str  #: the attribute's; empty for a note
    text: str


@frozen
class ResourceLimits:
    """The limits whose violation kills a job; None enforces nothing."""

    memory_mb: int | None = None  #: of the resident memory of all its processes together
    disk_kb: int | None = None  #: of its scratch directory, and what its output files have grown by


def _is_key(_: object, __: Attribute[str], value: str) -> None:
    if not _KEY.fullmatch(value):
        raise ValueError(
            f"an activation's key names files: {value!r} must be letters, digits, '_', '.' and '-', 200 of them at"
            " most and not first a '.' or '-'; take the position of the event that began it"
        )


def _is_absolute(_: object, attribute: Attribute[str], value: str) -> None:
    if not value.startswith("/"):
        raise ValueError(
            f"{attribute.name} {value!r} is relative: the supervisor runs elsewhere; give an absolute path"
        )


@frozen
class UnixAccount:
    """A user of this machine, with whose rights something is done."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  #: all that the user belongs to
    home: str = "/"
    dedicated: bool = False  #: whether all its processes are the job's, and die with it


@frozen(kw_only=True)
class FileTransfer:
    """How a job's files come to where it runs, and back. Paths are as the job has them: relative to its ``iwd``, or to
    its scratch directory."""

    executable: bool = True  #: whether its program is brought
    inputs: tuple[str, ...] = ()  #: files and directories; with a slash at its end, a directory's contents
    outputs: tuple[str, ...] | None = None  #: the same, of its scratch directory; None: all files new or changed
    remaps: Mapping[str, str] = field(factory=dict)  #: where outputs go, by their names
    preserve: bool = False  #: whether they keep the directories in their names
    brought: tuple[str, ...] = ()  #: of the streams those that are copied: stdin, stdout, stderr
    streamed: tuple[str, ...] = ()  #: those that are written where they belong
    max_input_mb: int | None = None  #: beyond this its transfer fails; None, or below 0: there is no limit
    max_output_mb: int | None = None
    plugins: Mapping[str, Sequence[str]] = field(factory=dict)
    """By schemes of URLs the words of the commands that move their files; one without a slash is an input."""
    plugin_seconds: int = 0  #: how long one may take
    destination: str = ""  #: a URL below which outputs go, but for the streams; empty: they go to ``iwd``
    success: int | None = None  #: the exit code without which no outputs are brought back; None: they always are
    spool: str = ""  #: the job's spool directory; empty: nothing is kept of it, and it begins anew
    on_evict: bool = False  #: whether outputs are kept there when it is told to end
    checkpoint: Mapping[str, int] | None = (
        None  #: the ``code`` or ``signal`` by which it says that it took a checkpoint
    )
    checkpoint_files: tuple[str, ...] | None = None  #: what belongs to one; None: its outputs
    appends: bool = False  #: whether output and error of its earlier runs stay


@frozen(kw_only=True)
class LaunchRequest:
    """One start of one job. The variables that HTCondor's starter sets are added to its environment (manual,
    "Environment and services for a running job")."""

    key: str = field(validator=_is_key)  #: unique in the log: the position of the event that began it
    job: str
    slot: str
    executable: str  #: may be relative to ``iwd``, as the three streams
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)  #: all that it inherits
    inherited: Mapping[str, str] = field(factory=dict)  #: variables of the pool's that it has unless it sets them
    counts: tuple[str, ...] = CPU_COUNTS  #: variables that are the number of cores unless it sets them
    added: Mapping[str, str] = field(factory=dict)  #: variables that it has whatever it sets
    sets_home: bool = True  #: whether HOME is one of these
    iwd: str = field(validator=_is_absolute)
    stdin: str = ""  #: empty: /dev/null
    stdout: str = ""
    stderr: str = ""  #: at the path of the output, it shares its descriptor
    append_stdout: bool = False
    append_stderr: bool = False
    job_ad: str = ""  #: its scratch directory gets this as .job.ad
    machine_ad: str = ""  #: and this as .machine.ad
    cpus: int = 1  #: provisioned by the slot, as memory and disk
    memory_mb: int = 0
    disk_kb: int = 0
    limits: ResourceLimits = field(factory=ResourceLimits)  #: which of them are enforced
    kill_signals: Mapping[str, int] = field(
        factory=lambda: dict.fromkeys(("soft", "hold", "remove"), int(signal.SIGTERM))
    )  #: the signal of each way of a soft end
    nice: int = 0  #: added to the processes' nice value
    execute: str = ""  #: where its scratch directory is made; empty: in the folder's own
    run_in_iwd: bool = False  #: whether it runs there; else in its scratch directory
    account: UnixAccount | None = None  #: the user that it runs as, if not the pool's own; needs a supervisor of root's
    files: UnixAccount | None = None  #: whose are the files where it was submitted, if not the pool's own user's
    core_bytes: int = 0  #: how large a core file may become; below 0: as large as the pool's own may
    stack_bytes: int = 0  #: how large its stack may become; 0 and below: as large as the machine lets it
    transfer: FileTransfer | None = None  #: how its files are transferred; None: it finds them where they are
    chirp: Chirp | None = None  #: what its condor_chirp may do; None: it is not answered
    container: DockerSettings | Apptainer | None = None  #: in which container it runs
    attended: bool = False  #: whether it is killed when no pool has been connected for some seconds


def _by_protocol(said: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(each) for each in said)


@frozen
class Move:
    """A transfer of a job's files."""

    way: str  #: input, checkpoint or output
    began: int
    ended: int = 0  #: 0: it goes on, or was ended
    listed: int = 0  #: how many files and directories were to be moved
    files: int = 0  #: how many were, with those inside
    size: int = 0  #: of them together, in bytes
    failed: bool = False  #: whether something is missing
    urls: tuple[tuple[str, int, int, int], ...] = field(default=(), converter=_by_protocol)
    """Of each protocol of files that plugins moved: how many were to be moved, how many were, their bytes."""
    number: int = 0  #: of a checkpoint: which one of the activation's
    kept: bool = False  #: whether it went to the job's spool directory


@frozen
class TransferFailure:
    """Why a job's files could not be transferred."""

    code: int  #: the HoldReasonCode
    errno: int  #: or another HoldReasonSubCode
    end: str  #: at which end: sending or receiving
    words: str
    protocol: str = ""  #: that a plugin used; empty: none did


def _moves(said: Sequence[Move | Mapping[str, Any]]) -> tuple[Move, ...]:
    return tuple(each if isinstance(each, Move) else Move(**each) for each in said)


def _failure(said: TransferFailure | Mapping[str, Any] | None) -> TransferFailure | None:
    return said if said is None or isinstance(said, TransferFailure) else TransferFailure(**said)


def _writes(said: Sequence[Write | Sequence[Any]]) -> tuple[Write, ...]:
    return tuple(each if isinstance(each, Write) else Write(*each) for each in said)


@frozen
class Chirped:
    """The job wrote with condor_chirp."""

    key: str
    writes: tuple[Write, ...] = field(converter=_writes)


@frozen
class Transferring:
    """The job's files are on their way, or have come."""

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
    errno: int  #: 0 where no call failed
    reason: str
    at: int
    machine: bool = False  #: whether the fault is the machine's, as a full disk is: the job is to be tried again
    moves: tuple[Move, ...] = field(default=(), converter=_moves)
    failure: TransferFailure | None = field(default=None, converter=_failure)
    writes: tuple[Write, ...] = field(default=(), converter=_writes)  #: what it wrote with condor_chirp

    @property
    def hold_code(self) -> int:
        """Return the code of this failure: a VacateReasonCode if the fault is the machine's, else a HoldReasonCode."""
        if self.failure is not None:
            return self.failure.code
        return FAILURE_VACATE_CODES[self.part] if self.machine else FAILURE_HOLD_CODES[self.part]


@frozen
class Usage:
    """What the job's processes use now: CPU time so far, resident and virtual size together, disk of its own."""

    key: str
    user_us: int
    system_us: int
    rss_kb: int
    image_kb: int
    disk_kb: int
    at: int


@frozen
class Exited:
    """The job's own process and all its descendants have ended; the record is on disk."""

    key: str
    code: int | None  #: either this or the signal is None
    signal: int | None
    user_us: int
    system_us: int
    peak_kb: int  #: the largest resident size seen
    disk_kb: int
    core: bool
    at: int
    violated: str = ""
    """Why the supervisor killed it: the limit, a key of VIOLATION_HOLD_CODES, or UNATTENDED; empty: it did not."""
    moves: tuple[Move, ...] = field(default=(), converter=_moves)
    pid: int = 0  #: of a job with moves: its own process
    began: int = 0  #: of a job with moves: when that was started (0: it never was; code and signal are None)
    undelivered: bool = False  #: whether its files did not all come to where they belong
    failure: TransferFailure | None = field(default=None, converter=_failure)
    writes: tuple[Write, ...] = field(default=(), converter=_writes)  #: what it wrote with condor_chirp
    core_file: str = ""  #: where a core file of it is, or comes to


@frozen
class Lost:
    """The job was started, runs no more, and its exit code is unknown."""

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

# By the supervisor's name of the report. A record on disk has the same form.
REPORTS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Transferring, Started, Chirped, Failed, Usage, Exited, Lost, Running)
}
