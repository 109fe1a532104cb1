"""Table: the texts of a job's log when something is missing or unusual, as HTCondor's user_log events have them
(condor_event.cpp)."""

from __future__ import annotations

from poolbook.adapters.runtime.userlog import event_text as text

from ..together import together


@together(
    "fields, expected",
    [
        (text.held_text("", 1, 0), "Job was held.\n\tReason unspecified\n\tCode 1 Subcode 0\n"),
        (text.held_text("too\nlong", 34, 2), "Job was held.\n\ttoo long\n\tCode 34 Subcode 2\n"),
        (text.released_text(""), "Job was released.\n"),
        (text.released_text("by bob"), "Job was released.\n\tby bob\n"),
        (text.aborted_text(""), "Job was aborted.\n"),
        (text.ending(None, 9), "\t(0) Abnormal termination (signal 9)\n\t(0) No core file\n"),
        (text.ending(None, 11, "/c"), "\t(0) Abnormal termination (signal 11)\n\t(1) Corefile in: /c\n"),
        (text.ending(0, None), "\t(1) Normal termination (return value 0)\n"),
        (text.ending(255, None), "\t(1) Normal termination (return value 255)\n"),
        (text.attribute_changed("A", "", "1"), "Setting job attribute A to 1\n"),
        (text.attribute_changed("A", "0", "1"), "Changing job attribute A from 0 to 1\n"),
        (text.executing_text("<h>", "", {}), "Job executing on host: <h>\n"),
        (
            text.executing_text("<h>", "s", {"b": "2", "A": "1"}),
            "Job executing on host: <h>\n\tSlotName: s\n\tA = 1\n\tb = 2\n",
        ),
        (text._days(59), "0 00:00:59"),
        (text._days(60), "0 00:01:00"),
        (text._days(86_399), "0 23:59:59"),
        (text._days(86_400), "1 00:00:00"),
        (str(text.megabytes(0)), "0"),
        (str(text.megabytes(1)), "1"),
        (str(text.megabytes(1024)), "1"),
        (str(text.megabytes(1025)), "2"),
    ],
)
def test_an_event_has_the_text(fields: str, expected: str) -> None:
    assert fields == expected
