"""Runs Poolbook's roles on the machines of a recording, and does to them what was done to HTCondor's daemons.

The first letters of a machine's name determine its role, as in the recordings: cm, ap, ep. All times are multiplied by
a scale (`POOLBOOK_NETWORK_SCALE`, 0.5 by default): what jobs sleep, leases, intervals, and the times of actions. With a
smaller scale, the recorded leases of 40 s would be shorter than 20 s, which a submission raises to 20 s.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any, Final

from .machines import Machine, Network
from .recorded import JobEvent, Transition, job_events
from .roles import POOL_A, POOL_B, RolePool, pool_of, wait_until

_Action = Callable[["RecordedPool", Machine, str], None]

SCALE: Final = float(os.environ.get("POOLBOOK_NETWORK_SCALE", "0.5"))
_RESTART_S: Final = 10  #: after what time HTCondor's master restarts a killed daemon

_INTERVALS: Final = {
    "NEGOTIATOR_INTERVAL": 5, "NEGOTIATOR_CYCLE_DELAY": 2, "SCHEDD_INTERVAL": 5, "UPDATE_INTERVAL": 10,
    "CLASSAD_LIFETIME": 40, "ALIVE_INTERVAL": 10, "STARTER_UPDATE_INTERVAL": 5,
}  # fmt: skip


class RecordedPool(RolePool):
    """The pool of a recording. Machines that the recording does not start do not exist."""

    def __init__(self, network: Network, recording: dict[str, Any]) -> None:
        super().__init__(network, {name: max(1, round(seconds * SCALE)) for name, seconds in _INTERVALS.items()})
        self.recording = recording
        self.times: dict[str, float] = {}  #: when each action was done last, in seconds since the epoch
        settings = recording.get("settings", {})
        for _, name, _ in recording["actions"]:
            if name != "-" and name not in network.machines:
                self.add_machine(name, dict(_scaled_settings(settings.get(name, {}))))

    def replay(self) -> None:
        """Do all actions of the recording."""
        begin = time.monotonic() - self.recording["actions"][0][0] * SCALE
        for seconds, actions in self._moments():
            time.sleep(max(0.0, begin + seconds * SCALE - time.monotonic()))
            with self._paused_manager() if len(actions) > 1 else nullcontext():
                for action, name, text in actions:
                    self.times[text] = time.time()
                    action(self, self.network.machines.get(name, next(iter(self.network.machines.values()))), text)
            if actions[0][0] in (RecordedPool._wait_for_slots, RecordedPool._wait_for_jobs):
                begin = time.monotonic() - seconds * SCALE

    def _moments(self) -> list[tuple[float, list[tuple[_Action, str, str]]]]:
        """Return the actions and their times. Submissions that follow each other within a second come together."""
        moments: list[tuple[float, list[tuple[_Action, str, str]]]] = []
        for seconds, name, text in self.recording["actions"]:
            action = next((action for pattern, action in _ACTIONS if re.search(pattern, text)), None)
            assert action is not None, f"unknown action: {text}"
            begin, actions = moments[-1] if moments else (0.0, [])
            if action == RecordedPool.submit and actions and actions[0][0] == action and seconds < begin + 1:
                actions.append((action, name, text))
            else:
                moments.append((seconds, [(action, name, text)]))
        return moments

    @contextmanager
    def _paused_manager(self) -> Iterator[None]:
        """Pause the manager of pool A while several users submit, since that takes longer here. It negotiates for all
        jobs at once, when pool B's already run, so that no others flock before."""
        manager, other = self.daemons[POOL_A.manager], self.network.machines.get("apb")
        manager.kill(signal.SIGSTOP)
        try:
            yield
            wait_until(lambda: other is None or self.statuses(other).count("2") == 2, self.texts)
        finally:
            manager.resume()

    def submit(self, machine: Machine, text: str) -> None:
        """Submit a recorded submit file as its user."""
        match = re.match(r"\((\w+)\) .* condor_submit (\S+)", text)
        assert match is not None
        user, name = match.groups()
        submit_file, program = next(
            texts for _, schedd, owner, *texts in self.recording["submit"] if (schedd, owner) == (machine.name, user)
        )
        home = machine.home(user)
        (home / name).write_text(re.sub(r"(?m)^(arguments|job_lease_duration) = (\d+)$", _scaled, submit_file))
        if program:
            sleep = f'sleep "$(awk "BEGIN {{ print $1 * {SCALE} }}")"'
            (home / "work.sh").write_text(program.replace("sleep $1", sleep))
            (home / "work.sh").chmod(0o755)
        self.wait_until_serving(machine)
        self.run(machine, "submit", name, user=user)

    def _start_unless_running(self, machine: Machine, _: str) -> None:
        if machine.name not in self.daemons or not self.daemons[machine.name].running():
            self.start(machine)

    def _join_both_pools(self, machine: Machine, _: str) -> None:
        """Start the managers of both pools, and let an access point join both."""
        for name in (POOL_A.manager, POOL_B.manager, machine.name):
            self.start(self.network.machines[name])
        self.flock(machine, POOL_B)

    def _wait_for_slots(self, machine: Machine, text: str) -> None:
        """Wait until the manager shows a number of slots."""
        self.wait_for_slots(pool_of(machine.name), int(re.findall(r"\d+", text)[0]))

    def _wait_for_jobs(self, machine: Machine, text: str) -> None:
        """Wait until a number of jobs run."""
        wait_until(lambda: self.statuses(machine).count("2") == int(text.split()[0]), self.texts)

    def _kill_and_restart(self, machine: Machine, _: str) -> None:
        """Kill all processes of a machine; start its role after the delay of condor_master."""
        machine.kill9()
        time.sleep(_RESTART_S * SCALE)
        self.start(machine)

    def _kill_role_and_restart(self, machine: Machine, _: str) -> None:
        """Kill the role's process alone. HTCondor's fast restart has the same effect on jobs."""
        self.stop(machine, signal.SIGKILL)
        time.sleep(_RESTART_S * SCALE)
        self.start(machine)

    def _lose_packets(self, machine: Machine, text: str) -> None:
        """Lose the packets from one machine to another, which the text names."""
        source, target = (self.network.machines[name] for name in re.findall(r"from (\w+) to (\w+)", text)[0])
        self.network.cut_one_way(source, target)

    def job_events(self, name: str) -> list[JobEvent]:
        """Return the events in the job event logs of a machine's users."""
        paths = self.network.machines[name].folder.glob("home/*/job.log")
        return [event for path in sorted(paths) for event in job_events(path.read_bytes())]

    def transitions(self, name: str) -> list[Transition]:
        """Return the transitions in the log of an execution point."""
        return [
            Transition(line["thing"], _seconds(line["at"]), line["source"], line["target"])
            for line in json.loads(self.run(self.network.machines[name], "log", "-json"))
            if line["stream"].startswith("slot") and line["source"]
        ]


