"""Golden: user maps are parsed as by HTCondor (MapFile.cpp), and work as in the manual's AssignAccountingGroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.domain.config import ConfigError
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.user_maps import read_map

from ..together import together
from .policy_pool import PolicyPool

DATA = Path(__file__).parents[1] / "data" / "schedd"
MAP = r"""
# a comment
* alice one,two,three
* "bob b" quoted
* /^stu_(\d+)$/ students_\1,\0
* bob four
GSI carol five
* dave "six seven"
* /^ANN/i any_ann
* bob again
* /^(a)|(b)x/ \1-\2
* /(/ broken
* eve
"""


@together(
    ("name", "groups"),
    [
        ("alice", "one,two,three"),
        ("Alice", None),
        ("bob b", "quoted"),
        ("stu_12", "students_12,stu_12"),
        ("bob", "four"),
        ("dave", "six seven"),
        ("anna", "any_ann"),
        ("a-z", "a-\\2"),
        ("xbx", "-b"),
        ("carol", None),
        ("eve", None),
    ],
)
def test_the_first_line_that_fits_a_name_maps_it(name: str, groups: str | None) -> None:
    assert read_map(MAP)["*"](name) == groups


def test_an_invalid_line_is_reported_with_its_number() -> None:
    warnings: list[tuple[int, str]] = []
    read_map(MAP, warn=lambda line, message: warnings.append((line, message)))
    assert warnings == [
        (12, "/(/ is not a valid regular expression"),
        (13, "'* eve' is not a valid line of a map; write * NAME GROUPS"),
    ]


def test_the_longest_of_several_prefixes_counts() -> None:
    entries = read_map("* osdf:///a one\n* osdf:///a/b two", is_prefix=True)["*"]
    assert [entries("osdf:///a/b/c"), entries("osdf:///a/c"), entries("file:///a")] == ["two", "one", None]


def pool(text: str, **more: str) -> PolicyPool:
    config = "SCHEDD_CLASSAD_USER_MAP_NAMES = Groups\nCLASSAD_USER_MAPFILE_Groups = groups.map\n"
    return PolicyPool(
        config + "\n".join(f"{name} = {value}" for name, value in more.items()), files={"groups.map": text}
    )


def test_a_map_that_cannot_be_read_is_rejected_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"<text>:2: CLASSAD_USER_MAPFILE_Groups: the user map groups.map cannot"):
        PolicyPool("SCHEDD_CLASSAD_USER_MAP_NAMES = Groups\nCLASSAD_USER_MAPFILE_Groups = groups.map")


def test_a_map_may_include_another_file() -> None:
    files = {"/etc/maps/a.map": "* alice one\n@include b.map\n", "/etc/maps/b.map": "* bob two\n@include a.map"}
    pool = PolicyPool("CLASSAD_USER_MAP_NAMES = x\nCLASSAD_USER_MAPFILE_x = /etc/maps/a.map", files=files)
    maps = pool.engine.state.user_maps
    assert (maps["x"]("alice"), maps["x"]("bob")) == ("one", "two")


def test_a_map_written_in_the_configuration_may_include_a_file_too() -> None:
    config = "CLASSAD_USER_MAP_NAMES = x\nCLASSAD_USER_MAPDATA_x @=end\n* alice one\n@include /etc/b.map\n@end\n"
    pool = PolicyPool(config, files={"/etc/b.map": "* bob two\n"})
    maps = pool.engine.state.user_maps
    assert (maps["x"]("alice"), maps["x"]("bob")) == ("one", "two")
    with pytest.raises(ConfigError, match=r"CLASSAD_USER_MAPDATA_x: /etc/b.map, which it includes, cannot be read"):
        PolicyPool(config)


def test_a_method_is_the_same_in_upper_and_lower_case() -> None:
    assert [read_map("GSI a one\ngsi b two")["gsi"](name) for name in "ab"] == ["one", "two"]


def can_start(pool: PolicyPool) -> bool:
    pool.handle(s.Negotiate(pool.id()))
    return bool(pool.engine.state.by_job or pool.engine.state.matches)


def test_start_uses_the_map_and_uses_the_new_one_after_a_reconfiguration() -> None:
    mapped = pool("* alice physics")
    start = 'userMap("Groups", TARGET.Owner) == "chemistry"'
    mapped.machine(Start=start, Requirements="Start")
    mapped.submit()
    assert not can_start(mapped)
    mapped.files.files["groups.map"] = "* alice chemistry"
    mapped.configure("SCHEDD_CLASSAD_USER_MAP_NAMES = Groups\nCLASSAD_USER_MAPFILE_Groups = groups.map")
    assert can_start(mapped)


# The manual's map

ASSIGN = "use FEATURE : AssignAccountingGroup(groups.map)\n"
MANUAL = """\
* Alice     group_physics
* Bob       group_atlas
* Carol group_physics,group_chemistry
* /^student_.*/     group_students
"""


@together(
    ("user", "requested", "group"),
    [
        ("Alice", "", "group_physics.Alice"),
        ("Bob", "", "group_atlas.Bob"),
        ("Carol", "", "group_physics.Carol"),
        ("Carol", "group_chemistry", "group_chemistry.Carol"),
        ("student_42", "", "group_students.student_42"),
        ("Alice", "GROUP_PHYSICS", "group_physics.Alice"),
    ],
)
def test_users_count_for_the_groups_that_the_manuals_map_assigns(user: str, requested: str, group: str) -> None:
    pool = PolicyPool(ASSIGN, files={"groups.map": MANUAL})
    answer = pool.submit(user=user, AcctGroup=f'"{requested}"' if requested else "")
    assert answer.refusal == ""
    assert pool.ad()["AccountingGroup"] == f'"{group}"'
    assert pool.engine.state.clusters[1].submitter == f"{group}@example.org"


@together(
    ("user", "requested", "message"),
    [
        ("Alice", "group_atlas", "Permission denied setting accounting_group to group_atlas"),
        ("Mallory", "", "Submit requirement AssignAccountingGroup not met."),
    ],
)
def test_a_group_that_is_not_on_the_list_is_rejected_with_a_message(user: str, requested: str, message: str) -> None:
    pool = PolicyPool(ASSIGN, files={"groups.map": MANUAL})
    refusal = pool.submit(user=user, AcctGroup=f'"{requested}"' if requested else "").refusal
    assert refusal.startswith("Failed to commit job submission into the queue.\nERROR: ")
    assert message in refusal


@together("name", ["AcctGroup", "AcctGroupUser", "AccountingGroup"])
def test_an_attribute_from_the_map_cannot_be_edited_afterwards(name: str) -> None:
    pool = PolicyPool(ASSIGN, files={"groups.map": MANUAL})
    pool.submit(user="Alice")
    refusal = pool.edit("Alice", {name: '"group_atlas"'}).refusal
    assert refusal == f'Update of immutable attribute "{name}" is not allowed.'
