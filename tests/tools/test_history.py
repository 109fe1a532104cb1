"""Golden: `poolbook history` and condor_history print the same for the same jobs."""

import re
from collections.abc import Iterator

import pytest

from poolbook.adapters.condor_tools import history
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.domain.classad import ClassAd

from ..together import together
from .captures import Capture, capture, captured_ads, changed, printed, surroundings_at

LETTERS = {"R": 2, "X": 3, "C": 4}


def jobs_of(table: Capture) -> list[ClassAd]:
    """Return ads with the values in the lines of a table."""
    return [job_of(line) for line in table.out.splitlines()[1:]]


def job_of(line: str) -> ClassAd:
    match = re.fullmatch(r"(\d+)\.(\d+) +(\w+) +(\S+ \S+) +(\d+)\+(\S+) (.) +(\d+/\d+ \S+)? +(\S.*)", line)
    assert match is not None, line
    cluster, proc, owner, submit_time, days, clock, letter, completed, command = match.groups()
    hours, minutes, seconds = map(int, clock.split(":"))
    ad = ClassAd(
        {
            "ClusterId": int(cluster),
            "ProcId": int(proc),
            "Owner": owner,
            "QDate": seconds_of(submit_time),
            "RemoteWallClockTime": float(int(days) * 86400 + hours * 3600 + minutes * 60 + seconds),
            "JobStatus": LETTERS[letter],
        }
    )
    if completed:
        ad["CompletionDate"] = seconds_of(completed)
    program, _, arguments = command.partition(" ")
    ad["Cmd"] = "/bin/" + program
    if command.startswith("("):
        ad["JobDescription"] = command[1:-1]
    elif arguments:
        ad["Arguments"] = arguments
    return ad


def seconds_of(text: str) -> int:
    """Return the seconds of ``11/20 22:36``."""
    hours, minutes = map(int, text.removeprefix("11/20 ").split(":"))
    return 1795132800 + hours * 3600 + minutes * 60


def last_three() -> Iterator[ClassAd]:
    """Return the jobs of cluster 62, the last one first, from the one that was printed completely."""
    (first,) = captured_ads("history_long")
    for proc in (2, 1, 0):
        yield changed(first, ProcId=proc, LastRemoteHost=f"slot1_{proc + 1}@localhost")


TABLES = ["history_default", "history_user", "history_completedsince", "history_empty"]


@pytest.mark.parametrize("name", TABLES)
def test_the_captured_history_prints_as_by_condor_history(name: str) -> None:
    expected = capture(name)
    jobs = jobs_of(expected)
    assert printed(history.render(jobs, history.parse_arguments(expected.argv), surroundings_at())) == expected.out
    assert len(jobs) > 50 or name == "history_empty"


CLUSTER_62 = [
    "history_af",
    "history_af_lng",
    "history_cluster",
    "history_job",
    "history_limit",
    "history_since",
]


@together("name", CLUSTER_62)
def test_jobs_are_chosen_and_the_last_one_comes_first(name: str) -> None:
    expected = capture(name)
    assert (
        printed(history.render(last_three(), history.parse_arguments(expected.argv), surroundings_at())) == expected.out
    )


def test_runs_are_printed_in_the_same_table() -> None:
    expected = capture("history_epochs")
    query = history.parse_arguments(expected.argv)
    assert query.arguments.has("epochs")
    assert printed(history.render(jobs_of(expected), query, surroundings_at())) == expected.out


def test_a_job_is_printed_completely() -> None:
    expected = capture("history_long")
    assert (
        printed(history.render(last_three(), history.parse_arguments(expected.argv), surroundings_at())) == expected.out
    )


@pytest.mark.parametrize("name", ["history_json", "history_json_attributes"])
def test_jobs_are_printed_as_json(name: str) -> None:
    expected = capture(name)
    whole_one = ClassAd.from_json(capture("history_json").out.removeprefix("[\n").removesuffix("]\n"))
    jobs = [whole_one, *list(last_three())[1:]]
    assert printed(history.render(jobs, history.parse_arguments(expected.argv), surroundings_at())) == expected.out


