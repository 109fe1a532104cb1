"""Ads of a real pool, packed by the hundreds: a tenth of their size, and each found in milliseconds.

Rules of the form, on which logs depend:

* Ads with the same attributes in the same order make a group. A group's lines stand in columns: what its ads say of an
  attribute stands together, where it compresses best; what all of them say alike stands once.
* The columns of all groups are sorted by their attributes, joined, and compressed as one text behind a line of JSON
  that tells how they are arranged.
* What is asked of ads most often (``FIELDS``) is kept a second time in an index, so that a table of 100,000 jobs is
  made without unpacking any ad.
* The same ads give the same bytes.

An ad is text in the old ClassAd form, a line each attribute, ``Name = expression``. Nothing here parses expressions.
The values are NamedTuples and not attrs classes: one ad is to be found in less time than attrs takes to be imported.
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
"""Ads that are packed together: more compress better, and make the unpacking of one of them slower."""

BETWEEN: Final = " = "
"""Between an attribute's name and its expression."""
HEAD: Final = "*"
"""Before the name of what an ad's head says: no attribute begins so."""

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
"""What the index says of each ad, and the attributes that say it: the first that the ad, or after ``HEAD`` its head,
has. ``left`` is when the job left the queue."""

_LEVEL: Final = 2


class KeptAd(NamedTuple):
    """An ad as it stood in its source: its first line's number there, its text (no line feed at the end), and what the
    line that ends an ad in a history file says (``head``: texts without quotation marks, a line each; the kind of an
    epoch's ad is its ``EpochAdType``)."""

    line: int
    text: str
    head: Mapping[str, str] = MappingProxyType({})


class PackedColumn(NamedTuple):
    """What the ads of a group say in the same place: ``text`` has a line each, or one for all if they agree."""

    text: str
    single: bool

    def values(self, count: int) -> list[str]:
        """What each of `count` ads says."""
        return [self.text] * count if self.single else self.text.split("\n")


class Group(NamedTuple):
    """Ads with the same attributes in the same order. ``prefixes``: what begins each line, the name and " = " (nothing
    where a line is no attribute's), behind them the heads'; ``own``: how many lines are the ads' own; ``members``: the
    numbers of the ads; ``columns``: what follows the prefixes."""

    prefixes: tuple[str, ...]
    own: int
    members: list[int]
    columns: list[PackedColumn]

    def said(self, name: str) -> list[str]:
        """What the ads say of an attribute; nothing, if they do not have it."""
        prefix = name + BETWEEN
        if prefix not in self.prefixes:
            return []
        return self.columns[self.prefixes.index(prefix)].values(len(self.members))


def pack(ads: Sequence[KeptAd], groups: Sequence[Group] | None = None) -> tuple[bytes, bytes]:
    """The ads and their index, as ``AdsKept`` keeps them. `groups`: those of these ads, where they are known."""
    groups = grouped(ads) if groups is None else groups
    columns: list[tuple[str, int, int, PackedColumn]] = []
    told: dict[str, list[str]] = {}
    of = [0] * len(ads)
    for number, (prefixes, own, members, found) in enumerate(groups):
        for member in members:
            of[member] = number
        for place, (prefix, column) in enumerate(zip(prefixes, found, strict=True)):
            columns.append((prefix, number, place, column))
            name = _indexed(prefix)
            if name and (place < own or name[0] == HEAD):
                whole = told.setdefault(name, [""] * len(ads))
                for member, value in zip(members, column.values(len(members)), strict=True):
                    whole[member] = value
    columns.sort()  # no two agree in all of what stands before the column
    names = {name: number for number, name in enumerate(dict.fromkeys(column[0] for column in columns))}
    head = {
        "of": of,
        "names": list(names),
        "groups": [[group.own, *[names[prefix] for prefix in group.prefixes]] for group in groups],
    }
    return _joined(head, [column[3] for column in columns]), _packed_index(ads, told)


_INDEXED: Final = frozenset(name.lower() for names in FIELDS.values() for name in names)


@lru_cache(maxsize=4096)
def _indexed(prefix: str) -> str:
    """The name in lower case of an attribute that the index needs; of any other nothing."""
    name = prefix[: -len(BETWEEN)].lower()
    return name if name in _INDEXED else ""


# -- Grouping ----------------------------------------------------------------------------------------------------------

_HEAD_LINE: Final = f"{HEAD}%s{BETWEEN}%s".__mod__


