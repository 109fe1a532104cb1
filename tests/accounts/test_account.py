"""Property: the rows of an account add up to the slots' time and agree with `usage`.
Golden: waiting times, shares, and the examples of docs/why.md."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_files.importing.driver import Importer, Options
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.events.pool import GroupQuota
from poolbook.replay.accounts.account import BY, Waits, account
from poolbook.replay.accounts.intervals import CLASSES, slot_intervals
from poolbook.replay.runs.of_log import runs_of
from poolbook.replay.usage.usage_sums import sums

from ..importing.folders import TRACES
from ..sampling import some, spread
from .logs import NAMES, OWN, OWN_SAMPLE, SAMPLES, intervals_of, open_named
from .test_intervals import S, activated, created, exited, log_with, moved

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "why.md"
OutputOf = Callable[..., str]


@pytest.mark.parametrize("name", some(NAMES, 0, always=spread(SAMPLES, 20)))
def test_the_rows_add_up_to_the_slots_time(name: str) -> None:
    log = open_named(name)
    intervals = intervals_of(name)
    for by in ([key] for key in BY):
        answer = account(log, by)
        assert answer.total.total == sum(one.end - one.begin for one in intervals)
        for kind, length in answer.total.time.items():
            assert sum(row.time[kind] for row in answer.rows.values()) == length
        assert sum(len(row.waits) for row in answer.rows.values()) == len(answer.total.waits)


@pytest.mark.parametrize("name", some(OWN, 0, always=OWN_SAMPLE))
def test_the_time_of_runs_equals_the_time_that_usage_shows(name: str) -> None:
    """In a pool's own log the runs on a slot do not overlap. Suspended time is part of a run."""
    log = open_named(name)
    if any(isinstance(event, e.ClaimActivated) for _, event in log.read()):
        return  # `usage` does not count the jobs of other access points
    begin, end = (edge(one.begin for one in intervals_of(name)) for edge in (min, max))
    for since, until in ((0, 1 << 62), (begin + (end - begin) // 3, begin + (end - begin) // 2 + 1)):
        answer = account(log, ["user"], since, until)
        rows, total = sums(runs_of(log, since, until).runs, ["user"], since, until)
        time_with_jobs = sum(one.end - one.begin for one in slot_intervals(log, since, until) if one.job)
        assert time_with_jobs == total.used - answer.without_slot
        if not answer.total.time["suspended"] and not answer.without_slot:
            assert (answer.total.time["goodput"], answer.total.time["badput"]) == (total.good, total.wasted)
            for (user,), row in rows.items():
                assert answer.rows[user,].time["goodput"] == row.good


@pytest.mark.parametrize(
    ("waits", "summary"),
    [
        ([], (0, 0, 0, 0, 0)),
        ([7], (1, 7, 7, 7, 7)),
        ([4, 1, 3, 2], (4, 2.5, 2, 4, 4)),
        (list(range(1, 101)), (100, 50.5, 50, 95, 100)),
    ],
)
def test_waiting_times_are_summarized(waits: list[int], summary: tuple[float, ...]) -> None:
    assert Waits.of(waits) == summary


def submitted(at: int, cluster: int, user: str, group: str = "") -> e.Event:
    ad = {"User": f'"{user}"'} | ({"AcctGroup": f'"{group}"'} if group else {})
    return e.ClusterSubmitted(at * S, "submitted", "s", cluster, user, ad, 1, (), "Idle")


def test_users_are_entitled_to_cores_while_they_want_them() -> None:
    log = log_with(
        [
            created(0, cpus="4"),
            moved(0, "O", "U"),
            submitted(0, 1, "alice@x"),
            moved(2, "U", "B"),
            activated(2),
            submitted(10, 2, "bob@x"),
            e.SubmitterSet(10 * S, "answered", "s", "bob@x", "root", "factor", 3000.0),
            exited(20, 7),
            e.JobsTransitioned(20 * S, "exited", "s", 1, ((0, 0),), "complete", "Running", "Completed", {}),
            moved(20, "B", "O"),
            created(30, "slot2@h"),
        ],
        imported=False,
    )
    answer = account(log, ["user"])
    entitled = {key: row.entitled and row.entitled / S for key, row in answer.rows.items()}
    # alice: 4 cores for 10 s, then 3/4 of them for 10 s; bob 1/4 for 10 s. From 20 s on, the owner has the machine.
    assert entitled == {("",): None, ("alice@x",): 70.0, ("bob@x",): 10.0}
    assert answer.total.waits == [2 * S]
    assert answer.rows["alice@x",].core_time["goodput"] == 18 * 4 * S


def test_groups_are_entitled_to_their_quotas() -> None:
    def assigned(at: int, cores: float) -> e.Event:
        return e.QuotasAssigned(
            at * S, "negotiated", "s", 4.0, (GroupQuota("<none>", 1.0, 1.0), GroupQuota("physics", cores, cores))
        )

    log = log_with([created(0), assigned(5, 2.0), assigned(10, 3.0), created(20, "slot2@h")], imported=False)
    assert account(log, ["group"]).rows.keys() == {("",), ("physics",)}
    assert account(log, ["group"]).rows["physics",].entitled == (5 * 2 + 10 * 3) * S
    assert account(log, ["group"], 8 * S, 12 * S).rows["physics",].entitled == (2 * 2 + 2 * 3) * S


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("account") / "audit.db")
    log = open_log(path, create=True)
    Importer(log, [str(TRACES / "10-fairshare")], Options(zone="UTC")).run()
    log.close()
    return path


@pytest.fixture
def output_of(audit_log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> OutputOf:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*arguments: str, code: int = 0) -> str:
        assert main([*arguments, "-log", audit_log]) == code
        output = capsys.readouterr()
        return output.out + output.err

    return call


def test_the_examples_on_the_page_equal_the_commands_output(output_of: OutputOf) -> None:
    page = PAGE.read_text(encoding="utf-8")
    examples = re.findall(
        r"```console\n\$ poolbook ((?:account|timeline)[^\n]*) -log audit\.db\n(.*?)```", page, re.DOTALL
    )
    assert examples
    for line, answer in examples:
        assert output_of(*line.split()).splitlines() == answer.splitlines(), line


def test_the_page_lists_the_classes() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text().partition("## Accounts")[2], re.MULTILINE)
    assert rows[: len(CLASSES)] == [*CLASSES.items()]


def test_json_is_in_seconds(output_of: OutputOf) -> None:
    answer = json.loads(output_of("account", "-by", "machine", "-json", "-from", "22:53:00", "-to", "22:54:00"))
    (row,) = answer["rows"]
    classes = {"goodput": 18.0, "undetermined": 201.0, "unclaimed": 141.0}
    assert (row["machine"], row["slot_seconds"], row["classes"]) == ("localhost", 360.0, classes)
    assert answer["total"] | {"machine": "localhost"} == row
    assert answer["from"] == "2026-11-20T22:53:00.000000Z"


def test_an_unknown_key_and_an_empty_time_are_reported(output_of: OutputOf) -> None:
    assert "the command takes no names; choose the rows with -by" in output_of("account", "alice", code=2)
    assert "unknown key; use user, group, slot" in output_of("account", "-by", "nonsense", code=2)
    assert output_of("account", "-from", "2020-01-01", "-to", "2020-01-02").startswith("There were no slots from 2020")
