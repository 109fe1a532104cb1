"""The interface of the world in which jobs run: a real machine, or a virtual world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, field

from ..events import Ad
from .sensor_readings import NOTHING_READ, Readings
from .stimuli import Stimulus

How = Literal["soft", "hold", "remove", "hard", "suspend", "continue"]
"""How to signal an activation's processes: end them (with the job's signal for an eviction, a hold or a removal), kill
them, suspend or continue them."""


class Launch(Struct, frozen=True):
    """The start of a job's run: the argument of `behave` in `Pool.open`. Values in its ads are expressions.

    >>> pool = Pool.open(behave=lambda launch: Behaviour(seconds=60 if launch.job_ad["Cmd"] == '"/bin/short"' else 600))
    """

    key: str  #: the activation's id, unique in the log
    cluster: int  #: the job is CLUSTER.PROC
    proc: int
    slot: str  #: as slot1_1@node1
    job_ad: Ad
    slot_ad: Ad  #: empty for a job that needs no slot
    owner: str  #: the job's user
    most_moved: Ad = field(default_factory=dict)
    """MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB, if they are set."""


class ClientLaunch(Struct, frozen=True):
    """A backfill client to start: the settings that say how to run it (Executable and others), and the ad of its
    slot."""

    key: str
    slot: str
    client: Ad
    slot_ad: Ad


class Mail(Struct, frozen=True):
    """A mail to send. ``key`` is the position of its event."""

    key: int
    to: tuple[str, ...]
    subject: str
    text: str


class World:
    """The place where jobs run, and its clock. Instants are microseconds since the epoch, UTC. This base class does
    nothing; subclasses override what they support."""

    simulated: bool = False
    """True if sensor readings change only when ``wait`` returns stimuli, as in a virtual world."""

    def now(self) -> int:
        raise NotImplementedError

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        """Start activations and backfill clients that were not started before."""

    def signal(self, key: str, how: How) -> None:
        """End (soft, hold, remove or hard), suspend or continue an activation's processes. Suspended processes still
        get a soft signal."""

    def acknowledge(self, keys: Iterable[str]) -> None:
        """Delete the records of these activations: their ends are in the log."""

    def wait(self, until: int | None) -> list[Stimulus]:
        """Wait for stimuli, at most until an instant (None: until nothing more can happen). Return them; an empty list
        if there were none."""
        return []

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        """After a restart: watch the running activations and clients, start the ones that never started, and
        return the ends of the others."""
        return []

    def sense(self, machine: str) -> Readings:
        """Read a machine's sensors."""
        return NOTHING_READ

    def changed_machines(self) -> set[str]:
        """Return the machines whose readings have changed since the last call, in a simulated world."""
        return set()

    def benchmark(self, slot: str) -> None:
        """Benchmark the slot's machine; ``wait`` returns the result."""

    def send(self, mail: Mail) -> None:
        """Send a mail, perhaps one that was sent before a restart; ``wait`` returns the result."""

    def close(self) -> None:
        """Release all resources."""
