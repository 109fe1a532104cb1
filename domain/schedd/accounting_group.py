"""For whom a submission counts: by default its user, else what AccountingGroup says (``accounting_group``,
``accounting_group_user`` and ``nice_user`` in a submit description), each with the pool's UID_DOMAIN behind it.

As in the reference, a string counts and everything else does not: an AccountingGroup that is a number, empty or
undefined leaves the job its user's. All jobs of a cluster count for one submitter, from their submission on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..classad import EvaluationError
from ..decision.draft import Draft, Refusal
from ..ports.stimuli import Submit
from ..state.expression_cache import ad_of, expression
from ..state.job_ad import quoted, unquoted

GROUP = "AccountingGroup"
_STRING = re.compile(r"\"[^\"\\]*\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def submitter_of(draft: Draft, command: Submit, columns: Mapping[str, Sequence[str]]) -> str:
    """Who the jobs of a submission count for.

    :raises Refusal: they do not all count for the same, or the name is none
    """
    domain = draft.state.uid_domain
    user = f"{command.user}@{domain}"
    texts = list(dict.fromkeys(_texts(command, columns)))
    names = list(dict.fromkeys(_named(draft, command, text, columns) for text in texts))
    if len(names) > 1:
        first, second = (f"{name}@{domain}" if name else user for name in names[:2])
        raise Refusal(
            f"the jobs of one submission count for one submitter, but {GROUP} differs between them ({first}, "
            f"{second}): submit them separately"
        )
    return f"{names[0]}@{domain}" if names[0] else user


def _texts(command: Submit, columns: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """What AccountingGroup is in the jobs; ClassAds ask for no capitals."""
    for name, column in columns.items():
        if name.lower() == GROUP.lower():
            return column
    return [text for name, text in command.ad.items() if name.lower() == GROUP.lower()] or [""]


def _named(draft: Draft, command: Submit, text: str, columns: Mapping[str, Sequence[str]]) -> str:
    """The name that an AccountingGroup yields; empty: none."""
    if _STRING.fullmatch(text):
        found: object = unquoted(text)
    elif (asked := expression(text) if text else None) is None:
        return ""
    else:
        differ = {name.lower(): name for name in columns}
        read = [differ[word.lower()] for word in _WORD.findall(text) if word.lower() in differ]
        if read:
            raise Refusal(
                f"{GROUP} = {text[:200]}: it reads {read[0]}, which differs between the jobs, but all of them count "
                "for one submitter: submit them separately"
            )
        try:
            found = asked.evaluate(ad_of({**command.ad, "Owner": quoted(command.user)}), None, draft.context)
        except EvaluationError:
            return ""
    if not isinstance(found, str):
        return ""
    if re.search(r"\s", found) or not found.isprintable():
        raise Refusal(f"{GROUP} = {text[:200]}: a name in accounting holds no blanks and can be printed")
    return found
