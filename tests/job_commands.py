"""Commands about jobs by the names of their actions, as stories and scenarios choose them."""

from __future__ import annotations

from poolbook.domain.ports import stimuli as s


def job_command(
    id: str, user: str, action: str, selection: s.Selection, reason: str = "", *, fast: bool = False
) -> s.JobCommand:
    """Return the command that does `action`; `fast` counts for vacate alone."""
    if action == s.Vacate.action:
        return s.Vacate(id, user, selection, reason, fast)
    return s.JOB_COMMANDS[action](id, user, selection, reason)
