"""The answer to a command, in the log: a repeated command gets it again."""

from __future__ import annotations

import msgspec

from ..events import RequestAnswered
from ..ports.stimuli import Command
from ..state.state import LogState
from .draft import Draft


def answer(draft: Draft[LogState], command: Command, request: str, arguments: str, value: object) -> None:
    """Write down what was asked and what is answered."""
    text = msgspec.json.encode(value).decode()
    draft.emit(RequestAnswered(*draft.why("answered"), command.user, request, arguments, text))
