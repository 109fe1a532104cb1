"""Why a job or a slot is where it is: the chain of causes in sentences, for people who know nothing of the log.

Here stand the questions (``job``, ``slot``, and ``cluster``, which sums up), what a cycle's refusal means for one job
(``refusals``), what no slot has that a job asks for (``misfits``), what all of it is said with (``sentences``), and
which events of a log have to be read for it (``gather``). The same questions of what was imported from a real pool
have modules of their own (``imported_job``, ``imported_slot``), with what these share: a job's records, each once
(``records``), its runs as slots tell them (``runs``), the matches that led to them (``matches``), the daemons that
died (``deaths``), the words for codes and addresses (``record_words``). Nothing here decides or judges, and no
expression is evaluated but to find what no slot has: it tells what events say, and where they are silent it says so.
"""

if __name__ != "poolbook.replay.why":
    raise ImportError(f"import this folder as poolbook.replay.why, not as {__name__}")

from ..narration.sentences import Sentence, UnknownThingError, tell
from .job import judged, why_job
from .select_events import job_events, slot_events
from .slot import why_slot

__all__ = ["Sentence", "UnknownThingError", "job_events", "judged", "slot_events", "tell", "why_job", "why_slot"]
