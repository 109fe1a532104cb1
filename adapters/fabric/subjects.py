"""The NATS subjects of datagrams, and who may send to whom.

The subject of a datagram is ``to.ROLE.NAME.from.ROLE.NAME``, so that the broker can compare both names with a user's
permissions. In a name, dots and special characters are escaped; the name of the broker's own manager, which has none,
is ``%``. Only that manager may send to another manager (``manager/NAME``), which may send only to it.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

_LONGEST_NAME = 400
"""Characters of an escaped name: a NATS server accepts lines of 4 kB, and a role sends its token in one of them."""
_MANAGER = "manager.%"
_RECEIVERS = {
    "manager": ("*.*",),
    "access-point": (_MANAGER, "execution-point.*"),
    "execution-point": (_MANAGER, "access-point.*"),
}
"""Role -> the patterns of the roles that it may send to."""


def check_peer(peer: str) -> None:
    """Raise `ValueError` if `peer` is not the name of a peer."""
    role, slash, name = peer.partition("/")
    is_valid = peer == "manager" or (slash and name.isprintable() and 0 < len(_escaped(name)) <= _LONGEST_NAME)
    if role not in _RECEIVERS or not is_valid:
        forms = "manager, manager/NAME, access-point/NAME or execution-point/NAME"
        raise ValueError(f"{peer[:80]!r} is not a peer; use {forms}")


def subject(receiver: str, sender: str) -> str:
    """Return the subject of datagrams from one peer to another. Raise `ValueError` if one is not a peer."""
    return f"to.{_tokens(receiver)}.from.{_tokens(sender)}"


def subjects_to(receiver: str) -> str:
    """Return the pattern of all subjects that a peer receives."""
    return f"to.{_tokens(receiver)}.from.*.*"


def subjects_from(sender: str) -> list[str]:
    """Return the patterns of all subjects on which a peer may send."""
    source, role = _tokens(sender), sender.partition("/")[0]
    receivers = (_MANAGER,) if sender.startswith("manager/") else _RECEIVERS[role]
    return [f"to.{receiver}.from.{source}" for receiver in receivers]


def sender_of(subject: str) -> str:
    """Return the peer that sent a datagram with this subject."""
    *_, role, name = subject.split(".")
    return role if name == "%" else f"{role}/{unquote(name)}"


def _tokens(peer: str) -> str:
    check_peer(peer)
    role, _, name = peer.partition("/")
    return f"{role}.{_escaped(name) or '%'}"


def _escaped(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")
