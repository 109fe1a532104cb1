"""Property: for any arguments and ads, a command either works or fails with a message."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.cli import job_actions, prio
from poolbook.adapters.condor_tools import history, queue_table, status
from poolbook.adapters.condor_tools.analyze import AnalyzedSlots, RejectionAnalysis
from poolbook.adapters.condor_tools.autocluster_table import signature_from_ad
from poolbook.adapters.condor_tools.options import Help, ToolError, UsageError, Version
from poolbook.domain.classad import ClassAd

from .captures import captured_ads, surroundings_at
from .test_options import COMMANDS

WORDS = st.one_of(
    st.sampled_from(["12", "12.3", "alice", "slot1@a", "ClusterId", "1 +", "", "-", "--", "-5", "+5", "%d", "A,B"]),
    st.text(max_size=6),
)


def options(command: str) -> st.SearchStrategy[list[str]]:
    """Words, and options of a command: some shortened, some with text after a colon, few with their values."""
    names = st.sampled_from([option.name for option in COMMANDS[command].options])
    shortened = st.tuples(names, st.integers(1, 12)).map(lambda pair: "-" + pair[0][: pair[1]])
    return st.one_of(shortened, st.tuples(names, WORDS).map(lambda p: f"-{p[0]}:{p[1]}"), WORDS).map(lambda w: [w])


FITTING = {
    "<expr>": "ClusterId > 1",
    "<n>": "2",
    "<fmt>": "%5.1d|",
    "<attr>": "Cmd",
    "<attr>...": "Owner",
    "<time>": "9",
}


def fitting(command: str) -> st.SearchStrategy[list[str]]:
    """Options of a command with their values."""
    supported = [option for option in COMMANDS[command].options if not option.refused and option.name != "help"]
    return st.sampled_from(
        [[f"-{option.name}", *(FITTING.get(value, "1") for value in option.values.split())] for option in supported]
    )


def lines_of(command: str) -> st.SearchStrategy[list[str]]:
    """Valid and invalid command lines."""
    part = st.one_of(fitting(command), fitting(command), options(command))
    parts = st.one_of(st.lists(part, max_size=4), st.lists(fitting(command), max_size=3))
    return parts.map(lambda parts: [word for part in parts for word in part])


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(alphabet="ab/'\" \n%{}é", max_size=8),
    st.lists(st.integers(0, 3), max_size=2),
)
SHOWN = sorted(
    {name for ad in (captured_ads("q_long")[0], captured_ads("status_long")[0]) for name in ad}, key=str.lower
)
ADS = st.lists(st.dictionaries(st.sampled_from(SHOWN), VALUES, max_size=25).map(ClassAd), max_size=3)
WIDTHS = st.one_of(st.none(), st.integers(1, 200))


@given(lines_of("q"), ADS, WIDTHS)
def test_q_prints_or_reports_the_error(argv: list[str], ads: list[ClassAd], width: int | None) -> None:
    slots = AnalyzedSlots(captured_ads("status_long")[:1], signature_from_ad)
    with suppress(Help, UsageError, ToolError, Version):
        assert all(
            isinstance(text, str)
            for text in queue_table.render(
                ads, queue_table.parse_arguments(argv), surroundings_at(width=width),
                judge=lambda _: RejectionAnalysis(None), slots=slots, autocluster_of=lambda ad: [ad],
            )
        )  # fmt: skip


@given(lines_of("status"), ADS, WIDTHS)
def test_status_prints_or_reports_the_error(argv: list[str], ads: list[ClassAd], width: int | None) -> None:
    with suppress(Help, UsageError, ToolError, Version):
        assert all(
            isinstance(text, str)
            for text in status.render(ads, status.parse_arguments(argv), surroundings_at(width=width))
        )


@given(lines_of("history"), ADS, WIDTHS)
def test_history_prints_or_reports_the_error(argv: list[str], ads: list[ClassAd], width: int | None) -> None:
    with suppress(Help, UsageError, ToolError, Version):
        assert all(
            isinstance(text, str)
            for text in history.render(ads, history.parse_arguments(argv), surroundings_at(width=width))
        )


@given(st.sampled_from(["rm", "hold", "release", "vacate"]), lines_of("rm"))
def test_an_action_is_parsed_or_reports_the_error(command: str, argv: list[str]) -> None:
    try:
        request = job_actions.parse_arguments(command, argv)
    except (Help, UsageError, Version):
        return
    assert request.ids or request.slots or request.selection is not None


@given(lines_of("prio"))
def test_a_priority_is_parsed_or_reports_the_error(argv: list[str]) -> None:
    try:
        request = prio.parse_arguments(argv)
    except (Help, UsageError, Version):
        return
    assert isinstance(request.step if request.priority is None else request.priority, int)
