"""The managers that a role has joined, of its pool and of the pools to which an access point flocks.

The membership that the role obtained first is in the private directory next to its log; further ones are
below it, in ``managers/NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

from ...domain.errors import PoolbookError
from ...domain.state.peers import MANAGER
from ..fabric.carrier import Carrier
from ..fabric.many_brokers import ManyBrokers
from ..security.tokens import TokenRejected, claims_of
from .client import TIMEOUT_S, UNREACHABLE, ManagerError, call, checked_url, unverified_context
from .joining import Renewal, join
from .membership import MemberFiles
from .messages import ROLE_NAME, PoolInfo

_RETRY_S: Final = 10.0  #: between attempts to join a manager that cannot be reached


def memberships(log: Path) -> list[MemberFiles]:
    """Return the files of all memberships of a role, the first one's first.

    :param log: where the names of the files next to the log begin (`LogPaths.base`)
    """
    first = MemberFiles(log)
    folder = first.folder / "managers"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [files for files in (first, *(MemberFiles(log, name) for name in names)) if files.exist()]


class Invitation(NamedTuple):
    """What a role needs to join a manager."""

    url: str
    tokens: Sequence[str]  #: to try
    role: str
    name: str
    log: Path
    is_further: bool = False  #: whether the role may have joined other managers
    flocks: bool = False  #: whether it is the manager of another pool

    def accept(self) -> MemberFiles:
        """Join the manager, or renew the membership. Raise `ManagerError`."""
        base = checked_url(self.url.partition("#")[0], self.url)
        info = call(base, "/v1/pool", PoolInfo, unverified_context(), None)  # `join` verifies it
        files, known = self._files(base, info), memberships(self.log)
        domain = known[0].read().terms.uid_domain if known and not self.flocks else ""
        tokens = [token for token in self.tokens if len(self.tokens) == 1 or _issuer(token) == info.trust_domain]
        problem = ManagerError(
            f"none of the tokens is from the trust domain {info.trust_domain!r} of {base}; create one there with "
            f"`poolbook token create`"
        )
        for token in tokens:
            try:
                join(self.url, token, self.role, self.name, files, self.flocks, domain)
            except ManagerError as error:
                problem = error
            else:
                return files
        raise problem

    def known(self) -> bool:
        """Return True if the role has joined the manager at this URL before."""
        base = checked_url(self.url.partition("#")[0], self.url)
        return any(files.read().url == base for files in memberships(self.log))

    def _files(self, base: str, info: PoolInfo) -> MemberFiles:
        """Return the files for the membership at a manager, which may exist already."""
        known = memberships(self.log)
        for files in known:
            if files.read().url == base or files.authority.read_text() == info.ca:
                return files
        if self.role != MANAGER and not (known and self.is_further):
            return MemberFiles(self.log)
        if not ROLE_NAME.fullmatch(info.pool):
            raise ManagerError(f"{base} is the manager of {info.pool[:80]!r}, which is not a name for a manager")
        files = MemberFiles(self.log, info.pool)
        if files.exist():
            raise ManagerError(
                f"{base} has the same name as the manager {files.read().url}: {info.pool}; give them different names"
            )
        return files


def _how_to_flock(log: Path) -> str:
    return f"call `poolbook join URL TOKEN -flock -log {log}` with the URL and a token of that manager"


def _issuer(token: str) -> str:
    with suppress(TokenRejected):
        return str(claims_of(token)[1].get("iss", ""))
    return ""


def accept_all(invitations: Iterable[Invitation], is_member: bool, warn: Callable[[str], None]) -> list[Invitation]:
    """Join each manager. Return the invitations of managers that do not answer now, if the role is a member already or
    has joined another one; they are accepted later. Raise `ManagerError`."""
    late = list[tuple[Invitation, ManagerError]]()
    for invitation in invitations:
        try:
            invitation.accept()
            is_member = True
        except ManagerError as error:
            if error.status in (0, 401, 429) and invitation.known():
                is_member = True
                warn(f"{error}; continuing as the member that joined before")
            elif error.code == UNREACHABLE:
                late.append((invitation, error))
            else:
                raise
    for _, problem in late:
        if not is_member:
            raise problem
        warn(f"{problem}; this role joins it as soon as it answers")
    return [invitation for invitation, _ in late]


class Managers:
    """The managers that a served role has joined: the carrier of their brokers, and the renewal of the memberships.

    :param own: the carrier of a manager in its own broker
    :param late: the invitations that are accepted in a thread as soon as possible
    :param warn: called, in threads, with problems for the administrator
    :param flock_to: the managers in FLOCK_TO; others of other pools are not used
    """

    def __init__(
        self,
        log: Path,
        late: Sequence[Invitation],
        warn: Callable[[str], None],
        own: Carrier | None = None,
        flock_to: Sequence[str] = (),
    ) -> None:
        self.carrier = ManyBrokers(own)
        self._late, self._warn, self._flock_to = [*late], warn, flock_to
        self._renewals: list[Renewal] = []
        self._stop = Event()
        for files in memberships(log):
            self._use(files)
        joined = {files.manager.partition("/")[2] for files in memberships(log)}
        for name in flock_to:
            if name not in joined and not late:
                warn(f"FLOCK_TO lists {name}, which this access point has not joined: {_how_to_flock(log)}")
        self._thread = Thread(target=self._join_late, name="join", daemon=True)
        if late:
            self._thread.start()

    def names(self) -> tuple[str, ...]:
        """Return the names of the managers, as peers."""
        return self.carrier.managers

    def _use(self, files: MemberFiles) -> None:
        name = files.manager.partition("/")[2]
        if files.read().flocks and name not in self._flock_to:
            self._warn(f"no jobs flock to {name}, since FLOCK_TO does not list it: add it, and restart this role")
            return
        try:
            broker = files.carrier()
        except PoolbookError as error:
            self._warn(f"the membership at a manager cannot be used: {error}")
            return
        self.carrier.add(files.manager, broker, files.manager if files.read().flocks else "")
        self._renewals.append(Renewal(files, broker, self._warn))

    def _join_late(self) -> None:
        problem = ""
        while self._late and not self._stop.wait(_RETRY_S):
            try:
                self._use(self._late[0].accept())
                self._late.pop(0)
            except Exception as error:  # whatever fails, it may succeed later
                if str(error) != problem:
                    problem = str(error)
                    self._warn(f"a manager cannot be joined, and is tried again: {error}")
                self._late.append(self._late.pop(0))

    def close(self) -> None:
        """End the threads. The carrier is closed by its user."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT_S)
        for renewal in self._renewals:
            renewal.close()
