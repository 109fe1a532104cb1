"""What the pool asks of the world in which its jobs run: a real machine, or a virtual one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, field

from ..events import Ad
from .sensor_readings import NOTHING_READ, Readings
from .stimuli import Stimulus

How = Literal["soft", "hold", "remove", "hard", "suspend", "continue"]
"""What an activation's processes can be told: to end (by the signal that the job has for that, for being held, or for
being removed), to end at once, to stop, to go on."""


class Launch(Struct, frozen=True):
    """All that is needed to start an activation. Ads are as they were when it began, with values as expressions:
    ``launch.job_ad["Cmd"]`` is ``'"/bin/work"'``, with its quotes."""

    key: str  #: the activation's id, unique in the log
    cluster: int  #: the job is CLUSTER.PROC
    proc: int
    slot: str  #: as slot1_1@node1
    job_ad: Ad
    slot_ad: Ad  #: empty for a job that needs no slot
    owner: str  #: the user whose job it is
    most_moved: Ad = field(default_factory=dict)
    """Those of the settings MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB that are set."""


class ClientLaunch(Struct, frozen=True):
    """All that is needed to start a machine's backfill client: how it is run (the settings of its system, as
    Executable), and the ad of the slot for which it is started."""

    key: str
    slot: str
    client: Ad
    slot_ad: Ad


class Mail(Struct, frozen=True):
    """A mail to be sent; ``key``: the position of its event."""

    key: int
    to: tuple[str, ...]
    subject: str
    text: str


class World:
    """Where jobs run, and whose clock counts. Instants are microseconds since the epoch, UTC. Nothing happens in this
    one: a world overrides what it has."""

    simulated: bool = False
    """Whether the sensors say the same until ``wait`` returns something: a virtual world's do."""

    def now(self) -> int:
        raise NotImplementedError

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        """Start activations and backfill clients. One that was started before is not started again."""

    def signal(self, key: str, how: How) -> None:
        """Make an activation's processes end (soft, hold, remove; hard), stop (suspend) or go on (continue). What is
        stopped goes on to hear a soft signal."""

    def acknowledge(self, keys: Iterable[str]) -> None:
        """The log knows how these ended: their records may go."""

    def wait(self, until: int | None) -> list[Stimulus]:
        """What happened, waiting for it until the given instant at most; None: as long as something may happen. An
        empty list: the time is up."""
        return []

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        """After a restart: see what became of activations and clients that began before it. Those that run are watched
        again, those that never began are started, and what ended meanwhile is returned."""
        return []

    def sense(self, machine: str) -> Readings:
        """What the sensors of a machine say now."""
        return NOTHING_READ

    def changed_machines(self) -> set[str]:
        """The machines whose readings have changed since this was asked last; of a simulated world alone."""
        return set()

    def benchmark(self, slot: str) -> None:
        """Measure how fast the slot's machine is; ``wait`` returns the result."""

    def send(self, mail: Mail) -> None:
        """Send a mail; ``wait`` tells whether it could be. It may be one that was sent before a restart."""

    def close(self) -> None:
        """Let go of what it holds."""
