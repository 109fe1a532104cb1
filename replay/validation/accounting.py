"""Check the settings of submitters, and each recorded real priority by the formula from the one before and the usage
since."""

from __future__ import annotations

import attrs

from ...domain import events as e
from ...domain.negotiator.accounting import first_factor, initial, terms, updated
from ...domain.negotiator.submitter_commands import GRANTS, unfit
from ...domain.state.settings import DOMAINS, configurable, settings, super_users
from ..narration.wording import instant
from .judged_pool import JudgedPool, rule


def founded(pool: JudgedPool, event: e.PoolFounded) -> None:
    """Report impossible settings; the accountant then uses the defaults."""
    fit = {name: text for name, text in event.settings.items() if _fits(pool, name, text)}
    pool.folds = attrs.evolve(event, settings=fit)


@rule(e.PoolConfigured)
def configured(pool: JudgedPool, event: e.PoolConfigured) -> None:
    in_force, fit = pool.state.settings, {}
    for name, text in event.settings.items():
        if text == in_force.get(name, ""):
            pool.report("pool", "value", f"{name} is said to have become {text or 'its default'}: it was that before")
        elif not text and (name in DOMAINS or configurable(name) is None):
            pool.report("pool", "value", f"{name} cannot go back to a default: it always has a value")
        elif not text or _fits(pool, name, text):
            fit[name] = text
    pool.folds = attrs.evolve(event, settings=fit)


def _fits(pool: JudgedPool, name: str, text: str) -> bool:
    try:
        settings({name: text})
    except ValueError as error:
        pool.report("pool", "value", str(error))
        return False
    return True


@rule(e.PrioritiesUpdated)
def priorities(pool: JudgedPool, event: e.PrioritiesUpdated) -> None:
    state = pool.state
    halflife = terms(state.settings).halflife
    for name, told in event.priorities.items():
        known = state.submitters.get(name)
        if known is None:
            pool.report(name, "reference", f"there is no submitter {name}")
            continue
        found = updated(known, state.priorities_updated_at, event.at, halflife)
        if told != found:
            pool.report(name, "priority", f"its real priority is said to be {told}, but the formula makes it {found}")
        elif told == known.priority and known.used(event.at) == known.usage_accounted:
            pool.report(name, "priority", f"its real priority is said to be {told}, as it was, and it has used nothing")
    for name, known in state.submitters.items():
        if name not in event.priorities and known.used(event.at) != known.usage_accounted:
            pool.report(name, "priority", "it has used something since its last priority, and has no new one")


def begins(pool: JudgedPool, name: str, told: float) -> None:
    """Check the factor that an event lets a submitter begin with. Older logs do not tell it."""
    found = first_factor(pool.state, name)
    if told and told != found:
        words = f"the settings make it {found}" if found else "it has begun before"
        pool.report(name, "factor", f"it is said to begin with the priority factor {told}, but {words}")


def _by_owner(pool: JudgedPool, thing: str, user: str) -> None:
    if user not in super_users(pool.state.settings):
        pool.report(thing, "granted", f"set by {user or 'nobody'}, who is not the pool's owner")


@rule(e.SubmitterSet)
def submitter_set(pool: JudgedPool, event: e.SubmitterSet) -> None:
    _by_owner(pool, event.submitter, event.user)
    pool.folds = None
    name, grant = event.submitter, GRANTS.get(event.name)
    if grant is None:
        pool.report(name, "granted", f"{event.name} is nothing that can be set of a submitter")
        return
    known = pool.state.submitters.get(name)
    lease = None if known is None else known.leases.get(event.name)
    running = lease[1] if lease is not None and event.at < lease[1] else 0
    if event.until and not grant.cancel:
        pool.report(name, "granted", f"its {event.name} is lent, but can be set only for good")
        return
    called_off = 0 < event.until <= event.at
    if called_off and not running:
        pool.report(name, "granted", f"a lease of its {event.name} is called off, but none runs")
    elif running and not called_off and event.until != running:
        words = f"its {event.name} is set otherwise than until {instant(running)}, when the running lease ends"
        pool.report(name, "granted", words)
    begins(pool, name, event.factor)
    if not called_off and (words := unfit(event.name, event.value)):
        pool.report(name, "granted", f"its {event.name} is set to {event.value}: {words}")
        return
    pool.folds = event


@rule(e.SubmittersReset)
def submitters_reset(pool: JudgedPool, event: e.SubmittersReset) -> None:
    _by_owner(pool, "accountant", event.user)
    if not event.submitters:
        pool.report("accountant", "reference", "the usage of nobody is reset")
    for name, factor in event.factors.items():
        begins(pool, name, factor)


@rule(e.SubmitterDeleted)
def submitter_deleted(pool: JudgedPool, event: e.SubmitterDeleted) -> None:
    _by_owner(pool, event.submitter, event.user)
    if event.submitter not in pool.state.submitters:
        pool.report(event.submitter, "reference", f"there is no submitter {event.submitter} to delete")
    elif event.factor and event.factor != (found := initial(event.submitter, terms(pool.state.settings))):
        words = f"it is said to go on with the priority factor {event.factor}, but the settings make it {found}"
        pool.report(event.submitter, "factor", words)
