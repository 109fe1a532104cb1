"""Attacks: hostile text in the output of commands, and commands started with ignored signals."""

from __future__ import annotations

import shutil
import signal

from ..importing.folders import TRACES
from ..pool.test_import_command import test_an_interrupt_ends_a_follow_in_the_background_of_a_script
from ..tools.test_hostile_output import IMPORT_CALLS, QUEUE_CALLS, hostile_import, hostile_queue, raw_outputs
from .attacks import Trial, attack

JOB = """
executable = /bin/sh
transfer_executable = false
arguments = "-c 'exec grep Sig /proc/self/status > out'"
queue
"""
"""A job that writes down its signals; it replaces its shell, which blocks all signals while it starts a program."""
NAMED_SIGNALS = (1 << 31) - 1  #: the C library uses the signals above


@attack(
    "terminal",
    promise="Nothing from an ad, a log or a file controls a terminal.",
    fails="a control character that is not Poolbook's own, or a traceback",
)
def _terminal(trial: Trial) -> None:
    queue, records = trial.path / "queue", trial.path / "records"
    queue.mkdir()
    records.mkdir()
    own, *imported = trial.rng.sample(QUEUE_CALLS, 12), IMPORT_CALLS[0], *trial.rng.sample(IMPORT_CALLS[1:], 6)
    trial.tries = len(own) + len(imported)
    queue_offences, _ = raw_outputs(hostile_queue(queue), own)
    import_offences, _ = raw_outputs(hostile_import(records), imported)
    assert not queue_offences and not import_offences, (queue_offences, import_offences)


@attack(
    "signals-ignored",
    promise="A pool started with ignored signals gives its jobs normal signals, and ends on SIGTERM.",
    fails="a signal that a job ignores or has blocked, or a command that does not end",
)
def _signals_ignored(trial: Trial) -> None:
    folder = trial.folder
    settable = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM})
    ignored = trial.rng.choice([[signal.SIGINT, signal.SIGQUIT], trial.rng.sample(settable, 5)])
    folder.write("job.sub", JOB)
    folder.call("submit", "job.sub")
    server = folder.start("serve", "-slots", "1", ignored=ignored)
    folder.wait_for(lambda: folder.call("history", "-af", "ExitCode") == "0\n")
    server.send_signal(signal.SIGTERM)
    output, _ = server.communicate(60)
    assert server.wait() == 0 and "Traceback" not in output, output
    lines = dict(line.split(":\t") for line in (trial.path / "out").read_text().splitlines())
    assert [int(lines[name], 16) & NAMED_SIGNALS for name in ("SigBlk", "SigIgn")] == [0, 0], (ignored, lines)
    shutil.copytree(TRACES / "01-plain", trial.path / "pool")
    test_an_interrupt_ends_a_follow_in_the_background_of_a_script(folder)
    trial.tries = 2
