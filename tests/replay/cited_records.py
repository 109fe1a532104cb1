"""What a sentence of ``why`` about a real pool must find in the records that it cites, by a plain look at the files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.imported_log import PlaceNames
from poolbook.replay.why import Sentence

SECOND: Final = 1_000_000
NEAR: Final = 60  #: what a sentence cites besides its own record happened at most so many seconds before or after it
APART: Final = {"run_over": 60, "over_there": 60, "end_untold": 600, "jobs_like_it": 600, "others_ran": 600}
"""Codes of sentences -> how many seconds later they may be than their own record: the end of a run is told at the
instant when its slot was free, and matches when the jobs began that were given the slots."""
ENDS: Final = {"userlog": "...", "eventlog": "...", "history": "***", "epochs": "***", "startd_history": "***"}
"""How the last line of a record begins, in files whose records have several lines."""

_BEGUN: Final = (
    r"claim-activation protocol successful|Started shadow for job {job} |Job executing on host"
    r"|Shadow pid \d+ switching to job {job}\."
)
"""What is cited of a run that ended with the death of a daemon, of which a later record tells."""
_MOVED: Final = r"{alone}: Changing (state|activity|state and activity): "
_OVER: Final = (
    r"{alone}(\[{job}\])?: Received final job ClassAd|Starter pid \d+ (exited|died)|condor_startd .*STARTING UP"
    r"|Shadow pid \d+ (for job {job} exited|died)"
)
_GONE: Final = r"Starter pid {starter} (exited with status|died on signal)"

# A sentence's code -> what its own record must say. {job} and {slot} are those that it is about or names, {header} is
# the job as a job event log writes it, other names are the sentence's facts.
SAYS: Final = {
    "submitted": r"^000 \({header}\.\d+\) .* Job submitted from host",
    "started": r"^001 \({header}\.\d+\) .* Job executing on host.*(\sSlotName: {slot}\s|alias={slot}&)",
    "end_untold": r"^001 \({header}\.\d+\) .* Job executing on host|Started shadow for job {job} on "
    r"|Shadow pid \d+ switching to job {job}\.",
    "matched": r"Matched {named} .* {slot_or_whole}$|Successfully matched with {slot_or_whole}$",
    "evicted": r"^004 \({header}\.\d+\) .* Job was evicted.*{said_first}",
    "requeued": r"^004 \({header}\.\d+\) .* Job terminated and was requeued",
    "later_next": r"{alone}: State change: claim-activation protocol successful",
    "later_died": r"STARTING UP$|died due to signal|Starter pid \d+ died|EXITING WITH|died with signal",
    "schedd_forgot": r"^\d\d\d \({header}\.\d+\) ",
    "starter_saw_checkpoint": r"Process exited, pid=\d+, {how_word}",
    "cools_down": r"JobCoolDownExpiration {cooled}$",
    "exited": r"^005 \({header}\.\d+\) .* Job terminated.*{how}",
    "held": r"^012 \({header}\.\d+\) .* Job was held\.\n\t{reason}"
    r"|Job {job} going into Hold state \(code \d+,-?\d+\): {reason}",
    "held_by_user": r"^012 \({header}\.\d+\) .* Job was held\.\n\t({reason}|via {tool}) \(by user {by}\)"
    r"|Job {job} going into Hold state \(code \d+,-?\d+\): ({reason}|via {tool}) \(by user {by}\)",
    "released_by_user": r"^013 \({header}\.\d+\) .* Job was released\..*({reason}|via {tool}) \(by user {by}\)",
    "removed_by_user": r"^009 \({header}\.\d+\) .* Job was aborted\.\n\t({reason}|via {tool}) \(by user {by}\)"
    r"|Job {job} is being removed: ({reason}|via {tool}) \(by user {by}\)",
    "released": r"^013 \({header}\.\d+\) .* Job was released\..*{reason}",
    "removed": r"^009 \({header}\.\d+\) .* Job was aborted\.\n\t{reason}|Job {job} is being removed: {reason}",
    "suspended": r"^010 \({header}\.\d+\) .* Job was suspended",
    "continued": r"^011 \({header}\.\d+\) .* Job was unsuspended",
    "shadow_gave_up": r"^007 \({header}\.\d+\) .* Shadow exception",
    "shadow_lost": r"^022 \({header}\.\d+\) .* Job disconnected.*{reason}.*to reconnect to {slot}",
    "shadow_found": r"^023 \({header}\.\d+\) .* Job reconnected to {slot}",
    "shadow_did_not_find": r"^024 \({header}\.\d+\) .* Job reconnection failed",
    "entry": r"^\d\d\d \({header}\.\d+\) .*{reason}",
    "nothing_for_it": r"Rejected {job} ",
    "jobs_like_it": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "others_ran": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "nothing_ran": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "shadow_began": r"Started shadow for job {job} on {slot} ?.*\(shadow pid = {pid}\)"
    r"|Shadow pid {pid} switching to job {job}\.",
    "shadow_goes_on": r"Shadow pid {pid} switching to job {job}\.",
    "shadow_gone": r"Shadow pid \d+ (for job {job} (exited with status|reports job exit reason)|died with signal)"
    r"|Failed to expand job ad when switching shadow",
    "run_over": rf"{_MOVED}|{_OVER}|{_BEGUN}",
    "over_there": rf"{_MOVED}|{_OVER}|{_BEGUN}",
    "started_there": r"{alone}: State change: claim-activation protocol successful",
    "records_missing": "",
    "shadow_saw_end": r"\({job}\) \(\d+\): Job {job} terminated: (exited with|killed by) {how_word}",
    "shadow_left": r"\({job}\) \(\d+\): Job {job} is being evicted from {slot}",
    "shadow_requeued": r"\({job}\) \(\d+\): Job {job} is being put back in the job queue: {reason}",
    "starter_saw_end": r"Process exited, pid=\d+, {how_word}",
    # of a slot
    "born": r"{short}: New (pS|S)lot |{short}: New machine resource|{short}: ",
    "died": r"{short}: (Slot {short} no longer needed, deleting|Changing state)",
    "log_slot_matched": r"Matched {matched} .* {slot_or_whole}$|Successfully matched with {slot_or_whole}$",
    "startd_began": r"\*\* condor_startd .* STARTING UP",
    "startd_died": r"The STARTD \(pid \d+\) died due to signal",
    "startd_ended": r"condor_startd .*EXITING WITH STATUS|Got SIG|shutdown",
}
# What a startd or schedd reported of a slot: how the sentence begins -> what the record must say.
REPORTED: Final = {
    "An access point asked": r"{short}: Received ClaimId from schedd",
    "Job {started} is started": r"{short}: State change: claim-activation protocol successful",
    "Its starter's last word on job": r"{short}\[{ended}\]: Received final job ClassAd update",
    "Its starter ended": _GONE,
    "The access point gave it back": r"RELEASE_CLAIM to startd {slot} |Match record \({slot} ",
    "{user} holds it": r"{short}: Remote owner is {user}$",
}


class Cited:
    """The records of an import's files, by their places."""

    def __init__(self, log: EventStore) -> None:
        places = PlaceNames(log)
        self._paths = {places.name(f"{one.source}:0"): (one.path, one.kind) for one in places.all()}

    def record(self, place: str) -> tuple[str, str]:
        """The kind of the place's file, and what stands there."""
        name, colon, line = place.rpartition(":")
        path, kind = self._paths[name if colon else place]
        lines, first = text_of(path), int(line) - 1
        last = first
        if kind == "queue":  # a transaction
            last = next((number for number in range(first, len(lines)) if lines[number].startswith("106 ")), first)
        if lines[first].endswith("STARTING UP"):  # what it says of itself
            last = first + 12
        while kind == "job_ads" and lines[last + 1]:
            last += 1
        while kind in ENDS and last + 1 < len(lines) and not lines[last].startswith(ENDS[kind]):
            last += 1
        return kind, "\n".join(lines[first : last + 1])

    def with_slot(self, place: str, text: str) -> str:
        """A record, with the name of the slot for the id of its claim, which other lines of its log have with it."""
        claim = re.search(r"job \S+ on (<[^>]*>#\d+#\d+)", text)
        if claim is None:
            return text
        pattern = re.compile(rf"(slot\S*@\S+) {re.escape(claim[1])}\b")
        logs = (text_of(path) for path, kind in self._paths.values() if kind == "schedlog")
        named = {match[1] for log in logs for line in log if (match := pattern.search(line))}
        return "\n".join([text, *(text.replace(claim[1], f"{slot} {claim[1]}") for slot in named)])

    def users(self, cluster: str) -> set[str]:
        """Whose a cluster's jobs are, as daemons have it."""
        pattern = re.compile(rf"(?:Matched|Rejected) {cluster}\.\d+ (\S+) |for job {cluster}\.\d+ on .* for (\S+), ")
        logs = (
            text_of(path) for path, kind in self._paths.values() if kind in ("matchlog", "negotiatorlog", "schedlog")
        )
        return {user for log in logs for line in log for found in pattern.findall(line) for user in found if user}

    def lines_before(self, place: str, most: int) -> str:
        """What stands before a place in its log."""
        return "\n".join(self._lines_to(place)[-1 - most : -1])

    def before(self, place: str, pattern: str, most: int = 60) -> re.Match[str] | None:
        """The last line before a place that a pattern fits."""
        found = (re.search(pattern, line) for line in reversed(self._lines_to(place)[-most:]))
        return next((match for match in found if match), None)

    def _lines_to(self, place: str) -> list[str]:
        """The lines of a log up to a place, those of the file before its own included if the log was rotated there."""
        name, _, line = place.rpartition(":")
        path = self._paths[name][0]
        own = text_of(path)
        rotated = re.search(r"Now in new log file .*/([^/]+)$", own[0])
        if rotated is None:
            return own[: int(line)]
        of_log = re.compile(rf"{re.escape(rotated[1])}(\.old|\.\d{{8}}T\d{{6}})?(\.gz)?")
        files = sorted(file for file in Path(path).parent.iterdir() if of_log.fullmatch(file.name))
        current = Path(path).with_name(rotated[1])
        in_time = [*(str(file) for file in files if file != current), str(current)]
        before = in_time[: in_time.index(path)][-1:] if path in in_time else []
        # The last line of a file is empty, behind its last end of line.
        return [*(line for file in before for line in text_of(file)[:-1]), *own[: int(line)]]


