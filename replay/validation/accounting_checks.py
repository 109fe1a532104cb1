"""Check submitters' settings, and that each real priority follows from the previous one and the usage since then."""

from __future__ import annotations

from msgspec.structs import replace

from ...domain import events as e
from ...domain.names import AccountName
from ...domain.negotiator.accounting import (
    accountant_settings_of,
    accounts_of,
    first_factor,
    initial_factor,
    priority_at,
)
from ...domain.negotiator.groups.quotas import oversubscribes, quotas_of
from ...domain.negotiator.negotiator_settings import parse_settings
from ...domain.negotiator.submitter_commands import SUBMITTER_VALUES, invalid_reason
from ...domain.state.negotiators import invalid_negotiators, name_in_events, negotiator_names
from ...domain.state.peers import MANAGER
from ...domain.state.pool_settings import DOMAINS, complete_settings, configurable_kind, super_users
from ..narration.formatting import instant
from .judged_pool import JudgedPool, rule


def check_settings(pool: JudgedPool, event: e.PoolFounded) -> None:
    """Report impossible settings; the accountant then uses the defaults."""
    fit = {name: text for name, text in event.settings.items() if _is_valid_setting(pool, name, text)}
    _check_negotiators(pool, fit)
    pool.folds = replace(event, settings=fit)


@rule(e.PoolConfigured)
def check_configured(pool: JudgedPool, event: e.PoolConfigured) -> None:
    current_settings, fit = pool.state.settings, {}
    for name, text in event.settings.items():
        if text == current_settings.get(name, ""):
            pool.report("pool", "value", f"{name} already is {text or 'its default'}")
        elif not text and (name in DOMAINS or configurable_kind(name) is None):
            pool.report("pool", "value", f"{name} cannot go back to a default: it always has a value")
        elif not text or _is_valid_setting(pool, name, text):
            fit[name] = text
    _check_negotiators(pool, {name: text for name, text in {**current_settings, **fit}.items() if text})
    pool.folds = replace(event, settings=fit)


def _check_negotiators(pool: JudgedPool, settings: e.Ad) -> None:
    pool.negotiators.update(map(name_in_events, negotiator_names(settings)))
    if text := invalid_negotiators(settings):
        pool.report("pool", "value", text)


def _is_valid_setting(pool: JudgedPool, name: str, text: str) -> bool:
    try:
        complete_settings({name: text})
    except ValueError as error:
        pool.report("pool", "value", str(error))
        return False
    return True


@rule(e.QuotasAssigned)
def check_quotas(pool: JudgedPool, event: e.QuotasAssigned) -> None:
    """Check that group quotas follow from the settings and the recorded total of cores."""
    rules = parse_settings(pool.state.settings)
    expected_quotas = quotas_of(rules.tree, event.total, oversubscribes(rules.quotas, pool.state.dialect))
    assigned_groups = {group.name: group for group in event.groups}
    for expected in expected_quotas:
        quota = assigned_groups.pop(expected.name, None)
        if quota != expected:
            logged = "none" if quota is None else f"{quota.quota:g} (with its subtree {quota.subtree:g})"
            text = f"its quota is {logged}, but the settings give {expected.quota:g} (with its subtree "
            pool.report(expected.name, "quota", f"{text}{expected.subtree:g}) of {event.total:g} cores")
    for name in assigned_groups:
        pool.report(name, "reference", f"the pool has no accounting group {name}")


@rule(e.PrioritiesUpdated)
def check_priorities(pool: JudgedPool, event: e.PrioritiesUpdated) -> None:
    state = pool.state
    pool.check_negotiator("accountant", event.negotiator)
    halflife = accountant_settings_of(state.settings, event.negotiator).halflife
    accounts = accounts_of(state.submitters, event.negotiator)
    updated_at = state.accounted.get(event.negotiator, 0) if event.negotiator else state.priorities_updated_at
    for name, logged_priority in event.priorities.items():
        account = accounts.get(name)
        if account is None:
            pool.report(name, "reference", f"the pool has no submitter {name}")
            continue
        expected = priority_at(account, updated_at, event.at, halflife)
        if logged_priority != expected:
            pool.report(name, "priority", f"its real priority is {logged_priority}, but the formula gives {expected}")
        elif logged_priority == account.priority and account.usage_until(event.at) == account.usage_accounted:
            pool.report(name, "priority", f"its real priority {logged_priority} is recorded again, but it used nothing")
    for name, account in accounts.items():
        if name not in event.priorities and account.usage_until(event.at) != account.usage_accounted:
            pool.report(name, "priority", "it used resources since its last priority, but has no new one")


