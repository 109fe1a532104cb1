"""The judge of a whole log: whether every event in it was allowed by the tables, and agrees with those before it.

Here stand the rules with their words (``rules``), what the judge keeps of a pool while it reads (``books``), the rules'
mechanism by subject (``slots``, ``claims``, ``machines``, ``jobs``, ``evidence``), and the pass over the log
(``judge``). Nothing here changes a log or asks a store: it replays what is written, with the tables' lookup. Of
decisions it takes those again that an expression took, from the values that were noted. It must be able to read a log
that was edited, so nothing here may raise because an event makes no sense.
"""

if __name__ != "poolbook.replay.validation":
    raise ImportError(f"import this folder as poolbook.replay.validation, not as {__name__}")

from .judged_pool import Violation
from .rules import RULES
from .validator import Verdict, examine, judge

__all__ = ["RULES", "Verdict", "Violation", "examine", "judge"]
