"""Property: whatever is started, killed and connected again in any order, no activation runs twice."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.client import Supervisor

from .bench import Bench

KEYS = ("1", "2", "3")

# The steps, each for a key; killing and connecting affect all.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "hard", "soft", "kill", "connect", "recover", "poll"]), st.sampled_from(KEYS)
    ),
    min_size=3,
    max_size=12,
)

# A job records that it started, and makes a directory that a second run would find.
SCRIPT = "echo >> began_$0; mkdir alone_$0 || echo >> twice; sleep 0.0$1"


def happen(bench: Bench, step: str, key: str) -> None:
    if step == "start":
        bench.start(key, "/bin/sh", "-c", SCRIPT, key, key, run_in_iwd=True)
    elif step in ("hard", "soft"):
        bench.supervisor.signal(key, "hard" if step == "hard" else "soft")
    elif step == "kill" and bench.alive():
        bench.kill_supervisor()
    elif step == "connect":
        bench.supervisor.close()
        bench.supervisor = Supervisor(bench.folder)
    elif step == "recover":
        bench.supervisor.recover(KEYS)
    elif step == "poll":
        bench.reports += bench.supervisor.poll(0.005)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_an_activation_runs_at_most_once_and_its_end_is_known(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, Bench(Path(folder)) as bench:
        for step, key in steps:
            happen(bench, step, key)
        started_keys = {key for step, key in steps if step == "start"}
        for key in started_keys:
            bench.start(key, "/bin/sh", "-c", SCRIPT, key, key, run_in_iwd=True)
            bench.end(key)
        start_records = {path.name.removeprefix("began_"): path.read_text() for path in bench.home.glob("began_*")}
        assert start_records.keys() <= started_keys
        assert set(start_records.values()) <= {"\n", ""}  # a kill can come between making the file and the line
        assert not (bench.home / "twice").exists()
