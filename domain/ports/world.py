"""The interface of the world in which jobs run: a real machine, or a virtual world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from ..events import Ad
from .sensor_readings import NOTHING_READ, Readings
from .stimuli import Stimulus

How = Literal["soft", "hold", "remove", "hard", "suspend", "continue"]
"""How to signal an activation's processes: end them (with the job's signal for an eviction, a hold or a removal), kill
them, suspend them, or continue them."""


class Launch(Struct, frozen=True):
    """The start of a job's run, passed to ``behave`` in ``Pool.open``. Values in its ads are expressions.

    >>> pool = Pool.open(behave=lambda launch: Behaviour(seconds=60 if launch.job_ad["Cmd"] == '"/bin/short"' else 600))
    """

    key: str  #: the activation's id, unique in the log
    cluster: int  #: the job's id is CLUSTER.PROC
    proc: int
    slot: str  #: for example slot1_1@node1
    job_ad: Ad
    slot_ad: Ad  #: empty for a job that needs no slot
    owner: str  #: the job's user
    most_moved: Ad = field(default_factory=dict)
    """MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB, if set."""
    deadline: int = 0  #: the ``boot_time`` at which they are killed unless ``World.renew`` sets another (0: never)
    holder: str = ""  #: the external access point of the job (empty: it is in this pool's queue)
    waits: bool = False  #: whether only its input files are transferred now: another ``World.start`` follows


class ClientLaunch(Struct, frozen=True):
    """The start of a backfill client: the settings that say how to run it (Executable ...), and its slot's ad."""

    key: str
    slot: str
    client: Ad
    slot_ad: Ad


class Mail(Struct, frozen=True):
    """A mail to send. ``key`` is the log position of its event."""

    key: int
    to: tuple[str, ...]
    subject: str
    text: str


class World:
    """The place where jobs run, and its clock. Times are microseconds since the epoch, UTC. The methods of this base
    class do nothing; subclasses override what they support."""

    simulated: bool = False
    """True if sensor readings change only when ``wait`` returns stimuli, as in a virtual world."""

    def now(self) -> int:
        raise NotImplementedError

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        """Start activations and backfill clients. Skip any that were started before, unless they waited."""

    def signal(self, key: str, how: How) -> None:
        """Send a signal to an activation's processes: end them (soft, hold, remove or hard), or suspend or continue
        them. Suspended processes also receive soft signals."""

    def acknowledge(self, keys: Iterable[str]) -> None:
        """Delete the records of these activations, because the log now contains their ends."""

    def boot_time(self) -> int:
        """Return the time since the machine was booted, including its sleep: the clock of deadlines."""
        return self.now()

    def renew(self, deadlines: Mapping[str, int]) -> None:
        """Set when the processes of these activations are killed unless the deadline is set again, even if this pool
        does not exist any more: by key, as a ``boot_time``, or 0 for never."""

    def wait(self, until: int | None) -> list[Stimulus]:
        """Wait for stimuli and return them; an empty list if there were none.

        :param until: the end of the wait; None: wait until nothing more can happen
        """
        return []

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        """After a restart, watch the activations and clients that are still running, start the ones that were never
        started, and return the ends of the others."""
        return []

    def describe(self, ad: Ad) -> None:
        """Tell the world its machine's ad, on which its sensors may depend."""

    def sense(self, machine: str) -> Readings:
        """Return the readings of a machine's sensors."""
        return NOTHING_READ

    def changed_machines(self) -> set[str]:
        """Return the machines whose readings changed since the last call; only for a simulated world."""
        return set()

    def benchmark(self, slot: str) -> None:
        """Benchmark the slot's machine; ``wait`` returns the result."""

    def send(self, mail: Mail) -> None:
        """Send a mail, which may already have been sent before a restart. ``wait`` returns the result."""

    def close(self) -> None:
        """Release all resources."""
