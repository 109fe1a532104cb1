"""How an execution point accesses the files of jobs at their access point. The keys are in no log."""

from __future__ import annotations

from msgspec import Struct


class FileAccess(Struct, frozen=True):
    """The access to the files of some runs."""

    urls: tuple[str, ...]  #: the base URLs, to try in order
    ca: str  #: the certificates (PEM) that certify their hosts
    keys: dict[str, tuple[str, str]]  #: by the run's key: its name at the access point, and its transfer key
    datagram_key: str  #: authorizes the execution point to exchange datagrams there: see ``second_path``
