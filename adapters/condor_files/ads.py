"""Read ads: history files, and the output of condor_q, condor_status and condor_userprio (see docs/import.md).

The start of a file shows its format: lines ``Name = expression``, or JSON, XML or the new form as printed by the tools.
Ads are stored as text, without parsing their expressions. Several hundred ads are packed into one event
(``domain/imported/packed_ads``). The sizes of the packs depend on how much was read at once, but the ads do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from ...domain.events import AdsKept, DaemonReported, Event, SourceEvent, SourceRefused
from ...domain.imported.packed_ads import BETWEEN, CHUNK, HEAD, AdGroup, KeptAd, group_ads, pack, unquoted
from ...domain.imported.record_sources import LEAST_AD
from .source_reader import SourceFile, State, is_private, without_secrets

WITH_OFFSETS: Final = ("history", "startd_history")
_BANNER: Final = re.compile(
    rb"\*\*\* Offset = (?<=^\*\*\* Offset = )(\d{1,15}) ClusterId = (\d{1,10}) ProcId = (\d{1,10})[^\n]*\n",
    re.MULTILINE,
)
_BANNER_OR_MARK: Final = re.compile(_BANNER.pattern + rb"|^(?:#+|\.{3,})[ \t]*trimmed", re.MULTILINE)


class HistoryBanners:
    """Detects ads that were removed from a history file, or changed in length.

    After each ad, a schedd or startd writes a banner, ``*** Offset = ...``: the position (bytes) of the previous
    banner, 0 in a new file. After a change, the offsets in all later banners differ from their positions by the same
    shift.
    """

    def __init__(self, source: SourceFile, state: State | None) -> None:
        is_new = state is None
        state = state or {}
        self._source = source
        self._read_bytes: int = state.get("read", 0)  #: bytes read before the current data
        self._previous_position: int | None = state.get("above", 0)  #: of the previous banner; None: it was trimmed
        self._shift: int | None = state.get("by", 0 if is_new else None)  #: bytes; None: accept the next banner's
        self._line: int = state.get("line", 0)  #: of the previous banner
        self._previous_job: str = state.get("job", "")

    def state(self) -> State:
        return {
            "read": self._read_bytes,
            "above": self._previous_position,
            "by": self._shift,
            "line": self._line,
            "job": self._previous_job,
        }

    def inconsistencies(self, data: bytes, line: int, events: Sequence[Event]) -> Iterator[DaemonReported]:
        """Yield an event for each inconsistent banner in the bytes after a line. `events` are the events from these
        bytes: a rejected ad explains a shift, because the daemon may not have finished writing it. An inconsistency has
        the latest time in the records, if any."""
        refused_lines = [event.line for event in events if isinstance(event, SourceRefused)]
        times = [event.at for event in events if not isinstance(event, SourceEvent)]
        begin_line, at = 0, max(times, default=self._source.now)
        for banner in (_BANNER_OR_MARK if b"trimmed" in data else _BANNER).finditer(data):
            if banner[1] is None:
                self._previous_position = self._shift = None
                continue
            offset, begin, job = int(banner[1]), banner.start(), f"{int(banner[2])}.{int(banner[3])}"
            if refused_lines or self._previous_position is None or offset - self._previous_position != self._shift:
                line, begin_line = line + data.count(b"\n", begin_line, begin), begin
                if self._previous_position is None:
                    pass  # it refers to a trimmed line, so the next banner is the first that can be compared
                elif self._shift is None or any(self._line < refused <= line + 1 for refused in refused_lines):
                    self._shift = offset - self._previous_position
                elif shift := offset - self._previous_position - self._shift:
                    facts = {"bytes": str(shift), "job": job, "above": self._previous_job}
                    yield self._source.inconsistency(at, line + 1, "displaced", {k: v for k, v in facts.items() if v})
                    # If a whole ad is missing, the line after it is also missing, and the next line is consistent.
                    self._shift = self._shift + shift if abs(shift) < LEAST_AD else None
                self._line = line + 1
            self._previous_position, self._previous_job = self._read_bytes + begin, job
        if self._previous_position is not None and self._previous_position >= self._read_bytes:
            self._line = line + data.count(b"\n", begin_line, self._previous_position - self._read_bytes) + 1
        self._read_bytes += len(data)


LONGEST: Final = 1 << 25  #: reject this many bytes without the end of an ad

TIMES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("history", "startd_history"), (f"{HEAD}CurrentTime", f"{HEAD}CompletionDate", "CompletionDate")),
    "epochs": (f"{HEAD}CurrentTime", "EpochWriteDate"),
    "job_ads": ("ServerTime",),
    "machine_ads": ("MyCurrentTime", "LastHeardFrom"),
    "submitter_ads": ("LastUpdate", "LastHeardFrom"),
}
"""The attributes with an ad's time, by kind: of the ad or, with the prefix ``HEAD``, of its banner. The latest
applies."""

# Text between ads starts with an empty line or with one of these.
_AD_END = re.compile(r"\n(?=\n|\*\*\* |#|\.\.\.)")
_TRIMMED = re.compile(r"(?:#{1,3}|\.{3,})\s*(trimmed\b.*?)[\s.]*$", re.I)
_NAME_AND_VALUE = re.compile(r'(\w+) ?= ?("(?:[^"\\]|\\.)*"|\S+)')
_ATTRIBUTE = re.compile(rf"(?:[A-Za-z_][\w.]*|'[^'\n]+'){BETWEEN}")
_SECRET = re.compile(rb"#\d{6,}#\d+#(?!\.\.\.)")
_OBJECTS = re.compile(
    r"\s*(?:(?P<json>\[\s*[{\]]|\{(?!\s*\[))|(?P<xml><\?xml|<classads>|<c>)|(?P<new>\{\s*\[|\[\s*[A-Za-z_']))"
)
_UNDECIDED = re.compile(r"\s*[\[{]?\s*")
_CONTINUED_AD_TEXT = "this line continues an ad that ended the file at an earlier import; import into a new log"
_NO_ATTRIBUTE_TEXT = "not a line of an ad (Name = expression)"


class AdsReader:
    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        self._source = source
        self.line = line
        state = state or {}
        self._format: str = state.get("form", "")
        self._has_tables: bool = state.get("people", False)  # human-readable tables may appear here
        self._is_torn: bool = state.get("torn", False)  # the start of the ad that continues here is missing
        self._is_finished: bool = state.get("finished", False)  # the end of the file ended the last ad
        self._banners = HistoryBanners(source, state.get("banners", {}) if line else None)
        self._events: list[Event] = []
        self._ads: list[KeptAd] = []
        self._has_secrets = False

    def state(self) -> State:
        state: State = {
            "form": self._format,
            "people": self._has_tables,
            "torn": self._is_torn,
            "finished": self._is_finished,
        }
        return state | ({"banners": self._banners.state()} if self._source.kind in WITH_OFFSETS else {})

    def read(self, data: bytes) -> tuple[list[Event], int]:
        self._events = []
        begin_line = self.line
        end = data.rfind(b"\n") + 1
        text = data[:end].decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        self._has_secrets = _SECRET.search(data, 0, end) is not None
        if self._is_finished and text:
            self._is_torn = not text.startswith("\n")
            if self._is_torn:
                self._refuse(self.line + 1, _CONTINUED_AD_TEXT, text.partition("\n")[0])
            self._is_finished = False
        if not self._format and not _UNDECIDED.fullmatch(text):
            match = _OBJECTS.match(text)
            self._format = "lines" if match is None else match.lastgroup or ""
        remainder = "" if text.isspace() else text
        if not self._format:
            self.line += text.count("\n") - remainder.count("\n")
        elif self._format == "lines":
            remainder = text[self._read_lines(text) :]
        else:
            remainder = text[self._read_objects(text) :]
        self._pack_ads()
        used_length = _start_of_remainder(data, end, remainder)
        if not used_length and len(data) > LONGEST:
            used_length = end or len(data)
            self._refuse(self.line + 1, "an ad does not end within this much text", text)
            self._is_torn = True
            self.line += text.count("\n")
        if self._format == "lines" and self._source.kind in WITH_OFFSETS:
            self._events += self._banners.inconsistencies(data[:used_length], begin_line, self._events)
        return self._events, used_length

    def finish(self, data: bytes) -> list[Event]:
        """Process the rest of a file that a tool such as ``condor_q -long`` printed. Its last ad ends with the file."""
        line = self.line + data.count(b"\n")
        events, _ = self.read(data.rstrip(b"\n") + b"\n\n")
        self.line, self._is_finished = line, self._format == "lines"
        return events

    def _read_lines(self, text: str) -> int:
        at, end = 0, len(text)
        while at < end:
            if text.startswith(("\n", "*** ", "#", "..."), at):
                stop = text.index("\n", at)
                self._read_line_between_ads(text[at:stop])
                at = stop + 1
                continue
            if self._has_tables and not _ATTRIBUTE.match(text, at):
                self.line += 1
                at = text.index("\n", at) + 1
                continue
            end_mark = _AD_END.search(text, at)
            if end_mark is None:
                break
            stop = text.find("\n", end_mark.end())
            if stop < 0:
                break
            ad, mark = text[at : end_mark.start()], text[end_mark.end() : stop]
            self._add_ad(ad, mark)
            if not mark.startswith("***"):
                self._read_line_between_ads(mark)
            at = stop + 1
        return at

    def _add_ad(self, ad: str, mark: str) -> None:
        """Process the lines of an ad and the line that follows, unless `_read_line_between_ads` handles that line."""
        line = self.line + 1
        self.line += ad.count("\n") + 1
        if mark.startswith("*** "):
            self.line += 1
        is_torn, self._is_torn = self._is_torn, False
        if is_torn or _TRIMMED.match(mark):
            return
        self._ads.append(KeptAd(line, ad, _banner_attributes(mark) if mark.startswith("*** ") else {}))
        if len(self._ads) == CHUNK:
            self._pack_ads()

    def _read_line_between_ads(self, mark: str) -> None:
        self.line += 1
        gap = _TRIMMED.match(mark)
        if gap is not None:
            self._pack_ads()
            self._events.append(self._source.gap(self._source.now, self.line, gap[1], cause="reported"))
            self._is_torn = mark.startswith(".")
        elif mark.startswith("### "):
            self._pack_ads()
            self._has_tables = True
        elif mark.startswith("*** "):
            if not self._is_torn:
                self._refuse(self.line, "this line ends an ad, but no ad precedes it", mark)
            self._is_torn = False
        elif mark and not self._has_tables and not self._is_torn:
            self._refuse(self.line, _NO_ATTRIBUTE_TEXT, mark)

    def _read_objects(self, text: str) -> int:
        from .ad_objects import FORMS

        begin_line = self.line
        at = 0
        for item in FORMS[self._format](text):
            line = begin_line + text.count("\n", 0, item.begin) + 1
            if item.wrong:
                self._refuse(line, item.wrong, text[item.begin : item.end])
            elif item.ad:
                self._ads.append(KeptAd(line, item.ad, {}))
            if len(self._ads) == CHUNK:
                self._pack_ads()
            at = item.end
        self.line = begin_line + text.count("\n", 0, at)
        return at

    def _pack_ads(self) -> None:
        ads, self._ads = self._ads, []
        if self._has_secrets or self._format != "lines":
            ads = [ad if "#" not in ad.text else KeptAd(ad.line, without_secrets(ad.text), ad.head) for ad in ads]
        groups = group_ads(ads)
        if any(map(_is_irregular, groups)):
            ads = self._reject_invalid_ads(ads, groups)
            groups = group_ads(ads)
        if not ads:
            return
        packed_ads, index = pack(ads, groups)
        at = _latest_time(groups, TIMES[self._source.kind]) or int(self._source.modified) * 1_000_000
        place = self._source.location_of_line(ads[0].line)
        self._events.append(AdsKept(at, "reported", place, self._source.kind, len(ads), packed_ads, index))

    def _reject_invalid_ads(self, ads: list[KeptAd], groups: list[AdGroup]) -> list[KeptAd]:
        """Return the ads without private attributes; reject ads with an invalid line or a duplicate attribute."""
        sound_ads = dict(enumerate(ads))
        for group in filter(_is_irregular, groups):
            names = [prefix[: -len(BETWEEN)] for prefix in group.prefixes[: group.own]]
            wrong = next((place for place in range(group.own) if not _ATTRIBUTE.fullmatch(group.prefixes[place])), None)
            reason = _NO_ATTRIBUTE_TEXT
            if wrong is None:
                lower = [name.lower() for name in names]
                wrong = next((place for place in range(group.own) if lower[place] in lower[:place]), None)
                reason = "the attribute is repeated: another ad started before this one ended"
            for member in group.members:
                ad = sound_ads.pop(member)
                lines = ad.text.split("\n")
                if wrong is None:
                    text = "\n".join(line for line, name in zip(lines, names, strict=True) if not is_private(name))
                    sound_ads[member] = KeptAd(ad.line, text, ad.head)
                else:
                    self._refuse(ad.line + wrong, reason, lines[wrong])
        return [sound_ads[number] for number in sorted(sound_ads)]

    def _refuse(self, line: int, reason: str, text: str) -> None:
        self._events.append(self._source.refused(line, reason, text))


def _is_irregular(group: AdGroup) -> bool:
    return _are_irregular(group.prefixes[: group.own])


@lru_cache(maxsize=256)
def _are_irregular(prefixes: tuple[str, ...]) -> bool:
    """Check whether an ad has an invalid name, a duplicate attribute, or a private attribute."""
    return (
        len(set(map(str.lower, prefixes))) < len(prefixes)
        or not all(map(_ATTRIBUTE.fullmatch, prefixes))
        or any(is_private(prefix[: -len(BETWEEN)]) for prefix in prefixes)
    )


def _banner_attributes(mark: str) -> dict[str, str]:
    """Return the attributes in a line ``*** ...``. A word without a value is the type of an epoch ad."""
    words = mark.split(" ")
    if (
        len(words) % 3 == 1 and words[2::3].count("=") == len(words) // 3
    ):  # the schedd's format: *** Name = value Name = value
        values = [unquoted(value) if value[:1] == '"' else value for value in words[3::3]]
        return dict(zip(words[1::3], values, strict=True))
    head_facts = {name: unquoted(value) for name, value in _NAME_AND_VALUE.findall(mark)}
    if len(words) > 1 and "=" not in words[1] and words[2:3] != ["="]:
        head_facts["EpochAdType"] = words[1]
    return head_facts


def _latest_time(groups: list[AdGroup], names: tuple[str, ...]) -> int:
    """Return the latest time (microseconds) in these attributes, or 0."""
    values = [value for group in groups for name in names for value in set(group.values_of(name))]
    return max((int(value) for value in values if value.isdecimal() and len(value) < 12), default=0) * 1_000_000


def _start_of_remainder(data: bytes, end: int, remainder: str) -> int:
    count = remainder.count("\n")
    if not count:
        return end
    at = end
    for _ in range(count + 1):
        at = data.rfind(b"\n", 0, at)
    return at + 1
