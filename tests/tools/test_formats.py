"""Property and golden: -af and -format print values as the letters request, with or without ads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_tools import formats, queue_table
from poolbook.adapters.condor_tools.formats import join_lines, plain_attributes
from poolbook.adapters.condor_tools.layout import conversion
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.domain.classad import ClassAd, parse

from ..together import together
from .captures import printed, surroundings_at

AD = ClassAd.from_old(
    'ClusterId = 12\nProcId = 3\nOwner = "al\\"ice"\nSize = 2.5\nBig = 5e20\nYes = true\nTwice = ClusterId * 2\n'
    'Bad = 1 + "a"\nList = { 1,"a" }\nWhen = 1795214171\nLasted = 93784\n'
)


def af(*argv: str) -> str:
    return printed(queue_table.render([AD], queue_table.parse_arguments(argv), surroundings_at(me="")))


@together(
    ("argv", "text"),
    [
        (["-af", "ClusterId", "Owner"], '12 al"ice\n'),
        (["-af:V", "ClusterId", "Owner"], '12 "al\\"ice"\n'),
        (["-af:r", "Twice", "Owner", "NoSuch", "1 + 1"], 'ClusterId * 2 "al\\"ice" undefined 1 + 1\n'),
        (["-af", "Twice", "Bad", "NoSuch", "Yes", "Size", "List"], '24 error undefined true 2.5 { 1,"a" }\n'),
        (["-af:T", "Lasted"], "  1+02:03:04\n"),
        (["-af:Y", "When"], "11/20 22:36\n"),
        (["-af:T", "Owner"], "\n"),
        (["-af:,", "ClusterId", "ProcId"], "12, 3\n"),
        (["-af:t", "ClusterId", "ProcId"], "12\t3\n"),
        (["-af:n", "ClusterId", "ProcId"], "12\n 3\n"),
        (["-af:ng", "ClusterId", "ProcId"], "\n12\n3\n"),
        (["-af:l", "ClusterId", "Twice"], "ClusterId = 12 Twice = 24\n"),
        (["-af:lrng", "ClusterId", "Twice"], "\nClusterId = 12\nTwice = ClusterId * 2\n"),
        (["-af:j", "Size"], "12.3 2.5\n"),
        (["-af:jl", "Size"], "ID = 12.3 Size = 2.5\n"),
        (["-af:jh", "Size"], " ID  Size\n12.3 2.5 \n"),
        (["-af:h", "Owner"], 'Owner \nal"ice\n'),
        (["-autof", "ClusterId"], "12\n"),
        (["-af", "ClusterId", "-", "12.3"], "12\n"),
        (["-format", "%d-", "ClusterId", "-format", "%s\\n", "Owner"], '12-al"ice\n'),
        (["-format", "%05d|", "ClusterId", "-format", "%-4d|", "ProcId"], "00012|3   |"),
        (["-format", "%x %%", "ClusterId"], "c %"),
        (["-format", "%.2f", "ClusterId", "-format", "%8.1e", "Size"], "12.00 2.5e+00"),
        (["-format", "%d", "Size", "-format", "%d", "Yes"], "21"),
        (["-format", "%d", "Owner", "-format", "[%s]", "NoSuch"], ""),
        (
            ["-format", "%s,", "Twice", "-format", "%v,", "Twice", "-format", "%V", "Owner"],
            'ClusterId * 2,24,"al\\"ice"',
        ),
        (["-format", "%5s|", "NoSuch"], "     "),
        (["-format", "%.2s|%-6.4s", "Owner"], "al|%-6.4s"),
        (["-format", "end\\n", "Owner"], "end\n"),
        (["-format", "%c\\x41\\101", "ClusterId * 6"], "HAA"),
        (["-format", "%i", "Big", "-format", "%T", "Lasted"], "500000000000000000000  1+02:03:04"),
        (["-format", "%d", 'real("INF")'], ""),
        (["-format", "%*d", "ClusterId"], "%*d"),
    ],
)
def test_a_format_prints(argv: list[str], text: str) -> None:
    assert af(*argv) == text


@together(
    ("argv", "message"),
    [
        (["-af:x", "A"], "unknown letter 'x'; the letters are: j print the job's id first"),
        (["-af", "1 +"], "not a valid expression"),
        (["-af"], "-af needs <attr"),
        (["-format", "%d"], "-format needs <fmt> <attr>"),
        (["-format", "%99999999d", "A"], "at most 10000 letters"),
        (["-json", "-xml"], "cannot be combined; use one of them"),
    ],
)
def test_an_invalid_format_is_wrong_usage(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        queue_table.parse_arguments(argv)


@given(st.text(alphabet="%-+ #0'.123dioxXceEfgGaAsvVrTYhlnq\\n*", max_size=12), st.sampled_from(list(AD)))
def test_any_format_prints_any_value_or_nothing(form: str, name: str) -> None:
    text = conversion(form).text_of_attribute(AD, name, surroundings_at().context())
    assert text is None or isinstance(text, str)


# -- without ads ------------------------------------------------------------------------------------------------------


@together(
    ("argv", "attributes"),
    [
        (["-af", "ClusterId", "ProcId", "JobStatus"], ["ClusterId", "ProcId", "JobStatus"]),
        (["-af:j", "Owner"], ["ClusterId", "ProcId", "Owner"]),
        (["-af:lng", "Owner"], ["Owner"]),
        (["-af:,t", "Owner", "-all", "-limit", "3"], ["Owner"]),
        (["-af:h", "Owner"], None),
        (["-af:V", "Owner"], None),
        (["-af:r", "Owner"], None),
        (["-af", "ClusterId * 2"], None),
        (["-af", "MY.Owner"], None),
        (["-af", "undefined"], None),
        (["-af", "Owner", "-format", "%s", "Owner"], None),
        (["-af", "Owner", "-af", "ProcId"], None),
        (["-af", "Owner", "--json"], None),
        (["-nobatch"], None),
    ],
)
def test_bare_attributes_need_no_ads(argv: list[str], attributes: list[str] | None) -> None:
    assert plain_attributes(queue_table.parse_arguments(argv).arguments) == attributes


@pytest.mark.parametrize(
    ("argv", "texts_suffice", "statuses"),
    [
        (["alice", "12", "-limit", "3", "-af", "Owner"], True, None),
        (["-held", "-af", "Owner"], True, (5,)),
        (["-run", "-af", "Owner"], True, (2, 6, 7)),
        (["-constraint", "true", "-af", "Owner"], False, None),
        (["-io", "-af", "Owner"], False, None),
    ],
)
def test_a_query_knows_whether_texts_suffice_and_which_jobs_it_needs(
    argv: list[str], texts_suffice: bool, statuses: tuple[int, ...] | None
) -> None:
    query = queue_table.parse_arguments(argv)
    assert query.plain_attributes == (["Owner"] if texts_suffice else None)
    assert query.statuses == statuses


NAMES = st.sampled_from(["Owner", "ClusterId", "NoSuch", "Yes"])
LETTERS = st.sets(st.sampled_from("jl,tng")).map(lambda letters: "".join(sorted(letters)))
JOBS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9), st.text(max_size=5).filter("\0".__ne__)), max_size=8)


@given(LETTERS, st.lists(NAMES, min_size=1, max_size=4), JOBS)
def test_rows_of_texts_print_like_the_ads(letters: str, names: list[str], jobs: list[tuple[int, int, str]]) -> None:
    unique = {job[:2]: job for job in jobs}
    ads = [
        ClassAd({"ClusterId": cluster, "ProcId": proc, "Owner": owner.replace("\0", ""), "Yes": True})
        for cluster, proc, owner in (unique[key] for key in sorted(unique))
    ]
    query = queue_table.parse_arguments([f"-af:{letters}" if letters else "-af", *names])
    columns = plain_attributes(query.arguments)
    assert columns is not None
    texts = {"NoSuch": "undefined", "Yes": "true"}
    rows = [[texts.get(name) or str(ad.eval(name)) for name in columns] for ad in ads]
    assert printed(join_lines(query.arguments, rows)) == printed(queue_table.render(ads, query, surroundings_at(me="")))


def test_a_hundred_thousand_rows_come_in_blocks() -> None:
    query = queue_table.parse_arguments(["-af", "ClusterId", "ProcId"])
    blocks = list(join_lines(query.arguments, (("12", str(proc)) for proc in range(100_000))))
    assert len(blocks) < 100
    assert printed(blocks).count("\n") == 100_000


# -- whole ads --------------------------------------------------------------------------------------------------------


def test_attributes_are_sorted_ignoring_case() -> None:
    ad = ClassAd({"b": 1, "A": 2, "C": 3})
    assert formats.long_text(ad) == "A = 2\nb = 1\nC = 3\n\n"
    assert formats.long_text(ad, ["c", "B", "nosuch"]) == "B = 1\nc = 3\n\n"  # as condor_q does, spelled as in the list
    assert formats.long_text(ad, ["nosuch"]) == ""


def test_json_of_any_ad_is_json() -> None:
    assert json.loads(formats.json_text(AD))["Twice"] == "/Expr(ClusterId * 2)/"
    assert json.loads(formats.json_text(ClassAd())) == {}


def test_inherited_attributes_are_printed_like_own_ones() -> None:
    proc = ClassAd({"ProcId": 7}, chained=ClassAd({"ClusterId": 1, "ProcId": 0}))
    assert formats.long_text(proc) == "ClusterId = 1\nProcId = 7\n\n"


@together(
    ("expression", "element"),
    [
        ("1", "<i>1</i>"),
        ("2.5", "<r>2.500000000000000E+00</r>"),
        ("0.0", "<r>0.0</r>"),
        ('"a<b & \\"c\\""', '<s>a&lt;b &amp; "c"</s>'),
        ("true", '<b v="t"/>'),
        ("undefined", "<un/>"),
        ("error", "<er/>"),
        ("{ 1,{ } }", "<l><i>1</i><l></l></l>"),
        ("a < 1 && b", "<e>a &lt; 1 &amp;&amp; b</e>"),
        ("[ n = 1 ]", '<c>\n        <a n="n"><i>1</i></a>\n    </c>'),
    ],
)
def test_each_kind_of_value_has_its_xml_element(expression: str, element: str) -> None:
    ad = ClassAd({"A": parse(expression)})
    text = printed(formats.whole_ads("xml", [ad], None))
    assert f'    <a n="A">{element}</a>\n' in text
