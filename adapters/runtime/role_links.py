"""Connect a served role to its peers on other machines, and to the files of its jobs there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from ...domain.events import Event, JobExited
from ...domain.ports.log import LogError, LogPosition
from ...domain.ports.stimuli import Stimulus
from ...domain.ports.world import Launch
from ...domain.state.peers import peer_name
from ..fabric.carrier import Carrier
from ..fabric.datagrams import FileAccess
from ..fabric.links import Links
from ..machine.execution.activation import AccessPoint, LaunchRequest
from ..machine.execution.supervisor.supervised_job import boot_ticker
from .availability import Availability
from .controllee import Controllee, command_master
from .engine import Engine
from .job_users import NotRun
from .local_world import LocalWorld

if TYPE_CHECKING:
    from ..https.file_service import FileService


class RoleLinks:
    """The links of the role whose log, at ``url``, an engine writes. ``warn`` prints a warning for the user who serves
    the role; ``managers`` returns the managers that it has joined."""

    def __init__(
        self, carrier: Carrier, engine: Engine, world: LocalWorld, warn: Callable[[str], None],
        managers: Callable[[], Iterable[str]], url: str,
    ) -> None:  # fmt: skip
        self._engine, self._world, self._carrier, self._warn = engine, world, carrier, warn
        (role,) = engine.state.roles
        name = peer_name(role, engine.state.name)
        self._links = Links(
            name, carrier, engine.log, lambda: engine.state, boot_ticker, engine.now, engine.id,
            engine.renew_deadlines, managers=managers,
        )  # fmt: skip
        self._availability = Availability(engine, boot_ticker, self._links.tell, self._links.other_managers, warn)
        self._links.on_message = self._availability.receive
        self._controllee = Controllee(command_master(url), boot_ticker, warn)
        self._files: FileService | None = None
        engine.deadline_of = self._links.deadline_of
        world.access_point_of = self._access_point_of
        engine.subscribe(self._on_append)
        world.watch(carrier.fileno(), lambda: None)  # the engine's wait ends when a datagram arrives

    def until_due(self) -> int:
        """Return in how many microseconds `exchange` must be called even if no datagram arrives."""
        due = self._availability.due()
        first = self._links.next_due() if due is None else min(due, self._links.next_due())
        return max(0, first - boot_ticker())

    def exchange(self) -> None:
        """Handle the datagrams of peers: decide what they sent, and append it together. A page that cannot be decided
        is read again later. Raise `LogError` if an append fails."""
        stimuli, due = self._links.receive(), self._availability.due()
        is_due = due is not None and due <= boot_ticker()
        stimuli += self._availability.due_stimuli()
        try:
            if stimuli:
                self._engine.handle(stimuli)
        except LogError:
            raise
        except Exception:  # so that only the peer at fault is affected
            for stimulus in stimuli:
                self._decide_alone(stimulus)
        self._controllee.follow(self._engine.state)
        if is_due:
            self._availability.send()

    def _decide_alone(self, stimulus: Stimulus) -> None:
        try:
            self._engine.handle([stimulus])
        except LogError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            self._warn(f"what a peer sent could not be decided ({problem}): {stimulus!r:.300}")

    def _on_append(self, first: int, events: Sequence[Event]) -> None:
        self._links.note(events)
        if self._files is not None:
            self._files.withdraw([self._name_of_run(event.key) for event in events if isinstance(event, JobExited)])

    def exchange_messages(self, receive: Callable[[str, bytes], Iterable[Stimulus]]) -> Callable[[str, bytes], None]:
        """Let a manager decide the stimuli that ``receive`` returns for the message of another manager. Return the
        function that sends a message to one."""
        self._links.on_message = receive
        return self._links.tell

    # Files

    def offer_files(self, open_service: Callable[[Callable[[str], LaunchRequest | None]], FileService]) -> None:
        """Offer the files of running jobs to the execution points where they run. ``open_service`` opens the service,
        given a function that returns the request that would start a run here."""
        runs = self._engine.state.activations
        files = self._files = open_service(self._request_of)
        self._links.offer_files = files.access
        files.offer(runs)
        files.retain(map(self._name_of_run, runs))

    def learn_paths(self, learn: Callable[[str, FileAccess], None]) -> None:
        """Call ``learn`` with the access to each access point that claims slots of this role."""
        self._links.learn_path = learn

    def _name_of_run(self, key: str) -> str:
        return str(LogPosition(self._engine.log.id, int(key)))

    def _request_of(self, run: str) -> LaunchRequest | None:
        """Return the request that would start a run here; None if that is not possible: then the execution point
        cannot start it, either."""
        for launch in self._engine.launches([run]):
            try:
                return evolve(self._world.launch_request(launch), key=self._name_of_run(run))
            except (NotRun, ValueError) as error:
                self._warn(f"the files of job {launch.cluster}.{launch.proc} cannot be offered: {error}")
        return None

    def _access_point_of(self, launch: Launch) -> AccessPoint | None:
        """Return how a job of another access point accesses its files."""
        run = self._engine.state.slots[launch.slot].activation
        access = None if run is None else self._links.file_access(launch.holder, run.remote_key)
        if run is None or access is None:
            return None
        name, key = access.keys[run.remote_key]
        return AccessPoint(urls=access.urls, activation=name, key=key, ca=access.ca)

    def close(self) -> None:
        self._world.unwatch(self._carrier.fileno())
        self._carrier.close()
        if self._files is not None:
            self._files.close()
