"""Golden: ads in the old form, the new form and JSON."""

import pytest
from hypothesis import given

from poolbook.domain.classad import (
    ERROR,
    ClassAd,
    ClassAdSyntaxError,
    parse,
)

from ..together import together
from . import oracle
from .ads import FIXED, unparsed
from .strategies import old_texts

# The old form -----------------------------------------------------------------------------------


def test_an_ad_in_the_old_form_has_a_line_for_each_attribute() -> None:
    ad = ClassAd.from_old('Memory = 2048\nLoadAvg = 0.25\nName = "slot1@host"\nStart = KeyboardIdle =?= undefined\n')
    assert unparsed(ad) == {
        "Memory": "2048",
        "LoadAvg": "2.500000000000000E-01",
        "Name": '"slot1@host"',
        "Start": "KeyboardIdle is undefined",
    }
    # Sorted by the length of the name, then by name; reals and operators as people write them.
    assert ad.to_old() == 'Name = "slot1@host"\nStart = KeyboardIdle =?= undefined\nMemory = 2048\nLoadAvg = 0.25\n'


@together(
    ("text", "new"),
    [
        ("", "[  ]"),
        ("\n\n", "[  ]"),
        ("# only a comment", "[  ]"),
        ("a=1", "[ a = 1 ]"),
        ("  a = \t1  \r\n", "[ a = 1 ]"),
        ("a = 1\n\nb = 2", "[ a = 1; b = 2 ]"),
        ("a = 1\nbad\nb = 2\n\nc = 3", "[ a = 1; c = 3 ]"),
        ("a = 1\nA = 2", "[ a = 2 ]"),
        (r'a = "x\y"', r'[ a = "x\\y" ]'),
        (r'a = "x\"y"', r'[ a = "x\"y" ]'),
        (r'a = "x\"', r'[ a = "x\\" ]'),
        ("a = {1, 2.0}", "[ a = { 1,2.000000000000000E+00 } ]"),
        ("a = [b = 1]", "[ a = [ b = 1 ] ]"),
        ("a = 1 // comment", "[ a = 1 ]"),
        ("a = b == 1", "[ a = b == 1 ]"),
        ("a == 1", "[  ]"),
        ("a = ", "[  ]"),
        ("= 1", "[  ]"),
        ("[a = 1]", "[ '[a' = 1 ]"),
    ],
)
def test_an_old_ad_is_read_leniently_by_default(text: str, new: str) -> None:
    assert ClassAd.from_old(text).to_new() == new
    reference = oracle.old_ad(text)
    assert reference == ("parse-error",) or reference[1] == new  # Python cannot see an ad that has no attributes


# A text, the offset of the character that is wrong, and a part of the message.
STRICTLY_REFUSED = [
    ("bad", 0, "Name = expression"),
    ("= 1", 0, "Name = expression"),
    ("a = 1\n  bad line\nb = 2", 8, "Name = expression"),
    ("a = 1\r\nbad", 7, "Name = expression"),
    ("a = ", 4, "the text ends here"),
    ("a = 1\nb = (", 11, "the text ends here"),
    ("a = 1\nb = (2\nc = 3", 12, "')'"),
    ("a = 017", 4, "begin with 0"),
    ('a = 1\nb = "open\nc = 3', 10, "is not closed"),
    # Reported by its place in the text, not by the first place with the same characters.
    ("# bad\nbad", 6, "Name = expression"),
    ("xa = 1\na = 1 +\n", 14, "the text ends here"),
    ("ba = (1)\na = (\n", 14, "the text ends here"),
    # Text that the reference reads and drops.
    ("a = 1 junk", 6, "found junk"),
    ('a = "two" "parts"', 10, "found"),
]


