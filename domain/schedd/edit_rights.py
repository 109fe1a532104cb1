"""Who may set which attribute of a job: as it is submitted, and afterwards.

Immutable attributes stay as they were submitted; protected ones may be edited by a super user of the queue alone;
secure ones are the schedd's, and attempts to set them are passed over. Beyond HTCondor's, what a job's life changes is
the pool's own to write, and for whom a job counts is said once.

Source: ModifyAttrCheck and SetAttribute (qmgmt.cpp) of the reference; its lists of attributes (param_info.in).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..classad import ClassAd
from ..events import Ad
from ..state.job_ad import LIVED
from ..state.schedd_settings import (
    GUARDED,
    IGNORE_SECURE,
    SYSTEM_IMMUTABLE,
    SYSTEM_PROTECTED,
    SYSTEM_SECURE,
)
from .factory_limits import KEPT
from .submitted_job import text_in

IMMUTABLE: Final = "immutable"
PROTECTED: Final = "protected"
SECURE: Final = "secure"
_LISTS: Final = {
    IMMUTABLE: ("IMMUTABLE_JOB_ATTRS", SYSTEM_IMMUTABLE),
    PROTECTED: ("PROTECTED_JOB_ATTRS", SYSTEM_PROTECTED),
    SECURE: ("SECURE_JOB_ATTRS", SYSTEM_SECURE),
}
_GROUP: Final = "accountinggroup"
OWN: Final = LIVED | KEPT | {"globaljobid"}
"""The attributes, in small letters, that the pool alone writes."""
IDENTITY: Final = frozenset({"clusterid", "procid", "owner", "user"})
"""Those that no configuration lets be edited."""


def guard(name: str, settings: Mapping[str, str]) -> str:
    """What an attribute is by the settings: immutable, protected or secure; empty: none of them."""
    return _guards(tuple(settings.get(each, default) for each, default in GUARDED.items())).get(name.lower(), "")


@lru_cache(maxsize=8)
def _guards(lists: tuple[str, ...]) -> Mapping[str, str]:
    texts = dict(zip(GUARDED, lists, strict=True))
    found: dict[str, str] = {}
    for kind, names in _LISTS.items():
        for name in names:
            for word in texts[name].replace(",", " ").split():
                found.setdefault(word.lower(), kind)
    return found


def why_not_edit(name: str, user: str, settings: Mapping[str, str], *, is_super: bool) -> str:
    """Why a user may not edit an attribute of a job in the queue, in condor_qedit's words; empty: the user may."""
    key = name.lower()
    kind = IMMUTABLE if key in IDENTITY else guard(name, settings)
    if kind in (IMMUTABLE, SECURE):
        return f'Update of {kind} attribute "{name}" is not allowed.'
    if kind == PROTECTED and not is_super:
        return f"Unauthorized setting of protected attribute {name} denied for {user}: a super user of the queue may"
    if key in OWN:
        return f"{name} cannot be changed: the pool itself keeps it"
    if key == _GROUP:
        words = "it says for whom the jobs count from the start; remove them and submit them again"
        return f"{name} cannot be changed: {words}"
    return ""


def unsettable(settings: Mapping[str, str]) -> frozenset[str]:
    """The attributes, in small letters, that a job may not set of itself: those that its owner may not edit."""
    guarded = _guards(tuple(settings.get(each, default) for each, default in GUARDED.items()))
    return OWN | IDENTITY | {_GROUP} | guarded.keys()


def ignores_secure(settings: Mapping[str, str]) -> bool:
    """Whether attempts to set secure attributes are passed over."""
    return settings.get(IGNORE_SECURE, "true").strip().lower() != "false"


_IDENTITY: Final = ("Owner", "User", "ClusterId")


def may_be_submitted(changes: Ad, ad: ClassAd, settings: Mapping[str, str]) -> Ad | None:
    """What transforms may set of a job on its way into the queue; None: they set what nobody may, and the submission
    fails."""
    same = {name.lower(): text_in(ad, name) for name in _IDENTITY}
    kept: Ad = {}
    for name, text in changes.items():
        key = name.lower()
        if guard(name, settings) == SECURE:
            if not ignores_secure(settings):
                return None
        elif key in same:
            if text != same[key] and (text != "undefined" or key == "clusterid"):
                return None
        elif key == "jobstatus":
            if text not in ("1", "5"):
                return None
            if text == "5":
                kept[name] = text
        elif key != "procid":
            kept[name] = text
    return kept
