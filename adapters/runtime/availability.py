"""Take part in the election of a pool's active manager: exchange states with the other managers, and have transitions
decided. What it knows can be lost: a manager that starts again takes part from the beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ...domain.had.election import Election, HadPolicy, Step
from ...domain.had.had_settings import policy_in_force
from ...domain.ports import stimuli as s
from ...domain.state.had_state import HAD
from ...domain.state.state import Manager, acts_as
from .engine import Engine

_SILENT_AFTER = 3  #: intervals, the time that an election takes


class HadMessage(msgspec.Struct, frozen=True):
    """What a manager sends to the others."""

    number: int  #: HAD_ID
    state: str
    managers: tuple[str, ...]  #: HAD_LIST


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(HadMessage).decode


class Availability:
    """The part of one manager. Its owner passes on messages, has the stimuli of `due_stimuli` decided when `due` is
    reached, and then calls `send`. ``clock`` never jumps, in microseconds."""

    def __init__(
        self, engine: Engine, clock: Callable[[], int], tell: Callable[[str, bytes], None],
        others: Callable[[], Iterable[str]], warn: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._engine, self._clock, self._tell, self._others, self._warn = engine, clock, tell, others, warn
        self._election = Election()
        self._heard: dict[str, int] = {}  #: when each other manager was last heard
        self._list: tuple[str, ...] = ()  #: another manager's HAD_LIST that differs from this one's
        self._configured = -1
        self._known_policy: HadPolicy | None = None

    def due(self) -> int | None:
        """Return when `due_stimuli` must be called, or None if this manager is the only one."""
        return None if self._policy() is None else self._election.due

    def _policy(self) -> HadPolicy | None:
        state = self._engine.state
        if self._configured != state.configured:
            self._configured = state.configured
            self._known_policy = policy_in_force(state.settings, state.dialect) if acts_as(state, Manager) else None
            self._election = Election(due=self._clock())
        if self._known_policy is not None and HAD in state.had.off:
            self._configured = -1  # it takes part from the beginning when it is on again
            return None
        return self._known_policy

    def receive(self, peer: str, data: bytes) -> Iterator[s.Stimulus]:
        """Note a message of another manager. Return the stimulus that says that it is heard again."""
        policy, now = self._policy(), self._clock()
        try:
            message = _DECODE(data)
        except msgspec.MsgspecError:
            return  # a manager of another release
        if policy is None or not 0 <= message.number < len(policy.managers) or message.number == policy.number:
            return
        if message.managers not in (policy.managers, self._list):
            self._list = message.managers
            own, other = " ".join(policy.managers), " ".join(self._list)
            self._warn(f"HAD_LIST is {other} at {peer}, but {own} here; set it to the same at all managers")
        self._election.receive(message.number, message.state, now)
        last, self._heard[peer] = self._heard.get(peer), now
        silent = self._engine.state.had.silent
        if peer in silent:
            yield s.ManagerSilence(self._engine.id("had"), peer, True, silent[peer] if last is None else self._at(last))

    def due_stimuli(self) -> Iterator[s.Stimulus]:
        """Yield the stimuli that are due: a transition, and managers that have become silent."""
        policy, now, had = self._policy(), self._clock(), self._engine.state.had
        if policy is None or now < self._election.due:
            return
        for peer, heard in self._heard.items():
            if now > heard + _SILENT_AFTER * policy.interval and peer not in had.silent:
                yield s.ManagerSilence(self._engine.id("had"), peer, False, self._at(heard))
        step = self._election.cycle(had.state, policy, now)
        if step is not None:
            yield s.HadStep(self._engine.id("had"), step.row, step.cause, *self._other(step, policy))

    def _other(self, step: Step, policy: HadPolicy) -> tuple[str, int]:
        """Return the other manager that a transition concerns, and when it was last heard."""
        if step.number >= 0:
            return policy.host(step.number), self._at(self._election.heard[step.number])
        number, heard = self._election.last_active
        if step.cause == "is_primary" or number < 0:
            return "", 0
        return policy.host(number), self._at(heard)

    def _at(self, instant: int) -> int:
        """Return the log's time at an instant of the clock."""
        return self._engine.now() - (self._clock() - instant)

    def send(self) -> None:
        """Send this manager's state, which is in its log, to the others."""
        policy = self._policy()
        if policy is not None:
            data = _ENCODE(HadMessage(policy.number, self._engine.state.had.state, policy.managers))
            for peer in self._others():
                self._tell(peer, data)
