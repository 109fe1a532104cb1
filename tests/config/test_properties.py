"""property: whatever a text holds, it is read or refused, and a value that was read can be told."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.config import ConfigError, Configuration, read

EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "0")) // 10 or 50

NAMES = st.sampled_from(
    [
        "A",
        "B",
        "STARTD.A",
        "START",
        "SLOT1_START",
        "MINUTE",
        "LOCAL_CONFIG_FILE",
        "AUTO_USE_POLICY_A",
        "AUTO_USE_FEATURE_GPUs",
    ]
)
PIECES = st.one_of(
    NAMES.map(lambda name: f"$({name})"),
    NAMES.map(lambda name: f"$({name}:$({name}))"),
    st.tuples(
        st.sampled_from(
            ["INT", "REAL", "STRING", "EVAL", "F", "Fpq", "BASENAME", "ENV", "CHOICE", "SUBSTR", "RANDOM_CHOICE"]
        ),
        NAMES,
        st.sampled_from(["", ",1", ",%d", ", a, b", ",-1,B"]),
    ).map(lambda parts: f"${parts[0]}({parts[1]}{parts[2]})"),
    st.sampled_from(["$", "$(", ")", "$$(A)", "$(DOLLAR)", "1 + ", '"', "\\", "@end", "a, b", "$($(A))"]),
    st.text(max_size=4),
)
VALUES = st.lists(PIECES, max_size=5).map("".join)
LINES = st.one_of(
    st.tuples(NAMES, st.sampled_from([" = ", " += ", " +,= ", " @=", " : ", " "]), VALUES).map("".join),
    st.sampled_from(["if ", "elif ", "else", "endif", "use POLICY : ", "include : ", "error : ", "@end", "[x"]).flatmap(
        lambda word: VALUES.map(lambda value: word + value)
    ),
    st.sampled_from(["use POLICY : Desktop", "use FEATURE : GPUs(a, b)", "use FEATURE : Monitor(a,b,c,d,$(A),$(1))"]),
    st.text(max_size=30),
)
TEXTS = st.lists(LINES, max_size=8).map("\n".join)


def taken(text: str) -> Configuration | None:
    try:
        return read(text, seed=3)
    except ConfigError as problem:
        assert str(problem)
        return None


@settings(max_examples=EXAMPLES, deadline=None)
@given(TEXTS, st.dictionaries(NAMES.map(lambda name: f"_CONDOR_{name}"), VALUES, max_size=2))
def test_reading_ends_in_a_configuration_or_in_a_refusal_that_names_its_place(
    text: str, environment: dict[str, str]
) -> None:
    try:
        read(text, environment=environment)
    except ConfigError as problem:
        assert str(problem).startswith(problem.file or "LOCAL_CONFIG_FILE: ")


@settings(max_examples=EXAMPLES, deadline=None)
@given(TEXTS)
def test_each_setting_has_a_value_or_a_refusal_and_stays_as_it_is(text: str) -> None:
    found = taken(text)
    if found is None:
        return
    for name in [*found.names(), "START", "PERIODIC_CHECKPOINT", "MachineMaxVacateTime"]:
        try:
            value = found.get(name)
        except ConfigError as problem:
            assert problem.file
            continue
        assert found.get(name) == value
    again = taken(text)
    assert again is not None
    assert found.changed(again) == []
    assert (again.names(), again.warnings) == (found.names(), found.warnings)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("ABCDE")), max_size=8))
def test_exactly_what_leads_back_to_itself_is_refused_as_a_circle(edges: list[tuple[str, str]]) -> None:
    """A name that refers to others, each defined once, in one value; a reference to itself is gone at once."""
    to = {name: {end for start, end in edges if start == name} - {name} for name in "ABCDE"}
    text = "\n".join(f"{name} = {' '.join(f'$({end})' for end in sorted(ends))}" for name, ends in to.items())
    reached = {name: set(ends) for name, ends in to.items()}
    for _ in to:
        reached = {name: ends.union(*(to[end] for end in ends)) for name, ends in reached.items()}
    circular = any(name in ends for name, ends in reached.items())
    assert (taken(text) is None) == circular


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(st.sampled_from("ABCD"), st.text("abc $()\\,=:#\"' ", max_size=8), max_size=4))
def test_what_was_read_can_be_written_down_and_read_again(values: dict[str, str]) -> None:
    found = taken("\n".join(f"{name} = {value}" for name, value in values.items()))
    if found is None:
        return
    raw = {name: found.raw(name) or "" for name in found.names()}
    if any(text.rstrip().endswith("\\") for text in raw.values()):
        return  # would be continued by the next line
    again = taken("\n".join(f"{name} = {text}" for name, text in raw.items()))
    assert again is not None
    assert {name: again.raw(name) for name in again.names()} == {name: text.rstrip() for name, text in raw.items()}
