"""property: a pool can use a NATS server that it does not run, with an account of another operator."""

from __future__ import annotations

from pathlib import Path

import nkeys
import pytest

from poolbook.adapters.https.manager import OtherBroker
from poolbook.adapters.https.service import ServiceError
from poolbook.adapters.security.private_files import write_private

from ..fabric.pool import receive, running_pool
from .pool import PATIENCE, joinable_pool


def _credentials(folder: Path, seed: bytes) -> Path:
    path = folder / "account"
    public_key = nkeys.from_seed(seed).public_key.decode()
    write_private(path, b"account: %s\nsigning key: %s\n" % (public_key.encode(), seed))
    return path


def test_roles_exchange_datagrams_over_another_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nats").mkdir()
    with running_pool(tmp_path / "nats") as nats:
        monkeypatch.setenv("SSL_CERT_FILE", str(nats.authority.certificate_path))  # the system's authorities
        credentials = _credentials(tmp_path, (nats.folder / "keys" / "account.seed").read_bytes().strip())
        with joinable_pool(tmp_path, broker=OtherBroker(nats.url, credentials)) as pool:
            membership = pool.join("e.db")
            assert membership.terms.urls == (nats.url,)
            carrier = pool.files("e.db").carrier()
            carrier.wait_ready(PATIENCE)
            carrier.send("manager", b"hello")
            assert receive(pool.carrier) == [("execution-point/ep1", b"hello")]
            carrier.close()
        assert not (tmp_path / "m.db.security" / "broker").exists()


def test_a_file_without_an_account_is_explained(tmp_path: Path) -> None:
    write_private(tmp_path / "account", b"nothing")
    with (
        pytest.raises(ServiceError, match=r"must contain the public key of a NATS account \(A...\) and the seed"),
        joinable_pool(tmp_path, broker=OtherBroker("tls://127.0.0.1:4222", tmp_path / "account")),
    ):
        pass
