"""property: every rejected request is in the log, and the log does not grow with the number of requests."""

from __future__ import annotations

import ssl
from collections import Counter
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.https.rejections import _MOST_SENDERS, Rejections
from poolbook.adapters.https.requests import Rejection
from poolbook.domain.ports.stimuli import RejectedRequests
from poolbook.events import PoolFounded, RequestsRejected
from poolbook.replay.validation import examine

from .roles import PATIENCE, role_processes
from .test_remote_commands import User, identity, token_for

SENDERS = st.builds(
    Rejection,
    address=st.integers(0, 80).map(lambda number: f"10.0.0.{number}"),
    path=st.just("/v1/commands"),
    reason=st.sampled_from(["level", "expired", "rate"]),
    message=st.text(max_size=2000),
    subject=st.text(max_size=400),
)


@given(st.lists(SENDERS, max_size=300))
def test_each_request_is_counted_in_a_bounded_number_of_events(requests: list[Rejection]) -> None:
    reported: list[RejectedRequests] = []
    rejections = Rejections(reported.append)
    for request in requests:
        rejections.record(request)
    first_count = len(reported)
    rejections._end_interval()
    assert sum(each.count for each in reported) == len(requests)
    assert first_count <= _MOST_SENDERS + 1 and len(reported) <= 2 * (_MOST_SENDERS + 1)
    keys = Counter((each.address, each.sender, each.reason) for each in reported[:first_count])
    assert set(keys.values()) <= {1}
    assert all(len(each.text) <= 500 and len(each.sender) <= 200 for each in reported)


@pytest.mark.parametrize(("count", "since", "violations"), [(1, 5, 0), (0, 5, 1), (1, 1_800_000_000_000_001, 1)])
def test_a_record_of_no_requests_or_of_later_ones_is_a_violation(count: int, since: int, violations: int) -> None:
    founded = PoolFounded(4, "founded", "found", "pool", "manual", "example.org", "1", {})
    rejected = RequestsRejected(
        1_800_000_000_000_000, "denied", "r-1", "10.0.0.7", "alice", "level", "no", count, since
    )
    assert len(examine(enumerate([founded, rejected], 1)).violations) == violations


def test_rejections_are_in_the_log_of_the_role_that_rejected(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        roles.start("a.db", "join", roles.url, roles.token(), "-role", "access-point", "-name", "ap")
        reader = User(roles, "reader", token_for(roles, "-authz", "READ"))
        for _ in range(3):
            reader.fail("poolbook", "hold", "1")
        reader.store(f"{token_for(roles).rpartition('.')[0]}.{'A' * 43}")
        reader.fail("poolbook", "q")
        roles.wait_for(lambda: "signature" in roles.call("log", "requests", "-log", "m.db"))
        assert roles.call("log", "requests", "-log", "a.db").count(f"level, 1 x: {identity()}: ") == 1
        relay = f"{roles.url}/v1/relay/to/ap/datagrams/ep"
        authority = ssl.create_default_context(cafile=tmp_path / "m.db.security" / "ca" / "ca.pem")
        wrong_key = {"Authorization": "Bearer x"}
        answer = httpx.post(relay, headers=wrong_key, verify=authority, trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 403
        roles.wait_for(lambda: "the key is not that of the files" in roles.call("log", "requests", "-log", "a.db"))
        for log in ("m.db", "a.db"):
            assert f"{log}: sound" in roles.call("verify", "-log", log)
