"""Golden: `poolbook userprio` and condor_userprio print the same for the same records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.cli import userprio
from poolbook.adapters.cli.userprio import records_in_text
from poolbook.adapters.cli.userprio_table import DETAILS
from poolbook.adapters.condor_tools.cells import CellContext

from ..importing.feeding import content
from ..together import together
from .captures import MINUTE, capture, printed, surroundings_at

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
Record = dict[str, Any]


def shown(records: list[Record], *argv: str, surroundings: CellContext | None = None) -> str:
    return printed(userprio.render(records, userprio.parse_arguments(argv), surroundings or surroundings_at(28)))


def captured_records(name: str) -> list[Record]:
    """Return the records that a capture of -long shows."""
    return [dict(record) for record in records_in_text(capture(name).out)]


# -- the captures --------------------------------------------------------------------------------------------------

# The collector's records, and the negotiator's, as -long printed them in the same second.
COLLECTOR, NEGOTIATOR = "userprio-l", "userprio_l_all"

SAME_RECORDS = {
    "userprio-flat": COLLECTOR,
    "userprio-hierarchical": COLLECTOR,
    "userprio-l": COLLECTOR,
    "userprio-modular": COLLECTOR,
    "userprio-most": COLLECTOR,
    "userprio-priority": COLLECTOR,
    "userprio-quotas": COLLECTOR,
    "userprio-usage": COLLECTOR,
    "userprio_af": COLLECTOR,
    "userprio-grouprollup": NEGOTIATOR,
    "userprio-negotiator": NEGOTIATOR,
    "userprio_l_all": NEGOTIATOR,
}


@together("name", SAME_RECORDS)
def test_records_print_as_by_condor_userprio(name: str) -> None:
    assert shown(captured_records(SAME_RECORDS[name]), *capture(name).argv) == capture(name).out


# Two seconds earlier: the usage of alice, and of all users in no group.
UPDATE = {"LastUpdate": MINUTE + 26}
USED = {**UPDATE, "LastUsageTime": MINUTE + 26, "Priority": 506.24, "WeightedAccumulatedUsage": 1013.0}


@pytest.mark.parametrize(
    ("name", "records"),
    [("userprio_default", COLLECTOR), ("userprio-all", COLLECTOR), ("userprio-allusers", NEGOTIATOR)],
)
def test_the_records_of_an_earlier_update_print_as_by_condor_userprio(name: str, records: str) -> None:
    earlier_records = [
        {**record, **(UPDATE if record["Name"] == "alice@vm" else USED)} for record in captured_records(records)
    ]
    assert shown(earlier_records, *capture(name).argv, surroundings=surroundings_at(27)) == capture(name).out


def test_a_group_without_usage_does_not_show_the_previous_records_usage() -> None:
    name = "userprio_after"
    group = {"Name": "<none>", "IsAccountingGroup": True, "Priority": 500.0, "LastUpdate": MINUTE + 374}
    defaults = {"PriorityFactor": 1000.0, "ResourcesUsed": 0, "WeightedResourcesUsed": 0.0, "Floor": 0, "Ceiling": -1}
    users: dict[str, Record] = {
        "bob@localhost": {"Priority": 500.0, "BeginUsageTime": MINUTE + 197, "LastUsageTime": MINUTE + 325},
        "alice@localhost": {
            "Priority": 500.0, "PriorityFactor": 500.0, "BeginUsageTime": MINUTE + 362, "Floor": 1, "Ceiling": 3,
        },
        "alice@vm": {"Priority": 500.0, "BeginUsageTime": 1795212140, "LastUsageTime": 1795212264},
        "nosuch@x": {"Priority": 1.5, "PriorityFactor": 3.0},
    }  # fmt: skip
    usage = {"bob@localhost": 72.0, "alice@localhost": 1000.0, "alice@vm": 356.0}
    records = [{"Name": user, **defaults, **record} for user, record in users.items()]
    for record in records:
        if record["Name"] in usage:
            record["WeightedAccumulatedUsage"] = usage[record["Name"]]
    lines, expected = shown([group, *records], *capture(name).argv).splitlines(), capture(name).out.splitlines()
    cell = slice(58, 70)
    assert (expected[4][cell].strip(), lines[4][cell].strip()) == ("0.28", "0.00")
    assert (expected[-1][cell].strip(), lines[-1][cell].strip()) == ("0.67", "0.40")
    assert [line[:58] + line[70:] for line in lines] == [line[:58] + line[70:] for line in expected]


# -- the samples of the traces -------------------------------------------------------------------------------------

# Samples whose records and tables are of the same update, and in which every listed user has used something.
ONE_UPDATE = {
    "01-plain": "012",
    "02-owner-return": "127",
    "03-kill": "123",
    "04-retirement": "235",
    "05-prio-preempt": "345",
    "07-drain": "15",
    "08a-pslot": "2",
    "10-fairshare": "m",
    "11-concurrency": "3",
    "12-submit-policy": "1",
    "13-deferral-crontab": "23",
    "16-absent": "0",
    "20c-kill-for-better-match": "1",
}


def sample(name: str) -> tuple[list[Record], dict[str, str]]:
    """Return the records of a sample, and its tables by their options."""
    folder, _, number = name.partition("/")
    (path,) = (TRACES / folder).glob(f"userprio-{number}.txt*")
    before, *tables_text = re.split(r"^### (.*)\n", content(path).decode(), flags=re.MULTILINE)
    parts = dict(zip(tables_text[::2], tables_text[1::2], strict=True))
    records = [dict(record) for record in records_in_text(parts.pop("-l", before))]
    return records, {key.removeprefix("condor_userprio "): text.strip("\n") + "\n" for key, text in parts.items()}


@together("name", [f"{folder}/{number}" for folder, numbers in ONE_UPDATE.items() for number in numbers])
def test_the_samples_of_real_pools_print_as_recorded(name: str) -> None:
    records, tables = sample(name)
    assert shown(records, "-all", "-allusers") == tables["table"]


def without_htcondors_error(table: str) -> str:
    """Return HTCondor's table without its error: a group without usage shows the usage of the previous record."""
    return re.sub(r"^(<none> .* 1000\.00 +\d+ +)\d\.\d\d(?= {10})", r"\g<1>0.00", table, flags=re.MULTILINE)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_users_are_listed_under_their_groups_as_recorded(number: int) -> None:
    records, tables = sample(f"09a-quota-static-nosurplus/{number}")
    assert list(tables) == [
        f"-allusers {option}" for option in ("", "-quotas", "-surplus", "-grouprollup", "-hierarchical", "-most")
    ]
    for options, table in tables.items():
        assert shown(records, *options.split()) == without_htcondors_error(table)
    assert without_htcondors_error(tables["-allusers "]) != tables["-allusers "]


