"""A private machine runs only the jobs of its owner."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from poolbook.testing import PoolMachine


class PrivateMachine(PoolMachine):
    config = Path("site.conf")
    users = ("alice", "carol")
    submissions = st.fixed_dictionaries({"executable": st.just("/bin/sleep"), "priority": st.sampled_from([0, 9])})

    @invariant()
    def only_carol_has_slots(self) -> None:
        assert self.pool.slots('RemoteOwner =!= undefined && RemoteOwner != "carol@example.org"') == []


TestPrivateMachine = PrivateMachine.TestCase
TestPrivateMachine.settings = settings(max_examples=20, stateful_step_count=15, deadline=None, derandomize=True)