@pytest.mark.parametrize("name", ["history_match", "history_wide"])
def test_a_limit_ends_the_list(name: str) -> None:
    expected = capture(name)
    jobs = jobs_of(capture("history_default"))
    assert printed(history.render(jobs, history.parse_arguments(expected.argv), surroundings_at())) == expected.out


def test_forwards_means_that_the_first_job_comes_first() -> None:
    expected = capture("history_forwards")
    query = history.parse_arguments(expected.argv)
    assert query.forwards
    jobs = jobs_of(capture("history_default"))[::-1]
    assert printed(history.render(jobs, query, surroundings_at())) == expected.out


def test_a_constraint_chooses_jobs() -> None:
    expected = capture("history_constraint")
    failed = [changed(job, ExitCode=3) for job in jobs_of(expected)]
    other_jobs = [changed(job, ExitCode=0) for job in jobs_of(capture("history_default"))]
    jobs = [job for pair in zip(failed, other_jobs, strict=False) for job in pair]
    assert printed(history.render(jobs, history.parse_arguments(expected.argv), surroundings_at())) == expected.out


@pytest.mark.parametrize("name", ["history_bad_constraint", "history_match_bad"])
def test_an_invalid_constraint_is_wrong_usage_and_shown(name: str) -> None:
    expected = capture(name)
    assert expected.exit_code == 1
    with pytest.raises(UsageError, match="-constraint: not a valid expression"):
        history.parse_arguments(expected.argv)


# -- beyond the captures ----------------------------------------------------------------------------------------------


def ended(proc: int, **attributes: object) -> ClassAd:
    return ClassAd({"ClusterId": 1, "ProcId": proc, "Owner": "alice", "CompletionDate": 100 * proc, **attributes})


@together(
    ("argv", "procs"),
    [
        ([], [5, 4, 3, 2, 1]),
        (["-limit", "2"], [5, 4]),
        (["-scanlimit", "3", "1.3"], [3]),
        (["-scanlimit", "2", "1.3"], []),
        (["-since", "1.3"], [5, 4]),
        (["-since", "ProcId < 3"], [5, 4, 3]),
        (["-since", "1"], []),
        (["-completedsince", "200"], [5, 4, 3]),
        (["1.2", "bob"], [4, 2]),
        (["-constraint", "ProcId > 1", "-constraint", "ProcId < 4"], [3, 2]),
        (["-constraint", "NoSuch > 1"], []),
    ],
)
def test_the_requested_jobs_are_printed(argv: list[str], procs: list[int]) -> None:
    jobs = [ended(proc, Owner="bob" if proc == 4 else "alice") for proc in (5, 4, 3, 2, 1)]
    lines = printed(history.render(jobs, history.parse_arguments([*argv, "-af", "ProcId"]), surroundings_at())).split()
    assert list(map(int, lines)) == procs


def test_no_more_jobs_are_read_than_are_needed() -> None:
    def jobs() -> Iterator[ClassAd]:
        yield ended(2)
        yield ended(1)
        pytest.fail("the third job was asked for, although two were wanted")

    assert len(list(history.render(jobs(), history.parse_arguments(["-limit", "2"]), surroundings_at()))) == 3


def test_lines_end_at_the_terminals_edge_but_not_with_wide() -> None:
    job = ended(1, Cmd="/bin/" + "x" * 100)
    assert (
        max(map(len, history.render([job], history.parse_arguments([]), surroundings_at(width=80)))) == 80
    )  # 79 and the newline
    assert "x" * 100 in printed(history.render([job], history.parse_arguments(["-wide"]), surroundings_at(width=80)))


def test_since_stops_while_going_back_and_so_excludes_forwards() -> None:
    with pytest.raises(UsageError, match="-since stops a backwards scan"):
        history.parse_arguments(["-since", "1.0", "-forwards"])


@pytest.mark.parametrize(
    "argv", [["-json", "-xml"], ["-jsonl", "-json"], ["-since", "("], ["-limit", "x"], ["-af:q", "A"]]
)
def test_meaningless_arguments_are_wrong_usage(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        history.parse_arguments(argv)