def check_initial_factor(pool: JudgedPool, name: str, logged_factor: float, negotiator: str = "") -> None:
    """Check the initial priority factor that an event records for a submitter. Older logs do not record it."""
    expected = first_factor(pool.state, name, negotiator)
    if logged_factor and logged_factor != expected:
        text = f"the settings make it {expected}" if expected else "it already had one"
        pool.report(name, "factor", f"its initial priority factor is recorded as {logged_factor}, but {text}")


_Setting = e.SubmitterSet | e.SubmittersReset | e.SubmitterDeleted


def _check_owner(pool: JudgedPool, subject: str, user: str, event: _Setting) -> None:
    if bool(event.set_at) is not bool(event.manager):
        pool.report(subject, "value", "its time at another manager is recorded, but no manager, or the reverse")
    if event.manager:  # the other manager's log is judged by its own settings
        if (event.manager, event.set_at) not in pool.released:
            pool.copies.setdefault(MANAGER, event)
    elif user not in super_users(pool.state.settings):
        pool.report(subject, "granted", f"set by {user or 'an unknown user'}, who is not the pool's owner")


@rule(e.SubmitterSet)
def check_submitter_set(pool: JudgedPool, event: e.SubmitterSet) -> None:
    _check_owner(pool, event.submitter, event.user, event)
    pool.check_negotiator(event.submitter, event.negotiator)
    pool.folds = None
    name, grant_name = event.submitter, SUBMITTER_VALUES.get(event.name)
    if grant_name is None:
        pool.report(name, "granted", f"{event.name} is not a value that can be set for a submitter")
        return
    account = accounts_of(pool.state.submitters, event.negotiator).get(name)
    lease = None if account is None else account.leases.get(event.name)
    lease_end = lease[1] if lease is not None and event.at < lease[1] else 0
    if event.until and not grant_name.cancel:
        pool.report(name, "granted", f"its {event.name} is set for a time, but can only be set permanently")
        return
    is_canceled = 0 < event.until <= event.at
    if event.manager:  # it may have had another lease there
        pool.folds = event
        return
    if is_canceled and not lease_end:
        pool.report(name, "granted", f"a temporary {event.name} is canceled, but it has none")
    elif lease_end and not is_canceled and event.until != lease_end:
        text = f"it does not keep the end of its {event.name}, {instant(lease_end)}"
        pool.report(name, "granted", text)
    check_initial_factor(pool, name, event.factor, event.negotiator)
    if not is_canceled and (text := invalid_reason(event.name, event.value)):
        pool.report(name, "granted", f"its {event.name} is set to {event.value}: {text}")
        return
    pool.folds = event


@rule(e.SubmittersReset)
def check_submitters_reset(pool: JudgedPool, event: e.SubmittersReset) -> None:
    _check_owner(pool, "accountant", event.user, event)
    pool.check_negotiator("accountant", event.negotiator)
    if not event.submitters:
        pool.report("accountant", "reference", "the usage of an unknown submitter is reset")
    for name, factor in event.factors.items():
        check_initial_factor(pool, name, factor, event.negotiator)


def _initial_factor(pool: JudgedPool, event: e.SubmitterDeleted) -> float:
    return initial_factor(event.submitter, accountant_settings_of(pool.state.settings, event.negotiator))


@rule(e.SubmitterDeleted)
def check_submitter_deleted(pool: JudgedPool, event: e.SubmitterDeleted) -> None:
    _check_owner(pool, event.submitter, event.user, event)
    pool.check_negotiator(event.submitter, event.negotiator)
    if event.manager:
        return
    if str(AccountName(event.negotiator, event.submitter)) not in pool.state.submitters:
        pool.report(event.submitter, "reference", f"the pool has no submitter {event.submitter} to delete")
    elif event.factor and event.factor != (factor := _initial_factor(pool, event)):
        text = f"it continues with the priority factor {event.factor}, but the settings make it {factor}"
        pool.report(event.submitter, "factor", text)
