"""Pack hundreds of ads of an HTCondor pool together, into a tenth of their size. Unpacking one ad takes milliseconds.

Stored logs depend on these rules of the format:

* Ads with the same attributes in the same order form a group. A group is stored by column: all values of an attribute
together, because they compress best that way. A value that all ads have in common is stored once.
* The columns of all groups are sorted by their attributes, joined, and compressed as one text after a line of JSON that
describes their order.
* The attributes read most often (``FIELDS``) are stored again in an index, so that a table of 100,000 jobs can be made
without unpacking any ad.
* The same ads give the same bytes.

An ad is text in the old ClassAd form, with one line ``Name = expression`` per attribute. This module parses no
expressions. It uses NamedTuples instead of attrs classes, because finding one ad takes less time than importing attrs.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ..events import AdsKept

CHUNK: Final = 512
"""The number of ads packed together: a larger number compresses better, but makes it slower to unpack one ad."""

BETWEEN: Final = " = "
"""Separates an attribute's name from its expression."""
HEAD: Final = "*"
"""Precedes the names of the head's attributes. No attribute name in an ad begins with this character."""

_VERBATIM = "\0"  #: precedes a GlobalJobId that is not shortened but looks like a shortened one

FIELDS: Final[dict[str, tuple[str] | tuple[str, str]]] = {
    "cluster": ("ClusterId",),
    "proc": ("ProcId",),
    "qdate": ("QDate",),
    "user": ("User",),
    "owner": ("Owner",),
    "group": ("AcctGroup",),
    "status": ("JobStatus",),
    "completed": ("CompletionDate",),
    "left": (f"{HEAD}CurrentTime", "EnteredCurrentStatus"),
    "wall": ("RemoteWallClockTime",),
    "slot_time": ("CumulativeSlotTime",),
    "user_cpu": ("CumulativeRemoteUserCpu", "RemoteUserCpu"),
    "sys_cpu": ("CumulativeRemoteSysCpu", "RemoteSysCpu"),
    "job": ("GlobalJobId",),
}
"""The fields of the index, each with its attributes, of which the first one present is used. Attributes that begin
with ``HEAD`` are in the ad's head. ``left`` is the time at which the job left the queue.
"""

_LEVEL: Final = 2


class KeptAd(NamedTuple):
    """An unaltered ad from a source."""

    line: int  #: the number of the ad's first line
    text: str  #: without a line feed at the end
    head: Mapping[str, str] = MappingProxyType({})
    """The attributes in the line that ends an ad in a history file, with strings unquoted. In an epoch file,
    ``EpochAdType`` is the type of the ad."""


class PackedColumn(NamedTuple):
    """The values of one attribute in the ads of a group: a line per ad, or a single line if all values are equal."""

    lines: str
    single: bool

    def values(self, count: int) -> list[str]:
        """Return the value for each of `count` ads."""
        return [self.lines] * count if self.single else self.lines.split("\n")


class AdGroup(NamedTuple):
    """Ads with the same attributes in the same order."""

    prefixes: tuple[
        str, ...
    ]  #: name and " = " of each line (empty if a line is not an attribute), then of the heads' lines
    own: int  #: how many lines are in the ads, not in their heads
    members: list[int]  #: the numbers of the ads
    columns: list[PackedColumn]  #: the text after the prefixes

    def values_of(self, name: str) -> list[str]:
        """Return the ads' values of an attribute; an empty list if the ads do not have this attribute."""
        prefix = name + BETWEEN
        if prefix not in self.prefixes:
            return []
        return self.columns[self.prefixes.index(prefix)].values(len(self.members))


def pack(ads: Sequence[KeptAd], groups: Sequence[AdGroup] | None = None) -> tuple[bytes, bytes]:
    """Return the packed ads and their index, for ``AdsKept``.

    :param groups: the groups of these ads, if they are already known
    """
    groups = group_ads(ads) if groups is None else groups
    columns: list[tuple[str, int, int, PackedColumn]] = []
    indexed: dict[str, list[str]] = {}
    group_of = [0] * len(ads)
    for number, (prefixes, own_lines, members, group_columns) in enumerate(groups):
        for member in members:
            group_of[member] = number
        for place, (prefix, column) in enumerate(zip(prefixes, group_columns, strict=True)):
            columns.append((prefix, number, place, column))
            name = _indexed(prefix)
            if name and (place < own_lines or name[0] == HEAD):
                column_values = indexed.setdefault(name, [""] * len(ads))
                for member, value in zip(members, column.values(len(members)), strict=True):
                    column_values[member] = value
    columns.sort()  # never compares the columns themselves, because the fields before them are unique
    names = {name: number for number, name in enumerate(dict.fromkeys(column[0] for column in columns))}
    head = {
        "of": group_of,
        "names": list(names),
        "groups": [[group.own, *[names[prefix] for prefix in group.prefixes]] for group in groups],
    }
    return _compress(head, [column[3] for column in columns]), _packed_index(ads, indexed)


