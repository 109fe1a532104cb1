"""golden: lines and items from programs, standard input, tables and templates, and random values. The last column of
each table has the result of condor_submit 25.14."""

from __future__ import annotations

import pytest

from poolbook import Pool
from poolbook.domain.config import read
from poolbook.domain.decide.pool_configuration import configured_submission_settings
from poolbook.domain.state.pool_settings import submission_settings
from poolbook.domain.submit import Submission, SubmitError, parse_submit

from ..together import together
from .fakes import FakeFiles, facts, submit, values

FILES = {
    "tab.csv": "name, size\nalpha beta, 3\ngamma,4,5\ndelta\n",
    "tab2.csv": "#c\nskip me\nn,m\n1,2\n3,4\n5,6\n",
    "seq 2 |": "1\n2\n",
    "makes lines |": "priority = 3\narguments = made\n",
    "-": "from input\n\ntwo\n",
    "t1.csv": "",
    "t2.csv": "",
    "t/": "",
}


@together(
    ("statement", "shown", "arguments"),
    [
        ("queue x from seq 2 |", "$(x)", ["1", "2"]),
        ("queue x,y from makes lines |", "$(x)-$(y)", ["priority-= 3", "arguments-= made"]),
        ("queue x from -", "$(x)", ["from input", "two"]),
        ("queue from table tab.csv", "$(name)|$(size)", ["alpha beta|3", "gamma|4,5", "delta|"]),
        ("queue a,b from table tab.csv", "$(name)|$(size)$(a)", ["alpha beta|3", "gamma|4,5", "delta|"]),
        ("queue 2 from table [1:2] tab.csv", "$(name)$(Step)$(Row)", ["gamma01", "gamma11"]),
        ("queue from table(header=2) tab2.csv", "$(n)|$(m)", ["skip me|", "1|2", "3|4", "5|6"]),
        ("queue from table(header=2,skip=1) tab2.csv", "$(n)|$(m)", ["1|2", "3|4", "5|6"]),
        ("queue a,b from table(csv) [2:] tab.csv", "$(a)|$(b)", ["gamma|4,5", "delta|"]),
        ("queue from table(header=none) [3:] tab.csv", "$(Item)", ["delta"]),
        ("queue a,b from table(header=none, sep=5) [2:3] tab.csv", "$(a)|$(b)", ["gamma,4,|"]),
        ("queue from table (\nn,m\n1,2\n3 4,5 6\n)", "$(n)|$(m)", ["1|2", "3 4|5 6"]),
        ("queue from table seq 2 |", "$(1)", ["2"]),
        ("queue f matching t?.csv t1.csv", "$(f)", ["t1.csv", "t2.csv"]),
        (
            "submit_allow_duplicate_matches = true\nqueue f matching t1.csv t?.csv",
            "$(f)",
            ["t1.csv", "t1.csv", "t2.csv"],
        ),
        ("submit_match_directories = only\nqueue f matching t*", "$(f)", ["t/"]),
        ("submit_match_directories = never\nqueue f matching t t?.csv", "$(f)", ["t1.csv", "t2.csv"]),
    ],
)
def test_items_come_from_programs_standard_input_tables_and_files(
    statement: str, shown: str, arguments: list[str]
) -> None:
    submission = submit(f"arguments = {shown}\n{statement}", FILES)
    assert values(submission, "Args") == [f'"{argument}"' for argument in arguments]


def test_items_follow_a_description_on_standard_input() -> None:
    text = "executable = /bin/sleep\narguments = $(x)\nqueue x from -\none\ntwo\n"
    assert values(parse_submit(text, facts(submit_file="-"), FakeFiles()), "Args") == ['"one"', '"two"']


@together(
    ("lines", "warnings"),
    [
        ("queue f matching *.none t1.csv t?.csv", ["'*.none' does not match any files", "of item 0, skipping"]),
        ("submit_warn_empty_matches = false\nqueue f matching *.none t1.csv", []),
        ("use strict : false\nqueue f matching *.none t1.csv t1.csv", []),
        ("use strict : true\nqueue f matching t1.csv t1.csv", ["'t1.csv' matching pattern 't1.csv' is a duplicate"]),
    ],
)
def test_a_description_selects_the_warnings_about_patterns(lines: str, warnings: list[str]) -> None:
    printed = submit(f"arguments = $(f)\n{lines}", FILES).warnings
    assert len(printed) == len(warnings)
    assert all(expected in warning for expected, warning in zip(warnings, printed, strict=True))


