"""property: a role that joins several managers is a member at each of them, and works while one of them is down."""

from __future__ import annotations

import os
import signal
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from poolbook.adapters.fabric.carrier import Carrier
from poolbook.adapters.https import joining, memberships
from poolbook.adapters.https.client import ManagerError
from poolbook.adapters.https.file_service import FileService
from poolbook.adapters.https.memberships import Invitation, Managers, accept_all

from ..fabric.pool import receive
from ..ports import free_port
from .pool import PATIENCE, JoinablePool, joinable_pool
from .roles import role_processes
from .test_role_commands import EXECUTION_POINT

EP, AP = "execution-point/ep1", "access-point/ap1"
CM2 = "manager/cm2.example.org"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[JoinablePool, JoinablePool]]:
    folder = tmp_path_factory.mktemp("managers")
    with (
        joinable_pool(folder / "1", name="cm1.example.org") as first,
        joinable_pool(folder / "2", name="cm2.example.org") as second,
    ):
        yield first, second


def invitations(pools: Sequence[JoinablePool], log: Path, peer: str = EP, flocks: bool = False) -> list[Invitation]:
    tokens = [pool.token() for pool in reversed(pools)]
    role, _, name = peer.partition("/")
    return [Invitation(pool.url, tokens, role, name, log, True, flocks) for pool in pools]


def names(log: Path) -> list[str]:
    return [files.manager for files in memberships.memberships(log)]


def check_exchange(role: Carrier, manager: Carrier, peer: str, name: str) -> None:
    """Check that a role and one of its managers reach each other; nothing is lost while they connect."""
    role.send(name, b"hello")
    assert receive(manager)[-1] == (peer, b"hello")
    manager.send(peer, b"hello, too")
    assert receive(role)[-1] == (name, b"hello, too")


def test_a_role_joins_two_managers_and_knows_each_by_its_name(
    both: tuple[JoinablePool, JoinablePool], tmp_path: Path
) -> None:
    log, warnings = tmp_path / "e.db", list[str]()
    assert accept_all(invitations(both, log), False, warnings.append) == []
    assert names(log) == ["manager", CM2]
    with closing(Managers(log, [], warnings.append)) as managers, closing(managers.carrier) as carrier:
        assert managers.names() == ("manager", CM2)
        for pool, name in zip(both, managers.names(), strict=True):
            check_exchange(carrier, pool.carrier, EP, name)
    assert accept_all(invitations(both[::-1], log), True, warnings.append) == []
    assert (names(log), warnings) == (["manager", CM2], [])


