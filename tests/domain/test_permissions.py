"""Table: who may do what with machines and with their running jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.pool_settings import complete_settings, super_users

from .pools import TestPool

Ask = Callable[[str], s.Stimulus]
COMMANDS: dict[str, Ask] = {
    "drain": lambda user: s.Drain("x", user, "h"),
    "cancel the drain of": lambda user: s.CancelDrain("x", user, "slot1@h"),
    "turn off": lambda user: s.ShutDown("x", user, "h"),
}
OF_SLOTS: dict[str, Ask] = {
    "vacate": lambda user: s.VacateSlot("x", user, "slot1@h"),
    "suspend": lambda user: s.SuspendClaim("x", user, "slot1@h"),
    "continue": lambda user: s.ContinueClaim("x", user, "h"),
}


def pool(**more: str) -> TestPool:
    """Return a pool in which alice's job runs on the only slot."""
    pool = TestPool(settings=more)
    pool.machine(static=1)
    pool.submit()
    pool.advance(1)
    return pool


@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize(
    ("user", "allowed"), [("root", True), ("condor", True), ("alice", False), ("bob", False), ("", False)]
)
def test_only_the_pools_owners_may_manage_machines(verb: str, user: str, allowed: bool) -> None:
    unconfigured = pool()
    before = len(unconfigured.events())
    answer = unconfigured.handle(COMMANDS[verb](user))
    if allowed:
        assert not answer.refusal
    else:
        assert answer.refusal == (f"permission denied to {verb} h: only the pool's owner may do that (condor, root)")
        assert len(unconfigured.events()) == before


@pytest.mark.parametrize("verb", OF_SLOTS)
@pytest.mark.parametrize(("user", "allowed"), [("root", True), ("alice", True), ("bob", False)])
def test_only_its_user_and_the_pools_owners_may_manage_a_running_job(verb: str, user: str, allowed: bool) -> None:
    answer = pool().handle(OF_SLOTS[verb](user))
    assert answer.refusal == (
        ""
        if allowed
        else f"{'h' if verb == 'continue' else 'slot1@h'} runs jobs of other users; only the pool's owner may {verb} it"
    )


def test_a_log_names_the_pools_owners() -> None:
    allowed = pool(QUEUE_SUPER_USERS="carol, dave")
    assert allowed.handle(s.Drain("first", "carol", "h")).refusal == ""
    assert "only the pool's owner may do that (carol, dave)" in allowed.handle(COMMANDS["turn off"]("root")).refusal
    assert allowed.act("hold", "1", user="dave").value[0]["result"] == "done"


def test_a_pool_without_configured_owners_has_the_default_ones() -> None:
    assert "QUEUE_SUPER_USERS" not in complete_settings({})
    assert super_users(complete_settings({})) == {"root", "condor"}
    assert super_users(complete_settings({"QUEUE_SUPER_USERS": "root alice"})) == {"root", "alice"}
