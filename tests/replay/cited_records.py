"""Checks that the records cited by a sentence of ``why`` contain what it says, by reading the files as plain text."""

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
from poolbook.replay.narration.sentences import Sentence

SECOND: Final = 1_000_000
NEAR_SECONDS: Final = 60  #: how many seconds apart a sentence and a record that it cites besides its main record may be
LATER_SECONDS: Final = {"run_over": 60, "over_there": 60, "end_unknown": 600, "jobs_like_it": 600, "others_ran": 600}
"""Codes of sentences -> how many seconds a sentence may be later than its main record: the end of a run has the time at
which its slot became free, a match that at which the jobs on its slots began."""
LAST_LINES: Final = {"userlog": "...", "eventlog": "...", "history": "***", "epochs": "***", "startd_history": "***"}
"""How the last line of a record begins, in files whose records have several lines."""

_BEGUN: Final = (
    r"claim-activation protocol successful|Started shadow for job {job} |Job executing on host"
    r"|Shadow pid \d+ switching to job {job}\."
)
"""The records cited for a run that ended with a daemon's death, which a later record reports."""
_MOVED: Final = r"{alone}: Changing (state|activity|state and activity): "
_OVER: Final = (
    r"{alone}(\[{job}\])?: Received final job ClassAd|Starter pid \d+ (exited|died)|condor_startd .*STARTING UP"
    r"|Shadow pid \d+ (for job {job} exited|died)"
)
_SCHEDD_GONE: Final = r"Starter pid {starter} (exited with status|died on signal)"

# A sentence's code -> what its main record must say. {job} and {slot} are the ones that the sentence names or is about,
# {header} is the job as a job event log writes it, other names are the sentence's facts.
RECORD_PATTERNS: Final = {
    "submitted": r"^000 \({header}\.\d+\) .* Job submitted from host",
    "started": r"^001 \({header}\.\d+\) .* Job executing on host.*(\sSlotName: {slot}\s|alias={slot}&)",
    "end_unknown": r"^001 \({header}\.\d+\) .* Job executing on host|Started shadow for job {job} on "
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
    "rejected_by_negotiator": r"Rejected {job} ",
    "jobs_like_it": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "others_ran": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "nothing_ran": r"(Matched {job} |Successfully matched with ).*(?<=[ ,]){slots_any}$",
    "shadow_began": r"Started shadow for job {job} on {slot} ?.*\(shadow pid = {pid}\)"
    r"|Shadow pid {pid} switching to job {job}\.",
    "shadow_reused": r"Shadow pid {pid} switching to job {job}\.",
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
    # about a slot
    "slot_created": r"{short}: New (pS|S)lot |{short}: New machine resource|{short}: ",
    "slot_deleted": r"{short}: (Slot {short} no longer needed, deleting|Changing state)",
    "log_slot_matched": r"Matched {matched} .* {slot_or_whole}$|Successfully matched with {slot_or_whole}$",
    "startd_began": r"\*\* condor_startd .* STARTING UP",
    "startd_died": r"The STARTD \(pid \d+\) died due to signal",
    "startd_ended": r"condor_startd .*EXITING WITH STATUS|Got SIG|shutdown",
}
# A startd's or schedd's report about a slot: how the sentence begins -> what the record must say.
REPORTED: Final = {
    "An access point requested the slot": r"{short}: Received ClaimId from schedd",
    "The access point started job {started} on it": r"{short}: State change: claim-activation protocol successful",
    "Its starter's final report on job": r"{short}\[{ended}\]: Received final job ClassAd update",
    "Its starter ended": _SCHEDD_GONE,
    "The access point released the claim": r"RELEASE_CLAIM to startd {slot} |Match record \({slot} ",
    "{user} claimed it": r"{short}: Remote owner is {user}$",
}


