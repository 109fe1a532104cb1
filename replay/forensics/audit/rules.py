"""The rules that records of an import can break, by name."""

from __future__ import annotations

from typing import Final

OF_SLOTS: Final[dict[str, str]] = {
    "row": "a transition of a slot is a row of the dialect's table",
    "chain": "a transition begins where the slot's last one ended; else a line was taken out or changed",
    "said": "what the startd says just before a transition is what the transition then does",
    "unsaid": "what a startd says before each other transition of a kind, it says before all of them",
    "birth": "a slot begins once, and again only after it ended",
    "unborn": "where a startd tells of its slots' beginnings, no slot acts that did not begin",
    "activation": "a claim runs one job at a time: a job is started in Claimed/Idle, and its end is that job's",
    "restart": "after a startd's end its slots act only when another one began",
    "backwards": "times in a log do not run backwards by more than a wrong zone or a clock's setting explains, nor in "
    "one line alone by more than 5 s",
}

OF_JOBS: Final[dict[str, str]] = {
    "ended_twice": "a job ends once, by itself or by its removal",
    "after_end": "nothing happens to a job that has ended",
    "held": "a job on hold is released before it runs",
    "not_held": "only a job that is on hold is released",
    "not_running": "only what runs is suspended, and only what is suspended goes on",
    "unbegun": "a job that ended after it had run had begun to run",
    "slot_twice": "a slot runs one job at a time",
    "backwards": "no entry alone lies more than 30 s before the one above it of the same job",
    "lost": "(no violation) a job that ran is heard of again, or its end is, also where another source has the end",
    "repeated": "(no violation) what happened is told once",
}

OF_FACTS: Final[dict[str, str]] = {
    "history_twice": "a job leaves the queue once: one history has one ad of it",
    "run_twice": "a run ends once: an epoch history and a startd's history have one ad of it",
    "gone_twice": "a job's ad is destroyed once, until there is a new one",
    "claim_twice": "a claim runs one job at a time: the runs that ads tell of one claim do not overlap",
}

RULES: Final[dict[str, str]] = OF_SLOTS | OF_JOBS | OF_FACTS  #: every rule that a finding of an import may name
