"""Print complete ads or selected attributes: -af, -format, -long, -json, -jsonl, -xml, and -attributes.

The letters after ``-af:`` are HTCondor's (manual: condor_q, -autoformat). Plain attribute names can be printed without
ads: ``plain_attributes`` returns the columns, and ``join_lines`` formats rows of texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .cells import job_id
from .layout import Column, Layout, conversion
from .options import AUTOFORMAT_LETTERS, Arguments, GivenOption, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression

SEPARATORS: dict[str, dict[str, str]] = {
    ",": {"after": ","},
    "t": {"before": "\t"},
    "n": {"after": "\n"},
    "g": {"before_row": "\n", "before": ""},
}
"""The separators of values and lines for each letter after ``-af:``."""

PRINTF_BY_LETTER = {"r": "%r", "V": "%V", "Y": "%Y", "T": "%T"}
"""The printf format of values for each letter after ``-af:`` and ``-aaf:``. The first one that was given applies."""


MAX_WIDTH = 10_000


class Autoformat(NamedTuple):
    """The letters of an ``-af`` option, and its attributes or expressions."""

    letters: str
    attributes: tuple[str, ...]

    @property
    def form(self) -> str:
        letters = self.letters.replace("o", "r")
        return next((form for letter, form in PRINTF_BY_LETTER.items() if letter in letters), "%v")


def autoformat(option: GivenOption) -> Autoformat:
    """Parse an ``-af`` option. Like HTCondor's tools, stop at the first blank attribute. Raise `UsageError` if a letter
    is unknown or an expression is invalid."""
    letters = option.qualifier or ""
    for letter in letters:
        if letter not in AUTOFORMAT_LETTERS and letter != "o":
            meanings = "; ".join(f"{name} {meaning}" for name, meaning in AUTOFORMAT_LETTERS.items())
            raise UsageError(f"{option.spelling}: unknown letter {letter!r}; the letters are: {meanings}")
    attributes = []
    for attribute in option.values:
        if not attribute.strip():
            break
        attributes.append(check_expression(option.spelling, attribute))
    return Autoformat(letters, tuple(attributes))


def custom_layout(arguments: Arguments) -> Layout | None:
    """Return the layout of the -af and -format options, in their order, or None if there are none."""
    columns: list[Column] = []
    separators: dict[str, str] | None = None
    has_headings = False
    for option in arguments.all_given("af", "autoformat", "format"):
        if option.name == "format":
            form, source = option.values
            check_expression(option.spelling, source)
            parsed_form = conversion(form)
            if max(parsed_form.width, int(parsed_form.precision or 0)) > MAX_WIDTH:
                raise UsageError(f"{option.spelling} {form!r}: a column has at most {MAX_WIDTH} letters")
            alignment = -1 if "-" in parsed_form.flags else 1
            columns.append(Column("", source, parsed_form.width * alignment, form))
            continue
        autoformat_form = autoformat(option)
        has_headings = has_headings or "h" in autoformat_form.letters
        columns += _autoformat_columns(autoformat_form)
        separators = {"before": " "}
        for letter in autoformat_form.letters:
            separators |= SEPARATORS.get(letter, {})
    if separators is None:
        return Layout(tuple(columns), before="", after_row="", headed=False) if columns else None
    return Layout(tuple(columns), headed=has_headings, **separators)  # type: ignore[arg-type]


def _autoformat_columns(form: Autoformat) -> Iterator[Column]:
    """Yield the columns of an -af option: with headings they are as wide as their data, otherwise unpadded."""
    has_headings, has_labels = "h" in form.letters, "l" in form.letters
    width = None if has_headings else 0
    if "j" in form.letters:
        yield Column(" ID", (lambda ad, _: f"ID = {job_id(ad)}") if has_labels else job_id, width)
    for source in form.attributes:
        label = f"{source} = ".replace("%", "%%") if has_labels and not has_headings else ""
        yield Column(source, source, width, label + form.form)


def check_expression(option: str, text: str) -> str:
    """Return the text if it is a valid expression; plain names are not parsed.

    :raises UsageError: the expression is invalid; the message contains the position of the error
    """
    if not re.fullmatch(_NAME, text):
        parse_expression(option, text)
    return text


def parse_expression(option: str, text: str) -> Expression:
    """Parse an option's value as an expression.

    :raises UsageError: the expression is invalid; the message contains the position of the error
    """
    from ...domain.classad import ClassAdSyntaxError, parse

    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise UsageError(f"{option}: not a valid expression: {error}") from None


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_RESERVED_WORDS = frozenset({"error", "false", "is", "isnt", "my", "parent", "target", "true", "undefined"})
_PLAIN_LETTERS = frozenset("jl,tng")
_BLOCK = 4096


def plain_attributes(arguments: Arguments) -> list[str] | None:
    """Return the attributes of the only ``-af`` option if all are plain names that need no ads, else None.

    Ads are needed for expressions, for letters that depend on types (V, r, T, Y) or widths (h), for -format, and for
    complete ads or a label next to an id. With the letter j, ClusterId and ProcId come first.
    """
    if arguments.has("format", "long", "json", "jsonl", "xml", "totals", "attributes"):
        return None
    options = list(arguments.all_given("af", "autoformat"))
    if len(options) != 1 or not _PLAIN_LETTERS.issuperset(options[0].qualifier or ""):
        return None
    form = autoformat(options[0])
    if not all(re.fullmatch(_NAME, name) and name.lower() not in _RESERVED_WORDS for name in form.attributes):
        return None
    return (["ClusterId", "ProcId"] if "j" in form.letters else []) + list(form.attributes)


def join_lines(arguments: Arguments, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Format rows of texts, in the order of ``plain_attributes``, like -af; yield blocks of several thousand lines. The
    texts are formatted as for ``%v``: strings unquoted, ``undefined`` for a missing value."""
    (option,) = arguments.all_given("af", "autoformat")
    form = autoformat(option)
    places = ["{}"] * len(form.attributes)
    labels = [name + " = " if "l" in form.letters else "" for name in form.attributes]
    if "j" in form.letters:
        places, labels = ["{}.{}", *places], ["ID = " if "l" in form.letters else "", *labels]
    layout = custom_layout(arguments)
    assert layout is not None
    fields = [label + place for label, place in zip(labels, places, strict=True)]
    template = layout.before_row + (layout.after + layout.before).join(fields) + layout.after_row
    write = template.format
    rows = iter(rows)
    while block := list(islice(rows, _BLOCK)):
        yield "".join([write(*row) for row in block])