@together(("text", "position", "message"), STRICTLY_REFUSED)
def test_a_strict_reader_rejects_the_first_bad_line_and_says_where_it_is(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(ClassAdSyntaxError) as error:
        ClassAd.from_old(text, strict=True)
    assert error.value.text == text
    assert error.value.position == position
    assert message in error.value.message
    row = text.count("\n", 0, position) + 1
    assert row == 1 or f"(line {row}, column " in str(error.value)


@together("text", [row[0] for row in STRICTLY_REFUSED])
def test_a_bad_line_is_rejected_each_time_that_it_is_read(text: str) -> None:
    ClassAd.from_old(text)
    for _ in range(2):
        with pytest.raises(ClassAdSyntaxError):
            ClassAd.from_old(text, strict=True)


@FIXED
@given(old_texts())
def test_strict_and_lenient_readers_agree_about_valid_ads(text: str) -> None:
    try:
        ad = ClassAd.from_old(text, strict=True)
    except ClassAdSyntaxError:
        return
    assert ad == ClassAd.from_old(text)
    assert list(ad) == list(ClassAd.from_old(text))


def test_an_ad_is_independent_of_others_read_from_the_same_lines() -> None:
    ad, other = ClassAd.from_old("a = 1\nb = a"), ClassAd.from_old("a = 1\nb = a")
    ad["a"] = 2
    assert (ad.eval("b"), other.eval("b")) == (2, 1)


# The new form -----------------------------------------------------------------------------------


def test_an_ad_in_the_new_form_may_contain_ads() -> None:
    ad = ClassAd.from_new("[ b = a + 1;\n a = 1; N = [ c = b ] ] and what follows does not matter")
    assert list(ad) == ["b", "a", "N"]
    assert ad.to_new() == "[ a = 1; b = a + 1; N = [ c = b ] ]"
    assert parse("N.c").evaluate(ad) == 2


# JSON -------------------------------------------------------------------------------------------

EXAMPLE = r"""{
  "b": 0.25,
  "c": true,
  "d": null,
  "e": "\/Expr(error)\/",
  "f": "\/Expr(a + 1)\/",
  "l": [
    1,
    "\/Expr(f)\/",
    [
    ]
  ],
  "n": {
    "x": {
    }
  },
  "s": "say \"é\"\n\\",
  "Cpus": 8
}"""


def test_the_json_form_has_plain_values_as_such_and_expressions_as_marked_strings() -> None:
    ad = ClassAd({"Cpus": 8, "b": 0.25, "c": True, "d": None, "e": ERROR, "f": parse("a + 1")})
    ad["l"], ad["n"], ad["s"] = [1, parse("f"), []], {"x": {}}, 'say "é"\n\\'
    assert ad.to_json() == EXAMPLE
    assert ClassAd.from_json(EXAMPLE) == ad


@together(
    ("text", "new"),
    [
        ("{}", "[  ]"),
        ('{"a": 1, "B": -2.5}', "[ a = 1; B = -2.500000000000000E+00 ]"),
        ('{"a": null, "b": false}', "[ a = undefined; b = false ]"),
        ('{"a": "/Expr(b + 1)/"}', "[ a = b + 1 ]"),
        (r'{"a": "\/Expr(\"x\")\/"}', '[ a = "x" ]'),
        ('{"a": "/Expr("}', '[ a = "/Expr(" ]'),
        ('{"a": [1, {"b": "/Expr(c)/"}]}', "[ a = { 1,[ b = c ] } ]"),
        ('{"a": 1, "A": 2}', "[ a = 2 ]"),
        (r'{"a": "\u00e9\ud83d\ude00"}', r'[ a = "\303\251\360\237\230\200" ]'),
        ('{"a b": 1}', "[ 'a b' = 1 ]"),
        ('{"a": 9223372036854775808}', "[ a = 0 ]"),
        ('{"a": 1e999}', '[ a = real("INF") ]'),
    ],
)
def test_an_ad_is_read_from_json(text: str, new: str) -> None:
    assert ClassAd.from_json(text).to_new() == new


@together(
    ("text", "position"),
    [
        ("", 0),
        ("{", 1),
        ('{"a": 1} x', 9),
        ('{"a": tru}', 6),
        ("[1]", 0),
        ("5", 0),
    ],
)
def test_invalid_json_is_rejected_where_it_goes_wrong(text: str, position: int) -> None:
    with pytest.raises(ClassAdSyntaxError) as error:
        ClassAd.from_json(text)
    assert (error.value.text, error.value.position) == (text, position)


@pytest.mark.parametrize("text", ['{"Start": "/Expr(1 +)/"}', '{"a": [{"Start": "/Expr(017)/"}]}'])
def test_an_invalid_expression_is_rejected_in_json_too(text: str) -> None:
    with pytest.raises(ClassAdSyntaxError):
        ClassAd.from_json(text)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', '{"": 1}'])
def test_values_that_no_ad_can_have_are_rejected_in_json(text: str) -> None:
    with pytest.raises(ClassAdSyntaxError):
        ClassAd.from_json(text)
