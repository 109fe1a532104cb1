"""property: any text is read or rejected, and each value can be printed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain.config import ConfigError, Configuration, read

from ..sampling import examples

EXAMPLES = examples(50, 10)

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


def read_or_none(text: str) -> Configuration | None:
    try:
        return read(text, seed=3)
    except ConfigError as error:
        assert str(error)
        return None


@settings(max_examples=EXAMPLES, deadline=None)
@given(TEXTS, st.dictionaries(NAMES.map(lambda name: f"_CONDOR_{name}"), VALUES, max_size=2))
def test_any_text_is_a_configuration_or_an_error_that_names_its_file(text: str, environment: dict[str, str]) -> None:
    try:
        read(text, environment=environment)
    except ConfigError as error:
        assert str(error).startswith(error.file or "LOCAL_CONFIG_FILE: ")


@settings(max_examples=EXAMPLES, deadline=None)
@given(TEXTS)
def test_each_setting_always_has_the_same_value_or_an_error(text: str) -> None:
    configuration = read_or_none(text)
    if configuration is None:
        return
    for name in [*configuration.names(), "START", "PERIODIC_CHECKPOINT", "MachineMaxVacateTime"]:
        try:
            value = configuration.get(name)
        except ConfigError as error:
            assert error.file
            continue
        assert configuration.get(name) == value
    reread = read_or_none(text)
    assert reread is not None
    assert configuration.changed_names(reread) == []
    assert (reread.names(), reread.warnings) == (configuration.names(), configuration.warnings)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("ABCDE")), max_size=8))
def test_circular_references_are_rejected_and_others_are_not(edges: list[tuple[str, str]]) -> None:
    """Each name is defined once and refers to others; a reference to itself would expand to its earlier value."""
    targets = {name: {end for start, end in edges if start == name} - {name} for name in "ABCDE"}
    text = "\n".join(f"{name} = {' '.join(f'$({end})' for end in sorted(ends))}" for name, ends in targets.items())
    reachable = {name: set(ends) for name, ends in targets.items()}
    for _ in targets:
        reachable = {name: ends.union(*(targets[end] for end in ends)) for name, ends in reachable.items()}
    circular = any(name in ends for name, ends in reachable.items())
    assert (read_or_none(text) is None) == circular


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(st.sampled_from("ABCD"), st.text("abc $()\\,=:#\"' ", max_size=8), max_size=4))
def test_raw_values_can_be_written_and_read_again(values: dict[str, str]) -> None:
    configuration = read_or_none("\n".join(f"{name} = {value}" for name, value in values.items()))
    if configuration is None:
        return
    raw = {name: configuration.raw_value(name) or "" for name in configuration.names()}
    if any(text.rstrip().endswith("\\") for text in raw.values()):
        return  # the next line would continue it
    reread = read_or_none("\n".join(f"{name} = {text}" for name, text in raw.items()))
    assert reread is not None
    assert {name: reread.raw_value(name) for name in reread.names()} == {
        name: text.rstrip() for name, text in raw.items()
    }
