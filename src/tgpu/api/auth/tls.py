"""Certificate and key for the TCP ports."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tgpu.settings.model import ApiSettings
from tgpu.text.system_words import system_words


class BadCertificate(Exception):
    """Why these files cannot be used, in a sentence."""


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path

    def pem(self) -> tuple[bytes, bytes]:
        """Private key and certificate chain, as `grpc.ssl_server_credentials` wants them paired."""
        return self.key.read_bytes(), self.certificate.read_bytes()


def certificate_of(settings: ApiSettings) -> Certificate | None:
    """None where none is set. Raises BadCertificate."""
    certificate, key = settings.tls_cert, settings.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadCertificate("api.tls_cert and api.tls_key belong together: set both, or none")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except FileNotFoundError:
        missing = certificate if not certificate.exists() else key
        raise BadCertificate(f"there is no file {missing} (api.tls_cert, api.tls_key)") from None
    except (OSError, ssl.SSLError) as error:
        raise BadCertificate(f"cannot use {certificate} with {key}: {_reason(error)}") from None
    return Certificate(certificate, key)


def _reason(error: OSError) -> str:
    """The TLS library has words of its own, and tells files apart by no path."""
    if not isinstance(error, ssl.SSLError):
        return system_words(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return "one of them is not a certificate or key in PEM format, or has a pass phrase"
