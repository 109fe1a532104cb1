"""Unit: the CollectorLog shows when the ads of machines and slots come, expire, become absent, and are invalidated."""

from __future__ import annotations

from poolbook.adapters.runtime.daemon_logs.fold import DaemonLogs
from poolbook.domain import events as e

from ..together import together

WHY = (1_000_000, "cause", "x")
SLOT, DYNAMIC = "slot1@ep1", "slot1_1@ep1"
FOUNDED = e.PoolFounded(*WHY, "cm1", "htcondor-25", "example.org", "1", {})
JOINED = e.MachineJoined(*WHY, "ep1", {})
CREATED = e.SlotCreated(*WHY, SLOT, "ep1", "partitionable", "", {})
CARVED = e.SlotCreated(*WHY, DYNAMIC, "ep1", "dynamic", SLOT, {})
GONE, HEARD = e.MachineExpired(*WHY, "ep1", True, True), e.MachineExpired(*WHY, "ep1", False)
UNREACHED = e.MachineExpired(*WHY, "ep1", True)
ABSENT = e.SlotAbsent(*WHY, SLOT, "ep1", {}, 9_000_000)
LEFT = e.MachineLeft(*WHY, "ep1")

NEW_MACHINE = 'StartDaemonAd: Inserting ** "< ep1 >"\n'


def new(slot: str) -> str:
    return f'MachineSlotAd: Inserting ** "< {slot} >"\nMachinePvtAd : Inserting ** "< {slot} >"\n'


def invalidated(slot: str) -> str:
    return (
        f'Got INVALIDATE_STARTD_ADS\n\t\t**** Removed(1) Machine ad(s): "< {slot} >"\n'
        f'\t\t**** Removed(1) MachinePrivate ad(s): "< {slot} >"\n(Invalidated 1 ads) + 1 private ads\n'
    )


def stale(name: str) -> str:
    return f'\t\t**** Removing stale ad: "< {name} >"\n'


EXPIRED = "".join((
    "Housekeeper:  Ready to clean old ads\n\tCleaning StartdSlotAds ...\n", stale(SLOT),
    "\tCleaning StartdPrivateAds ...\n", stale(SLOT), "\tCleaning StartdDaemonAds ...\n", stale("ep1"),
    "Housekeeper:  Done cleaning\n",
))  # fmt: skip
KEPT, DROPPED = f"Added ad to persistent store key=<{SLOT}>\n", f"Removed ad from persistent store key=<{SLOT}>\n"


@together(
    ("events", "lines"),
    [
        ([], 'ScheddAd     : Inserting ** "< cm1 >"\nNegotiatorAd  : Inserting ** "< cm1 >"\n'),
        ([JOINED], NEW_MACHINE),
        ([JOINED, CREATED], new(SLOT)),
        ([JOINED, CREATED, CARVED], new(DYNAMIC)),
        ([JOINED, CREATED, CARVED, e.SlotDestroyed(*WHY, DYNAMIC)], invalidated(DYNAMIC)),
        (
            [JOINED, CREATED, LEFT],
            f'{invalidated(SLOT)}Got INVALIDATE_STARTD_ADS\n\t\t**** Removed(1) StartD ad(s): "< ep1 >"\n'
            "(Invalidated 1 ads)\n",
        ),
        ([JOINED, CREATED, GONE], EXPIRED),
        ([JOINED, CREATED, UNREACHED], ""),
        ([JOINED, CREATED, UNREACHED, HEARD], ""),
        ([JOINED, CREATED, GONE, HEARD], NEW_MACHINE + new(SLOT)),
        ([JOINED, CREATED, GONE, ABSENT], KEPT),
        ([JOINED, CREATED, GONE, ABSENT, HEARD], NEW_MACHINE + new(SLOT) + DROPPED),
        ([JOINED, CREATED, GONE, ABSENT, HEARD, GONE, HEARD], NEW_MACHINE + new(SLOT)),
    ],
)
def test_the_last_event_is_in_the_collector_log(events: list[e.Event], lines: str) -> None:
    logs = DaemonLogs()
    for position, event in enumerate([FOUNDED, e.WriterBegan(*WHY, 1, "here"), *events], 1):
        written = [line.text for line in logs.fold(position, event) if line.log.daemon == "COLLECTOR"]
    texts = [text for text in written if not text.startswith(("**", "DaemonCore"))]
    assert "".join(f"{text}\n" for text in texts) == lines


def test_a_role_without_the_collector_writes_no_collector_log() -> None:
    logs = DaemonLogs()
    events = [e.PoolFounded(*WHY, "ep1", "htcondor-25", "example.org", "1", {}, "", ("execution-point",)), JOINED]
    lines = [line for position, event in enumerate(events, 1) for line in logs.fold(position, event)]
    assert {line.log.daemon for line in lines} == {"MASTER", "STARTD"}