def chosen_names(ad: ClassAd, attributes: Sequence[str] | None) -> list[str]:
    """Return the names of an ad's attributes in alphabetical order: all, or those in the list, spelled as there."""
    return sorted(ad if attributes is None else {name for name in attributes if name in ad}, key=str.lower)


def attribute_list(arguments: Arguments) -> list[str] | None:
    """Return the names given with -attributes, or None without the option."""
    names = [
        name for option in arguments.all_given("attributes") for name in re.split(r"[,\s]+", option.values[0]) if name
    ]
    return names or None


Written = Callable[["ClassAd", str], str]
"""A function that returns the text of an ad's attribute."""

_MAX_CACHED = 50_000


def _cached_formatter(write: Callable[[ClassAd], str]) -> Written:
    """Return a formatter that formats an attribute shared by many ads, as in a cluster, only once."""
    from ...domain.classad import ClassAd

    texts: dict[tuple[str, int], tuple[Expression, str]] = {}

    def format_attribute(ad: ClassAd, name: str) -> str:
        expression = ad[name]
        key = name, id(expression)
        known_text = texts.get(key)
        if known_text is None:
            if len(texts) >= _MAX_CACHED:
                texts.clear()
            # Store the expression with its text, so that no other expression can have the same id.
            known_text = texts[key] = expression, write(ClassAd({name: expression}))
        return known_text[1]

    return format_attribute


