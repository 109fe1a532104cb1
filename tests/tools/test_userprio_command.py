"""Golden: `poolbook userprio` as typed: for an imported log it shows what condor_userprio showed at that instant; for a
Poolbook pool, what its log says; it reports changes in condor_userprio's words."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli import userprio
from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools.cells import CellContext
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.replay.narration.formatting import instant as worded
from poolbook.replay.virtual_world import Behaviour

from ..importing.feeding import content
from ..together import together
from .captures import capture
from .test_options import loads_no_slow_module
from .test_userprio import COLLECTOR, TRACES, Record, captured_records, sample, shown

# At this instant condor_userprio printed this sample of a pool's Accountantnew.log.
INSTANTS = [
    ("04-retirement", "4", "22:36:09"),
    ("08a-pslot", "3", "22:51:49"),
    ("08a-pslot", "4", "22:52:05"),
    ("15-match-order", "2", "22:49:05"),
    ("20c-kill-for-better-match", "1", "22:55:33"),
]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Return a function that calls a command and returns its output and exit code; it uses the log pool.db unless the
    arguments name another."""
    monkeypatch.setenv("POOLBOOK_LOG", str(tmp_path / "pool.db"))
    monkeypatch.setenv("TZ", "UTC")

    def called(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    return called


@pytest.mark.parametrize(("trace", "number", "instant"), INSTANTS)
def test_an_imported_log_shows_condor_userprios_output_of_that_instant(
    trace: str, number: str, instant: str, call: Call, tmp_path: Path
) -> None:
    (source,) = (TRACES / trace).glob("Accountantnew.log*")
    assert call("import", str(source), "-log", str(tmp_path / "pool.db"))[0] == 0
    _, tables = sample(f"{trace}/{number}")
    assert call("userprio", "-all", "-allusers", "-at", f"2026-11-20T{instant}Z") == (0, tables["table"], "")
    assert call("userprio", "-all", "-allusers", "-at", instant) == (0, tables["table"], "")  # on their last day
    code, _, err = call("userprio", "-at", "2026-11-20T08:00Z")
    assert code == 1 and "have priorities from 2026-11-20 22:" in err
    assert call("userprio", "-allusers")[1].startswith("Last Priority Update: 11/20 22:")


def test_an_import_of_only_samples_shows_the_last_one(call: Call, tmp_path: Path) -> None:
    for number in "23":
        (tmp_path / f"userprio-{number}.txt").write_bytes(content(TRACES / f"04-retirement/userprio-{number}.txt"))
    assert call("import", str(tmp_path), "-log", str(tmp_path / "pool.db"))[0] == 0
    (_, before), (_, last) = sample("04-retirement/2"), sample("04-retirement/3")
    assert call("userprio", "-all", "-allusers")[1] == last["table"]
    assert call("userprio", "-all", "-allusers", "-at", "2026-11-20T22:35:10Z")[1] == before["table"]
    code, _, err = call("userprio", "-getreslist", "alice@localhost")
    assert code == 1 and "`poolbook status` shows who uses the slots" in err


# -- a pool of our own ---------------------------------------------------------------------------------------------


def lasting(launch: object) -> Behaviour:
    return Behaviour(seconds=100)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a pool in which alice's three jobs ran for 100 s each on two slots of two cores; bob's is idle, and
    carol, who is in a group, has a running job."""
    path = tmp_path_factory.mktemp("story") / "pool.db"
    with Pool.open(
        str(path), user="alice", uid_domain="x", name="h", behave=lasting,
        settings={"GROUP_NAMES": "group_physics", "GROUP_QUOTA_group_physics": 2},
    ) as pool:  # fmt: skip
        pool.add_machine("node1", cpus=4, static=2)
        pool.submit({"executable": "/bin/work", "request_cpus": 2}, count=3)
        pool.run()
        pool.advance(5)
        pool.submit({"executable": "/bin/work", "request_cpus": 64}, user="bob")
        pool.submit({"executable": "/bin/work", "accounting_group": "group_physics"}, user="carol")
        pool.advance(50)
    return path


@pytest.fixture
def pool(story: Path, tmp_path: Path) -> Iterator[Pool]:
    for path in story.parent.iterdir():
        shutil.copy(path, tmp_path)
    with Pool.open(str(tmp_path / "pool.db"), behave=lasting) as pool_copy:
        yield pool_copy


def test_the_command_and_the_library_agree(pool: Pool, call: Call) -> None:
    standings = {submitter.name: submitter for submitter in pool.submitters()}
    pool.close()
    records = {record["Name"]: record for record in json.loads(call("userprio", "--json")[1])}
    assert list(standings) == [name for name in records if "@" in name]
    alice = records["alice@x"]
    assert 3 * 100 * 2 <= alice["WeightedAccumulatedUsage"] == standings["alice@x"].used < 3 * 100 * 2 + 60
    assert alice["AccumulatedUsage"] == standings["alice@x"].held == alice["WeightedAccumulatedUsage"] / 2
    for name, submitter in standings.items():
        assert records[name]["Priority"] == pytest.approx(submitter.priority * submitter.factor, rel=1e-12)
        assert (records[name]["ResourcesUsed"], records[name]["WeightedResourcesUsed"]) == (
            submitter.slots,
            submitter.cores,
        )
    assert "AccumulatedUsage" not in records["bob@x"]
    assert records["bob@x"]["SubmitterShare"] == 1.0  # no other user waits
    assert records["bob@x"]["SubmitterLimit"] == 4.0
    assert records["<none>"]["WeightedAccumulatedUsage"] == alice["WeightedAccumulatedUsage"]


def test_a_pool_shows_its_users_under_their_groups(pool: Pool, call: Call) -> None:
    pool.close()
    name = "group_physics.carol@x"
    records = {record["Name"]: record for record in json.loads(call("userprio", "--json")[1])}
    assert (records[name]["AccountingGroup"], records[name]["ResourcesUsed"]) == ("group_physics", 1)
    assert (records["group_physics"]["ConfigQuota"], records["group_physics"]["GroupSortKey"]) == (2.0, 1.0)
    lines = call("userprio", "-allusers", "-usage", "-quotas")[1].splitlines()
    assert lines[1].startswith("Group  ") and lines[2].startswith("  User Name  ")
    names = [line.split()[0] for line in lines[4:-2]]
    assert names == ["group_physics", "carol@x", "<none>", "bob@x", "alice@x"]
    assert call("userprio", "-getreslist", name)[1].splitlines()[2].startswith("slot1@node1  ")


def test_users_without_usage_in_the_last_day_are_shown_on_request(pool: Pool, call: Call) -> None:
    pool.close()
    day = 86400
    records = [dict(record) for record in json.loads(call("userprio", "--json")[1])]
    last = max(record["LastUsageTime"] for record in records if record["Name"] == "alice@x")

    def users(now: int, *arguments: str) -> set[str]:
        lines = shown(records, *arguments, "-flat", surroundings=CellContext(now)).splitlines()
        return {line.split()[0] for line in lines if "@" in line}

    all_users = {"alice@x", "bob@x", "group_physics.carol@x"}
    assert users(last + day) == all_users - {"bob@x"}
    assert users(last + day + 1) == {"group_physics.carol@x"}
    assert users(last + 9 * day) == set()
    assert users(last + 9 * day, "-allusers") == all_users
    assert users(last + 9 * day, "-activefrom", "1", "1", "70") == all_users - {"bob@x"}
    assert users(last + 9 * day, "bob", "alice@x") == {"alice@x", "bob@x"}
    assert users(last, "-constraint", "ResourcesUsed > 0") == {"group_physics.carol@x"}


def test_the_past_of_a_pool_is_read_from_its_log(pool: Pool, call: Call) -> None:
    start = pool.state.at
    pool.set_priority_factor("alice@x", 7)
    pool.advance(3600)
    pool.delete_submitter("alice@x")
    pool.close()

    def factors(at: int) -> dict[str, float]:
        records = json.loads(call("userprio", "-at", worded(at).replace(" ", "T") + "Z", "--json")[1])
        return {record["Name"]: record["PriorityFactor"] for record in records if "@" in record["Name"]}

    assert factors(start - 100_000_000)["alice@x"] == 1000
    assert factors(start + 1_000_000)["alice@x"] == 7
    assert "alice@x" not in factors(start + 3_700_000_000)
    code, _, err = call("userprio", "-at", "1999-01-01")
    assert code == 1 and "the log begins at" in err


# -- changes -------------------------------------------------------------------------------------------------------

SET_COMMANDS = [
    "userprio_delete",
    "userprio_resetusage",
    "userprio_setaccum",
    "userprio_setceil",
    "userprio_setceil_off",
    "userprio_setfactor",
    "userprio_setfloor",
    "userprio_setprio",
    "userprio_unknown",
]


@pytest.mark.parametrize("name", SET_COMMANDS)
def test_a_change_is_answered_with_htcondors_message(name: str, pool: Pool, call: Call) -> None:
    pool.close()
    assert call("userprio", *capture(name).argv) == (0, capture(name).out, "")


# A change, its output, and the changed record.
CHANGES = [
    (("-setbegin", "alice@x", "1800000000"), "The Begin Usage Time of alice@x was set to 1800000000", {
        "BeginUsageTime": 1800000000,
    }),
    (("-setlast", "alice@x", "1800000500"), "The Last Usage Time of alice@x was set to 1800000500", {
        "LastUsageTime": 1800000500,
    }),
    (("-setaccum", "alice@x", "7200"), "The Accumulated Usage of alice@x was set to 7200.000000", {
        "WeightedAccumulatedUsage": 7200.0,
    }),
    (("-setfactor", "alice@x", "20", "-duration", "1000000000"),
     "Set priority-factor lease on alice@x to 20.000000 for 1000000000 seconds", {"PriorityFactor": 20.0}),
    (("-setfloor", "alice@x", "2", "-dur", "1000000000"),
     "Set floor lease on alice@x to 2 for 1000000000 seconds", {"Floor": 2}),
    (("-setceiling", "alice@x", "3", "-duration", "1000000000"),
     "Set ceiling lease on alice@x to 3 for 1000000000 seconds", {"Ceiling": 3}),
    (("-cancelfactorlease", "bob@x"), "Cancelled priority-factor lease for bob@x", {"PriorityFactor": 1000.0}),
    (("-cancelfloorlease", "bob@x"), "Cancelled floor lease for bob@x", {"Floor": 0}),
    (("-cancelceilinglease", "bob@x"), "Cancelled ceiling lease for bob@x", {"Ceiling": -1}),
    (("-resetall",), "The accumulated usage was reset for all users", {"WeightedAccumulatedUsage": 0.0}),
    (("-setprio", "bob@x", "12.5"), "The priority of bob@x was set to 12.500000", {"Priority": 25.0}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message", "changes"), CHANGES, ids=[words[0] for words, _, _ in CHANGES])
def test_a_change_shows_in_the_record(
    arguments: tuple[str, ...], message: str, changes: Record, pool: Pool, call: Call
) -> None:
    for name in ("factor", "floor", "ceiling"):
        getattr(pool, {"factor": "set_priority_factor"}.get(name, f"set_{name}"))("bob@x", 2, duration=10**9)
    pool.close()
    assert call("userprio", *arguments) == (0, message + "\n", "")
    user = arguments[1] if len(arguments) > 1 else "alice@x"
    (record,) = json.loads(call("userprio", user, "--json")[1])
    assert {name: record[name] for name in changes} == changes


def test_an_unauthorized_change_names_the_authorized_users(tmp_path: Path, call: Call) -> None:
    Pool.open(str(tmp_path / "pool.db"), settings={"QUEUE_SUPER_USERS": "condor"}).close()
    expected = capture("userprio_setfactor_denied")
    code, out, err = call("userprio", *expected.argv)
    assert (code, out) == (expected.exit_code, "")
    assert "permission denied" in err and "(condor)" in err
    assert "Not an administrator" in expected.err


def test_resetting_all_usage_works_where_htcondors_tool_failed(pool: Pool, call: Call) -> None:
    pool.close()
    assert capture("userprio-resetall").exit_code == 1
    assert call("userprio", *capture("userprio-resetall").argv)[0] == 0


# -- what is asked -------------------------------------------------------------------------------------------------


@together(
    ("argv", "message"),
    [
        (["-setfactor", "alice", "3"], "-setfactor: 'alice' is not a submitter: use the form user@domain"),
        (["-delete", "@x"], "'@x' is not a submitter"),
        (["-getreslist", "alice"], "'alice' is not a submitter"),
        (["-setfactor", "a@x", "much"], "-setfactor takes a number, not 'much'"),
        (["-setprio", "a@x", "inf"], "-setprio takes a number, not 'inf'"),
        (["-setceil", "a@x", "1.5"], "must be a whole number, at least -1, not '1.5'"),
        (["-setfloor", "a@x", "-1"], "must be a whole number, at least 0, not '-1'"),
        (["-setlast", "a@x", "-1"], "must be a whole number, at least 0"),
        (["-setfloor", "a@x"], "-setfloor needs <user> <n>"),
        (["-setprio", "a@x", "1", "-duration", "60"], "-duration is only for -setfactor, -setfloor, -setceiling"),
        (["-duration", "60"], "-duration is only for -setfactor, -setfloor, -setceiling"),
        (["-setfloor", "a@x", "1", "-duration", "0"], "-duration must be a whole number, at least 1, not '0'"),
        (["-setfloor", "a@x", "1", "-setceil", "a@x", "2"], "change one thing at a time: -setfloor or -setceil"),
        (["-delete", "a@x", "b@x"], "-delete and 'b@x': specify only one submitter"),
        (["-activefrom", "2", "30", "2026"], "not a valid date; use for example -activefrom 11 20 2026"),
        (["-activefrom", "May", "1", "2026"], "not a valid date"),
        (["-constraint", "1 +"], "not a valid expression"),
    ],
)
def test_an_error_names_the_problem_and_the_fix(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        userprio.parse_arguments(argv)
    assert error.value.exit_code == 2


# Where HTCondor prints its whole help and exits with 1.
USAGE = {
    "userprio-activefrom": (2, "-activefrom needs <month> <day> <year>"),
    "userprio-getreslist": (2, "-getreslist needs <user>"),
    "userprio-help": (0, "usage: poolbook userprio"),
    "userprio_help": (0, "usage: poolbook userprio"),
    "userprio_json": (0, '"Name": "alice@x"'),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_line_reports_the_error_where_htcondor_prints_its_help(name: str, pool: Pool, call: Call) -> None:
    pool.close()
    assert capture(name).exit_code == 1 and capture(name).err.startswith("usage: condor_userprio")
    code, out, err = call("userprio", *capture(name).argv)
    expected_code, message = USAGE[name]
    assert code == expected_code and message in out + err
    assert len(err.splitlines()) == (code == 2)


def test_an_unknown_user_is_named(pool: Pool, call: Call) -> None:
    pool.close()
    code, out, err = call("userprio", "alice", "zoe")
    assert (code, out) == (1, "") and "unknown user zoe" in err


def test_a_file_of_records_prints_like_the_log(pool: Pool, call: Call, tmp_path: Path) -> None:
    pool.close()
    (tmp_path / "long.txt").write_text(call("userprio", "-long")[1])
    for options in (["-all", "-allusers"], ["-quotas"], ["-json"]):
        assert call("userprio", "-inputfile", str(tmp_path / "long.txt"), *options) == call("userprio", *options)
    numbered = "LastUpdate = 1795214188\n" + "".join(
        f"{name}{number} = {json.dumps(value)}\n"
        for number, record in enumerate(captured_records(COLLECTOR), 1)
        for name, value in record.items()
        if name != "LastUpdate"
    )
    (tmp_path / "one.txt").write_text(numbered + "NumSubmittors = 2\n")
    output = call("userprio", "-inputfile", str(tmp_path / "one.txt"), "-most", "-allusers")
    assert output[1].splitlines()[:-1] == capture("userprio-most").out.splitlines()[:-1]
    for file_name, why in (("nosuch.txt", "No such file"), ("pool.db", "no submitter ads")):
        code, _, err = call("userprio", "-inputfile", str(tmp_path / file_name))
        assert code == 2 and why in err


def test_showing_priorities_loads_neither_the_engine_nor_attrs() -> None:
    assert loads_no_slow_module(
        "from poolbook.adapters.cli import userprio\n"
        "from poolbook.adapters.runtime import accounting_records as made\n"
        "from poolbook.adapters.condor_tools.cells import CellContext\n"
        "record = {'Name': 'a@x', 'Priority': 1.0, 'LastUsageTime': 9, 'LastUpdate': 9}\n"
        "assert 'a@x' in ''.join(userprio.render([record], userprio.parse_arguments(['-all']), CellContext(10)))\n"
        "assert made._records([], {}, 0, 0, made.CycleShares(), 10_000_000)\n"
    )


# -- the same in programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "arguments", "field", "value"),
    [
        ("set_priority", (12.5,), "priority", 12.5),
        ("set_priority_factor", (7,), "factor", 7.0),
        ("set_floor", (3,), "floor", 3.0),
        ("set_ceiling", (4,), "ceiling", 4.0),
        ("set_ceiling", (-1,), "ceiling", -1.0),
        ("set_usage", (3600,), "used", 3600.0),
        ("end_lease", ("factor",), "factor", 1000.0),
        ("end_lease", ("floor",), "floor", 0.0),
        ("end_lease", ("ceiling",), "ceiling", -1.0),
        ("reset_usage", (), "used", 0.0),
    ],
)
def test_a_programs_grants_and_resets_show_in_a_submitters_standing(
    method: str, arguments: tuple[float | str, ...], field: str, value: float, pool: Pool
) -> None:
    for name in ("priority_factor", "floor", "ceiling"):
        getattr(pool, f"set_{name}")("bob@x", 2, duration=10**9)
    pool.set_usage("bob@x", 50)
    getattr(pool, method)("bob@x", *arguments)
    (standing,) = [submitter for submitter in pool.submitters() if submitter.name == "bob@x"]
    assert getattr(standing, field) == value
