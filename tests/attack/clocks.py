"""Attacks: a clock that is set, and other hash seeds."""

from __future__ import annotations

import signal
from pathlib import Path

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import JobExited
from poolbook.replay.validation import validate

from .. import forked
from ..domain.test_determinism import events_of_story
from ..pool.real import environment
from ..pool.test_full_disks import JOB
from .attacks import Trial, attack

SECOND = 1_000_000_000
# A server whose clock is shifted by the number in a file.
SHIFTED = """
import sys, time
true = time.time_ns
def shifted():
    with open("shift") as file:
        return true() + int(file.read() or 0)
time.time_ns, time.time = shifted, lambda: shifted() / 1e9
sys.argv = ["poolbook", "serve", "-slots", "2", "-cpus", "2"]
from poolbook.adapters.cli.main import entry
entry()
"""


@attack(
    "clock-set",
    promise="If the clock is set back and forth under a working pool, its log stays in order and its jobs end.",
    fails="a job that does not end once with its code, a log that is not sound, or decreasing times in it",
)
def _clock_set(trial: Trial) -> None:
    folder = trial.folder
    folder.write("shift", "0")
    folder.write("job.sub", JOB.format(script="sleep 0.2; exit 7", count=2))
    server = forked.start(
        ["-c", SHIFTED], cwd=folder.path, env=environment(), stderr=forked.STDOUT, start_new_session=True
    )
    folder.wait_for((folder.path / "pool.db.sock").exists)
    trial.tries = 4
    for _ in range(trial.tries):
        shift = trial.rng.choice([-3600, 7200, -86400, 86400, 0, trial.rng.randint(-100, 100)])
        new = Path(folder.path / folder.write("shift.new", str(shift * SECOND)))
        new.rename(folder.path / "shift")
        folder.call("submit", "job.sub")
    folder.wait_for(lambda: folder.call("q", "-af", "ClusterId") == "")
    server.send_signal(signal.SIGTERM)
    output, _ = server.communicate(60)
    assert server.wait() == 0 and "Traceback" not in output, output
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    times = [event.at for _, event in entries]
    assert times == sorted(times)
    assert [event.code for _, event in entries if isinstance(event, JobExited)] == [7] * 2 * trial.tries


@attack(
    "hash-seed",
    promise="The same scenario gives the same bytes under any PYTHONHASHSEED.",
    fails="another digest",
)
def _hash_seed(trial: Trial) -> None:
    first, second = (str(trial.rng.randrange(1, 2**32)) for _ in range(2))
    assert events_of_story(first) == events_of_story(second), (first, second)
