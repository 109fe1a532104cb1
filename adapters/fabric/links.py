"""The links of a role to its peers: reads their outboxes, answers their reads, and keeps the leases of claims.

All state here can be lost: what must survive is in the logs. Times are microseconds on a clock that never jumps
(CLOCK_BOOTTIME), unless they are said to be the log's.

**Leases.** An execution point asks for renewal, by reading the access point's outbox; a complete page renews all claims
that the access point still holds. The execution point counts the lease from when it asked, and the access point from
when it answered, so the execution point always stops first, however slow the network is. An access point that starts
has answered nothing, so it waits for a whole lease.

**Logs that are replaced or restored.** A role does not answer a peer whose log differs from the one that it has read,
or has fewer entries: that log was replaced, or restored from an old backup. It reads the peer's outbox first. An access
point reads the new log of an execution point only when the leases of the old one are over, because its jobs may still
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec
from attrs import define, field

from ...domain.events import ClaimRequested, Event, JobActivated, Sent, SlotEvent
from ...domain.ports import stimuli as s
from ...domain.ports.log import EventStore, LogError
from ...domain.startd.absent_ads import lifetime
from ...domain.startd.leases import lease_of_claim, lease_time
from ...domain.startd.startd_settings import duration
from ...domain.state.agenda import Agenda
from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER, Outbox, outbox_of, peer_of_slot, role_of
from ...domain.state.records import Machine, Slot
from ...domain.state.state import State
from ...domain.units import SECOND
from .carrier import Carrier
from .datagrams import DECODE, ENCODE, PACK, PART, UNPACK, FileAccess, Hint, Message, Page, Read, read_page
from .link import FIRST_RETRY, Link, Reading

LAST_RETRY: Final = 5 * SECOND  #: the longest time after which a read is repeated
_RENEWALS: Final = 8  #: how often a lease is renewed while it lasts
SIGN_OF_LIFE: Final = 20 * SECOND  #: how often a role hints to its managers, and reads outboxes without a hint
UNANSWERED: Final = 30 * SECOND
"""How long an access point waits for an answer to a claim request if the execution point is silent; HTCondor's default
for connecting to a startd that does not answer is 20 s."""
AFTER_DEADLINE: Final = SECOND
"""How long after the deadline of its job, which the supervisor holds, a claim ends: as in HTCondor, the job ends
first. It is shorter than `margin`."""
_MOST_ASKED: Final = 100  #: the requests of which a late answer is still accepted
_LARGEST_PAGES: Final = 64_000_000  #: bytes of pages that are collected before they are decided


@define(eq=False)
class Links:
    """The links of one role. Its owner calls `receive` when datagrams arrive and when `next_due` is reached, has the
    returned stimuli decided, and calls `note` after each append. Their cost depends on what has changed, and not on the
    number of peers."""

    name: str
    carrier: Carrier
    log: EventStore
    state: Callable[[], State]
    clock: Callable[[], int]  #: CLOCK_BOOTTIME, in microseconds
    log_time: Callable[[], int]
    new_id: Callable[[str], str]
    renew_deadlines: Callable[[], None]  #: passes the new ``deadline_of`` all slots on to the jobs' supervisor
    offer_files: Callable[[str, list[str]], FileAccess | None] = lambda peer, runs: None
    """Returns the access to the files of a peer's runs, which the page that starts them carries."""
    learn_path: Callable[[str, FileAccess], None] = lambda peer, access: None
    """Receives the access to an access point from its pages."""
    managers: Callable[[], Iterable[str]] = lambda: (MANAGER,)
    """Returns the managers that this role has joined; a role of the own pool may have several."""
    on_message: Callable[[str, bytes], Iterable[s.Stimulus]] = lambda peer, data: ()
    """Returns the stimuli that result from another manager's message."""
    _links: dict[str, Link] = field(factory=dict)
    _numbers: int = 0
    _pages: dict[str, tuple[int, bytes]] = field(factory=dict)
    """The last page sent to each peer in several parts: where it begins, and its contents."""
    _agenda: Agenda[str] = field(factory=Agenda)  #: when there is something to do for each peer
    _changed: set[str] = field(factory=set)  #: the peers for which that has to be determined again
    _claimed: dict[str, dict[str, None]] = field(factory=dict)  #: the names of the claimed slots, by peer
    _claimed_with: dict[str, str] = field(factory=dict)  #: the peer, by the name of the claimed slot
    _requests: dict[str, list[str]] = field(factory=dict)  #: the claims that were requested, by peer
    _known_managers: set[str] = field(factory=set)  #: the managers with which there is a link
    _signed_at: int = 0
    _has_begun: bool = False

    def __attrs_post_init__(self) -> None:
        known = {*self.state().peers.followed, *self.state().peers.outboxes, MANAGER, *self.managers()}
        for peer in sorted(known - {self.name}):
            self._link(peer)
        # A late answer to a request of an earlier process, or of an earlier log, has another number.
        self._numbers = crc32(f"{self.log.id} {self.state().epoch}".encode()) << 32
        for slot in self.state().slots:
            self._note_claim(slot)
        for request in self.state().claim_requests.values():
            self._requests.setdefault(peer_of_slot(request.slot), []).append(request.claim)

    # Time

    def next_due(self) -> int:
        """Return when `receive` has something to do even if no datagram arrives."""
        for peer in self._changed & self._links.keys():
            self._agenda.schedule(peer, self._due(peer, self._links[peer]))
        self._changed.clear()
        first, sign = self._agenda.next_due(), self._signed_at + self._sign_interval()
        return sign if first is None else min(first, sign)

    def _due(self, peer: str, link: Link) -> int:
        read, lease_event = self._next_ask(peer, link), self._next_lease_event(peer, link)
        if link.is_renewed:
            return 0
        due = read if lease_event is None else min(read, lease_event)
        return due if link.hint_again is None else min(due, link.hint_again)

    def _next_ask(self, peer: str, link: Link) -> int:
        return self._next_read(peer, link) if link.reading is None else link.reading.retry

    def _next_read(self, peer: str, link: Link) -> int:
        if self._has_new_log(peer, link):
            return max((self._over_at(link, lease) for _, lease in self._leases(peer)), default=0)
        if link.latest is not None or not link.is_read or link.heard_again > link.read_at:
            return 0
        if role_of(self.name) == MANAGER:  # its peers show that they live
            return link.read_at + SIGN_OF_LIFE * 3 // 2
        lease = self._shortest_lease(peer)
        return link.read_at + (SIGN_OF_LIFE if lease is None else min(lease // _RENEWALS, self._alive_interval()))

    # Sending

    def note(self, events: Iterable[Event]) -> None:
        """Note what was appended to the log, and tell the peers whose outboxes have grown."""
        grown: dict[str, None] = {}
        for event in events:
            if isinstance(event, Sent):
                grown[event.peer] = None
            elif isinstance(event, SlotEvent | JobActivated):
                self._note_claim(event.slot)
                if isinstance(event, ClaimRequested):
                    self._requests.setdefault(peer_of_slot(event.slot), []).append(event.claim)
        self._tell_readers(grown)

    def _tell_readers(self, outboxes: Iterable[str]) -> None:
        """Hint to the readers of outboxes that there may be entries to read, again until they read."""
        for outbox in outboxes:
            for peer in self._readers(outbox):
                link = self._link(peer)
                self._changed.add(peer)
                self._send_hint(peer)
                if outbox != MANAGER:  # managers receive a hint at each sign of life
                    link.expect_read(self.clock())

    def _readers(self, outbox: str) -> tuple[str, ...]:
        return (*sorted(self._known_managers),) if outbox == MANAGER else (outbox,)

    def _note_claim(self, name: str) -> None:
        """Note with which peer this role has a claim on a slot, and that the claim may have changed."""
        role = role_of(self.name)
        if role == MANAGER:
            return
        slot, peer = self.state().slots.get(name), ""
        if slot is not None and slot.claim is not None:
            peer = peer_of_slot(name) if role == ACCESS_POINT else slot.claim.holder
        before = self._claimed_with.get(name, "")
        if before:
            self._claimed[before].pop(name)
            del self._claimed_with[name]
        if peer:
            self._claimed.setdefault(peer, {})[name] = None
            self._claimed_with[name] = peer
        self._changed |= {before, peer}

    def _send_hint(self, peer: str) -> None:
        self._send(peer, Hint(self.log.id, self._sent_to(peer)))

    def _sent_to(self, peer: str) -> int:
        """Return the version of the last entry in a peer's outbox."""
        return self.state().peers.outboxes.get(outbox_of(peer), Outbox()).version

    def other_managers(self) -> list[str]:
        """Return the other managers that this manager has joined, or that have joined it."""
        return sorted(self._known_managers.union(self.managers()) - {self.name})

    def tell(self, manager: str, data: bytes) -> None:
        """Send a message to another manager. It may be lost."""
        self._send(manager, Message(data))

    def _send(self, peer: str, datagram: Hint | Read | Page | Message) -> None:
        self.carrier.send(peer, ENCODE(datagram))

    def _ask(self, peer: str, link: Link, now: int) -> None:
        """Ask for the next page, or again for the missing parts of the current one. Each request from the beginning has
        a number, since a late answer to an earlier one renews leases only as of that request."""
        reading = link.reading
        if reading is None:
            followed = self.state().peers.followed.get(peer)
            after = 0 if followed is None or self._has_new_log(peer, link) else followed.version
            if link.collected and link.collected[-1].entries:
                after = link.collected[-1].entries[-1].version
            reading = link.reading = Reading(after, pause=FIRST_RETRY // 2)
        lease = self._shortest_lease(peer)
        longest = LAST_RETRY if lease is None else min(LAST_RETRY, lease // (2 * _RENEWALS))
        reading.pause = min(reading.pause * 2, longest)
        reading.retry = now + reading.pause
        if not reading.parts:
            self._numbers += 1
            reading.asked[self._numbers] = now
            if len(reading.asked) > _MOST_ASKED:
                del reading.asked[min(reading.asked)]
        missing = next(part for part in range(len(reading.parts) + 1) if part not in reading.parts)
        self._send(peer, Read(max(reading.asked), reading.after, missing, self.log.id, self._sent_to(peer)))

    # Receiving

    def receive(self) -> list[s.Stimulus]:
        """Handle the datagrams that have arrived and what is due. Return the stimuli to decide."""
        now, stimuli = self.clock(), list[s.Stimulus]()
        if not self._has_begun:
            self._has_begun = True
            stimuli += self._begin()
        for peer, data in self.carrier.receive():
            try:
                datagram = DECODE(data)
            except (msgspec.MsgspecError, ValueError):
                continue  # a peer of another release, or a damaged one
            link = self._link(peer)
            self._changed.add(peer)
            link.heard = now
            machine = self._machine(peer)
            if machine is not None and machine.expired:
                stimuli.append(s.ExecutionPointExpired(self.new_id("lease"), machine.name, expired=False))
            if isinstance(datagram, Hint):
                link.log = datagram.log
                followed = self.state().peers.followed.get(peer)
                known = 0 if followed is None or followed.log != datagram.log else followed.version
                if datagram.version > known:
                    link.latest = datagram
                elif known == datagram.version and known and role_of(self.name) == MANAGER:
                    link.read_at = now  # there is nothing to read
            elif isinstance(datagram, Read):
                self._answer(peer, link, datagram)
            elif isinstance(datagram, Message):
                if role_of(self.name) == role_of(peer) == MANAGER:
                    stimuli += self.on_message(peer, datagram.data)
            else:
                stimuli += self._take_part(peer, link, datagram)
        now = self.clock()
        self._changed.update(self._agenda.pop_due(now))
        for peer in sorted(self._changed & self._links.keys()):
            link = self._links[peer]
            stimuli += self._renewed(peer, link)
            stimuli += self._lease_events(peer, link, now)
            if link.hint_again is not None and link.hint_again <= now:
                self._send_hint(peer)
                link.expect_read(now, 2 * link.hint_pause)
            if self._next_ask(peer, link) <= now:
                self._ask(peer, link, now)
        if self._signed_at + self._sign_interval() <= now:
            self._signed_at = now
            for manager in self.other_managers():
                self._link(manager)
                self._send_hint(manager)
        return stimuli

    def _begin(self) -> Iterator[s.Stimulus]:
        """Begin with a hint to all peers. Return the stimuli after a restart: the running jobs of an access point are
        disconnected until their execution points read its outbox."""
        self._tell_readers(self.state().peers.outboxes)
        for peer in self._links:
            slots = [slot for slot, _ in self._leases(peer) if slot.activation is not None]
            if role_of(self.name) == ACCESS_POINT and slots:
                until = self.log_time() + max(lease_time(slot) + margin(lease_time(slot)) for slot in slots)
                names = tuple(slot.name for slot in slots)
                yield s.ExecutionPointSilent(self.new_id("lease"), names, until, "writer")

    def _link(self, peer: str) -> Link:
        link = self._links.get(peer)
        if link is None:
            now = self.clock()
            link = self._links[peer] = Link(now, asked=now, answered=now)
            if role_of(peer) == MANAGER:
                self._known_managers.add(peer)
            self._changed.add(peer)
        return link

    def _answer(self, peer: str, link: Link, read: Read) -> None:
        """Send a part of a page. A complete page renews the leases of this role's claims at the peer."""
        followed, link.log = self.state().peers.followed.get(peer), read.log
        if followed is not None and (read.log != followed.log or read.sent < followed.version):
            return
        link.hint_again = None
        kept = self._pages.get(peer)
        if read.part and kept is not None and kept[0] == read.after:
            data = kept[1]
        else:
            page = read_page(self.log, self.state(), peer, read.after)
            if page.entries and role_of(peer) == EXECUTION_POINT:
                page = msgspec.structs.replace(page, files=self.offer_files(peer, page.starts()))
            data = PACK(page)
            self._pages[peer] = read.after, data
            if page.is_complete:
                link.answered = self.clock()
                if not link.heard_again and self._disconnected(peer):
                    link.heard_again = link.answered
        parts, check = max(1, -(-len(data) // PART)), crc32(data)
        if read.part < parts:
            piece = data[read.part * PART : (read.part + 1) * PART]
            self._send(peer, Page(read.number, read.part, parts, piece, check))
        if read.part >= parts - 1:
            self._pages.pop(peer, None)

    def _take_part(self, peer: str, link: Link, page: Page) -> Iterator[s.Stimulus]:
        reading = link.reading
        if reading is None or page.number not in reading.asked:
            return
        asked = reading.asked[page.number]
        if reading.check != page.check or not reading.parts:
            reading.parts.clear()
            reading.check, reading.as_of = page.check, asked
        reading.parts[page.part] = page.data
        reading.as_of = min(reading.as_of, asked)
        if len(reading.parts) < page.parts:
            reading.pause = FIRST_RETRY
            self._ask(peer, link, self.clock())
            return
        data = b"".join(reading.parts[part] for part in range(page.parts))
        link.reading = None
        try:
            contents = UNPACK(data)
        except (msgspec.MsgspecError, ValueError):
            return
        link.log = contents.log
        is_next = not contents.base[0] or (link.collected and link.collected[-1].log == contents.log)
        if self._has_new_log(peer, link) and not (is_next and self._next_read(peer, link) <= self.clock()):
            link.collected, link.size = [], 0  # it is read again from the beginning, or later
            return
        if not link.collected:
            link.files = {}  # what the pages before start has started, or never will
        link.collected.append(contents)
        if contents.files is not None:
            link.files |= dict.fromkeys(contents.files.keys, contents.files)
            self.learn_path(peer, contents.files)
        link.size += len(data)
        if contents.is_complete or link.size > _LARGEST_PAGES or not contents.entries:
            yield from self._follow(peer, link, reading.as_of, contents.is_complete)
        else:
            link.is_read = False

    def _follow(self, peer: str, link: Link, asked: int, is_complete: bool) -> Iterator[s.Stimulus]:
        """Return the stimulus that decides the collected pages. A complete page renews the leases of the peer's
        claims."""
        pages, link.collected, link.size = link.collected, [], 0
        link.is_read, link.read_at = is_complete, asked
        hint = link.latest
        if is_complete and hint is not None and not (hint.log == pages[-1].log and hint.version > pages[-1].last):
            link.latest = None
        try:
            follows = [page.stimulus(self.new_id("follow"), peer) for page in pages]
        except LogError:
            return  # events of a later release: this role waits until it is upgraded
        merged = follows[0]
        for other in follows[1:]:
            merged = msgspec.structs.replace(merged, last=other.last, entries=(*merged.entries, *other.entries))
        if is_complete:  # it may end claims, so it renews the others only when it is in the log
            digest = merged.entries[-1].digest if merged.entries else merged.base[1]
            link.renewal = merged.log, merged.last, digest, asked
        followed = self.state().peers.followed.get(peer)
        if merged.entries or followed is None or merged.log != followed.log or merged.last < followed.version:
            log_asked = self.log_time() - (self.clock() - asked) if is_complete else 0
            yield msgspec.structs.replace(merged, asked=log_asked)

    # Leases

    def _asked(self, peer: str, link: Link) -> int:
        """Return when the last complete page that is in the log was asked for."""
        followed = self.state().peers.followed.get(peer)
        if link.renewal is not None and followed is not None:
            *read, asked = link.renewal
            if [followed.log, followed.version, followed.digest] == read:
                link.asked, link.renewal, link.is_renewed, link.was_renewed = asked, None, True, True
        return link.asked

    def _has_new_log(self, peer: str, link: Link) -> bool:
        """Return True if a peer uses another log than the one that was read from it."""
        followed = self.state().peers.followed.get(peer)
        return followed is not None and link.log not in ("", followed.log)

    def _over_at(self, link: Link, lease: int) -> int:
        """Return when this role's lease of a claim is over."""
        if role_of(self.name) == ACCESS_POINT:
            return link.answered + lease + margin(lease)
        return link.asked + lease + AFTER_DEADLINE

    def _sign_interval(self) -> int:
        """Return how often this role hints to its manager. The lifetime of ads may be set to a few UPDATE_INTERVALs."""
        machine = next(iter(self.state().machines.values()), None)
        if role_of(self.name) != EXECUTION_POINT or machine is None:
            return SIGN_OF_LIFE
        return max(SECOND, min(SIGN_OF_LIFE, duration(self.state(), machine, "UPDATE_INTERVAL")))

    def _alive_interval(self) -> int:
        machine = next(iter(self.state().machines.values()), None)
        return duration(self.state(), machine, "ALIVE_INTERVAL")

    def _leases(self, peer: str) -> Iterator[tuple[Slot, int]]:
        """Yield the slots that have a claim between this role and a peer, with the claims' leases."""
        if {role_of(self.name), role_of(peer)} == {ACCESS_POINT, EXECUTION_POINT}:
            slots = self.state().slots
            yield from ((slots[name], lease_time(slots[name])) for name in self._claimed.get(peer, ()))

    def _shortest_lease(self, peer: str) -> int | None:
        if (role_of(self.name), role_of(peer)) != (EXECUTION_POINT, ACCESS_POINT):
            return None
        return min((lease for _, lease in self._leases(peer) if lease), default=None)

    def _lease_times(self, peer: str, link: Link) -> Iterator[tuple[Slot, int, bool]]:
        """Yield each claimed slot with its next instant: when the peer counts as silent, or when the lease is over,
        which is given as True."""
        is_holder, asked = role_of(self.name) == ACCESS_POINT, self._asked(peer, link)
        for slot, lease in self._leases(peer):
            if not lease:
                continue
            if is_holder:
                run = slot.activation
                is_silent = run is None or run.key in self.state().disconnected
                yield slot, self._over_at(link, lease) if is_silent else link.answered + lease // 2, is_silent
            elif slot.claim is not None and not slot.claim.lease_end:
                yield slot, asked + lease // 2, False
            elif slot.claim is not None and slot.state == "Claimed":
                yield slot, self._over_at(link, lease), True

    def _next_lease_event(self, peer: str, link: Link) -> int | None:
        instants = [at for _, at, _ in self._lease_times(peer, link)]
        instants += [at for _, at in self._requests_to(peer, link)]
        if (expires := self._expires_at(peer, link)) is not None:
            instants.append(expires)
        return min(instants, default=None)

    def _requests_to(self, peer: str, link: Link) -> list[tuple[str, int]]:
        """Return the claim requests that a peer has not answered, each with the instant at which it is withdrawn."""
        lead, waiting = self.clock() - self.log_time(), self.state().claim_requests
        claims = [claim for claim in self._requests.pop(peer, ()) if claim in waiting]
        if claims:
            self._requests[peer] = claims
        return [(claim, max(link.answered, waiting[claim].at + lead) + UNANSWERED) for claim in claims]

    def _expires_at(self, peer: str, link: Link) -> int | None:
        """Return when the slots of an execution point that stays silent are not matched any more."""
        machine = self._machine(peer)
        if machine is None or machine.gone:
            return None
        return link.heard + lifetime(self.state(), machine)

    def _machine(self, peer: str) -> Machine | None:
        """Return the machine of an execution point, if this role is the manager."""
        if (role_of(self.name), role_of(peer)) != (MANAGER, EXECUTION_POINT):
            return None
        return self.state().machines.get(peer.partition("/")[2])

    def _lease_events(self, peer: str, link: Link, now: int) -> Iterator[s.Stimulus]:
        if (expires := self._expires_at(peer, link)) is not None and expires <= now:
            yield s.ExecutionPointExpired(self.new_id("lease"), peer.partition("/")[2])
        unanswered = tuple(claim for claim, at in self._requests_to(peer, link) if at <= now)
        if unanswered:
            yield s.RequestsUnanswered(self.new_id("lease"), unanswered)
        log_now, is_holder, over = self.log_time(), role_of(self.name) == ACCESS_POINT, []
        for slot, at, is_over in [*self._lease_times(peer, link)]:
            if at > now:
                continue
            lease = lease_time(slot)
            if not is_holder:  # the rule adds the lease to the time at which the holder was heard
                until = log_now if is_over else log_now - (now - self._asked(peer, link)) + lease + AFTER_DEADLINE
                heard = until - lease_of_claim(slot) * SECOND
                yield s.HolderSilent(self.new_id("lease"), slot.name, heard)
            elif is_over:
                over.append(slot.name)
            else:
                until = log_now + max(0, self._over_at(link, lease) - now)
                yield s.ExecutionPointSilent(self.new_id("lease"), (slot.name,), until)
        if over:
            yield s.LeaseOver(self.new_id("lease"), tuple(over))

    def _disconnected(self, peer: str) -> tuple[str, ...]:
        """Return the slots of an execution point's disconnected jobs, if this role is their access point."""
        disconnected = self.state().disconnected
        if not disconnected or role_of(self.name) != ACCESS_POINT:
            return ()
        runs = ((slot.name, slot.activation) for slot, _ in self._leases(peer))
        return tuple(slot for slot, run in runs if run is not None and run.key in disconnected)

    def _renewed(self, peer: str, link: Link) -> Iterator[s.Stimulus]:
        """After a renewal, renew the deadlines of a holder's jobs. Return the stimuli that say that the holder, or the
        execution point of disconnected jobs, is not silent any more."""
        asked = self._asked(peer, link)
        is_renewed, link.is_renewed = link.is_renewed, False
        if is_renewed and 0 < link.heard_again <= asked:
            link.heard_again = 0
            if slots := self._disconnected(peer):
                yield s.ExecutionPointHeard(self.new_id("lease"), slots)
        if not is_renewed or (role_of(self.name), role_of(peer)) != (EXECUTION_POINT, ACCESS_POINT):
            return
        for slot, _ in self._leases(peer):
            if slot.claim is not None and slot.claim.lease_end:
                yield s.HolderHeard(self.new_id("lease"), slot.name)
        self.renew_deadlines()

    def file_access(self, peer: str, run: str) -> FileAccess | None:
        """Return the access to the files of a run that a peer's last pages start."""
        return self._link(peer).files.get(run)

    def deadline_of(self, slot: Slot) -> int:
        """Return the deadline of the job of a slot, on this object's clock. It is in the past if the holder has not
        renewed its claims since this role started: a job that could not start before may run elsewhere by now."""
        assert slot.claim is not None, "a job runs on a claim"
        link = self._link(slot.claim.holder)
        asked = self._asked(slot.claim.holder, link)
        return asked + lease_time(slot) if link.was_renewed else 1


def margin(lease: int) -> int:
    """Return how much longer than a lease an access point waits, because clocks drift and killing takes time."""
    return max(2 * SECOND, lease // 20)