class Cited:
    """The records of an import's files, by place."""

    def __init__(self, log: EventStore) -> None:
        places = PlaceNames(log)
        self._paths = {places.name(f"{source.source}:0"): (source.path, source.kind) for source in places.all()}

    def record(self, place: str) -> tuple[str, str]:
        """Return the kind of the place's file, and the text there."""
        name, colon, line = place.rpartition(":")
        path, kind = self._paths[name if colon else place]
        lines, first_line = text_of(path), int(line) - 1
        last_line = first_line
        if kind == "queue":  # a transaction
            last_line = next(
                (number for number in range(first_line, len(lines)) if lines[number].startswith("106 ")), first_line
            )
        if lines[first_line].endswith("STARTING UP"):  # what it says about itself
            last_line = first_line + 12
        while kind == "job_ads" and lines[last_line + 1]:
            last_line += 1
        while kind in LAST_LINES and last_line + 1 < len(lines) and not lines[last_line].startswith(LAST_LINES[kind]):
            last_line += 1
        return kind, "\n".join(lines[first_line : last_line + 1])

    def with_slot(self, place: str, text: str) -> str:
        """Return a record in which the claim's id is replaced by the slot's name, which other lines of the log give
        with it."""
        claim = re.search(r"job \S+ on (<[^>]*>#\d+#\d+)", text)
        if claim is None:
            return text
        pattern = re.compile(rf"(slot\S*@\S+) {re.escape(claim[1])}\b")
        logs = (text_of(path) for path, kind in self._paths.values() if kind == "schedlog")
        slot_names = {match[1] for log in logs for line in log if (match := pattern.search(line))}
        return "\n".join([text, *(text.replace(claim[1], f"{slot} {claim[1]}") for slot in slot_names)])

    def users(self, cluster: str) -> set[str]:
        """Return the users who own a cluster's jobs, according to the daemons."""
        pattern = re.compile(rf"(?:Matched|Rejected) {cluster}\.\d+ (\S+) |for job {cluster}\.\d+ on .* for (\S+), ")
        logs = (
            text_of(path) for path, kind in self._paths.values() if kind in ("matchlog", "negotiatorlog", "schedlog")
        )
        return {user for log in logs for line in log for groups in pattern.findall(line) for user in groups if user}

    def lines_before(self, place: str, most: int) -> str:
        """Return the text before a place in its log."""
        return "\n".join(self._lines_to(place)[-1 - most : -1])

    def before(self, place: str, pattern: str, most: int = 60) -> re.Match[str] | None:
        """Return the last line before a place that matches a pattern."""
        matches = (re.search(pattern, line) for line in reversed(self._lines_to(place)[-most:]))
        return next((match for match in matches if match), None)

    def _lines_to(self, place: str) -> list[str]:
        """Return the lines of a log up to a place, with the previous file's lines if the log was rotated there."""
        name, _, line = place.rpartition(":")
        path = self._paths[name][0]
        lines = text_of(path)
        rotated = re.search(r"Now in new log file .*/([^/]+)$", lines[0])
        if rotated is None:
            return lines[: int(line)]
        of_log = re.compile(rf"{re.escape(rotated[1])}(\.old|\.\d{{8}}T\d{{6}})?(\.gz)?")
        files = sorted(file for file in Path(path).parent.iterdir() if of_log.fullmatch(file.name))
        current = Path(path).with_name(rotated[1])
        in_time = [*(str(file) for file in files if file != current), str(current)]
        previous = in_time[: in_time.index(path)][-1:] if path in in_time else []
        # The last line of a file is empty: it follows the last end of line.
        return [*(line for file in previous for line in text_of(file)[:-1]), *lines[: int(line)]]


@cache
def text_of(path: str) -> list[str]:
    data = Path(path).read_bytes()
    return (gzip.decompress(data) if path.endswith(".gz") else data).decode(errors="replace").split("\n")


