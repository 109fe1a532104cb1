"""Attacks: many simultaneous commands on one log, and a second server on a log that has one."""

from __future__ import annotations

import json

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClusterSubmitted

from ..pool.real import Folder
from .attacks import Trial, attack
from .calls import finish, start

CLIENTS, COMMANDS = 6, 8
FAILS = "an acknowledged submission that the log does not have, a command that fails, or a log that is not sound"


def _crowd(trial: Trial) -> None:
    """Let several clients submit and change jobs at the same time."""
    folder, rng = trial.folder, trial.rng
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue 2\n")
    others = [
        ["hold", "-all"], ["release", "1.0"], ["rm", "2"], ["q"], ["prio", "-p", "3", "1"], ["history"],
        ["why", "1.0"], ["status"], ["rm", "-constraint", "ProcId == 1"],
    ]  # fmt: skip
    folder.call("submit", "job.sub")
    submit = ["submit", "job.sub", "--json"]
    calls = [[submit if rng.random() < 0.4 else rng.choice(others) for _ in range(COMMANDS)] for _ in range(CLIENTS)]
    trial.tries = CLIENTS * COMMANDS
    clients = [start(folder, commands) for commands in calls]
    for client in clients:
        assert client.stdin is not None
        client.stdin.close()
        client.stdin = None
    results = [call for client, commands in zip(clients, calls, strict=True) for call in finish(client, commands)]
    submitted = [call for call in results if call.arguments[0] == "submit"]
    assert all(call.code == 0 for call in submitted), [call for call in submitted if call.code]
    acknowledged = [json.loads(call.out)[0]["ClusterId"] for call in submitted]
    assert len(set(acknowledged)) == len(acknowledged)
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    written = {event.cluster for _, event in log.read() if isinstance(event, ClusterSubmitted)}
    log.close()
    assert set(acknowledged) <= written, set(acknowledged) - written
    assert "sound" in folder.call("verify")


@attack("crowd-served", promise="Many simultaneous commands on a served log are all done.", fails=FAILS)
def _crowd_served(trial: Trial) -> None:
    with trial.folder.served("-slots", "1"):
        _crowd(trial)


@attack("crowd-unserved", promise="The same on a log that is not served: commands take turns.", fails=FAILS)
def _crowd_unserved(trial: Trial) -> None:
    _crowd(trial)


@attack(
    "second-server",
    promise="A second server, run or resume of a served log reports who has it, and changes nothing.",
    fails="one that starts, or that ends without a message",
)
def _second_server(trial: Trial) -> None:
    folder = Folder(trial.path)
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    with folder.served("-slots", "1"):
        calls = [["serve"], ["resume"], ["run", "job.sub"], ["serve", "-lost"]]
        trial.tries = len(calls)
        others = [folder.start(*arguments) for arguments in trial.rng.sample(calls, len(calls))]
        for other in others:
            output, _ = other.communicate(60)
            assert other.wait() == 1, output
            assert "already" in output or "gives the jobs to it" in output, output
        assert folder.call("q", "-af", "ClusterId") == ""
    assert "sound" in folder.call("verify")
