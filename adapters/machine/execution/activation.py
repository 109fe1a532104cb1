"""The messages between the pool and its supervisor: one start of a job, and its reports.

Times are integer microseconds since the epoch, UTC; CPU times integer microseconds; sizes KiB (HTCondor's unit for
ImageSize, ResidentSetSize and DiskUsage) unless a name says otherwise.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import Attribute, field, frozen

# The key names files, so it may not hold characters with a meaning in a path.
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

# HoldReasonCode and HoldReasonSubCode of a job that was killed for a limit. The codes are those of the manual's table
# of HoldReasonCode (appendix "Job ClassAd Attributes"); 102 and 104 are the subcodes which HTCondor's ready-made
# policies HOLD_IF_MEMORY_EXCEEDED and HOLD_IF_DISK_EXCEEDED give.
VIOLATION_HOLD_CODES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "memory": (34, 102),  # JobOutOfResources
        "disk": (34, 104),  # JobOutOfResources
        "wall": (47, 0),  # JobExecuteExceeded
    }
)

# HoldReasonCode of a job that could not be started, by the part that failed; the subcode is the errno.
FAILURE_HOLD_CODES: Mapping[str, int] = MappingProxyType(
    {
        "claim": 6,  # FailedToCreateProcess
        "scratch": 6,
        "executable": 6,
        "stdout": 7,  # UnableToOpenOutput
        "stderr": 7,
        "stdin": 8,  # UnableToOpenInput
        "iwd": 14,  # IwdError
    }
)


@frozen
class Limits:
    """The limits whose violation kills a job; None enforces nothing.

    ``memory_mb`` bounds the resident memory of all its processes together, ``disk_kb`` its scratch directory plus the
    growth of its output files, ``wall_us`` the time from its start (time in suspension included).
    """

    memory_mb: int | None = None
    disk_kb: int | None = None
    wall_us: int | None = None


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


@frozen(kw_only=True)
class Activation:
    """One start of one job.

    * ``key`` is unique forever: the log's position of the event that began it.
    * ``executable`` and the three streams may be relative to ``iwd``. An empty stream means /dev/null. Output and error
      at the same path share one descriptor.
    * The job runs in its scratch directory, or with ``run_in_iwd`` in ``iwd``. The scratch directory is made in
      ``execute``; empty: in the folder's own. It gets ``job_ad`` and ``machine_ad`` as .job.ad and .machine.ad.
    * ``environment`` is all that it inherits; the variables that HTCondor's starter sets are added (manual,
      "Environment and services for a running job").
    * ``cpus``, ``memory_mb`` and ``disk_kb`` are provisioned by the slot; ``limits`` says which of them are enforced.
    * ``kill_signals`` has the signal of each way of a soft end. ``nice`` is added to the processes' nice value.
    """

    key: str = field(validator=_is_key)
    job: str
    slot: str
    executable: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=dict)
    iwd: str = field(validator=_is_absolute)
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    append_stdout: bool = False
    append_stderr: bool = False
    job_ad: str = ""
    machine_ad: str = ""
    cpus: int = 1
    memory_mb: int = 0
    disk_kb: int = 0
    limits: Limits = field(factory=Limits)
    kill_signals: Mapping[str, int] = field(
        factory=lambda: dict.fromkeys(("soft", "hold", "remove"), int(signal.SIGTERM))
    )
    nice: int = 0
    execute: str = ""
    run_in_iwd: bool = False


@frozen
class Started:
    """The job's process runs."""

    key: str
    pid: int
    at: int


@frozen
class Failed:
    """The job could not be started: ``part`` is a key of FAILURE_HOLD_CODES, ``errno`` 0 where no call failed."""

    key: str
    part: str
    errno: int
    reason: str
    at: int

    @property
    def hold_code(self) -> int:
        """Return the HoldReasonCode for this failure."""
        return FAILURE_HOLD_CODES[self.part]


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
    """The job's own process and all its descendants have ended; the record is on disk.

    Either ``code`` or ``signal`` is None. ``peak_kb`` is the largest resident size seen. ``violated`` is the limit for
    which the supervisor killed it, a key of VIOLATION_HOLD_CODES, or empty.
    """

    key: str
    code: int | None
    signal: int | None
    user_us: int
    system_us: int
    peak_kb: int
    disk_kb: int
    core: bool
    at: int
    violated: str = ""


@frozen
class Lost:
    """The job was started, runs no more, and its exit code is unknown; ``why`` is a sentence."""

    key: str
    why: str
    at: int


@frozen
class Running:
    """A job that ``recover`` found running: its process, and when it was started."""

    key: str
    pid: int
    at: int


Report: TypeAlias = Started | Failed | Usage | Exited | Lost

# By the supervisor's name of the report. A record on disk has the same form.
REPORTS: Mapping[str, type[Any]] = MappingProxyType(
    {"started": Started, "failed": Failed, "usage": Usage, "exited": Exited, "lost": Lost, "running": Running}
)
