"""Let HAD run another daemon than the negotiator only where the manager is active: command the machine's master to
start and stop it (HAD_CONTROLLEE), as condor_had does."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Final

from ...domain.errors import PoolbookError
from ...domain.names import NEGOTIATOR
from ...domain.state.state import LogState, Manager, acts_as
from ...domain.state_machines.had import LEADER
from ...domain.units import SECOND
from ..master.client import ask_master

_AGAIN: Final = SECOND  #: after a master has not obeyed

Command = Callable[[str, bool], None]
"""Starts or stops a daemon. Raises `PoolbookError` if that fails."""


def command_master(url: str) -> Command:
    """Return the commands to the master that runs the manager with the log at ``url``."""

    def command(daemon: str, on: bool) -> None:
        if ask_master(url, command="on" if on else "off", daemon=daemon, how="Fast") is None:
            raise PoolbookError("no master is running; start the manager with `poolbook master`")

    return command


class Controllee:
    """The daemon that HAD controls, unless it is the negotiator. ``clock`` is in microseconds."""

    def __init__(self, command: Command, clock: Callable[[], int], warn: Callable[[str], None]) -> None:
        self._command, self._clock, self._warn = command, clock, warn
        self._obeyed: tuple[str, bool] | None = None
        self._sender: Thread | None = None  # a master that hangs does not stop the manager
        self._again_at, self._problem = 0, ""

    def follow(self, state: LogState) -> None:
        """Start the daemon if the manager is active, and stop it otherwise, unless that has been done."""
        if not acts_as(state, Manager) or not state.settings.get("HAD_NAME"):
            return
        daemon = state.settings.get("HAD_CONTROLLEE", NEGOTIATOR).upper()
        wanted = daemon, state.had.state == LEADER
        is_sending = self._sender is not None and self._sender.is_alive()
        if daemon != NEGOTIATOR and wanted != self._obeyed and not is_sending and self._clock() >= self._again_at:
            self._again_at = self._clock() + _AGAIN
            self._sender = Thread(target=self._send, args=wanted, daemon=True)
            self._sender.start()

    def _send(self, daemon: str, on: bool) -> None:
        try:
            self._command(daemon, on)
        except PoolbookError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._warn(f"HAD_CONTROLLEE: {daemon} is not {'started' if on else 'stopped'}: {error}")
        else:
            self._obeyed, self._problem = (daemon, on), ""
