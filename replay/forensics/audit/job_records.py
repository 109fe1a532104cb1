"""Collect the accounts of one job number from all records: one account per event log, per ad, and per daemon's report.

``audit_statements.recorded_jobs`` joins these accounts into jobs and their runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ....domain.imported.packed_ads import unquoted
from .audit_statements import JobAccount, RecordedRun, StatementSource
from .event_log_facts import JobRecord, facts_of_entries
from .job_ad_facts import account_of_ad, accounts_of_epochs

OF_PROCESSES: Final = ("process_began", "process_ended", "terminated")
"""The reports of starters and shadows about a job's process."""


def accounts_of(records: Iterable[JobRecord], gaps: Mapping[int, Sequence[int]]) -> list[JobAccount]:
    """Return the accounts of a job number from its records. `gaps`: the ``order`` of missing records, by chain."""
    entries: dict[tuple[str, int], list[JobRecord]] = {}
    accounts: list[JobAccount] = []
    epochs: list[tuple[StatementSource, JobAccount]] = []
    shadows: dict[str, JobAccount] = {}
    processes: dict[tuple[str, int], list[JobRecord]] = {}
    for record in records:
        origin = StatementSource(record.letter, record.source, record.line, record.at)
        if record.letter in "UE":
            entries.setdefault((record.letter, record.chain), []).append(record)
        elif record.letter in "HPSQA":
            ad = json.loads(record.body)
            final = record.letter == "H" or record.what == "final"
            if unquoted(ad.get("EpochAdType", "EPOCH")) != "EPOCH":
                continue
            account = account_of_ad(origin, ad, final)
            if account is not None and record.letter == "P":
                epochs.append((origin, account))
            elif account is not None:
                account.log = f"S {record.chain}" if record.letter == "S" else ""
                accounts.append(account)
        elif record.what in OF_PROCESSES:
            processes.setdefault((record.letter, record.chain), []).append(record)
        else:
            _add_record(origin, record, shadows, accounts)
    for (_, chain), log in entries.items():
        accounts += facts_of_entries(log, gaps.get(chain, ()))
    for (letter, chain), log in processes.items():
        accounts += _process_exits(log, f"{letter} {chain}")
    return accounts + accounts_of_epochs(epochs)


def _add_record(
    origin: StatementSource, record: JobRecord, shadows: dict[str, JobAccount], known_accounts: list[JobAccount]
) -> None:
    """Add a record of a daemon's log to a job's accounts. Each shadow and each activation has its own account."""
    facts = json.loads(record.body)
    run_key = f"{record.chain} {facts.get('slot') if record.letter == 'L' else facts.get('shadow')}"
    if record.what in ("over", "shadow_gone"):
        if (shadow_account := shadows.pop(run_key, None)) is not None:
            shadow_account.last = shadow_account.runs[0].stopped_at = record.at
            shadow_account.runs[0].end_place = f"{record.source}:{record.line}"
            shadow_account.reconnected |= facts.get("reason", "").startswith("signal")  # its counters are lost
        return
    log = f"{record.letter} {record.chain}"
    if record.what == "shadow_began" and not facts.get("slot"):  # it takes over the run of a lost shadow
        last_account = next((known for known in reversed(known_accounts) if known.log == log and known.runs), None)
        if last_account is not None:
            last_account.reconnected = True
            shadows[run_key] = last_account
            return
    account = JobAccount(None, record.at, record.at, log=log, address=facts.get("source", "").partition("?")[0])
    known_accounts.append(account)
    account.statements += origin.named_text("user" if record.letter == "L" else "submitter", facts.get("user", ""))
    if record.what in ("activated", "shadow_began"):
        shadows[run_key] = account
        run = RecordedRun(placed_at=record.at, statements=[origin.value_statement("placed", record.at)])
        run.statements += origin.named_text("slot", facts.get("slot", "")) + origin.named_text(
            "claim", facts.get("claim", "")
        )
        account.runs.append(run)


def _process_exits(log: Sequence[JobRecord], name: str) -> Iterator[JobAccount]:
    """Yield the exits of a job's processes in a starters' or shadows' log. The exit of a process that was signalled to
    end, or that its starter starts again (for checkpoints or a PostCmd), does not show the job's outcome."""
    began_records: dict[str, JobRecord] = {}
    records = [(record, json.loads(record.body)) for record in log]
    if any("again" in facts for _, facts in records):
        return
    for record, facts in records:
        if record.what == "process_began":
            began_records[facts["pid"]] = record
            continue
        begin_record = began_records.pop(facts.get("pid", ""), None)
        if "told" in facts:
            continue
        origin = StatementSource(record.letter, record.source, record.line, record.at)
        outcome = next(f"{word} {facts[word]}" for word in ("code", "signal") if word in facts)
        began_at = begin_record.at if begin_record else None
        statements = [origin.text_statement("exit", outcome)]
        run = RecordedRun(began_at=began_at, stopped_at=record.at, statements=statements)
        yield JobAccount(None, begin_record.at if begin_record else record.at, record.at, log=name, runs=[run])
