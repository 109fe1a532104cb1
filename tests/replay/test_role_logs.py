"""Golden: what audit, verify and why print about the logs of roles that ran on several machines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from poolbook import Log
from poolbook.adapters.cli.audit import audit
from poolbook.adapters.cli.log_commands import verify, why
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e

from .test_legality_of_edited_roles import AP, EP, MANAGER, logs


def write_log(file: str, events: Sequence[e.Event]) -> None:
    log = open_log(file, create=True)
    for is_begin, group in groupby(events, key=lambda event: isinstance(event, e.WriterBegan)):
        for event in group if is_begin else ():
            assert isinstance(event, e.WriterBegan)
            log.raise_epoch(event.writer, event.at, "serve")
        if not is_begin:
            log.append([*group])
    log.close()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the names of the roles' logs, by role."""
    monkeypatch.chdir(tmp_path)
    names = {name: f"{name.rpartition('/')[2]}.db" for name in logs()}
    for name, file in names.items():
        write_log(file, logs()[name])
    return names


def test_verify_accepts_each_log(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for file in files.values():
        assert verify(["-log", file]) == 0, capsys.readouterr().out


def test_audit_compares_the_logs(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert audit([*files.values()]) == 0
    assert "which was not given" not in capsys.readouterr().out
    assert audit([files[AP], files[MANAGER], "-json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert [sorted(each["unchecked"]) for each in compared] == [["execution-point/ep1", "execution-point/ep2"]] * 2
    assert Log.open(files[MANAGER]).audit(files[AP], files[EP]).unchecked.keys() == {"execution-point/ep2"}


def test_audit_reports_a_log_that_was_replaced(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    events = [*logs()[EP]]
    last = max(at for at, event in enumerate(events) if isinstance(event, e.Sent) and event.peer == AP)
    events[last] = replace(events[last], digest="0" * 64)
    write_log("forked.db", events)
    assert audit([files[AP], "forked.db"]) == 1
    assert "of forked.db differs from the entry that was read" in " ".join(capsys.readouterr().out.split())


def test_why_cites_the_logs_of_other_roles(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert why(["1.1", "-verbose", "-log", files[AP], "-with", files[EP], "-with", files[MANAGER]]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for sentence in (
        "The negotiator matched job 1.1 with slot1@ep1, which was free. Its ranks: NEGOTIATOR_PRE_JOB_RANK 898976. "
        "[manager.db at 60]",
        "The access point requested slot1@ep2 from its execution point for job 1.1.",
        "The execution point of job 1.1 has stopped responding on slot1@ep2; the lease of its claim ends at "
        "2027-01-15 08:02:39.003.",
        "Job 1.1 was given up after 2 min 39 s on slot1@ep2: the access point and the execution point lost contact for "
        "the duration of the claim's lease; it is idle again.",
        "The execution point granted slot1@ep1 for job 1.1. [ep1.db at 41]",
    ):
        assert sentence in text
    assert re.search(r"The execution point granted slot1@ep2 for job 1.1. \[execution-point/ep2, entry \d+ of", text)
    assert re.search(r"Job 1.1 ended after 1 min 40 s on slot1@ep1, .* \[ep1.db at \d+\]", text)