def faults(name: str, sentence: Sentence, records: Cited) -> Iterator[str]:
    """Yield what a sentence about a job or slot (``name``) says and its records do not."""
    if sentence.code == "omitted":
        return
    if not sentence.places:
        yield f"{sentence.code} cites nothing"
        return
    main_place, *others = sentence.places
    kind, text = records.record(main_place)
    if kind in ("history", "epochs", "startd_history", "job_ads", "queue") and sentence.code != "cools_down":
        if str(sentence.at // SECOND) not in text and sentence.code != "listed":
            yield f"{main_place} has no such instant"
        return
    pattern = record_pattern(name, sentence)
    if pattern is None:
        yield f"no pattern for what {sentence.code} must cite"
    elif not re.search(pattern, records.with_slot(main_place, text), re.DOTALL | re.MULTILINE):
        yield f"{main_place} does not say {pattern}"
    if "died" not in sentence.full + str(sentence.later) and seconds_between(sentence.at, text) > LATER_SECONDS.get(
        sentence.code, 0
    ):
        yield f"{main_place} is of another instant than {clock_of(sentence.at)}"
    negotiation = records.before(main_place, r"Request (\d+)\.(\d+):") if "Successfully matched" in text else None
    if negotiation and f"{int(negotiation[1])}.{int(negotiation[2])}" not in (sentence.full, name, *named_in(sentence)):
        yield f"{main_place} is of job {negotiation[0]}"
    if "Job {started}" in pattern_key(sentence) or sentence.code == "started_there":
        start = records.before(main_place, rf"{slot_name(sentence.facts.get('slot', name))}: Remote job ID is ([\d.]+)")
        if start is None or start[1] not in (sentence.facts.get("words", "").split(" ")[1:2] or [name]):
            yield f"{main_place} starts another job"
    for place in others:
        yield from faults_of_others(name, sentence, place, records)


def faults_of_others(name: str, sentence: Sentence, place: str, records: Cited) -> Iterator[str]:
    """Yield the same for the records that a sentence cites besides its main record."""
    kind, text = records.record(place)
    slot = sentence.facts.get("slot") or name
    deaths = re.findall(r" died (?:between|at) \S+ (\d\d:\d\d:\d\d)", sentence.full)
    if any(clock_time in text.split("\n")[0] for clock_time in deaths):
        return  # when a daemon died, or last reported
    if sentence.code in ("jobs_like_it", "others_ran") and kind == "startlog":
        start = records.before(place, r": Remote job ID is ([\d.]+)")
        if start is None or start[1] not in sentence.facts["jobs"] or "claim-activation" not in text:
            yield f"{place} starts another job than {sentence.facts['jobs']}"
        return
    if kind == "startlog":
        daemon = re.search(r"condor_startd .* STARTING UP|Starter pid \d+ (died|exited)", text)
        if not daemon and f" {slot_name(slot)}: " not in text:
            yield f"{place} is not of {slot}"
        if "next" in sentence.facts and place == sentence.places[-1] and "claim-activation" in text:
            start = records.before(place, rf"{slot_name(slot)}: Remote job ID is ([\d.]+)")
            if start is None or f"job {start[1]}" not in sentence.facts["next"]:
                yield f"{place} starts another job than {sentence.facts['next']}"
    elif kind == "schedlog":
        if not re.search(r"condor_schedd .*(STARTING UP|EXITING WITH)|Shadow pid \d+ died with signal", text):
            yield f"{place} reports no death"
    elif kind == "masterlog":
        if not re.search(r"condor_master .* STARTING UP|The [A-Z]+ \(pid \d+\) died due to signal", text):
            yield f"{place} reports no death"
    elif kind == "matchlog" and f" {name} " not in text:
        yield f"{place} is not of job {name}"
    if sentence.code not in ("rejected_by_negotiator", "jobs_like_it", "others_ran", "nothing_ran"):
        seconds = seconds_between(sentence.at, text)
        if seconds > NEAR_SECONDS:
            yield f"{place} is {seconds} s from {clock_of(sentence.at)}"


def record_pattern(name: str, sentence: Sentence) -> str | None:
    """Return the pattern that a sentence's main record must match, or None if its code has none."""
    key = pattern_key(sentence)
    pattern = REPORTED.get(key) or RECORD_PATTERNS.get(sentence.code)
    if sentence.code == "log_reported" and key not in REPORTED:
        pattern = re.escape(sentence.facts["words"])[:60]
        return pattern
    if sentence.code.startswith("row "):
        return step_pattern(name, sentence)
    if pattern is None:
        return None
    facts = dict(sentence.facts)
    cluster, _, proc = name.partition(".")
    if "@" not in name:
        facts |= {"job": name, "header": f"{int(cluster):03d}.{int(proc):03d}"}
        facts.setdefault("slot", "")
    else:
        facts["matched"] = facts.get("job", "")
        facts |= {"slot": name, "short": slot_name(name)}
    sentence_words = facts.get("words", "")
    facts["named"] = next(iter(re.findall(r"\d+\.\d+", facts.get("other", ""))), facts.get("job", ""))
    facts["started"] = facts["ended"] = next(iter(re.findall(r"\d+\.\d+", sentence_words)), "")
    facts["user"] = sentence_words.partition(" claimed it")[0]
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
    patterns = {fact: re.escape(text).replace(r"\n", ".") for fact, text in facts.items()}
    patterns["slot_or_whole"] = rf"({patterns.get('slot', '')}|{re.escape(partitionable_slot(facts.get('slot', '')))})"
    patterns["slots_any"] = "(" + "|".join(map(re.escape, facts.get("slots", "").split(" and ")[0].split(", "))) + ")"
    patterns["alone"] = re.escape(slot_name(facts.get("slot", "")))
    return re.sub(r"\{(\w+)\}", lambda match: patterns.get(match[1], ""), pattern)


def step_pattern(name: str, sentence: Sentence) -> str:
    """Return what a startd writes for a move from one state and activity to another."""
    source, target = sentence.facts["source"].split("/"), sentence.facts["target"].split("/")
    if len(target) < 2:
        return f"{slot_name(name)}: "
    steps = [
        rf"state: {source[0]} -> {target[0]}",
        rf"activity: {source[1]} -> {target[1]}",
        rf"activity: {source[0]}/{source[1]} -> {target[0]}/{target[1]}",
    ]
    # A startd that failed to claim a slot "reverts" it to its previous state (revert() in ResState.cpp).
    return rf" {re.escape(slot_name(name))}: (?:Changing|Reverting) (state |state and )?({'|'.join(steps)})"


def pattern_key(sentence: Sentence) -> str:
    """Return the key of ``REPORTED`` that matches a sentence's words, or an empty string."""
    if sentence.code != "log_reported":
        return ""
    sentence_words = sentence.facts["words"]
    for key in REPORTED:
        if re.match(re.sub(r"\\\{\w+\\\}", r"\\S+", re.escape(key)), sentence_words):
            return key
    return sentence_words


def named_in(sentence: Sentence) -> list[str]:
    return re.findall(r"\d+\.\d+", f"{sentence.facts.get('other', '')} {sentence.facts.get('job', '')}")


def slot_name(slot: str) -> str:
    return slot.partition("@")[0]


def partitionable_slot(slot: str) -> str:
    """Return the slot from which a dynamic slot is carved."""
    return re.sub(r"_\d+@", "@", slot)


def clock_of(at: int) -> str:
    return datetime.fromtimestamp(at // SECOND, UTC).strftime("%H:%M:%S")


def seconds_between(at: int, text: str) -> int:
    """Return how many seconds lie between an instant and a record, on the clock."""
    clock_match = re.search(r"(\d\d):(\d\d):(\d\d)", text.split("\n")[0])
    if clock_match is None:
        return 0
    hours, minutes, seconds = map(int, clock_match.groups())
    return abs(hours * 3600 + minutes * 60 + seconds - at // SECOND % 86400)