def test_nested_groups_are_sorted_by_key_and_count_their_members() -> None:
    records, tables = sample("09b-quota-hier-surplus/3")
    for options in ("-quotas", "-surplus", "-grouprollup"):
        assert shown(records, "-allusers", options) == tables[f"-allusers {options}"]
    flat_lines = shown(records, "-allusers", "-flat").splitlines()[4:-2]
    assert [line.split()[0] for line in flat_lines] == [
        "<none>", "group_chemistry", "group_chemistry.carol@localhost", "group_physics.lep",
        "group_physics.lep.bob@localhost", "group_physics.hep", "group_physics.hep.alice@localhost", "group_physics",
    ]  # fmt: skip
    ordered = shown(records, "-allusers", "-grouporder", "-groupid", "-sortkey").splitlines()[4:-2]
    assert [line.split()[0] for line in ordered if "@" not in line] == [
        "group_physics.lep", "<none>", "group_chemistry", "group_physics", "group_physics.hep",
    ]  # fmt: skip
    assert [line.split()[1] for line in ordered[-3:]] == ["1", "3", "4"]


# -- any records ---------------------------------------------------------------------------------------------------


@together(
    ("record", "column", "cell"),
    [
        ({"PriorityFactor": 1e10}, "Factor", "1e+10"),
        ({"PriorityFactor": 0.0}, "Factor", ""),
        ({"Priority": 1.23456e12}, "Priority", "1.23456e+12"),
        ({"WeightedResourcesUsed": 1234567.0}, "In Use", "1e+06"),
        ({"WeightedResourcesUsed": 2.5}, "In Use", "2"),
        ({"LastUsageTime": MINUTE - 86400 * 400}, "Last Usage", "400+00:00"),
        ({"LastUsageTime": MINUTE + 1}, "Last Usage", "<now>"),
        ({"LastUsageTime": 0}, "Last Usage", ""),
        ({"Floor": 0.5}, "Floor", "0.50"),
        ({"Ceiling": 0}, "Ceiling", "0.00"),
        ({"Ceiling": -1}, "Ceiling", ""),
    ],
)
def test_a_cell_shows(record: Record, column: str, cell: str) -> None:
    """The line under the headings determines the widths."""
    defaults = {"Name": "a@x", "Priority": 1.0, "PriorityFactor": 1.0, "LastUpdate": MINUTE, "ResourcesUsed": 1}
    other = {**defaults, "Name": "b@x", "Priority": 2e12, "LastUsageTime": MINUTE, "Floor": 1, "Ceiling": 1}
    _, _, heads, rule, line, *_ = shown([{**defaults, **record}, other], "-most", "-allusers").splitlines()
    below = [match for match in re.finditer("-+", rule) if column in heads[match.start() - 1 : match.end() + 1]]
    assert line[slice(*below[0].span())].strip() == cell


NAMES = (
    "AccountingGroup", "BeginUsageTime", "Ceiling", "ConfigQuota", "Floor", "GroupSortKey", "IsAccountingGroup",
    "LastUpdate", "LastUsageTime", "PriorityFactor", "Requested", "ResourcesUsed", "SurplusPolicy",
    "WeightedAccumulatedUsage", "WeightedResourcesUsed",
)  # fmt: skip
texts = st.sampled_from(
    ["0", "-1", "7", "1e300", "-1e300", "-3.5", "9" * 30, "true", "undefined", '"g"', '"<none>"', "1e999", "x("]
)
ads = st.fixed_dictionaries(
    {"Name": st.sampled_from(['"g"', '"g.a@x"', '"a@x"', '"<none>"', "7"]), "Priority": texts},
    optional=dict.fromkeys(NAMES, texts),
)
options = st.sampled_from([*DETAILS, "hierarchical", "flat", "grouporder", "grouprollup", "allusers"])


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.lists(ads, min_size=1, max_size=6), st.lists(options, max_size=4))
def test_the_lines_of_any_table_have_one_length(records: list[dict[str, str]], options_given: list[str]) -> None:
    text = "\n\n".join("\n".join(f"{name} = {value}" for name, value in ad.items()) for ad in records)
    first, *lines = shown(
        [dict(record) for record in records_in_text(text)], *(f"-{option}" for option in options_given)
    ).splitlines()
    assert first.startswith("Last Priority Update: ")
    assert len({len(line) for line in lines}) == 1
