"""Hold what is submitted with more input than it may move: more than its MaxTransferInputMB, or in its absence than the
access point's MAX_TRANSFER_INPUT_MB, which may read the job's ad.

Source: the manual's "Submit Description File Commands" (max_transfer_input_mb) and "Configuration Macros"; the
reference's qmgmt.cpp for the words, and that a negative limit is none.
"""

from __future__ import annotations

from ..decision.draft import Draft, ranges
from ..events import Ad
from ..startd.evaluation import integer
from ..state.cluster import Cluster
from ..state.expression_cache import ad_of, expression
from ..state.job_ad import quoted
from ..state.schedd_settings import MAX_INPUT
from .policy_kinds import attributes_read, kinds

_OWN, _SIZE = "MaxTransferInputMB", "TransferInputSizeMB"
_CODE = "32"  #: HoldReasonCode MaxTransferInputSizeExceeded


def hold_too_large(draft: Draft, cluster: Cluster) -> None:
    """Hold those jobs of a new cluster that are idle and too large."""
    setting = draft.state.settings.get(MAX_INPUT, "")
    procs = [proc for proc in cluster.procs() if cluster.status_of(proc) == "Idle"]
    if not procs:
        return
    names = frozenset({_OWN.lower(), _SIZE.lower()})
    names |= attributes_read(filter(None, map(expression, (_OWN, setting))), cluster, procs[0])
    for alike in kinds(cluster, procs, names):
        if changes := _too_large(draft, cluster, alike[0], setting):
            draft.move_jobs(cluster, ranges(alike), "hold", "submitted", "Idle", changes)


def _too_large(draft: Draft, cluster: Cluster, proc: int, setting: str) -> Ad:
    """Return the changes of an ad that say why the job is held; none: it is not."""
    ad = ad_of(cluster.attributes(proc))
    asked = (expression(text) for text in (_OWN, setting, _SIZE))
    own, of_all, size = (None if one is None else integer(one, ad, None, draft.context) for one in asked)
    limit = of_all if own is None else own
    if limit is None or limit < 0 or size is None or size <= limit:
        return {}
    reason = f"{_SIZE} ({size}) is greater than {MAX_INPUT} ({limit}) at submit time"
    return {"HoldReason": quoted(reason), "HoldReasonCode": _CODE, "HoldReasonSubCode": "0"}
