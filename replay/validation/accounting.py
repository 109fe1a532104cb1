"""The rules about submitters: what administrators set of them, and whether each real priority that is written down is
what the formula makes of the one before and of what was used since."""

from __future__ import annotations

from ...domain import events as e
from ...domain.negotiator.accounting import terms, updated
from ...domain.negotiator.submitter_commands import GRANTS, unfit
from ...domain.state.evolve import evolve
from ...domain.state.settings import DOMAINS, configurable, settings, super_users
from ..narration.wording import instant
from .judged_pool import Books, Slot


def founded(books: Books, event: e.PoolFounded) -> None:
    """The pool's settings: of those that cannot be, the accountant goes by the defaults."""
    books.accounts.settings = {name: text for name, text in event.settings.items() if _fits(books, name, text)}


def configured(books: Books, event: e.PoolConfigured) -> None:
    in_force = books.accounts.settings
    for name, text in event.settings.items():
        if text == in_force.get(name, ""):
            books.blame("pool", "value", f"{name} is said to have become {text or 'its default'}: it was that before")
        elif not text and (name in DOMAINS or configurable(name) is None):
            books.blame("pool", "value", f"{name} cannot go back to a default: it has always one value")
        elif not text:
            del in_force[name]
        elif _fits(books, name, text):
            in_force[name] = text


def _fits(books: Books, name: str, text: str) -> bool:
    try:
        settings({name: text})
    except ValueError as error:
        books.blame("pool", "value", str(error))
        return False
    return True


# What is used


def appears(books: Books, name: str, at: int) -> None:
    """Who submits something is known from then on."""
    books.accounts.at = at
    books.accounts.submitter(name)


def takes(books: Books, event: e.ClaimMade) -> None:
    books.accounts.at = event.at
    books.accounts.submitter(event.submitter).take(event.weight, event.at)


def gives_back(books: Books, event: e.ClaimEnded, slot: Slot | None) -> None:
    weight = None if slot is None or slot.claim is None else slot.claim.weight
    books.accounts.at = event.at
    books.accounts.submitter(event.submitter).give_back(weight, event.usage, event.at)


# What is written of it


def priorities(books: Books, event: e.PrioritiesUpdated) -> None:
    accounts = books.accounts
    halflife = terms(accounts.settings).halflife
    for name, told in event.priorities.items():
        known = accounts.submitters.get(name)
        if known is None:
            books.blame(name, "reference", f"there is no submitter {name}")
            continue
        found = updated(known, accounts.accounted, event.at, halflife)
        if told != found:
            books.blame(name, "priority", f"its real priority is said to be {told}, but the formula makes it {found}")
        elif told == known.priority and known.used(event.at) == known.drawn:
            books.blame(name, "priority", f"its real priority is said to be {told}, as it was, and it has used nothing")
    for name, known in accounts.submitters.items():
        if name not in event.priorities and known.used(event.at) != known.drawn:
            books.blame(name, "priority", "it has used something since its last priority, and has no new one")
    evolve(accounts, event)


def _owned(books: Books, thing: str, user: str) -> None:
    if user not in super_users(books.accounts.settings):
        books.blame(thing, "granted", f"{user or 'nobody'} sets it, who is not the pool's owner")


def submitter_set(books: Books, event: e.SubmitterSet) -> None:
    _owned(books, event.submitter, event.user)
    name, grant = event.submitter, GRANTS.get(event.name)
    if grant is None:
        books.blame(name, "granted", f"{event.name} is nothing that can be set of a submitter")
        return
    known = books.accounts.submitters.get(name)
    lease = None if known is None else known.leases.get(event.name)
    running = lease[1] if lease is not None and event.at < lease[1] else 0
    if event.until and not grant.cancel:
        books.blame(name, "granted", f"its {event.name} is lent, but that can be set only for good")
        return
    if 0 < event.until <= event.at and not running:
        books.blame(name, "granted", f"a lease of its {event.name} is called off, but none runs")
    elif running and (not event.until or event.until > event.at) and event.until != running:
        words = f"its {event.name} is set otherwise than until {instant(running)}, when the lease ends that runs"
        books.blame(name, "granted", words)
    called_off = 0 < event.until <= event.at
    if not called_off and (words := unfit(event.name, event.value)):
        books.blame(name, "granted", f"its {event.name} is set to {event.value}: {words}")
        return
    evolve(books.accounts, event)


def submitters_reset(books: Books, event: e.SubmittersReset) -> None:
    _owned(books, "accountant", event.user)
    if not event.submitters:
        books.blame("accountant", "reference", "the usage of nobody is reset")
    evolve(books.accounts, event)


def submitter_deleted(books: Books, event: e.SubmitterDeleted) -> None:
    _owned(books, event.submitter, event.user)
    if event.submitter not in books.accounts.submitters:
        books.blame(event.submitter, "reference", f"there is no submitter {event.submitter} to delete")
    evolve(books.accounts, event)