def grouped(ads: Sequence[KeptAd]) -> list[Group]:
    """The groups of the ads. To cut each line at its name would take most of an import's time: ads that look alike are
    put together first, and it is seen then, column by column, whether they are."""
    alike: dict[tuple[int, int, str, str, str], tuple[list[int], list[list[str]]]] = {}
    for number, ad in enumerate(ads):
        lines = ad.text.split("\n")
        own = len(lines)
        lines += map(_HEAD_LINE, ad.head.items())
        look = (own, len(lines), lines[own // 4][:8], lines[own // 2][:8], lines[own * 3 // 4][:8])
        members, rows = alike.setdefault(look, ([], []))
        members.append(number)
        rows.append(lines)
    groups = []
    for (own, *_), (members, rows) in alike.items():
        prefixes = tuple(map(_prefix, rows[0]))
        columns = _columns(prefixes, rows)
        if columns is not None:
            groups.append(Group(prefixes, own, members, columns))
        else:
            groups += _told_apart(own, members, rows)
    return groups


def _prefix(line: str) -> str:
    name, between, _ = line.partition(BETWEEN)
    return name + between if between else ""


def _columns(prefixes: Sequence[str], rows: Sequence[list[str]], like: bool = False) -> list[PackedColumn] | None:
    """The columns of lines; None if some line of a column does not begin as it should. `like`: all are known to."""
    count = len(rows)
    columns = []
    for prefix, lines in zip(prefixes, zip(*rows, strict=True), strict=True):
        first = lines[0]
        if first == lines[-1] and lines.count(first) == count:
            columns.append(PackedColumn(first[len(prefix) :], True))
            continue
        text = "\n" + "\n".join(lines)
        rest = text.replace("\n" + prefix, "\n") if prefix else text
        if not like and (not prefix or len(text) - len(rest) != count * len(prefix)):
            return None
        columns.append(PackedColumn(rest[1:], False))
    return columns


def _told_apart(own: int, members: Sequence[int], rows: Sequence[list[str]]) -> Iterator[Group]:
    """The groups of ads that only look alike."""
    found: dict[tuple[str, ...], tuple[list[int], list[list[str]]]] = {}
    for member, lines in zip(members, rows, strict=True):
        prefixes = next((p for p in found if "" not in p and all(map(str.startswith, lines, p))), None)
        known = found.setdefault(prefixes or tuple(map(_prefix, lines)), ([], []))
        known[0].append(member)
        known[1].append(lines)
    for prefixes, (some, lines_of) in found.items():
        yield Group(prefixes, own, some, _columns(prefixes, lines_of, like=True) or [])


def _joined(head: dict[str, Any], columns: Sequence[PackedColumn]) -> bytes:
    """A head and columns, compressed. The head tells which columns have one value for all."""
    head["single"] = "".join("1" if column.single else "0" for column in columns)
    parts = [json.dumps(head, separators=(",", ":")), *(column.text for column in columns)]
    return zlib.compress("\n".join(parts).encode("utf-8", "replace"), _LEVEL)


def _parted(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """The head, and the values of all columns."""
    head, *values = zlib.decompress(data).decode().split("\n")
    return json.loads(head), values


# -- Unpacking ---------------------------------------------------------------------------------------------------------


class _Values(NamedTuple):
    """Where a column's values begin among all, and whether it has one for all."""

    begin: int
    single: bool

    def at(self, row: int) -> int:
        return self.begin if self.single else self.begin + row


Chosen = list[list[tuple[str, _Values]]]
"""Of each group, attributes' names and where they are."""


class Unpacked:
    """The ads that an event keeps, taken apart as far as is needed to make any of them."""

    def __init__(self, data: bytes) -> None:
        """`data`: what ``AdsKept.ads`` is."""
        head, self.values = _parted(data)
        self.of: list[int] = head["of"]
        names: list[str] = head["names"]
        self.own: list[int] = [own for own, *_ in head["groups"]]
        self.prefixes = [[names[number] for number in numbers] for _, *numbers in head["groups"]]
        sizes = [0] * len(self.own)
        self.rows: list[int] = []
        for group in self.of:
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
        """The lines of an ad, those of its head last, and how many are its own."""
        group, row, values = self.of[number], self.rows[number], self.values
        columns = zip(self.prefixes[group], self.columns[group], strict=True)
        return [prefix + values[column.at(row)] for prefix, column in columns], self.own[group]

    def text(self, number: int) -> str:
        """The text of an ad, counted from 0."""
        lines, own = self._lines(number)
        return "\n".join(lines[:own])

    def ad(self, number: int, line: int) -> KeptAd:
        """An ad, which began at that line of its source."""
        lines, own = self._lines(number)
        head = {name: value for name, _, value in (said[len(HEAD) :].partition(BETWEEN) for said in lines[own:])}
        return KeptAd(line, "\n".join(lines[:own]), head)

    def chosen(self, names: Collection[str]) -> Chosen:
        """Where some attributes are, found in any case: of each group their names as they were asked for."""
        wanted = {name.lower(): name for name in names}
        return [
            [
                (wanted[prefix[: -len(BETWEEN)].lower()], column)
                for prefix, column in zip(prefixes[:own], columns, strict=False)
                if prefix[: -len(BETWEEN)].lower() in wanted
            ]
            for prefixes, own, columns in zip(self.prefixes, self.own, self.columns, strict=True)
        ]

    def some(self, number: int, chosen: Chosen) -> dict[str, str]:
        """What an ad says of the attributes that were chosen."""
        row, values = self.rows[number], self.values
        return {name: values[column.at(row)] for name, column in chosen[self.of[number]]}


def unpack(event: AdsKept) -> list[KeptAd]:
    """The ads that an event keeps."""
    unpacked = Unpacked(event.ads)
    return [unpacked.ad(number, line) for number, line in enumerate(index(event).lines)]


def unpack_one(event: AdsKept, number: int) -> KeptAd:
    """One of the ads that an event keeps, counted from 0."""
    return Unpacked(event.ads).ad(number, index(event).lines[number])


def select(event: AdsKept, names: Collection[str]) -> list[dict[str, str]]:
    """Some attributes of each ad that an event keeps, as `attributes` gives them, in a fraction of its time."""
    unpacked = Unpacked(event.ads)
    chosen = unpacked.chosen(names)
    return [unpacked.some(number, chosen) for number in range(event.count)]


def attributes(text: str, names: Collection[str]) -> dict[str, str]:
    """The expressions of some attributes of an ad; those that it does not have are not there. Names are found in any
    case, and given as they were asked for."""
    wanted, pattern = _pattern(tuple(names))
    return {wanted[name.lower()]: value for name, value in pattern.findall(text)}


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    words = "|".join(map(re.escape, names))
    return {name.lower(): name for name in names}, re.compile(rf"^({words}) = (.*)$", re.M | re.I)


# -- The index ---------------------------------------------------------------------------------------------------------


class Index(NamedTuple):
    """What the index says: of each ad the number of its first line, and its fields. What an ad does not say is "", or
    0. ``packed``: the fields' expressions as they are kept; those that no ad has are not there."""

    lines: list[int]
    packed: dict[str, list[str]]

    def expressions(self, field: str) -> list[str]:
        """The values of a field as the ads have them."""
        column = self.packed.get(field)
        if column is None:
            return [""] * len(self.lines)
        if field != "job":
            return column
        parts = (self.expressions(name) for name in ("cluster", "proc", "qdate"))
        return [
            f'"{job[1:]}#{cluster}.{proc}#{qdate}"' if job[:1] == "#" else job
            for job, cluster, proc, qdate in zip(column, *parts, strict=True)
        ]

    def texts(self, field: str) -> list[str]:
        """The values of a field that is a text, without its quotation marks."""
        column = self.expressions(field)
        values = {value: plain(value) for value in set(column)}
        return [values[value] for value in column]

    def wholes(self, field: str) -> list[int]:
        """The values of a field that is a whole number."""
        return self._numbers(field, 1)

    def micros(self, field: str) -> list[int]:
        """The values of a field that is in seconds, in microseconds."""
        return self._numbers(field, 1_000_000)

    def _numbers(self, field: str, times: int) -> list[int]:
        column = self.packed.get(field)
        if column is None:
            return [0] * len(self.lines)
        try:
            found = list(map(int, column)) if times == 1 else [round(float(text) * times) for text in column]
        except (ValueError, OverflowError):
            found = [_number(text, times) for text in column]
        if min(found) > -_MOST and max(found) < _MOST:
            return found
        return [number if -_MOST < number < _MOST else 0 for number in found]


def plain(text: str) -> str:
    """A text's value; what is no text in quotation marks is given as it is."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\") if "\\" in text else text[1:-1]


_MOST: Final = 1 << 63
"""What a table can hold."""


def _number(text: str, times: int) -> int:
    """A number, `times` as much, rounded; 0 for what is none."""
    try:
        return int(text) * times if text.isdecimal() else round(float(text) * times)
    except (ValueError, OverflowError):
        return 0


def index(event: AdsKept) -> Index:
    """The index of the ads that an event keeps. No ad is unpacked."""
    head, values = _parted(event.index)
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
    return Index(lines, columns)


def _packed_index(ads: Sequence[KeptAd], told: Mapping[str, list[str]]) -> bytes:
    """The index, of the attributes that `told` has (in lower case). A GlobalJobId is kept as "#" and its first part
    where the rest repeats what other fields say."""
    columns: dict[str, list[str]] = {}
    line, steps = 0, []
    for ad in ads:
        steps.append(str(ad.line - line))
        line = ad.line
    if ads:
        columns["line"] = steps
    for name, sources in FIELDS.items():
        found = [told[source.lower()] for source in sources if source.lower() in told]
        if found:
            columns[name] = found[0]
            if len(found) > 1 and "" in found[0]:
                columns[name] = [first or second for first, second in zip(*found, strict=True)]
    if columns.keys() >= {"job", "cluster", "proc", "qdate"}:
        parts = zip(*(columns[name] for name in ("job", "cluster", "proc", "qdate")), strict=True)
        columns["job"] = [_shortened(job, f'#{cluster}.{proc}#{qdate}"') for job, cluster, proc, qdate in parts]
    head = {"count": len(ads), "fields": list(columns)}
    return _joined(head, [_column(column) for column in columns.values()])


def _column(values: list[str]) -> PackedColumn:
    if values.count(values[0]) == len(values):
        return PackedColumn(values[0], True)
    return PackedColumn("\n".join(values), False)


def _shortened(job: str, end: str) -> str:
    return f"#{job[1 : -len(end)]}" if job[:1] == '"' and job.endswith(end) else job