@together(
    ("line", "priority", "arguments"),
    [
        ("include : makes lines |", "3", '"made"'),
        ("include command : makes lines", "3", '"made"'),
        ("include output : makes lines |", "3", '"made"'),
        ("include command into kept.sub : makes lines", "3", '"made"'),
        ("include command into tab.sub : makes lines", "4", None),
        ("include ifexist : none |", "0", None),
        ("include ifexist command : none", "0", None),
    ],
)
def test_lines_come_from_a_program(line: str, priority: str, arguments: str | None) -> None:
    ad = submit(f"{line}\nqueue", {**FILES, "tab.sub": "priority = 4\n"}).ad
    assert (ad["JobPrio"], ad.get("Args")) == (priority, arguments)


def test_the_output_of_a_program_is_stored_for_the_next_submission() -> None:
    files = FakeFiles(FILES)
    text = "executable = /bin/sleep\ninclude command into kept.sub : makes lines\nqueue"
    assert parse_submit(text, facts(), files).ad["JobPrio"] == "3"
    files.files["makes lines |"] = "priority = 9\n"
    assert parse_submit(text, facts(), files).ad["JobPrio"] == "3"


TEMPLATES = """\
PROJ = blue
SUBMIT_TEMPLATE_NAMES = Slurm, two, again
SUBMIT_TEMPLATE_Slurm @=tpl
   if ! $(1?)
      error : Slurm requires at least 1 argument
   endif
   +Site = "$(PROJ) $(3)"
   +Proj = "$(1)"
   +Queue = "$(2:Default) $(own) $(0#) $(2+)"
@tpl
SUBMIT_TEMPLATE_two = priority = 3
SUBMIT_TEMPLATE_three = priority = 4
SUBMIT_TEMPLATE_again = use template : again
"""


def ad_with_template(line: str) -> dict[str, str]:
    """Return the ad of a job whose description contains this line, in a pool with these templates."""
    settings = configured_submission_settings(read(TEMPLATES, subsystem="SUBMIT"))
    text = f"executable = /bin/sleep\nown = mine\n{line}\nqueue"
    return parse_submit(text, facts(settings=settings), FakeFiles()).ad


@together(
    ("line", "site", "project", "queue", "priority"),
    [
        ("use template : Slurm(Blue Book)", '"blue "', '"Blue Book"', '"Default mine 1 "', "0"),
        ("use TEMPLATE : slurm(a,b,c), two", '"blue c"', '"a"', '"b mine 3 b,c"', "3"),
        ("use template : two", None, None, None, "3"),
    ],
)
def test_a_template_is_read_with_its_arguments(
    line: str, site: str | None, project: str | None, queue: str | None, priority: str
) -> None:
    ad = ad_with_template(line)
    assert [ad.get(name) for name in ("Site", "Proj", "Queue", "JobPrio")] == [site, project, queue, priority]


@together(
    ("line", "message"),
    [
        ("use template : Slurm", "in use template : Slurm, Slurm requires at least 1 argument"),
        ("use template : three", "unknown template; there are strict : false, true, harsh, and template : SLURM, TWO"),
        ("use template : two(", "close the bracket after two"),
        ("use template : again", "templates use each other more than 20 levels deep"),
    ],
)
def test_an_invalid_template_is_rejected(line: str, message: str) -> None:
    with pytest.raises(SubmitError) as caught:
        ad_with_template(line)
    assert message in str(caught.value)


def random_arguments(lines: str, seed: int = 7) -> list[str | None]:
    """Return the arguments of a description's jobs with this seed."""
    text = f"executable = /bin/sleep\n{lines}"
    return values(parse_submit(text, facts(seed=seed), FakeFiles()), "Args")


def test_each_use_in_each_job_draws_another_random_value() -> None:
    lines = "x = $RANDOM_INTEGER(0, 1000000)\narguments = $(x) $(x)\nqueue 3"
    pairs = [str(text).strip('"').split() for text in random_arguments(lines)]
    assert len({number for pair in pairs for number in pair}) == 6


def test_random_values_depend_only_on_the_seed() -> None:
    lines = "arguments = $RANDOM_INTEGER(1,1000) $RANDOM_CHOICE(a,b,c,d)\nqueue 20"
    assert random_arguments(lines) == random_arguments(lines)
    assert random_arguments(lines) != random_arguments(lines, seed=8)