def test_a_manager_that_is_down_is_joined_as_soon_as_it_answers(
    both: tuple[JoinablePool, JoinablePool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memberships, "_RETRY_S", 0.05)
    log, warnings = tmp_path / "e.db", list[str]()
    invited = invitations(both, log, "execution-point/late")
    both[1].close()
    try:
        (late,) = accept_all(invited, False, warnings.append)
        (warning,) = warnings
        assert "does not answer" in warning
        assert "this role joins it as soon as it answers" in warning
        with pytest.raises(ManagerError, match="does not answer"):
            accept_all([late], False, warnings.append)
    finally:
        both[1]._open()
    with closing(Managers(log, [late], warnings.append)) as managers, closing(managers.carrier):
        end = time.monotonic() + PATIENCE
        while CM2 not in managers.names():
            assert time.monotonic() < end, warnings
            time.sleep(0.02)
        check_exchange(managers.carrier, both[1].carrier, "execution-point/late", CM2)
    assert names(log) == ["manager", CM2]


def test_a_role_that_one_manager_rejects_continues_with_the_other(
    both: tuple[JoinablePool, JoinablePool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_CHECK_S", 0.01)
    monkeypatch.setattr(joining, "_RENEW_IF_CUT_S", 0.05)
    log, peer, warnings = tmp_path / "e.db", "execution-point/lost", list[str]()
    role, _, name = peer.partition("/")
    token = both[0].token()
    tokens = [token, both[1].token()]
    accept_all([Invitation(pool.url, tokens, role, name, log, True) for pool in both], False, warnings.append)
    security = both[0].security()
    security.store.revoke(security.verify(token, time.time()).id, time.time())
    both[0].services._maintain()
    with closing(Managers(log, [], warnings.append)) as managers, closing(managers.carrier):
        check_exchange(managers.carrier, both[1].carrier, peer, CM2)
        end = time.monotonic() + PATIENCE
        while not warnings:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert "is revoked; join again with another token" in warnings[0]
        check_exchange(managers.carrier, both[1].carrier, peer, CM2)


def test_only_an_access_point_that_flocks_joins_another_pool(
    both: tuple[JoinablePool, JoinablePool], tmp_path: Path
) -> None:
    log = tmp_path / "a.db"
    accept_all(invitations(both[:1], log, AP), False, pytest.fail)
    with joinable_pool(tmp_path / "other", name="cm.example.com", domain="example.com") as other:
        with pytest.raises(ManagerError, match=r"its UID_DOMAIN is example.com, not pool.example; .* use -flock"):
            accept_all(invitations([other], log, AP), True, pytest.fail)
        accept_all(invitations([other], log, AP, flocks=True), True, pytest.fail)
        flocks = {files.manager: files.read().flocks for files in memberships.memberships(log)}
        assert flocks == {"manager": False, "manager/cm.example.com": True}
        flock_to = ["cm.example.com"]
        with closing(Managers(log, [], pytest.fail, flock_to=flock_to)) as managers, closing(managers.carrier):
            check_exchange(managers.carrier, other.carrier, AP, "manager/cm.example.com")


def test_the_manager_of_another_pool_cannot_command_an_access_point(
    both: tuple[JoinablePool, JoinablePool], tmp_path: Path
) -> None:
    log, peer = tmp_path / "a.db", "access-point/commanded"
    accept_all(invitations(both, log, peer), False, pytest.fail)

    async def answer(request: Request) -> Response:
        return PlainTextResponse("obeyed")

    with joinable_pool(tmp_path / "other", name="cm.example.com", domain="example.com") as other:
        accept_all(invitations([other], log, peer, flocks=True), True, pytest.fail)
        service = FileService(
            tmp_path / "files", "commanded", lambda run: None, memberships.memberships(log), lambda peer, data: [],
            lambda files: Starlette(routes=[Route("/hold", answer, methods=["PUT"])]), lambda rejection: None,
        )  # fmt: skip
        with closing(service):
            for pool, status in ((both[0], 200), (both[1], 200), (other, 405)):
                end = time.monotonic() + PATIENCE
                while (response := put(pool, "/v1/relay/to/commanded/commands/hold")).status_code == 503:
                    assert time.monotonic() < end
                assert response.status_code == status, (pool.url, response.text)


def put(pool: JoinablePool, path: str) -> httpx.Response:
    ca = ssl.create_default_context(cafile=pool.folder / "m.db.security" / "ca" / "ca.pem")
    return httpx.put(pool.url + path, content=b"", verify=ca, trust_env=False, timeout=PATIENCE)


def test_a_manager_joins_another_manager(both: tuple[JoinablePool, JoinablePool], tmp_path: Path) -> None:
    log = both[1].folder / "m.db"
    accept_all(invitations(both[:1], log, CM2), True, pytest.fail)
    assert names(log) == ["manager/cm1.example.org"]
    with closing(Managers(log, [], pytest.fail, both[1].carrier)) as managers:
        check_exchange(managers.carrier, both[0].carrier, CM2, "manager/cm1.example.org")


def test_two_managers_of_a_role_have_different_names(both: tuple[JoinablePool, JoinablePool], tmp_path: Path) -> None:
    log = tmp_path / "e.db"
    accept_all(invitations(both, log, "execution-point/named"), False, pytest.fail)
    with (
        joinable_pool(tmp_path / "other", name="cm2.example.org") as other,
        pytest.raises(ManagerError, match="has the same name as the manager"),
    ):
        accept_all(invitations([other], log, "execution-point/named"), True, pytest.fail)


def test_jobs_run_with_two_managers_while_either_is_down(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        urls, tokens, ports = [roles.url], [(tmp_path / roles.token()).read_text()], [(roles.port, roles.broker_port)]
        (tmp_path / "first").write_text(tokens[0])
        roles.port, roles.broker_port = free_port(), free_port()
        roles.url = f"https://127.0.0.1:{roles.port}"
        roles.start_manager("-join", urls[0], "-token", "first", log="m2.db")
        urls.append(roles.url)
        tokens.append((tmp_path / roles.token("m2.db")).read_text())
        (tmp_path / "both").write_text("\n".join(tokens))
        roles.start("a.db", "join", ",".join(urls), "both", "-role", "access-point", "-name", "ap")
        roles.start("e.db", "join", ",".join(urls), "both", *EXECUTION_POINT, "-name", "ep")
        roles.run_job("both")
        assert roles.stop("m.db", signal.SIGKILL) == -signal.SIGKILL
        broker_pid = int((tmp_path / "m.db.security/broker/nats-server.pid").read_text())
        os.kill(broker_pid, signal.SIGKILL)
        (tmp_path / "m.db.security/broker/nats-server.pid").unlink()
        roles.run_job("second")
        (roles.port, roles.broker_port) = ports[0]
        roles.start_manager()
        assert roles.stop("m2.db") == 0
        roles.run_job("first")
        for log in ("m.db", "m2.db", "a.db", "e.db"):
            assert f"{log}: sound" in roles.call("verify", "-log", log)