_INDEXED: Final = frozenset(name.lower() for names in FIELDS.values() for name in names)


@lru_cache(maxsize=4096)
def _indexed(prefix: str) -> str:
    name = prefix[: -len(BETWEEN)].lower()
    return name if name in _INDEXED else ""


def group_ads(ads: Sequence[KeptAd]) -> list[AdGroup]:
    """Group the ads by their attributes.

    Splitting each line after its name would take most of an import's time. So similar ads are collected first, and then
    compared column by column.
    """
    alike: dict[tuple[int, tuple[str, ...], str, str, str], tuple[list[int], list[list[str]]]] = {}
    for number, ad in enumerate(ads):
        lines = ad.text.split("\n")
        own_lines = len(lines)
        look = (
            own_lines,
            tuple(ad.head),
            lines[own_lines // 4][:8],
            lines[own_lines // 2][:8],
            lines[own_lines * 3 // 4][:8],
        )
        members, rows = alike.setdefault(look, ([], []))
        members.append(number)
        lines += ad.head.values()
        rows.append(lines)
    groups = []
    for (own_lines, names, *_), (members, rows) in alike.items():
        own = tuple(map(_prefix, rows[0][:own_lines]))
        heads = tuple(f"{HEAD}{name}{BETWEEN}" for name in names)
        columns = _columns(own, rows)
        if columns is not None:
            groups.append(AdGroup(own + heads, own_lines, members, columns))
        else:
            groups += _split_groups(own_lines, heads, members, rows)
    return groups


def _prefix(line: str) -> str:
    name, between, _ = line.partition(BETWEEN)
    return name + between if between else ""


def _columns(
    prefixes: Sequence[str], rows: Sequence[list[str]], same_prefixes: bool = False
) -> list[PackedColumn] | None:
    """Return the columns of lines, or None if a line does not begin with its column's prefix. The columns after the
    last prefix are the values in the heads.

    :param same_prefixes: whether all lines are known to begin with their prefixes
    """
    count, own_lines = len(rows), len(prefixes)
    columns = []
    for place, lines in enumerate(zip(*rows, strict=True)):
        first, prefix = lines[0], prefixes[place] if place < own_lines else ""
        if first == lines[-1] and lines.count(first) == count:
            columns.append(PackedColumn(first[len(prefix) :], True))
            continue
        text = "\n" + "\n".join(lines)
        values = text.replace("\n" + prefix, "\n") if prefix else text
        if place < own_lines and not same_prefixes and (not prefix or len(text) - len(values) != count * len(prefix)):
            return None
        columns.append(PackedColumn(values[1:], False))
    return columns


def _split_groups(
    own_lines: int, heads: tuple[str, ...], members: Sequence[int], rows: Sequence[list[str]]
) -> Iterator[AdGroup]:
    groups: dict[tuple[str, ...], tuple[list[int], list[list[str]]]] = {}
    for member, lines in zip(members, rows, strict=True):
        prefixes = next((p for p in groups if "" not in p and all(map(str.startswith, lines, p))), None)
        group = groups.setdefault(prefixes or tuple(map(_prefix, lines[:own_lines])), ([], []))
        group[0].append(member)
        group[1].append(lines)
    for prefixes, (member_numbers, lines_of) in groups.items():
        yield AdGroup(
            prefixes + heads, own_lines, member_numbers, _columns(prefixes, lines_of, same_prefixes=True) or []
        )


def _compress(head: dict[str, Any], columns: Sequence[PackedColumn]) -> bytes:
    head["single"] = "".join("1" if column.single else "0" for column in columns)
    parts = [json.dumps(head, separators=(",", ":")), *(column.lines for column in columns)]
    return zlib.compress("\n".join(parts).encode("utf-8", "replace"), _LEVEL)


def _decompress(data: bytes) -> tuple[dict[str, Any], list[str]]:
    head, *values = zlib.decompress(data).decode().split("\n")
    return json.loads(head), values


class _Values(NamedTuple):
    begin: int
    single: bool

    def at(self, row: int) -> int:
        return self.begin if self.single else self.begin + row


AttributePlaces = list[list[tuple[str, _Values]]]
"""For each group, the names of attributes and the positions of their values."""


class UnpackedAds:
    """The ads in an event. Each part is unpacked when it is first needed."""

    def __init__(self, data: bytes) -> None:
        head, self.values = _decompress(data)
        self.group_of: list[int] = head["of"]
        names: list[str] = head["names"]
        self.own_lines: list[int] = [own for own, *_ in head["groups"]]
        self.prefixes = [[names[number] for number in numbers] for _, *numbers in head["groups"]]
        sizes = [0] * len(self.own_lines)
        self.rows: list[int] = []
        for group in self.group_of:
            self.rows.append(sizes[group])
            sizes[group] += 1
        self.columns = [[_Values(0, True)] * len(prefixes) for prefixes in self.prefixes]
        order = sorted(
            (prefix, group, place)
            for group, prefixes in enumerate(self.prefixes)
            for place, prefix in enumerate(prefixes)
        )
        begin = 0
        for (_, group, place), flag in zip(order, head["single"], strict=True):
            single = flag == "1"
            self.columns[group][place] = _Values(begin, single)
            begin += 1 if single else sizes[group]

    def _lines(self, number: int) -> tuple[list[str], int]:
        group, row, values = self.group_of[number], self.rows[number], self.values
        columns = zip(self.prefixes[group], self.columns[group], strict=True)
        return [prefix + values[column.at(row)] for prefix, column in columns], self.own_lines[group]

    def text(self, number: int) -> str:
        """Return the text of an ad; ``number`` counts from 0."""
        lines, own = self._lines(number)
        return "\n".join(lines[:own])

    def ad(self, number: int, line: int) -> KeptAd:
        """Return an ad; ``line`` is its first line in the source."""
        lines, own = self._lines(number)
        head = {name: value for name, _, value in (entry[len(HEAD) :].partition(BETWEEN) for entry in lines[own:])}
        return KeptAd(line, "\n".join(lines[:own]), head)

    def places_of(self, names: Collection[str]) -> AttributePlaces:
        """Return the positions of some attributes in each group. Case is ignored; names are returned as passed."""
        requested = {name.lower(): name for name in names}
        return [
            [
                (requested[prefix[: -len(BETWEEN)].lower()], column)
                for prefix, column in zip(prefixes[:own], columns, strict=False)
                if prefix[: -len(BETWEEN)].lower() in requested
            ]
            for prefixes, own, columns in zip(self.prefixes, self.own_lines, self.columns, strict=True)
        ]

    def selected(self, number: int, places: AttributePlaces) -> dict[str, str]:
        row, values = self.rows[number], self.values
        return {name: values[column.at(row)] for name, column in places[self.group_of[number]]}


def unpack(event: AdsKept) -> list[KeptAd]:
    unpacked = UnpackedAds(event.ads)
    return [unpacked.ad(number, line) for number, line in enumerate(index_of_event(event).lines)]


def unpack_one(event: AdsKept, number: int) -> KeptAd:
    """Return one of the ads that an event contains; ``number`` counts from 0."""
    return UnpackedAds(event.ads).ad(number, index_of_event(event).lines[number])


def select(event: AdsKept, names: Collection[str]) -> list[dict[str, str]]:
    """Return some attributes of each ad in an event: the result of ``attributes``, in a fraction of the time."""
    unpacked = UnpackedAds(event.ads)
    places = unpacked.places_of(names)
    return [unpacked.selected(number, places) for number in range(event.count)]


def attributes(text: str, names: Collection[str]) -> dict[str, str]:
    """Return an ad's expressions for some attributes. Case is ignored, and missing attributes are omitted."""
    requested, pattern = _pattern(tuple(names))
    return {requested[name.lower()]: value for name, value in pattern.findall(text)}


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    alternatives = "|".join(map(re.escape, names))
    return {name.lower(): name for name in names}, re.compile(rf"^({alternatives}) = (.*)$", re.M | re.I)


class AdIndex(NamedTuple):
    """The index of packed ads: for each ad, the number of its first line and its fields. A missing value is "" or 0.

    ``packed`` contains the expressions of the fields as they are stored, without fields that no ad has.
    """

    lines: list[int]
    packed: dict[str, list[str]]

    def expressions(self, field: str) -> list[str]:
        """Return the values of a field as expressions, as in the ads."""
        column = self.packed.get(field)
        if column is None:
            return [""] * len(self.lines)
        if field != "job":
            return column
        parts = (self.expressions(name) for name in ("cluster", "proc", "qdate"))
        return [
            f'"{job[1:]}#{cluster}.{proc}#{qdate}"' if job[:1] == "#" else job.removeprefix(_VERBATIM)
            for job, cluster, proc, qdate in zip(column, *parts, strict=True)
        ]

    def texts(self, field: str) -> list[str]:
        """Return the values of a string field, without its quotation marks."""
        column = self.expressions(field)
        values = {value: unquoted(value) for value in set(column)}
        return [values[value] for value in column]

    def integers(self, field: str) -> list[int]:
        """Return the values of an integer field."""
        return self._numbers(field, 1)

    def microseconds(self, field: str) -> list[int]:
        """Return the values, in microseconds, of a field whose unit in ads is seconds."""
        return self._numbers(field, 1_000_000)

    def _numbers(self, field: str, times: int) -> list[int]:
        column = self.packed.get(field)
        if column is None:
            return [0] * len(self.lines)
        try:
            numbers = list(map(int, column)) if times == 1 else [round(float(text) * times) for text in column]
        except (ValueError, OverflowError):
            numbers = [_number(text, times) for text in column]
        if min(numbers) > -_MAX_INTEGER and max(numbers) < _MAX_INTEGER:
            return numbers
        return [number if -_MAX_INTEGER < number < _MAX_INTEGER else 0 for number in numbers]


def unquoted(text: str) -> str:
    """Return the value of a quoted string. Any other text is returned unchanged."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\") if "\\" in text else text[1:-1]


_MAX_INTEGER: Final = 1 << 63
"""Numbers must be smaller than this to fit in a table."""


def _number(text: str, times: int) -> int:
    try:
        return int(text) * times if text.isdecimal() else round(float(text) * times)
    except (ValueError, OverflowError):
        return 0


def index_of_event(event: AdsKept) -> AdIndex:
    """Return the index of the ads in an event, without unpacking any ad."""
    head, values = _decompress(event.index)
    count: int = head["count"]
    columns: dict[str, list[str]] = {}
    begin = 0
    for name, flag in zip(head["fields"], head["single"], strict=True):
        size = 1 if flag == "1" else count
        column = values[begin : begin + size]
        columns[name] = column * count if size != count else column
        begin += size
    lines, line = [], 0
    for step in columns.pop("line", []):
        line += int(step)
        lines.append(line)
    return AdIndex(lines, columns)


def _packed_index(ads: Sequence[KeptAd], indexed: Mapping[str, list[str]]) -> bytes:
    """Pack the index of the attributes in ``indexed`` (lower-case names).

    If the end of a GlobalJobId repeats other fields, it is stored as "#" and the rest. Any other value that begins with
    "#" gets the prefix ``_VERBATIM``.
    """
    columns: dict[str, list[str]] = {}
    line, steps = 0, []
    for ad in ads:
        steps.append(str(ad.line - line))
        line = ad.line
    if ads:
        columns["line"] = steps
    for name, sources in FIELDS.items():
        present = [indexed[source.lower()] for source in sources if source.lower() in indexed]
        if present:
            columns[name] = present[0]
            if len(present) > 1 and "" in present[0]:
                columns[name] = [first or second for first, second in zip(*present, strict=True)]
    if "job" in columns:
        none = [""] * len(ads)
        parts = zip(columns["job"], *(columns.get(name, none) for name in ("cluster", "proc", "qdate")), strict=True)
        columns["job"] = [_shortened(job, f'#{cluster}.{proc}#{qdate}"') for job, cluster, proc, qdate in parts]
    head = {"count": len(ads), "fields": list(columns)}
    return _compress(
        head,
        [_column(column) for column in columns.values()],
    )


def _column(values: list[str]) -> PackedColumn:
    if values.count(values[0]) == len(values):
        return PackedColumn(values[0], True)
    return PackedColumn("\n".join(values), False)


def _shortened(job: str, end: str) -> str:
    if job[:1] == '"' and job.endswith(end):
        return f"#{job[1 : -len(end)]}"
    return _VERBATIM + job if job.startswith(("#", _VERBATIM)) else job
