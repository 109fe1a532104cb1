"""Commands on jobs by the names of their actions, for stories and scenarios."""

from __future__ import annotations

from poolbook.domain.ports import stimuli as s


def job_command(
    id: str, user: str, action: str, selection: s.Selection, reason: str = "", *, fast: bool = False
) -> s.JobCommand:
    """Return the command for `action`; `fast` affects only vacate."""
    if action == s.Vacate.action:
        return s.Vacate(id, user, selection, reason, fast)
    return s.JOB_COMMANDS[action](id, user, selection, reason)