def _no_action(pool: RecordedPool, machine: Machine, text: str) -> None:
    """Do nothing: a remark, or an action on a process that Poolbook does not have."""


_ACTIONS: Final[tuple[tuple[str, _Action], ...]] = (
    (r"^has a token \S+ of pool B", RecordedPool._join_both_pools),
    (r"^condor_master started", RecordedPool._start_unless_running),
    (r"^collector shows \d+ slots", RecordedPool._wait_for_slots),
    (r"condor_submit", RecordedPool.submit),
    (r"^\d+ jobs run", RecordedPool._wait_for_jobs),
    (r"^queue empty", RecordedPool.wait_for_empty_queue),
    (r"^network cut", lambda pool, machine, _: pool.network.cut_off(machine)),
    (r"are lost from now on", RecordedPool._lose_packets),
    (r"^network up again|pass again", lambda pool, _, __: pool.network.heal()),
    (r"^kill -KILL condor_schedd|^kill -9 [\d ]+$|^condor_restart -schedd -fast", RecordedPool._kill_role_and_restart),
    (r"^kill -KILL condor_startd", RecordedPool._kill_and_restart),  # its starters and jobs end with it
    (r"^power off", lambda _, machine, __: machine.power_off()),
    (r"^whole machine killed", lambda _, machine, __: machine.kill9()),
    (r"^kill -KILL condor_(shadow|starter)|^next:|^the same by|^queue NOT empty|^alice and", _no_action),
)
"""What to do for an action of a recording."""


def _scaled(match: re.Match[str]) -> str:
    return f"{match[1]} = {max(1, round(int(match[2]) * SCALE))}"


def _scaled_settings(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        yield name, f"{int(value) * SCALE}" if name == "PRIORITY_HALFLIFE" else value


def _seconds(time_text: str) -> float:
    return datetime.fromisoformat(time_text).timestamp()
