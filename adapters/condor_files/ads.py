"""Read ads: history files, and the output of condor_q, condor_status and condor_userprio (see docs/import.md).

The start of a file determines its format: lines ``Name = expression``, or JSON or XML as printed by the tools. Ads are
stored as text; expressions are not parsed. Several hundred ads form a pack (``domain/imported/packed_ads``). How the
file was read determines the size of the packs, but does not affect the ads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from ...domain.events import AdsKept, DaemonReported, Event, SourceEvent, SourceRefused
from ...domain.imported.packed_ads import BETWEEN, CHUNK, HEAD, AdGroup, KeptAd, grouped, pack, plain
from ...domain.imported.record_sources import LEAST_AD
from .source_reader import SourceFile, State, is_private, without_secrets

# Compare the positions in the lines that end the ads of a history file with the actual positions.
#
# When a schedd or startd appends an ad to its history, the line after the ad records where the previous such line
# starts: ``Offset``, in bytes, 0 in a new file. So an ad that was removed, or whose length was changed, is detected in
# the line of the next ad. All later lines are shifted by the same amount; the difference is compared with it.

WITH_OFFSETS: Final = ("history", "startd_history")
_BANNER: Final = re.compile(
    rb"^\*\*\* Offset = (\d{1,15}) ClusterId = (\d{1,10}) ProcId = (\d{1,10})[^\n]*\n|^(?:#+|\.{3,})[ \t]*trimmed",
    re.MULTILINE,
)


class HistoryBanners:
    """The lines that end the ads of one file, as far as the file was read."""

    def __init__(self, source: SourceFile, state: State | None) -> None:
        is_new = state is None
        state = state or {}
        self._source = source
        self._read: int = state.get("read", 0)  #: the number of bytes read before
        self._above: int | None = state.get("above", 0)  #: position of the previous such line; None: it was trimmed
        self._by: int | None = state.get(
            "by", 0 if is_new else None
        )  #: how much larger its recorded position was; None: accept any position
        self._line: int = state.get("line", 0)  #: its line number
        self._job: str = state.get("job", "")

    def state(self) -> State:
        return {"read": self._read, "above": self._above, "by": self._by, "line": self._line, "job": self._job}

    def doubts(self, data: bytes, line: int, events: Sequence[Event]) -> Iterator[DaemonReported]:
        """Yield the inconsistencies in the bytes after a line. `events` are the events from these bytes: an unreadable
        ad may be one that the daemon did not finish writing. An inconsistency has the latest time in the records, if
        any."""
        refused_lines = [event.line for event in events if isinstance(event, SourceRefused)]
        times = [event.at for event in events if not isinstance(event, SourceEvent)]
        begin_line, at = 0, max(times, default=self._source.now)
        for banner in _BANNER.finditer(data):
            line, begin_line = line + data.count(b"\n", begin_line, banner.start()), banner.start()
            if banner[1] is None:
                self._above = self._by = None
                continue
            offset, number = int(banner[1]), line + 1
            job = f"{int(banner[2])}.{int(banner[3])}"
            if self._above is None:
                pass  # it refers to a line that was trimmed; the next line is the first that can be compared
            elif self._by is None or any(self._line < numbered_line <= number for numbered_line in refused_lines):
                self._by = offset - self._above
            elif shift := offset - self._above - self._by:
                facts = {"bytes": str(shift), "job": job, "above": self._job}
                yield self._source.doubted(at, number, "displaced", {k: v for k, v in facts.items() if v})
                # If a whole ad is missing, the line after it is also missing, and the next line is consistent.
                self._by = self._by + shift if abs(shift) < LEAST_AD else None
            self._above, self._line, self._job = self._read + banner.start(), number, job
        self._read += len(data)


LONGEST: Final = 1 << 25  #: reject this many bytes without the end of an ad

TIMES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("history", "startd_history"), (f"{HEAD}CurrentTime", f"{HEAD}CompletionDate", "CompletionDate")),
    "epochs": (f"{HEAD}CurrentTime", "EpochWriteDate"),
    "job_ads": ("ServerTime",),
    "machine_ads": ("MyCurrentTime", "LastHeardFrom"),
    "submitter_ads": ("LastUpdate", "LastHeardFrom"),
}
"""Kind -> the attributes (of the ad, or with the prefix ``HEAD`` of the line that ends it) that date the ad; the latest
applies."""

# Text between ads starts with an empty line or with one of these.
_END = re.compile(r"\n(?=\n|\*\*\* |#|\.\.\.)")
_GAP = re.compile(r"(?:#{1,3}|\.{3,})\s*(trimmed\b.*?)[\s.]*$", re.I)
_PAIR = re.compile(r'(\w+) ?= ?("(?:[^"\\]|\\.)*"|\S+)')
_ATTRIBUTE = re.compile(rf"(?:[A-Za-z_][\w.]*|'[^'\n]+'){BETWEEN}")
_SECRET = re.compile(rb"#\d{6,}#\d+#(?!\.\.\.)")
_OBJECTS = re.compile(r"\s*(?:(\[?\s*\{|\[\s*\])|<\?xml|<classads>|<c>)")
_UNSURE = re.compile(r"\s*\[?\s*")
_CONTINUES = "this line continues an ad that ended the file at an earlier import; import into a new log"
_NO_ATTRIBUTE = "not a line of an ad (Name = expression)"


class AdsReader:
    """Reads a file of ads in any format."""

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        self._source = source
        self.line = line
        state = state or {}
        self._form: str = state.get("form", "")
        self._people: bool = state.get("people", False)  # human-readable tables may appear here
        self._torn: bool = state.get("torn", False)  # the start of the ad that continues here is missing
        self._finished: bool = state.get("finished", False)  # the end of the file ended the last ad
        self._banners = HistoryBanners(source, state.get("banners", {}) if line else None)
        self._events: list[Event] = []
        self._ads: list[KeptAd] = []
        self._secret = False

    def state(self) -> State:
        state: State = {"form": self._form, "people": self._people, "torn": self._torn, "finished": self._finished}
        return state | ({"banners": self._banners.state()} if self._source.kind in WITH_OFFSETS else {})

    def read(self, data: bytes) -> tuple[list[Event], int]:
        self._events = []
        begin_line = self.line
        end = data.rfind(b"\n") + 1
        text = data[:end].decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        self._secret = _SECRET.search(data, 0, end) is not None
        if self._finished and text:
            self._torn = not text.startswith("\n")
            if self._torn:
                self._refuse(self.line + 1, _CONTINUES, text.partition("\n")[0])
            self._finished = False
        if not self._form and not _UNSURE.fullmatch(text):
            match = _OBJECTS.match(text)
            self._form = "lines" if match is None else "json" if match[1] else "xml"
        remainder = "" if text.isspace() else text
        if not self._form:
            self.line += text.count("\n") - remainder.count("\n")
        elif self._form == "lines":
            remainder = text[self._lines(text) :]
        else:
            remainder = text[self._objects(text) :]
        self._keep()
        used_length = _start_of_remainder(data, end, remainder)
        if not used_length and len(data) > LONGEST:
            used_length = end or len(data)
            self._refuse(self.line + 1, "an ad does not end within this much text", text)
            self._torn = True
            self.line += text.count("\n")
        if self._form == "lines" and self._source.kind in WITH_OFFSETS:
            self._events += self._banners.doubts(data[:used_length], begin_line, self._events)
        return self._events, used_length

    def finish(self, data: bytes) -> list[Event]:
        """Process the rest of a file that a tool printed; the end of the file ends its last ad, as for ``condor_q
        -jobads``."""
        line = self.line + data.count(b"\n")
        events, _ = self.read(data.rstrip(b"\n") + b"\n\n")
        self.line, self._finished = line, self._form == "lines"
        return events

    def _lines(self, text: str) -> int:
        """Process the ads in complete lines; return the position of the unfinished ad."""
        at, end = 0, len(text)
        while at < end:
            if text.startswith(("\n", "*** ", "#", "..."), at):
                stop = text.index("\n", at)
                self._between(text[at:stop])
                at = stop + 1
                continue
            if self._people and not _ATTRIBUTE.match(text, at):
                self.line += 1
                at = text.index("\n", at) + 1
                continue
            end_mark = _END.search(text, at)
            if end_mark is None:
                break
            stop = text.find("\n", end_mark.end())
            if stop < 0:
                break
            ad, mark = text[at : end_mark.start()], text[end_mark.end() : stop]
            self._block(ad, mark)
            if not mark.startswith("***"):
                self._between(mark)
            at = stop + 1
        return at

    def _block(self, ad: str, mark: str) -> None:
        """Process the lines of an ad and the line that follows, unless `_between` handles that line."""
        line = self.line + 1
        self.line += ad.count("\n") + 1
        if mark.startswith("*** "):
            self.line += 1
        is_torn, self._torn = self._torn, False
        if is_torn or _GAP.match(mark):
            return
        self._ads.append(KeptAd(line, ad, _banner_attributes(mark) if mark.startswith("*** ") else {}))
        if len(self._ads) == CHUNK:
            self._keep()

    def _between(self, mark: str) -> None:
        """Process a line between ads."""
        self.line += 1
        gap = _GAP.match(mark)
        if gap is not None:
            self._keep()
            self._events.append(self._source.gap(self._source.now, self.line, gap[1], cause="reported"))
            self._torn = mark.startswith(".")
        elif mark.startswith("### "):
            self._keep()
            self._people = True
        elif mark.startswith("*** "):
            if not self._torn:
                self._refuse(self.line, "this line ends an ad, but no ad precedes it", mark)
            self._torn = False
        elif mark and not self._people and not self._torn:
            self._refuse(self.line, _NO_ATTRIBUTE, mark)

    def _objects(self, text: str) -> int:
        """Process the ads in JSON or XML; return the position of the unfinished ad."""
        from .ad_objects import FORMS

        begin_line = self.line
        at = 0
        for item in FORMS[self._form](text):
            line = begin_line + text.count("\n", 0, item.begin) + 1
            if item.wrong:
                self._refuse(line, item.wrong, text[item.begin : item.end])
            elif item.ad:
                self._ads.append(KeptAd(line, item.ad, {}))
            if len(self._ads) == CHUNK:
                self._keep()
            at = item.end
        self.line = begin_line + text.count("\n", 0, at)
        return at

    def _keep(self) -> None:
        """Pack the ads that were read, without the rejected ones."""
        ads, self._ads = self._ads, []
        if self._secret or self._form != "lines":
            ads = [ad if "#" not in ad.text else KeptAd(ad.line, without_secrets(ad.text), ad.head) for ad in ads]
        groups = grouped(ads)
        if any(map(_odd, groups)):
            ads = self._sound(ads, groups)
            groups = grouped(ads)
        if not ads:
            return
        packed_ads, index = pack(ads, groups)
        at = _latest_time(groups, TIMES[self._source.kind]) or int(self._source.modified) * 1_000_000
        place = self._source.place(ads[0].line)
        self._events.append(AdsKept(at, "reported", place, self._source.kind, len(ads), packed_ads, index))

    def _sound(self, ads: list[KeptAd], groups: list[AdGroup]) -> list[KeptAd]:
        """Return the ads without private attributes; reject ads with an invalid line or a duplicate attribute."""
        sound_ads = dict(enumerate(ads))
        for group in filter(_odd, groups):
            names = [prefix[: -len(BETWEEN)] for prefix in group.prefixes[: group.own]]
            wrong = next((place for place in range(group.own) if not _ATTRIBUTE.fullmatch(group.prefixes[place])), None)
            reason = _NO_ATTRIBUTE
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


def _odd(group: AdGroup) -> bool:
    return _has_odd_names(group.prefixes[: group.own])


@lru_cache(maxsize=256)
def _has_odd_names(prefixes: tuple[str, ...]) -> bool:
    """Check whether an ad has an invalid name, a duplicate attribute, or a private attribute."""
    return (
        len(set(map(str.lower, prefixes))) < len(prefixes)
        or not all(map(_ATTRIBUTE.fullmatch, prefixes))
        or any(is_private(prefix[: -len(BETWEEN)]) for prefix in prefixes)
    )


def _banner_attributes(mark: str) -> dict[str, str]:
    """Return the attributes in a line ``*** ...``. A word without a value is the type of an epoch ad."""
    words = mark.split(" ")
    if len(words) % 3 == 1 and set(words[2::3]) == {"="}:  # the schedd's format: *** Name = value Name = value
        values = [plain(value) if value[:1] == '"' else value for value in words[3::3]]
        return dict(zip(words[1::3], values, strict=True))
    head_facts = {name: plain(value) for name, value in _PAIR.findall(mark)}
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
