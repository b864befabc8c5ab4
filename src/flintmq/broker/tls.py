"""TLS of one connection, without its socket; certificates.

A connection begins with it or does without, on the same port, as at RocketMQ's. The certificate is given, or made for
this run: the clients of 5.x trust any.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from typing import Final

from flintmq.errors import FormatError, MissingExtraError, UsageError
from flintmq.format.layout import Buffer

FIRST_BYTE: Final = 0x16  # of a handshake
_PIECE: Final = 256 << 10  # bytes that are taken out at a time
_DAYS: Final = 365  # of a certificate that is made here
PERMISSIVE, ENFORCING, DISABLED = "permissive", "enforcing", "disabled"
MODES: Final = (PERMISSIVE, ENFORCING, DISABLED)
"""What `tls.server.mode` may be: TLS and plain bytes, TLS alone, plain bytes alone."""


class TlsLayer:
    """The TLS of one connection, our side of it. Thread: the loop's."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._came, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._to_send, server_side=True)
        self._is_open = False  # the handshake is done

    def receive(self, data: Buffer) -> bytes:
        """Take what came; return the plain bytes in it.

        Raises FormatError: it is no TLS, or the client refuses ours.
        """
        self._came.write(data)
        parts = []
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while part := self._tls.read(_PIECE):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise FormatError(f"its TLS ended: {error.reason or error}") from None
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Encrypt bytes; `to_send` has them then."""
        if self._is_open and data:
            self._tls.write(data)

    def to_send(self) -> bytes:
        """Return, once, what is to go to the client."""
        return self._to_send.read()

    def end(self) -> None:
        """Tell the client that nothing more comes."""
        if self._is_open:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # it waits for the client's word, which nobody needs


def context_of(cert: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """Return what serves TLS with a certificate and its key, files in PEM.

    `key`: None: it is in the file of the certificate.

    Raises UsageError: they cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])  # without it the gRPC of Java and Go does not begin
    try:
        context.load_cert_chain(cert, key, password="")  # one that is locked is refused, and nobody is asked
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"{os.fspath(cert)}: {error.strerror or error}; give a certificate and its key") from None
    return context


def self_signed(hosts: Iterable[str]) -> ssl.SSLContext:
    """Return what serves TLS with a certificate made now, for these hosts and this machine.

    Raises MissingExtraError: `cryptography` is not installed.
    """
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # 0600; the library reads files alone
        file.write(_made(hosts))
        file.flush()
        return context_of(file.name, None)


def _made(hosts: Iterable[str]) -> bytes:
    """Return a new certificate and its key, in PEM."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtraError("a certificate is made by cryptography: pip install 'flintmq[tls]'") from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flintmq")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(("localhost", "127.0.0.1", "::1", *hosts)):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
