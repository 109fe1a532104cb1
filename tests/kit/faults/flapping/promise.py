"""An owner who types now and then is not disturbed again and again."""

from pathlib import Path

from poolbook import events
from poolbook.testing import play

SCENARIO = """
machine desk
until 4h
at 1h submit alice run=8h
at 2h every 3min until 3h KeyboardIdle=0
"""


def test_a_job_is_suspended_once_for_an_owner_who_types_every_three_minutes() -> None:
    report = play(SCENARIO, config=Path("site.conf"))
    suspensions = [
        event
        for position, event in report.events
        if isinstance(event, events.SlotTransitioned) and event.target == "Claimed/Suspended"
    ]
    assert len(suspensions) == 1, report.why("1.0", verbose=True)
