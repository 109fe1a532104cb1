"""Join what all records of one job number tell: entries by their log, ads and daemons' reports one by one.

``audit_statements.recorded_jobs`` goes on from here to the jobs and their runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ....domain.imported.packed_ads import plain
from .audit_statements import JobAccount, RecordedRun, StatementSource
from .event_log_facts import JobRecord, facts_of_entries
from .job_ad_facts import ad_told, epochs_told

OF_PROCESSES: Final = ("process_began", "process_ended", "terminated")
"""What starters and shadows say of a job's process."""


def accounts_of(heard: Iterable[JobRecord], gaps: Mapping[int, Sequence[int]]) -> list[JobAccount]:
    """Return what the records of a job number tell. `gaps`: the ``order`` of missing records, by chain."""
    entries: dict[tuple[str, int], list[JobRecord]] = {}
    found: list[JobAccount] = []
    epochs: list[tuple[StatementSource, JobAccount]] = []
    shadows: dict[str, JobAccount] = {}
    processes: dict[tuple[str, int], list[JobRecord]] = {}
    for one in heard:
        place = StatementSource(one.letter, one.source, one.line, one.at)
        if one.letter in "UE":
            entries.setdefault((one.letter, one.chain), []).append(one)
        elif one.letter in "HPSQA":
            ad = json.loads(one.body)
            final = one.letter == "H" or one.what == "final"
            if plain(ad.get("EpochAdType", "EPOCH")) != "EPOCH":
                continue
            account = ad_told(place, ad, final)
            if account is not None and one.letter == "P":
                epochs.append((place, account))
            elif account is not None:
                account.log = f"S {one.chain}" if one.letter == "S" else ""
                found.append(account)
        elif one.what in OF_PROCESSES:
            processes.setdefault((one.letter, one.chain), []).append(one)
        else:
            _reported(place, one, shadows, found)
    for (_, chain), log in entries.items():
        found += facts_of_entries(log, gaps.get(chain, ()))
    for (letter, chain), log in processes.items():
        found += _exits(log, f"{letter} {chain}")
    return found + epochs_told(epochs)


def _reported(place: StatementSource, one: JobRecord, shadows: dict[str, JobAccount], found: list[JobAccount]) -> None:
    """Add what the daemons' logs tell of a job: each shadow and each activation by itself."""
    facts = json.loads(one.body)
    of = f"{one.chain} {facts.get('slot') if one.letter == 'L' else facts.get('shadow')}"
    if one.what in ("over", "shadow_gone"):
        if (begun := shadows.pop(of, None)) is not None:
            begun.last = begun.runs[0].stopped = one.at
            begun.runs[0].over = f"{one.source}:{one.line}"
            begun.reconnected |= facts.get("reason", "").startswith("signal")  # what it counted is lost
        return
    log = f"{one.letter} {one.chain}"
    if one.what == "shadow_began" and not facts.get("slot"):  # it takes over a run that lost its shadow
        last = next((account for account in reversed(found) if account.log == log and account.runs), None)
        if last is not None:
            last.reconnected = True
            shadows[of] = last
            return
    account = JobAccount(None, one.at, one.at, log=log, address=facts.get("source", "").partition("?")[0])
    found.append(account)
    account.said += place.named("user" if one.letter == "L" else "submitter", facts.get("user", ""))
    if one.what in ("activated", "shadow_began"):
        shadows[of] = account
        run = RecordedRun(placed=one.at, said=[place.measures("placed", one.at)])
        run.said += place.named("slot", facts.get("slot", "")) + place.named("claim", facts.get("claim", ""))
        account.runs.append(run)


def _exits(log: Sequence[JobRecord], name: str) -> Iterator[JobAccount]:
    """Return what a starters' or shadows' log tells of how a job's process exited. A process that was told to end, or
    that its starter starts again (a job that writes checkpoints, or has a PostCmd), does not say how the job did."""
    began: dict[str, JobRecord] = {}
    told = [(one, json.loads(one.body)) for one in log]
    if any("again" in facts for _, facts in told):
        return
    for one, facts in told:
        if one.what == "process_began":
            began[facts["pid"]] = one
            continue
        begin = began.pop(facts.get("pid", ""), None)
        if "told" in facts:
            continue
        place = StatementSource(one.letter, one.source, one.line, one.at)
        how = next(f"{word} {facts[word]}" for word in ("code", "signal") if word in facts)
        run = RecordedRun(began=begin.at if begin else None, stopped=one.at, said=[place.says("exit", how)])
        yield JobAccount(None, begin.at if begin else one.at, one.at, log=name, runs=[run])
