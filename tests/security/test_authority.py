"""The pool's certificate authority: real TLS connections trust its certificates, and no others."""

import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from poolbook.adapters.security.authority import Authority, AuthorityError, fingerprint
from poolbook.adapters.security.private_files import PrivateFileError

DAY = 86_400
NOW = 1_800_000_000.0
HOSTS = ["cm.poola.example", "127.0.0.1", "::1"]


def greeting(server: Path, trusted: Path, host: str) -> bytes:
    """Return what a client that trusts the authority `trusted` reads from a TLS server; raise `ssl.SSLError` if it does
    not trust the server."""
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(server)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server_context.wrap_socket(theirs, server_side=True) as connection:
                connection.sendall(b"hello")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ssl.create_default_context(cafile=trusted).wrap_socket(ours, server_hostname=host) as connection:
            return connection.recv(5)
    finally:
        ours.close()
        thread.join()


def now() -> float:
    import time

    return time.time()


@pytest.mark.parametrize("host", HOSTS)
def test_a_client_that_trusts_the_authority_trusts_the_server(tmp_path: Path, host: str) -> None:
    authority = Authority(tmp_path / "ca", "poola.example", now())
    certificate = authority.certificate_for(HOSTS, now())
    assert greeting(certificate, authority.certificate_path, host) == b"hello"


def test_a_client_rejects_another_host_and_another_authority(tmp_path: Path) -> None:
    authority, other = (Authority(tmp_path / name, "poola.example", now()) for name in ("ca", "other"))
    certificate = authority.certificate_for(HOSTS, now())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greeting(certificate, authority.certificate_path, "cm2.poola.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        greeting(certificate, other.certificate_path, HOSTS[0])
    assert authority.fingerprint != other.fingerprint


def test_the_authority_is_created_once(tmp_path: Path) -> None:
    first = Authority(tmp_path / "ca", "poola.example", NOW)
    again = Authority(tmp_path / "ca", "poola.example", NOW + DAY)
    assert first.fingerprint == again.fingerprint == fingerprint(first.certificate_path.read_bytes())
    assert len(first.fingerprint) == 64


def test_an_authority_that_several_processes_create_is_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        authorities = list(pool.map(lambda _: Authority(tmp_path / "ca", "poola.example", NOW), range(8)))
    assert len({each.fingerprint for each in authorities}) == 1


def test_a_certificate_is_issued_again_only_if_necessary(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "poola.example", NOW)

    def issued(hosts: list[str], at: float) -> str:
        return fingerprint(authority.certificate_for(hosts, at).read_bytes())

    first = issued(HOSTS, NOW)
    assert issued(["[0::1]", "127.0.0.1", "CM.poola.example"], NOW + 300 * DAY) == first
    renewed = issued(HOSTS, NOW + 340 * DAY)
    assert renewed != first
    assert issued(HOSTS, NOW + 600 * DAY) == renewed
    assert issued(HOSTS[:1], NOW + 600 * DAY) != renewed
    authority.certificate_for(HOSTS[:1], NOW + 600 * DAY).write_text("damaged")
    assert issued(HOSTS[:1], NOW + 600 * DAY)


def test_a_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "poola.example", NOW).certificate_for(HOSTS, NOW)
    authority = Authority(tmp_path / "ca", "poola.example", NOW)
    file = authority.certificate_for(HOSTS, NOW)
    file.write_bytes(other.read_bytes())
    assert fingerprint(authority.certificate_for(HOSTS, NOW).read_bytes()) != fingerprint(other.read_bytes())


def test_keys_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "poola.example", NOW)
    authority.certificate_for(HOSTS, NOW)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "ca").iterdir()}
    assert modes == dict.fromkeys(("ca.key", "ca.pem", "host.pem"), "0o600")
    os.chmod(tmp_path / "ca" / "ca.key", 0o644)
    with pytest.raises(PrivateFileError, match="other users have access"):
        Authority(tmp_path / "ca", "poola.example", NOW)


def test_a_damaged_or_expired_authority_is_an_error(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "poola.example", NOW)
    with pytest.raises(AuthorityError, match="has expired"):
        Authority(tmp_path / "ca", "poola.example", NOW + 4000 * DAY)
    authority.certificate_path.write_text("damaged")
    assert Authority(tmp_path / "ca", "poola.example", NOW).certificate_path.read_bytes() != b"damaged"
    other = Authority(tmp_path / "other", "poola.example", NOW)
    key = (tmp_path / "ca" / "ca.key").read_text().partition("-----BEGIN CERT")[0]
    (tmp_path / "ca" / "ca.key").write_text(key + other.certificate_path.read_text())
    with pytest.raises(AuthorityError, match="belongs to another key"):
        Authority(tmp_path / "ca", "poola.example", NOW)
    with pytest.raises(AuthorityError, match="not a certificate"):
        fingerprint(b"x")


@pytest.mark.parametrize("hosts", [[], [""], ["a b"], ["*.example"], ["a/b"], ["x" * 300], ["a..b"]])
def test_hosts_must_be_names_or_addresses(tmp_path: Path, hosts: list[str]) -> None:
    authority = Authority(tmp_path / "ca", "poola.example", NOW)
    with pytest.raises(ValueError):
        authority.certificate_for(hosts, NOW)