def line_writer() -> Written:
    """Return a formatter of attributes as lines ``Name = value``."""
    return _cached_formatter(lambda ad: ad.to_old())


def json_member_writer() -> Written:
    """Return a formatter of attributes as members of a JSON object."""
    return _cached_formatter(lambda ad: ad.to_json()[1:-2])


def long_text(ad: ClassAd, attributes: Sequence[str] | None = None, write_line: Written | None = None) -> str:
    """Return the ad as lines ``Name = value`` and an empty line; empty if the ad has none of the attributes.

    :param write_line: ``line_writer()``; pass the same function for all ads, because it caches lines
    """
    write_line = write_line or line_writer()
    lines = "".join([write_line(ad, name) for name in chosen_names(ad, attributes)])
    return lines + "\n" if lines else ""


def json_text(ad: ClassAd, attributes: Sequence[str] | None = None, write_line: Written | None = None) -> str:
    """Return the ad as a JSON object: plain values as JSON values, expressions as ``"\\/Expr(...)\\/"``.

    :param write_line: ``json_member_writer()``; pass the same function for all ads, because it caches members
    """
    write_line = write_line or json_member_writer()
    return "{" + ",".join([write_line(ad, name) for name in chosen_names(ad, attributes)]) + "\n}"


XML_HEAD = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
XML_FOOT = "</classads>\n"


def whole_ads(
    form: str,
    ads: Iterable[ClassAd],
    attributes: Sequence[str] | None,
    *,
    bare: bool = True,
    gap: str = "",
    edge: str = "",
) -> Iterator[str]:
    """Yield the ads in one of the formats ``long``, ``json``, ``jsonl``, ``xml``.

    :param bare: whether to print nothing for an empty JSON list (like condor_q), instead of ``[ ]``
    :param gap: the text after each ad in XML
    :param edge: the text after the XML header and after the XML footer
    """
    if form == "long":
        write_line = line_writer()
        yield from (long_text(ad, attributes, write_line) for ad in ads)
    elif form == "jsonl":
        write_line = json_member_writer()
        yield from (re.sub(r"\n *", "", json_text(ad, attributes, write_line)) + "\n" for ad in ads)
    elif form == "json":
        write_line = json_member_writer()
        is_begun = False
        for ad in ads:
            yield (",\n" if is_begun else "[\n") + json_text(ad, attributes, write_line) + "\n"
            is_begun = True
        if is_begun or not bare:
            yield "]\n" if is_begun else "[\n]\n"
    else:
        from .xml_form import xml_text

        yield XML_HEAD + edge
        yield from (xml_text(ad, chosen_names(ad, attributes)) + gap for ad in ads)
        yield XML_FOOT + edge


def bare_json(arguments: Arguments) -> bool:
    """Return True if an empty JSON list prints nothing, as with ``-json``; ``--json`` prints an empty list."""
    option = arguments.last("json")
    return option is None or not option.spelling.startswith("--")


_LONG_FORMS = ("auto", "long", "xml", "json")
"""The formats of -long:FORMAT; HTCondor's ``new`` is not implemented."""


def ads_form(arguments: Arguments) -> str | None:
    """Return the format for complete ads: ``long``, ``json``, ``jsonl``, ``xml``, or None if none is requested. Raise
    `UsageError` if two of the last three are given, or the format of -long is unknown."""
    forms = [name for name in ("json", "jsonl", "xml") if arguments.has(name)]
    option = arguments.last("long")
    if option is not None and option.qualifier is not None:
        if option.qualifier not in _LONG_FORMS:
            raise UsageError(f"{option.spelling}: unknown format; use {', '.join(_LONG_FORMS)}")
        if option.qualifier in ("json", "xml"):
            forms.append(option.qualifier)
    if len(forms) > 1:
        raise UsageError(f"-{forms[0]} and -{forms[1]} cannot be combined; use one of them")
    if forms:
        return forms[0]
    return "long" if arguments.has("long") else None