@together(
    ("macro", "possible"),
    [
        ("$RANDOM_INTEGER(1,3)", {"1", "2", "3"}),
        ("$RANDOM_INTEGER(-5,5,5)", {"-5", "0", "5"}),
        ("$RANDOM_INTEGER(1,10,4)", {"1", "5", "9"}),
        ("$RANDOM_CHOICE(a, b ,c)", {"a", "b", "c"}),
        ("$RANDOM_CHOICE(list)", {"p", "q", "r"}),
        ("$RANDOM_CHOICE(none)", {"none"}),
    ],
)
def test_random_values_include_all_possible_values_and_no_others(macro: str, possible: set[str]) -> None:
    arguments = random_arguments(f"list = p, q r\narguments = $(Process).{macro}\nqueue 200")
    assert {str(text).strip('"').partition(".")[2] for text in arguments} == possible


# SUBMIT_ATTRS, SUBMIT_EXPRS and SYSTEM_SUBMIT_ATTRS

ATTRIBUTES = """
SUBMIT_ATTRS = Site, +Region, MY.Tier, Nothing JobPrio
SUBMIT_EXPRS = SITE RequestCpus, ShouldTransferFiles Rank
SYSTEM_SUBMIT_ATTRS = PeriodicRemove Unquoted
Site = "here"
Region = "south"
SUBMIT.Region = strcat("n", $(N))
N = 3
Tier = 2
JobPrio = 7
RequestCpus = 3
ShouldTransferFiles = "YES"
Rank = 5
PeriodicRemove = JobStatus == 5
Unquoted = Geneva 2
"""


def submission_with_attributes(lines: str, configuration: str = ATTRIBUTES) -> Submission:
    settings = submission_settings(configured_submission_settings(read(configuration, subsystem="SUBMIT")))
    return parse_submit(f"executable = /bin/sleep\n{lines}\nqueue 2", facts(settings=settings), FakeFiles())


@together(
    ("lines", "attribute", "value"),
    [
        ("", "Site", '"here"'),
        ("+Site = 1", "Site", "1"),
        ("site = 1", "Site", '"here"'),
        ("", "Region", 'strcat("n",3)'),
        ("+Region = 1", "Region", "1"),
        ("MY.tier = $(Process)", "Tier", "0"),
        ("", "Tier", "2"),
        ("", "Nothing", None),
        ("", "Unquoted", None),
        ("", "JobPrio", "7"),
        ("priority = 1", "JobPrio", "1"),
        ("", "RequestCpus", "3"),
        ("request_cpus = 2", "RequestCpus", "2"),
        ("", "PeriodicRemove", "JobStatus == 5"),
        ("periodic_remove = false", "PeriodicRemove", "false"),
        ("", "ShouldTransferFiles", '"YES"'),
        ("transfer_input_files = /bin/sh", "ShouldTransferFiles", '"YES"'),
        ("should_transfer_files = NO", "ShouldTransferFiles", '"NO"'),
        ("", "Rank", "0.0"),
        ("rank = Memory", "Rank", "Memory"),
    ],
)
def test_submit_attributes_are_added_unless_the_description_sets_them(
    lines: str, attribute: str, value: str | None
) -> None:
    assert submission_with_attributes(lines).ad_of(0).get(attribute) == value


def test_a_submit_attribute_that_is_no_expression_is_reported() -> None:
    warning = "could not insert SUBMIT_ATTR Unquoted. did you forget to quote a string value?"
    assert submission_with_attributes("").warnings == [warning]
    with pytest.raises(SubmitError, match="Site = a b: Parse error in SUBMIT_ATTRS or SUBMIT_EXPRS value"):
        submission_with_attributes("", "SUBMIT_ATTRS = +Site\nSite = a b")


def test_a_pool_adds_submit_attributes_until_its_configuration_has_none() -> None:
    configuration = 'SUBMIT_ATTRS = Site, +JobPrio\nSite = "here"\nJobPrio = 3'
    with Pool.open(config=configuration) as pool:
        pool.submit({"executable": "/bin/sleep", "priority": 1})
        pool.configure("")
        pool.submit({"executable": "/bin/sleep", "priority": 1})
        assert [(job["JobPrio"], job.get("Site")) for job in pool.jobs()] == [(3, "here"), (1, None)]
