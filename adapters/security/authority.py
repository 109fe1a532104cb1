"""The pool's own certificate authority: it issues the certificates with which roles serve HTTPS and NATS over TLS.

The private key never leaves its directory. Members of the pool receive the authority's certificate with their token, or
compare its fingerprint. Keys are on the curve P-256, as HTCondor's are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...domain.errors import PoolbookError
from .private_files import PrivateFileError, make_private_folder, read_private, write_private

AUTHORITY_LIFETIME: Final = timedelta(days=10 * 365)
HOST_LIFETIME: Final = timedelta(days=365)
_RENEWED_BEFORE: Final = timedelta(days=30)
_CLOCK_MARGIN: Final = timedelta(hours=1)  #: certificates are valid on machines whose clocks are behind
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*", re.ASCII)


class AuthorityError(PoolbookError):
    """A certificate cannot be used, or cannot be issued."""


class Authority:
    """The certificate authority in a private directory; created at first use.

    >>> authority = Authority(folder, "poola.example", now)
    >>> context.load_cert_chain(authority.certificate_for(["cm.poola.example", "10.0.0.1"], now))
    """

    def __init__(self, folder: Path, trust_domain: str, now: float) -> None:
        """Load the authority, or create it for a trust domain.

        :raises PrivateFileError: the directory or the key is accessible to other users
        :raises AuthorityError: the authority's files are damaged, or its certificate has expired
        """
        self._folder = folder
        make_private_folder(folder)
        if not self._file.exists():
            self._create(trust_domain, _time(now))
        self._key, self._certificate = self._load()
        if not (self.certificate_path.exists() and self.certificate_path.read_bytes() == _pem(self._certificate)):
            write_private(self.certificate_path, _pem(self._certificate))
        if self._certificate.not_valid_after_utc < _time(now):
            message = (
                f"the pool's certificate authority in {folder} has expired; remove that directory to create another"
            )
            raise AuthorityError(message)

    @property
    def _file(self) -> Path:
        """Return the file of the private key and the certificate: one file, so that they always belong together."""
        return self._folder / "ca.key"

    @property
    def certificate_path(self) -> Path:
        """Return the file of the authority's certificate (PEM), which clients trust."""
        return self._folder / "ca.pem"

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 digest of the authority's certificate, in hexadecimal."""
        return fingerprint(_pem(self._certificate))

    def certificate_for(self, hosts: Sequence[str], now: float) -> Path:
        """Return the file (PEM) of a server's private key and certificate for these host names and addresses, followed
        by the authority's certificate. Issue another one if the present certificate expires within 30 days, is for
        other hosts, or was not issued by this authority.

        :raises ValueError: there are no hosts, or one is neither a host name nor an address
        """
        names = {_normalized(host) for host in hosts}
        if invalid_names := [name for name in names if not (_address(name) or _HOST_NAME.fullmatch(name))]:
            raise ValueError(f"{invalid_names[0][:80]!r} is neither a host name nor an address")
        if not names:
            raise ValueError("a certificate needs at least one host name or address")
        file = self._folder / "host.pem"
        if not self._is_current(file, names, _time(now)):
            write_private(file, self._issue(sorted(names), _time(now)))
        return file

    def _load(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        content = read_private(self._file)
        try:
            key, certificate = load_pem_private_key(content, None), x509.load_pem_x509_certificate(content)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
                raise ValueError("the certificate belongs to another key")
        except (ValueError, TypeError) as error:
            message = f"the certificate authority in {self._file} is damaged ({error}); restore that file from a copy"
            raise AuthorityError(message) from None
        return key, certificate

    def _create(self, trust_domain: str, now: datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{trust_domain} (Poolbook)")
        end = now + AUTHORITY_LIFETIME
        builder = _certificate(name, name, key, now, end)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        certificate = builder.sign(key, SHA256())
        with suppress(FileExistsError):  # another process created it
            write_private(self._file, _key_pem(key) + _pem(certificate), replace=False)

    def _is_current(self, file: Path, names: Collection[str], now: datetime) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(read_private(file))
            certificate.verify_directly_issued_by(self._certificate)
            extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (PrivateFileError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        is_fresh = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEWED_BEFORE
        return is_fresh and {str(each.value) for each in extension.value} == set(names)

    def _issue(self, names: Sequence[str], now: datetime) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + HOST_LIFETIME, self._certificate.not_valid_after_utc)
        builder = _certificate(_name(names[0][:64]), self._certificate.subject, key, now, end)
        for extension, critical in (
            (x509.SubjectAlternativeName([_general_name(name) for name in names]), False),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage("digital_signature"), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        ):
            builder = builder.add_extension(extension, critical=critical)
        certificate = builder.sign(self._key, SHA256())
        return _key_pem(key) + _pem(certificate) + _pem(self._certificate)


def fingerprint(pem: bytes) -> str:
    """Return the SHA-256 digest of a certificate in PEM, in hexadecimal. Raise `AuthorityError` if it is invalid."""
    try:
        return x509.load_pem_x509_certificate(pem).fingerprint(SHA256()).hex()
    except ValueError:
        raise AuthorityError("the text is not a certificate in PEM") from None


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _normalized(host: str) -> str:
    name = host.strip().strip("[]").partition("%")[0].lower()  # without the interface of a link-local address
    return str(_address(name) or name)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _general_name(name: str) -> x509.GeneralName:
    address = _address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_MARGIN).not_valid_after(end)
    return builder.add_extension(identifier, critical=False)


def _usage(*purposes: str) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip
    return x509.KeyUsage(*(name in purposes for name in names))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