@cache
def text_of(path: str) -> list[str]:
    data = Path(path).read_bytes()
    return (gzip.decompress(data) if path.endswith(".gz") else data).decode(errors="replace").split("\n")


def faults(name: str, sentence: Sentence, cited: Cited) -> Iterator[str]:
    """What a sentence of the life of a job or slot (``name``) says that its records do not."""
    if sentence.code == "left_out":
        return
    if not sentence.places:
        yield f"{sentence.code} cites nothing"
        return
    own, *others = sentence.places
    kind, text = cited.record(own)
    if kind in ("history", "epochs", "startd_history", "job_ads", "queue") and sentence.code != "cools_down":
        if str(sentence.at // SECOND) not in text and sentence.code != "shown":
            yield f"{own} has no such instant"
        return
    pattern = expected(name, sentence)
    if pattern is None:
        yield f"nobody says what {sentence.code} must cite"
    elif not re.search(pattern, cited.with_slot(own, text), re.DOTALL | re.MULTILINE):
        yield f"{own} does not say {pattern}"
    if "died" not in sentence.full + str(sentence.later) and apart(sentence.at, text) > APART.get(sentence.code, 0):
        yield f"{own} is of another instant than {clock(sentence.at)}"
    negotiated = cited.before(own, r"Request (\d+)\.(\d+):") if "Successfully matched" in text else None
    if negotiated and f"{int(negotiated[1])}.{int(negotiated[2])}" not in (sentence.full, name, *named_in(sentence)):
        yield f"{own} is of job {negotiated[0]}"
    if "Job {started}" in pattern_key(sentence) or sentence.code == "started_there":
        begun = cited.before(own, rf"{short(sentence.facts.get('slot', name))}: Remote job ID is ([\d.]+)")
        if begun is None or begun[1] not in (sentence.facts.get("words", "").split(" ")[1:2] or [name]):
            yield f"{own} starts another job"
    for place in others:
        yield from also_says(name, sentence, place, cited)


def also_says(name: str, sentence: Sentence, place: str, cited: Cited) -> Iterator[str]:
    """The same of what a sentence cites besides its own record."""
    kind, text = cited.record(place)
    slot = sentence.facts.get("slot") or name
    deaths = re.findall(r" died (?:between|at) \S+ (\d\d:\d\d:\d\d)", sentence.full)
    if any(clock in text.split("\n")[0] for clock in deaths):
        return  # when a daemon died, or was heard of last
    if sentence.code in ("jobs_like_it", "others_ran") and kind == "startlog":
        begun = cited.before(place, r": Remote job ID is ([\d.]+)")
        if begun is None or begun[1] not in sentence.facts["jobs"] or "claim-activation" not in text:
            yield f"{place} starts another job than {sentence.facts['jobs']}"
        return
    if kind == "startlog":
        daemon = re.search(r"condor_startd .* STARTING UP|Starter pid \d+ (died|exited)", text)
        if not daemon and f" {short(slot)}: " not in text:
            yield f"{place} is not of {slot}"
        if "next" in sentence.facts and place == sentence.places[-1] and "claim-activation" in text:
            begun = cited.before(place, rf"{short(slot)}: Remote job ID is ([\d.]+)")
            if begun is None or f"job {begun[1]}" not in sentence.facts["next"]:
                yield f"{place} starts another job than {sentence.facts['next']}"
    elif kind == "schedlog":
        if not re.search(r"condor_schedd .*(STARTING UP|EXITING WITH)|Shadow pid \d+ died with signal", text):
            yield f"{place} tells of nobody's death"
    elif kind == "masterlog":
        if not re.search(r"condor_master .* STARTING UP|The [A-Z]+ \(pid \d+\) died due to signal", text):
            yield f"{place} tells of nobody's death"
    elif kind == "matchlog" and f" {name} " not in text:
        yield f"{place} is not of job {name}"
    if sentence.code not in ("nothing_for_it", "jobs_like_it", "others_ran", "nothing_ran"):
        seconds = apart(sentence.at, text)
        if seconds > NEAR:
            yield f"{place} is {seconds} s from {clock(sentence.at)}"


def expected(name: str, sentence: Sentence) -> str | None:
    """The pattern that a sentence's own record must fit; None if there is none for its code."""
    key = pattern_key(sentence)
    pattern = REPORTED.get(key) or SAYS.get(sentence.code)
    if sentence.code == "log_reported" and key not in REPORTED:
        pattern = re.escape(sentence.facts["words"])[:60]
        return pattern
    if sentence.code.startswith("row "):
        return moved(name, sentence)
    if pattern is None:
        return None
    facts = dict(sentence.facts)
    cluster, _, proc = name.partition(".")
    if "@" not in name:
        facts |= {"job": name, "header": f"{int(cluster):03d}.{int(proc):03d}"}
        facts.setdefault("slot", "")
    else:
        facts["matched"] = facts.get("job", "")
        facts |= {"slot": name, "short": short(name)}
    words = facts.get("words", "")
    facts["named"] = next(iter(re.findall(r"\d+\.\d+", facts.get("other", ""))), facts.get("job", ""))
    facts["started"] = facts["ended"] = next(iter(re.findall(r"\d+\.\d+", words)), "")
    facts["user"] = words.partition(" holds it")[0]
    facts["cooled"] = (
        str(int(datetime.fromisoformat(facts["until"] + "+00:00").timestamp())) if sentence.code == "cools_down" else ""
    )
    facts["starter"] = next(iter(re.findall(r"starter (\d+)", facts.get("facts", ""))), "")
    facts["said_first"] = re.split(r" \(code | \(by ", facts.get("said", "") or facts.get("log", ""))[0]
    facts["said_first"] = facts["said_first"].removeprefix("no reason")
    facts["how_word"] = facts.get("how", "").replace("code ", "status ")
    if sentence.code in ("starter_saw_end", "starter_saw_checkpoint"):
        facts["how_word"] = facts["how_word"].replace(" ", "=")
    facts["how"] = facts.get("how", "").replace("code ", "return value ")
    if facts.get("reason", "") in ("", "no reason given"):
        facts["reason"] = ""
    facts.setdefault("pid", "")
    escaped = {fact: re.escape(text).replace(r"\n", ".") for fact, text in facts.items()}
    escaped["slot_or_whole"] = rf"({escaped.get('slot', '')}|{re.escape(whole(facts.get('slot', '')))})"
    escaped["slots_any"] = "(" + "|".join(map(re.escape, facts.get("slots", "").split(" and ")[0].split(", "))) + ")"
    escaped["alone"] = re.escape(short(facts.get("slot", "")))
    return re.sub(r"\{(\w+)\}", lambda match: escaped.get(match[1], ""), pattern)


def moved(name: str, sentence: Sentence) -> str:
    """What a startd writes of a move from one pair of state and activity to another."""
    source, target = sentence.facts["source"].split("/"), sentence.facts["target"].split("/")
    if len(target) < 2:
        return f"{short(name)}: "
    pairs = [
        rf"state: {source[0]} -> {target[0]}",
        rf"activity: {source[1]} -> {target[1]}",
        rf"activity: {source[0]}/{source[1]} -> {target[0]}/{target[1]}",
    ]
    # A startd that failed to claim a slot "reverts" it to where it was (revert() in ResState.cpp).
    return rf" {re.escape(short(name))}: (?:Changing|Reverting) (state |state and )?({'|'.join(pairs)})"


def pattern_key(sentence: Sentence) -> str:
    """The key of ``REPORTED`` that a sentence's words are of; empty for none."""
    if sentence.code != "log_reported":
        return ""
    words = sentence.facts["words"]
    for key in REPORTED:
        if re.match(re.sub(r"\\\{\w+\\\}", r"\\S+", re.escape(key)), words):
            return key
    return words


def named_in(sentence: Sentence) -> list[str]:
    return re.findall(r"\d+\.\d+", f"{sentence.facts.get('other', '')} {sentence.facts.get('job', '')}")


def short(slot: str) -> str:
    return slot.partition("@")[0]


def whole(slot: str) -> str:
    """The slot that a dynamic slot is carved from."""
    return re.sub(r"_\d+@", "@", slot)


def clock(at: int) -> str:
    return datetime.fromtimestamp(at // SECOND, UTC).strftime("%H:%M:%S")


def apart(at: int, text: str) -> int:
    """How many seconds lie between an instant and a record, on the clock."""
    found = re.search(r"(\d\d):(\d\d):(\d\d)", text.split("\n")[0])
    if found is None:
        return 0
    hours, minutes, seconds = map(int, found.groups())
    return abs(hours * 3600 + minutes * 60 + seconds - at // SECOND % 86400)
