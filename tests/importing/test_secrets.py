"""No byte of a claim's secret passes the import."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from poolbook.adapters.condor_files.source_reader import mask_secrets, without_secrets
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import AdsKept
from poolbook.domain.imported import packed_ads

from ..together import together
from .folders import imported, write

SECRET = "deadbeef0001cafe"
ADDRESS = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=node1>"
SESSION = '[Integrity="YES";Encryption="YES";CryptoMethods="AES,BLOWFISH";ValidCommands="60000,60008";]'

# A file's text, and what a reader sees of it.
CASES = [
    (f"{ADDRESS}#1795214646#1#{SECRET} x", f"{ADDRESS}#1795214646#1#{'.' * 16} x"),
    (f"{ADDRESS}#1795214646#1#{SESSION}{SECRET}, x", f"{ADDRESS}#1795214646#1#{'.' * (16 + len(SESSION))}, x"),
    (f"{ADDRESS}#1795214646#1#...", f"{ADDRESS}#1795214646#1#..."),
    (f'ClaimId = "{SECRET}"', f'ClaimId = "{"." * 16}"'),
    (f'[ a = 1; TransferKey = "{SECRET}"; b = 2 ]', f'[ a = 1; TransferKey = "{"." * 16}"; b = 2 ]'),
    (f'"capability": "{SECRET}", "B": 2', f'"capability": "{"." * 16}", "B": 2'),
    (f'<a n="ClaimId"><s>{SECRET}</s></a>', f'<a n="ClaimId"><s>{"." * 16}</s></a>'),
    (f'103 1.0 _condor_privKey "{SECRET}"', f'103 1.0 _condor_privKey "{"." * 16}"'),
    (f"CLAIMIDS={SECRET}", f"CLAIMIDS={'.' * 16}"),
    (f'PublicClaimId = "{ADDRESS}#1795214646#1#..."', f'PublicClaimId = "{ADDRESS}#1795214646#1#..."'),
    ("Received ClaimId from schedd (<h>#1795214646#1#...)", "Received ClaimId from schedd (<h>#1795214646#1#...)"),
    ("a capability of the machine", "a capability of the machine"),
]


@together(("text", "expected"), CASES)
def test_a_reader_sees_dots_of_the_same_length_for_secrets(text: str, expected: str) -> None:
    assert mask_secrets(text.encode()).decode() == expected
    assert len(expected) == len(text)


def test_a_claim_id_is_public_whether_its_secret_was_present_hidden_or_absent() -> None:
    public = f"{ADDRESS}#1795214646#1#..."
    for secret in (SECRET, SESSION + SECRET, "...", "." * 16):
        assert without_secrets(f"{ADDRESS}#1795214646#1#{secret} x") == f"{public} x"


CLAIM = f"{ADDRESS}#1795214646#7#{SESSION}{SECRET}"
QUOTED = CLAIM.replace('"', '\\"')
AD = f'ClusterId = 1\nProcId = 0\nClaimId = "{QUOTED}"\nNested = [ TransferKey = "{SECRET}" ]\nMyType = "Job"\n'
NOON = "11/20/26 12:00:00"
ENTRY = "(001.000.000) 2026-11-20 12:00:00"
JSON = [{"ClusterId": 1, "MyType": "Job", "ServerTime": 6, "ClaimId": CLAIM, "Capability": SECRET}]
FILES = {
    "StartLog": [
        f"{NOON} slot1: Received ClaimId from schedd ({CLAIM})",
        f"{NOON} slot1: Changing state: {CLAIM}",
    ],
    "SchedLog": [f"{NOON} (pid:1) Match record ({CLAIM} for alice, 1.0) deleted"],
    "NegotiatorLog": [
        f"{NOON} ---------- Started Negotiation Cycle ----------",
        f"{NOON} Setting the priority factor of {CLAIM} to 10.0",
    ],
    "MatchLog": [f"{NOON}       Matched 1.0 alice@h <h> preempting none <h> {CLAIM}"],
    "job.log": [
        f"000 {ENTRY} Job {CLAIM}",
        "...",
        f"028 {ENTRY} Job ad information event triggered.",
        f'TransferKey = "{SECRET}"',
        "...",
        f'rubbish ClaimId = "{SECRET}"',
        "...",
    ],
    "history": [
        f'{AD}*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "{QUOTED}" CompletionDate = 1',
        f'no ad ClaimId = "{SECRET}"',
    ],
    "q.ads": [f"{AD}ServerTime = 5", ""],
    "q.json": [json.dumps(JSON, indent=1)],
    "job_queue.log": [
        "107 1 CreationTimestamp 1",
        "101 1.0 Job Machine",
        f'103 1.0 ClaimId "{QUOTED}"',
        f'103 1.0 Note "{QUOTED}"',
        f"103 {CLAIM} x 1",
    ],
    "Accountantnew.log": [
        "107 1 CreationTimestamp 1",
        f"101 Customer.{CLAIM} * *",
        f'103 Customer.a TransferKey "{SECRET}"',
    ],
}


def test_no_byte_of_a_secret_reaches_a_log_or_its_views_from_any_file(tmp_path: Path) -> None:
    for name, lines in FILES.items():
        write(tmp_path / "pool" / name, "\n".join(lines) + "\n")
    path = tmp_path / "audit.db"
    log = open_log(str(path), create=True)
    _, result = imported(tmp_path / "pool", log=log)
    assert {kind for kind, counts in result.counts.items() if counts.events} >= {
        "startlog",
        "userlog",
        "queue",
        "history",
    }
    kept_ads = [ad for _, event in log.read() if isinstance(event, AdsKept) for ad in packed_ads.unpack(event)]
    log.close()
    assert SECRET not in str(kept_ads)
    with closing(sqlite3.connect(path)) as rows:
        states = [state for (state,) in rows.execute("SELECT state FROM stored_events")]
    assert len(states) > 10
    assert not any(SECRET.encode() in state for state in states)
    assert SECRET.encode() not in path.read_bytes()
