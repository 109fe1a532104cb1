"""Attacks: files of other users, programs in files, and compressed files."""

from __future__ import annotations

import gzip
import shutil
import time
from contextlib import suppress

from ..config.test_trust import (
    PLACES,
    REQUESTS,
    folder_of_user,
    test_a_folder_s_configuration_is_used_only_if_no_other_user_can_have_written_it,
    test_no_command_runs_programs_of_another_user_s_configuration,
)
from ..importing.folders import TRACES
from ..pool.test_connections import peak
from .attacks import ROOT_USER, Trial, attack
from .calls import run_calls

MB = 1 << 20


@attack(
    "configuration-of-others",
    promise="A directory's configuration is only used if no other user could have written it.",
    fails="another user's program that ran, or the user's own configuration that was ignored",
    needs=ROOT_USER,
)
def _configuration_of_others(trial: Trial) -> None:
    with folder_of_user() as folder:
        test_a_folder_s_configuration_is_used_only_if_no_other_user_can_have_written_it(
            folder, *trial.rng.choice(PLACES)
        )
    command = trial.rng.choice(["config", "submit job.sub", "run job.sub", "resume", "serve", "doctor"])
    with folder_of_user() as folder:
        test_no_command_runs_programs_of_another_user_s_configuration(folder, command)
    trial.tries = 2


@attack(
    "programs-in-files",
    promise="A scenario, a submit file in a dry run, and a pool's records run no program and write no file.",
    fails="a file that such a program creates",
)
def _programs_in_files(trial: Trial) -> None:
    folder = trial.folder
    settings = [text for text, _, _ in REQUESTS]
    for number, text in enumerate(settings):
        folder.write(f"{number}.play", f"config\n {text}\nend\nat 1:00 submit alice run=1:00\n")
        folder.write(f"{number}.sub", f"{text}\nexecutable = /bin/true\nhold = true\nqueue\n")
    shutil.copytree(TRACES / "05-prio-preempt", trial.path / "pool")
    for name in ("condor_config", "condor_config.local", "poolbook.conf"):
        (trial.path / "pool" / name).write_text("\n".join(settings) + "\n")
    folder.write("plain.conf", "X = 1\n")
    numbers = range(len(settings))
    calls = [["play", f"{number}.play", "-quiet"] for number in numbers]
    calls += [["submit", f"{number}.sub", "-dry-run", "-", "-log", "jobs.db"] for number in numbers]
    calls += [["import", "pool"], ["audit"]]
    trial.tries = len(calls)
    run_calls(folder, trial.rng.sample(calls, len(calls)))
    assert not [path for name in ("ran", "kept") for path in trial.path.rglob(name)]


@attack(
    "gzip-bomb",
    promise="A compressed file is unpacked to at most 100 times its size, in little memory; the rest is rejected.",
    fails="an import that takes 400 MB of memory, or three minutes",
)
def _gzip_bomb(trial: Trial) -> None:
    """Import a file that unpacks to gigabytes of one repeated byte or line."""
    name = trial.rng.choice(["StartLog.gz", "history.gz", "job.log.1.gz", "SchedLog.gz"])
    head = b"000 (001.000.000) 2026-11-20 12:00:00 Job submitted from host: <h>\n...\n"
    unit = trial.rng.choice([b"x", b"\n", b"a = 1\n", head])
    member = gzip.compress(head + unit * (8 * MB // len(unit)), 9)
    (trial.path / "pool").mkdir()
    with (trial.path / "pool" / name).open("wb") as file:
        for _ in range(400):
            file.write(member)
    importing = trial.folder.start("import", "pool")
    peak_memory = 0
    while importing.poll() is None:
        with suppress(OSError, StopIteration):
            peak_memory = max(peak_memory, peak(importing.pid))
        time.sleep(0.05)
    output, _ = importing.communicate(10)
    assert "Traceback" not in output, output
    assert peak_memory < 400, f"{peak_memory} MB"
